"""What would take all memory or all time is refused in one line, before either is gone."""

from __future__ import annotations

import inspect
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import caribou as cb
from caribou.datasets import npz
from caribou.datasets.generated import generator
from caribou.errors import CaribouError, DataError, InputError, RunError
from caribou.graph import Graph
from caribou.machine.memory import memory_limit
from caribou.methods import METHODS
from caribou.privacy.budget import Budget
from caribou.privacy.sizes import Sizes
from cli_support import caribou

LONG = "a" * 300
STRANGE: list[Any] = [
    *("nan", float("nan"), float("inf"), -float("inf"), [], {}, LONG, 10**8, 10**12, 10**30, [[1]], True, None, 1e308),
    *(-1, 0, 1.5, "", b"x", [float("nan")], [10**9], {"a": 1}, (1, "x"), "1"),
]
COUNTS = ("hops", "stages", "max_rounds", "layers", "epochs", "hidden", "classifier_hidden", "random_features", "codes")


@pytest.fixture(autouse=True)
def clock() -> Iterator[None]:
    """Nothing here may take a minute."""

    def ring(*_: object) -> None:
        raise TimeoutError("took a minute")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", METHODS)
def test_a_setting_is_refused_by_name_or_planned_within_seconds(name: str) -> None:
    info = METHODS[name]
    budget = Budget(4, 1e-5, info.unit)
    sizes = Sizes(nodes=200, columns=8, classes=3, train=100, val=20, test=40)
    for setting in inspect.signature(type(info.create())).parameters:
        for value in STRANGE:
            try:
                info.create(**{setting: value}).plan(sizes, budget)
            except CaribouError:
                continue
            assert setting not in COUNTS or not isinstance(value, int) or value < 10**8, (setting, value)


def test_depth_and_brackets_on_the_command_line(tmp_path: Path) -> None:
    for setting in ("hops=100000000", "hops=" + "9" * 5000, "layer=" + "[" * 5000, "layer=[[1]]"):
        done = caribou("train", "caribou", "--dataset", "chain-s", "--set", setting, code=2, cwd=tmp_path)
        assert setting.partition("=")[0] in done.stderr
    assert (
        "pilot" in caribou("train", "votes", "--dataset", "chain-s", "--set", "pilot=nan", code=2, cwd=tmp_path).stderr
    )
    np.save(tmp_path / "edges.npy", np.zeros((1, 2), int))
    np.save(tmp_path / "x.npy", np.zeros((2, 1)))
    table = ("--edges", "edges.npy", "--features", "x.npy", "--epsilon", "4", "--out", "o.npy")
    assert "hops" in caribou("propagate", *table, "--hops", "100000000", code=2, cwd=tmp_path).stderr
    (tmp_path / "deep.toml").write_text(f'title = "x"\nkind = "train"\nx = {"[" * 5000}{"]" * 5000}\n')
    (tmp_path / "long.toml").write_text(f"title = {'1' * 5000}\n")
    for file in ("deep.toml", "long.toml"):
        assert "TOML" in caribou("run", file, "--out", "r", code=2, cwd=tmp_path).stderr
    assert not list(tmp_path.glob("r*"))


@pytest.mark.parametrize(
    "words",
    [
        ("datasets", "write", "fraud", "bank", "--month", "100000000"),
        ("train", "mlp", "--dataset", "chain-s", "--seeds", "1000000000000"),
        ("tune", "mlp", "--dataset", "chain-s", "--trials", "1000000000000"),
        ("audit", "votes", "--runs", "1000000000000"),
        ("audit", "votes", "--dataset", "chain-s", "--workers", "1000000000"),
        ("propagate", "--edges", "e.npy", "--features", "e.npy", "--out", "o.npy", "--workers", "1000000000"),
        ("plan", "--epsilon", "1e-400"),
        ("plan", "--epsilon", "nan"),
        ("verify", "deep.json"),
    ],
    ids=" ".join,
)
def test_counts_that_nobody_waits_for(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 200_000 + "]" * 200_000)
    np.save(tmp_path / "e.npy", np.zeros((2, 2), int))
    error = caribou(*words, code=2, cwd=tmp_path).stderr.splitlines()[-1]
    assert words[-2] in error or words[-1] in error


