"""GraphSAGE: aggregation and its gradient against dense algebra, which epoch is kept, what it reads, and a saved one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from caribou.datasets import load
from caribou.models.sage import Neighbourhoods, SageModel, fit_sage
from caribou.models.sage_config import SageConfig

GRAPH = load("csbm:nodes=120,classes=3,features=6,average_degree=8,signal=1.5", seed=1)
PAIRS = np.asarray(GRAPH.edge_index)
PAIRS = PAIRS[:, PAIRS[0] < PAIRS[1]]
AROUND = Neighbourhoods.of(PAIRS, GRAPH.num_nodes)
DENSE = np.asarray(GRAPH.adjacency().todense())
CONFIG = SageConfig(hidden=8, epochs=20, learning_rate=0.03)
SPLIT, LABELS = GRAPH.split, np.array(GRAPH.labels)


def fit(seed: int = 1, val=None, labels: np.ndarray = LABELS, features=None, around=AROUND, **changes) -> SageModel:
    return fit_sage(
        GRAPH.features if features is None else features,
        around,
        labels,
        train=SPLIT.train,
        val=SPLIT.val if val is None else val,
        classes=3,
        config=replace(CONFIG, **changes),
        seed=seed,
    )


def same(one: SageModel, two: SageModel) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one.to_arrays().values(), two.to_arrays().values(), strict=True))


@pytest.mark.parametrize("aggregator", ["mean", "sum"])
def test_aggregation_and_its_gradient_are_those_of_the_dense_matrix(aggregator: str) -> None:
    x, right = torch.randn(120, 4), torch.randn(120, 4)
    factor = torch.from_numpy(1 / np.maximum(DENSE.sum(axis=1, keepdims=True), 1)).float()
    matrix = torch.from_numpy(DENSE).float() * (factor if aggregator == "mean" else 1)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, expected = AROUND.aggregate(ours, aggregator), matrix @ theirs
    assert torch.allclose(out, expected, atol=1e-5)
    (out * right).sum().backward()
    (expected * right).sum().backward()
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-5)


def test_scores_are_the_formula_written_out() -> None:
    model = fit(layers=2)
    w = {name.removeprefix("sage."): value.astype(np.float64) for name, value in model.to_arrays().items()}

    def selu(x: np.ndarray) -> np.ndarray:
        return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1))

    h = selu(model.scaling(GRAPH.features) @ w["first.weight"].T + w["first.bias"])
    h = h @ w["second.weight"].T + w["second.bias"]
    mean = DENSE / np.maximum(DENSE.sum(axis=1, keepdims=True), 1)
    for i in range(2):
        h = selu(h)
        h = h @ w[f"roots.{i}.weight"].T + w[f"roots.{i}.bias"] + mean @ h @ w[f"neighbours.{i}.weight"].T
        h /= np.linalg.norm(h, axis=1, keepdims=True)
    expected = selu(h) * 8**0.5 @ w["head.weight"].T + w["head.bias"]
    assert np.allclose(model.scores(GRAPH.features, AROUND), expected, atol=1e-4)


def test_deterministic_per_seed_and_the_global_generator_is_left_alone() -> None:
    state = torch.get_rng_state()
    assert same(fit(), fit())
    assert not same(fit(), fit(seed=2))
    assert torch.equal(torch.get_rng_state(), state)


def test_test_labels_are_not_read_but_edges_are() -> None:
    other = LABELS.copy()
    other[SPLIT.test] = (other[SPLIT.test] + 1) % 3
    assert same(fit(), fit(labels=other))
    assert not same(fit(), fit(around=Neighbourhoods.of(PAIRS[:, :-5], GRAPH.num_nodes)))
