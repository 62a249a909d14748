"""The method progap-edp: certificates, the noise of its sums, what a stage learns from, attacks on the transcript of fits."""

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
from caribou.methods.edge import progap as progap_module
from caribou.methods.edge.progap import Progap
from caribou.models.classifier import embed, module_from_arrays
from caribou.models.encoder import Encoder
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
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
        for stage, messages in sent.items():
            exact = neighbour_sums(adjacency, messages, calibrated)
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
