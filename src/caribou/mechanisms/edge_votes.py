"""Votes: every pair of nodes is asked at most once, at any depth. Pure epsilon-DP or exact mu-GDP at edge level.

A stage lets some nodes send one symbol each over their edges to some receivers, and releases, per receiver and symbol, the
number of messages plus noise. The alphabet of a stage is finite: classes, codes of public features, or pairs of both. Alphabet,
senders, messages, receivers and which end of a pair sends are functions of public values and of earlier releases. One edge
therefore adds 1 to at most one entry of the whole transcript.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from caribou._validate import positive_or_inf
from caribou.errors import CaribouError, InputError
from caribou.machine.deferred import deferred_imports
from caribou.privacy.arithmetic import grid_spacing
from caribou.privacy.events import EpsilonDelta, Event, Gaussian, NonPrivate

with deferred_imports():
    import numpy as np

    from caribou.engines.kernels import Rows, count_votes
    from caribou.graph import Graph
    from caribou.graph.blocked import put_together
    from caribou.mechanisms.noise_source import NoiseSource


@dataclass(frozen=True)
class VoteBudget:
    """What the whole transcript may cost, whatever its number of stages: ``epsilon``-DP, or ``mu``-GDP.

    discrete Laplace noise spends a pure epsilon and is the most accurate alone. Gaussian noise (`gaussian`) has no pure
    epsilon; its mu adds up in squares with other Gaussian mechanisms, so it is the one to compose with them.

    >>> VoteBudget(1.0).event, VoteBudget.gaussian(0.5).event
    (EpsilonDelta(epsilon=1.0, delta=0.0), Gaussian(noise_multiplier=2.0, count=1))
    """

    epsilon: float
    mu: float = math.inf

    def __post_init__(self) -> None:
        positive_or_inf(epsilon=self.epsilon)
        positive_or_inf(mu=self.mu)
        if math.isfinite(self.epsilon) and math.isfinite(self.mu):
            raise InputError(f"mu must be inf with a finite epsilon (one kind of noise), got {self.mu}")

    @classmethod
    def gaussian(cls, mu: float) -> VoteBudget:
        """A transcript with Gaussian noise that is mu-GDP."""
        return cls(math.inf, mu)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the Gaussian noise: the counts of neighbours differ by 1 in L2, so 1 / mu. 0: none."""
        return 1 / self.mu

    @property
    def event(self) -> Event:
        """What the transcript costs: one count moves by 1: (epsilon, 0)-DP with discrete Laplace noise, mu-GDP with Gaussian."""
        if math.isfinite(self.mu):
            return Gaussian(self.noise_std)
        return EpsilonDelta(self.epsilon) if math.isfinite(self.epsilon) else NonPrivate()

    @property
    def noise_variance(self) -> float:
        """Variance of one released entry: 1 / mu^2, or 2 a / (1 - a)^2 with a = e^-epsilon."""
        if math.isfinite(self.mu):
            return self.noise_std**2
        a = math.exp(-self.epsilon)
        return 2 * a / (1 - a) ** 2

    def check_size(self, nodes: int) -> None:
        """Counts and noise lie on one grid exactly: integers are multiples of it, and their sums fit into a double.

        So rounding to the grid is post-processing of count + noise, moves nothing between neighbours, and needs no allowance.
        """
        if math.isfinite(self.mu):
            grid = grid_spacing(noise_std=self.noise_std)
            if grid > 1 or nodes + 14 * self.noise_std > 2.0**52 * grid:
                raise InputError(f"mu must be between 2^-28 and 2^23 / {nodes} nodes for exact sums, got {self.mu}")

    def perturbed(self, counts: np.ndarray, noise: NoiseSource) -> np.ndarray:
        """Integer counts plus the noise of this budget."""
        if math.isfinite(self.mu):
            return noise.add_gaussian(counts.astype(np.float64), std=self.noise_std)
        return noise.add_discrete_laplace(counts, epsilon=self.epsilon)


