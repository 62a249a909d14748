"""What a node of a real graph pays in fact, beside what it is promised: exact shifts of what is released when the node leaves.

python -m reproduction.real_epsilon [GRAPH ...]      default: the five public benchmarks; prints a table and writes
                                                     results/real-epsilon.csv

Both worlds are computed without noise, with and without the node. What the mechanisms that read edges release moves by a length;
over the standard deviation of the noise that is their mu. Mechanisms that read no edge count in full. So the real epsilon of a
node is never too small, and it must not exceed the epsilon that the curve by degree promises to a node of that degree.
"""

from __future__ import annotations

import csv
import functools
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

from caribou import methods
from caribou.datasets import load
from caribou.graph import Graph
from caribou.graph.operator import normalize
from caribou.mechanisms.bounded_rows import Rows, project_rows, unit_length
from caribou.mechanisms.clipped_gradients import linear_clipped_sum
from caribou.mechanisms.neighbour_sums import bounded_adjacency, neighbour_sums
from caribou.mechanisms.node_votes import VotePlan, vote_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.caribou import CaribouNdp
from caribou.methods.dpdgc import DpdgcNdp
from caribou.methods.gap import GapNdp
from caribou.methods.mlp import MlpDp, applied, centred
from caribou.methods.node_method import messages
from caribou.methods.sage import SageNdp, neighbourhood_rows
from caribou.methods.sage import messages as sage_messages
from caribou.methods.votes import VOTES_SHARE, VotesNdp
from caribou.models.features import sent_rows
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.budget import Budget
from caribou.privacy.events import EpsilonDelta, Gaussian, gaussian_mu
from caribou.privacy.mechanism_records import Group, Mechanism, MechanismRecord, groups_of
from caribou.privacy.plan import ReleasePlan
from caribou.randomness import Streams

RESULT = Path(__file__).resolve().parent / "results" / "real-epsilon.csv"
DECLARED = {"cora": 70, "pubmed": 70, "photo": 660, "computers": 780, "berkeley13": 550}
"""The 99.9 % quantile of the degrees of each public benchmark, rounded up."""
BUDGET = Budget(4.0, 1e-5, "node")
PARTS = (Group.TRAINING, Group.VALIDATION, Group.OTHERS)


def measured_methods(declared: int) -> dict[str, object]:
    """The methods that read edges, one hop each, votes asked whatever the public rule says."""
    votes = VotePlan(math.ceil(declared / 2), VOTES_SHARE)
    return {
        "votes-ndp": VotesNdp(declared_degree=declared, votes=votes),
        "votes-ndp, whole votes": VotesNdp(declared_degree=declared, votes=VotePlan(None, VOTES_SHARE)),
        "caribou-ndp": CaribouNdp(graph_share=0.5, hops=1),
        "gap-ndp": GapNdp(declared_degree=declared),
        "dpdgc-ndp": DpdgcNdp(declared_degree=declared),
        "sage-ndp": SageNdp(declared_degree=declared),
    }


# -- shifts --------------------------------------------------------------------------------------------------------


