"""Node level, by degree: in no graph does a node that leaves move a whole fit by more than the curve of the certificate says.

One transcript is replayed in the world without the node (`transcript_mu`). What moved, in standard deviations of the noise, is
compared with mu(d) of its degree d and group, below and above the declared degree, on graphs that were built to be bad.
"""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from caribou.graph import Graph, Split
from caribou.mechanisms.node_votes import VotePlan
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Method
from caribou.methods.caribou import CaribouNdp
from caribou.methods.dpdgc import DpdgcNdp
from caribou.methods.gap import GapNdp
from caribou.methods.mlp import MlpDp
from caribou.methods.progap import ProgapNdp
from caribou.methods.sage import SageNdp
from caribou.methods.votes import VotesNdp
from caribou.privacy.accounting import gdp_epsilon
from caribou.privacy.budget import Budget
from caribou.privacy.events import EpsilonDelta, gaussian_mu
from caribou.privacy.mechanism_records import Group, groups_of
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sensitivity import vote_weight

BUDGET = Budget(8.0, 1e-5, "node")
PARTS = (Group.TRAINING, Group.VALIDATION, Group.OTHERS)
BASE = MlpDp(shrinkage=0.0)


def hub_over_a_clique() -> nx.Graph:
    """Node 0 sees everybody; nodes 1 to 9 see each other, too."""
    graph = nx.complete_graph(10)
    graph.add_edges_from((0, leaf) for leaf in range(10, 24))
    return graph


def star_of_stars() -> nx.Graph:
    """Node 0 sees nodes 1 to 5, each of which has four leaves."""
    graph = nx.star_graph(5)
    graph.add_edges_from((hub, 6 + 4 * (hub - 1) + leaf) for hub in range(1, 6) for leaf in range(4))
    return graph


def displaced() -> nx.Graph:
    """A dense graph: a cut leaves a few edges of each node, and where a node leaves others take its places."""
    return nx.gnp_random_graph(20, 0.6, seed=4)


GRAPHS = {
    "hub over a clique": (hub_over_a_clique(), (0, 1, 12)),
    "biclique": (nx.complete_bipartite_graph(6, 12), (0, 1, 7)),
    "star of stars": (star_of_stars(), (0, 1, 7)),
    "dense": (displaced(), (0, 5, 11)),
}
"""Each with the nodes that leave."""
METHODS: dict[str, Method] = {
    "caribou-ndp": CaribouNdp(graph_share=0.5, base=BASE),
    "caribou-ndp, one hop": CaribouNdp(hops=1, beta=0.0, graph_share=0.5, base=BASE),
    "caribou-ndp, low floor, declared": CaribouNdp(graph_share=0.8, degree_floor=1, declared_degree=4, base=BASE),
    "caribou-ndp, cut": CaribouNdp(graph_share=0.8, degree_cap=3, base=BASE),
    "gap-ndp": GapNdp(declared_degree=4, sums_share=0.5, base=BASE),
    "gap-ndp, two hops": GapNdp(declared_degree=4, hops=2, sums_share=0.5, radius=1.5, base=BASE),
    "gap-ndp, cut": GapNdp(degree_cap=3, sums_share=0.5, base=BASE),
    "progap-ndp": ProgapNdp(declared_degree=4, sums_share=0.5, base=BASE),
    "progap-ndp, cut": ProgapNdp(degree_cap=3, sums_share=0.5, base=BASE),
    "dpdgc-ndp": DpdgcNdp(declared_degree=4, training_share=0.3, sums_share=0.3, base=BASE),
    "dpdgc-ndp, cut": DpdgcNdp(degree_cap=3, training_share=0.3, sums_share=0.3, base=BASE),
    "sage-ndp": SageNdp(declared_degree=4, message_scale=1, own_share=0.3, sums_share=0.4),
    "sage-ndp, cut": SageNdp(degree_cap=3, message_scale=1, own_share=0.3, sums_share=0.4),
    "votes-ndp, whole votes": VotesNdp(declared_degree=4, votes=VotePlan(None, 0.5), base=BASE),
    "votes-ndp, fractions": VotesNdp(declared_degree=4, votes=VotePlan(2, 0.5), base=BASE),
}
POWER = {name: 0.3 if "cut" in name else 0.5 for name in METHODS} | {"sage-ndp": 0.3, "dpdgc-ndp": 0.4}
"""The share of mu(d) that the worst of these nodes must reach: a bound that nothing comes near would not be tested."""


