"""The methods sage-edp and sage-inf: contract, certificates, and the distribution of the whole release by enumeration."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

import caribou as cb
from baseline_support import accuracy, check_contract, verified_certificate
from caribou import methods
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.randomized_response import perturb
from caribou.methods import METHODS
from caribou.methods.edge.sage import SageEdge
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.events import NonPrivate
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


def fit(method: SageEdge, epsilon: float, graph: Graph = GRAPH, seed: int = 1, noise_seed: int = 1):
    return methods.fit(method, graph, cb.Budget(epsilon), Streams(seed), NoiseSource.seeded(noise_seed))


@pytest.mark.parametrize("graph", [GRAPH, SPARSE])
def test_contract(graph: Graph) -> None:
    check_contract(QUICK, graph, cb.Budget(4.0))


def test_the_certificate_verifies_and_its_cost_is_known_before(tmp_path: Path) -> None:
    budget = cb.Budget(3.0)
    certificate = verified_certificate(QUICK, budget, tmp_path, GRAPH)
    assert 2.98 < certificate.epsilon_spent <= 3.0
    assert epsilon_of(QUICK.plan(GRAPH.sizes(budget.unit), budget).cost, 1e-5) == pytest.approx(
        certificate.epsilon_spent, rel=1e-6
    )
    proofs = ("docs/methods/sage.md", "docs/privacy.md")
    assert all(any(page in m.theorem for page in proofs) for m in certificate.mechanisms[1:])
    endless = fit(QUICK, math.inf)
    assert endless.certificate.status == "no privacy"
    assert NonPrivate() in [e for m in endless.certificate.mechanisms for paid in m.costs.values() for e in paid]


def test_another_graph_is_predicted_with_a_release_of_its_own() -> None:
    other = cb.datasets.load(
        "csbm", nodes=150, classes=3, average_degree=8.0, homophily=0.9, signal=0.8, features=6, seed=9
    ).with_split(None)
    fitted = fit(QUICK, 8.0)
    released = methods.predict_graph(QUICK, fitted.weights, other, cb.Budget(2.0), Streams(0), NoiseSource.secure())
    assert released.probabilities.shape == (150, 3)
    assert verify(released.certificate).passed
    assert epsilon_of(released.certificate.cost, 1e-5) == pytest.approx(released.certificate.epsilon_spent, rel=1e-6)
    assert np.array_equal(QUICK.predict(fitted.weights, released.released, other), released.probabilities)


def test_edges_help_and_noise_takes_them_away() -> None:
    clear, hidden = fit(QUICK, math.inf), fit(QUICK, 0.1)
    assert accuracy(clear.probabilities, GRAPH) > accuracy(hidden.probabilities, GRAPH) + 0.05
    assert list(clear.released) == ["probabilities"], "without noise the perturbed graph is the graph"
    assert hidden.released["edges"].shape[1] <= GRAPH.num_edges + 100 * 60


def test_test_labels_are_never_used() -> None:
    labels = np.array(GRAPH.labels)
    labels[GRAPH.split.test] = labels[GRAPH.split.test][::-1]
    other = replace(GRAPH, labels=labels)
    assert np.array_equal(fit(QUICK, 2.0).probabilities, fit(QUICK, 2.0, graph=other).probabilities)


def test_max_edges_bounds_the_perturbed_graph() -> None:
    fitted = fit(replace(QUICK, max_edges=50), 0.5)
    assert int(fitted.released["edge_count"]) <= 50
    assert abs(fitted.released["edges"].shape[1] - 50) < 6 * math.sqrt(60) + 20


def test_errors_have_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="unit must be edge for sage-edp"):
        methods.fit(QUICK, GRAPH, cb.Budget(1, unit="node"), Streams(0), NoiseSource.secure())
    monkeypatch.setattr("caribou.mechanisms.randomized_response.MOST_PAIRS", 10)
    with pytest.raises(InputError, match=r"at most 10 edges, got .* expected among 19,900 pairs"):
        fit(QUICK, 1.0)
    for wrong in ({"layers": 0}, {"aggregator": "max"}, {"count_share": 1.0}, {"max_edges": -1}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            SageEdge(**wrong)
    for bad in (None, Split([], GRAPH.split.val, GRAPH.split.test)):
        with pytest.raises(InputError, match="labels and a split"):
            fit(QUICK, 1.0, GRAPH.with_split(bad))


def test_the_methods_are_in_the_table() -> None:
    assert isinstance(METHODS["sage-edp"].create(), SageEdge)
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
