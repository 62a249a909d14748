"""Our own additions to CARIBOU at edge level: messages that carry classes, and Bayes' rule on their noisy sums.

Not the paper's: with ``messages=labels`` or ``probabilities`` a state is read as noisy sums of messages over neighbours, and a
model of these sums takes the place of the classification module. ``votes`` gives a share of the budget to votes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from caribou.graph import Graph
from caribou.mechanisms.edge_votes import VoteBudget
from caribou.methods.base import Arrays
from caribou.methods.edge_method import log_probabilities
from caribou.methods.votes import Decoded
from caribou.models.heads import Evidence, Head, choose_head_by_folds
from caribou.models.objective import USUAL, Objective
from caribou.models.sum_likelihood import SumModel, fit_sum_model
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import CalibratedPropagation, budget_mu, smallest_noise_multiplier
from caribou.privacy.events import Gaussian
from caribou.randomness import Streams

SMALLEST_NOISE = 0.2
"""Noise, in messages, that the model of sums assumes at least; sums of soft messages are never exact counts."""

# -- who knows what ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Roles:
    """The public roles of labelled nodes. Senders' labels are messages; calibration and validation nodes keep theirs."""

    labels: np.ndarray
    classes: int
    train: np.ndarray
    senders: np.ndarray
    calibration: np.ndarray
    validation: np.ndarray

    @classmethod
    def draw(cls, graph: Graph, share: float, streams: Streams) -> Roles:
        """A random ``share`` of the training nodes keeps its labels."""
        split, labels = graph.for_learning(public=True)
        # the order of the votes: its last nodes keep their labels here, and hear the most votes there
        train = streams.generator("votes").permutation(split.train)
        sent = len(train) - max(1, round(share * len(train)))
        return cls(np.array(labels), graph.num_classes, train, train[:sent], train[sent:], np.array(split.val))

    @property
    def calibration_nodes(self) -> np.ndarray:
        """Nodes whose label was never sent: on them the classification module is fitted and judged."""
        return np.concatenate([self.calibration, self.validation])

    @property
    def shares(self) -> np.ndarray:
        """Class shares of the training nodes."""
        return np.maximum(np.bincount(self.labels[self.train], minlength=self.classes) / len(self.train), 1e-6)


@dataclass(frozen=True, eq=False)
class View:
    """What is known about every node without an edge. own: what the classification module reads; start: X^(0), the message;
    arrays: the encoder."""

    own: np.ndarray
    start: np.ndarray
    arrays: Arrays

    def after(self, decoded: Decoded | None) -> View:
        """With the result of the votes in the place of the encoder's probabilities."""
        return self if decoded is None else replace(self, own=log_probabilities(decoded.probabilities))


@lru_cache(maxsize=64)
def allocate_edge(budget: Budget, votes: float) -> tuple[float, VoteBudget | None]:
    """One budget over message passing (mu) and votes: ``votes`` of epsilon, and the Gaussian that composes with them."""
    if votes == 0:
        return budget_mu(budget), None
    if not budget.is_private:
        return math.inf, VoteBudget(math.inf)
    share = VoteBudget(votes * budget.epsilon)
    multiplier = smallest_noise_multiplier(lambda m: [Gaussian(m), share.event], budget, precision=1e-3)
    return 1 / multiplier, share


# -- the model of the sums ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EvidenceModel:
    """Bayes' rule on the noisy sums of messages, and a head that corrects it."""

    sums: SumModel
    head: Head

    def scores(self, view: View, state: np.ndarray, calibrated: CalibratedPropagation) -> np.ndarray:
        """[n, C]"""
        sums = message_sums(view, state, calibrated)
        return self.head(Evidence(view.own, self.sums.evidence(sums), sums))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved run."""
        return self.sums.to_arrays() | {f"head.{name}": array for name, array in self.head.to_arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> EvidenceModel:
        """The inverse of `to_arrays`."""
        head = {name.removeprefix("head."): array for name, array in arrays.items() if name.startswith("head.")}
        sums = SumModel(arrays["sums.profiles"], arrays["sums.weights"], float(arrays["sums.noise_std"]))
        return cls(sums, Head(**head))


def fit_evidence_model(
    view: View,
    sums: np.ndarray,
    roles: Roles,
    calibrated: CalibratedPropagation,
    streams: Streams,
    objective: Objective = USUAL,
) -> EvidenceModel:
    """Model of the sums and head, both fitted on the calibration_nodes; the head is chosen out of fold."""
    calibration_nodes = roles.calibration_nodes
    noise_std = max(SMALLEST_NOISE, calibrated.noise_std * message_unit(calibrated))
    model = fit_sum_model(sums, calibration_nodes, roles.labels, view.start, roles.shares, noise_std)
    known = Evidence(view.own, model.evidence(sums), sums)
    fallback = Head(view.arrays["calibration.theta"])
    labels = roles.labels[calibration_nodes]
    folds = streams.generator("folds")
    head, _ = choose_head_by_folds(known.rows(calibration_nodes), labels, fallback, folds, objective)
    return EvidenceModel(model, head)


def message_unit(calibrated: CalibratedPropagation) -> float:
    """One message is this part of a state: (F + 1) / (C_L alpha_1); |theta_1| in the place of alpha_1 for a spectral layer."""
    s = calibrated.sensitivity
    numbers = dict(s.parameters)
    return (s.bounds.degree_floor + 1) / max(
        s.contraction * abs(numbers.get("alpha1", numbers.get("theta1", 1.0))), 1e-12
    )


def message_sums(view: View, state: np.ndarray, calibrated: CalibratedPropagation) -> np.ndarray:
    """The state in messages; after one hop without the node's own message, which is known. [n, C]"""
    unit = message_unit(calibrated)
    if calibrated.hops > 1:
        return state * unit
    return (state - calibrated.sensitivity.residual * view.start) * unit - view.start


def labelled_nodes(graph: Graph) -> np.ndarray:
    """Training nodes with a label; none if the graph has no labels or no split."""
    if graph.labels is None or graph.split is None:
        return np.zeros(0, dtype=np.int64)
    train = np.array(graph.split.train)
    return train[graph.labels[train] >= 0]
