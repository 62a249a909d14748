"""What surrounds a fit: one thread, because the models here are small, and whoever listens to its progress.

A pool of threads costs small models more time than it saves. The library prints nothing: models say how far they are, and only
public numbers are told, steps of a training loop and rounds, which are part of what is released.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

from caribou.machine.deferred import deferred_imports

with deferred_imports():
    import torch
    from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch and the BLAS of NumPy and SciPy run on one thread inside, and on as many as before outside. Also a decorator.

    Measured on two busy cores: an encoder on 800 nodes takes 157 CPU seconds with two threads, which wait for each other at every
    small product, and 3 with one; a softmax regression on 11,000 rows 0.40 with two threads of BLAS, and 0.09 with one. With one
    thread, results do not depend on the number of cores either.

    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _pools(len(sys.modules)).limit(limits=1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _pools(modules: int) -> ThreadpoolController:
    """The thread pools of all loaded libraries. To look for them takes milliseconds; new ones arrive with new modules."""
    return ThreadpoolController()


Listener = Callable[[str, int, int | None], None]
"""(stage, steps done, steps in all or None where nobody knows)."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Inside, ``listener`` is told of every step.

    >>> told = []
    >>> with listening(lambda *step: told.append(step)):
    ...     tell("encoder", 1, 400)
    >>> tell("encoder", 2, 400)
    >>> told
    [('encoder', 1, 400)]
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(stage: str, done: int, planned: int | None = None) -> None:
    """Tell the listener, if there is one, that ``done`` steps of a ``stage`` are made."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, planned)
