"""Extending a model: who may be, that it happens once, and what the notes in its folders know."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import caribou as cb
from caribou.engines.folder import WorkFolder
from caribou.errors import CaribouError, InputError, LedgerError, RunError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.model.growth import EXTENDED, ExtensionNotes
from caribou.privacy.ledger import Ledger
from caribou.release import Account

pytestmark = pytest.mark.usefixtures("quick_learning")
WHOLE = dataclasses.replace(
    cb.datasets.load("csbm", nodes=90, classes=2, features=4, average_degree=8.0, seed=2),
    node_ids=np.random.default_rng(0).permutation([f"account {i}" for i in range(90)]),
    name="accounts",
)
FIRST, GROWN = WHOLE.first_nodes(50), WHOLE.first_nodes(70)


def votes(budget: float = 2.0) -> cb.Votes:
    return cb.Votes(cb.Budget(budget), max_rounds=1)


@pytest.fixture
def free(tmp_path: Path) -> tuple[Path, cb.Graph]:
    """A run that was charged nowhere, a ledger that holds its certificate, and the graph of the next month."""
    votes().fit(FIRST).save(tmp_path / "run")
    add_to(tmp_path / "one.sqlite", tmp_path / "run")
    return tmp_path, GROWN


def add_to(ledger: Path, folder: Path) -> None:
    model = cb.load(folder)
    Ledger(ledger).charge(
        str(model.state.dataset),
        "edge",
        model.certificate.cost,
        description="by hand",
        certificate_id=model.certificate.certificate_id,
        already_made=True,
    )


def test_marker_and_ledgers_know_of_each_other(free: tuple[Path, cb.Graph]) -> None:
    folder, grown = free
    add_to(folder / "two.sqlite", folder / "run")
    for ledger, others in (("one", ("two", None)), (None, ("one", "two"))):
        place = shutil.copytree(folder / "run", folder / f"first-{ledger}")
        later = cb.load(place).extend(grown, ledger=ledger and folder / f"{ledger}.sqlite")
        marker = json.loads((place / EXTENDED).read_text())
        assert (marker["certificate"], marker["asked"]) == (later.certificate.certificate_id, True)
        for other in others:
            with pytest.raises(RunError, match="is extended already"):
                cb.load(place).extend(grown, ledger=other and folder / f"{other}.sqlite")
    assert len(Ledger(folder / "two.sqlite").entries()) == 1


def test_a_process_that_was_killed_before_its_charge_goes_on_with_the_same_ledger(free: tuple[Path, cb.Graph]) -> None:
    folder, grown = free
    add_to(folder / "two.sqlite", folder / "run")
    model = cb.load(folder / "run")
    notes = ExtensionNotes([folder / "run"], model.certificate.certificate_id, grown.name)
    notes.certificate(lambda: dataclasses.replace(model.certificate, certificate_id="killed"), folder / "one.sqlite")
    for ledger in (folder / "two.sqlite", None):
        with pytest.raises(RunError, match="is being extended"):
            cb.load(folder / "run").extend(grown, ledger=ledger)
    later = cb.load(folder / "run").extend(grown, ledger=folder / "one.sqlite")
    written = json.loads((folder / "run" / EXTENDED).read_text())
    assert (written["certificate"], written["asked"]) == (later.certificate.certificate_id, True)


def test_copies_made_after_an_extension_know_of_it(free: tuple[Path, cb.Graph]) -> None:
    folder, grown = free
    model = cb.load(folder / "run")
    model.save(folder / "again")
    early = pickle.loads(pickle.dumps(model))
    model.extend(grown)
    for place in ("run", "again"):
        assert (folder / place / EXTENDED).exists(), "the model lies wherever it was read from or saved to"
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
    assert not (folder / "run" / EXTENDED).exists(), "a refusal leaves no note"


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
    assert later.release(grown).certificate == later.certificate
    later.save(folder / "later")
    loaded = cb.load(folder / "later")
    assert np.array_equal(loaded.predict_proba(grown, training_graph=True), later.predict_proba(grown))


def test_without_a_ledger_the_folder_knows(free: tuple[Path, cb.Graph]) -> None:
    folder, grown = free
    two = [cb.load(folder / "run") for _ in range(2)]  # as two processes would
    later = two[0].extend(grown)
    for model, words in ((two[0], "must not be extended twice"), (two[1], "is extended already, or is being extended")):
        with pytest.raises(CaribouError, match=words):
            model.extend(grown)
    assert later.extend(WHOLE).state.nodes == 90
    assert later.certificate.void_reasons == ()


def test_a_void_run_is_not_extended() -> None:
    """Its child would show the old rows under a certificate that promises something."""
    first, grown = FIRST, GROWN
    void = votes().fit(first, noise=NoiseSource.seeded(1))
    assert void.certificate.status == "void"
    for spend in (False, True):
        with pytest.raises(InputError, match="certificate must be a guarantee to be extended"):
            void.extend(grown, spend=spend)
    open_model = votes(math.inf).fit(first)
    assert open_model.extend(grown).certificate.status == "no privacy"


def test_a_ledger_that_is_not_there_is_not_made(free: tuple[Path, cb.Graph]) -> None:
    folder, grown = free
    with pytest.raises(LedgerError, match="does not exist, so it does not hold certificate"):
        cb.load(folder / "run").extend(grown, ledger=folder / "none.sqlite")
    assert not (folder / "none.sqlite").exists()
    assert not (folder / "run" / EXTENDED).exists()


@pytest.fixture
def charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A run and the ledger that it was charged in; a private folder of its own."""
    monkeypatch.setenv("CARIBOU_STATE", str(tmp_path / "state"))
    votes().fit(FIRST, ledger=tmp_path / "ledger.sqlite").save(tmp_path / "run")
    return tmp_path / "run", tmp_path / "ledger.sqlite"


