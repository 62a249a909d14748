"""The engine on Ray: actors keep their blocks, states move through the object store.

The result of (round, block) is a function of the state, the block and the key. So a killed worker, which Ray starts again and
whose tasks it repeats, and two copies of one task give the same bytes. Workers are sent a key that is derived from that of the
run, its plan and its graph: they can draw the noise of this run and no other. Ray is imported when a runner is made.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from caribou.engines import kernels
from caribou.engines.blocks import Block, BlockFiles, Layout
from caribou.engines.kernels import Rows, Shards, empty_rows
from caribou.engines.rounds import Progress, RoundGuard, Step, advance, joined
from caribou.errors import CaribouError, InputError
from caribou.mechanisms.noise_source import BlockNoise

RETRIES = 8
"""How often a worker that died is started again."""


class Worker:
    """Holds some blocks and advances them. Lives in an actor; every argument is enough to start it again from nothing."""

    def __init__(self, layout: Layout, secret: bytes, kernel: str) -> None:
        if kernels.name() != kernel:
            raise CaribouError(f"workers must run the same loops as the driver, {kernel}, got {kernels.name()}")
        self._layout, self._noise = layout, BlockNoise.from_worker(secret)
        self._blocks: dict[int, tuple[Block, np.ndarray | None]] = {}
        self._version, self._y = -1, empty_rows(layout.nodes, layout.columns)

    def ready(self) -> int:
        """The process that runs this worker."""
        import os

        return os.getpid()

    def advance(
        self, index: int, step: Step, mean: np.ndarray | None, held: list[Any], version: int, state: list[Any]
    ) -> tuple[np.ndarray, tuple[np.ndarray, int]]:
        """One block of one round: new rows; their sums and how many entries were read.

        ``held`` and ``state`` are references, fetched when this process does not have them, or not this version of the state.
        """
        import ray

        if self._version != version:
            self._version = -1  # until all of it is there: a fetch that fails must not leave a mixture of two states
            # copied: rows are fetched in random order, and the pages of the object store are small
            for shard, reference in enumerate(state):
                self._y[slice(*self._layout.span(shard))] = ray.get(reference)
            self._version = version
        block, x0 = self._block(index, held)
        out = empty_rows(block.count, self._layout.columns)
        own = self._y[block.first : block.first + block.count]
        sums = advance(block, Shards([self._y]), own, x0, step, mean, self._noise, out)
        return out, (sums, block.entries)

    def _block(self, index: int, held: list[Any]) -> tuple[Block, np.ndarray | None]:
        if index not in self._blocks:
            import ray

            starts, columns, ownless, x0 = ray.get(held[0])
            block = Block(index, self._layout.span(index)[0], (Rows(starts, columns),), np.array(ownless))
            self._blocks[index] = (block, x0)
        return self._blocks[index]


class RayRunner:
    """Rounds on the actors of a Ray cluster. ``address``: None for a cluster of this machine alone, ``auto``, or ``ray://...``."""

    durable = False

    def __init__(
        self, files: BlockFiles, noise: BlockNoise, *, residual: bool, workers: int, address: str | None = None
    ) -> None:
        ray = _ray()
        self._layout = layout = files.layout
        self._started_ray = not ray.is_initialized()
        self._folder: str | None = None
        self._unquiet: Callable[[], None] = lambda: None
        if self._started_ray:
            self._unquiet = _quiet()
            own: dict[str, Any] = {}
            if address is None:
                # Ray spills objects (the graph, hidden states) and logs their sizes there, for everybody to read: a private
                # folder of mode 0700, removed at the end
                self._folder = tempfile.mkdtemp(prefix="caribou-")
                own = {"num_cpus": workers, "include_dashboard": False, "_temp_dir": self._folder}
            # "local": without it Ray would join whatever cluster it finds on this machine, and that would be sent the key
            where = "local" if address is None else address
            try:
                ray.init(address=where, log_to_driver=False, logging_level="error", configure_logging=False, **own)
            except BaseException:
                self._remove_folder()
                self._unquiet()
                raise
        self._ray = ray
        self._state: list[Any] = []
        self._version = 0
        self._guard = RoundGuard()
        actor = ray.remote(num_cpus=1, max_restarts=RETRIES, max_task_retries=RETRIES)(Worker)
        arguments = (layout, noise.for_worker(), kernels.name())
        self.actors = [actor.remote(*arguments) for _ in range(min(workers, layout.blocks))]
        self._blocks: list[Any] = []
        for index in range(layout.blocks):
            block = files.read(index)
            rows = block.tiles[0]
            x0 = files.state("x0").read(*layout.span(index)) if residual else None
            self._blocks.append(ray.put((rows.starts, rows.columns, block.ownless, x0)))

    def start(self, shards: Iterator[np.ndarray]) -> None:
        """Put a state into the object store."""
        self._replace([self._ray.put(np.array(rows)) for rows in shards])

    def submit(self, index: int, step: Step, mean: np.ndarray | None, worker: int | None = None) -> list[Any]:
        """Ask for the next rows of a block: the worker that keeps it, or any other. Asking twice gives the same bytes twice."""
        self._guard.require(step, mean, self._version)
        actor = self.actors[(index if worker is None else worker) % len(self.actors)]
        held = [self._blocks[index]]
        return actor.advance.options(num_returns=2).remote(index, step, mean, held, self._version, self._state)

    def round(self, step: Step, mean: np.ndarray | None, progress: Progress) -> np.ndarray:
        """Run one round."""
        answers = [self.submit(index, step, mean) for index in range(self._layout.blocks)]
        waiting = {answer[1]: index for index, answer in enumerate(answers)}
        sums: list[np.ndarray | None] = [None] * len(answers)
        entries = done = 0
        while waiting:
            ready, _ = self._ray.wait(list(waiting), num_returns=1)
            for reference in ready:
                sums[waiting.pop(reference)], count = self._ray.get(reference)
                entries, done = entries + count, done + 1
                progress(step.number, done, entries)
        self._replace([answer[0] for answer in answers])
        return joined(sums)

    def _replace(self, state: list[Any]) -> None:
        self._state, self._version = state, self._version + 1

    def shards(self) -> Iterator[np.ndarray]:
        """The present state, fetched block by block."""
        for reference in self._state:
            yield self._ray.get(reference)

    def close(self) -> None:
        """End the actors and free their shards; a Ray that was started here is shut down."""
        self._state, self._blocks = [], []
        for actor in self.actors:
            self._ray.kill(actor)
        self.actors = []
        if self._started_ray:
            self._ray.shutdown()
        self._remove_folder()
        self._unquiet()

    def _remove_folder(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _quiet() -> Callable[[], None]:
    """Keep what Ray tells of its start off the screen, warnings and errors excepted; returns what undoes it.

    One of its warnings is no bad news, that a cluster asks for a token, and comes with every start: it is kept off as well.
    """
    everything = logging.getLogger("ray")
    tokens = logging.getLogger("ray._private.authentication.authentication_token_setup")
    level = everything.level
    everything.setLevel(max(level, logging.WARNING))
    tokens.addFilter(_is_news)

    def undo() -> None:
        everything.setLevel(level)
        tokens.removeFilter(_is_news)

    return undo


def _is_news(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Token authentication is enabled")


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise InputError("engine ray needs the package ray: pip install 'caribou-gnn[ray]'") from None
    return ray
