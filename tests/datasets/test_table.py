"""The table of data sets: golden statistics, and a graph of another size is refused by field."""

import dataclasses

import numpy as np
import pytest

from caribou.datasets.table import PUBLIC, Public, check_statistics
from caribou.errors import DataError
from caribou.graph import Graph


def test_golden_statistics():
    """Planetoid and Amazon as published (Yang et al. 2016; Shchur et al. 2018), edges in both directions."""
    found = {name: (s.nodes, s.edges, s.features, s.classes) for name, s in PUBLIC.items()}
    assert found["cora"] == (2708, 10556, 1433, 7)
    assert found["citeseer"] == (3327, 9104, 3703, 6)
    assert found["pubmed"] == (19717, 88648, 500, 3)
    assert found["photo"] == (7650, 238162, 745, 8)
    assert found["computers"] == (13752, 491722, 767, 10)


def test_names_and_files_are_unique():
    assert all(name == spec.name for name, spec in PUBLIC.items())
    files = [file for spec in PUBLIC.values() for file in spec.files]
    assert len(files) == len(set(files))
    assert all(spec.files[0] == f"{name}.npz" for name, spec in PUBLIC.items())


@pytest.mark.parametrize("field", ["nodes", "edges", "features", "classes"])
def test_another_graph_is_refused_by_field_and_values(field):
    graph = Graph.from_edges(np.eye(3), [[0, 1], [1, 2]], labels=[0, 1, 0])
    spec = Public("tiny", 3, 4, 3, 2, "here", ("tiny.npz",))
    check_statistics(graph, spec, "a.npz")
    expected = getattr(spec, field)
    with pytest.raises(
        DataError,
        match=rf"^a.npz: {field}.* of tiny must be {expected + 1}, found {expected}: this is another data set",
    ):
        check_statistics(graph, dataclasses.replace(spec, **{field: expected + 1}), "a.npz")
