"""The private folder of a run: private, locked, bound to what was asked for, and gone at the end."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from caribou.engines import folder as folder_module
from caribou.engines.folder import discard
from caribou.engines.pipeline import release_files
from caribou.errors import BudgetExceeded, InputError, RunError
from caribou.privacy.ledger import Ledger
from engines_support import Tables, dying_in, killed


def test_a_folder_that_waits_there_is_made_private_or_refused(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    request = tables.request(engine="outofcore")
    request.work.mkdir(mode=0o777)
    request.work.chmod(0o777)
    killed(lambda: release_files(request, progress=dying_in(2)))
    assert stat.S_IMODE(request.work.stat().st_mode) == 0o700
    monkeypatch.setattr(folder_module.os, "geteuid", lambda: 12345)
    with pytest.raises(InputError, match="work must be a folder of the user"):
        release_files(request)


def test_a_lock_of_a_folder_that_was_made_anew_is_not_taken(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    request = tables.request()
    flock = fcntl.flock

    def late(file: Any, how: int) -> None:
        """Between opening and locking, another process finishes, removes the folder and begins anew."""
        shutil.rmtree(request.work)
        request.work.mkdir(mode=0o700)
        (request.work / "lock").write_text("")
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(RunError, match="in use"):
        release_files(request)


def test_an_interrupted_run_is_not_continued_with_other_options_data_or_ledger(tables: Tables) -> None:
    request, path = tables.request(engine="outofcore"), tables.folder / "ledger.sqlite"
    killed(lambda: release_files(request, ledger=Ledger(path), progress=dying_in(2)))
    with pytest.raises(RunError, match=r"another .*parameters"):
        release_files(tables.request(engine="outofcore", hops=5), ledger=Ledger(path))
    with pytest.raises(RunError, match="ledger must be"):
        release_files(request)
    np.save(tables.edges, tables.pairs[1:])
    with pytest.raises(RunError, match="another inputs"):
        release_files(request, ledger=Ledger(path))
    assert discard(request.work)
    assert not discard(request.work)
    release_files(request, ledger=Ledger(path), replace_fingerprint=True)
    assert len(Ledger(path).entries()) == 2


def test_a_lost_key_ends_a_run(tables: Tables) -> None:
    request = tables.request(engine="outofcore")
    killed(lambda: release_files(request, progress=dying_in(2)))
    (request.work / "key").unlink()
    with pytest.raises(RunError, match="key is gone"):
        release_files(request)


def held_key(request: Any, folder: Path) -> Path:
    """Another name of the key's file: it shows what is left on the disk when the key is removed."""
    os.link(request.work / "key", folder / "held")
    return folder / "held"


@pytest.mark.parametrize("how", ["released", "discarded", "refused", "restarted"])
def test_a_key_is_overwritten_before_it_is_removed(tables: Tables, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    request = tables.request(engine="outofcore")
    if how == "refused":  # an error before anything is charged
        held = tables.folder / "held"

        def hold(*_: Any, **__: Any) -> None:
            os.link(request.work / "key", held)
            raise BudgetExceeded("no")

        monkeypatch.setattr(Ledger, "charge", hold)
        with pytest.raises(BudgetExceeded):
            release_files(request, ledger=tables.folder / "ledger.sqlite")
        assert not request.work.exists()
        assert held.stat().st_size > 32
        assert b"operating system" not in held.read_bytes()
        return
    killed(lambda: release_files(request, progress=dying_in(2)))
    held = held_key(request, tables.folder)
    secret = held.read_bytes()[1:33]
    if how == "released":
        release_files(request)
    elif how == "discarded":
        (request.work / ".key.tmp").write_bytes(secret)  # a crash while the key was stored
        os.link(request.work / ".key.tmp", tables.folder / "half")
        assert discard(request.work)
        assert secret not in (tables.folder / "half").read_bytes()
    else:
        record = json.loads((request.work / "record.json").read_text())
        (request.work / "record.json").write_text(json.dumps({**record, "stage": "preparing"}))
        release_files(request)
    assert held.stat().st_size == 33 + len("the operating system")
    assert secret not in held.read_bytes()


def test_two_processes_do_not_share_a_run(tables: Tables) -> None:
    request = tables.request()
    inside, over = threading.Event(), threading.Event()

    def progress(*_: int) -> None:
        inside.set()
        over.wait(30)

    first = threading.Thread(target=lambda: release_files(request, progress=progress))
    first.start()
    assert inside.wait(30)
    for attempt in (lambda: release_files(request), lambda: discard(request.work)):
        with pytest.raises(RunError, match="in use"):
            attempt()
    over.set()
    first.join()
    assert request.out.exists()


def test_an_interrupted_removal_is_finished(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    request, path = tables.request(), tables.folder / "ledger.sqlite"
    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "shutil", SimpleNamespace(rmtree=lambda *_: os._exit(9)))
        killed(lambda: release_files(request, ledger=Ledger(path)))
    assert {entry.name for entry in request.work.iterdir()} == {"lock", "record.json"}
    released = np.load(request.out)
    release_files(request, ledger=Ledger(path))
    assert not request.work.exists()
    assert np.array_equal(released, np.load(request.out))
    assert len(Ledger(path).entries()) == 1
