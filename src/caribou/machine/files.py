"""Files and folders that are written whole or not at all.

What is written goes to a temporary place beside its target and is moved there when it is complete and on the disk. A reader sees
the old state or the new one, never a part; an error, a full disk or Ctrl-C leaves the old state and nothing else. Errors are
`OSError`, for the caller to translate into words about its own argument.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_LOCK = ".caribou-lock"
_READ = os.O_RDONLY if os.name == "posix" else os.O_RDWR  # Windows syncs only what it may write


def atomic_write(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Write ``data`` (text as UTF-8) to the file ``path``, new or over an old one.

    Raises OSError if it cannot be written; the old file is then as it was.
    """
    with atomic_file(path) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write a file to, which becomes ``path`` when the block ends well and is removed otherwise.

    The temporary file has the name of its target, so that libraries which go by the ending of a name write the right format. A
    file that is replaced keeps its permissions, and a link is followed. Raises OSError, also if the block wrote no file.
    """
    target = Path(os.path.realpath(path))
    place = _sibling(target)
    try:
        place.mkdir(mode=0o700)  # nobody else reads what is not finished
        temporary = place / target.name
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        sync(temporary)
        os.replace(temporary, target)
        _sync_folder(target.parent)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def publish(draft: Path, target: Path) -> None:
    """Give a finished file a new name, at which nobody ever meets half of it; FileExistsError if there is one already.

    Of two processes one makes the file, and the other finds it. The draft may stay beside it.
    """
    try:
        os.link(draft, target)
    except FileExistsError:
        raise
    except OSError:
        # No hard links here (FAT, some network shares). The exclusive creation decides who is first; whoever looks between the
        # two calls meets an empty file.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        os.replace(draft, target)


@contextmanager
def atomic_folder(target: str | os.PathLike[str], *, replace: bool = False) -> Iterator[Path]:
    """A folder to write into, which becomes ``target`` when the block ends well and is removed otherwise.

    ``target`` is new or empty. With ``replace`` it may also have content, all of which goes away with the folder; if the new
    folder cannot be moved there, the old one stays. Raises OSError.
    """
    final = Path(target).absolute()
    temporary, old = _sibling(final), _sibling(final)
    try:
        temporary.mkdir()
        yield temporary
        _sync_tree(temporary)
        if final.exists():
            if not replace:
                final.rmdir()  # fails if it is not empty
            elif final.is_dir():
                final.rename(old)
            else:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(final))
        try:
            temporary.rename(final)
        except OSError:
            if old.exists():
                old.rename(final)
            raise
        _sync_folder(final.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def private_folder(parent: str | os.PathLike[str] | None = None, prefix: str = "caribou-") -> Iterator[Path]:
    """A new folder of mode 0700 in ``parent`` (None: that of the system) until the context ends.

    What killed processes of this user have left there is removed first: who uses such a folder holds its lock. Raises OSError.
    """
    if os.name == "posix":
        for left in Path(tempfile.gettempdir() if parent is None else parent).glob(f"{prefix}*/{_LOCK}"):
            _remove_unused(left)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        held = locked(folder / _LOCK)
        if held is not None:  # else another process has taken it for one that was left
            break
    with held:
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_unused(lock: Path) -> None:
    """Remove the folder of a lock that nobody holds, if both are this user's own."""
    with contextlib.suppress(OSError):
        found = lock.parent.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == lock.lstat().st_uid == os.geteuid():
            held = locked(lock)
            if held is not None:
                with held:
                    shutil.rmtree(lock.parent)


def locked(path: Path) -> IO[str] | None:
    """The lock of a file, held until it is closed; None if another process has it, or has removed the file meanwhile.

    Nothing is written to the file. A link in its place is not followed: it may lead to a file of the user's own, and gives None.
    Where the system has no such locks (Windows) everybody gets it.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        lock = open(descriptor, "r+")  # noqa: SIM115 - held until the caller closes it
        if os.name != "posix":
            return lock
        import fcntl  # here: planning and verifying must start where there is none

        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock.fileno()).st_ino == os.stat(path).st_ino:
                return lock
        except OSError:
            pass
        lock.close()
    except FileNotFoundError:
        pass
    except OSError:
        if not path.is_symlink():
            raise
    return None


def erase(path: str | os.PathLike[str]) -> None:
    """Overwrite a file with random bytes, wait until they are on the disk, and remove it; nothing to do if there is none.

    A link is removed and not followed. A file system that copies on write, a snapshot or a worn flash cell may keep the old bytes
    all the same. Raises OSError; a file that cannot be overwritten is removed nevertheless.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return
    except OSError:
        is_link = os.path.islink(path)
        os.unlink(path)
        if is_link:
            return
        raise
    try:
        left = os.fstat(descriptor).st_size
        while left > 0:
            left -= os.write(descriptor, os.urandom(min(left, 1 << 16)))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
        os.unlink(path)


def _sibling(target: Path) -> Path:
    """A new hidden name in the folder of ``target``; short, because the name of the target may be as long as names can be."""
    return target.with_name(f".{uuid.uuid4().hex}.tmp")


def sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, _READ)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """The same for the names in a folder, where the system can do that."""
    if os.name == "posix":
        with contextlib.suppress(OSError):  # the file is in its place, and some file systems refuse
            sync(folder)


def _sync_tree(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            sync(path)
        elif path.is_dir():
            _sync_folder(path)
    _sync_folder(folder)
