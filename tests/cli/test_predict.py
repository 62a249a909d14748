"""``caribou train --out``, ``predict``, ``embed`` and ``certificate`` through the console entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import caribou as cb
from caribou.mechanisms.noise_source import NoiseSource
from caribou.model.verify import verify
from caribou.privacy.certificate import Certificate
from caribou.privacy.ledger import Ledger
from cli_support import caribou

pytestmark = pytest.mark.usefixtures("quick_learning")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, quick_learning: None) -> Path:
    """Two graphs as tables and files, and a run of three methods on the first."""
    folder = tmp_path_factory.mktemp("world")
    for number, name in ((3, "first"), (4, "second")):
        graph = cb.datasets.load("csbm", nodes=90, classes=3, features=4, average_degree=6.0, signal=2.0, seed=number)
        cb.datasets.write_graph(graph, folder / f"{name}.npz")
    table = {"id": [f"person {i}" for i in range(60)], "x": [i % 2 + i / 90 for i in range(60)]}
    pd.DataFrame(table | {"label": [("no", "yes")[i % 2] for i in range(60)]}).to_csv(folder / "nodes.csv", index=False)
    ends = {"source": [f"person {i}" for i in range(58)], "target": [f"person {i + 2}" for i in range(58)]}
    pd.DataFrame(ends).to_csv(folder / "edges.csv", index=False)
    for method in ("caribou-edp", "votes-edp", "mlp-dp", "mlp"):
        caribou("train", method, "--graph", folder / "first.npz", "--out", folder / method)
    tables = ("--graph", folder / "edges.csv", "--nodes", folder / "nodes.csv")
    caribou("train", "caribou-edp", *tables, "--out", folder / "named")
    graphic = ("--set", "graph_share=0.5", "--epsilon", "8")
    caribou("train", "caribou-ndp", "--graph", folder / "first.npz", "--out", folder / "caribou-ndp", *graphic)
    return folder


# -- train ---------------------------------------------------------------------------------------------------------


def test_several_seeds_are_refused_whole_if_the_ledger_cannot_pay(world: Path, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite")
    ledger.set_budget("first", cb.Budget(6, 1e-5, "edge"))
    where = ("--graph", world / "first.npz", "--ledger", ledger.path, "--out", tmp_path / "runs")
    refused = caribou("train", "votes-edp", *where, "--epsilon", 3, "--seeds", 3, code=2)
    assert "would bring the total to epsilon = 9 at delta" in refused.stderr
    assert ledger.total("first", "edge").epsilon_spent == 0
    assert not (tmp_path / "runs").exists()
    shown = caribou("train", "votes-edp", *where, "--epsilon", 3, "--seeds", 2)
    assert ledger.total("first", "edge").epsilon_spent == pytest.approx(6, rel=1e-5)
    assert "charged" in shown.stdout
    assert "'first'" in shown.stdout


def test_a_refused_fit_makes_no_ledger(world: Path, tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,x\n" + "".join(f"{i},{i}\n" for i in range(20)))
    (tmp_path / "edges.csv").write_text("a,b\n0,1\n")
    before = set(tmp_path.iterdir())
    unlabelled = ("--graph", tmp_path / "edges.csv", "--nodes", tmp_path / "nodes.csv")
    ledger = ("--ledger", tmp_path / "l.sqlite")
    caribou("train", "mlp-dp", *unlabelled, *ledger, "--seeds", 2, code=2)
    caribou("train", "mlp-dp", "--graph", world / "first.npz", "--name", " x", *ledger, "--seeds", 2, code=2)
    caribou("ledger", "budget", " x", "--epsilon", 1, "--unit", "edge", *ledger, code=2)
    caribou("ledger", "add", "x", "--epsilon", 1, "--unit", "edge", "--description", " ", *ledger, code=2)
    assert set(tmp_path.iterdir()) == before


def test_the_ledger_of_the_environment_is_used(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARIBOU_LEDGER", str(tmp_path / "l.sqlite"))
    assert "charged" in caribou("train", "mlp-dp", "--graph", world / "first.npz", "--epsilon", 2).stdout
    ledger = Ledger(tmp_path / "l.sqlite", create=False)
    assert ledger.total("first", "node").releases == 1
    caribou("predict", world / "votes-edp", "--out", tmp_path / "free.csv")
    caribou(
        "predict", world / "votes-edp", "--graph", world / "second.npz", "--release", "--out", tmp_path / "paid.csv"
    )
    assert ledger.total("second", "edge").releases == 1


def test_a_taken_folder_is_refused_before_anything_is_spent(world: Path, tmp_path: Path) -> None:
    book = tmp_path / "ledger.sqlite"
    arguments = ("train", "mlp-dp", "--graph", world / "first.npz", "--ledger", book)
    assert "out must be a new or empty folder" in caribou(*arguments, "--out", world / "mlp-dp", code=2).stderr
    assert "in a folder that exists" in caribou(*arguments, "--out", tmp_path / "a" / "b", code=2).stderr
    assert not book.exists()


def test_an_interrupted_fit_leaves_no_folder(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: NoiseSource) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(NoiseSource, "_next_stream", interrupted)
    done = caribou("train", "mlp-dp", "--graph", world / "first.npz", "--out", tmp_path / "run", code=130)
    assert done.stderr.startswith("error: interrupted")
    assert list(tmp_path.iterdir()) == []


# -- predict -------------------------------------------------------------------------------------------------------


def test_predictions_of_the_training_graph(world: Path, tmp_path: Path) -> None:
    model = cb.load(world / "caribou-edp")
    for ending, read in ((".csv", pd.read_csv), (".parquet", pd.read_parquet)):
        file = tmp_path / f"p{ending}"
        assert "wrote 90 predictions" in caribou("predict", world / "caribou-edp", "--out", file).stdout
        table = read(file)
        assert list(table.columns) == ["node", "class", "probability", "p_0", "p_1", "p_2"]
        assert table["node"].tolist() == list(range(90))
        assert table["class"].astype(int).tolist() == model.predict().tolist()
        assert np.allclose(table[["p_0", "p_1", "p_2"]], model.predict_proba())
        assert np.allclose(table["probability"], model.predict_proba().max(axis=1))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["p.csv", "p.parquet"]


@pytest.mark.parametrize("method", ["mlp-dp", "caribou-ndp"])
def test_node_level_needs_the_training_graph(method: str, world: Path, tmp_path: Path) -> None:
    out, graph = tmp_path / "p.csv", world / "first.npz"
    assert "declare it the training graph" in caribou("predict", world / method, "--out", out, code=2).stderr
    assert not out.exists()
    caribou("predict", world / method, "--out", out, "--graph", graph, "--training-graph")
    table = pd.read_csv(out)
    expected = cb.load(world / method).predict(cb.datasets.read_graph(graph), training_graph=True)
    assert table["class"].tolist() == expected.tolist()
    assert [file.name for file in tmp_path.iterdir()] == ["p.csv"]


@pytest.mark.parametrize("method", ["caribou-edp", "votes-edp", "caribou-ndp"])
def test_another_graph_comes_with_a_certificate(method: str, world: Path, tmp_path: Path) -> None:
    book = tmp_path / "ledger.sqlite"
    # other tests have released this graph from the same run
    arguments = ("--graph", world / "second.npz", "--ledger", book, "--release", "--spend")
    outcome = caribou("predict", world / method, "--out", tmp_path / "p.csv", *arguments)
    assert "a new release about 'second'" in outcome.stderr
    certificate = Certificate.load(tmp_path / "p.certificate.json")
    assert verify(certificate).passed
    assert certificate.certificate_id != cb.load(world / method).certificate.certificate_id
    spent = Ledger(book).total("second", certificate.unit).epsilon_spent
    assert certificate.epsilon_spent == pytest.approx(spent, rel=1e-3)
    assert len(pd.read_csv(tmp_path / "p.csv")) == 90
    again = caribou("predict", world / method, "--out", tmp_path / "p.csv", *arguments, code=2)
    assert "must be a new file" in again.stderr, "a certificate must not be overwritten"
    assert Ledger(book).total("second", certificate.unit).epsilon_spent == spent


def test_a_file_that_is_there_is_not_overwritten(world: Path, tmp_path: Path) -> None:
    book, out = tmp_path / "ledger.sqlite", tmp_path / "p.csv"
    out.write_text("mine")
    for command in (
        ("predict", world / "caribou-edp"),
        ("predict", world / "caribou-edp", "--graph", world / "second.npz", "--ledger", book),
        ("embed", world / "caribou-edp"),
    ):
        refused = caribou(*command, "--out", out, code=2).stderr
        assert refused == f"error: out must be a new file, got {str(out)!r}, which exists (--out)\n"
    assert out.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [out], "nothing was charged"


# -- embed and certificate -----------------------------------------------------------------------------------------


def test_embeddings_as_table_or_array(world: Path, tmp_path: Path) -> None:
    state = cb.load(world / "named").embeddings
    for ending in (".csv", ".parquet", ".npy"):
        caribou("embed", world / "named", "--out", tmp_path / f"e{ending}")
    assert np.array_equal(np.load(tmp_path / "e.npy"), state)
    for table in (pd.read_csv(tmp_path / "e.csv"), pd.read_parquet(tmp_path / "e.parquet")):
        columns = [f"x{k}" for k in range(state.shape[1])]
        assert list(table.columns) == ["id", *columns]
        assert table["id"].tolist() == sorted(f"person {i}" for i in range(60))
        assert np.allclose(table[columns], state)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["e.csv", "e.npy", "e.parquet"]


def test_the_certificate_is_printed(world: Path) -> None:
    run = world / "caribou-edp"
    assert caribou("certificate", run).stdout == (run / "certificate.json").read_text()
    assert caribou("certificate", run, "--markdown").stdout == (run / "certificate.md").read_text()
    caribou("verify", run / "certificate.json")
    assert caribou("certificate", run / "certificate.json").stdout == (run / "certificate.json").read_text()
    assert "cannot be read" in caribou("certificate", run / "nothing", code=2).stderr
