"""``caribou extend``: months of a growing graph for one epsilon, whatever is killed, repeated or done at once."""

from __future__ import annotations

import copy
import json
import math
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import caribou as cb
from caribou.errors import CaribouError, InputError, LedgerError, RunError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.ledger import Ledger
from caribou.saved_model import ExtensionMarker
from cli_support import run

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
    assert run("ledger", "budget", "accounts", "--epsilon", 2, "--unit", "edge", "--ledger", ledger).returncode == 0
    words = (
        "--name",
        "accounts",
        "--ledger",
        ledger,
        "--purpose",
        "fraud scores",
        "--person",
        "ada",
        "--period",
        "2026-01",
    )
    done = run("train", "votes-edp", *tables(months, 0), "--epsilon", 2, "--out", tmp_path / "run-0", *words)
    assert done.returncode == 0, done.stderr
    return tmp_path


def extend(months: Path, folder: Path, before: str, month: int, out: str, *more: object) -> tuple[int, str]:
    ledger = ("--ledger", folder / "ledger.sqlite")
    done = run("extend", folder / before, *tables(months, month), "--out", folder / out, *ledger, *more)
    return done.returncode, done.stdout + done.stderr


def scores_of(folder: Path) -> pd.DataFrame:
    out = folder.with_suffix(".csv")
    assert run("predict", folder, "--out", out).returncode == 0
    return pd.read_csv(out)


def test_three_months_cost_one_epsilon(months: Path, first: Path) -> None:
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
    assert run("predict", first / "run-2", "--out", first / "scores.csv").returncode == 0
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
    shown = run("ledger", "show", "--dataset", "accounts", "--ledger", first / "ledger.sqlite").stdout
    assert "purpose fraud scores; person ada; period 2026-01" in shown
    assert "costs nothing more: extends certificate" in shown


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
    assert (
        run(
            "ledger", "budget", "accounts", "--epsilon", 4, "--unit", "edge", "--ledger", first / "ledger.sqlite"
        ).returncode
        == 0
    )
    code, said = extend(months, first, "copy", 1, "again", "--spend")
    assert code == 0, said
    assert "a release of its own" in said
    book = Ledger(first / "ledger.sqlite")
    assert book.total("accounts", "edge").epsilon_spent == pytest.approx(4, rel=1e-4)
    assert book.entries()[-1].extends is None
    assert cb.load(first / "again").certificate.void_reasons == ()


