"""Votes at node level: the labels of training nodes, counted at a bounded number of receivers, with Laplace noise.

Every training node (sender) sends its label to at most M of its neighbours outside the training set (receivers). A receiver's
counts are clipped, and Laplace noise of scale b is added to every entry. What this costs whom:
`caribou.privacy.mechanism_records.node_votes_record`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from caribou._validate import half_open_unit_interval, integer
from caribou.graph import Graph, Split
from caribou.graph.operator import first_of_each_row
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.arithmetic import grid_spacing


@dataclass(frozen=True)
class VotePlan:
    """How votes are asked. ``receivers_per_sender`` = M; ``share`` of epsilon that M votes would cost as pure DP.

    b = M / (share epsilon) is the scale of the noise in votes; tau = b epsilon the clip of a receiver's row.
    """

    receivers_per_sender: int
    share: float

    def __post_init__(self) -> None:
        integer(at_least=1, receivers_per_sender=self.receivers_per_sender)
        half_open_unit_interval(share=self.share)

    def noise_scale(self, epsilon: float) -> float:
        """b, in votes."""
        return self.receivers_per_sender / (self.share * epsilon)

    def row_clip(self) -> float:
        """tau = b epsilon = M / share, in votes; rounded down."""
        return self.receivers_per_sender / self.share * (1 - 2.0**-44)


def vote_counts(graph: Graph, split: Split, plan: VotePlan | None, seed: int) -> np.ndarray:
    """Un-noised counts: how many senders of each class chose a node. Private. [n, C]; plan None = no bound on M.

    A sender ranks its neighbours outside the training set by a public hash of the pair and takes the first M. So its choice is a
    function of its own list of neighbours: no other sender matters to it, and no order of the edges.
    """
    n = graph.num_nodes
    is_sender = np.zeros(n, dtype=bool)
    is_sender[split.train] = True
    senders, receivers = graph.edge_index
    asked = is_sender[senders] & ~is_sender[receivers]
    senders, receivers = senders[asked], receivers[asked]
    if plan is not None:
        chosen = first_of_each_row(senders, receivers, plan.receivers_per_sender, seed, directed=True)
        senders, receivers = senders[chosen], receivers[chosen]
    counts = np.zeros((n, graph.num_classes))
    np.add.at(counts, (receivers, graph.labels[senders]), 1)  # type: ignore[index]
    return counts


def clip_counts(counts: np.ndarray, row_clip: float | np.ndarray) -> np.ndarray:
    """f(S) = S w(N), N the sum of a row: w = 1 - N/(4 tau) for N <= 2 tau, tau/N above. [n, C] -> [n, C].

    One vote more or less moves f by at most 1 in L1, because w + N|w'| <= 1 along the way (= 1 below 2 tau, 2 tau/N above), and
    ||f||_1 = N w <= tau. Rescaling a row to length tau has the second property and not the first: it moves by up to 2.
    """
    total = counts.sum(axis=1, keepdims=True)
    tau = np.broadcast_to(np.asarray(row_clip, dtype=np.float64).reshape(-1, 1), total.shape)
    weight = np.where(total <= 2 * tau, 1 - total / (4 * tau), tau / np.maximum(total, 1))
    return counts * weight


def release_votes(
    counts: np.ndarray,
    split: Split,
    plan: VotePlan,
    epsilon: float,
    noise: NoiseSource,
    *,
    validation_share: float,
) -> np.ndarray:
    """Clipped counts plus Laplace noise of scale b in every entry of every row, asked or not. [n, C] -> [n, C].

    Validation rows have a clip of ``validation_share`` times the usual one. Counts and noise lie on one grid; the counts are
    shortened by the rounding margin, so that their rounding does not add to the shift. epsilon = inf: the counts themselves.
    """
    if math.isinf(epsilon):
        return counts
    tau = np.full(len(counts), plan.row_clip())
    tau[split.val] *= validation_share
    scale = plan.noise_scale(epsilon)
    margin = 2.0**-30 + 2 * counts.shape[1] * grid_spacing(noise_std=scale)
    return noise.add_laplace((1 - margin) * clip_counts(counts, tau), scale=scale)


def vote_evidence(votes: np.ndarray, plan: VotePlan, epsilon: float) -> np.ndarray:
    """Votes in units of the noise, between -1/2 and 3/4 epsilon: the likelihood ratio of Laplace noise saturates. [n, C]."""
    if math.isinf(epsilon):
        return votes
    return np.clip(votes / plan.noise_scale(epsilon), -0.5, 0.75 * epsilon)
