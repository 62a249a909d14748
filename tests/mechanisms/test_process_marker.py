"""The marker of a process: the same within it, another one in every child, however the child was made."""

from __future__ import annotations

import os
import threading

import pytest

from caribou.mechanisms import process_marker as module
from caribou.mechanisms.process_marker import MARKER, ProcessMarker
from forks_support import raw_fork, told_by_a_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def test_a_process_keeps_its_marker() -> None:
    here = MARKER.read()
    assert len(here) == 16
    assert any(here)
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(MARKER.read())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [MARKER.read(), *found] == [here] * 5


def test_every_child_has_another_marker() -> None:
    children = [told_by_a_child(MARKER.read) for _ in range(3)]
    grandchild = told_by_a_child(lambda: told_by_a_child(MARKER.read))
    assert len({MARKER.read(), *children, grandchild}) == 5
    assert all(len(child) == 16 and any(child) for child in (*children, grandchild))


def test_a_child_that_python_did_not_make_has_another_marker() -> None:
    if not MARKER.is_wiped:
        pytest.skip("the kernel of this machine has no memory that is cleared in a child (MADV_WIPEONFORK)")
    here = MARKER.read()
    first, second = told_by_a_child(MARKER.read, raw_fork), told_by_a_child(MARKER.read, raw_fork)
    assert len({here, first, second}) == 3
    assert any(first)
    assert MARKER.read() == here


def test_without_such_memory_the_hook_of_python_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_page", lambda: (bytearray(16), False))
    marker = ProcessMarker()
    assert not marker.is_wiped
    assert told_by_a_child(marker.read) not in (marker.read(), bytes(16))


def test_a_child_does_not_wait_for_a_thread_that_was_left_behind() -> None:
    with MARKER._lock:
        child = told_by_a_child(MARKER.read)
    assert len(child) == 16