class RealGraph:
    """A public graph and a linear model of it, which every method here is taken to have released before it reads an edge."""

    def __init__(self, graph: Graph, budget: Budget = BUDGET) -> None:
        self.graph = graph
        self.model = methods.fit(MlpDp(random_features=0), graph, budget, Streams(0), NoiseSource.seeded(0)).weights
        self.logits = centred(applied(self.model, graph).logits())
        self.layer = np.concatenate([self.model["weights"]] * 2)
        self.structure = unit_length(self.logits)

    def shift(self, method: object, plan: ReleasePlan, node: int) -> float:
        """mu of what the mechanisms that read edges release, when this node leaves."""
        records = {record.mechanism: record for record in plan.mechanisms if record.reads_edges}
        if isinstance(method, VotesNdp):
            return self._votes(method, plan, node)
        if isinstance(method, CaribouNdp):
            return self._message_passing(method, plan, node)
        if isinstance(method, GapNdp):
            return self._sums(plan, messages(self.logits), node)
        if isinstance(method, DpdgcNdp):
            trained = self._structure(records[Mechanism.NOISY_DESCENT], node)
            return math.hypot(trained, self._sums(plan, self.structure, node))
        if isinstance(method, SageNdp):
            trained = self._neighbourhoods(method, records[Mechanism.NOISY_DESCENT], node)
            return math.hypot(trained, self._sums(plan, sage_messages(self._rows(method), self.layer), node))
        raise TypeError(f"method must read edges, got {method!r}")

    def _votes(self, method: VotesNdp, plan: ReleasePlan, node: int) -> float:
        votes = plan.parts["votes"]

        def clipped(graph: Graph) -> np.ndarray:
            sums = vote_sums(graph, graph.for_learning()[0], votes.receivers_per_sender)
            rows = project_rows(sums, votes.row_clip)
            val = self.graph.for_learning()[0].val
            rows[val] = project_rows(sums[val], votes.validation_row_clip)
            return rows

        return _norm(clipped(self.graph) - clipped(self.graph.without_node(node))) / votes.noise_std

    def _message_passing(self, method: CaribouNdp, plan: ReleasePlan, node: int) -> float:
        calibrated = plan.parts["propagation"]
        # embeddings of the linear encoder
        start = torch.from_numpy(sent_rows(self.graph, messages(self.logits)))

        def state(graph: Graph) -> np.ndarray:
            operator = normalize(graph, calibrated.sensitivity.bounds, Streams(0).sampling)
            x0 = operator.mask(torch.from_numpy(project_rows(start.numpy(), 1.0)))
            return project_rows(method._layer(x0, operator, x0).numpy(), 1.0)

        return _norm(state(self.graph) - state(self.graph.without_node(node))) / calibrated.noise_std

    def _sums(self, plan: ReleasePlan, sent: np.ndarray, node: int) -> float:
        """Only the rows of the neighbours and the own one move where every edge is read."""
        calibrated = plan.parts["sums"]
        with_node, without = self._adjacencies(self._near(node), node)
        moved = neighbour_sums(with_node, sent, calibrated) - neighbour_sums(without, sent, calibrated)
        return _norm(moved) / calibrated.noise_std

    def _structure(self, record: MechanismRecord, node: int) -> float:
        """Every step of the training of W, each at the same weights."""
        targets = self._targets(node)
        kept = targets[targets != node]
        with_node, _ = self._adjacencies(targets, node)
        _, without = self._adjacencies(kept, node)
        worlds = ((Rows.of(with_node), targets), (Rows.of(without), kept))
        return self._descent(record, worlds, self.structure)

    def _neighbourhoods(self, method: SageNdp, record: MechanismRecord, node: int) -> float:
        rows, targets = self._rows(method), self._targets(node)
        kept = targets[targets != node]
        whole = self._adjacency
        mask = sp.diags_array((np.arange(self.graph.num_nodes) != node).astype(float))
        m, w = method.message_scale, method.own_share
        worlds = (
            (neighbourhood_rows(rows, whole, targets, m, w), targets),
            (neighbourhood_rows(rows, sp.csr_array(whole @ mask), kept, m, w), kept),
        )
        return self._descent(record, worlds, self.layer)

    def _descent(
        self, record: MechanismRecord, worlds: Sequence[tuple[Rows, np.ndarray]], weights: np.ndarray
    ) -> float:
        labels = self.graph.for_learning()[1]
        sums = [
            linear_clipped_sum(rows, labels[targets], weights, record.details["clip"]) if len(targets) else 0.0
            for rows, targets in worlds
        ]
        moved = _norm(np.asarray(sums[0] - sums[1]))
        return moved / record.details["noise_std"] * math.sqrt(record.details["steps"])

    @functools.cached_property
    def _adjacency(self) -> sp.csr_array:
        return bounded_adjacency(self.graph, None, Streams(0).sampling)

    def _rows(self, method: SageNdp) -> Rows:
        return method._rows(self.graph, self.model["mean"])

    def _near(self, node: int) -> np.ndarray:
        return np.append(self._adjacency.indices[slice(*self._adjacency.indptr[node : node + 2])], node)

    def _targets(self, node: int) -> np.ndarray:
        return np.intersect1d(self._near(node), self.graph.for_learning()[0].train)

    def _adjacencies(self, rows: np.ndarray, node: int) -> tuple[sp.csr_array, sp.csr_array]:
        """These rows of A with and without the node."""
        some = sp.csr_array(self._adjacency[rows])
        mask = sp.diags_array((np.arange(self.graph.num_nodes) != node).astype(float))
        own = sp.diags_array((rows != node).astype(float))
        return some, sp.csr_array(own @ some @ mask)


def _norm(moved: np.ndarray) -> float:
    return float(np.linalg.norm(moved))


