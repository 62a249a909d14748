"""The private folder of one run: what a resumed run needs, and nothing once the release is made.

It holds the blocked graph, the last complete state, the key of the noise and a record of how far the run came; mode 0700, and as
secret as the graph. The key is overwritten before it is removed. The record moves through these stages, each written durably
before the next begins:

    preparing   nothing is charged and no noise is drawn: the run can be thrown away
    prepared    the blocks are complete; from here on the run reads them and not the tables
    charging    key and certificate are fixed, for good: whether it is in the ledger decides if it must still be charged
    running     charged: from here on noise is drawn
    released    the result is in its place; what is left is to be removed
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from caribou.engines.blocks import RETIRED
from caribou.errors import InputError, RunError
from caribou.machine.files import erase, locked, sync
from caribou.mechanisms.noise_source import RunKey
from caribou.privacy.certificate import Certificate

FORMAT = 4
STAGES = ("preparing", "prepared", "charging", "running", "released")


class WorkFolder:
    """One run's folder, locked against a second process, and its `caribou.release.Journal`.

    ``request`` is what the run was asked for: it must not change.
    """

    def __init__(self, path: Path, request: Mapping[str, Any]) -> None:
        self.path = path
        _make_private(path)
        self._lock = _locked(path)
        try:
            self.record: dict[str, Any] = self._read()
            if self.record.get("stage") in (None, "preparing"):
                self._restart(request)
            self._require_same(request)
        except BaseException:
            self.close()
            raise

    @property
    def stage(self) -> str:
        """How far the run came."""
        return str(self.record["stage"])

    @property
    def key(self) -> Path:
        """Where the key of the noise lies."""
        return self.path / "key"

    def certificate(self, make: Callable[[], Certificate], ledger: Path | None) -> Certificate:
        """That of the interrupted run, which must have had the same ledger, or a new one, stored before it is charged."""
        where = None if ledger is None else str(ledger)
        if self.stage == "prepared":
            self.update(stage="charging", certificate=make().to_dict(), ledger=where)
        if self.record["ledger"] != where:
            raise RunError(f"ledger must be that of the interrupted run, {self.record['ledger']}")
        stored = Certificate.from_dict(self.record["certificate"])
        made = replace(make(), versions=stored.versions, created=stored.created, certificate_id=stored.certificate_id)
        if json.loads(made.to_json()) != json.loads(stored.to_json()):
            raise RunError(f"{self.path}: the certificate of the interrupted run is that of another plan")
        return stored

    @property
    def is_charged(self) -> bool:
        """From the stage running on."""
        return self.stage == "running"

    def charged(self) -> None:
        """From here on noise is drawn."""
        self.update(stage="running")

    def refused(self) -> None:
        """Nothing was charged: the folder can be thrown away."""
        self.update(stage="prepared")

    def update(self, **changes: Any) -> None:
        """Write the record, durably and whole. Where that fails, what is remembered stays as it was."""
        record = {**self.record, **changes}
        temporary = self.path / ".record.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / "record.json")
        sync(self.path)
        self.record = record

    def first_key(self, new: Callable[[], RunKey]) -> RunKey:
        """The key of this run, before anything is charged: a new one is stored, and serves from now on."""
        if not self.key.exists():
            new().save(self.key)
            sync(self.path)
        return RunKey.load(self.key)

    def run_key(self) -> RunKey:
        """The key of this run; without it the run cannot be finished."""
        if not self.key.exists():
            raise RunError(f"{self.path}: the key is gone; the release cannot be completed with the same noise")
        return RunKey.load(self.key)

    def bind(self, key: RunKey, use: bytes) -> None:
        """Note what the key is used for, before noise is drawn; a run that would use it for anything else is refused."""
        sealed = key.seal(use)
        if self.record.setdefault("use", sealed) != sealed:
            raise RunError(
                f"{self.path}: the key of this run belongs to another plan or another graph, whose noise would repeat; remove "
                "the run with --discard (what is charged stays charged)"
            )
        self.update()

    def save_sums(self, number: int, sums: np.ndarray) -> None:
        """The sums of the rows after a round, which the next one needs; private."""
        with open(self.path / f"sums-{number}.npy", "wb") as file:
            np.save(file, sums)
            file.flush()
            os.fsync(file.fileno())

    def load_sums(self, number: int) -> np.ndarray:
        """What `save_sums` stored."""
        return np.load(self.path / f"sums-{number}.npy")

    def forget_incomplete_round(self) -> None:
        """Remove hidden states that no resumed run would read; nothing to do once the folder is gone.

        What it would read is what the disk says: a record that could not be written durably may be there all the same.
        """
        number = self._read().get("round") if self.path.is_dir() else None
        for state in (*self.path.glob("round-*.state"), *self.path.glob(RETIRED)):
            if state.stem != f"round-{number}":
                state.unlink()

    def close(self) -> None:
        """Let go of the lock; the files stay."""
        self._lock.close()

    def remove(self) -> None:
        """Delete everything; the record goes last, so that an interrupted removal is found and finished."""
        _erase_keys(self.path)
        for entry in self.path.iterdir():
            if entry.name not in ("lock", "record.json"):
                entry.unlink()
        shutil.rmtree(self.path)
        self._lock.close()

    def _require_same(self, request: Mapping[str, Any]) -> None:
        asked, stands = json.loads(json.dumps(request)), self.record["request"]
        different = sorted(key for key in asked if stands.get(key) != asked[key])
        if different:
            raise RunError(
                f"{self.path} holds an unfinished release with another {', '.join(different)}: finish it with the same "
                "options, or remove it with --discard (what is charged stays charged)"
            )

    def _restart(self, request: Mapping[str, Any]) -> None:
        _erase_keys(self.path)
        for entry in self.path.iterdir():
            if entry.name != "lock":
                entry.unlink()
        self.record = {"format": FORMAT, "stage": "preparing", "round": 0, "request": json.loads(json.dumps(request))}
        self.update()

    def _read(self) -> dict[str, Any]:
        path = self.path / "record.json"
        if not path.exists():
            strangers = [entry.name for entry in self.path.iterdir() if entry.name not in ("lock", ".record.tmp")]
            if strangers:
                raise InputError(
                    f"work must be a new or empty folder, or one of an unfinished release, got {self.path}"
                )
            return {}
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"{path} cannot be read: {error}") from error
        if not isinstance(record, dict) or record.get("format") != FORMAT or record.get("stage") not in STAGES:
            raise RunError(f"{path} must be a record of format {FORMAT}")
        return record


def _make_private(path: Path) -> None:
    """A folder that only its owner can read or write, and that is ours: one that waited there for us may be anybody's."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise InputError(f"work must be a folder of the user who makes the release, got {str(path)!r}")
        path.chmod(0o700)
    except OSError as error:
        raise InputError(f"work must be a folder that can be made, got {str(path)!r}: {error.strerror}") from error


def _locked(path: Path) -> IO[str]:
    """The lock of a folder, held until it is closed. A folder that was removed and made anew meanwhile has another one."""
    lock = locked(path / "lock")
    if lock is None:
        raise RunError(f"{path} is in use: another process is making this release")
    return lock


def discard(path: Path) -> bool:
    """Remove the folder of an unfinished release; what is charged stays charged. False if there is none."""
    if not path.is_dir():
        return False
    with _locked(path):
        _erase_keys(path)
        shutil.rmtree(path)
    return True


def _erase_keys(folder: Path) -> None:
    """The key, and what a crash left while it was stored: whoever has it can take the noise off the release."""
    for name in ("key", ".key.tmp"):
        erase(folder / name)
