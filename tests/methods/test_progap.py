"""The method progap-edp: certificates, the noise of its sums, what a stage learns from, attacks on the transcript of fits.

The method progap-ndp: certificates, the noise of its sums, what a stage learns from, attacks on the transcript of fits.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from baseline_support import GRAPH, accuracy, some_edges, verified_certificate, wrong_sums_are_found
from caribou import methods
from caribou.errors import InputError
from caribou.mechanisms.bounded_rows import unit_length
from caribou.mechanisms.neighbour_sums import StagedSums, bounded_adjacency, neighbour_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS
from caribou.methods import progap as progap_module
from caribou.methods.gap import GapNdp
from caribou.methods.mlp import MlpDp, apply_model
from caribou.methods.node_method import messages, side_by_side
from caribou.methods.progap import Progap, ProgapNdp
from caribou.models.classifier import embed, module_from_arrays
from caribou.models.encoder import Encoder
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.events import gaussian_mu
from caribou.privacy.mechanism_records import Group, groups_of
from caribou.privacy.sensitivity import Bounds, sum_sensitivity
from caribou.randomness import Streams

BUDGET = Budget(3.0, 1e-5, "edge")

pytestmark = pytest.mark.usefixtures("kept_encoder")


@pytest.mark.usefixtures("quick_classifier")
@pytest.mark.parametrize("method", [Progap(), Progap(hops=1)])
def test_certificate_verifies_and_a_wrong_figure_is_found(method: Progap, tmp_path: Path) -> None:
    document = verified_certificate(method, BUDGET, tmp_path).to_dict()
    assert 2.98 < document["epsilon_spent"] <= 3.0
    assert [m["name"] for m in document["mechanisms"]] == ["noisy sums over neighbours"], "one record for all K sums"
    wrong_sums_are_found(document)


@pytest.mark.usefixtures("quick_classifier")
def test_every_stage_sums_what_the_stage_before_learned_with_exactly_the_noise_it_should() -> None:
    """Two-sided on the end-to-end release: half the noise, or 7 % off, would be seen, and so would messages of another stage."""
    plan = Progap().plan(GRAPH.sizes(BUDGET.unit), BUDGET)
    calibrated, adjacency = plan.parts["sums"], bounded_adjacency(GRAPH, None, Streams(0).sampling)
    assert calibrated.noise_std == pytest.approx(math.sqrt(2) * math.sqrt(2) / budget_mu(BUDGET), rel=1e-4)
    residuals: dict[int, list[np.ndarray]] = {1: [], 2: []}
    for seed in range(3):
        fitted = Progap().fit(plan, GRAPH, Streams(0), NoiseSource.seeded(seed))
        first = module_from_arrays(
            {k.removeprefix("stage_1."): v for k, v in fitted.weights.items() if k.startswith("stage_1.")}
        )
        sent = {
            1: Encoder.from_arrays(fitted.weights).embeddings(GRAPH.features),
            2: unit_length(embed(first, unit_length(fitted.released["sums_1"]))),
        }
        for stage, rows in sent.items():
            exact = neighbour_sums(adjacency, rows, calibrated)
            residuals[stage].append((fitted.released[f"sums_{stage}"] - exact).ravel() / calibrated.noise_std)
    drawn = [np.concatenate(r) for r in residuals.values()]
    for r in drawn:
        assert abs(r.mean()) < 5 / math.sqrt(r.size)
        assert abs(r.std() - 1) < 5 / math.sqrt(2 * r.size) < 0.07
    assert abs(np.corrcoef(*drawn)[0, 1]) < 5 / math.sqrt(drawn[0].size), "noise of one stage was used in another"


@pytest.mark.usefixtures("quick_encoder", "quick_classifier")
@pytest.mark.parametrize("hops", [1, 3])
def test_no_edge_moves_the_transcript_by_more_than_mu(hops: int, transcript_mu) -> None:
    found = transcript_mu(Progap(hops=hops), GRAPH, some_edges(GRAPH, 12), BUDGET)
    assert max(found) <= budget_mu(BUDGET) * (1 + 1e-9)
    # every edge carries two messages of length 1 in every stage: the bound is not loose for any of them
    assert min(found) >= 0.999 * budget_mu(BUDGET)


class SummedAgain(StagedSums):
    """A fault: from the second stage on, sums are summed over the private edges once more before they get their noise."""

    def release(self, messages: np.ndarray) -> np.ndarray:
        if self.left == self._calibrated.hops:
            return super().release(messages)
        self.left -= 1
        twice = self._adjacency @ neighbour_sums(self._adjacency, messages, self._calibrated)
        return self._noise.add_gaussian(twice, std=self._calibrated.noise_std)


@pytest.mark.usefixtures("quick_encoder", "quick_classifier")
def test_a_sum_that_is_made_again_without_noise_is_rejected(transcript_mu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progap_module, "StagedSums", SummedAgain)
    found = transcript_mu(Progap(), GRAPH, some_edges(GRAPH, 6), BUDGET)
    assert min(found) > 2 * budget_mu(BUDGET)


@pytest.mark.usefixtures("quick_encoder", "quick_classifier")
def test_a_stage_that_learns_from_sums_without_noise_is_rejected(
    transcript_mu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The released sums have their noise, but the next stage sends what was learned from the exact ones."""
    kept: list[np.ndarray] = []

    class Kept(StagedSums):
        def release(self, messages: np.ndarray) -> np.ndarray:
            kept.append(neighbour_sums(self._adjacency, messages, self._calibrated))
            return super().release(messages)

    monkeypatch.setattr(progap_module, "StagedSums", Kept)
    monkeypatch.setattr(progap_module, "embed", lambda module, last: embed(module, unit_length(kept[-1])))
    found = transcript_mu(Progap(), GRAPH, some_edges(GRAPH, 6), BUDGET)
    assert max(found) > 1.02 * budget_mu(BUDGET)


