"""Progress of a fit: models say how far they are, and whoever listens shows it. The library itself prints nothing.

Only public numbers are told: steps of a training loop, and rounds, which are part of what is released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
