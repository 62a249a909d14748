"""The public numbers of a graph: equal for neighbours at the unit, so a plan made from them cannot tell them apart."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from caribou.graph import Graph, Split
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.sizes import Sizes

GRAPH = Graph.from_edges(
    np.arange(10.0).reshape(5, 2),
    [[0, 1, 2], [1, 2, 3]],
    labels=[0, 1, 2, 0, 1],
    split=Split([0, 1], [2], [3, 4]),
    classes=3,
)


def test_they_are_what_a_graph_declares() -> None:
    assert GRAPH.sizes(PrivacyUnit.EDGE) == Sizes(nodes=5, columns=2, classes=3, train=2, val=1, test=2)
    bare = Graph.from_edges(np.zeros((4, 1)), [[0], [1]])
    assert bare.sizes(PrivacyUnit.NODE) == Sizes(4, 1)
    assert not {"edges", "degrees"} & asdict(GRAPH.sizes(PrivacyUnit.EDGE)).keys()


@pytest.mark.parametrize("unit", PrivacyUnit)
def test_no_edge_changes_them(unit: PrivacyUnit) -> None:
    for neighbour in (GRAPH.without_edge(0, 1), GRAPH.with_edge(0, 4)):
        assert neighbour.sizes(unit) == GRAPH.sizes(unit)


@pytest.mark.parametrize("node", range(5))
def test_no_node_changes_them_at_node_level(node: int) -> None:
    assert GRAPH.without_node(node).sizes(PrivacyUnit.NODE) == GRAPH.sizes(PrivacyUnit.NODE)
