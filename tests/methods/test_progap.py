"""ProGAP at both units: what everything costs together, and faults of its stages. Attacks on sound fits: test_transcripts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from baseline_support import GRAPH, some_edges
from caribou.mechanisms.bounded_rows import unit_length
from caribou.mechanisms.neighbour_sums import StagedSums, neighbour_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import progap as progap_module
from caribou.methods.gap import GapNdp
from caribou.methods.progap import Progap, ProgapNdp
from caribou.models.classifier import embed
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.events import gaussian_mu
from caribou.privacy.mechanism_records import Group, groups_of
from caribou.randomness import Streams

BUDGET = Budget(3.0, 1e-5, "edge")

pytestmark = pytest.mark.usefixtures("kept_encoder")


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


NODE_BUDGET = Budget(3.0, 1e-5, "node")


CUT = ProgapNdp(hops=3, degree_cap=5, radius=1.5)


both = pytest.mark.parametrize("method", [ProgapNdp(), CUT])


@both
def test_everything_composes_to_mu_of_the_budget_for_a_training_node(method: ProgapNdp) -> None:
    plan, mu = method.plan(GRAPH.sizes(NODE_BUDGET.unit), NODE_BUDGET), budget_mu(NODE_BUDGET)
    paid = {group: gaussian_mu(events) for group, events in groups_of(plan.mechanisms).items()}
    assert (1 - 1e-9) * mu <= paid[Group.TRAINING] <= mu
    for group in (Group.VALIDATION, Group.OTHERS):
        assert paid[group] == pytest.approx(math.sqrt(method.sums_share) * mu, rel=1e-9)


def test_one_stage_is_gap() -> None:
    """The same sums under the same noise; training differs in the name of its stream alone."""
    fits = []
    for method in (ProgapNdp(hops=1), GapNdp(hops=1)):
        plan = method.plan(GRAPH.sizes(NODE_BUDGET.unit), NODE_BUDGET)
        fits.append(method.fit(plan, GRAPH, Streams(0), NoiseSource.seeded(0)))
    assert np.array_equal(fits[0].released["sums_1"], fits[1].released["sums_1"])
    assert fits[0].weights["head_1"].shape == fits[1].weights["classifier"].shape


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