@pytest.mark.usefixtures("quick_encoder", "quick_classifier")
def test_one_more_stage_than_the_noise_is_for_is_refused() -> None:
    plan = Progap(hops=2).plan(GRAPH.sizes(BUDGET.unit), BUDGET)
    with pytest.raises(InputError, match="summed 2 times at most"):
        Progap(hops=3).fit(plan, GRAPH, Streams(0), NoiseSource.seeded(0))


def test_without_noise_it_is_labelled_and_good() -> None:
    infinite = Budget(math.inf, 1e-5, "edge")
    fits = [methods.fit(Progap(), GRAPH, infinite, Streams(0), NoiseSource.secure()) for _ in range(2)]
    assert fits[0].certificate.status == "no privacy"
    assert np.array_equal(fits[0].probabilities, fits[1].probabilities)
    assert accuracy(fits[0].probabilities) > 0.65


def test_names_and_errors() -> None:
    assert {"progap-edp", "progap-inf"} <= METHODS.keys()
    with pytest.raises(InputError, match="epsilon must be inf"):
        METHODS["progap-inf"].check("progap-inf", BUDGET)
    with pytest.raises(InputError, match="unit must be edge"):
        methods.fit(Progap(), GRAPH, Budget(1.0, 1e-5, "node"), Streams(0), NoiseSource.secure())
    with pytest.raises(InputError, match="labels and a split"):
        methods.fit(Progap(), GRAPH.with_split(None), BUDGET, Streams(0), NoiseSource.secure())
    for bad in ({"hops": 0}, {"hidden": 3}):
        with pytest.raises(InputError, match=next(iter(bad))):
            Progap(**bad)


NODE_BUDGET = Budget(3.0, 1e-5, "node")


CUT = ProgapNdp(hops=3, degree_cap=5, radius=1.5)


both = pytest.mark.parametrize("method", [ProgapNdp(), CUT])


