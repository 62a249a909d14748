"""``caribou train`` and ``caribou extend`` on an engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caribou.privacy.ledger import Ledger
from cli_support import run

NODES = 240


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Tables of a graph, of the graph that it was a month before, and class probabilities for both."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, NODES)
    pairs = pd.DataFrame(rng.integers(0, NODES, (900, 2)), columns=["source", "target"])
    nodes = pd.DataFrame({"id": np.arange(NODES), "x": rng.normal(size=NODES) + labels, "y0": 1.0})
    nodes["label"] = np.array(["a", "b"])[labels]
    p = np.clip(0.5 + 0.2 * (labels - 0.5) + 0.2 * rng.normal(size=NODES), 0.05, 0.95)
    for name, count in (("", NODES), ("-before", 200)):
        inside = (pairs.source < count) & (pairs.target < count)
        pairs[inside].to_parquet(tmp_path / f"edges{name}.parquet")
        nodes[:count].to_parquet(tmp_path / f"nodes{name}.parquet")
        pd.DataFrame({"id": np.arange(count), "a": 1 - p[:count], "b": p[:count]}).to_csv(
            tmp_path / f"prior{name}.csv", index=False
        )
    return tmp_path


def given(files: Path, name: str = "") -> list[object]:
    tables = ("--edges", files / f"edges{name}.parquet", "--nodes", files / f"nodes{name}.parquet")
    return [
        *tables,
        "--prior",
        files / f"prior{name}.csv",
        "--engine",
        "outofcore",
        "--memory",
        "1GB",
        "--ignore",
        "y0",
    ]


def test_train_and_extend_out_of_core(files: Path) -> None:
    ledger, out, table = files / "ledger.sqlite", files / "run", files / "predictions.parquet"
    options = ("--epsilon", "2", "--ledger", ledger, "--name", "people")
    done = run("train", "votes-edp", *given(files, "-before"), *options, "--out", out, "--predictions", table)
    assert done.returncode == 0, done.stderr
    assert "epsilon = 2" in done.stdout
    assert len(pd.read_parquet(table)) == 200
    done = run("extend", out, *given(files), "--ledger", ledger, "--out", files / "later")
    assert done.returncode == 0, done.stderr
    assert "40 new nodes, at no further cost" in done.stdout
    first, second = Ledger(ledger).entries("people")
    assert second.extends == first.certificate_id
    assert not list(files.glob(".caribou-blocks-*")), "blocks are as secret as the graph"


def test_messages_pass_out_of_core(files: Path) -> None:
    tables = ("--edges", files / "edges.parquet", "--nodes", files / "nodes.parquet")
    options = ("--engine", "outofcore", "--memory", "1GB", "--set", "messages=features", "--epsilon", "4")
    done = run("train", "caribou-edp", *tables, *options, "--out", files / "run", cwd=files)
    assert done.returncode == 0, done.stderr
    assert "epsilon = 4" in done.stdout


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("votes-edp", "--edges", "{}/edges.parquet"), "edges and nodes must be given for an engine"),
        (("votes-edp", "--dataset", "csbm", "--engine", "local"), "engine must go with --edges and --nodes"),
        (
            ("gap-edp", "{tables}"),
            "method must read edges block by block to be trained on an engine (caribou-edp, caribou-inf, votes-edp, mlp)",
        ),
        (
            ("votes-edp", "{tables}", "--engine", "spark"),
            "engine must be one of local, outofcore, ray for votes-edp, got 'spark'",
        ),
        (("caribou-edp", "{tables}", "--address", "auto"), "address must go with the engine ray, got local"),
        (("votes-edp", "{tables}", "--memory", "4GB"), "memory must go with the engine outofcore, got local"),
        (("votes-edp", "{tables}", "--workers", "0"), "workers must be"),
        (("votes-edp", "{tables}", "--fill", "x=0"), "rules of tables must go with tables that are read in memory"),
        (("votes-edp", "{tables}", "--column", "source=a"), "column must be id, label or split with --edges"),
        (("mlp", "{tables}", "--seeds", "2", "--predictions", "p.csv"), "predictions must go with one fit"),
        (("mlp", "--edges", "gone.npy", "--nodes", "{}/nodes.parquet"), "gone.npy: file not found (--edges)"),
    ],
)
def test_options_that_do_not_go_together_are_refused(files: Path, command: tuple[str, ...], words: str) -> None:
    tables = ["--edges", str(files / "edges.parquet"), "--nodes", str(files / "nodes.parquet")]
    flat = [part for word in command for part in (tables if word == "{tables}" else [word.replace("{}", str(files))])]
    done = run("train", *flat, cwd=files)
    assert done.returncode != 0
    assert words in " ".join(done.stderr.split())