def test_a_killed_month_resumes_where_the_last_saved_run_stands(
    months: Path, first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before anything is asked, nothing was spent: the same command makes the month."""
    from caribou.privacy.ledger import Ledger as Book

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Book, "charge", killed)
    code, _ = extend(months, first, "run-0", 1, "run-1")
    assert code == 130
    monkeypatch.undo()
    monkeypatch.setenv("CARIBOU_STATE", str(first / "state"))
    assert extend(months, first, "run-0", 1, "run-1")[0] == 0
    assert extend(months, first, "run-1", 2, "run-2")[0] == 0
    assert len(Ledger(first / "ledger.sqlite").entries()) == 3


def test_without_a_ledger_the_folder_knows(months: Path, tmp_path: Path) -> None:
    train = run("train", "votes-edp", *tables(months, 0), "--epsilon", 2, "--out", tmp_path / "run")
    assert train.returncode == 0
    two = [cb.load(tmp_path / "run") for _ in range(2)]  # as two processes would
    grown = cb.read_graph(months / "edges-1.csv", months / "nodes-1.csv")
    later = two[0].extend(grown)
    for model, words in ((two[0], "must not be extended twice"), (two[1], "is extended already, or is being extended")):
        with pytest.raises(CaribouError, match=words):
            model.extend(grown)
    done = run("extend", tmp_path / "run", *tables(months, 1), "--out", tmp_path / "x")
    assert (done.returncode, "is extended already" in done.stderr) == (2, True)
    assert later.extend(months / "edges-2.csv", months / "nodes-2.csv").num_nodes == SIZES[2]


def test_refusals(months: Path, first: Path) -> None:
    done = run("extend", first / "run-0", *tables(months, 1), "--out", first / "x")
    assert done.returncode == 2
    assert "ledger must be given" in done.stderr
    code, said = extend(months, first, "run-0", 0, "x")
    assert code == 2
    assert "must hold a node that has not been there before" in said
    code, said = extend(months, first, "run-0", 1, "x", "--name", "others")
    assert code == 2
    assert "recorded under 'accounts': use that name" in said
    assert not (first / "x").exists()
    done = run("train", "gap-edp", *tables(months, 0), "--epsilon", 2, "--out", first / "gap")
    assert done.returncode == 0
    done = run("extend", first / "gap", *tables(months, 1), "--out", first / "x")
    assert (done.returncode, "must be votes-edp to be extended" in done.stderr) == (2, True)
    assert extend(months, first, "run-0", 1, "run-1")[0] == 0, "a refusal leaves the run as it was"


@pytest.fixture
def free(months: Path, tmp_path: Path) -> tuple[Path, cb.Graph]:
    """A run that was charged nowhere, a ledger that holds its certificate, and the graph of the next month."""
    assert run("train", "votes-edp", *tables(months, 0), "--epsilon", 2, "--out", tmp_path / "run").returncode == 0
    add_to(tmp_path / "one.sqlite", tmp_path / "run")
    return tmp_path, cb.read_graph(months / "edges-1.csv", months / "nodes-1.csv")


def add_to(ledger: Path, folder: Path) -> None:
    model = cb.load(folder)
    Ledger(ledger).record_past(
        str(model._dataset),
        "edge",
        model.certificate.cost,
        description="by hand",
        certificate_id=model.certificate.certificate_id,
    )


def test_marker_and_ledgers_know_of_each_other(free: tuple[Path, cb.Graph]) -> None:
    folder, grown = free
    add_to(folder / "two.sqlite", folder / "run")
    for ledger, others in (("one", ("two", None)), (None, ("one", "two"))):
        place = shutil.copytree(folder / "run", folder / f"first-{ledger}")
        later = cb.load(place).extend(grown, ledger=ledger and folder / f"{ledger}.sqlite")
        marker = json.loads((place / "extended.json").read_text())
        assert (marker["certificate"], marker["asked"]) == (later.certificate.certificate_id, True)
        for other in others:
            with pytest.raises(RunError, match="is extended already"):
                cb.load(place).extend(grown, ledger=other and folder / f"{other}.sqlite")
    assert len(Ledger(folder / "two.sqlite").entries()) == 1


def test_a_process_that_was_killed_before_its_charge_goes_on_with_the_same_ledger(free: tuple[Path, cb.Graph]) -> None:
    folder, grown = free
    add_to(folder / "two.sqlite", folder / "run")
    model = cb.load(folder / "run")
    marker = ExtensionMarker(folder / "run", model.certificate.certificate_id, grown.name)
    marker.certificate(lambda: replace(model.certificate, certificate_id="killed"), folder / "one.sqlite")
    for ledger in (folder / "two.sqlite", None):
        with pytest.raises(RunError, match="is being extended"):
            cb.load(folder / "run").extend(grown, ledger=ledger)
    later = cb.load(folder / "run").extend(grown, ledger=folder / "one.sqlite")
    written = json.loads((folder / "run" / "extended.json").read_text())
    assert (written["certificate"], written["asked"]) == (later.certificate.certificate_id, True)


def test_copies_made_after_an_extension_know_of_it(free: tuple[Path, cb.Graph]) -> None:
    folder, grown = free
    model = cb.load(folder / "run")
    model.save(folder / "again")
    early = pickle.loads(pickle.dumps(model))
    model.extend(grown)
    for place in ("run", "again"):
        assert (folder / place / "extended.json").exists(), "the model lies wherever it was read from or saved to"
    model.save(folder / "late")
    for copied in (copy.copy(model), pickle.loads(pickle.dumps(model)), cb.load(folder / "late"), copy.copy(early)):
        with pytest.raises(InputError, match="must not be extended twice"):
            copied.extend(grown)
    with pytest.raises(RunError, match="is extended already"):
        early.extend(grown)


def test_every_folder_of_a_model_knows_or_none(free: tuple[Path, cb.Graph]) -> None:
    folder, grown = free
    model = cb.load(folder / "run")
    model.save(folder / "second")
    cb.load(folder / "second").extend(grown)
    with pytest.raises(RunError, match="second: is extended already"):
        model.extend(grown)
    assert not (folder / "run" / "extended.json").exists(), "a refusal leaves no note"


def test_a_run_that_was_moved_is_extended_from_where_it_lies(free: tuple[Path, cb.Graph]) -> None:
    """Otherwise it would not know, and could be extended again."""
    folder, grown = free
    model = cb.load(folder / "run")
    (folder / "run").rename(folder / "moved")
    with pytest.raises(RunError, match=r"run must lie where the model was saved.*load it from where it lies now"):
        model.extend(grown)
    model.extend(grown, ledger=folder / "one.sqlite")
    with pytest.raises(LedgerError, match="extended already"):
        cb.load(folder / "moved").extend(grown, ledger=folder / "one.sqlite")


def test_the_grown_graph_is_predicted_by_its_batch(free: tuple[Path, cb.Graph]) -> None:
    """In the order of its own rows, and for nothing more."""
    folder, grown = free
    later = cb.load(folder / "run").extend(grown, ledger=folder / "one.sqlite")
    by_id = dict(zip(later.node_ids or (), later.predict_proba().tolist(), strict=True))
    assert later.predict_proba(grown).tolist() == [by_id[str(name)] for name in grown.node_ids]
    assert len(Ledger(folder / "one.sqlite").entries()) == 2
    with pytest.raises(InputError, match="must be one that this model has released nothing about"):
        later.predict_graph(grown)


def test_a_void_run_is_not_extended(months: Path) -> None:
    """Its child would show the old rows under a certificate that promises something."""
    first, grown = (cb.read_graph(months / f"edges-{k}.csv", months / f"nodes-{k}.csv") for k in range(2))
    void = cb.Votes(cb.Budget(2), max_rounds=1).fit(first, noise=NoiseSource.seeded(1))
    assert void.certificate.status == "void"
    for spend in (False, True):
        with pytest.raises(InputError, match="certificate must be a guarantee to be extended"):
            void.extend(grown, spend=spend)
    open_model = cb.Votes(cb.Budget(math.inf), max_rounds=1).fit(first)
    assert open_model.extend(grown).certificate.status == "no privacy"


def test_a_ledger_that_is_not_there_is_not_made(free: tuple[Path, cb.Graph]) -> None:
    folder, grown = free
    with pytest.raises(LedgerError, match="does not exist, so it does not hold certificate"):
        cb.load(folder / "run").extend(grown, ledger=folder / "none.sqlite")
    assert not (folder / "none.sqlite").exists()
    assert not (folder / "run" / "extended.json").exists()


def test_new_spellings_of_ids_are_refused(months: Path, first: Path) -> None:
    """Everybody who was asked would be asked again for nothing."""
    for table, titles in (("nodes", ["id"]), ("edges", ["source", "target"])):
        rows = pd.read_csv(months / f"{table}-1.csv")
        for words, change in (("upper", str.upper), ("other", lambda name: f"customer {name}")):
            rows.assign(**{t: rows[t].map(change) for t in titles}).to_csv(first / f"{table}-{words}.csv", index=False)
    ledger = ("--ledger", first / "ledger.sqlite")
    for words, refusal in (
        ("upper", "ids must be spelled as in the model"),
        ("other", "at least half of the 90 known"),
    ):
        files = ("--graph", first / f"edges-{words}.csv", "--nodes", first / f"nodes-{words}.csv")
        done = run("extend", first / "run-0", *files, "--out", first / words, *ledger)
        assert (done.returncode, refusal in done.stderr) == (2, True), done.stderr
    assert len(Ledger(first / "ledger.sqlite").entries()) == 1
    done = run("extend", first / "run-0", *files, "--out", first / "new", *ledger, "--left")
    assert (done.returncode, "0 of 90 known nodes are in the graph" in done.stdout) == (0, True), done.stderr


def test_another_graph_is_released_once_and_every_command_gives_it(months: Path, tmp_path: Path) -> None:
    """predict, predict again, embed: one entry, and the same numbers."""
    ledger = tmp_path / "ledger.sqlite"
    train = run(
        "train", "caribou-edp", *tables(months, 0), "--out", tmp_path / "run", "--name", "accounts", "--ledger", ledger
    )
    assert train.returncode == 0, train.stderr
    again = (*tables(months, 1), "--name", "accounts", "--ledger", ledger)
    refused = run("predict", tmp_path / "run", *again, "--out", tmp_path / "a.csv", "--epsilon", 0.5)
    assert refused.returncode == 2
    assert "replace the fingerprint" in refused.stderr
    same = ("--replace-fingerprint", "--reason", "February", "--person", "ada", "--period", "2026-02")
    paid = run("predict", tmp_path / "run", *again, *same, "--out", tmp_path / "a.csv", "--epsilon", 0.5)
    assert paid.returncode == 0, paid.stderr
    assert "epsilon = 0.5" in paid.stderr
    free = run("predict", tmp_path / "run", *again, "--out", tmp_path / "b.csv")
    assert (free.returncode, "nothing is spent" in free.stderr) == (0, True), free.stderr
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
    rows = run("embed", tmp_path / "run", *again, "--out", tmp_path / "rows.csv")
    assert (rows.returncode, "nothing is spent" in rows.stderr) == (0, True), rows.stderr
    assert len(pd.read_csv(tmp_path / "rows.csv")) == SIZES[1]
    book = Ledger(ledger)
    assert len(book.entries()) == 2
    assert {(c.person, c.reason) for c in book.history("accounts") if c.old is not None} == {("ada", "February")}
    other = run("predict", tmp_path / "run", *again, "--out", tmp_path / "c.csv", "--epsilon", 1)
    assert (other.returncode, "epsilon must be that of the release" in other.stderr) == (2, True)
    more = run("predict", tmp_path / "run", *again, "--out", tmp_path / "c.csv", "--epsilon", 0.5, "--spend")
    assert more.returncode == 0, more.stderr
    assert len(book.entries()) == 3
    assert (tmp_path / "a.csv").read_text() != (tmp_path / "c.csv").read_text()


def test_words_need_a_ledger(months: Path, tmp_path: Path) -> None:
    done = run("train", "mlp", *tables(months, 0), "--purpose", "scores", "--out", tmp_path / "run")
    assert (done.returncode, "--purpose must go with --ledger" in done.stderr) == (2, True)
    done = run(
        "train",
        "mlp",
        *tables(months, 0),
        "--ledger",
        tmp_path / "l.sqlite",
        "--reason",
        "x",
        "--out",
        tmp_path / "run",
    )
    assert (done.returncode, "reason must go with --replace-fingerprint" in done.stderr) == (2, True)
