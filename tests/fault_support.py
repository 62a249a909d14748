"""Faults on demand: the n-th write, sync, rename, link or call of SQLite in a folder fails, or the process dies there.

What counts is every call of Python by which a file changes, and every statement of SQLite. A write that fails has written its
first half. A call that fails late has done its work, and says that it has not.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from caribou.errors import CaribouError

MOVES = ("rename", "replace", "link", "fsync", "SQL COMMIT")
READS = ("SQL PRAGMA", "SQL BEGIN", "SQL SELECT")
KINDS: dict[str, Callable[[str], bool]] = {
    "fails": lambda call: True,
    "fails late": lambda call: call in MOVES,
    "dies": lambda call: call not in READS,
}
"""What happens at the n-th call, and at which calls. What fails late makes something last. To die at a call that leaves the disk
as it is would be to die at the next one."""
BY_PATH = ("open", "mkdir", "rmdir", "unlink", "remove", "rename", "replace", "link", "truncate")


@dataclass
class Faults:
    """Counts calls in ``folder``, and injects one fault at the call number ``at``."""

    folder: Path
    at: int | None = None
    kind: str = "fails"
    calls: list[str] = field(default_factory=list)
    files: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def call(self, name: str, work: Callable[[], Any], half: Callable[[], Any] = lambda: None) -> Any:
        """Do the work, unless this is the call that fails."""
        with self.lock:
            self.calls.append(name)
            due = len(self.calls) == self.at
        if due and self.kind == "dies":
            half()
            os._exit(9)
        if due and self.kind == "fails":
            half()
            raise _error(name)
        made = work()
        if due:
            if hasattr(made, "close"):
                made.close()  # nobody holds a file or a cursor that was never handed out
            elif name == "open":
                os.close(made)
            raise _error(name)
        return made

    def inside(self, path: Any) -> bool:
        if isinstance(path, int):
            return path in self.files
        return isinstance(path, str | os.PathLike) and Path(os.path.abspath(path)).is_relative_to(self.folder)


def _error(name: str) -> Exception:
    if not name.startswith("SQL"):
        return OSError(errno.EIO, os.strerror(errno.EIO), name)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR  # type: ignore[attr-defined]
    return error


class _File:
    """An open file whose first write counts."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file, self._faults, self._is_new = file, faults, True

    def write(self, data: Any) -> Any:
        if not self._is_new:
            return self._file.write(data)
        self._is_new = False
        whole = data if isinstance(data, str) else bytes(data)

        def half() -> None:
            self._file.write(whole[: len(whole) // 2])
            self._file.flush()

        return self._faults.call("write", lambda: self._file.write(data), half)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _File:
        self._file.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._file.__exit__(*error)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._file)


@contextmanager
def injected(faults: Faults) -> Iterator[Faults]:
    """Inside, calls count."""
    with pytest.MonkeyPatch.context() as patch:
        for name in BY_PATH:
            patch.setattr(os, name, _counted(name, getattr(os, name), faults))
        fsync, true_open, connect = os.fsync, io.open, sqlite3.connect

        def opened(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            def work() -> Any:
                return true_open(file, mode, *arguments, **named)

            if not faults.inside(file) or not set(mode) & set("wax+"):
                return work()
            made = work() if isinstance(file, int) else faults.call("open", work)
            faults.files.add(made.fileno())
            return _File(made, faults)

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
                work = super().execute
                return faults.call(f"SQL {sql.split()[0]}", lambda: work(sql, *arguments))

        patch.setattr(os, "fsync", lambda file: faults.call("fsync", lambda: fsync(file)))
        patch.setattr(io, "open", opened)
        patch.setattr(builtins, "open", opened)

        def connected(database: str, **named: Any) -> sqlite3.Connection:
            ours = faults.folder.as_uri() in database
            return connect(database, **named, **{"factory": Connection} if ours else {})

        patch.setattr(sqlite3, "connect", connected)
        yield faults


def _counted(name: str, work: Callable[..., Any], faults: Faults) -> Callable[..., Any]:
    def counted(path: Any, *arguments: Any, **named: Any) -> Any:
        reads = name == "open" and arguments and not arguments[0] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if not faults.inside(path) or reads:
            return work(path, *arguments, **named)
        made = faults.call(name, lambda: work(path, *arguments, **named))
        if name == "open":
            faults.files.add(made)
        return made

    return counted


def sweep(
    what: str,
    start: Path,
    act: Callable[[Path], object],
    check: Callable[[Path, str, list[str], object], None],
    kinds: Iterable[str] = tuple(KINDS),
) -> int:
    """One fault after the other, each in a copy of the folder ``start``: at every call of ``act``, of every kind.

    ``check`` gets the folder after the fault, its kind, the calls until then, and the error, if there was one. The number of
    faults.
    """
    dry = Faults(_copy(start, "dry"))
    with injected(dry):
        act(dry.folder)
    faults = [(kind, number) for kind in kinds for number, call in enumerate(dry.calls, 1) if KINDS[kind](call)]
    for kind, number in faults:
        fault = Faults(_copy(start, f"{kind.replace(' ', '-')}-{number}"), number, kind)
        error = _died(act, fault) if kind == "dies" else _failed(act, fault)
        check(fault.folder, kind, dry.calls[:number], error)
        shutil.rmtree(fault.folder)
    print(f"faults injected into {what}: {len(faults)}")  # noqa: T201 - for a script that counts them
    return len(faults)


def _copy(start: Path, name: str) -> Path:
    folder = start.with_name(name)
    shutil.copytree(start, folder)
    return folder


def _failed(act: Callable[[Path], object], faults: Faults) -> BaseException | None:
    try:
        with injected(faults):
            act(faults.folder)
    except (CaribouError, OSError, sqlite3.Error) as error:
        return error
    return None


def _died(act: Callable[[Path], object], faults: Faults) -> str:
    """In a child process, of which nothing is cleaned up."""
    child = os.fork()
    if child == 0:
        try:
            with injected(faults):
                act(faults.folder)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    return "died"
