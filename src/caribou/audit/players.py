"""Players of an audit: single runs of a target in this process, or in several processes with one thread each.

This module imports little, so that a process which plays a light target starts quickly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING

import numpy as np

from caribou._validate import integer
from caribou.audit.transcripts import Transcript, checked_transcript, word_number
from caribou.errors import CaribouError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.randomness import stream_seed

if TYPE_CHECKING:
    from caribou.audit.targets import AuditTarget

FAILED = "an error"
"""The name under which the error of a run is part of its transcript."""
REFUSALS = (CaribouError, ArithmeticError, LookupError, ValueError)
"""Errors that a run may end with because of what is in the graph. Others are faults of the machine or of the program."""
CHUNK = 25
"""Runs per task of a worker process."""

Play = Callable[["AuditTarget", Graph, Sequence[int]], list[Transcript]]
"""One run of the target on the graph per seed."""


@contextmanager
def players(workers: int) -> Iterator[Play]:
    """What plays single runs: this process, or ``workers`` processes; the target must then be picklable."""
    if integer(at_least=1, workers=workers) == 1:
        yield _play
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_one_thread) as pool:

        def play(target: AuditTarget, graph: Graph, seeds: Sequence[int]) -> list[Transcript]:
            chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
            futures = [pool.submit(_play, target, graph, chunk) for chunk in chunks]
            return [transcript for future in futures for transcript in future.result()]

        yield play


def run_seed(seed: int, pair: str, world: int, run: int) -> int:
    """The seed of the privacy noise of one run of an audit: below 2^52, different for every run."""
    return stream_seed(seed, f"audit|{pair}|{world}|{run}") >> 11


def _play(target: AuditTarget, graph: Graph, seeds: Sequence[int]) -> list[Transcript]:
    return [_one(target, graph, seed) for seed in seeds]


def _one(target: AuditTarget, graph: Graph, seed: int) -> Transcript:
    """One run. An error is seen by everybody, so that it is what the run hands out."""
    try:
        found = target(graph, NoiseSource.seeded(seed))
    except REFUSALS as error:
        return {FAILED: np.array([word_number(f"{type(error).__name__}: {error}")])}
    return checked_transcript(found)


def _one_thread() -> None:
    """Before a target loads torch: it reads these names when it is imported."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
