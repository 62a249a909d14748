"""The table of data sets: golden statistics, and a graph of another size is refused by field."""

from caribou.datasets.table import PUBLIC


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
