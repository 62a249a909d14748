"""The likelihood of noisy sums: against densities written out, and recovered from sums that were drawn from it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from caribou.models import count_likelihood
from caribou.models.count_likelihood import MULTIPLIERS
from caribou.models.sum_likelihood import SPREAD, SumModel, fit_sum_model

PROFILES = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 1.0], [0.2, 0.7, 5.0]])
WEIGHTS = np.arange(1.0, len(MULTIPLIERS) + 1) / np.arange(1.0, len(MULTIPLIERS) + 1).sum()
NOISE_STD = 0.8


def drawn(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums and labels from the model itself, all degrees alike."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    mean = PROFILES[labels]
    return mean + rng.standard_normal((n, 3)) * np.sqrt(NOISE_STD**2 + mean + (SPREAD * mean) ** 2), labels


@pytest.mark.parametrize("part", [2, 5])
def test_evidence_is_the_mixture_of_densities_written_out(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count_likelihood, "PART", part)
    sums = np.random.default_rng(0).normal(2, 3, (5, 3))
    expected = np.empty((5, 3))
    for k in range(3):
        each = []
        for theta, weight in zip(MULTIPLIERS, WEIGHTS, strict=True):
            mean = theta * PROFILES[k]
            std = np.sqrt(NOISE_STD**2 + mean + (SPREAD * mean) ** 2)
            each.append(np.log(weight) + stats.norm.logpdf(sums, mean, std).sum(axis=1))
        expected[:, k] = logsumexp(each, axis=0)
    expected -= expected.max(axis=1, keepdims=True)
    assert np.allclose(SumModel(PROFILES, WEIGHTS, NOISE_STD).evidence(sums), expected)


def test_profiles_and_degrees_are_recovered() -> None:
    """Profiles from 10,000 calibration nodes, to some standard errors of the largest entry."""
    sums, labels = drawn(20_000, 0)
    calibration = np.arange(10_000)
    model = fit_sum_model(sums, calibration, labels, np.full((20_000, 3), 1 / 3), np.full(3, 1 / 3), NOISE_STD)
    assert np.allclose(model.profiles, PROFILES, atol=0.2)
    assert MULTIPLIERS[model.weights.argmax()] == 1.0
    assert model.weights.sum() == pytest.approx(1)
    fresh, truth = drawn(1000, 1)
    oracle = SumModel(PROFILES, np.where(MULTIPLIERS == 1.0, 1.0, 1e-12), NOISE_STD)
    ours, best = ((m.evidence(fresh).argmax(axis=1) == truth).mean() for m in (model, oracle))
    assert best > 0.75
    assert ours > best - 0.03


def test_labels_of_other_nodes_are_not_read() -> None:
    sums, labels = drawn(300, 2)
    calibration, prior = np.arange(0, 300, 3), np.full((300, 3), 1 / 3)
    models = []
    for changed in (False, True):
        y = labels.copy()
        if changed:
            y[np.setdiff1d(np.arange(300), calibration)] = 0
        models.append(fit_sum_model(sums, calibration, y, prior, np.full(3, 1 / 3), NOISE_STD))
    assert np.array_equal(models[0].profiles, models[1].profiles)
    assert np.array_equal(models[0].weights, models[1].weights)
    assert np.array_equal(prior, np.full((300, 3), 1 / 3)), "the prior that was given is not changed"


def test_more_noise_means_less_evidence() -> None:
    sums, _ = drawn(200, 3)
    sizes = [np.abs(SumModel(PROFILES, WEIGHTS, std).evidence(sums)).mean() for std in (0.5, 2.0, 8.0, 1000.0)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 0.01


def test_arrays_of_a_saved_model() -> None:
    arrays = SumModel(PROFILES, WEIGHTS, NOISE_STD).to_arrays()
    assert set(arrays) == {"sums.profiles", "sums.weights", "sums.noise_std"}
    assert float(arrays["sums.noise_std"]) == NOISE_STD
