"""The method gap-edp: certificates, the noise of its sums, and attacks on the transcript of whole fits.

The method gap-ndp: certificates, the noise of its sums, and attacks on the transcript of whole fits.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from baseline_support import GRAPH, accuracy, some_edges, verified_certificate, wrong_sums_are_found
from caribou import methods
from caribou.errors import InputError
from caribou.mechanisms.neighbour_sums import bounded_adjacency, neighbour_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS
from caribou.methods.gap import Gap, GapNdp
from caribou.methods.mlp import MlpDp, apply_model
from caribou.methods.node_method import messages
from caribou.models.encoder import Encoder
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu, calibrate_sums
from caribou.privacy.sensitivity import Bounds, sum_sensitivity
from caribou.randomness import Streams

EDGE = {"delta": 1e-5, "unit": "edge"}

pytestmark = pytest.mark.usefixtures("kept_encoder")


@pytest.mark.usefixtures("quick_classifier")
@pytest.mark.parametrize("method", [Gap(), Gap(hops=2)])
def test_certificate_verifies_and_a_wrong_figure_is_found(method: Gap, tmp_path: Path) -> None:
    document = verified_certificate(method, Budget(3.0, **EDGE), tmp_path).to_dict()
    assert 2.98 < document["epsilon_spent"] <= 3.0
    wrong_sums_are_found(document)


@pytest.mark.usefixtures("quick_classifier")
@pytest.mark.parametrize("method", [Gap(), Gap(hops=2)])
def test_the_released_sums_carry_exactly_the_noise_they_should(method: Gap) -> None:
    """Two-sided on the end-to-end release: half the noise, or 7 % off, would be seen."""
    budget = Budget(3.0, **EDGE)
    plan = method.plan(GRAPH.sizes(budget.unit), budget)
    residuals = []
    for seed in range(3):
        fitted = method.fit(plan, GRAPH, Streams(0), NoiseSource.seeded(seed))
        start = Encoder.from_arrays(fitted.weights).embeddings(GRAPH.features)
        bound, mu = sum_sensitivity("edge"), budget_mu(budget)
        hops = next(m for m in plan.mechanisms if "sums" in m.name).details["hops"]
        calibrated = calibrate_sums(bound, hops=hops, mu=mu, nodes=300, columns=start.shape[1])
        assert calibrated.noise_std == pytest.approx(bound.value * math.sqrt(hops) / mu, rel=1e-4)
        exact = neighbour_sums(bounded_adjacency(GRAPH, None, Streams(0).sampling), start, calibrated)
        residuals.append((fitted.released["sums_1"] - exact).ravel() / calibrated.noise_std)
    r = np.concatenate(residuals)
    assert abs(r.mean()) < 5 / math.sqrt(r.size)
    assert abs(r.std() - 1) < 5 / math.sqrt(2 * r.size) < 0.07


@pytest.mark.usefixtures("quick_encoder", "quick_classifier")
@pytest.mark.parametrize("hops", [1, 3])
def test_no_edge_moves_the_transcript_by_more_than_mu(hops: int, transcript_mu) -> None:
    budget = Budget(3.0, **EDGE)
    found = transcript_mu(Gap(hops=hops), GRAPH, some_edges(GRAPH, 12), budget)
    assert max(found) <= budget_mu(budget) * (1 + 1e-9)
    # every edge carries two messages of length 1 at every hop: the bound is not loose for any of them
    assert min(found) >= 0.999 * budget_mu(budget)


@pytest.mark.usefixtures("quick_encoder")
def test_the_public_seed_leaves_the_noise_as_it_is() -> None:
    budget = Budget(3.0, **EDGE)
    plan = Gap(hops=1).plan(GRAPH.sizes(budget.unit), budget)
    drawn = []
    for seed in (0, 1):
        fitted = Gap(hops=1).fit(plan, GRAPH, Streams(seed), NoiseSource.seeded(0))
        start = Encoder.from_arrays(fitted.weights).embeddings(GRAPH.features)
        c = calibrate_sums(sum_sensitivity("edge"), hops=1, mu=budget_mu(budget), nodes=300, columns=start.shape[1])
        exact = neighbour_sums(bounded_adjacency(GRAPH, None, Streams(0).sampling), start, c)
        drawn.append(fitted.released["sums_1"] - exact)
    assert np.array_equal(*drawn)


@pytest.mark.parametrize("method", [Gap(), Gap(hops=2)])
def test_without_noise_it_is_labelled_and_good(method: Gap) -> None:
    fits = [methods.fit(method, GRAPH, Budget(math.inf, **EDGE), Streams(0), NoiseSource.secure()) for _ in range(2)]
    assert fits[0].certificate.status == "no privacy"
    assert np.array_equal(fits[0].probabilities, fits[1].probabilities)
    assert accuracy(fits[0].probabilities) > 0.65


def test_names_and_errors() -> None:
    assert {"gap-edp", "gap-inf"} <= METHODS.keys()
    with pytest.raises(InputError, match="epsilon must be inf"):
        METHODS["gap-inf"].check("gap-inf", Budget(1.0, **EDGE))
    with pytest.raises(InputError, match="unit must be edge"):
        methods.fit(Gap(), GRAPH, Budget(1.0, 1e-5, "node"), Streams(0), NoiseSource.secure())
    for method in (Gap(), Gap(hops=2)):
        with pytest.raises(InputError, match="labels and a split"):
            methods.fit(method, GRAPH.with_split(None), Budget(1.0, **EDGE), Streams(0), NoiseSource.secure())
    for bad in ({"hops": 0}, {"hidden": 3}, {"classifier_hidden": 0}):
        with pytest.raises(InputError, match=next(iter(bad))):
            Gap(**bad)


NODE = {"delta": 1e-5, "unit": "node"}


both = pytest.mark.parametrize("method", [GapNdp(), GapNdp(hops=2, degree_cap=5, radius=1.5)])


@both
def test_certificate_verifies_and_a_wrong_figure_is_found_at_node_level(method: GapNdp, tmp_path: Path) -> None:
    document = verified_certificate(method, Budget(3.0, **NODE), tmp_path).to_dict()
    assert 2.98 < document["epsilon_spent"] <= 3.0
    wrong_sums_are_found(document)


@both
def test_the_released_sums_carry_exactly_the_noise_they_should_at_node_level(method: GapNdp) -> None:
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
def test_without_noise_it_is_labelled_and_good_at_node_level(method: GapNdp) -> None:
    fits = [methods.fit(method, GRAPH, Budget(math.inf, **NODE), Streams(0), NoiseSource.secure()) for _ in range(2)]
    assert fits[0].certificate.status == "no privacy"
    assert np.array_equal(fits[0].probabilities, fits[1].probabilities)
    assert accuracy(fits[0].probabilities) > 0.65


def test_names_and_errors_at_node_level() -> None:
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
