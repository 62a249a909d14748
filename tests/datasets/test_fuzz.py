"""Damaged files: `read_graph` returns a graph or raises a `CaribouError`, nothing else.

Every case is a function of its number, so a failure can be repeated. ``CARIBOU_FUZZ_CASES`` sets the number of cases per
file (default 40).
"""

import os
import random
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from caribou.datasets import read_graph
from caribou.errors import CaribouError
from caribou.graph import Graph

CASES = int(os.environ.get("CARIBOU_FUZZ_CASES", "40"))
FIRST = int(os.environ.get("CARIBOU_FUZZ_FIRST", "0"))


def damage(content, rng):
    """Change a few bytes, cut, repeat or insert."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        kind = rng.randrange(6)
        at = rng.randrange(len(data) + 1) if data else 0
        if kind == 0 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 1 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at : at + rng.randrange(1, 9)]
        elif kind == 4:
            data[at:at] = rng.choice(
                [b"\x00", b"\xff\xff", b",", b"\n", b'"', b"<", b"nan", b"-1", b"1e999", b"99999999999"]
            )
        else:
            data[at:at] = data[at : at + rng.randrange(1, 64)]
    return bytes(data)


def damage_member(source, target, rng):
    """Damage one member of a zip archive and pack it again, so that the checksums are right."""
    with zipfile.ZipFile(source) as archive:
        members = {entry: archive.read(entry) for entry in archive.namelist()}
    victim = rng.choice(sorted(members))
    members[victim] = damage(members[victim], rng)
    with zipfile.ZipFile(target, "w") as archive:
        for entry, content in members.items():
            archive.writestr(entry, content)


def outcome(*arguments):
    """The graph or the error, and nothing else."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            graph = read_graph(*arguments)
        except CaribouError as error:
            refused = error
        else:
            refused = None
    if refused is not None:
        assert "\n" not in str(refused)
        return refused
    assert isinstance(graph, Graph)
    # What was accepted keeps the rules: the constructor checks them all.
    Graph(graph.features, graph.indptr, graph.indices, graph.labels, graph.split, absent=graph.absent)
    return graph


@pytest.mark.parametrize(
    ("key", "victim"),
    [("csv", 0), ("csv", 1), ("parquet", 0), ("parquet", 1), ("npz", 0), ("sparse", 0)],
)
def test_damaged_bytes(valid_files, tmp_path, key, victim):
    files = list(valid_files[key])
    source, files[victim] = files[victim], tmp_path / files[victim].name
    for case in range(FIRST, FIRST + CASES):
        files[victim].write_bytes(damage(source.read_bytes(), random.Random(f"{key} {victim} {case}")))
        outcome(*files)


@pytest.mark.parametrize("key", ["npz", "sparse"])
def test_damaged_members(valid_files, tmp_path, key):
    (source,) = valid_files[key]
    for case in range(FIRST, FIRST + CASES):
        damage_member(source, tmp_path / source.name, random.Random(f"{key} member {case}"))
        outcome(tmp_path / source.name)


CELLS = st.one_of(
    st.sampled_from(
        ["", "0", "1", "2", "-1", "1.0", "01", "nan", "inf", "1e400", "NA", "train", "val", "test", '"', "x"]
    ),
    st.text(max_size=6),
)
TITLES = st.sampled_from(["id", "node", "label", "y", "split", "f", "g", "ID", "", "1"])
TABLES = st.tuples(st.lists(TITLES, max_size=4), st.lists(st.lists(CELLS, max_size=4), max_size=5))


@given(nodes=TABLES, edges=TABLES)
@settings(
    max_examples=2 * CASES, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_odd_tables(tmp_path, nodes, edges):
    paths = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    for path, (titles, rows) in zip(paths, (edges, nodes), strict=True):
        text = "\n".join(",".join(cells) for cells in [titles, *rows])
        path.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
    outcome(*paths)


@given(content=st.binary(min_size=1, max_size=200), ending=st.sampled_from([".npz", ".csv", ".parquet"]))
@settings(
    max_examples=2 * CASES, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_random_bytes(tmp_path, content, ending):
    path = tmp_path / f"graph{ending}"
    path.write_bytes(content)
    if ending in (".csv", ".parquet"):
        outcome(path, path)
    else:
        assert isinstance(outcome(path), CaribouError)


ODD_ARRAYS = [
    np.array(3),
    np.array([]),
    np.zeros((0, 2), int),
    np.zeros((2, 0), int),
    np.zeros((2, 2, 2), int),
    np.arange(4),
    np.arange(4)[::-1].astype(np.uint8),
    np.array([0, 1, 2, 3], np.int64) - 2,
    np.array([[0, 1], [1, 0]], np.uint64),
    np.array([[0, 1], [2**63, 0]], np.uint64),
    np.array([[-(2**63), 1], [0, 0]]),
    np.array([0, 1, 0, 2**62]),
    np.eye(4, order="F"),
    np.eye(4, dtype=np.float16) * 60000,
    np.full((4, 2), 1e300),
    np.full((4, 2), np.nan),
    np.eye(4, dtype=complex),
    np.eye(4, dtype=np.longdouble),
    np.eye(4, dtype=">f4"),
    np.arange(4, dtype=">i2"),
    np.array(["a", "b", "c", "d"]),
    np.array([b"a", b"b"]),
    np.array(["2020-01-01"] * 4, dtype="datetime64[D]"),
    np.zeros(4, dtype=[("u", int), ("v", float)]),
    np.array([True, False, True, True]),
    np.array([4, 3]),
    np.array([2**40, 3]),
]
KEYS = ["edge_index", "x", "y", "num_nodes", "split_train", "split_val", "split_test", "class_names", "num_classes"]
KEYS += ["node_ids", "absent", "x_data", "x_indices", "x_indptr", "x_shape"]


@pytest.mark.parametrize("key", ["npz", "sparse"])
def test_odd_arrays(valid_files, tmp_path, key):
    with np.load(valid_files[key][0]) as archive:
        valid = dict(archive)
    path = tmp_path / "odd.npz"
    accepted = 0
    for case in range(FIRST, FIRST + 5 * CASES):
        rng = random.Random(f"odd {key} {case}")
        arrays = dict(valid)
        for name in rng.sample(KEYS, rng.choice([1, 1, 2, 3])):
            arrays[name] = rng.choice(ODD_ARRAYS)
        for name in rng.sample(sorted(arrays), rng.choice([0, 0, 1])):
            del arrays[name]
        np.savez(path, **arrays)
        accepted += isinstance(outcome(path), Graph)
    assert accepted > 0  # the cases are not all refused at the same door
