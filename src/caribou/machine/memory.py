"""Memory: a method that cannot run at some size says so with the number, before it starts, instead of being killed.

What is needed is estimated from public numbers alone (nodes, columns, classes, settings, sizes of the split, a released edge
count), never from the private graph. Estimates count the largest arrays and their temporary copies.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from caribou.errors import InputError

GIB = 2**30
DOUBLE, SINGLE = 8, 4
"""Bytes of one number."""
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_LIMIT: ContextVar[int | None] = ContextVar("memory limit", default=None)


@contextmanager
def memory_limit(limit: int | None) -> Iterator[None]:
    """What needs more than ``limit`` bytes is refused inside, also where the machine has more; None: no limit.

    >>> with memory_limit(10**9):
    ...     machine_memory() <= 10**9
    True
    """
    token = _LIMIT.set(limit)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def machine_memory() -> int:
    """Bytes of memory that this process may have: what the machine has, or less if a container or `memory_limit` says so."""
    limit = _LIMIT.get()
    there = _physical_memory()
    return there if limit is None else min(there, limit)


def _physical_memory() -> int:
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on every system
        physical = 2**62
    try:
        return min(physical, int(_CGROUP_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no such file, or "max"
        return physical


def peak_mb() -> float | None:
    """The largest memory that this process has had; None on a system that does not tell. [MB]"""
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)


def require_memory(needed: int, what: str) -> None:
    """An error with both numbers if ``needed`` bytes are more than there are.

    >>> require_memory(8 * GIB * 2**20, "W of 2^50 nodes")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    caribou.errors.InputError: W of 2^50 nodes must fit into memory ..., got about 8.39e+06 GiB
    """
    there = machine_memory()
    if needed > there:
        raise InputError(f"{what} must fit into memory ({there / GIB:.3g} GiB), got about {needed / GIB:.3g} GiB")
