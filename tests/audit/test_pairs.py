"""Worst-case neighbours: they differ in one edge or node, cover every kind of edge, and attain the sensitivity."""

from __future__ import annotations

import numpy as np

from caribou.audit.pairs import edge_pair, member_pair, star_graphs, worst_pairs, worst_rows
from caribou.graph.operator import normalize
from caribou.privacy.mechanism_records import Group
from caribou.privacy.sensitivity import Bounds, edge_sensitivity


def test_pairs_are_neighbours() -> None:
    for pair in worst_pairs("edge"):
        assert pair.joined.num_edges == pair.without.num_edges + 1
        assert np.array_equal(pair.joined.features, pair.without.features)
    node = member_pair()
    assert node.without.absent.tolist() == [node.hidden]
    assert node.joined.num_nodes == node.without.num_nodes
    scores = edge_pair("x", 0, 1).scores({"t": np.arange(24.0).reshape(12, 2), "edges": np.array([[0, 5], [1, 6]])})
    assert scores["edges lists the pair"] == 1.0
    assert scores["t, other end"] == 1 + 2  # t[0, class of 1] + t[1, class of 0]


def test_pairs_have_an_edge_of_every_kind() -> None:
    """Between any two parts of the split, beside other neighbours, and one that closes a triangle."""
    kinds, triangles = set(), []
    for pair in worst_pairs("edge"):
        (u, v) = next(edge for edge in pair.joined.edge_index.T.tolist() if not pair.without.has_edge(*edge))
        split = pair.joined.split
        part = {int(w): name for name in ("train", "val", "test") for w in getattr(split, name)}
        kinds.add(frozenset((part[u], part[v])))
        triangles.append(len(np.intersect1d(pair.without.neighbours(u), pair.without.neighbours(v))))
    assert len(kinds) == 6
    assert max(triangles) == 2


def test_the_worst_rows_of_the_stars_attain_the_edge_sensitivity() -> None:
    for floor in (1, 2, 3, 5):
        operators = [normalize(g, Bounds(degree_floor=floor)).matrix.to_dense().numpy() for g in star_graphs(floor)]
        x = worst_rows(operators[1] - operators[0], np.random.default_rng(0))
        reached = np.linalg.norm((operators[1] - operators[0]) @ x)
        bound = edge_sensitivity(contraction=1.0, alpha1=1.0, degree_floor=floor)
        assert 0.97 * bound <= reached <= bound * (1 + 1e-9)


def test_nodes_of_every_part_are_played_and_hubs_among_them() -> None:
    pairs = worst_pairs("node")
    assert {pair.group for pair in pairs} == {Group.TRAINING, Group.VALIDATION, Group.OTHERS}
    hubs = [pair for pair in pairs if pair.degree == pair.joined.num_nodes - 1]
    assert {pair.group for pair in hubs} == {Group.TRAINING, Group.OTHERS}
    for pair in pairs:
        assert pair.without.absent.tolist() == [pair.hidden]
        assert pair.joined.labels[pair.hidden] == 2
        assert pair.joined.degrees[pair.hidden] == pair.degree > 0
    assert edge_pair("x", 0, 1).degree is None
    crowded = next(pair for pair in pairs if pair.joined.degrees.min() == pair.joined.num_nodes - 1)
    assert crowded.without.degrees.max() > 3, "neighbourhoods stay longer than a cap when the node leaves"