@dataclass(frozen=True, eq=False)
class CountQuery:
    """Who sends what to whom in one stage: u sends message[u] over its edge to v if place[u] < place[v] and v receives. Public.

    ``place``: new nodes in the order of their rank, then n for all that are still to come or have been new. ``receives``: who may
    receive, was never new before and was in no earlier batch.
    """

    stage: int
    place: np.ndarray  # [n], int32
    receives: np.ndarray  # [n], bool
    message: np.ndarray  # [n], int32
    symbols: int  # size of the alphabet of this stage

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The three arrays."""
        return self.place, self.receives, self.message


class QueryOnceGuard:
    """Who has been new, and who was there before. The premises of Theorems 4 and 10 live here.

    Every node becomes a sender at most once. A pair is asked in the stage in which the first of its ends becomes new, and in no
    other: later that end is not new any more. So the pairs of different stages are disjoint whatever is asked, by construction.

    ``present``: nodes of earlier batches of a growing graph. They may send, and never receive. So a pair of two of them is not
    asked again, and a pair is asked only in the batch in which its later end arrives.
    """

    def __init__(self, nodes: int, classes: int, present: np.ndarray | None = None) -> None:
        self.nodes, self.classes, self.stages = nodes, classes, 0
        self._was_new = np.zeros(nodes, dtype=bool)
        self._present = np.zeros(nodes, dtype=bool) if present is None else np.array(present)
        if self._present.shape != (nodes,) or self._present.dtype != bool:
            raise InputError(
                f"present must be {nodes} booleans, got {self._present.dtype} of shape {self._present.shape}"
            )

    def query(
        self,
        new: np.ndarray,
        rank: np.ndarray,
        message: np.ndarray,
        receives: np.ndarray | None,
        symbols: int | None = None,
    ) -> CountQuery:
        """The next stage; a node that is new a second time is an error, before any edge is read."""
        receives = np.ones(self.nodes, dtype=bool) if receives is None else receives
        symbols = self.classes if symbols is None else symbols
        self._check(new, rank, message, receives, symbols)
        place = np.full(self.nodes, self.nodes, dtype=np.int32)
        place[new] = np.argsort(np.argsort(rank[new], kind="stable"), kind="stable")
        can_receive = receives & ~self._was_new & ~self._present
        self._was_new = self._was_new | new
        self.stages += 1
        sent = np.where(new, message, 0).astype(np.int32)
        return CountQuery(self.stages, place, can_receive, sent, symbols)

    def _check(
        self, new: np.ndarray, rank: np.ndarray, message: np.ndarray, receives: np.ndarray, symbols: int
    ) -> None:
        for name, mask in (("new", new), ("receives", receives)):
            if mask.shape != (self.nodes,) or mask.dtype != bool:
                raise InputError(f"{name} must be {self.nodes} booleans, got {mask.dtype} of shape {mask.shape}")
        if (new & self._was_new).any():
            again = int(np.flatnonzero(new & self._was_new)[0])
            raise CaribouError(f"new must be nodes that never sent before (their pairs were asked), got node {again}")
        if rank.shape != (self.nodes,) or not np.isfinite(rank[new]).all():
            raise InputError(f"rank must be {self.nodes} numbers, got shape {rank.shape}")
        sent = message[new]
        if message.shape != (self.nodes,) or (len(sent) and not 0 <= sent.min() <= sent.max() < symbols):
            raise InputError(f"message must be a symbol in 0..{symbols - 1} for every new node")


@dataclass(frozen=True, eq=False)
class BlockCount:
    """Counts the messages of one stage in a block of rows, wherever the block lies. It holds public values alone."""

    query: CountQuery

    def __call__(self, first: int, starts: np.ndarray, columns: np.ndarray) -> tuple[int, np.ndarray]:
        """The first row, and exact counts of the rows from it on, [rows, symbols]. Private: noise is to be added."""
        return first, count_votes(Rows(starts, columns), first, *self.query.parts, self.query.symbols)


def stage_counts(graph: Graph, query: CountQuery) -> np.ndarray:
    """The exact counts of one stage, [n, symbols]. Private: noise is to be added. Every receiver is counted once."""
    counts = np.zeros((graph.num_nodes, query.symbols), dtype=np.int64)
    return put_together(graph.map_rows(BlockCount(query), query.receives), counts, query.receives)


class NoisyCounts:
    """The only object that reads the private edges of a vote release. In memory they are one block, elsewhere many.

    Blocks are counted exactly, by whoever holds them. Noise is drawn here, once per stage and for all receivers in the order of
    their rows, so the answers do not depend on blocks.

    Formal guarantee: the transcript of all answers is epsilon-DP (mu-GDP) at edge level, provided that the arguments of `ask` are
    functions of public values and of earlier answers (docs/privacy.md, Theorem 4). With ``present``, the nodes of earlier batches
    of a growing graph, the answers of all batches together are epsilon-DP (mu-GDP), provided that every node that was there
    before is listed (Theorem 10).
    """

    def __init__(
        self, graph: Graph, classes: int, budget: VoteBudget, noise: NoiseSource, present: np.ndarray | None = None
    ) -> None:
        budget.check_size(graph.num_nodes)
        self._graph = graph
        self._noise = noise
        self._guard = QueryOnceGuard(graph.num_nodes, classes, present)
        self.nodes = graph.num_nodes
        self.classes = classes
        self.budget = budget

    @property
    def stages(self) -> int:
        """How many stages were asked."""
        return self._guard.stages

    def ask(
        self,
        new: np.ndarray,
        rank: np.ndarray,
        message: np.ndarray,
        receives: np.ndarray | None = None,
        symbols: int | None = None,
    ) -> np.ndarray:
        """One stage: the new nodes send one symbol each to all that were never new before, and to each other once.

        new: [n] bool; rank: [n], between two new nodes the one of smaller rank sends (ties: the smaller index); message: [n], the
        symbol of every new node; receives: [n] bool, who may receive (default: all); symbols: the size of this stage's alphabet
        (default: the number of classes). Returns [n, symbols]: noisy counts (integers, unless the noise is Gaussian), with zero
        rows for nodes that cannot receive in this stage.
        """
        query = self._guard.query(new, rank, message, receives, symbols)
        counts = stage_counts(self._graph, query)
        rows = np.flatnonzero(query.receives)
        answer = self.budget.perturbed(counts[rows], self._noise)
        released = counts.astype(answer.dtype, copy=False)  # rows that do not receive are zero
        released[rows] = answer
        return released
