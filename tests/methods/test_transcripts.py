"""Whole fits of gap, progap and dpdgc: what one edge or one node moves in their transcript, and the noise of their sums.

One transcript is replayed on a neighbour (`transcript_mu`). Graphs that are bad at node level are in test_by_degree.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from baseline_support import GRAPH, some_edges
from caribou.errors import InputError
from caribou.mechanisms.bounded_rows import unit_length
from caribou.mechanisms.neighbour_sums import bounded_adjacency, neighbour_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Outputs
from caribou.methods.dpdgc import Dpdgc, DpdgcNdp
from caribou.methods.gap import Gap, GapNdp
from caribou.methods.mlp import applied
from caribou.methods.node_method import messages, side_by_side
from caribou.methods.progap import Progap, ProgapNdp
from caribou.models.classifier import embed, module_from_arrays
from caribou.models.encoder import Encoder
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.sensitivity import Bounds, sum_sensitivity
from caribou.randomness import Streams

EDGE, NODE = Budget(8.0, 1e-5, "edge"), Budget(8.0, 1e-5, "node")

pytestmark = pytest.mark.usefixtures("kept_encoder")


@pytest.mark.usefixtures("quick_encoder", "quick_classifier")
@pytest.mark.parametrize(
    ("method", "least"),
    # every edge carries two messages of length 1 in every hop or stage: the bound of sums is not loose for any of them
    [(Gap(hops=1), 0.999), (Gap(hops=3), 0.999), (Progap(hops=1), 0.999), (Progap(hops=3), 0.999), (Dpdgc(), 0.0)],
)
def test_no_edge_moves_the_transcript_by_more_than_mu(method: Any, least: float, transcript_mu) -> None:
    found = transcript_mu(method, GRAPH, some_edges(GRAPH, 12), EDGE)
    assert max(found) <= budget_mu(EDGE) * (1 + 1e-9)
    assert min(found) >= least * budget_mu(EDGE)
    assert max(found) >= 0.5 * budget_mu(EDGE)


@pytest.mark.parametrize(
    "method",
    [
        GapNdp(declared_degree=40),
        GapNdp(hops=2, declared_degree=40, radius=3.0),
        GapNdp(degree_cap=40),
        ProgapNdp(declared_degree=40),
        ProgapNdp(hops=3, declared_degree=40, radius=3.0),
        ProgapNdp(hops=3, degree_cap=5, radius=1.5),
        DpdgcNdp(declared_degree=40),
        DpdgcNdp(degree_cap=40),
    ],
    ids=str,
)
def test_no_node_moves_the_transcript_by_more_than_mu(method: Any, transcript_mu) -> None:
    """Every degree is within the declared one; nodes of every group."""
    assert GRAPH.degrees.max() <= 40
    order, split = np.argsort(GRAPH.degrees), GRAPH.split
    nodes = [*order[-4:], *split.train[:4], *split.test[:2], *split.val[:2]]
    if method.degree_cap == 5:
        nodes = list(np.flatnonzero(GRAPH.degrees <= 5)[:8])
    found = transcript_mu(method, GRAPH, [GRAPH.without_node(int(v)) for v in nodes], NODE)
    assert max(found) <= budget_mu(NODE) * (1 + 1e-9)
    assert max(found) > 0.05 * budget_mu(NODE)


# -- what was sent, from what was released -------------------------------------------------------------------------


def embeddings(fitted: Outputs, _: Any) -> Mapping[str, np.ndarray]:
    return {"sums_1": Encoder.from_arrays(fitted.weights).embeddings(GRAPH.features)}


def learned_embeddings(fitted: Outputs, _: Any) -> Mapping[str, np.ndarray]:
    stage = {k.removeprefix("stage_1."): v for k, v in fitted.weights.items() if k.startswith("stage_1.")}
    learned = embed(module_from_arrays(stage), unit_length(fitted.released["sums_1"]))
    return {**embeddings(fitted, _), "sums_2": unit_length(learned)}


def private_logits(fitted: Outputs, _: Any) -> Mapping[str, np.ndarray]:
    return {"sums_1": messages(applied(fitted.weights, GRAPH).logits())}


def logits_of_stages(fitted: Outputs, method: ProgapNdp) -> Mapping[str, np.ndarray]:
    sent = [messages(applied(fitted.weights, GRAPH).logits())]
    for stage in range(1, method.hops):
        rows = side_by_side([*sent, fitted.released[f"sums_{stage}"]])
        sent.append(messages(rows @ fitted.weights[f"head_{stage}"]))
    return {f"sums_{stage}": rows for stage, rows in enumerate(sent, start=1)}


def structure(fitted: Outputs, _: Any) -> Mapping[str, np.ndarray]:
    weights = fitted.released["structure"]
    assert weights.shape == (300, 3)
    assert np.linalg.norm(weights, axis=1).max() <= 1 + 1e-12
    return {"product": weights}


@pytest.mark.usefixtures("quick_classifier")
@pytest.mark.parametrize(
    ("method", "sent", "hops", "share"),
    [
        (Gap(), embeddings, 1, 1.0),
        (Gap(hops=2), embeddings, 2, 1.0),
        (Progap(), learned_embeddings, 2, 1.0),
        (Dpdgc(), structure, 1, 0.5),
        (GapNdp(), private_logits, 1, 0.1),
        (GapNdp(hops=2, degree_cap=5, radius=1.5), private_logits, 2, 0.1),
        (ProgapNdp(), logits_of_stages, 2, 0.1),
        (ProgapNdp(hops=3, degree_cap=5, radius=1.5), logits_of_stages, 3, 0.1),
        (DpdgcNdp(degree_cap=5), structure, 1, 0.05),
    ],
    ids=lambda v: getattr(v, "__name__", str(v)),
)
def test_released_sums_carry_exactly_the_noise_they_should(
    method: Any, sent: Callable[..., Mapping[str, np.ndarray]], hops: int, share: float
) -> None:
    """Two-sided on the end-to-end release: half the noise, or 7 % off, would be seen, and so would messages of another stage."""
    node, cap = method.name.endswith("ndp"), getattr(method, "degree_cap", None)
    budget = NODE if node else EDGE
    bound = sum_sensitivity("edge")
    if node:
        bounds = Bounds(degree_cap=cap, nodes=300, declared_degree=100 if cap is None else None)
        bound = sum_sensitivity("node", bounds=bounds, radius=method.radius or math.sqrt(cap or 100))
    plan = method.plan(GRAPH.sizes(budget.unit), budget)
    calibrated = plan.parts["sums"]
    assert calibrated.noise_std == pytest.approx(
        bound.value * math.sqrt(hops) / (math.sqrt(share) * budget_mu(budget)), rel=1e-4
    )
    adjacency = bounded_adjacency(GRAPH, cap, Streams(0).sampling)
    residuals: dict[str, list[np.ndarray]] = {}
    for seed in range(6 if hops == 1 else 3):
        fitted = method.fit(plan, GRAPH, Streams(0), NoiseSource.seeded(seed))
        for name, rows in sent(fitted, method).items():
            exact = neighbour_sums(adjacency, rows, calibrated)
            residuals.setdefault(name, []).append((fitted.released[name] - exact).ravel() / calibrated.noise_std)
    drawn = [np.concatenate(each) for each in residuals.values()]
    for r in drawn:
        assert abs(r.mean()) < 5 / math.sqrt(r.size)
        assert abs(r.std() - 1) < 5 / math.sqrt(2 * r.size) < 0.07
    for one, two in itertools.pairwise(drawn):
        assert abs(np.corrcoef(one, two)[0, 1]) < 5 / math.sqrt(one.size), "noise of one stage was used in another"


@pytest.mark.usefixtures("quick_encoder", "quick_classifier")
@pytest.mark.parametrize("kind", [Progap, ProgapNdp])
def test_one_more_stage_than_the_noise_is_for_is_refused(kind: Any) -> None:
    budget = EDGE if kind is Progap else NODE
    plan = kind(hops=2).plan(GRAPH.sizes(budget.unit), budget)
    with pytest.raises(InputError, match="summed 2 times at most"):
        kind(hops=3).fit(plan, GRAPH, Streams(0), NoiseSource.seeded(0))
