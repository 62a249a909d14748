"""Print how far two walks through the package go: modules that are entered, and changes from one module to another.

    python scripts/walk.py            both walks
    python scripts/walk.py --pairs    also the ten most frequent changes of each, and the modules that are entered most

A change is counted whenever a Python function of one module of ``caribou`` is entered while the last one entered was of another.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import caribou as cb
from caribou.cli import main as caribou_command


class Walk:
    """The modules of caribou in the order in which their functions are entered."""

    def __init__(self) -> None:
        self.modules: Counter[str] = Counter()
        self.changes: Counter[tuple[str, str]] = Counter()
        self._last: str | None = None

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Record what is entered inside."""
        sys.setprofile(self._enter)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _enter(self, frame: FrameType, event: str, _: object) -> None:
        name = str(frame.f_globals.get("__name__", ""))
        if event != "call" or not name.startswith("caribou"):
            return
        if is_import(frame):
            return
        self.modules[name] += 1
        if self._last not in (None, name):
            self.changes[str(self._last), name] += 1
        self._last = name


def is_import(frame: FrameType | None) -> bool:
    """Whether it is the body of a module of caribou, or anything that this calls: an import is no step of a walk."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and str(frame.f_globals.get("__name__", "")).startswith("caribou"):
            return True
        frame = frame.f_back
    return False


def train(folder: Path) -> None:
    """``caribou train votes``, as a user types it."""
    sys.argv = [
        "caribou",
        "train",
        "votes",
        "--dataset",
        "csbm:nodes=300",
        "--epsilon",
        "4",
        "--out",
        str(folder / "run"),
    ]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        caribou_command()


def fit(folder: Path) -> None:
    """Fit, save, load and predict in Python."""
    graph = cb.datasets.load("csbm", nodes=300, seed=1)
    cb.Votes(cb.Budget(4)).fit(graph).save(folder / "model")
    cb.load(folder / "model").predict()


WALKS: dict[str, Callable[[Path], None]] = {"caribou train votes": train, "fit, save, load, predict": fit}


def main() -> None:
    warnings.simplefilter("ignore")
    pairs = "--pairs" in sys.argv
    for title, walk in WALKS.items():
        found = Walk()
        with tempfile.TemporaryDirectory() as folder, found.recorded():
            walk(Path(folder))
        print(f"{title}: {len(found.modules)} modules, {found.changes.total()} changes of module")
        if pairs:
            for (first, second), times in found.changes.most_common(10):
                print(f"  {times:5} {first} -> {second}")
            print(f"  entered most: {', '.join(f'{name} {times}' for name, times in found.modules.most_common(8))}")


if __name__ == "__main__":
    main()
