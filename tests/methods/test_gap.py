"""GAP at edge and at node level: contract, certificates, and attacks on the transcript of whole fits."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

import caribou as cb
from caribou import methods
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.neighbour_sums import bounded_adjacency, neighbour_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS
from caribou.methods.edge import gap as module
from caribou.methods.edge.gap import Gap
from caribou.methods.node.gap import GapNdp
from caribou.methods.node.mlp import MlpDp, apply_model
from caribou.methods.node.shared import messages
from caribou.models import encoder
from caribou.models.encoder import Encoder, Prior, cross_fit
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu, calibrate_sums
from caribou.privacy.certificate import Certificate
from caribou.privacy.sensitivity import sum_sensitivity
from caribou.privacy.verify import verify
from caribou.randomness import Streams

GRAPH = cb.datasets.load(
    "csbm", nodes=300, classes=3, average_degree=8.0, homophily=0.85, signal=1.0, features=6, seed=3
)
EDGE, NODE = {"delta": 1e-5, "unit": "edge"}, {"delta": 1e-5, "unit": "node"}
CASES = [(Gap(), EDGE), (Gap(hops=2), EDGE), (GapNdp(), NODE), (GapNdp(hops=2, degree_cap=5, radius=1.5), NODE)]
CACHE: dict[tuple, Prior] = {}


@pytest.fixture(autouse=True)
def one_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The public encoder: fit it once per graph, seed, widths and way to fit (which `quick_encoder` changes)."""

    def cached(graph: Graph, streams: Streams, hidden: tuple[int, ...]) -> Prior:
        key = (b"".join(graph.content()), streams.seed, hidden, encoder.configurations(graph))
        if key not in CACHE:
            CACHE[key] = cross_fit(graph, streams, hidden)
        return CACHE[key]

    monkeypatch.setattr(module, "cross_fit", cached)


def accuracy(probabilities: np.ndarray, graph: Graph = GRAPH) -> float:
    test = graph.split.test
    return float(np.mean(probabilities[test].argmax(axis=1) == graph.labels[test]))


def graph_bytes(graph: Graph) -> list[bytes]:
    arrays = (graph.features, graph.indptr, graph.indices, graph.labels, graph.split.train)
    return [np.asarray(a).tobytes() for a in arrays]


@pytest.mark.parametrize(("method", "kind"), CASES)
def test_contract(method: Gap | GapNdp, kind: dict) -> None:
    before = graph_bytes(GRAPH)
    budget = Budget(3.0, **kind)
    one, same, other = (methods.fit(method, GRAPH, budget, Streams(0), NoiseSource.seeded(s)) for s in (5, 5, 6))
    assert one.probabilities.shape == (300, 3)
    assert np.allclose(one.probabilities.sum(axis=1), 1)
    assert np.array_equal(one.probabilities, same.probabilities)
    assert not np.array_equal(one.released["sums_1"], other.released["sums_1"])
    assert graph_bytes(GRAPH) == before
    assert 2.98 < one.certificate.epsilon_spent <= 3.0
    assert one.certificate.status == "void"  # a fixed noise seed
    assert epsilon_of(method.plan(GRAPH.sizes(budget.unit), budget).cost, 1e-5) == pytest.approx(
        one.certificate.epsilon_spent, rel=1e-6
    )
    again = method.predict(one.weights, one.released, GRAPH)
    assert np.allclose(again, one.probabilities)
    json.dumps(dict(method.settings()), allow_nan=False)
    assert type(method)(**method.settings()) == method


@pytest.mark.parametrize(("method", "kind"), CASES)
def test_certificate_verifies_and_a_wrong_figure_is_found(method: Gap | GapNdp, kind: dict, tmp_path: Path) -> None:
    certificate = methods.fit(method, GRAPH, Budget(3.0, **kind), Streams(0), NoiseSource.secure()).certificate
    certificate.save(tmp_path / "c.json")
    loaded = Certificate.load(tmp_path / "c.json")
    assert loaded.status == ("private in scope" if kind is NODE else "private")
    assert [c for c in verify(loaded).checks if not c.passed] == []
    assert ("truncation" in {a.name.value for a in loaded.assumptions}) == (kind is NODE)
    document = json.loads((tmp_path / "c.json").read_text())
    sums = next(m for m in document["mechanisms"] if m["name"] == "noisy sums over neighbours")
    assert "Theorem" in sums["theorem"]
    for change in ({"noise_std": sums["details"]["noise_std"] / 2}, {"hops": 3}):
        original = dict(sums["details"])
        sums["details"].update(change)
        assert not verify(Certificate.from_dict(document)).passed, change
        sums["details"].update(original)
    sums["details"]["sensitivity"]["value"] = 1.0  # a directed entry, or a forgotten own row
    assert not verify(Certificate.from_dict(document)).passed