class Killed(BaseException):
    """The process dies here."""


def die(*_: object) -> None:
    raise Killed


def killed_extension(run: Path, ledger: Path | None, grown: cb.Graph = GROWN) -> list[cb.Model]:
    """Of a process that dies before the new model is kept; what it had."""
    lost: list[cb.Model] = []
    with pytest.raises(Killed):
        cb.load(run).extend(grown, ledger=ledger, keep=lambda model: (lost.append(model), die()))
    return lost


@pytest.mark.parametrize("with_ledger", [True, False])
def test_an_extension_that_died_is_ended_with_the_same_answers(charged: tuple[Path, Path], with_ledger: bool) -> None:
    run, book = charged
    if not with_ledger:
        shutil.rmtree(run)
        votes().fit(FIRST).save(run)
    ledger = book if with_ledger else None
    before = len(Ledger(book).entries())
    (lost,) = killed_extension(run, ledger)
    (again,) = killed_extension(run, ledger)
    later = cb.load(run).extend(GROWN, ledger=ledger)
    assert later.certificate == lost.certificate == again.certificate
    for name, array in lost.released.items():
        assert np.array_equal(array, later.released[name]), name
        assert np.array_equal(array, again.released[name]), name
    assert len(Ledger(book).entries()) == before + with_ledger, "charged once"
    assert not list((run.parent / "state" / "extensions").iterdir()), "the key is gone"
    with pytest.raises(CaribouError, match="extended already"):
        cb.load(run).extend(GROWN, ledger=ledger)


def test_an_extension_that_died_is_ended_with_nothing_else(charged: tuple[Path, Path]) -> None:
    """The same noise is never added to anything else: not to another graph, nor to another label or model."""
    run, ledger = charged
    killed_extension(run, ledger)
    edge = GROWN.without_edge(*(int(end) for end in GROWN.edge_index[:, 0]))
    relabelled = dataclasses.replace(GROWN, labels=1 - np.asarray(GROWN.labels))
    for other in (edge, WHOLE):
        with pytest.raises(RunError, match="an extension of this model was interrupted"):
            cb.load(run).extend(other, ledger=ledger)
    with pytest.raises(RunError, match="belongs to another plan or another graph"):
        cb.load(run).extend(relabelled, ledger=ledger)
    with pytest.raises(RunError, match="ledger must be that of the interrupted run"):
        cb.load(run).extend(GROWN, ledger=Ledger(run.parent / "other.sqlite"))
    with pytest.raises(RunError, match="is extended already, or is being extended"):
        cb.load(run).extend(GROWN, ledger=run.parent / "other.sqlite", noise=NoiseSource.secure())
    cb.load(run).extend(GROWN, ledger=ledger)


def test_an_extension_that_died_around_its_charge_is_charged_once(
    charged: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, ledger = charged
    for kind, method, entries in ((Account, "charge", 1), (WorkFolder, "charged", 2), (Account, "mark_released", 2)):
        with monkeypatch.context() as patch:
            patch.setattr(kind, method, die)
            with pytest.raises(Killed):
                cb.load(run).extend(GROWN, ledger=ledger)
        assert len(Ledger(ledger).entries()) == entries
    cb.load(run).extend(GROWN, ledger=ledger)
    assert [entry.extends is None for entry in Ledger(ledger).entries()] == [True, False]


def test_a_copy_elsewhere_does_not_end_an_extension(
    charged: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever lacks the key would draw other noise for the same pairs."""
    run, ledger = charged
    copied = shutil.copytree(run, run.parent / "copy")
    killed_extension(run, ledger)
    monkeypatch.setenv("CARIBOU_STATE", str(run.parent / "another"))
    for place in (run, copied):
        with pytest.raises(CaribouError, match="extended already"):
            cb.load(place).extend(GROWN, ledger=ledger)


def test_a_refused_extension_leaves_no_key(charged: tuple[Path, Path]) -> None:
    run, _ = charged
    with pytest.raises(LedgerError, match="does not exist"):
        cb.load(run).extend(GROWN, ledger=run.parent / "none.sqlite")
    assert not list((run.parent / "state" / "extensions").iterdir())
    assert not (run / EXTENDED).exists()


def test_two_processes_do_not_extend_at_once(charged: tuple[Path, Path]) -> None:
    run, ledger = charged

    def second(_: cb.Model) -> None:
        with pytest.raises(RunError, match="another process is making this release"):
            cb.load(run).extend(GROWN, ledger=ledger)

    cb.load(run).extend(GROWN, ledger=ledger, keep=second)
