"""A failed save never loses a paid fit: full disk, read-only folder, kill."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import caribou as cb
from caribou.cli.doctor import diagnose
from caribou.cli.spool import place_taken, save_or_spool, spooled_runs
from caribou.errors import RunError
from caribou.model import state as model_state
from caribou.model.state import graph_fingerprint
from caribou.privacy.ledger import Ledger
from cli_support import caribou

pytestmark = pytest.mark.usefixtures("quick_learning")
TRAIN = ("train", "votes-edp", "--dataset", "csbm:nodes=80", "--set", "max_rounds=1")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CARIBOU_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def fail_in(monkeypatch: pytest.MonkeyPatch, code: int, *folders: Path) -> None:
    """From the moment on at which a run is written: these folders fail like a full or a read-only disk."""
    original = model_state.atomic_folder

    @contextmanager
    def failing(target: Any, **options: Any) -> Iterator[Path]:
        with original(target, **options) as temporary:
            yield temporary
            if any(Path(target).is_relative_to(folder) for folder in folders):
                raise OSError(code, os.strerror(code))

    monkeypatch.setattr(model_state, "atomic_folder", failing)


def test_a_place_that_another_command_has_taken_is_refused_before_the_charge(state: Path, tmp_path: Path) -> None:
    """Both would be paid for, and one of them would have no place."""
    ledger, out = tmp_path / "ledger.sqlite", tmp_path / "run"
    with place_taken(out):
        refused = caribou(*TRAIN, "--out", out, "--ledger", ledger, code=2).stderr
    assert "out must be a folder that no other command is about to write" in " ".join(refused.split())
    assert not ledger.exists()
    assert list(tmp_path.iterdir()) == [], "a refused command leaves nothing"
    caribou(*TRAIN, "--out", out, "--ledger", ledger)
    assert {path.name for path in tmp_path.iterdir()} == {"ledger.sqlite", "run", "state"}
    with pytest.raises(RunError, match="new or empty folder"), place_taken(out):
        pass


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    with place_taken(tmp_path / "run"):
        (lock,) = tmp_path.iterdir()
    ledger = tmp_path / "ledger.sqlite"
    ledger.write_bytes(b"records")
    lock.symlink_to(ledger)
    with pytest.raises(RunError, match="no other command is about to write"), place_taken(tmp_path / "run"):
        pass
    assert ledger.read_bytes() == b"records"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_run_that_cannot_be_saved_waits_in_the_spool_folder(
    code: int, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    fail_in(monkeypatch, code, home)
    done = caribou(*TRAIN, "--out", home / "run", "--ledger", tmp_path / "ledger.sqlite", code=2)
    assert os.strerror(code) in done.stderr
    assert "nothing is lost" in done.stderr
    assert "in memory" not in done.stderr
    (kept,) = spooled_runs()
    assert f"mv {kept} {home / 'run'}" in done.stderr
    assert diagnose()["runs"] == {"waiting in the spool folder": str(kept)}
    assert list(home.iterdir()) == [], "nothing is left half written"
    monkeypatch.undo()
    shutil.move(kept, home / "run")
    (entry,) = Ledger(tmp_path / "ledger.sqlite").entries()
    assert cb.load(home / "run").certificate.certificate_id == entry.certificate_id


def test_a_full_home_leads_to_the_next_folder(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = cb.Votes(cb.Budget(4), max_rounds=1).fit(cb.datasets.load("csbm", nodes=60))
    home = tmp_path / "home"
    home.mkdir()
    fail_in(monkeypatch, errno.ENOSPC, state, home)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    with pytest.raises(RunError, match=r"nothing is lost: the run is kept in .*/tmp/"):
        save_or_spool(model, home / "run")
    fail_in(monkeypatch, errno.ENOSPC, tmp_path)
    with pytest.raises(RunError, match="no other folder could be written either"):
        save_or_spool(model, home / "run")
    with pytest.raises(RunError, match="still in memory: save it to another folder"):
        model.save(home / "run")
    monkeypatch.undo()
    model.save(home / "run")
    assert cb.load(home / "run").certificate == model.certificate


def test_a_process_that_is_killed_while_it_saves_leaves_the_run_in_the_spool_folder(
    state: Path, tmp_path: Path
) -> None:
    script = f"""
        import os, signal
        from contextlib import contextmanager
        from pathlib import Path
        import caribou as cb
        from caribou.model import state as model_state
        from caribou.cli.spool import save_or_spool
        original = model_state.atomic_folder
        @contextmanager
        def killed(target, **options):
            with original(target, **options) as temporary:
                yield temporary
                if Path(target).name == "run":
                    os.kill(os.getpid(), signal.SIGKILL)
        model_state.atomic_folder = killed
        from caribou.models import encoder
        few = encoder.EncoderConfig(9, 0.02, 1e-3, 0.1, 0.0, sparse_row_length=16.0)
        encoder.configurations = lambda graph: (few,)
        model = cb.Votes(cb.Budget(4), max_rounds=1)
        model.fit(cb.datasets.load("csbm", nodes=60), ledger={str(tmp_path / "ledger.sqlite")!r})
        save_or_spool(model, Path({str(tmp_path / "run")!r}))
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "run").exists()
    (kept,) = spooled_runs()
    (entry,) = Ledger(tmp_path / "ledger.sqlite").entries()
    assert cb.load(kept).certificate.certificate_id == entry.certificate_id


def test_public_work_is_done_before_anything_is_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from caribou.models import class_prior, encoder

    def fails(*_: object, **__: object) -> None:
        raise MemoryError("the encoder")

    monkeypatch.setattr(encoder, "_fit_jointly", fails)
    monkeypatch.setattr(class_prior, "learners_for", fails)
    book = Ledger(tmp_path / "ledger.sqlite")
    graph = cb.datasets.load("csbm", nodes=60)
    for method in ("votes-edp", "caribou-edp", "gap-edp", "progap-edp", "lpgnet-edp", "dpdgc-edp"):
        with pytest.raises(MemoryError, match="the encoder"):
            cb.Model(method, cb.Budget(4)).fit(graph, ledger=book)
    assert book.entries() == ()


def test_the_fingerprint_is_keyed(state: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graph = cb.datasets.load("csbm", nodes=60)
    first = graph_fingerprint(graph)
    assert graph_fingerprint(graph.renamed("other")) == first
    assert graph_fingerprint(graph.without_edge(*map(int, graph.edge_index[:, 0]))) != first
    monkeypatch.setenv("CARIBOU_STATE", str(tmp_path / "elsewhere"))
    assert graph_fingerprint(graph) != first
