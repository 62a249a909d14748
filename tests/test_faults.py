"""Every call by which a file changes fails once, and the process dies at each: nothing is half-written, paid twice or lost.

SQLite is tested in this way. The calls of a release are few, so all of them are tried.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import caribou as cb
from caribou.engines.pipeline import Request, release_files
from caribou.errors import CaribouError, LedgerError
from caribou.privacy.budget import Budget
from caribou.privacy.events import EpsilonDelta, Gaussian
from caribou.privacy.ledger import Ledger
from fault_support import KINDS, sweep

pytestmark = pytest.mark.usefixtures("quick_learning")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: thousands of syncs would take minutes."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


CLEANING = ("unlink", "rmdir", "remove")
"""A fault while something is cleaned up leaves it there."""


def entries(path: Path) -> list[str | None]:
    """The certificates in a ledger that must be intact; none where there is no ledger."""
    if not path.exists():
        return []
    ledger = Ledger(path, create=False)
    assert ledger.check() == ()
    return [entry.certificate_id for entry in ledger.entries()]


def strays(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.startswith(".") or path.name.endswith("-journal")]


# -- the ledger -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [False, True])
def test_a_charge_is_whole_or_not_there(disk: Path, there: bool) -> None:
    start = disk / "start"
    start.mkdir()
    if there:
        Ledger(start / "book.sqlite").set_budget("survey", Budget(1))

    def charge(folder: Path) -> None:
        ledger = Ledger(folder / "book.sqlite")
        prints = [ledger.fingerprint([b"graph"])]
        ledger.charge(
            "survey", "edge", [EpsilonDelta(0.75)], description="one", certificate_id="c", fingerprints=prints
        )

    def check(folder: Path, kind: str, calls: list[str], error: object) -> None:
        path = folder / "book.sqlite"
        recorded = entries(path)
        assert recorded in ([], ["c"])
        if error is None or (kind == "fails late" and calls[-1] == "SQL COMMIT" and there):
            assert recorded == ["c"] or calls.count("SQL INSERT") == 0
        if kind != "dies":
            assert error is None or isinstance(error, CaribouError), error
            assert calls[-1] in ("unlink", "link") or not strays(folder)
        if recorded:
            with pytest.raises(LedgerError, match="already recorded"):
                charge(folder)
        else:
            charge(folder)
        assert entries(path) == ["c"]

    assert sweep(f"charge ({'an old' if there else 'a new'} ledger)", start, charge, check) > 40


def test_a_merge_takes_everything_or_nothing(disk: Path) -> None:
    start = disk / "start"
    start.mkdir()
    own, other = Ledger(start / "own.sqlite"), Ledger(start / "other.sqlite")
    for name, number in (("survey", "a"), ("survey", "b"), ("theirs", "c")):
        other.charge(name, "edge", [Gaussian(3.0)], description="one", certificate_id=number)
    other.set_budget("theirs", Budget(8))
    own.charge("survey", "edge", [Gaussian(3.0)], description="one", certificate_id="a")

    def merge(folder: Path) -> None:
        Ledger(folder / "own.sqlite", create=False).merge(Ledger(folder / "other.sqlite", create=False))

    def check(folder: Path, kind: str, calls: list[str], error: object) -> None:
        taken = entries(folder / "own.sqlite")
        assert taken in (["a"], ["a", "b", "c"])
        assert error is not None or len(taken) == 3
        assert kind == "dies" or isinstance(error, CaribouError | None), error
        assert len(Ledger(folder / "own.sqlite").history("theirs") if len(taken) == 3 else [1]) == 1
        merge(folder)
        assert entries(folder / "own.sqlite") == entries(folder / "other.sqlite") == ["a", "b", "c"]

    assert sweep("ledger merge", start, merge, check) > 60


# -- runs -----------------------------------------------------------------------------------------------------------------


WHOLE = cb.datasets.load("csbm", nodes=60, classes=2, features=4, average_degree=6.0, seed=2).renamed("accounts")
FIRST, GROWN = WHOLE.first_nodes(40), WHOLE.first_nodes(60)


@pytest.fixture(scope="module")
def model() -> cb.Model:
    return cb.Votes(cb.Budget(2.0), max_rounds=1).fit(FIRST)


def test_a_run_is_saved_whole_or_not_at_all(model: cb.Model, disk: Path) -> None:
    start = disk / "start"
    start.mkdir()
    expected = model.predict_proba()

    def save(folder: Path) -> None:
        model.save(folder / "run")

    def check(folder: Path, kind: str, calls: list[str], error: object) -> None:
        run = folder / "run"
        assert kind == "dies" or isinstance(error, CaribouError | None), error
        assert kind == "dies" or calls[-1] in CLEANING or not strays(folder)
        if error is None:
            assert run.exists()
        if run.exists():
            assert np.array_equal(cb.load(run).predict_proba(), expected)
        else:
            save(folder)
        assert np.array_equal(cb.load(run).predict_proba(), expected)

    assert sweep("save", start, save, check) > 60


def test_an_extension_asks_once_and_pays_once(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = disk / "start"
    start.mkdir()
    monkeypatch.setenv("CARIBOU_STATE", str(start / "state"))
    first = cb.Votes(cb.Budget(2.0), max_rounds=1).fit(FIRST, ledger=start / "book.sqlite")
    first.save(start / "run")
    own = first.certificate.certificate_id

    def extend(folder: Path) -> None:
        monkeypatch.setenv("CARIBOU_STATE", str(folder / "state"))  # the key of the noise lies there
        kept = folder.with_suffix(".kept")  # outside: it does not count
        cb.load(folder / "run").extend(
            GROWN, ledger=folder / "book.sqlite", keep=lambda made: kept.write_text(made.certificate.certificate_id)
        )

    def check(folder: Path, kind: str, calls: list[str], error: object) -> None:
        book, kept = folder / "book.sqlite", folder.with_suffix(".kept")
        recorded = entries(book)
        assert recorded[0] == own
        assert len(recorded) <= 2
        assert kind == "dies" or isinstance(error, CaribouError | None), error
        assert len(recorded) == 2 or not kept.exists(), "nothing is kept that is not charged"
        refused = None
        try:
            extend(folder)  # what is paid for is not lost: the same call ends it, under the same certificate
        except CaribouError as refusal:
            refused = str(refusal)
        assert refused is None or "extended already" in refused, refused
        assert kept.exists(), refused
        assert entries(book) == [*recorded, kept.read_text()][:2]
        assert Ledger(book).total("accounts", "edge").epsilon_spent <= 2

    assert sweep("extend", start, extend, check) > 60


# -- releases from files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["local", "outofcore"])
def test_a_release_from_files_is_charged_once_and_resumed(disk: Path, engine: str) -> None:
    start = disk / "start"
    start.mkdir()
    rng = np.random.default_rng(0)
    np.save(start / "edges.npy", rng.integers(0, 40, (90, 2)))
    np.save(start / "features.npy", rng.normal(size=(40, 3)))
    Ledger(start / "book.sqlite").set_budget("survey", Budget(4.0, 1e-6))

    def release(folder: Path) -> None:
        request = Request(
            *(folder / "edges.npy", folder / "features.npy", folder / "out.npy"),
            budget=Budget(3.0, 1e-6),
            hops=2,
            beta=0.2,
            alpha1=0.9,
            degree_floor=3,
            workers=1,
            engine=engine,
            name="survey",
        )
        release_files(request, ledger=folder / "book.sqlite")

    def check(folder: Path, kind: str, calls: list[str], error: object) -> None:
        out, book = folder / "out.npy", folder / "book.sqlite"
        recorded = entries(book)
        shown = out.read_bytes() if out.exists() else None
        assert len(recorded) <= 1
        assert recorded or shown is None, "nothing leaves before it is charged"
        assert kind == "dies" or isinstance(error, CaribouError | None), error
        certificate, work = folder / "out.certificate.json", folder / ".out.npy.work" / "record.json"
        if shown is None or not certificate.exists() or work.exists():
            release(folder)
        assert entries(book) == recorded or not recorded, "what was charged is finished, and not charged again"
        assert len(entries(book)) == 1
        assert shown is None or out.read_bytes() == shown, "a second draw of the noise would give the rows away"
        assert np.load(out).shape == (40, 3)
        left = {path.name for path in folder.iterdir()} - {"edges.npy", "features.npy"}
        assert {"book.sqlite", "out.certificate.json", "out.npy"} <= left
        assert len(left) == 3 or kind == "dies" or calls[-1] in CLEANING, left
        assert Ledger(book).entries()[0].status == "released"

    # in memory a run differs in how it is resumed alone
    kinds = KINDS if engine == "outofcore" else ("dies",)
    assert sweep(f"propagate ({engine})", start, release, check, kinds) > 60
