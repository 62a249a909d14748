"""Votes: every pair of nodes is asked at most once, at any depth. Pure epsilon-DP at edge level.

A stage lets some nodes send one class each over their edges to some receivers, and releases, per receiver and class, the
number of messages plus noise. Who may send, who receives and which end of a pair sends are functions of public values and of
earlier releases. One edge therefore adds 1 to at most one entry of the whole transcript.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from caribou._validate import positive_or_inf
from caribou.errors import CaribouError, InputError
from caribou.graph import Graph
from caribou.mechanisms.noise import NoiseSource
from caribou.privacy.events import EpsilonDelta, Event, NonPrivate


@dataclass(frozen=True)
class VoteBudget:
    """The epsilon of the whole transcript, whatever its number of stages."""

    epsilon: float

    def __post_init__(self) -> None:
        positive_or_inf(epsilon=self.epsilon)

    @property
    def event(self) -> Event:
        """What the transcript costs: two-sided geometric noise on a count that moves by 1 is exactly (epsilon, 0)-DP."""
        return EpsilonDelta(self.epsilon) if math.isfinite(self.epsilon) else NonPrivate()

    @property
    def noise_variance(self) -> float:
        """Variance of one released entry: 2 a / (1 - a)^2, a = e^-epsilon."""
        a = math.exp(-self.epsilon)
        return 2 * a / (1 - a) ** 2


class VoteBox:
    """The only object that reads the private edges of a vote release.

    Every node becomes a sender at most once, in the stage in which it is declared ``new``. A pair is asked in the stage in which
    the first of its ends becomes new, and in no other: later that end is not new any more. So the pairs of different stages are
    disjoint whatever is asked, by construction.

    Formal guarantee: the transcript of all answers is epsilon-DP at edge level, provided that the arguments of `ask` are
    functions of public values and of earlier answers (docs/privacy.md, Theorem 4).
    """

    def __init__(self, graph: Graph, classes: int, budget: VoteBudget, noise: NoiseSource) -> None:
        self._source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
        self._target = np.asarray(graph.indices, dtype=np.int64)
        self._noise = noise
        self._was_new = np.zeros(graph.num_nodes, dtype=bool)
        self.nodes = graph.num_nodes
        self.classes = classes
        self.budget = budget
        self.stages = 0

    def ask(
        self, new: np.ndarray, rank: np.ndarray, message: np.ndarray, receives: np.ndarray | None = None
    ) -> np.ndarray:
        """One stage: the new nodes send one class each to all that were never new before, and to each other once.

        new: [n] bool; rank: [n], between two new nodes the one of smaller rank sends (ties: the smaller index); message: [n], the
        class of every new node; receives: [n] bool, who may receive (default: all). Returns [n, C] integers: noisy counts,
        with zero rows for nodes that cannot receive in this stage.
        """
        receives = np.ones(self.nodes, dtype=bool) if receives is None else receives
        self._check(new, rank, message, receives)
        # position: new nodes in the order of their rank, then all nodes that are still to come
        position = np.full(self.nodes, self.nodes)
        position[new] = np.argsort(np.argsort(rank[new], kind="stable"), kind="stable")
        can_receive = receives & ~self._was_new
        self._was_new = self._was_new | new
        self.stages += 1
        u, v = self._source, self._target
        used = new[u] & can_receive[v] & (position[u] < position[v])
        counts = np.bincount(v[used] * self.classes + message[u[used]], minlength=self.nodes * self.classes)
        released = np.zeros((self.nodes, self.classes), dtype=np.int64)
        rows = np.flatnonzero(can_receive)
        released[rows] = counts.reshape(self.nodes, self.classes)[rows]
        if math.isfinite(self.budget.epsilon):
            shape = (len(rows), self.classes)
            released[rows] += self._noise.two_sided_geometric(shape, epsilon=self.budget.epsilon)
        return released

    def _check(self, new: np.ndarray, rank: np.ndarray, message: np.ndarray, receives: np.ndarray) -> None:
        for name, mask in (("new", new), ("receives", receives)):
            if mask.shape != (self.nodes,) or mask.dtype != bool:
                raise InputError(f"{name} must be {self.nodes} booleans, got {mask.dtype} of shape {mask.shape}")
        if (new & self._was_new).any():
            again = int(np.flatnonzero(new & self._was_new)[0])
            raise CaribouError(f"new must be nodes that never sent before (their pairs were asked), got node {again}")
        if rank.shape != (self.nodes,) or not np.isfinite(rank[new]).all():
            raise InputError(f"rank must be {self.nodes} numbers, got shape {rank.shape}")
        sent = message[new]
        if message.shape != (self.nodes,) or (len(sent) and not 0 <= sent.min() <= sent.max() < self.classes):
            raise InputError(f"message must be a class in 0..{self.classes - 1} for every new node")