@both
def test_certificate_verifies_and_a_wrong_figure_is_found_at_node_level(method: ProgapNdp, tmp_path: Path) -> None:
    document = verified_certificate(method, NODE_BUDGET, tmp_path).to_dict()
    assert 2.98 < document["epsilon_spent"] <= 3.0
    heads = [m["name"] for m in document["mechanisms"] if "head" in m["name"]]
    assert heads == [f"training of the head of stage {s + 1}" for s in range(method.hops)]
    sums = next(m for m in document["mechanisms"] if m["name"] == "noisy sums over neighbours")
    assert sums["details"]["hops"] == method.hops, "one record for all K sums"
    if method.hops != 3:
        wrong_sums_are_found(document)


@both
def test_everything_composes_to_mu_of_the_budget_for_a_training_node(method: ProgapNdp) -> None:
    plan, mu = method.plan(GRAPH.sizes(NODE_BUDGET.unit), NODE_BUDGET), budget_mu(NODE_BUDGET)
    paid = {group: gaussian_mu(events) for group, events in groups_of(plan.mechanisms).items()}
    assert (1 - 1e-9) * mu <= paid[Group.TRAINING] <= mu
    for group in (Group.VALIDATION, Group.OTHERS):
        assert paid[group] == pytest.approx(math.sqrt(method.sums_share) * mu, rel=1e-9)


@both
def test_every_stage_sums_what_the_stage_before_learned_with_exactly_the_noise_it_should_at_node_level(
    method: ProgapNdp,
) -> None:
    """Two-sided on the end-to-end release: half the noise, or 7 % off, would be seen, and so would messages of another stage."""
    cap = method.degree_cap
    bounds = Bounds(degree_cap=cap, nodes=300, declared_degree=100 if cap is None else None)
    plan = method.plan(GRAPH.sizes(NODE_BUDGET.unit), NODE_BUDGET)
    calibrated, bound = plan.parts["sums"], sum_sensitivity("node", bounds=bounds, radius=method.radius or 10.0)
    mu = math.sqrt(method.sums_share) * budget_mu(NODE_BUDGET)
    assert calibrated.noise_std == pytest.approx(bound.value * math.sqrt(method.hops) / mu, rel=1e-4)
    adjacency = bounded_adjacency(GRAPH, cap, Streams(0).sampling)
    residuals: list[list[np.ndarray]] = [[] for _ in range(method.hops)]
    for seed in range(3):
        fitted = method.fit(plan, GRAPH, Streams(0), NoiseSource.seeded(seed))
        sent = [messages(apply_model(fitted.weights, GRAPH))]
        for stage in range(1, method.hops + 1):
            sums = fitted.released[f"sums_{stage}"]
            exact = neighbour_sums(adjacency, sent[-1], calibrated)
            residuals[stage - 1].append((sums - exact).ravel() / calibrated.noise_std)
            sent.append(messages(side_by_side([*sent, sums]) @ fitted.weights[f"head_{stage}"]))
    drawn = [np.concatenate(r) for r in residuals]
    for r in drawn:
        assert abs(r.mean()) < 5 / math.sqrt(r.size)
        assert abs(r.std() - 1) < 5 / math.sqrt(2 * r.size) < 0.07
    assert abs(np.corrcoef(*drawn[:2])[0, 1]) < 5 / math.sqrt(drawn[0].size), "noise of one stage was used in another"


def test_one_stage_is_gap() -> None:
    """The same sums under the same noise; training differs in the name of its stream alone."""
    fits = []
    for method in (ProgapNdp(hops=1), GapNdp(hops=1)):
        plan = method.plan(GRAPH.sizes(NODE_BUDGET.unit), NODE_BUDGET)
        fits.append(method.fit(plan, GRAPH, Streams(0), NoiseSource.seeded(0)))
    assert np.array_equal(fits[0].released["sums_1"], fits[1].released["sums_1"])
    assert fits[0].weights["head_1"].shape == fits[1].weights["classifier"].shape


