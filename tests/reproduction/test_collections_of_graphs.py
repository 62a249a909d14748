"""Collections: groups and classes are what they say, class means are shared, and features alone do not tell the class."""

from __future__ import annotations

import numpy as np
import pytest
from reproduction.collections_of_graphs import load_collection


def test_each_chain_is_a_graph_of_the_class_of_its_nodes() -> None:
    found = load_collection("chain-m:4", seed=1)
    assert len(found.labels) == 8
    assert np.bincount(found.groups).tolist() == [10] * 8
    assert np.array_equal(found.labels[found.groups], found.graph.labels)
    u, v = found.graph.edge_index
    assert np.array_equal(found.groups[u], found.groups[v]), "no edge between chains"


def test_hubs_are_nodes_of_the_graph_s_class() -> None:
    found = load_collection("hubs:graphs=40,nodes=40", seed=2)
    u, v = found.graph.edge_index
    assert np.array_equal(found.groups[u], found.groups[v]), "separate graphs"
    hub = found.graph.labels == found.labels[found.groups]
    degrees = found.graph.degrees
    assert degrees[hub].mean() > 2.5 * degrees[~hub].mean()
    assert hub.mean() == 0.25


def test_members_prefer_partners_of_the_group_s_class() -> None:
    found = load_collection("partners:graphs=40,nodes=40,average_degree=20", seed=2)
    u, v = found.graph.edge_index
    assert (found.groups[u] != found.groups[v]).mean() > 0.9, "one network"
    preferred = found.graph.labels[v] == found.labels[found.groups[u]]
    assert 0.35 < preferred.mean() < 0.6, "4/7 of the edges that a member makes, 1/4 of those that others make"


@pytest.mark.parametrize("name", ["hubs:graphs=40", "partners:graphs=40"])
def test_every_graph_has_equally_many_nodes_of_every_class(name: str) -> None:
    found = load_collection(name, seed=3)
    counts = [np.bincount(found.graph.labels[found.groups == g], minlength=4).tolist() for g in range(40)]
    assert counts == [[10] * 4] * 40
    assert np.bincount(found.labels).tolist() == [10] * 4
