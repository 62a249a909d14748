"""Which process this is, told apart from every process that it was forked from.

A process id does not tell them apart: ids are given again, and two containers may use the same. The marker is a random number on
a page of memory that the kernel clears in a forked child (Linux: MADV_WIPEONFORK), however the child was made. Where there is no
such page, Python's own hook of `os.fork` draws a new number.
"""

from __future__ import annotations

import mmap
import os
import threading

_SIZE = 16
_WIPE_ON_FORK = 18
"""MADV_WIPEONFORK of Linux 4.14, which Python's mmap does not name."""


class ProcessMarker:
    """A random number that is another one in every forked child. ``is_wiped``: the kernel clears it, not only Python's hook.

    >>> marker = ProcessMarker()
    >>> marker.read() == marker.read()
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._page, self.is_wiped = _page()
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def renew(self) -> None:
        """Draw a new number."""
        self._page[:_SIZE] = os.urandom(_SIZE)

    def read(self) -> bytes:
        """The number of this process."""
        found = bytes(self._page[:_SIZE])
        if any(found):
            return found
        with self._lock:  # two threads of a child must agree on one number
            if not any(self._page[:_SIZE]):
                self.renew()
            return bytes(self._page[:_SIZE])

    def _after_fork(self) -> None:
        self._lock = threading.Lock()  # a thread that held it was left behind
        self.renew()


def _page() -> tuple[mmap.mmap | bytearray, bool]:
    if not hasattr(mmap, "MAP_ANONYMOUS"):  # no such mapping, and no fork either
        return bytearray(_SIZE), False
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        page.madvise(_WIPE_ON_FORK)
    except (AttributeError, OSError, ValueError):
        return page, False
    return page, True


MARKER = ProcessMarker()
"""That of this process."""
