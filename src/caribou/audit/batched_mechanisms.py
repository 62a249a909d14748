"""Batched mechanisms: thousands of independent runs of the noisy part of a method as one tensor.

One call runs the real mechanism on a disjoint union of k equal graphs. Nothing flows between them, so this is k independent runs.
The audit plays the mechanism with the noise that a certificate states, on rows of the adversary's choice;
`caribou.audit.targets` runs whole methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

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
from caribou.mechanisms.neighbour_counts import NoisyNeighbourCounts, neighbour_counts
from caribou.mechanisms.neighbour_sums import bounded_adjacency, noisy_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.randomized_response import perturbed_pairs
from caribou.methods.catalogue import METHODS
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedCounts, CalibratedPropagation, calibrate_propagation, calibrate_sums
from caribou.privacy.certificate import Certificate
from caribou.privacy.events import EpsilonDelta, Gaussian
from caribou.privacy.mechanism_records import CountsRecord, Mechanism, MessagePassingRecord
from caribou.privacy.pair_response import (
    PairResponse,
    pair_count,
    split_pair_budget,
)
from caribou.privacy.sensitivity import Bounds, convergence_factor, sum_sensitivity

MAX_LEAVES = 5
MAX_UNION = 200
"""Graphs of one union of a randomized response."""
MAX_MADE = 0.5
"""If more pairs than this become edges, those between graphs take longer to draw than a union saves."""


def disjoint_union(graph: Graph, count: int) -> Graph:
    """``count`` equal graphs side by side; node i of graph k has index k n + i."""
    n = graph.num_nodes
    edges = (graph.edge_index[:, None, :] + n * np.arange(count)[None, :, None]).reshape(2, -1)
    absent = (graph.absent[None, :] + n * np.arange(count)[:, None]).ravel()
    return Graph.from_edges(np.zeros((n * count, 1)), edges, absent=absent)


@dataclass(frozen=True, eq=False)
class BatchedPropagation:
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

    def many(self, graph: Graph, runs: int, noise: NoiseSource) -> Transcript:
        """``runs`` last states. [runs, n, d]"""
        n, d = self.start.shape
        union = disjoint_union(graph, runs)
        bounds = replace(self.bounds, nodes=None)
        operator = normalize(union, bounds, np.random.default_rng(0))
        sensitivity = self.layer.sensitivity(PrivacyUnit.EDGE, bounds)
        # The mu at which calibration for the disjoint union gives the noise of one graph.
        kappa = convergence_factor(hops=self.hops, contraction=self.layer.contraction)
        mu = sensitivity.value * math.sqrt(kappa) / self.noise_std
        arithmetic = sensitivity.arithmetic(nodes=union.num_nodes, columns=d)
        calibrated = calibrate_propagation(sensitivity, hops=self.hops, mu=mu, arithmetic=arithmetic)
        start = torch.from_numpy(np.tile(self.start, (runs, 1)))
        state = propagate(self.layer, operator, start, calibrated, noise).numpy()
        return {"state": state.reshape(runs, n, d)}

    def likelihood_ratio(self, pair: Pair) -> Callable[[Transcript], Mapping[str, np.ndarray]]:
        """log p(state | joined) / p(state | without) if no projection cuts: both states are Gaussian, and their laws are known.

        m_(k+1) = C_L W m_k + beta X^(0) and V_(k+1) = C_L^2 W V_k W' + noise_std^2 I, one V for all columns.
        """
        laws = [self._law(graph) for graph in pair.worlds]

        def scores(transcript: Transcript) -> dict[str, np.ndarray]:
            logs = [_log_density(np.asarray(transcript["state"]), *law) for law in laws]
            return {"likelihood ratio": logs[1] - logs[0]}

        return scores

    def _law(self, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
        W = normalize(graph, replace(self.bounds, nodes=None), np.random.default_rng(0)).matrix.to_dense().numpy()
        mean, V = self.start, np.zeros_like(W)
        for _ in range(self.hops):
            mean = self.layer.contraction * W @ mean + self.layer.beta * self.start
            V = self.layer.contraction**2 * W @ V @ W.T + self.noise_std**2 * np.eye(len(W))
        return mean, V


def _log_density(x: np.ndarray, mean: np.ndarray, V: np.ndarray) -> np.ndarray:
    """log N(mean, V x I) up to a constant that does not depend on the law. [runs, n, d] -> [runs]"""
    gap = x - mean
    solved = np.einsum("ij,rjd->rid", np.linalg.inv(V), gap)
    return -0.5 * (gap * solved).sum(axis=(1, 2)) - 0.5 * x.shape[2] * float(np.linalg.slogdet(V)[1])


@dataclass(frozen=True, eq=False)
class BatchedSums:
    """Noisy sums over neighbours, all hops released, at edge level: `noisy_sums` itself. ``start``: messages, [n, d]."""

    hops: int
    mu: float
    start: np.ndarray

    def many(self, graph: Graph, runs: int, noise: NoiseSource) -> Transcript:
        """``runs`` transcripts. [runs, n, d] per hop"""
        n, d = self.start.shape
        adjacency = bounded_adjacency(disjoint_union(graph, runs), None, np.random.default_rng(0))
        calibrated = calibrate_sums(sum_sensitivity("edge"), hops=self.hops, mu=self.mu, nodes=n * runs, columns=d)
        sums = noisy_sums(adjacency, np.tile(self.start, (runs, 1)), calibrated, noise)
        return {f"sums_{k}": s.reshape(runs, n, d) for k, s in enumerate(sums, start=1)}


@dataclass(frozen=True, eq=False)
class BatchedVotes:
    """One stage of votes: node 0 sends its class to everybody it is joined with. `NoisyCounts` itself."""

    budget: VoteBudget
    classes: int = 2

    def many(self, graph: Graph, runs: int, noise: NoiseSource) -> Transcript:
        """``runs`` answers. [runs, n, C]"""
        n = graph.num_nodes
        box = NoisyCounts(disjoint_union(graph, runs), self.classes, self.budget, noise)
        sends = np.tile(np.arange(n) == 0, runs)
        nothing = np.zeros(n * runs)
        counts = box.ask(sends, nothing, nothing.astype(np.int64), ~sends)
        return {"stage_1": counts.reshape(runs, n, self.classes).astype(np.float64)}


@dataclass(frozen=True, eq=False)
class BatchedCounts:
    """Counts of classes over neighbours, all stages released: `NoisyNeighbourCounts` itself. ``predicted``: classes, [n]."""

    calibrated: CalibratedCounts
    predicted: np.ndarray
    classes: int = 2

    def many(self, graph: Graph, runs: int, noise: NoiseSource) -> Transcript:
        """``runs`` transcripts. [runs, n, C] per stage"""
        counts = NoisyNeighbourCounts(disjoint_union(graph, runs), self.classes, self.calibrated, noise)
        shape, predicted = (runs, graph.num_nodes, self.classes), np.tile(self.predicted, runs)
        stages = range(1, self.calibrated.stages + 1)
        return {f"counts_{t}": counts.ask(predicted).reshape(shape).astype(np.float64) for t in stages}

    def likelihood_ratio(self, pair: Pair) -> Callable[[Transcript], Mapping[str, np.ndarray]]:
        """log p(counts | joined) / p(counts | without) of discrete Laplace noise, over all stages."""
        without, joined = (neighbour_counts(graph, self.predicted, self.classes) for graph in pair.worlds)

        def scores(transcript: Transcript) -> dict[str, np.ndarray]:
            nearer = [np.abs(x - without) - np.abs(x - joined) for x in map(np.asarray, transcript.values())]
            return {"likelihood ratio": self.calibrated.noise_epsilon * sum(x.sum(axis=(1, 2)) for x in nearer)}

        return scores


@dataclass(frozen=True)
class BatchedResponse:
    """Randomized response on pairs, with its noisy edge count: `perturbed_pairs` itself.

    Runs with equal released counts have equal probabilities, so they share unions. Pairs between two graphs of a union are
    drawn as well and thrown away; a union has few graphs, because they grow with its square.
    """

    budget: Budget
    rule: Callable[..., PairResponse]
    count_share: float = 0.01

    def many(self, graph: Graph, runs: int, noise: NoiseSource) -> Transcript:
        """``runs`` counts, and whole perturbed adjacencies as bits. [runs, 1], [runs, pairs]"""
        n = graph.num_nodes
        plan = split_pair_budget(self.budget, self.count_share)
        noisy = graph.num_edges + noise.stream("edge count").discrete_laplace((runs,), epsilon=plan.count)
        counts = np.clip(noisy, 0, pair_count(n))  # as `noisy_edge_count` of every run
        bits = np.zeros((runs, pair_count(n)))
        for count in np.unique(counts):
            response = self.rule(epsilon=plan.pairs, edges=int(count), nodes=n)
            alike, drawn = np.flatnonzero(counts == count), noise.stream(f"pairs {count}")
            size = MAX_UNION if response.make_one <= MAX_MADE else 1
            union = disjoint_union(graph, size)
            for start in range(0, len(alike), size):
                some = alike[start : start + size]
                if len(some) < size:
                    union = disjoint_union(graph, len(some))
                ends = perturbed_pairs(union, response, drawn)
                u, v = ends[:, ends[0] // n == ends[1] // n]
                bits[some[u // n], (v % n) * (v % n - 1) // 2 + u % n] = 1.0
        return {"edge_count": counts[:, None].astype(np.float64), "bits": bits}


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
        share = float(certificate.public_parameters["count_share"])
        budget = Budget(certificate.epsilon, certificate.delta, certificate.unit)
        release = BatchedResponse(budget, info.response, share)
        return release, Pair("any two nodes", *two, PrivacyUnit.EDGE)
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
        counts = BatchedCounts(record.calibrated, np.array([0, 1]))
        pair = Pair("two nodes of different class", *two, PrivacyUnit.EDGE)
        return counts, replace(pair, batch_scores=counts.likelihood_ratio(pair))
    if record.mechanism is Mechanism.EDGE_VOTES and isinstance(record.event, EpsilonDelta):
        return BatchedVotes(VoteBudget(record.event.epsilon)), Pair("a voter and a receiver", *two, PrivacyUnit.EDGE)
    if record.mechanism is Mechanism.EDGE_VOTES and isinstance(record.event, Gaussian):
        votes = VoteBudget.gaussian(1 / record.event.noise_multiplier)
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
    pair = Pair("stars with the worst rows", *graphs, PrivacyUnit.EDGE)
    return release, replace(pair, batch_scores=release.likelihood_ratio(pair))
