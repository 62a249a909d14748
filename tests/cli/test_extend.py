"""``caribou extend``: months of a growing graph for one epsilon, whatever is killed, repeated or done at once."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import caribou as cb
from caribou.engines.folder import WorkFolder
from caribou.privacy.ledger import Ledger
from cli_support import caribou, refusal, run

pytestmark = pytest.mark.usefixtures("quick_learning")
SIZES = (90, 110, 130)


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three months as tables of nodes and edges, and a run of the first, charged."""
    folder = tmp_path_factory.mktemp("months")
    whole = cb.datasets.load("csbm", nodes=SIZES[-1], classes=2, features=4, average_degree=8.0, seed=2)
    names = np.array([f"account {(7 * i) % 131}" for i in range(SIZES[-1])])
    for month, size in enumerate(SIZES):
        graph = whole.first_nodes(size)
        order = np.random.default_rng(month).permutation(size)
        rows = {"id": names[:size], **{f"x{k}": graph.features[:, k] for k in range(4)}, "label": graph.labels}
        part = np.full(size, "test", dtype=object)
        part[graph.split.train], part[graph.split.val] = "train", "val"
        pd.DataFrame({**rows, "split": part}).iloc[order].to_csv(folder / f"nodes-{month}.csv", index=False)
        u, v = graph.edge_index
        pd.DataFrame({"source": names[u[u < v]], "target": names[v[u < v]]}).to_csv(
            folder / f"edges-{month}.csv", index=False
        )
    return folder


def tables(folder: Path, month: int) -> tuple[object, ...]:
    return "--graph", folder / f"edges-{month}.csv", "--nodes", folder / f"nodes-{month}.csv"


@pytest.fixture
def first(months: Path, tmp_path: Path, quick_learning: None) -> Path:
    """A ledger with a yearly budget of one epsilon, and the run of the first month."""
    ledger = tmp_path / "ledger.sqlite"
    caribou("ledger", "budget", "accounts", "--epsilon", 2, "--unit", "edge", "--ledger", ledger)
    words = ("--name", "accounts", "--ledger", ledger, "--purpose", "fraud scores", "--person", "ada")
    out = ("--out", tmp_path / "run-0", "--period", "2026-01")
    caribou("train", "votes-edp", *tables(months, 0), "--epsilon", 2, *out, *words)
    return tmp_path


def extend(months: Path, folder: Path, before: str, month: int, out: str, *more: object) -> tuple[int, str]:
    ledger = ("--ledger", folder / "ledger.sqlite")
    done = run("extend", folder / before, *tables(months, month), "--out", folder / out, *ledger, *more)
    return done.returncode, done.stdout + done.stderr


def scores_of(folder: Path) -> pd.DataFrame:
    out = folder.with_suffix(".csv")
    caribou("predict", folder, "--out", out)
    return pd.read_csv(out)