def leaving() -> list[int]:
    """The nodes of the largest degrees, and some of every group."""
    order = np.argsort(GRAPH.degrees)
    nodes = [*order[-4:], *GRAPH.split.train[:4], *GRAPH.split.test[:2], *GRAPH.split.val[:2]]
    return [int(v) for v in nodes]


@pytest.mark.parametrize(
    "method", [ProgapNdp(declared_degree=40), ProgapNdp(hops=3, declared_degree=40, radius=3.0), CUT]
)
def test_no_node_moves_the_transcript_by_more_than_mu(method: ProgapNdp, transcript_mu) -> None:
    """Every degree is within the declared one, or pays by the curve where degrees are cut; nodes of every group."""
    assert GRAPH.degrees.max() <= 40
    nodes = leaving() if method is not CUT else [int(v) for v in np.flatnonzero(GRAPH.degrees <= 5)[:8]]
    found = transcript_mu(method, GRAPH, [GRAPH.without_node(v) for v in nodes], NODE_BUDGET)
    assert max(found) <= budget_mu(NODE_BUDGET) * (1 + 1e-9)
    assert max(found) > 0.05 * budget_mu(NODE_BUDGET)


def test_a_sum_that_is_made_again_without_noise_is_rejected_at_node_level(
    transcript_mu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes outside training pay the sums alone: what they move is compared with the curve of these."""
    method = ProgapNdp(declared_degree=8, sums_share=0.8)
    plan = method.plan(GRAPH.sizes(NODE_BUDGET.unit), NODE_BUDGET)
    others = np.setdiff1d(np.arange(GRAPH.num_nodes), GRAPH.split.train)
    nodes = [int(v) for v in others[np.argsort(GRAPH.degrees[others])][:6]]
    promised = [gaussian_mu([plan.parts["sums"].event_at(int(GRAPH.degrees[v]))]) for v in nodes]
    worlds = [GRAPH.without_node(v) for v in nodes]
    sound = transcript_mu(method, GRAPH, worlds, NODE_BUDGET)
    assert all(moved <= claim * (1 + 1e-9) for moved, claim in zip(sound, promised, strict=True))
    monkeypatch.setattr(progap_module, "StagedSums", SummedAgain)
    faulty = transcript_mu(method, GRAPH, worlds, NODE_BUDGET)
    assert max(moved / claim for moved, claim in zip(faulty, promised, strict=True)) > 2


def test_one_more_stage_than_the_noise_is_for_is_refused_at_node_level() -> None:
    plan = ProgapNdp(hops=2).plan(GRAPH.sizes(NODE_BUDGET.unit), NODE_BUDGET)
    with pytest.raises(InputError, match="summed 2 times at most"):
        ProgapNdp(hops=3).fit(plan, GRAPH, Streams(0), NoiseSource.seeded(0))


@both
def test_without_noise_it_is_labelled_and_good_at_node_level(method: ProgapNdp) -> None:
    infinite = Budget(math.inf, 1e-5, "node")
    fits = [methods.fit(method, GRAPH, infinite, Streams(0), NoiseSource.secure()) for _ in range(2)]
    assert fits[0].certificate.status == "no privacy"
    assert np.array_equal(fits[0].probabilities, fits[1].probabilities)
    assert accuracy(fits[0].probabilities) > 0.65


def test_names_and_errors_at_node_level() -> None:
    assert "progap-ndp" in METHODS
    with pytest.raises(InputError, match="must be node"):
        methods.fit(ProgapNdp(), GRAPH, Budget(1.0, 1e-5, "edge"), Streams(0), NoiseSource.secure())
    with pytest.raises(InputError, match="labels and a split"):
        methods.fit(ProgapNdp(), GRAPH.with_split(None), NODE_BUDGET, Streams(0), NoiseSource.secure())
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
            ProgapNdp(**bad)
    assert ProgapNdp(base={"clip": 0.2}) == ProgapNdp(base=MlpDp(clip=0.2))
