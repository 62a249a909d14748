"""One round of message passing over row blocks, and the interface of whatever runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from caribou.engines import kernels
from caribou.engines.blocks import TILE, Block
from caribou.engines.kernels import Finish, Shards
from caribou.errors import CaribouError, InputError
from caribou.mechanisms.noise_source import BlockNoise
from caribou.privacy.arithmetic import grid_spacing
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.calibration import CalibratedPropagation

Progress = Callable[[int, int, int], None]
"""Called with (round, blocks done, entries done so far in this round); the last is private and for the owner's screen only."""


@dataclass(frozen=True)
class Step:
    """The public numbers of round ``number`` (1 .. K): X <- Pi(phi(X) + noise_std Z), phi projected first at node level.

    phi(X) = weight W X + mean_weight Mean(X) + start_weight X^(0), as in `caribou.layers.FusedStep`.
    """

    number: int
    weight: float
    mean_weight: float
    start_weight: float
    degree_floor: int
    node_level: bool
    last: bool
    noise_std: float

    @property
    def grid(self) -> float:
        """The common grid of value and noise."""
        return grid_spacing(noise_std=self.noise_std) if self.noise_std > 0 else 1.0


def steps_of(calibrated: CalibratedPropagation) -> tuple[Step, ...]:
    """The K rounds of a calibrated propagation, of a layer that the compiled loop can compute."""
    from caribou.layers import LAYERS  # here: workers need no torch, which takes a second to load

    s = calibrated.sensitivity
    fused = LAYERS[s.layer].fused_step(dict(s.parameters)) if s.layer in LAYERS else None
    if fused is None:
        raise InputError(f"layer must offer a fused step for the engines (the contractive layer does), got {s.layer!r}")
    return tuple(
        Step(
            number=number,
            weight=fused.weight,
            mean_weight=fused.mean_weight,
            start_weight=fused.start_weight,
            degree_floor=s.bounds.degree_floor,
            node_level=s.unit is PrivacyUnit.NODE,
            last=number == calibrated.hops,
            noise_std=calibrated.noise_std,
        )
        for number in range(1, calibrated.hops + 1)
    )


class Runner(Protocol):
    """What a round needs of an engine: a map over row blocks with at-least-once execution.

    Work may be repeated, on any worker and in any order: the result of (round, block) is a function of the state, the block and
    the key. A round that is asked with another step, mean or state than before is refused (`RoundGuard`). The engine on disk
    keeps its states in the work folder; of the others they are stored there from time to time.
    """

    def start(self, shards: Iterator[np.ndarray]) -> None:
        """Take over a state, as one array of rows per block in order."""

    def round(self, step: Step, mean: np.ndarray | None, progress: Progress) -> np.ndarray:
        """Run one round over all blocks. Returns the sums of the new rows, one per tile of rows in order: [tiles, d]."""

    def shards(self) -> Iterator[np.ndarray]:
        """The present state, one array of rows per block in order."""

    def close(self) -> None:
        """Give back whatever is held, also after a failure."""


class RoundGuard:
    """What every round was asked with. It may be repeated; with another step, mean or state its noise would serve two values."""

    def __init__(self) -> None:
        self._asked: dict[int, tuple[Step, bytes | None, object]] = {}

    def require(self, step: Step, mean: np.ndarray | None, state: object) -> None:
        """Note a round on first sight; refuse it if it was asked otherwise before. ``state``: tells states apart."""
        asked = (step, None if mean is None else mean.tobytes(), state)
        if self._asked.setdefault(step.number, asked) != asked:
            raise CaribouError(f"round {step.number} must be asked as before (its noise would repeat), got another one")


def advance(
    block: Block,
    y: Shards,
    own: np.ndarray,
    x0: np.ndarray | None,
    step: Step,
    mean: np.ndarray | None,
    noise: BlockNoise,
    out: np.ndarray,
) -> np.ndarray:
    """One block of one round, fused; ``own`` and ``x0`` are its rows of y and X^(0). Returns the sums per tile of rows."""
    finish = finish_of(block.degrees, block.ownless, own, x0, step, mean)
    noises = (None if z is None else z.reshape(-1, own.shape[1]) for z in drawn(block.first, own.shape, step, noise))
    return kernels.round_tiles(block.tiles[0], y, finish, noises, TILE, out)


def finish_of(
    degrees: np.ndarray,
    ownless: np.ndarray,
    own: np.ndarray,
    x0: np.ndarray | None,
    step: Step,
    mean: np.ndarray | None,
) -> Finish:
    """What follows the product, but for the noise. At node level, and only there, rows without features have no own row."""
    return Finish(
        degrees=degrees,
        own=own,
        floor=step.degree_floor,
        weight=step.weight,
        mean=mean,
        beta=step.start_weight,
        x0=x0,
        inner=step.node_level,
        last=step.last,
        noise=None,
        grid=step.grid,
        ownless=ownless if step.node_level else None,
    )


def drawn(first: int, shape: tuple[int, ...], step: Step, noise: BlockNoise) -> Iterator[np.ndarray | None]:
    """The noise of the tiles of the rows from ``first`` on; each array overwrites the one before. None: no noise."""
    count, d = shape
    counts = [d * (min(count, at + TILE) - at) for at in range(0, count, TILE)]
    if step.noise_std == 0:
        return iter([None] * len(counts))
    return noise.gaussians(step.number, first // TILE, counts, size=TILE * d, std=step.noise_std, grid=step.grid)


def mean_of(sums: np.ndarray, nodes: int, step: Step) -> np.ndarray | None:
    """mean_weight Mean(X) from the sums per tile of the state before; None if the mean has no weight."""
    if step.mean_weight == 0:
        return None
    return step.mean_weight * (sums.sum(axis=0) / nodes)


def joined(parts: Sequence[np.ndarray | None]) -> np.ndarray:
    """The sums of all blocks in order."""
    return np.concatenate([part for part in parts if part is not None])