# -- real and promised ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Paid:
    """One node: its degree and group, mu of what it pays in fact, mu that its degree and the declared one are promised.

    ``share``: what the mechanisms that read edges moved, over their part of what is promised; 0 for a node without edges.
    """

    node: int
    degree: int
    group: Group
    real: float
    promised: float
    headline: float
    share: float


def gaussians(records: Iterable[MechanismRecord], group: Group, degree: int | None = None) -> float:
    """mu of the Gaussians that a node of this group (and degree) pays."""
    events = groups_of(tuple(records), degree).get(group, ())
    return gaussian_mu(event for event in events if isinstance(event, Gaussian)) or 0.0


def paid_by(real: RealGraph, method: object, plan: ReleasePlan, nodes: Iterable[int]) -> list[Paid]:
    """What these nodes pay, in fact and by promise."""
    split, found = real.graph.for_learning()[0], []
    for node in nodes:
        parts = zip(PARTS, (split.train, split.val), strict=False)
        group = next((g for g, part in parts if node in part), Group.OTHERS)
        degree = int(real.graph.degrees[node])
        fixed = gaussians((r for r in plan.mechanisms if r.by_degree is None), group)
        moved = real.shift(method, plan, node)
        promised, headline = gaussians(plan.mechanisms, group, degree), gaussians(plan.mechanisms, group)
        of_edges = gaussians((r for r in plan.mechanisms if r.by_degree is not None), group, degree)
        share = moved / of_edges if degree > 0 else 0.0
        found.append(Paid(int(node), degree, group, math.hypot(fixed, moved), promised, headline, share))
    return found


def some_nodes(graph: Graph, random: int, hubs: int, seed: int = 0) -> list[int]:
    """Random nodes, and the nodes of largest degree of each part of the split."""
    drawn = np.random.default_rng(seed).choice(graph.num_nodes, min(random, graph.num_nodes), replace=False)
    split = graph.for_learning()[0]
    largest = [part[np.argsort(graph.degrees[part])[-hubs:]] for part in (split.train, split.val, split.test)]
    return [int(node) for node in dict.fromkeys(np.concatenate([drawn, *largest]).tolist())]


@functools.lru_cache(maxsize=4096)
def _epsilon(mu: float, choice: float) -> float:
    chosen = (EpsilonDelta(choice),) if choice > 0 else ()
    return epsilon_of([Gaussian(1 / mu), *chosen], BUDGET.delta) if mu > 0 else choice


def epsilon(plan: ReleasePlan, group: Group, mu: float) -> float:
    """With what validation nodes pay for a choice; mu rounded up to four digits."""
    choice = sum(e.epsilon for e in groups_of(plan.mechanisms).get(group, ()) if isinstance(e, EpsilonDelta))
    digits = 3 - math.floor(math.log10(mu)) if mu > 0 else 0
    return _epsilon(math.ceil(mu * 10**digits) / 10**digits, choice)


HEAD = (
    *("graph", "method", "declared degree", "nodes within it (%)", "nodes measured", "headline epsilon"),
    *(
        "median",
        "90 %",
        "99.9 %",
        "largest",
        "largest ratio real / promised (mu of what reads edges)",
        "measured above the headline within it",
    ),
)


def measure(name: str, random: int, hubs: int) -> list[list[str]]:
    """The rows of the table for one graph."""
    graph = load(name, seed=0)
    real, rows = RealGraph(graph), []
    for title, method in measured_methods(DECLARED[name]).items():
        plan = method.plan(graph.sizes(BUDGET.unit), BUDGET)  # type: ignore[attr-defined]
        paid = paid_by(real, method, plan, some_nodes(graph, random, hubs))
        limit = plan.scope.limit
        covered = 100.0 if limit is None else 100 * float(np.mean(graph.degrees <= limit))
        spent = [epsilon(plan, p.group, p.real) for p in paid]
        above = sum(p.real > p.headline * (1 + 1e-9) for p in paid if limit is None or p.degree <= limit)
        quantiles = [*(float(np.quantile(spent, q)) for q in (0.5, 0.9, 0.999)), max(spent)]
        rows.append(
            [
                *(name, title, "every" if limit is None else str(limit), f"{covered:.2f}", str(len(paid))),
                *(f"{epsilon_of(plan.cost, BUDGET.delta):.3f}", *(f"{e:.3f}" for e in quantiles)),
                *(f"{max(p.share for p in paid):.4f}", str(above)),
            ]
        )
        print(" | ".join(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    table = [row for graph_name in sys.argv[1:] or DECLARED for row in measure(graph_name, random=400, hubs=20)]
    with open(RESULT, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([HEAD, *table])
