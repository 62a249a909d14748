"""The method gap-ndp: certificates, the noise of its sums, and attacks on the transcript of whole fits."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from baseline_support import GRAPH, accuracy, verified_certificate, wrong_sums_are_found
from caribou import methods
from caribou.errors import InputError
from caribou.mechanisms.neighbour_sums import bounded_adjacency, neighbour_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS
from caribou.methods.node.gap import GapNdp
from caribou.methods.node.mlp import MlpDp, apply_model
from caribou.methods.node.shared import messages
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu, calibrate_sums
from caribou.privacy.sensitivity import Bounds, sum_sensitivity
from caribou.randomness import Streams

NODE = {"delta": 1e-5, "unit": "node"}
both = pytest.mark.parametrize("method", [GapNdp(), GapNdp(hops=2, degree_cap=5, radius=1.5)])


@both
def test_certificate_verifies_and_a_wrong_figure_is_found(method: GapNdp, tmp_path: Path) -> None:
    document = verified_certificate(method, Budget(3.0, **NODE), tmp_path).to_dict()
    assert 2.98 < document["epsilon_spent"] <= 3.0
    wrong_sums_are_found(document)


@both
def test_the_released_sums_carry_exactly_the_noise_they_should(method: GapNdp) -> None:
    """Two-sided on the end-to-end release: half the noise, or 7 % off, would be seen."""
    budget, cap = Budget(3.0, **NODE), method.degree_cap
    bounds = Bounds(degree_cap=cap, nodes=300, declared_degree=100 if cap is None else None)
    plan = method.plan(GRAPH.sizes(budget.unit), budget)
    residuals = []
    for seed in range(3):
        fitted = method.fit(plan, GRAPH, Streams(0), NoiseSource.seeded(seed))
        start = messages(apply_model(fitted.weights, GRAPH))
        bound = sum_sensitivity("node", bounds=bounds, radius=method.radius or 10.0)
        mu = math.sqrt(method.sums_share) * budget_mu(budget)
        hops = next(m for m in plan.mechanisms if "sums" in m.name).details["hops"]
        calibrated = calibrate_sums(bound, hops=hops, mu=mu, nodes=300, columns=start.shape[1])
        assert calibrated.noise_std == pytest.approx(bound.value * math.sqrt(hops) / mu, rel=1e-4)
        exact = neighbour_sums(bounded_adjacency(GRAPH, cap, Streams(0).sampling), start, calibrated)
        residuals.append((fitted.released["sums_1"] - exact).ravel() / calibrated.noise_std)
    r = np.concatenate(residuals)
    assert abs(r.mean()) < 5 / math.sqrt(r.size)
    assert abs(r.std() - 1) < 5 / math.sqrt(2 * r.size) < 0.07


@pytest.mark.parametrize(
    "method", [GapNdp(declared_degree=40), GapNdp(hops=2, declared_degree=40, radius=3.0), GapNdp(degree_cap=40)]
)
def test_no_node_moves_the_transcript_by_more_than_mu(method: GapNdp, transcript_mu) -> None:
    """Every degree is within the declared one; nodes of every group."""
    assert GRAPH.degrees.max() <= 40
    budget = Budget(3.0, **NODE)
    order = np.argsort(GRAPH.degrees)
    nodes = [*order[-4:], *GRAPH.split.train[:4], *GRAPH.split.test[:2], *GRAPH.split.val[:2]]
    found = transcript_mu(method, GRAPH, [GRAPH.without_node(int(v)) for v in nodes], budget)
    assert max(found) <= budget_mu(budget) * (1 + 1e-9)
    assert max(found) > 0.05 * budget_mu(budget)


@both
def test_without_noise_it_is_labelled_and_good(method: GapNdp) -> None:
    fits = [methods.fit(method, GRAPH, Budget(math.inf, **NODE), Streams(0), NoiseSource.secure()) for _ in range(2)]
    assert fits[0].certificate.status == "no privacy"
    assert np.array_equal(fits[0].probabilities, fits[1].probabilities)
    assert accuracy(fits[0].probabilities) > 0.65


def test_names_and_errors() -> None:
    assert "gap-ndp" in METHODS
    with pytest.raises(InputError, match="must be node"):
        methods.fit(GapNdp(), GRAPH, Budget(1.0, 1e-5, "edge"), Streams(0), NoiseSource.secure())
    for method in (GapNdp(), GapNdp(hops=2, degree_cap=5, radius=1.5)):
        with pytest.raises(InputError, match="labels and a split"):
            methods.fit(method, GRAPH.with_split(None), Budget(1.0, **NODE), Streams(0), NoiseSource.secure())
    for bad in (
        {"hops": 0},
        {"degree_cap": 0},
        {"declared_degree": 0},
        {"radius": 0.5},
        {"sums_share": 1.0},
        {"classifier_share": 0.95},
        {"base": MlpDp(choose_shrinkage=True)},
    ):
        with pytest.raises(InputError, match="shrinkage" if "base" in bad else next(iter(bad))):
            GapNdp(**bad)
    assert GapNdp(base={"clip": 0.2}) == GapNdp(base=MlpDp(clip=0.2))