def world(shape: nx.Graph, shift: int) -> Graph:
    """Equal rows and labels, so that messages add up. Node i is in part (i + shift) mod 3 of the split."""
    n = shape.number_of_nodes()
    part = (np.arange(n) + shift) % 3
    features = np.tile([1.0, 0.0, 0.0], (n, 1))
    features[part == 0] += [[0.0, 0.0, 0.3]]
    edges = np.array(list(shape.edges)).T
    split = Split(*(np.flatnonzero(part == k) for k in range(3)))
    return Graph.from_edges(features, edges, labels=np.zeros(n, dtype=int), split=split, num_classes=3)


def promised_mu(plan: ReleasePlan, group: Group, degree: int) -> float:
    """mu(d) of the Gaussians that a node of this group and degree pays; the choice of a weight comes on top."""
    events = groups_of(plan.mechanisms, degree).get(group, ())
    mu = gaussian_mu(event for event in events if not isinstance(event, EpsilonDelta))
    assert mu is not None
    return mu


def group_of(graph: Graph, node: int) -> Group:
    return next(
        (g for g, part in zip(PARTS, (graph.split.train, graph.split.val), strict=False) if node in part), PARTS[2]
    )


def moved_and_promised(
    method: Method, graph: Graph, nodes: tuple[int, ...], transcript_mu
) -> list[tuple[float, float, int]]:
    """What each node moved, mu(d) and d."""
    plan = method.plan(graph.sizes(BUDGET.unit), BUDGET)
    moved = transcript_mu(method, graph, [graph.without_node(v) for v in nodes], BUDGET)
    degrees = [int(graph.degrees[v]) for v in nodes]
    promised = [promised_mu(plan, group_of(graph, v), d) for v, d in zip(nodes, degrees, strict=True)]
    for found in zip(moved, promised, degrees, strict=True):
        assert found[0] <= found[1] * (1 + 1e-9), found
    return list(zip(moved, promised, degrees, strict=True))


@pytest.mark.parametrize("name", METHODS)
def test_no_node_moves_a_fit_by_more_than_its_degree_is_promised(name: str, transcript_mu) -> None:
    method, found = METHODS[name], []
    for shape, nodes in GRAPHS.values():
        for shift in range(3):
            found += moved_and_promised(method, world(shape, shift), nodes, transcript_mu)
    assert max(mu / promised for mu, promised, _ in found) >= POWER[name]
    # and as the certificate states it, for all groups together: the hub has degree n - 1, which is on the curve
    graph = world(hub_over_a_clique(), 0)
    ((mu, _, degree),) = moved_and_promised(method, graph, (0,), transcript_mu)
    plan = method.plan(graph.sizes(BUDGET.unit), BUDGET)
    curve = dict(plan.certificate(NoiseSource.secure()).epsilon_by_degree)
    assert gdp_epsilon(mu=mu, delta=BUDGET.delta) <= curve[degree] * (1 + 1e-9)


def test_a_sender_reaches_the_bound_of_the_vote_theorem(transcript_mu) -> None:
    """N receivers get sqrt(M / N) of a vote each: sqrt(M) in all, however many there are."""
    for receivers, others in ((1, 2), (2, 9), (5, 9), (None, 9)):
        graph = world(nx.complete_bipartite_graph(1, others), 0)
        graph = replace(graph, split=Split([0], [1], range(2, 1 + others)))
        method = VotesNdp(declared_degree=4, votes=VotePlan(receivers, 0.9), base=BASE)
        ((moved, promised, _),) = moved_and_promised(method, graph, (0,), transcript_mu)
        assert moved > 0.9 * promised


@pytest.mark.parametrize("part", PARTS[1:])
def test_a_receiver_nearly_reaches_the_bound_of_the_vote_theorem(part: Group, transcript_mu) -> None:
    """d senders with the same M + 1 receivers: all of them give more to the same M rows when one is gone."""
    for receivers in (1, 2, 5):
        senders, n = 12, 13 + receivers
        graph = world(nx.complete_bipartite_graph(senders, receivers + 1), 0)
        leaving, rest = senders, range(senders + 1, n)
        val, test = ([leaving], rest) if part is Group.VALIDATION else (rest, [leaving])
        graph = replace(graph, split=Split(range(senders), val, test))
        # a small share means much noise and long rows: nothing is clipped
        method = VotesNdp(declared_degree=senders, votes=VotePlan(receivers, 0.002), weight=1.0, base=BASE)
        ((moved, promised, _),) = moved_and_promised(method, graph, (leaving,), transcript_mu)
        w = vote_weight(receivers + 1, receivers)
        g = (1 - w) * receivers**0.5
        assert moved / promised == pytest.approx(np.hypot(w, g) / np.hypot(1, g), rel=1e-4)
        assert np.hypot(w, g) > w + 0.01 / receivers, "without the freed fractions the bound would look too good"
