"""The owner's key: private, the same for all processes, and made whole."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from caribou.errors import RunError
from caribou.machine.owner import owner_key, state_folder


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CARIBOU_STATE", str(tmp_path / "state"))
    return tmp_path / "state" / "fingerprint.key"


def test_the_key_is_private_and_lasts(place: Path) -> None:
    key = owner_key()
    assert len(key) == 32
    assert owner_key() == key == place.read_bytes()
    assert oct(place.stat().st_mode & 0o777) == "0o600"
    assert oct(state_folder().stat().st_mode & 0o777) == "0o700"
    place.unlink()
    assert owner_key() != key


def test_a_damaged_key_is_refused_and_stays(place: Path) -> None:
    owner_key()
    place.write_bytes(b"short")
    with pytest.raises(RunError, match="must have 32 bytes, got 5"):
        owner_key()
    assert place.read_bytes() == b"short"


def test_who_comes_at_once_gets_the_same_key(place: Path) -> None:
    found: list[bytes] = []
    workers = [threading.Thread(target=lambda: found.append(owner_key())) for _ in range(20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 20
    assert set(found) == {place.read_bytes()}
    assert os.listdir(place.parent) == [place.name], "nothing is left beside it"


def test_where_no_folder_can_be_made_the_key_is_that_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CARIBOU_STATE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="known in this process alone"):
        first = owner_key()
    with pytest.warns(UserWarning, match="known in this process alone"):
        assert owner_key() == first
