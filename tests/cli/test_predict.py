"""``caribou train --out``, ``predict``, ``embed`` and ``certificate`` through the console entry."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import caribou as cb
from caribou.cli import main
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.certificate import Certificate
from caribou.privacy.ledger import Ledger
from caribou.privacy.verify import verify

pytestmark = pytest.mark.usefixtures("quick_learning")


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Caribou = Callable[..., Outcome]


def run_main(patch: pytest.MonkeyPatch, *arguments: Any) -> int:
    patch.setattr(sys, "argv", ["caribou", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


@pytest.fixture
def caribou(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Caribou:
    def call(*arguments: Any, code: int = 0) -> Outcome:
        capsys.readouterr()
        found = run_main(monkeypatch, *arguments)
        outcome = Outcome(found, *capsys.readouterr())
        assert found == code, outcome
        if code == 2 and outcome.err.startswith("error: "):
            assert outcome.err.count("\n") == 1, "bad input must be one line"
        return outcome

    return call


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
    with pytest.MonkeyPatch.context() as patch:
        for method in ("caribou-edp", "votes-edp", "mlp-dp", "mlp"):
            code = run_main(patch, "train", method, "--graph", folder / "first.npz", "--out", folder / method)
            assert code == 0
        tables = ("--graph", folder / "edges.csv", "--nodes", folder / "nodes.csv")
        assert run_main(patch, "train", "caribou-edp", *tables, "--out", folder / "named") == 0
        graphic = ("--set", "graph_share=0.5", "--epsilon", "8")
        where = ("--graph", folder / "first.npz", "--out", folder / "caribou-ndp")
        assert run_main(patch, "train", "caribou-ndp", *where, *graphic) == 0
    return folder


# -- train ---------------------------------------------------------------------------------------------------------


def test_several_seeds_are_refused_whole_if_the_ledger_cannot_pay(
    world: Path, tmp_path: Path, caribou: Caribou
) -> None:
    ledger = Ledger(tmp_path / "l.sqlite")
    ledger.set_budget("first", cb.Budget(6, 1e-5, "edge"))
    where = ("--graph", world / "first.npz", "--ledger", ledger.path, "--out", tmp_path / "runs")
    refused = caribou("train", "votes-edp", *where, "--epsilon", 3, "--seeds", 3, code=2)
    assert "would bring the total to epsilon = 9 at delta" in refused.err
    assert ledger.total("first", "edge").epsilon_spent == 0
    assert not (tmp_path / "runs").exists()
    shown = caribou("train", "votes-edp", *where, "--epsilon", 3, "--seeds", 2)
    assert ledger.total("first", "edge").epsilon_spent == pytest.approx(6, rel=1e-5)
    assert "charged" in shown.out
    assert "'first'" in shown.out


def test_a_refused_fit_makes_no_ledger(world: Path, tmp_path: Path, caribou: Caribou) -> None:
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


def test_what_is_saved_and_spent_is_said(world: Path, tmp_path: Path, caribou: Caribou) -> None:
    votes = caribou("train", "votes-edp", "--graph", world / "first.npz", "--out", tmp_path / "v", "--seeds", 2).out
    assert "caribou predict, certificate" in votes
    assert "embed" not in votes
    assert "v/0 ... 1" in " ".join(votes.split())
    assert "embed" in caribou("train", "caribou-edp", "--graph", world / "first.npz", "--out", tmp_path / "c").out
    assert "nothing: no edge is read" in caribou("train", "mlp", "--graph", world / "first.npz").out
    leave = ("--set", "messages=labels", "--set", "leave_graph=true")
    alone = caribou(
        "train", "caribou-ndp", "--graph", world / "first.npz", "--epsilon", 2, "--out", tmp_path / "n", *leave
    ).out
    assert "not used" in alone
    refused = caribou("embed", tmp_path / "n", "--out", tmp_path / "n.csv", code=2).err
    assert "leave_graph must be false for embeddings" in refused


def test_a_large_delta_is_warned_of_in_one_line(world: Path, caribou: Caribou) -> None:
    shown = caribou("train", "votes-edp", "--graph", world / "first.npz", "--delta", 0.1)
    assert shown.err.startswith("warning: delta = 0.1 is above 1/n")
    assert "UserWarning" not in shown.err


def test_columns_with_other_titles_and_a_name_for_the_ledger(world: Path, tmp_path: Path, caribou: Caribou) -> None:
    table = pd.read_csv(world / "nodes.csv").rename(columns={"id": "person", "label": "answer"})
    table.to_csv(tmp_path / "people.csv", index=False)
    tables = ("--graph", world / "edges.csv", "--nodes", tmp_path / "people.csv")
    roles = ("--column", "id=person", "--column", "label=answer", "--classes", "no,yes", "--range", "*=-9:9")
    ledger = tmp_path / "l.sqlite"
    caribou("train", "mlp-dp", *tables, *roles, "--name", "survey", "--ledger", ledger, "--out", tmp_path / "run")
    assert Ledger(ledger).total("survey", "node").releases == 1
    caribou("predict", tmp_path / "run", *tables, *roles, "--training-graph", "--out", tmp_path / "p.csv")
    table = pd.read_csv(tmp_path / "p.csv")
    assert set(table["class"]) <= {"no", "yes"}
    assert table.columns[0] == "person", "the title of the ids is kept"
    for bad in ("colour=x", "id", "id="):
        message = caribou("train", "mlp-dp", *tables, "--column", bad, code=2).err
        assert (
            message
            == f"error: column must be ROLE=TITLE with a role of id, label, split, source, target, got {bad!r} (--column)\n"
        )


def test_feature_columns_are_matched_by_name(tmp_path: Path, world: Path, caribou: Caribou) -> None:
    table = pd.read_csv(world / "nodes.csv").assign(y2=lambda t: -3 * t["x"])
    table.to_csv(tmp_path / "a.csv", index=False)
    table[["id", "y2", "x", "label"]].to_csv(tmp_path / "swapped.csv", index=False)
    table.rename(columns={"y2": "other"}).to_csv(tmp_path / "other.csv", index=False)
    edges = ("--graph", world / "edges.csv", "--nodes")
    declared = ("--classes", "no,yes", "--range", "*=-9:9")
    caribou("train", "mlp-dp", *edges, tmp_path / "a.csv", *declared, "--epsilon", 8, "--out", tmp_path / "run")
    for name in ("a", "swapped"):
        out = ("--training-graph", "--out", tmp_path / f"{name}.p.csv")
        caribou("predict", tmp_path / "run", *edges, tmp_path / f"{name}.csv", *out)
    assert (tmp_path / "a.p.csv").read_text() == (tmp_path / "swapped.p.csv").read_text()
    out = ("--training-graph", "--out", tmp_path / "other.p.csv")
    refused = caribou("predict", tmp_path / "run", *edges, tmp_path / "other.csv", *out, code=2)
    assert "feature columns must be 'x', 'y2', got a graph without 'y2' and with 'other'" in refused.err


def test_the_order_of_rows_decides_about_nothing(tmp_path: Path, world: Path, caribou: Caribou) -> None:
    """At either level a row is known by its id: predictions of the training graph are the same bytes in any order of rows."""
    pd.read_csv(world / "nodes.csv").iloc[::-1].to_csv(tmp_path / "reversed.csv", index=False)
    declared = ("--classes", "no,yes", "--range", "*=-9:9", "--out", tmp_path / "run")
    caribou("train", "mlp-dp", "--graph", world / "edges.csv", "--nodes", world / "nodes.csv", *declared)
    for run in (world / "named", tmp_path / "run"):
        for name, nodes in (("a", world / "nodes.csv"), ("b", tmp_path / "reversed.csv")):
            where = ("--graph", world / "edges.csv", "--nodes", nodes, "--training-graph")
            caribou("predict", run, *where, "--out", tmp_path / f"{run.name}-{name}.csv")
        assert (tmp_path / f"{run.name}-a.csv").read_bytes() == (tmp_path / f"{run.name}-b.csv").read_bytes()


def test_nodes_are_compared_where_they_are_public(tmp_path: Path, world: Path, caribou: Caribou) -> None:
    table = pd.read_csv(world / "nodes.csv")
    table.replace({"id": {"person 0": "person 00"}}).to_csv(tmp_path / "other.csv", index=False)
    pd.DataFrame({"source": ["person 1"], "target": ["person 2"]}).to_csv(tmp_path / "e.csv", index=False)
    where = ("--graph", tmp_path / "e.csv", "--nodes", tmp_path / "other.csv", "--training-graph")
    refused = caribou("predict", world / "named", *where, "--out", tmp_path / "p.csv", code=2)
    assert "must list its nodes as in training, 'person 0' at 0, got 'person 00'" in refused.err


def test_the_ledger_of_the_environment_is_used(
    world: Path, tmp_path: Path, caribou: Caribou, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARIBOU_LEDGER", str(tmp_path / "l.sqlite"))
    assert "charged" in caribou("train", "mlp-dp", "--graph", world / "first.npz", "--epsilon", 2).out
    ledger = Ledger(tmp_path / "l.sqlite", create=False)
    assert ledger.total("first", "node").releases == 1
    caribou("predict", world / "votes-edp", "--out", tmp_path / "free.csv")
    caribou(
        "predict", world / "votes-edp", "--graph", world / "second.npz", "--release", "--out", tmp_path / "paid.csv"
    )
    assert ledger.total("second", "edge").releases == 1


def test_verify_checks_the_files_of_a_run(world: Path, tmp_path: Path, caribou: Caribou) -> None:
    shutil.copytree(world / "votes-edp", tmp_path / "run")
    assert "verified" in caribou("verify", tmp_path / "run").out
    shutil.copy(world / "mlp-dp" / "certificate.json", tmp_path / "run" / "certificate.json")
    assert "is not what was saved" in caribou("verify", tmp_path / "run", code=2).err


def test_labels_that_the_model_does_not_know_are_said(world: Path, tmp_path: Path, caribou: Caribou) -> None:
    table = pd.read_csv(world / "nodes.csv").replace({"label": {"yes": "maybe"}})
    table.to_csv(tmp_path / "n.csv", index=False)
    where = ("--graph", world / "edges.csv", "--nodes", tmp_path / "n.csv", "--name", "other")
    shown = caribou("predict", world / "named", *where, "--release", "--out", tmp_path / "p.csv")
    assert "warning: labels 'maybe' are no classes of the model" in shown.err
    assert "warning: these are the nodes of the training graph" in shown.err
    assert "charged in no ledger" in shown.err


def test_nothing_is_charged_for_a_folder_that_cannot_be_written(world: Path, tmp_path: Path, caribou: Caribou) -> None:
    ledger = Ledger(tmp_path / "l.sqlite")
    where = ("--graph", world / "second.npz", "--ledger", ledger.path)
    for command in (
        ("train", "mlp-dp", "--out", "/proc/run"),
        ("predict", world / "votes-edp", "--out", "/proc/p.csv"),
    ):
        assert "can be written" in caribou(*command, *where, code=2).err
    assert ledger.datasets() == ()


def test_an_interruption_is_one_line_and_code_130(tmp_path: Path, world: Path) -> None:
    code = (
        "import sys, caribou.model.estimator\nfrom caribou.cli import main\n"
        "def stop(*a, **k): raise KeyboardInterrupt\n"
        "caribou.model.estimator.Model.fit = stop\nmain()"
    )
    words = ["train", "votes-edp", "--graph", str(world / "first.npz"), "--out", str(tmp_path / "run")]
    found = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert found.returncode == 130, found
    assert found.stderr.strip().startswith("error: interrupted")
    assert not (tmp_path / "run").exists()


def test_train_saves_a_run_and_charges_it(world: Path, tmp_path: Path, caribou: Caribou) -> None:
    book, out = tmp_path / "ledger.sqlite", tmp_path / "run"
    arguments = ("train", "votes-edp", "--graph", world / "first.npz", "--epsilon", 2, "--ledger", book)
    shown = caribou(*arguments, "--out", out, "--json").out
    document = json.loads(shown[shown.index("{") :])
    assert len(document["test_accuracy"]["runs"]) == 1
    assert Ledger(book).total("first", "edge").epsilon_spent == pytest.approx(2.0, rel=1e-3)
    assert cb.load(out).certificate.to_dict() == document["certificate"]


def test_several_seeds_are_saved_one_by_one(world: Path, tmp_path: Path, caribou: Caribou) -> None:
    text = caribou("train", "mlp-dp", "--graph", world / "first.npz", "--seeds", 2, "--out", tmp_path / "runs").out
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["0", "1"]
    assert cb.load(tmp_path / "runs" / "0").certificate != cb.load(tmp_path / "runs" / "1").certificate
    assert "all fits together" in text


def test_a_taken_folder_is_refused_before_anything_is_spent(world: Path, tmp_path: Path, caribou: Caribou) -> None:
    book = tmp_path / "ledger.sqlite"
    arguments = ("train", "mlp-dp", "--graph", world / "first.npz", "--ledger", book)
    assert "out must be a new or empty folder" in caribou(*arguments, "--out", world / "mlp-dp", code=2).err
    assert "in a folder that exists" in caribou(*arguments, "--out", tmp_path / "a" / "b", code=2).err
    assert not book.exists()


def test_an_exhausted_ledger_refuses(world: Path, tmp_path: Path, caribou: Caribou) -> None:
    book = tmp_path / "ledger.sqlite"
    Ledger(book).set_budget("first", cb.Budget(3.0, 1e-5, "node"))
    arguments = ("train", "mlp-dp", "--graph", world / "first.npz", "--ledger", book, "--out", tmp_path / "run")
    assert "would bring the total to epsilon = 4" in caribou(*arguments, code=2).err
    assert not (tmp_path / "run").exists()


def test_an_interrupted_fit_leaves_no_folder(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: NoiseSource) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(NoiseSource, "_next_stream", interrupted)
    assert run_main(monkeypatch, "train", "mlp-dp", "--graph", world / "first.npz", "--out", tmp_path / "run") == 130
    assert list(tmp_path.iterdir()) == []
    assert "Traceback" not in capsys.readouterr().err


# -- predict -------------------------------------------------------------------------------------------------------


def test_predictions_of_the_training_graph(world: Path, tmp_path: Path, caribou: Caribou) -> None:
    model = cb.load(world / "caribou-edp")
    for ending, read in ((".csv", pd.read_csv), (".parquet", pd.read_parquet)):
        file = tmp_path / f"p{ending}"
        assert "wrote 90 predictions" in caribou("predict", world / "caribou-edp", "--out", file).out
        table = read(file)
        assert list(table.columns) == ["node", "class", "probability", "p_0", "p_1", "p_2"]
        assert table["node"].tolist() == list(range(90))
        assert table["class"].astype(int).tolist() == model.predict().tolist()
        assert np.allclose(table[["p_0", "p_1", "p_2"]], model.predict_proba())
        assert np.allclose(table["probability"], model.predict_proba().max(axis=1))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["p.csv", "p.parquet"]


def test_names_of_nodes_and_classes_are_kept_at_edge_level(world: Path, tmp_path: Path, caribou: Caribou) -> None:
    caribou("predict", world / "named", "--out", tmp_path / "p.csv")
    table = pd.read_csv(tmp_path / "p.csv")
    assert table.columns[0] == "id"
    assert table["id"].tolist() == sorted(f"person {i}" for i in range(60))
    assert set(table["class"]) <= {"no", "yes"}
    assert list(table.columns[3:]) == ["flagged", "p_no", "p_yes"]


@pytest.mark.parametrize("method", ["mlp-dp", "caribou-ndp"])
def test_node_level_needs_the_training_graph(method: str, world: Path, tmp_path: Path, caribou: Caribou) -> None:
    out, graph = tmp_path / "p.csv", world / "first.npz"
    assert "declare it the training graph" in caribou("predict", world / method, "--out", out, code=2).err
    assert not out.exists()
    caribou("predict", world / method, "--out", out, "--graph", graph, "--training-graph")
    table = pd.read_csv(out)
    expected = cb.load(world / method).predict(cb.datasets.read_graph(graph), training_graph=True)
    assert table["class"].tolist() == expected.tolist()
    assert [file.name for file in tmp_path.iterdir()] == ["p.csv"]


@pytest.mark.parametrize("method", ["caribou-edp", "votes-edp", "caribou-ndp"])
def test_another_graph_comes_with_a_certificate(method: str, world: Path, tmp_path: Path, caribou: Caribou) -> None:
    book = tmp_path / "ledger.sqlite"
    # other tests have released this graph from the same run
    arguments = ("--graph", world / "second.npz", "--ledger", book, "--release", "--spend")
    outcome = caribou("predict", world / method, "--out", tmp_path / "p.csv", *arguments)
    assert "a new release about 'second'" in outcome.err
    certificate = Certificate.load(tmp_path / "p.certificate.json")
    assert verify(certificate).passed
    assert certificate.certificate_id != cb.load(world / method).certificate.certificate_id
    spent = Ledger(book).total("second", certificate.unit).epsilon_spent
    assert certificate.epsilon_spent == pytest.approx(spent, rel=1e-3)
    assert len(pd.read_csv(tmp_path / "p.csv")) == 90
    again = caribou("predict", world / method, "--out", tmp_path / "p.csv", *arguments, code=2)
    assert "must be a new file" in again.err, "a certificate must not be overwritten"
    assert Ledger(book).total("second", certificate.unit).epsilon_spent == spent


@pytest.mark.parametrize("method", ["mlp", "mlp-dp"])
def test_another_graph_without_a_release(method: str, world: Path, tmp_path: Path, caribou: Caribou) -> None:
    outcome = caribou(
        "predict", world / method, "--out", tmp_path / "p.csv", "--graph", world / "second.npz", "--release"
    )
    assert "nothing was released" in outcome.err
    assert [file.name for file in tmp_path.iterdir()] == ["p.csv"]


def test_a_look_alike_is_warned_of_and_charged_where_its_owner_says(
    world: Path, tmp_path: Path, caribou: Caribou
) -> None:
    """The second graph with its nodes in another order: one line that names the other data set and the option."""
    graph = cb.read_graph(world / "second.npz")
    order = np.random.default_rng(1).permutation(graph.num_nodes)
    cb.datasets.write_graph(cb.Graph.from_edges(graph.features, order[graph.edge_index]), tmp_path / "other.npz")
    book = tmp_path / "book.sqlite"
    cb.Ledger(book)

    def predict(number: int, file: Path, name: str, *more: str, code: int = 0) -> Outcome:
        out = tmp_path / f"{number}.csv"
        where = ("--graph", file, "--name", name, "--ledger", book, "--out", out, "--release", "--spend")
        return caribou("predict", world / "caribou-edp", *where, *more, code=code)

    assert "same degrees" not in predict(1, world / "second.npz", "second").err
    (line,) = [x for x in predict(2, tmp_path / "other.npz", "other").err.splitlines() if "same degrees" in x]
    assert line.startswith("warning: data set 'other'")
    assert "--name second --replace-fingerprint" in line
    assert "has changed since" in predict(3, world / "first.npz", "second", code=2).err
    predict(4, world / "first.npz", "second", "--replace-fingerprint")
    assert [entry.dataset for entry in cb.Ledger(book).entries()] == ["second", "other", "second"]


def test_bad_predictions(world: Path, tmp_path: Path, caribou: Caribou) -> None:
    def failure(*arguments: Any) -> str:
        return caribou("predict", *arguments, code=2).err

    run, out = world / "caribou-edp", tmp_path / "p.csv"
    assert "out must end in .csv or .parquet" in failure(run, "--out", tmp_path / "p.txt")
    assert "in a folder that exists" in failure(run, "--out", tmp_path / "a" / "p.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "in a folder that exists" in failure(run, "--out", tmp_path / "folder.csv")
    assert "run must be a folder" in failure(tmp_path / "nothing", "--out", out)
    assert "run.json cannot be read" in failure(tmp_path, "--out", out)
    assert "must go with --graph" in failure(run, "--out", out, "--training-graph")
    assert "file not found" in failure(run, "--out", out, "--graph", tmp_path / "g.npz")
    named = ("--graph", world / "edges.csv", "--nodes", world / "nodes.csv")
    assert "graph must have 4 feature columns, got 1" in failure(run, "--out", out, *named)
    assert "graph must have 4 feature columns, got 1" in failure(run, "--out", out, *named, "--training-graph")
    assert not out.exists()


def test_a_file_that_is_there_is_not_overwritten(world: Path, tmp_path: Path, caribou: Caribou) -> None:
    book, out = tmp_path / "ledger.sqlite", tmp_path / "p.csv"
    out.write_text("mine")
    for command in (
        ("predict", world / "caribou-edp"),
        ("predict", world / "caribou-edp", "--graph", world / "second.npz", "--ledger", book),
        ("embed", world / "caribou-edp"),
    ):
        refused = caribou(*command, "--out", out, code=2).err
        assert refused == f"error: out must be a new file, got {str(out)!r}, which exists (--out)\n"
    assert out.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [out], "nothing was charged"


# -- embed and certificate -----------------------------------------------------------------------------------------


def test_embeddings_as_table_or_array(world: Path, tmp_path: Path, caribou: Caribou) -> None:
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


def test_bad_embeddings(world: Path, tmp_path: Path, caribou: Caribou) -> None:
    for method in ("votes-edp", "mlp", "mlp-dp"):
        outcome = caribou("embed", world / method, "--out", tmp_path / "e.npy", code=2)
        assert f"method must release embeddings (caribou-edp, caribou-inf, caribou-ndp), got {method}" in outcome.err
    for bad in ("e.txt", "a/e.npy", "a/e.csv"):
        assert "out must" in caribou("embed", world / "caribou-edp", "--out", tmp_path / bad, code=2).err
    assert list(tmp_path.iterdir()) == []


def test_the_certificate_is_printed(world: Path, caribou: Caribou) -> None:
    run = world / "caribou-edp"
    assert caribou("certificate", run).out == (run / "certificate.json").read_text()
    assert caribou("certificate", run, "--markdown").out == (run / "certificate.md").read_text()
    caribou("verify", run / "certificate.json")
    assert caribou("certificate", run / "certificate.json").out == (run / "certificate.json").read_text()
    assert "cannot be read" in caribou("certificate", run / "nothing", code=2).err


# -- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gcn", "--dataset", "chain-s"], "method must be one of"),
        (["mlp", "--dataset", "coral"], "dataset must be one of"),
        (["mlp"], "give either --dataset NAME or --graph FILE"),
        (["mlp-dp", "--dataset", "chain-s", "--set", "depth=3"], "setting must be one of"),
        (["mlp-dp", "--dataset", "chain-s", "--set", "depth"], "set must be key=value"),
        (["mlp-dp", "--dataset", "chain-s", "--epsilon", "-1"], "epsilon must be a number > 0"),
        (["mlp-dp", "--dataset", "chain-s", "--epsilon", "0"], "epsilon must be a number > 0"),
        (["mlp-dp", "--dataset", "chain-s", "--epsilon", "nan"], "epsilon must be a number > 0"),
        (["mlp-dp", "--dataset", "chain-s", "--delta", "1"], "delta must be in the open interval (0, 1), got 1.0"),
        (["mlp-dp", "--dataset", "chain-s", "--seeds", "0"], "seeds must be a whole number >= 1, got 0"),
        (["caribou-inf", "--dataset", "chain-s", "--epsilon", "-4"], "epsilon must be a number > 0"),
        (["caribou-edp", "--dataset", "chain-s", "--set", "hops=0"], "hops must be a whole number >= 1, got 0"),
        (["caribou-edp", "--dataset", "chain-s", "--set", "contraction=1.2"], "contraction must be in (0, 1], got 1.2"),
        (["votes-ndp", "--dataset", "chain-s", "--set", 'base={"depth": 1}'], "base must have settings of mlp-dp"),
        (["votes-edp", "--graph", "missing.npz"], "missing.npz: file not found"),
        (["votes-edp", "--dataset", "chain-s", "--out", "missing/run"], "in a folder that exists"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_bad_input_is_one_line_and_exit_code_two(arguments: list[str], message: str, caribou: Caribou) -> None:
    outcome = caribou("train", *arguments, code=2)
    assert outcome.err.startswith("error: ")
    assert message in outcome.err
    assert outcome.out == ""


def test_an_empty_edge_table_is_warned_of_and_works(world: Path, tmp_path: Path, caribou: Caribou) -> None:
    (tmp_path / "edges.csv").write_text("source,target\n")
    where = ("--graph", tmp_path / "edges.csv", "--nodes", world / "nodes.csv", "--out", tmp_path / "run")
    shown = caribou("train", "votes-edp", *where, "--seeds", 2)
    assert f"warning: {tmp_path / 'edges.csv'} holds no edges" in shown.err
    assert shown.err.count("holds no edges") == 1
    assert "no edges" not in shown.out
    assert not any(b"no edges" in file.read_bytes() for file in (tmp_path / "run").rglob("*.*"))


def test_a_graph_without_labels_is_one_line(tmp_path: Path, caribou: Caribou) -> None:
    (tmp_path / "nodes.csv").write_text("id,x\n" + "".join(f"{i},{i}\n" for i in range(20)))
    (tmp_path / "edges.csv").write_text("a,b\n0,1\n")
    tables = ("--graph", tmp_path / "edges.csv", "--nodes", tmp_path / "nodes.csv")
    for method in ("votes-edp", "caribou-edp", "mlp", "mlp-dp", "votes-ndp", "caribou-ndp"):
        refused = caribou("train", method, *tables, "--range", "x=0:20", code=2)
        assert "graph must have labels and a split" in refused.err
