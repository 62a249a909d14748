"""Shared by tests of forks: what a child process says."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable


def told_by_a_child(tell: Callable[[], bytes], fork: Callable[[], int] = os.fork) -> bytes:
    """What ``tell`` gives in a forked child."""
    read, write = os.pipe()
    child = fork()
    if child == 0:
        try:
            os.write(write, tell())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return told


def raw_fork() -> int:
    """The fork of the C library, of which Python's hooks learn nothing."""
    return int(ctypes.CDLL(None).fork())
