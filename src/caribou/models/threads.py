"""Threads: the models here are small, and a thread pool costs them more than it gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread inside, as before outside.

    Measured on two busy cores: an encoder on 800 nodes takes 157 CPU seconds with two threads, which wait for each other at every
    small product, and 3 with one. Results then do not depend on the number of cores either.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
