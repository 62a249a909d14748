"""Votes over row blocks: the counts of a stage block by block, with noise by address; resumable, each pair still asked once.

The roll of who has been new is kept by `mechanisms.votes.Roll`, over all nodes and not per block. A journal makes a stage a fact
before its edges are read: after a crash the same stage must be asked again, gets the same noise, and no other stage can take its
place.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import numpy as np

from caribou.engines.blocks import TILE, Block, Layout
from caribou.engines.kernels import Rows
from caribou.errors import CaribouError
from caribou.mechanisms.edge_votes import Ballot, Roll, VoteBudget, stage_counts
from caribou.mechanisms.noise_source import BlockNoise
from caribou.privacy.sensitivity import grid_spacing

_VOTES = 1 << 31
"""Rounds of votes are numbered from here on, so that they never share an address with rounds of message passing."""


@dataclass(frozen=True, eq=False)
class Task:
    """One stage as a worker needs it. Public."""

    ballot: Ballot
    classes: int
    budget: VoteBudget


class Counter(Protocol):
    """Whatever holds the blocks: noisy counts of one stage, one array [rows, C] per block in order."""

    def count(self, task: Task) -> Iterator[np.ndarray]:
        """May be repeated: the same task gives the same bytes."""


class BlockCounter:
    """Counts one block after the other; ``read`` gives a block from memory or from disk."""

    def __init__(self, layout: Layout, read: Callable[[int], Block], noise: BlockNoise) -> None:
        self._layout, self._read, self._noise = layout, read, noise

    def count(self, task: Task) -> Iterator[np.ndarray]:
        """Noisy counts, block by block."""
        for index in range(self._layout.blocks):
            yield noisy_counts(self._read(index), task.ballot, task.classes, task.budget, self._noise)


class BlockVoteBox:
    """`mechanisms.votes.VoteBox` over blocks: the same questions, the same promise.

    Formal guarantee: the transcript of all answers is epsilon-DP (mu-GDP) at edge level, provided that the arguments of `ask` are
    functions of public values and of earlier answers (docs/privacy.md, Theorem 4).
    """

    def __init__(
        self, nodes: int, classes: int, budget: VoteBudget, counter: Counter, journal: Journal | None = None
    ) -> None:
        budget.check_size(nodes)
        self._roll, self._counter, self._journal = Roll(nodes, classes), counter, journal
        self.nodes, self.classes, self.budget = nodes, classes, budget

    @property
    def stages(self) -> int:
        """How many stages were asked."""
        return self._roll.stages

    def ask(
        self, new: np.ndarray, rank: np.ndarray, message: np.ndarray, receives: np.ndarray | None = None
    ) -> np.ndarray:
        """One stage, as `VoteBox.ask`; a stage that the journal knows is answered as it was."""
        ballot = self._roll.ballot(new, rank, message, receives)
        if self._journal is not None and (known := self._journal.answer(ballot)) is not None:
            return known
        task = Task(ballot, self.classes, self.budget)
        answer = np.concatenate(list(self._counter.count(task)))
        if self._journal is not None:
            self._journal.store(ballot, answer)
        return answer


class Journal:
    """Stages and answers in a private folder (the answers are released, the folder also holds the key).

    A stage is written down before it is answered. `answer` refuses a stage that differs from what was written under its number:
    asking other pairs with the noise of this stage would spend them twice.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def answer(self, ballot: Ballot) -> np.ndarray | None:
        """What this stage was answered before, or None; from now on it is this stage."""
        digest = sha256(b"".join(part.tobytes() for part in ballot.parts)).hexdigest()
        stage, answer = (self._folder / f"stage-{ballot.stage}{ending}" for ending in (".asked", ".npy"))
        if not stage.exists():
            _write(stage, digest.encode())
        elif stage.read_text() != digest:
            raise CaribouError(f"stage {ballot.stage} must be asked again as it was asked before the interruption")
        return np.load(answer) if answer.exists() else None

    def store(self, ballot: Ballot, answer: np.ndarray) -> None:
        """Write an answer down."""
        import io

        buffer = io.BytesIO()
        np.save(buffer, answer)
        _write(self._folder / f"stage-{ballot.stage}.npy", buffer.getvalue())


def noisy_counts(block: Block, ballot: Ballot, classes: int, budget: VoteBudget, noise: BlockNoise) -> np.ndarray:
    """The released counts of the rows of a block: integers plus the noise of the budget, zero where nobody receives."""
    counts = np.zeros((block.count, classes), dtype=np.int64)
    for tile in block.tiles:
        rows = Rows(np.ascontiguousarray(tile.starts), tile.columns)
        counts += stage_counts(rows, block.first, ballot, classes)
    released = _perturbed(counts, ballot.stage, block.first // TILE, budget, noise)
    released[~ballot.receives[block.first : block.first + block.count]] = 0
    return released


def _perturbed(counts: np.ndarray, stage: int, tile: int, budget: VoteBudget, noise: BlockNoise) -> np.ndarray:
    """`VoteBudget.perturbed` with noise by address: tile by tile of the rows."""
    parts = [counts[first : first + TILE] for first in range(0, len(counts), TILE)]
    number = _VOTES + stage
    if math.isfinite(budget.mu):
        grid = grid_spacing(noise_std=budget.noise_std)
        drawn = noise.gaussians(
            number,
            tile,
            [part.size for part in parts],
            size=TILE * counts.shape[1],
            std=budget.noise_std,
            grid=grid,
        )
        return np.concatenate([part + z.reshape(part.shape) for part, z in zip(parts, drawn, strict=True)])
    if math.isfinite(budget.epsilon):
        draw = noise.two_sided_geometric
        noisy = [
            part + draw(number, tile + at, part.size, epsilon=budget.epsilon).reshape(part.shape)
            for at, part in enumerate(parts)
        ]
        return np.concatenate(noisy)
    return counts


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, and on disk when this returns."""
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
