"""The SAGE baselines: contract, certificates, options, and attacks on the node-level bounds."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

import caribou as cb
from caribou import methods
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.randomized_response import perturb
from caribou.methods import METHODS
from caribou.methods.edge.sage import SageEdge
from caribou.methods.node.sage import SageNdp
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.events import NonPrivate
from caribou.privacy.mechanism_records import Mechanism
from caribou.privacy.pair_response import (
    asymmetric_response,
    laplace_threshold_response,
    pair_count,
    split_pair_budget,
)
from caribou.privacy.verify import verify
from caribou.randomness import Streams

GRAPH = cb.datasets.load(
    "csbm", nodes=200, classes=3, average_degree=8.0, homophily=0.9, signal=0.8, features=6, seed=3
)
SPARSE = replace(GRAPH, features=sp.csr_array(np.where(np.asarray(GRAPH.features) > 1.2, 1.0, 0.0)))
QUICK = SageEdge(epochs=25, hidden=16)


def accuracy(probabilities: np.ndarray, graph: Graph = GRAPH) -> float:
    test = graph.split.test
    return float(np.mean(probabilities[test].argmax(axis=1) == graph.labels[test]))


def fit(method, epsilon: float, graph: Graph = GRAPH, seed: int = 1, noise_seed: int = 1):
    unit = "node" if isinstance(method, SageNdp) else "edge"
    return methods.fit(method, graph, cb.Budget(epsilon, 1e-5, unit), Streams(seed), NoiseSource.seeded(noise_seed))


# -- the contract --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [QUICK, SageNdp()])
@pytest.mark.parametrize("graph", [GRAPH, SPARSE])
def test_contract(method, graph: Graph) -> None:
    x = graph.features
    arrays = (x.data if sp.issparse(x) else x, graph.indices, graph.indptr, graph.labels)
    before = [np.asarray(a).tobytes() for a in arrays]
    one, two, three = (fit(method, 4.0, graph, noise_seed=s) for s in (5, 5, 6))
    assert one.probabilities.shape == (200, 3)
    assert np.allclose(one.probabilities.sum(axis=1), 1)
    assert np.array_equal(one.probabilities, two.probabilities)
    assert not np.array_equal(one.probabilities, three.probabilities)
    assert before == [np.asarray(a).tobytes() for a in arrays]
    assert one.certificate.status == "void"
    assert np.array_equal(method.predict(one.weights, one.released, graph), one.probabilities)
    assert json.loads(json.dumps(dict(method.settings()))) == dict(method.settings())


@pytest.mark.parametrize("method", [QUICK, SageNdp()])
def test_certificates_verify_and_the_cost_is_known_before(method) -> None:
    unit = "node" if isinstance(method, SageNdp) else "edge"
    budget = cb.Budget(3.0, 1e-5, unit)
    fitted = methods.fit(method, GRAPH, budget, Streams(0), NoiseSource.secure())
    certificate = fitted.certificate
    assert [c for c in verify(certificate).checks if not c.passed] == []
    assert 2.98 < certificate.epsilon_spent <= 3.0
    assert epsilon_of(method.plan(GRAPH.sizes(budget.unit), budget).cost, 1e-5) == pytest.approx(
        certificate.epsilon_spent, rel=1e-6
    )
    proofs = ("docs/methods/sage.md", "docs/privacy.md")
    theorems = [m.theorem for m in certificate.mechanisms[1:] if m.mechanism is not Mechanism.EXPONENTIAL]
    assert all(any(page in theorem for page in proofs) for theorem in theorems)
    endless = fit(method, math.inf)
    assert endless.certificate.status == "no privacy"
    assert NonPrivate() in [e for m in endless.certificate.mechanisms for paid in m.costs.values() for e in paid]


def test_another_graph_is_predicted_with_a_release_of_its_own() -> None:
    other = cb.datasets.load(
        "csbm", nodes=150, classes=3, average_degree=8.0, homophily=0.9, signal=0.8, features=6, seed=9
    ).with_split(None)
    for method in (QUICK, SageNdp()):
        fitted = fit(method, 8.0)
        unit = "node" if isinstance(method, SageNdp) else "edge"
        budget = cb.Budget(2.0, 1e-5, unit)
        released = methods.predict_graph(method, fitted.weights, other, budget, Streams(0), NoiseSource.secure())
        assert released.probabilities.shape == (150, 3)
        assert verify(released.certificate).passed
        assert epsilon_of(released.certificate.cost, 1e-5) == pytest.approx(
            released.certificate.epsilon_spent, rel=1e-6
        )
        assert np.array_equal(method.predict(fitted.weights, released.released, other), released.probabilities)


def test_edges_help_and_noise_takes_them_away() -> None:
    clear, hidden = fit(QUICK, math.inf), fit(QUICK, 0.1)
    assert accuracy(clear.probabilities) > accuracy(hidden.probabilities) + 0.05
    assert np.array_equal(clear.released["edges"].shape, (2, GRAPH.num_edges))
    assert hidden.released["edges"].shape[1] <= GRAPH.num_edges + 100 * 60


def test_test_labels_are_never_used() -> None:
    labels = np.array(GRAPH.labels)
    labels[GRAPH.split.test] = labels[GRAPH.split.test][::-1]
    other = replace(GRAPH, labels=labels)
    for method in (QUICK, SageNdp()):
        assert np.array_equal(fit(method, 2.0).probabilities, fit(method, 2.0, graph=other).probabilities)


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        *((QUICK, change) for change in (
            {"hidden": 8}, {"layers": 1}, {"aggregator": "sum"}, {"dropout": 0.2}, {"epochs": 10},
            {"count_share": 0.3}, {"max_edges": 50},
        )),
        *((SageNdp(), change) for change in (
            {"degree_cap": 3}, {"own_share": 0.6}, {"mean_share": 0.4}, {"sums_share": 0.4}, {"radius": 0.5},
            {"clip": 0.1}, {"shrinkage": 1.5}, {"train_size": 100},
        )),
    ],
)  # fmt: skip
def test_every_option_has_an_effect(method, changes: dict) -> None:
    weights, other = fit(method, 4.0), fit(replace(method, **changes), 4.0)
    name = "sums" if isinstance(method, SageNdp) else "probabilities"
    assert not np.array_equal(weights.released[name], other.released[name])


def test_max_edges_bounds_the_perturbed_graph() -> None:
    fitted = fit(replace(QUICK, max_edges=50), 0.5)
    assert int(fitted.released["edge_count"]) <= 50
    assert abs(fitted.released["edges"].shape[1] - 50) < 6 * math.sqrt(60) + 20


def test_errors_have_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="unit must be edge for sage-edp"):
        methods.fit(QUICK, GRAPH, cb.Budget(1, unit="node"), Streams(0), NoiseSource.secure())
    with pytest.raises(InputError, match="unit must be node"):
        methods.fit(SageNdp(), GRAPH, cb.Budget(1), Streams(0), NoiseSource.secure())
    monkeypatch.setattr("caribou.mechanisms.randomized_response.MOST_PAIRS", 10)
    with pytest.raises(InputError, match=r"at most 10 edges, got .* expected among 19,900 pairs"):
        fit(QUICK, 1.0)
    for cls, wrong in (
        (SageEdge, {"layers": 0}),
        (SageEdge, {"aggregator": "max"}),
        (SageEdge, {"count_share": 1.0}),
        (SageEdge, {"max_edges": -1}),
        (SageNdp, {"own_share": 0.1}),
        (SageNdp, {"degree_cap": 0}),
        (SageNdp, {"sums_share": 0.99}),
        (SageNdp, {"radius": 0.0}),
    ):
        with pytest.raises(InputError, match=next(iter(wrong))):
            cls(**wrong)
    fitted, narrow = fit(SageNdp(), 4.0), Graph.from_edges(np.zeros((200, 2)), [[0], [1]])
    with pytest.raises(InputError, match="6 columns of the model, got 2"):
        SageNdp().predict(fitted.weights, fitted.released, narrow)


def test_the_methods_are_in_the_table() -> None:
    assert isinstance(METHODS["sage-edp"].create(), SageEdge)
    assert isinstance(METHODS["sage-ndp"].create(), SageNdp)
    with pytest.raises(InputError, match="epsilon must be inf for sage-inf"):
        METHODS["sage-inf"].check("sage-inf", cb.Budget(1.0))


# -- the whole edge-level release, by enumeration (Theorem E) ---------------------------------------------------------


def release_probabilities(edges: int, rule, plan, nodes: int = 3) -> dict[tuple[int, int, int], float]:
    """P(count = k, u of the graph's edges kept, w new ones), of one particular outcome each."""
    N = pair_count(nodes)
    a = math.exp(-plan.count)
    exact = {k: (1 - a) / (1 + a) * a ** abs(k - edges) for k in range(N + 1)}
    exact[0] = a**edges / (1 + a)  # everything below is clamped
    exact[N] = a ** (N - edges) / (1 + a)
    assert math.fsum(exact.values()) == pytest.approx(1)
    found = {}
    for k, p in exact.items():
        r = rule(epsilon=plan.pairs, edges=k, nodes=nodes)
        for kept, made in itertools.product(range(edges + 1), range(N - edges + 1)):
            ones = r.keep_one**kept * r.make_one**made
            zeros = (1 - r.keep_one) ** (edges - kept) * (1 - r.make_one) ** (N - edges - made)
            found[k, kept, made] = p * ones * zeros
    return found


@pytest.mark.parametrize("rule", [asymmetric_response, laplace_threshold_response])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_count_and_pairs_together_cost_epsilon_and_not_less(rule, epsilon: float) -> None:
    """Every graph with 3 nodes, every edge taken out, every outcome: the largest ratio of probabilities is e^epsilon."""
    plan = split_pair_budget(cb.Budget(epsilon), 0.2)
    worst = 0.0
    for edges in (1, 2, 3):
        whole, without = (release_probabilities(e, rule, plan) for e in (edges, edges - 1))
        for k, kept, made in whole:
            # the pair that differs is the last of the kept edges, or the first of the lost ones
            for answer in (0, 1):
                if (answer and kept == 0) or (not answer and kept == edges):
                    continue
                p, q = whole[k, kept, made], without[k, kept - answer, made + answer]
                if p or q:
                    worst = max(worst, abs(math.log(p / q)) if p and q else math.inf)
    # LapGraph costs less than promised where the threshold is between 0 and 1; then what it states exactly is reached
    stated = plan.count + max(rule(epsilon=plan.pairs, edges=k, nodes=3).epsilon for k in range(4))
    assert 0.9 * stated < worst <= epsilon
    assert rule is laplace_threshold_response or stated > 0.999 * epsilon


def test_the_release_has_the_enumerated_distribution() -> None:
    graph = Graph.from_edges(np.zeros((3, 1)), [[0], [1]])
    budget, runs = cb.Budget(2.0), 4_000
    pairs = split_pair_budget(budget, 0.3)
    expected = release_probabilities(1, asymmetric_response, pairs)
    ways = {key: math.comb(2, key[2]) for key in expected}
    seen = dict.fromkeys(expected, 0)
    source = NoiseSource.seeded(1)
    for run in range(runs):
        drawn = perturb(graph, pairs, source.stream(str(run)), asymmetric_response, max_edges=None)
        kept = int(((drawn.pairs[0] == 0) & (drawn.pairs[1] == 1)).sum())
        seen[drawn.count, kept, drawn.pairs.shape[1] - kept] += 1
    keys = [key for key in expected if expected[key] > 0]
    e = np.array([runs * expected[key] * ways[key] for key in keys])
    o = np.array([seen[key] for key in keys])
    assert o.sum() == runs
    assert stats.chi2.sf(((o - e) ** 2 / e).sum(), len(keys) - 1) > 1e-6


# -- the sums (Theorem 6: attacked in tests/mechanisms/test_aggregation.py) ------------------------------------------


def test_without_training_nodes_there_is_one_clear_error() -> None:
    for method, bad in itertools.product((QUICK, SageNdp()), (None, Split([], GRAPH.split.val, GRAPH.split.test))):
        with pytest.raises(InputError, match="labels and a split"):
            fit(method, 1.0, GRAPH.with_split(bad))
