"""Batched mechanisms: thousands of independent runs of the noisy part of a method as one tensor.

One call runs the real mechanism on a disjoint union of k equal graphs. Nothing flows between them, so this is k independent runs.
The audit plays the mechanism with the noise that a certificate states, on rows of the adversary's choice;
`caribou.audit.targets` runs whole methods.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from caribou.audit.pairs import Pair, star_graphs, worst_rows
from caribou.audit.targets import BatchedTarget
from caribou.audit.transcripts import Transcript
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import normalize
from caribou.layers.contractive import ContractiveGraphLayer
from caribou.mechanisms.edge_votes import NoisyCounts, VoteBudget
from caribou.mechanisms.message_passing import propagate
from caribou.mechanisms.neighbour_counts import NoisyNeighbourCounts
from caribou.mechanisms.neighbour_sums import bounded_adjacency, noisy_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.randomized_response import perturb
from caribou.methods.catalogue import METHODS
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedCounts, CalibratedPropagation, calibrate_propagation, calibrate_sums
from caribou.privacy.certificate import Certificate
from caribou.privacy.events import EpsilonDelta, Gaussian
from caribou.privacy.mechanism_records import CountsRecord, Mechanism, MessagePassingRecord
from caribou.privacy.pair_response import PairBudget, PairResponse, pair_count, split_pair_budget
from caribou.privacy.sensitivity import Bounds, convergence_factor, sum_sensitivity

MAX_LEAVES = 5


def disjoint_union(graph: Graph, count: int) -> Graph:
    """``count`` equal graphs side by side; node i of graph k has index k n + i."""
    n = graph.num_nodes
    edges = (graph.edge_index[:, None, :] + n * np.arange(count)[None, :, None]).reshape(2, -1)
    absent = (graph.absent[None, :] + n * np.arange(count)[:, None]).ravel()
    return Graph.from_edges(np.zeros((n * count, 1)), edges, absent=absent)


class SideBySide(ABC):
    """Independent runs of a mechanism, made as one on a disjoint union of equal graphs."""

    @abstractmethod
    def play(self, union: Graph, runs: int, noise: NoiseSource) -> Mapping[str, Any]:
        """What the mechanism releases about the union of ``runs`` graphs: arrays with a row per node."""

    def many(self, graph: Graph, runs: int, noise: NoiseSource) -> Transcript:
        """``runs`` releases. [runs, n, columns] per array"""
        played = self.play(disjoint_union(graph, runs), runs, noise)
        shape = (runs, graph.num_nodes, -1)
        return {name: np.asarray(rows, dtype=np.float64).reshape(shape) for name, rows in played.items()}


@dataclass(frozen=True, eq=False)
class BatchedPropagation(SideBySide):
    """Perturbed message passing at edge level, with a given noise on given rows: `propagate` itself. ``start``: X^(0), [n, d].

    alpha_1 must be 1: the mean of all rows would join the graphs.
    """

    layer: ContractiveGraphLayer
    bounds: Bounds
    hops: int
    noise_std: float
    start: np.ndarray

    def __post_init__(self) -> None:
        if self.layer.alpha1 != 1:
            raise InputError(f"alpha1 must be 1 for batched runs, got {self.layer.alpha1!r}")

    def play(self, union: Graph, runs: int, noise: NoiseSource) -> Mapping[str, Any]:
        """The last states."""
        bounds = replace(self.bounds, nodes=None)
        operator = normalize(union, bounds, np.random.default_rng(0))
        sensitivity = self.layer.sensitivity(PrivacyUnit.EDGE, bounds)
        # The mu at which calibration for the disjoint union gives the noise of one graph.
        kappa = convergence_factor(hops=self.hops, contraction=self.layer.contraction)
        mu = sensitivity.value * math.sqrt(kappa) / self.noise_std
        arithmetic = sensitivity.arithmetic(nodes=union.num_nodes, columns=self.start.shape[1])
        calibrated = calibrate_propagation(sensitivity, hops=self.hops, mu=mu, arithmetic=arithmetic)
        start = torch.from_numpy(np.tile(self.start, (runs, 1)))
        return {"state": propagate(self.layer, operator, start, calibrated, noise)}


@dataclass(frozen=True, eq=False)
class BatchedSums(SideBySide):
    """Noisy sums over neighbours, all hops released, at edge level: `noisy_sums` itself. ``start``: messages, [n, d]."""

    hops: int
    mu: float
    start: np.ndarray

    def play(self, union: Graph, runs: int, noise: NoiseSource) -> Mapping[str, Any]:
        """The sums of every hop."""
        adjacency = bounded_adjacency(union, None, np.random.default_rng(0))
        messages = np.tile(self.start, (runs, 1))
        shape = {"nodes": len(messages), "columns": messages.shape[1]}
        calibrated = calibrate_sums(sum_sensitivity("edge"), hops=self.hops, mu=self.mu, **shape)
        return {f"sums_{k}": s for k, s in enumerate(noisy_sums(adjacency, messages, calibrated, noise), start=1)}


@dataclass(frozen=True, eq=False)
class BatchedVotes(SideBySide):
    """One stage of votes: node 0 sends its class to everybody it is joined with. `NoisyCounts` itself."""

    budget: VoteBudget
    classes: int = 2

    def play(self, union: Graph, runs: int, noise: NoiseSource) -> Mapping[str, Any]:
        """The answers."""
        sends = np.arange(union.num_nodes) % (union.num_nodes // runs) == 0
        nothing = np.zeros(union.num_nodes)
        box = NoisyCounts(union, self.classes, self.budget, noise)
        return {"stage_1": box.ask(sends, nothing, nothing.astype(np.int64), ~sends)}


@dataclass(frozen=True, eq=False)
class BatchedCounts(SideBySide):
    """Counts of classes over neighbours, all stages released: `NoisyNeighbourCounts` itself. ``predicted``: classes, [n]."""

    calibrated: CalibratedCounts
    predicted: np.ndarray
    classes: int = 2

    def play(self, union: Graph, runs: int, noise: NoiseSource) -> Mapping[str, Any]:
        """The counts of every stage."""
        counts = NoisyNeighbourCounts(union, self.classes, self.calibrated, noise)
        predicted = np.tile(self.predicted, runs)
        return {f"counts_{t}": counts.ask(predicted) for t in range(1, self.calibrated.stages + 1)}


@dataclass(frozen=True)
class RepeatedResponse:
    """Randomized response on pairs, with its noisy edge count: `perturb` itself, run by run. Its law depends on the count."""

    budget: PairBudget
    rule: Callable[..., PairResponse]

    def many(self, graph: Graph, runs: int, noise: NoiseSource) -> Transcript:
        """``runs`` counts, and whole perturbed adjacencies as bits. [runs, 1], [runs, pairs]"""
        counts, bits = np.zeros((runs, 1)), np.zeros((runs, pair_count(graph.num_nodes)))
        for run in range(runs):
            found = perturb(graph, self.budget, noise.stream(f"run {run}"), self.rule, max_edges=None)
            counts[run], (u, v) = found.count, found.pairs
            bits[run, v * (v - 1) // 2 + u] = 1.0
        return {"edge_count": counts, "bits": bits}


# -- from a certificate --------------------------------------------------------------------------------------------


def certified_mechanism(certificate: Certificate, method: str = "") -> tuple[BatchedTarget, Pair] | None:
    """The edge-level mechanism of a certificate with its worst pair, ready for many runs; None if it is not one of these.

    Message passing: the stars and rows of the sensitivity attack. Sums: two nodes with opposite messages. Counts: two nodes of
    different class. Votes: a voter and a receiver. Randomized response (of a ``method`` by name): any pair.
    """
    if certificate.unit is not PrivacyUnit.EDGE or not certificate.is_private:
        return None
    two = star_graphs(0)
    info = METHODS.get(method)
    if info is not None and info.response is not None:
        budget = Budget(certificate.epsilon, certificate.delta, certificate.unit)
        shares = split_pair_budget(budget, float(certificate.public_parameters["count_share"]))
        return RepeatedResponse(shares, info.response), Pair("any two nodes", *two, PrivacyUnit.EDGE)
    if len(certificate.mechanisms) != 1:
        return None
    record = certificate.mechanisms[0]
    if isinstance(record, MessagePassingRecord):
        return _certified_propagation(record.calibrated)
    if record.mechanism is Mechanism.NEIGHBOUR_SUMS and isinstance(record.event, Gaussian):
        mu = math.sqrt(record.event.count) / record.event.noise_multiplier
        pair = Pair("two nodes with opposite messages", *two, PrivacyUnit.EDGE)
        return BatchedSums(record.event.count, mu, np.array([[1.0], [-1.0]])), pair
    if isinstance(record, CountsRecord):
        pair = Pair("two nodes of different class", *two, PrivacyUnit.EDGE)
        return BatchedCounts(record.calibrated, np.array([0, 1])), pair
    if record.mechanism is Mechanism.EDGE_VOTES and isinstance(event := record.event, EpsilonDelta | Gaussian):
        votes = (
            VoteBudget(event.epsilon)
            if isinstance(event, EpsilonDelta)
            else VoteBudget.gaussian(1 / event.noise_multiplier)
        )
        return BatchedVotes(votes), Pair("a voter and a receiver", *two, PrivacyUnit.EDGE)
    return None


def _certified_propagation(calibrated: CalibratedPropagation) -> tuple[BatchedPropagation, Pair] | None:
    s = calibrated.sensitivity
    numbers = dict(s.parameters)
    if s.layer != "contractive" or numbers["alpha1"] != 1:
        return None
    floor, nodes = s.bounds.degree_floor, s.bounds.nodes or 10**9
    graphs = star_graphs(floor if floor <= MAX_LEAVES and 2 + 2 * floor <= nodes else 0)
    bounds = Bounds(degree_floor=floor)
    operators = [normalize(graph, bounds).matrix.to_dense().numpy() for graph in graphs]
    start = worst_rows(operators[1] - operators[0], np.random.default_rng(0))
    layer = ContractiveGraphLayer(float(numbers["contraction"]), 1.0, float(numbers["beta"]))
    release = BatchedPropagation(layer, bounds, calibrated.hops, calibrated.noise_std, start)
    return release, Pair("stars with the worst rows", *graphs, PrivacyUnit.EDGE)