@pytest.mark.parametrize(("method", "kind"), CASES)
def test_the_released_sums_carry_exactly_the_noise_they_should(method: Gap | GapNdp, kind: dict) -> None:
    """Two-sided on the end-to-end release: half the noise, or 7 % off, would be seen."""
    budget = Budget(3.0, **kind)
    residuals = []
    for seed in range(3):
        fitted = methods.fit(method, GRAPH, budget, Streams(0), NoiseSource.seeded(seed))
        details = next(m for m in fitted.certificate.mechanisms if "sums" in m.name).details
        if isinstance(method, Gap):
            start, share, cap = Encoder.from_arrays(fitted.weights).embeddings(GRAPH.features), 1.0, None
            bound = sum_sensitivity("edge")
        else:
            start, share, cap = messages(apply_model(fitted.weights, GRAPH)), method.sums_share, method.degree_cap
            bound = sum_sensitivity("node", degree_cap=cap, radius=method.radius or math.sqrt(cap))
        mu, hops = math.sqrt(share) * budget_mu(budget), details["hops"]
        calibrated = calibrate_sums(bound, hops=hops, mu=mu, nodes=300, columns=start.shape[1])
        assert calibrated.noise_std == pytest.approx(bound.value * math.sqrt(hops) / mu, rel=1e-4)
        adjacency = bounded_adjacency(GRAPH, cap, Streams(0).sampling)
        exact = neighbour_sums(adjacency, start, calibrated)
        residuals.append((fitted.released["sums_1"] - exact).ravel() / calibrated.noise_std)
    r = np.concatenate(residuals)
    assert abs(r.mean()) < 5 / math.sqrt(r.size)
    assert abs(r.std() - 1) < 5 / math.sqrt(2 * r.size) < 0.07


