"""The classification module: its formula, which epoch is kept, which labels it reads, and a saved one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from caribou.models import classifier
from caribou.models.classifier import (
    ClassificationModule,
    ClassifierConfig,
    classify,
    embed,
    fit_classifier,
)

N, CLASSES = 90, 3
RNG = np.random.default_rng(0)
LABELS = RNG.integers(CLASSES, size=N)
INPUTS = [np.eye(CLASSES, 5)[LABELS] + 0.7 * RNG.standard_normal((N, 5)), RNG.standard_normal((N, 2))]
TRAIN, VAL, REST = np.arange(40), np.arange(40, 60), np.arange(60, N)
CONFIG = ClassifierConfig(hidden=6, epochs=25, learning_rate=0.05)


def fit(seed: int = 1, val: np.ndarray = VAL, labels: np.ndarray = LABELS, **changes) -> ClassificationModule:
    config = replace(CONFIG, **changes)
    return fit_classifier(INPUTS, labels, train=TRAIN, val=val, classes=CLASSES, config=config, seed=seed)


def arrays(module: ClassificationModule) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in module.state_dict().items()}


def same(one: ClassificationModule, two: ClassificationModule) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(arrays(one).values(), arrays(two).values(), strict=True))


def selu(x: np.ndarray) -> np.ndarray:
    """Klambauer et al. 2017, with their two constants."""
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1))


@pytest.mark.parametrize("part", [7, N])
def test_scores_are_the_formula_written_out(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifier, "PART", part)
    module = fit()
    w = {name: value.astype(np.float64) for name, value in arrays(module).items()}
    bases = [x @ w[f"bases.{i}.0.weight"].T + w[f"bases.{i}.0.bias"] for i, x in enumerate(INPUTS)]
    expected = selu(np.hstack(bases)) @ w["head.weight"].T + w["head.bias"]
    scores = classify(module, INPUTS)
    assert scores.dtype == np.float64
    assert np.allclose(scores, expected, atol=1e-4)


def test_an_embedding_is_what_the_last_base_layer_makes_of_its_own_input() -> None:
    module = fit()
    w = {name: value.astype(np.float64) for name, value in arrays(module).items()}
    expected = selu(INPUTS[-1] @ w["bases.1.0.weight"].T + w["bases.1.0.bias"])
    found = embed(module, INPUTS[-1])
    assert found.dtype == np.float64
    assert np.allclose(found, expected, atol=1e-5)
    assert np.allclose(embed(module, INPUTS[-1][:7]), found[:7], atol=1e-6), "each row alone, and no dropout"


def test_deterministic_per_seed_and_the_global_generator_is_left_alone() -> None:
    state = torch.get_rng_state()
    assert same(fit(), fit())
    assert not same(fit(), fit(seed=2))
    assert torch.equal(torch.get_rng_state(), state)


def test_labels_outside_training_and_validation_are_not_read() -> None:
    other = LABELS.copy()
    other[REST] = (other[REST] + 1) % CLASSES
    assert same(fit(), fit(labels=other))
    other = LABELS.copy()
    other[TRAIN[0]] = (other[TRAIN[0]] + 1) % CLASSES
    assert not same(fit(), fit(labels=other))
