"""Votes at node level: the labels of training nodes, summed at their other neighbours, with Gaussian noise.

Every training node (sender) sends its label to all its neighbours outside the training set (receivers). One with more than M
receivers sends a fraction to each. Rows are clipped, and noise is added to every entry. What this costs whom:
`caribou.privacy.mechanism_records.NodeVotesRecord`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from caribou._validate import integer, open_unit_interval
from caribou.errors import InputError
from caribou.machine.deferred import deferred_imports
from caribou.privacy.arithmetic import vote_weight_bits
from caribou.privacy.calibration import CalibratedVotes
from caribou.privacy.sensitivity import vote_weight

with deferred_imports():
    import numpy as np

    from caribou.graph import Graph, Split
    from caribou.mechanisms.bounded_rows import project_rows
    from caribou.mechanisms.noise_source import NoiseSource


@dataclass(frozen=True)
class VotePlan:
    """How votes are asked. ``receivers_per_sender`` = M: whole votes up to so many, fractions above; None = always whole.
    ``share``: what votes get of a training node's mu^2."""

    receivers_per_sender: int | None
    share: float

    def __post_init__(self) -> None:
        if self.receivers_per_sender is not None:
            integer(at_least=1, receivers_per_sender=self.receivers_per_sender)
        open_unit_interval(share=self.share)


def vote_sums(graph: Graph, split: Split, receivers_per_sender: int | None) -> np.ndarray:
    """Votes of each class for every node before clipping and noise. Private. [n, C]

    A sender's vote depends on its own label and on how many receivers it has, and on no other sender. Fractions have few enough
    binary places for exact sums (`vote_weight_bits`).
    """
    n = graph.num_nodes
    is_sender = np.zeros(n, dtype=bool)
    is_sender[split.train] = True
    senders, receivers = graph.edge_index
    asked = is_sender[senders] & ~is_sender[receivers]
    senders, receivers = senders[asked], receivers[asked]
    places = 2.0 ** vote_weight_bits(n)
    counts = np.bincount(senders, minlength=n)
    weights = np.array([vote_weight(int(count), receivers_per_sender) for count in counts])
    weights = np.floor(weights * places) / places
    sums = np.zeros((n, graph.num_classes))
    np.add.at(sums, (receivers, graph.labels[senders]), weights[senders])  # type: ignore[index]
    return sums


def release_votes(sums: np.ndarray, split: Split, calibrated: CalibratedVotes, noise: NoiseSource) -> np.ndarray:
    """Clipped sums plus Gaussian noise in every entry of every row, asked or not. [n, C] -> [n, C].

    Rows of validation nodes have their own clip. Formal guarantee: a node of degree d pays what `CalibratedVotes` says, in every
    graph (docs/privacy.md, Theorem 9).
    """
    size = (calibrated.arithmetic.nodes, calibrated.arithmetic.columns)
    if sums.shape != size:
        raise InputError(f"calibrated must be for votes of shape {sums.shape}, got {size}")
    if calibrated.noise_std == 0:
        return sums
    clipped = project_rows(sums, calibrated.row_clip)
    clipped[split.val] = project_rows(sums[split.val], calibrated.validation_row_clip)
    return noise.add_gaussian(clipped, std=calibrated.noise_std)


def vote_evidence(votes: np.ndarray, calibrated: CalibratedVotes) -> np.ndarray:
    """Votes in units of the noise. [n, C]"""
    return votes if calibrated.noise_std == 0 else votes / calibrated.noise_std


def votes_pay(*, average_degree: float, declared_degree: int, mu: float, plan: VotePlan) -> bool:
    """The public rule: votes are asked if a typical node hears at least twice the noise of an entry.

    The noise of plan and budget is about sqrt(min(d*, M) / share) / mu. Measured on Cora, PubMed, Photo, Computers and
    Berkeley13: below a ratio of 2 what votes take from the model is more than they give (docs/decisions.md, record 0075).

    >>> plan = VotePlan(273, 0.3)
    >>> [votes_pay(average_degree=71.5, declared_degree=546, mu=mu, plan=plan) for mu in (0.5, 0.925, 1.67)]
    [False, True, True]
    """
    d = declared_degree if plan.receivers_per_sender is None else min(declared_degree, plan.receivers_per_sender)
    return average_degree * mu * math.sqrt(plan.share / d) >= 2
