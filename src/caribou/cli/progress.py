"""The progress line: what a long command is doing, and how long it will take. On stderr, and only after a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TextIO

QUIET = 1.0
"""Seconds after which the first line is written."""


@dataclass
class ProgressLine:
    """One line that is written again and again on a terminal; elsewhere a new one whenever the time has doubled.

    ``title``: of the command. ``planned``: how many fits, trials or runs are to be made.
    """

    title: str
    planned: int
    out: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    _next: float = QUIET
    _width: int = 0

    def __post_init__(self) -> None:
        self._began = self._stage_began = self.clock()
        self._stage = ""

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def advance(self, note: str = "") -> None:
        """One of the planned is made."""
        self.done += 1
        self._stage = ""
        self._show("", 0, None, note)

    def step(self, stage: str, done: int, planned: int | None, note: str = "") -> None:
        """A step of one of them: `caribou.models.progress.Listener`. ``note``: what more is known of it."""
        if stage != self._stage:
            self._stage, self._stage_began = stage, self.clock()
        self._show(stage, done, planned, note)

    def clear(self) -> None:
        """Take the line off a terminal."""
        if self._width:
            self.out.write("\r" + " " * self._width + "\r")
            self.out.flush()
            self._width = 0

    def _show(self, stage: str, done: int, planned: int | None, note: str) -> None:
        elapsed = self.clock() - self._began
        if elapsed < self._next:
            return
        terminal = self.out.isatty()
        self._next = elapsed + 0.2 if terminal else 2 * elapsed
        line = self._line(stage, done, planned, note)
        if terminal:
            self.out.write("\r" + line.ljust(self._width))
            self._width = max(self._width, len(line))
        else:
            self.out.write(line + "\n")
        self.out.flush()

    def _line(self, stage: str, done: int, planned: int | None, note: str) -> str:
        words = [f"{self.title}: {self.done} of {self.planned} done"] if self.planned > 1 else [self.title]
        if stage:
            words.append(f"{stage} {done}" if planned is None else f"{stage} {done} of {planned}")
        if note:
            words.append(note)
        seconds = self._left(done, planned)
        if seconds is not None:
            words.append(f"{about(seconds)} left")
        return ", ".join(words)

    def _left(self, done: int, planned: int | None) -> float | None:
        """Of all of them if one is made, else of the stage; None where nobody can know."""
        if self.done and self.planned > 1:
            return (self.clock() - self._began) / self.done * (self.planned - self.done)
        passed = self.clock() - self._stage_began
        if planned and done and passed > QUIET / 2:  # before, one slow first step would speak for all
            return passed / done * (planned - done)
        return None


def about(seconds: float) -> str:
    """A time that was estimated: to two digits.

    >>> about(0.2), about(42.3), about(400), about(8000)
    ('less than a second', 'about 42 s', 'about 6.7 min', 'about 2.2 h')
    """
    if seconds < 1:
        return "less than a second"
    if seconds < 100:
        return f"about {seconds:.2g} s"
    return f"about {seconds / 60:.2g} min" if seconds < 6000 else f"about {seconds / 3600:.2g} h"


@contextmanager
def fit_progress(title: str, fits: int, *, stages: bool = True) -> Iterator[Callable[[], None]]:
    """A progress line over fits; yields what is to be called after each. ``stages``: show the steps inside a fit, too."""
    from caribou.models.progress import listening

    with ProgressLine(title, fits) as line, listening(line.step) if stages else nullcontext():
        yield line.advance
