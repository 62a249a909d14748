"""``caribou train`` and ``caribou extend`` on an engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caribou.privacy.ledger import Ledger
from cli_support import caribou, refusal

NODES = 240
OUT_OF_CORE = ("--engine", "outofcore", "--memory", "1GB")


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
    rules = ("--prior", files / f"prior{name}.csv", "--ignore", "y0")
    return [*tables, *rules, *OUT_OF_CORE]


def test_train_and_extend_out_of_core(files: Path) -> None:
    ledger, out = files / "ledger.sqlite", files / "run"
    options = ("--epsilon", "2", "--ledger", ledger, "--name", "people")
    done = caribou("train", "votes-edp", *given(files, "-before"), *options, "--out", out)
    assert "epsilon = 2" in done.stdout
    done = caribou("extend", out, *given(files), "--ledger", ledger, "--out", files / "later")
    assert "40 new nodes, at no further cost" in done.stdout
    first, second = Ledger(ledger).entries("people")
    assert second.extends == first.certificate_id
    assert not list(files.glob(".caribou-blocks-*")), "blocks are as secret as the graph"


def test_messages_pass_out_of_core(files: Path) -> None:
    tables = ("--edges", files / "edges.parquet", "--nodes", files / "nodes.parquet")
    options = (*OUT_OF_CORE, "--set", "messages=features", "--epsilon", "4")
    done = caribou("train", "caribou-edp", *tables, *options, "--out", files / "run", cwd=files)
    assert "epsilon = 4" in done.stdout


def test_ids_words_and_queries_on_an_engine(files: Path) -> None:
    """As a bank has its tables: ids of its own, rows in no order, a column of words, and both tables in a database."""
    import duckdb

    for month, count in (("before", 200), ("now", NODES)):
        edges, nodes = (pd.read_parquet(files / f"{word}.parquet") for word in ("edges", "nodes"))
        name = np.array([f"acc-{k:03d}" for k in range(NODES)], dtype=object)
        inside = (edges.source < count) & (edges.target < count)
        people = nodes[:count].assign(id=name[:count], segment=np.array(["p", "q"])[nodes.id[:count] % 2])
        people = people.sample(frac=1, random_state=0)
        moved = pd.DataFrame({"sender": name[edges.source[inside]], "receiver": name[edges.target[inside]]})
        people.rename(columns={"id": "account"}).to_csv(files / f"people-{month}.csv", index=False)
        moved.to_csv(files / f"moved-{month}.csv", index=False)
        with duckdb.connect(str(files / f"{month}.duckdb")) as database:
            for word in ("people", "moved"):
                database.execute(f"CREATE TABLE {word} AS FROM read_csv('{files}/{word}-{month}.csv')")
    prior = pd.read_csv(files / "prior.csv")
    prior.assign(id=name).to_csv(files / "prior-names.csv", index=False)
    columns = ("--column", "id=account", "--column", "source=sender", "--column", "target=receiver")
    given = ("--prior", files / "prior-names.csv", *columns, "--ledger", files / "ledger.sqlite")
    rules = ("--ignore", "y0", "--category", "segment", "--epsilon", "2", "--name", "bank")
    queries = ("--sql-edges", "FROM moved", "--sql-nodes", "FROM people", "--db", files / "before.duckdb")
    done = caribou("train", "votes-edp", *queries, *OUT_OF_CORE, *given, *rules, "--out", files / "run")
    caribou("predict", files / "run", "--out", files / "own.csv")
    own = pd.read_csv(files / "own.csv")
    assert own.account.tolist() == name[:200].tolist()
    again = ("--edges", files / "moved-before.csv", "--nodes", files / "people-before.csv", *given[:-2])
    done = caribou("predict", files / "run", *again, "--training-graph", "--out", files / "again.csv")
    pd.testing.assert_frame_equal(pd.read_csv(files / "again.csv"), own)
    new = ("--release", "--ledger", files / "other.sqlite", "--out", files / "new.csv")
    done = caribou("predict", files / "run", *again, *new)
    assert "a new release about 'moved-before': epsilon = 2" in done.stderr
    tables = ("--edges", files / "moved-now.csv", "--nodes", files / "people-now.csv")
    done = caribou("extend", files / "run", *tables, "--engine", "local", *given, "--out", files / "later")
    assert "200 of 200 known nodes are in the graph" in done.stdout
    caribou("predict", files / "later", "--out", files / "later.parquet")
    later = pd.read_parquet(files / "later.parquet")
    assert later.account.tolist() == name.tolist()
    assert later.new.sum() == NODES - 200


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("votes-edp", "--edges", "{}/edges.parquet"), "give either --nodes FILE or --sql-nodes SELECT, got neither"),
        (("votes-edp", "--dataset", "csbm", "--engine", "local"), "got another graph, or more than one"),
        (
            ("gap-edp", "{tables}"),
            "method must read edges block by block to be trained on an engine (caribou-edp, caribou-inf, votes-edp, mlp)",
        ),
        (
            ("votes-edp", "{tables}", "--engine", "spark"),
            "engine must be one of local, outofcore, ray for votes-edp, got 'spark'",
        ),
        (("votes-edp", "{tables}", "--memory", "4GB"), "memory must go with the engine outofcore, got local"),
        (("votes-edp", "{tables}", "--column", "source=a"), "source column 'a' is missing, found 'source', 'target'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(files: Path, command: tuple[str, ...], words: str) -> None:
    tables = ["--edges", str(files / "edges.parquet"), "--nodes", str(files / "nodes.parquet")]
    flat = [part for word in command for part in (tables if word == "{tables}" else [word.replace("{}", str(files))])]
    assert words in refusal("train", *flat, cwd=files)