def test_three_months_cost_one_epsilon(months: Path, first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = extend(months, first, "run-0", 1, "run-1", "--period", "2026-02", "--purpose", "fraud scores")
    assert code == 0, said
    assert "90 of 90 known nodes are in the graph\n20 new nodes, at no further cost" in said
    fresh = cb.load(first / "run-1").is_new
    table = pd.read_csv(months / "nodes-1.csv", index_col="id").loc[np.array(cb.load(first / "run-1").node_ids)[fresh]]
    assert f"arrivals, on {(table['split'] == 'test').sum()} test nodes with a label: accuracy " in said
    assert "  test metrics: balanced accuracy " in said
    code, said = extend(months, first, "run-1", 2, "run-2")
    assert code == 0, said
    book = Ledger(first / "ledger.sqlite")
    assert book.total("accounts", "edge").epsilon_spent == pytest.approx(2, rel=1e-4)
    entries = book.entries("accounts")
    runs = [cb.load(first / f"run-{k}") for k in range(3)]
    assert [entry.certificate_id for entry in entries] == [model.certificate.certificate_id for model in runs]
    assert [entry.extends for entry in entries] == [None, entries[0].certificate_id, entries[1].certificate_id]
    assert [entry.period for entry in entries] == ["2026-01", "2026-02", None]
    assert runs[1].certificate.public_parameters["period"] == "2026-02"
    caribou("predict", first / "run-2", "--out", first / "scores.csv")
    scores = pd.read_csv(first / "scores.csv", index_col="id")
    known = pd.read_csv(months / "nodes-2.csv", index_col="id")
    assert set(scores.index) == set(known.index)
    before_last = set(pd.read_csv(months / "nodes-1.csv")["id"])
    assert scores["new"].to_dict() == {name: name not in before_last for name in scores.index}, (
        "the last batch is marked"
    )
    assert "new" not in scores_of(first / "run-0")
    before = dict(zip(runs[0].node_ids, runs[0].predict_proba().tolist(), strict=True))
    after = dict(zip(runs[2].node_ids, runs[2].predict_proba().tolist(), strict=True))
    assert all(after[name] == p for name, p in before.items()), "rows of old nodes stay"
    monkeypatch.setenv("COLUMNS", "250")
    shown = run("ledger", "show", "--dataset", "accounts", "--ledger", first / "ledger.sqlite").stdout
    assert "fraud scores" in shown
    assert "nothing more: a later batch" in shown


def test_a_run_is_extended_once(months: Path, first: Path) -> None:
    assert extend(months, first, "run-0", 1, "run-1")[0] == 0
    code, said = extend(months, first, "run-0", 1, "again")
    assert code == 2
    assert "was extended already, by certificate" in said
    assert not (first / "again").exists()
    # the ledger knows of a copy, too
    shutil.copytree(first / "run-0", first / "copy")
    code, said = extend(months, first, "copy", 1, "again")
    assert code == 2
    assert "was extended already, by certificate" in said
    code, said = extend(months, first, "copy", 1, "again", "--spend")
    assert code == 2, "the budget has no second epsilon"
    assert "would bring the total to epsilon = 4" in said
    caribou("ledger", "budget", "accounts", "--epsilon", 4, "--unit", "edge", "--ledger", first / "ledger.sqlite")
    code, said = extend(months, first, "copy", 1, "again", "--spend")
    assert code == 0, said
    assert "a release of its own" in said
    book = Ledger(first / "ledger.sqlite")
    assert book.total("accounts", "edge").epsilon_spent == pytest.approx(4, rel=1e-4)
    assert book.entries()[-1].extends is None
    assert cb.load(first / "again").certificate.void_reasons == ()


def test_refusals(months: Path, first: Path) -> None:
    out, ledger = ("--out", first / "x"), ("--ledger", first / "ledger.sqlite")
    assert "ledger must be given" in refusal("extend", first / "run-0", *tables(months, 1), *out)
    same = refusal("extend", first / "run-0", *tables(months, 0), *out, *ledger)
    assert "must hold a node that has not been there before" in same
    other = refusal("extend", first / "run-0", *tables(months, 1), *out, *ledger, "--name", "others")
    assert "recorded under 'accounts': use that name" in other
    assert not (first / "x").exists()
    caribou("train", "gap-edp", *tables(months, 0), "--epsilon", 2, "--out", first / "gap")
    assert "must be votes-edp to be extended" in refusal("extend", first / "gap", *tables(months, 1), *out)
    assert extend(months, first, "run-0", 1, "run-1")[0] == 0, "a refusal leaves the run as it was"


def test_new_spellings_of_ids_are_refused(months: Path, first: Path) -> None:
    """Everybody who was asked would be asked again for nothing."""
    for table, titles in (("nodes", ["id"]), ("edges", ["source", "target"])):
        rows = pd.read_csv(months / f"{table}-1.csv")
        for words, change in (("upper", str.upper), ("other", lambda name: f"customer {name}")):
            rows.assign(**{t: rows[t].map(change) for t in titles}).to_csv(first / f"{table}-{words}.csv", index=False)
    ledger = ("--ledger", first / "ledger.sqlite")
    for words, why in (
        ("upper", "ids must be spelled as in the model"),
        ("other", "at least half of the 90 known"),
    ):
        files = ("--graph", first / f"edges-{words}.csv", "--nodes", first / f"nodes-{words}.csv")
        done = run("extend", first / "run-0", *files, "--out", first / words, *ledger)
        assert (done.returncode, why in done.stderr) == (2, True), done.stderr
    assert len(Ledger(first / "ledger.sqlite").entries()) == 1
    done = run("extend", first / "run-0", *files, "--out", first / "new", *ledger, "--left")
    assert (done.returncode, "0 of 90 known nodes are in the graph" in done.stdout) == (0, True), done.stderr


def test_the_key_goes_with_the_command_that_ends_an_extension(
    months: Path, first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever had it could take the noise off the run that was saved."""
    monkeypatch.setenv("CARIBOU_STATE", str(first / "state"))
    update = WorkFolder.update

    def dies(self: WorkFolder, **fields: object) -> None:
        if fields.get("stage") == "released":
            raise KeyboardInterrupt
        update(self, **fields)

    monkeypatch.setattr(WorkFolder, "update", dies)
    assert extend(months, first, "run-0", 1, "run-1")[0] != 0
    assert list((first / "state").rglob("key")), "the test can fail"
    monkeypatch.setattr(WorkFolder, "update", update)
    code, said = extend(months, first, "run-0", 1, "run-1")
    assert code == 0, said
    assert not list((first / "state").rglob("key"))
    assert len(Ledger(first / "ledger.sqlite").entries()) == 2
