"""Progress of a long command, on stderr: a bar with the time left on a terminal; elsewhere now and then a line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import typer

QUIET = 30.0
"""Seconds between two lines where there is no terminal."""


@dataclass
class ProgressLine:
    """How far a command is, while the context lasts.

    ``title``: of the command. ``planned``: how many fits, trials or runs are to be made.
    """

    title: str
    planned: int
    done: int = 0

    def __enter__(self) -> ProgressLine:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        words, note = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[note]}", markup=False)
        columns = (words, BarColumn(), TimeRemainingColumn(), note)
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._bar.start()
        self._task = self._bar.add_task(self.title, total=self.planned, note="")
        self._stage, self._last = "", time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, note: str = "") -> None:
        """One of the planned is made. ``note``: what more is known of it."""
        self.done += 1
        self._bar.update(self._task, completed=self.done, description=self.title, note=note)
        if self._bar.disable and self.planned > 1 and time.monotonic() >= self._last + QUIET:
            self._last = time.monotonic()
            typer.echo(f"{self.title}: {self.done} of {self.planned} done; {note}".rstrip("; "), err=True)

    def step(self, stage: str, done: int, planned: int | None, note: str = "") -> None:
        """A step of one of them: `caribou.models.fit_context.Listener`. Of one alone the bar is that of the stage."""
        words = f"{self.title}, {stage} {done}" if planned is None else f"{self.title}, {stage} {done} of {planned}"
        if self.planned > 1:
            self._bar.update(self._task, description=words, note=note)
            return
        if stage != self._stage:
            self._bar.reset(self._task)
            self._stage = stage
        self._bar.update(self._task, completed=done, total=planned, description=words, note=note)


@contextmanager
def fit_progress(title: str, fits: int, *, stages: bool = True) -> Iterator[Callable[[], None]]:
    """Progress of fits; yields what is to be called after each. ``stages``: show the steps inside a fit, too."""
    from caribou.models.fit_context import listening

    with ProgressLine(title, fits) as line, listening(line.step) if stages else nullcontext():
        yield line.advance