def some_edges(graph: Graph, count: int) -> list[Graph]:
    pairs = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].T
    return [graph.without_edge(int(u), int(v)) for u, v in pairs[:: max(1, len(pairs) // count)]]


@pytest.mark.usefixtures("quick_encoder")
@pytest.mark.parametrize("hops", [1, 3])
def test_no_edge_moves_the_transcript_by_more_than_mu(hops: int, transcript_mu) -> None:
    budget = Budget(3.0, **EDGE)
    found = transcript_mu(Gap(hops=hops), GRAPH, some_edges(GRAPH, 12), budget)
    assert max(found) <= budget_mu(budget) * (1 + 1e-9)
    # every edge carries two messages of length 1 at every hop: the bound is not loose for any of them
    assert min(found) >= 0.999 * budget_mu(budget)


@pytest.mark.parametrize("method", [GapNdp(degree_cap=40), GapNdp(hops=2, degree_cap=40, radius=3.0)])
def test_no_node_moves_the_transcript_by_more_than_mu(method: GapNdp, transcript_mu) -> None:
    """With a cap above every degree, and nodes of every group."""
    assert GRAPH.degrees.max() <= method.degree_cap
    budget = Budget(3.0, **NODE)
    order = np.argsort(GRAPH.degrees)
    nodes = [*order[-4:], *GRAPH.split.train[:4], *GRAPH.split.test[:2], *GRAPH.split.val[:2]]
    found = transcript_mu(method, GRAPH, [GRAPH.without_node(int(v)) for v in nodes], budget)
    assert max(found) <= budget_mu(budget) * (1 + 1e-9)
    assert max(found) > 0.05 * budget_mu(budget)


def test_the_public_seed_leaves_the_noise_as_it_is() -> None:
    budget = Budget(3.0, **EDGE)
    drawn = []
    for seed in (0, 1):
        fitted = methods.fit(Gap(hops=1), GRAPH, budget, Streams(seed), NoiseSource.seeded(0))
        start = Encoder.from_arrays(fitted.weights).embeddings(GRAPH.features)
        c = calibrate_sums(sum_sensitivity("edge"), hops=1, mu=budget_mu(budget), nodes=300, columns=start.shape[1])
        exact = neighbour_sums(bounded_adjacency(GRAPH, None, Streams(0).sampling), start, c)
        drawn.append(fitted.released["sums_1"] - exact)
    assert np.array_equal(*drawn)


@pytest.mark.parametrize(("method", "kind"), CASES)
def test_another_graph_is_predicted_with_a_release_about_it(method: Gap | GapNdp, kind: dict) -> None:
    budget = Budget(8.0, **kind)
    fitted = methods.fit(method, GRAPH, budget, Streams(0), NoiseSource.seeded(0))
    other = cb.datasets.load(
        "csbm", nodes=200, classes=3, average_degree=8.0, homophily=0.85, signal=1.0, features=6, seed=4
    )
    released = methods.predict_graph(method, fitted.weights, other, budget, Streams(1), NoiseSource.secure())
    assert released.probabilities.shape == (200, 3)
    assert verify(released.certificate).passed
    cost = method.plan_graph(other.sizes(budget.unit), budget, fitted.weights).cost
    assert epsilon_of(cost, 1e-5) == pytest.approx(released.certificate.epsilon_spent, rel=1e-6)
    assert np.allclose(method.predict(released.weights, released.released, other), released.probabilities)


@pytest.mark.parametrize(("method", "kind"), CASES)
def test_without_noise_it_is_labelled_and_good(method: Gap | GapNdp, kind: dict) -> None:
    fits = [methods.fit(method, GRAPH, Budget(math.inf, **kind), Streams(0), NoiseSource.secure()) for _ in range(2)]
    assert fits[0].certificate.status == "no privacy"
    assert np.array_equal(fits[0].probabilities, fits[1].probabilities)
    assert accuracy(fits[0].probabilities) > 0.65


def test_names_and_errors() -> None:
    assert {"gap-edp", "gap-inf", "gap-ndp"} <= METHODS.keys()
    with pytest.raises(InputError, match="epsilon must be inf"):
        METHODS["gap-inf"].check("gap-inf", Budget(1.0, **EDGE))
    with pytest.raises(InputError, match="unit must be edge"):
        methods.fit(Gap(), GRAPH, Budget(1.0, **NODE), Streams(0), NoiseSource.secure())
    with pytest.raises(InputError, match="must be node"):
        methods.fit(GapNdp(), GRAPH, Budget(1.0, **EDGE), Streams(0), NoiseSource.secure())
    for method, kind in CASES:
        with pytest.raises(InputError, match="labels and a split"):
            methods.fit(method, GRAPH.with_split(None), Budget(1.0, **kind), Streams(0), NoiseSource.secure())
    for bad in ({"hops": 0}, {"hidden": 3}, {"classifier_hidden": 0}):
        with pytest.raises(InputError, match=next(iter(bad))):
            Gap(**bad)
    for bad in (
        {"hops": 0},
        {"degree_cap": 0},
        {"radius": 0.5},
        {"sums_share": 1.0},
        {"classifier_share": 0.95},
        {"base": MlpDp(choose_shrinkage=True)},
    ):
        with pytest.raises(InputError, match="shrinkage" if "base" in bad else next(iter(bad))):
            GapNdp(**bad)
    assert GapNdp(base={"clip": 0.2}) == GapNdp(base=MlpDp(clip=0.2))


@pytest.mark.slow
@pytest.mark.skipif("CARIBOU_DATA" not in os.environ, reason="needs the folder of data set files: set CARIBOU_DATA")
def test_floors_on_cora() -> None:
    """Generous floors; docs/methods/gap.md has the measured figures."""
    graph = cb.datasets.load("cora", seed=0)
    for epsilon, floor in ((1.0, 0.74), (4.0, 0.77), (16.0, 0.82), (math.inf, 0.85)):
        fitted = methods.fit(Gap(), graph, Budget(epsilon, **EDGE), Streams(0), NoiseSource.secure())
        assert accuracy(fitted.probabilities, graph) >= floor
