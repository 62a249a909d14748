"""Released rows are read as they are; a graph in their place is refused without a look at its edges."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.special import log_softmax

import caribou as cb
from caribou.errors import InputError
from caribou.models.released_rows import (
    SoftmaxRegression,
    fit_softmax_regression,
    refuse_graph,
    released_rows,
    released_state,
)


def guarded(graph: cb.Graph) -> cb.Graph:
    """The graph, in which every look at an edge raises."""

    class Guarded(cb.Graph):
        def __getattribute__(self, name: str) -> Any:
            if name in ("indptr", "indices", "edge_index", "degrees", "num_edges", "adjacency", "neighbours"):
                raise AssertionError(f"{name} was read")
            return super().__getattribute__(name)

    copy = object.__new__(Guarded)
    copy.__dict__.update(graph.__dict__)
    return copy


def test_the_state_is_taken_as_it_is_and_sums_at_length_one() -> None:
    state = np.array([[0.3, 0.4]])
    assert released_rows({"state": state, "sums_1": np.ones((1, 2))}).tolist() == state.tolist()
    sums = {f"sums_{k}": np.array([[float(k), 0.0]]) for k in range(1, 12)}
    assert released_rows(sums).tolist() == [[1.0, 0.0] * 11], "in the order of the hops: 10 comes after 9"


def test_tensors_and_embeddings_are_rows() -> None:
    graph = cb.datasets.load("csbm", nodes=60, seed=1)
    bounds = cb.Bounds(degree_floor=10)
    found = cb.release(graph, cb.ContractiveGraphLayer(), hops=1, budget=cb.Budget(4), bounds=bounds)
    assert np.array_equal(released_state(found), found.state.numpy())
    assert released_state(torch.eye(2)).dtype == np.float64
    free = cb.release(graph, cb.ContractiveGraphLayer(), hops=1, budget=cb.Budget(float("inf")), bounds=bounds)
    with pytest.warns(UserWarning, match="the certificate of this release is 'no privacy'.*do not publish"):
        released_state(free)


@pytest.mark.parametrize("kind", ["Graph", "Data", "csr_array", "networkx"])
def test_a_graph_is_refused(kind: str) -> None:
    graph = cb.datasets.load("csbm", nodes=60, seed=1)
    other = {"Graph": graph, "Data": graph.to_pyg(), "csr_array": graph.adjacency(), "networkx": nx.path_graph(3)}[kind]
    with pytest.raises(InputError, match=r"state must be released rows \[n, d\].*not covered by the certificate"):
        released_state(other)


def test_a_refusal_reads_no_edge() -> None:
    graph = guarded(cb.datasets.load("csbm", nodes=60, seed=1))
    with pytest.raises(AssertionError, match="edge_index was read"):
        _ = graph.edge_index
    with pytest.raises(InputError, match="pairs must be public"):
        refuse_graph("pairs", graph, "public")


def test_a_method_without_rows_is_named_what_it_lacks() -> None:
    with pytest.raises(InputError, match=r"released must hold state or sums_1.*caribou-ndp.*got probabilities"):
        released_rows({"probabilities": np.ones((2, 2))})


def objective(weights: np.ndarray, z: np.ndarray, labels: np.ndarray, ridge: float) -> float:
    logs = log_softmax(z @ weights[:-1] + weights[-1], axis=1)
    return float(-logs[np.arange(len(labels)), labels].mean() + ridge / 2 * (weights[:-1] ** 2).sum())


def weights(model: SoftmaxRegression) -> np.ndarray:
    """A above b, [d + 1, C]."""
    fitted = model.model[-1]
    found = np.vstack([fitted.coef_.T, fitted.intercept_])
    return np.hstack([-found / 2, found / 2]) if found.shape[1] == 1 else found


def test_no_step_in_any_direction_improves_the_optimum() -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((60, 4)) * [1, 5, 0.1, 2] + 3, rng.integers(3, size=60)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    for classes in (3, 2):
        y = np.minimum(labels, classes - 1)
        found = weights(fit_softmax_regression(x, y, classes, ridge=0.05))
        best = objective(found, z, y, 0.05)
        for _ in range(50):
            assert objective(found + 0.05 * rng.standard_normal(found.shape), z, y, 0.05) > best


def test_a_constant_column_changes_nothing() -> None:
    rng = np.random.default_rng(2)
    x, labels = rng.standard_normal((40, 2)), rng.integers(2, size=40)
    plain = fit_softmax_regression(x, labels, 2)(x)
    wide = np.hstack([x, np.full((40, 1), 7.0)])
    assert fit_softmax_regression(wide, labels, 2)(wide) == pytest.approx(plain, abs=1e-4)
    assert plain.sum(axis=1) == pytest.approx(1)
