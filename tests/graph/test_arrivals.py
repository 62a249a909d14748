"""Arrivals: everybody who was ever there keeps a place, arrivals come after them by name, and no order of a file matters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from blocked_support import cut
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.graph.arrivals import Arrivals, named_rows
from caribou.tables.rules import ColumnRules

IDS = ["dan", "ann", "eve", "bob", "cem"]
EDGES = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])


def graph(order: list[int], sparse: bool = False) -> Graph:
    """The path dan - ann - eve - bob - cem with its nodes in this order."""
    at = np.argsort(order)
    features = np.eye(5)[order]
    return Graph.from_edges(
        sp.csr_array(features) if sparse else features,
        at[EDGES],
        labels=np.arange(5)[order] % 2,
        split=Split(at[[0, 2]], at[[1]], at[[3, 4]]),
        node_ids=np.array(IDS)[order],
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_old_nodes_keep_their_order_and_arrivals_come_by_name(sparse: bool) -> None:
    rng = np.random.default_rng(0)
    known = Arrivals((2,), ("eve", "ann"))
    first = known.grown(graph([0, 1, 2, 3, 4], sparse))
    assert first.arrivals == Arrivals((2, 3), ("eve", "ann", "bob", "cem", "dan"))
    assert (first.batch, first.present.tolist()) == (2, [True, True, False, False, False])
    g = first.graph
    assert [g.has_edge(*pair) for pair in ((4, 1), (1, 0), (0, 2), (2, 3))] == [True] * 4
    assert g.num_edges == 4
    assert g.labels.tolist() == [0, 1, 1, 0, 0]
    assert (g.split.train.tolist(), g.split.val.tolist()) == ([0, 4], [1])
    for _ in range(5):
        other = known.grown(graph(list(rng.permutation(5)), sparse)).graph
        assert other.edge_index.tolist() == g.edge_index.tolist()
        assert (other.labels == g.labels).all()
        assert (other.features != g.features).sum() == 0


def test_whoever_left_keeps_a_place_without_edges() -> None:
    known = Arrivals((2, 1), ("gone", "dan", "ann"))
    grown = known.grown(graph([0, 1, 2, 3, 4]))
    assert grown.arrivals.ids == ("gone", "dan", "ann", "bob", "cem", "eve")
    assert len(grown.graph.neighbours(0)) == 0
    assert grown.graph.labels[0] == -1
    back = grown.arrivals.grown(
        Graph.from_edges(np.eye(2), [[0], [1]], node_ids=np.array(["gone", "new"]), labels=[0, 1])
    )
    assert back.present.tolist() == [True] * 6 + [False], "who comes back was there before"


def test_without_names_the_first_rows_are_the_old_nodes() -> None:
    bare = Graph.from_edges(np.eye(4), [[0, 1], [1, 3]])
    grown = Arrivals((3,)).grown(bare)
    assert grown.present.tolist() == [True, True, True, False]
    assert grown.arrivals == Arrivals((3, 1))
    with pytest.raises(InputError, match="must begin with the 5 nodes"):
        Arrivals((5,)).grown(bare)


def test_refusals() -> None:
    whole = graph([0, 1, 2, 3, 4])
    with pytest.raises(InputError, match="must hold a node that has not been there before"):
        Arrivals((5,), tuple(IDS)).grown(whole)
    with pytest.raises(InputError, match="got names in the graph and none in the model"):
        Arrivals((2,)).grown(whole)
    with pytest.raises(InputError, match="got names in the model and none in the graph"):
        Arrivals((2,), ("a", "b")).grown(Graph.from_edges(np.eye(4), [[0], [1]]))
    with pytest.raises(InputError, match="ids must be 2 different names"):
        Arrivals((2,), ("a", "a"))
    with pytest.raises(InputError, match="batch must be"):
        Arrivals((2, 0), ("a", "b"))


SPELLINGS = [
    *(("0001", "1"), ("1", "01"), ("Ann", "ann"), ("é", "e\u0301"), ("ann", " ann"), ("1", "1.0"), ("12", "+12")),
    *(("12", "\u0661\u0662"), ("acc 1", "acc  1"), ("acc-1", "acc\u20111"), ("acc-1", "acc\u22121")),
    *(("ann", "\ufeffann"), ("ann", "ann\u200b"), ("ann", "'ann'"), ("ann", "\u201cann\u201d")),
]


def test_a_known_node_in_another_spelling_is_no_arrival() -> None:
    """A table program that drops leading zeros would have everybody asked again."""
    for before, after in SPELLINGS:
        known = Arrivals((3,), (before, "bob", "cem"))
        renamed, same = (
            Graph.from_edges(np.eye(4), [[0], [1]], node_ids=np.array([name, "bob", "cem", "dan"]))
            for name in (after, before)
        )
        with pytest.raises(InputError, match=r"ids must be spelled as in the model.*spend=True, --spend"):
            known.require_same_people(renamed, left=True)
        known.require_same_people(same)


def test_half_of_the_known_nodes_must_be_there_or_have_left() -> None:
    new_ids = Graph.from_edges(np.eye(3), [[0], [1]], node_ids=np.array(["ann", "x", "y"]))
    known = Arrivals((2, 1), ("ann", "bob", "cem"))
    assert known.found(new_ids) == 1
    with pytest.raises(InputError, match=r"at least half of the 3 known nodes, got 1.*left=True, --left"):
        known.require_same_people(new_ids)
    known.require_same_people(new_ids, left=True)
    Arrivals((2,), ("ann", "bob")).require_same_people(new_ids)


@pytest.mark.parametrize("pair", [("v1", "v1.0"), ("1-11", "11-1"), ("a1", "a01"), ("a 1", "a1"), ("12", "1.2")])
def test_other_names_are_arrivals(pair: tuple[str, str]) -> None:
    names = np.array([*pair, "bob"])
    Arrivals((2,), (pair[0], "bob")).require_same_people(Graph.from_edges(np.eye(3), [[0], [1]], node_ids=names))


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_without_names_are_known_by_their_features(sparse: bool) -> None:
    """A row that is moved would be asked again in its new place."""
    x = np.random.default_rng(0).normal(size=(8, 3))
    x[1] = 0.0

    def of(rows: np.ndarray) -> Graph:
        return Graph.from_edges(sp.csr_array(rows) if sparse else rows, [[0], [1]])

    known = Arrivals((6,), rows=named_rows(of(x[:6])))
    changed = np.concatenate([x[:4], x[4:] + 1])
    for graph in (of(x), of(changed), Graph.from_edges(x, [[0], [1]])):
        known.require_same_people(graph)
    exchanged, inserted = x[[1, 0, *range(2, 8)]], x[[0, 6, *range(1, 6), 7]]
    for rows, words in (
        (exchanged, "row 0 with the features that row 1 had"),
        (inserted, "got row 2 with"),
        (x + 1, "0 of 6"),
    ):
        with pytest.raises(InputError, match=f"rows without ids must be where they were.*{words}.*--same-order"):
            known.require_same_people(of(rows))
        known.require_same_people(of(rows), same_order=True)
    for unknown in (Arrivals((6,)), Arrivals((6,), rows=("same",) * 6)):
        with pytest.raises(InputError, match="0 of 0 rows that are like no other"):
            unknown.require_same_people(of(x))


def test_column_rules_come_along() -> None:
    rules = ColumnRules(ranges={"age": (18, 95)})
    told = replace(graph([0, 1, 2, 3, 4]), column_rules=rules)
    assert Arrivals((2,), ("eve", "ann")).grown(told).graph.column_rules == rules


def test_a_graph_in_blocks_keeps_its_rows_and_is_refused_where_they_would_move() -> None:
    graph = Graph.from_edges(np.eye(4), [[0, 1], [1, 2]], node_ids=np.arange(4))
    grown = Arrivals((2,), ("0", "1")).grown(cut(graph, 2))
    assert grown.graph.num_edges == 2
    assert grown.present.tolist() == [True, True, False, False]
    for known in (("1", "0"), ("0", "9")):  # another order; one who has left
        with pytest.raises(InputError, match="rows of a graph in blocks must be the nodes of the model"):
            Arrivals((2,), known).grown(cut(graph, 2))


def test_arrivals_with_numbers_as_ids_come_by_size() -> None:
    graph = Graph.from_edges(np.eye(12), [[0], [11]], node_ids=np.arange(12))
    assert Arrivals((2,), ("0", "1")).grown(graph).arrivals.ids == tuple(map(str, range(12)))
