"""Files are whole or absent, whatever happens while they are written, and nothing else is left."""

from __future__ import annotations

import errno
import os
import signal
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

from caribou.machine import files
from caribou.machine.files import atomic_file, atomic_folder, atomic_write, erase, private_folder, publish


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def disk_full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def write_half(file: Path, error: type[BaseException]) -> None:
    file.write_text("half")
    raise error


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("data", "stored"), [(b"\x00\r\n", b"\x00\r\n"), ("ε = ∞\n", "ε = ∞\n".encode()), ("", b"")])
def test_what_is_written_is_there(data: bytes | str, stored: bytes, tmp_path: Path) -> None:
    file = tmp_path / "new.txt"
    for _ in range(2):  # a new file, and one that is replaced
        atomic_write(file, data)
        assert file.read_bytes() == stored
        assert names(tmp_path) == ["new.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_whatever_ends_the_block_leaves_the_old_file(error: type[BaseException], tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("old")
    with pytest.raises(error), atomic_file(file) as temporary:
        write_half(temporary, error)
    assert file.read_text() == "old"
    assert names(tmp_path) == ["settings.toml"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_disk_that_fails_leaves_the_old_file(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("old")
    monkeypatch.setattr(files.os, step, disk_full)
    with pytest.raises(OSError, match="No space left"):
        atomic_write(file, "new")
    assert file.read_text() == "old"
    assert names(tmp_path) == ["settings.toml"]


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    for step in ("fsync", "replace"):
        original = getattr(os, step)
        monkeypatch.setattr(files.os, step, lambda *words, name=step, do=original: (order.append(name), do(*words))[1])
    atomic_write(tmp_path / "file", "text")
    assert order == ["fsync", "replace", "fsync"]  # the file, its name, the folder


def test_the_block_must_write_a_file_into_a_folder_that_exists(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_file(tmp_path / "file"):
        pass
    with pytest.raises(FileNotFoundError):
        atomic_write(tmp_path / "no folder" / "file", "text")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        atomic_write(tmp_path / "folder", "text")
    assert names(tmp_path) == ["folder"]


def test_libraries_that_go_by_the_ending_write_what_was_asked_for(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "arrays.npz") as temporary:
        assert temporary.name == "arrays.npz"
        np.savez(temporary, x=np.eye(2))
        assert not list(tmp_path.glob("*.npz")), "who lists the folder must not see it yet"
    assert names(tmp_path) == ["arrays.npz"]


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "secret", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o600)
    link.symlink_to("secret")
    atomic_write(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    fresh = tmp_path / "fresh"
    atomic_write(fresh, "text")
    (tmp_path / "plain").write_text("text")
    assert fresh.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_names_may_be_as_long_as_names_can_be(tmp_path: Path) -> None:
    atomic_write(tmp_path / ("n" * 255), "text")
    assert names(tmp_path) == ["n" * 255]


def test_of_many_writers_one_is_last_and_each_is_whole(tmp_path: Path) -> None:
    file, texts = tmp_path / "file", [str(k) * 10_000 for k in range(8)]
    writers = [threading.Thread(target=atomic_write, args=(file, text)) for text in texts]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert file.read_text() in texts
    assert names(tmp_path) == ["file"]


# -- folders -------------------------------------------------------------------------------------------------------


def fill(folder: Path, text: str) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "file").write_text(text)


@pytest.mark.parametrize("links", [True, False])
def test_of_two_that_publish_a_file_one_is_first(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not links:
        monkeypatch.setattr(os, "link", disk_full)
    target = tmp_path / "target"
    for name in ("first", "second"):
        (tmp_path / name).write_text(name)
    publish(tmp_path / "first", target)
    with pytest.raises(FileExistsError):
        publish(tmp_path / "second", target)
    assert target.read_text() == "first"


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_is_new_or_was_empty(exists: bool, tmp_path: Path) -> None:
    target = tmp_path / "model"
    if exists:
        target.mkdir()
    with atomic_folder(target) as temporary:
        fill(temporary, "new")
        assert not (target / "inner").exists()
    assert (target / "inner" / "file").read_text() == "new"
    assert names(tmp_path) == ["model"]


def test_a_folder_with_content_stays_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "mine").write_text("old")
    with pytest.raises(OSError, match="not empty"), atomic_folder(target) as temporary:
        fill(temporary, "new")
    assert names(target) == ["mine"]
    assert names(tmp_path) == ["model"]
    with atomic_folder(target, replace=True) as temporary:
        fill(temporary, "new")
    assert names(target) == ["inner"]
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt])
@pytest.mark.parametrize("replace", [False, True])
def test_a_block_that_fails_changes_nothing(error: type[BaseException], replace: bool, tmp_path: Path) -> None:
    target = tmp_path / "model"
    if replace:
        target.mkdir()
        fill(target, "old")
    with pytest.raises(error), atomic_folder(target, replace=replace) as temporary:
        write_half(temporary / "new", error)
    assert names(tmp_path) == (["model"] if replace else [])
    assert not replace or (target / "inner" / "file").read_text() == "old"


def test_a_folder_that_cannot_be_moved_gives_way_to_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report"
    target.mkdir()
    fill(target, "old")
    rename, moves = Path.rename, []

    def second_fails(self: Path, other: Path) -> Path:
        moves.append(self)
        return disk_full() if len(moves) == 2 else rename(self, other)

    monkeypatch.setattr(Path, "rename", second_fails)
    with pytest.raises(OSError, match="No space left"), atomic_folder(target, replace=True) as temporary:
        fill(temporary, "new")
    assert (target / "inner" / "file").read_text() == "old"
    assert names(tmp_path) == ["report"]


def test_what_is_no_folder_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    for replace in (False, True):
        with pytest.raises(NotADirectoryError), atomic_folder(file, replace=replace) as temporary:
            fill(temporary, "new")
    with pytest.raises(FileNotFoundError), atomic_folder(tmp_path / "none" / "model"):
        pass
    assert file.read_text() == "old"
    assert names(tmp_path) == ["file"]


# -- erasing ----------------------------------------------------------------------------------------------------------


def test_an_erased_file_is_overwritten_and_gone(tmp_path: Path) -> None:
    secret, held = tmp_path / "secret", tmp_path / "held"
    content = bytes(range(256)) * 400  # more than one piece
    secret.write_bytes(content)
    os.link(secret, held)
    erase(secret)
    assert not secret.exists()
    left = np.frombuffer(held.read_bytes(), dtype=np.uint8)
    assert len(left) == len(content)
    assert (left == np.frombuffer(content, dtype=np.uint8)).mean() < 0.01  # 1 of 256 by chance
    erase(secret)  # there is none


def test_a_link_is_removed_and_what_it_points_to_stays(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("kept")
    (tmp_path / "key").symlink_to("other")
    erase(tmp_path / "key")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
    assert (tmp_path / "other").read_text() == "kept"


def test_what_cannot_be_overwritten_is_removed_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("open", "write", "fsync"):
        (tmp_path / name).write_text("secret")

        def refuse(*_: object, **__: object) -> int:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, name, refuse)
            with pytest.raises(OSError, match="Input/output"):
                erase(tmp_path / name)
        assert not (tmp_path / name).exists()


# -- private folders -------------------------------------------------------------------------------------------------------


def killed_in(parent: Path) -> str:
    """A child process that is killed while it has written to its private folder; the name of the folder."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with private_folder(parent) as folder:
            (folder / "block").write_text("edges")
            os.write(writing, folder.name.encode())
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as name:
        return name.read()


def test_what_a_killed_process_left_is_removed_and_nothing_else_is(tmp_path: Path) -> None:
    others = [tmp_path / name for name in ("caribou-of-the-user", "other-folder")]
    for folder in others:
        folder.mkdir()
        (folder / "file").write_text("mine")
    (others[1] / files._LOCK).write_text("")
    with private_folder(tmp_path) as living:
        assert stat.S_IMODE(living.stat().st_mode) == 0o700
        left = tmp_path / killed_in(tmp_path)
        assert (left / "block").exists()
        with private_folder(tmp_path) as second:
            assert not left.exists()
            assert set(tmp_path.iterdir()) == {*others, living, second}
    assert set(tmp_path.iterdir()) == set(others)


def test_a_folder_that_another_process_takes_for_a_left_one_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes between the folder and its lock."""
    take, taken = files.locked, list[Path]()

    def late(path: Path) -> object:
        if not taken:
            taken.append(path.parent)
            path.write_text("")
            files._remove_unused(path)
            assert not path.parent.exists()
        return take(path)

    monkeypatch.setattr(files, "locked", late)
    with private_folder(tmp_path) as folder:
        assert folder != taken[0]
        assert folder.is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of other users")
def test_a_folder_of_another_user_stays(tmp_path: Path) -> None:
    folders = [tmp_path / f"caribou-{number}" for number in range(3)]
    for folder, owners in zip(folders, [(1234, 0), (0, 1234), (0, 0)], strict=True):
        folder.mkdir()
        (folder / files._LOCK).write_text("")
        for path, owner in zip((folder, folder / files._LOCK), owners, strict=True):
            os.chown(path, owner, -1)
    with private_folder(tmp_path) as folder:
        assert set(tmp_path.iterdir()) == {folder, *folders[:2]}