@pytest.mark.parametrize(
    "words",
    [
        *(("train", "mlp", "--dataset", "chain-s", option, LONG) for option in ("--out", "--ledger", "--prior")),
        ("train", "mlp", "--graph", LONG),
        ("train", "mlp", "--graph", "edges.csv", "--nodes", LONG),
        ("propagate", "--edges", LONG, "--nodes", LONG),
        *((command, LONG) for command in ("predict", "verify", "audit", "certificate", "run", "report")),
        ("ledger", "show", LONG),
    ],
    ids=" ".join,
)
def test_a_name_that_no_file_can_have(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("a,b\n1,2\n")
    caribou(*words, code=2, cwd=tmp_path)


def test_names_that_no_file_can_have_in_python(tmp_path: Path) -> None:
    graph = cb.datasets.load("chain-s", seed=1)
    model = cb.Model("mlp", cb.Budget(4), hidden=[4]).fit(graph)
    for call, error in {model.save: RunError, cb.load: RunError, cb.read_graph: DataError}.items():
        with pytest.raises(error):
            call(tmp_path / LONG)
    with pytest.raises(DataError, match="cannot be written"):
        cb.write_graph(graph, tmp_path / f"{LONG}.npz")


@pytest.mark.parametrize(
    ("name", "field"),
    [
        *((f"csbm:{sizes}", "memory") for sizes in ("nodes=1000000000", "features=1000000000", "1000000000")),
        *((f"{name}:1000000000", "memory") for name in ("chain-s", "neighbour-features")),
        ("chain-s:length=1000000000", "memory"),
        ("csbm:nodes=" + "9" * 5000, "nodes"),
        ("csbm:average_degree=1e308", "average_degree"),
        ("neighbour-features:average_degree=3000", "average_degree"),  # drawing would not end
        ("neighbour-features:preference=1e300", "preference"),
    ],
)
def test_generated_graphs_are_counted_before_they_are_drawn(name: str, field: str) -> None:
    with memory_limit(32 << 30), pytest.raises(InputError, match=field):
        generator(name)


def test_an_archive_that_unpacks_to_more_than_its_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", edge_index=np.zeros((2, 1), int), x=np.zeros((1000, 1000)))
    assert cb.read_graph(tmp_path / "bomb.npz").num_features == 1000
    with (
        memory_limit(15 << 20),
        pytest.raises(InputError, match=r"arrays must fit into memory .*, got about 0.0149 GiB"),
    ):
        cb.read_graph(tmp_path / "bomb.npz")
    monkeypatch.setattr(npz, "_BOMB", 1 << 20)
    with pytest.raises(DataError, match="arrays must be at most 200 times as large as their file"):
        cb.read_graph(tmp_path / "bomb.npz")
    np.savez(tmp_path / "plain.npz", edge_index=np.zeros((2, 1), int), x=np.zeros((1000, 1000)))
    assert cb.read_graph(tmp_path / "plain.npz").num_nodes == 1000


def test_tables_of_few_bytes_and_many_rows(tmp_path: Path) -> None:
    rows = 2_000_000
    pq.write_table(pa.table({"id": pa.array(np.arange(12)), "f": pa.array(np.zeros(12))}), tmp_path / "few.parquet")
    pq.write_table(pa.table({"a": np.zeros(rows, int), "b": np.ones(rows, int)}), tmp_path / "edges.parquet")
    pq.write_table(pa.table({"id": np.zeros(rows, int), "f": np.zeros(rows)}), tmp_path / "nodes.parquet")
    assert (tmp_path / "nodes.parquet").stat().st_size < 20_000
    with memory_limit(40 << 20):
        with pytest.raises(DataError, match=r"nodes\.parquet: 2 columns must fit into memory"):
            cb.read_graph(tmp_path / "edges.parquet", tmp_path / "nodes.parquet")
        with pytest.raises(DataError, match="the edges of 12 nodes must fit into memory"):
            cb.read_graph(tmp_path / "edges.parquet", tmp_path / "few.parquet")
    assert (
        Graph.from_tables(pd.DataFrame({"a": [0], "b": [1]}), pd.DataFrame({"id": [0, 1], "f": [0, 1]})).num_edges == 1
    )
