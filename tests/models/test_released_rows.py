"""Released rows are read as they are; a graph in their place is refused without a look at its edges."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

import caribou as cb
from caribou.errors import InputError
from caribou.models.released_rows import refuse_graph, released_rows, released_state


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
