"""Votes: one edge moves one entry of the whole transcript by one, whatever is asked; and the noise is worth its epsilon."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from attack_support import (
    disjoint_pairs,
    proven_epsilon,
    proven_mu,
    require_discrete_laplace,
    require_std,
    small_graphs_one_edge_apart,
)
from blocked_support import cut
from caribou.errors import CaribouError, InputError
from caribou.graph import Graph
from caribou.mechanisms import edge_votes
from caribou.mechanisms.edge_votes import NoisyCounts, QueryOnceGuard, VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.arithmetic import grid_spacing
from graph_families import graph_of, small_graphs

Stage = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def random_script(n: int, classes: int, rng: np.random.Generator) -> list[Stage]:
    """Stages as a method might ask them: disjoint sets of new nodes, any ranks, messages and receivers."""
    stage_of = rng.integers(0, 5, n)  # 4 = never
    return [
        (stage_of == t, rng.integers(0, 3, n).astype(float), rng.integers(0, classes, n), rng.random(n) < 0.8)
        for t in range(4)
    ]


def transcript(graph: Graph, script: list[Stage], classes: int) -> np.ndarray:
    box = NoisyCounts(graph, classes, VoteBudget(math.inf), NoiseSource.secure())
    return np.stack([box.ask(*stage) for stage in script])


def test_one_edge_moves_one_entry_by_one_over_all_small_graphs() -> None:
    """Of the whole transcript, so no pair is asked twice: with stages of two, twelve and five symbols."""
    rng = np.random.default_rng(4)
    touched = 0
    for _, _, graph, other in small_graphs_one_edge_apart():
        n = graph.num_nodes
        stage_of = rng.integers(0, 4, n)
        script = [
            (stage_of == t, rng.random(n), rng.integers(0, symbols, n), rng.random(n) < 0.8, symbols)
            for t, symbols in enumerate((2, 12, 5))
        ]
        boxes = [NoisyCounts(g, 2, VoteBudget(math.inf), NoiseSource.secure()) for g in (graph, other)]
        answers = [[box.ask(*stage) for stage in script] for box in boxes]
        assert [a.shape for a in answers[0]] == [(n, 2), (n, 12), (n, 5)]
        moved = sum(np.abs(a - b).sum() for a, b in zip(*answers, strict=True))
        assert moved in (0, 1)
        touched += int(moved)
    assert touched > 100, "the scripts ask too little for this test to mean anything"


def test_a_node_cannot_send_twice() -> None:
    box = NoisyCounts(graph_of(nx.path_graph(3)), 2, VoteBudget(1.0), NoiseSource.secure())
    new = np.array([True, False, False])
    box.ask(new, np.zeros(3), np.zeros(3, dtype=int))
    with pytest.raises(CaribouError, match=r"never sent before.*node 0"):
        box.ask(new, np.zeros(3), np.zeros(3, dtype=int))


def test_a_literal_stage() -> None:
    """Path 0 - 1 - 2 - 3: 0 and 1 are new, 0 before 1; 2 and 3 receive, 3 has no new neighbour."""
    box = NoisyCounts(graph_of(nx.path_graph(4)), 2, VoteBudget(math.inf), NoiseSource.secure())
    new = np.array([True, True, False, False])
    counts = box.ask(new, np.array([0.0, 1.0, 9.0, 9.0]), np.array([1, 0, 0, 0]))
    assert counts.tolist() == [[0, 0], [0, 1], [1, 0], [0, 0]]
    later = box.ask(~new, np.zeros(4), np.array([0, 0, 1, 1]))
    assert later.tolist() == [[0, 0], [0, 0], [0, 0], [0, 1]], "nodes that were new never receive again"


def hits_of_pairs(budget: VoteBudget, least: float, pairs: int = 100_000) -> tuple[int, int]:
    """Many disjoint pairs, not joined and joined: how many counts are at least ``least``."""
    new = np.arange(2 * pairs) % 2 == 0
    hits = []
    for joined in (False, True):
        box = NoisyCounts(disjoint_pairs(pairs, joined), 1, budget, NoiseSource.secure())
        counts = box.ask(new, np.zeros(2 * pairs), np.zeros(2 * pairs, dtype=int))[1::2, 0]
        hits.append(int((counts >= least).sum()))
    return hits[0], hits[1]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_likelihood_ratio_attack_reaches_the_claim_and_not_more(epsilon: float) -> None:
    """The event "count >= 1" has probability ratio e^epsilon."""
    assert 0.88 * epsilon < proven_epsilon(hits_of_pairs(VoteBudget(epsilon), 1), 100_000) <= epsilon


def noise_alone(budget: VoteBudget, n: int = 50_000) -> np.ndarray:
    """What a graph without edges answers. [n, 2]"""
    empty = Graph.from_edges(np.zeros((n, 1)), np.zeros((2, 0), dtype=int))
    box = NoisyCounts(empty, 2, budget, NoiseSource.secure())
    return box.ask(np.zeros(n, dtype=bool), np.zeros(n), np.zeros(n, dtype=int))


def test_noise_of_the_release_is_discrete_laplace() -> None:
    counts, budget = noise_alone(VoteBudget(0.7)), VoteBudget(0.7)
    assert counts.var() == pytest.approx(budget.noise_variance, rel=0.05)
    assert abs(counts.mean()) < 6 * math.sqrt(budget.noise_variance / counts.size)
    require_discrete_laplace(counts, 0.7)


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_likelihood_ratio_attack_on_gaussian_votes_reaches_mu_and_not_more(mu: float) -> None:
    """The best test between two Gaussians: Phi^-1(TPR) - Phi^-1(FPR) = mu at every threshold."""
    assert 0.88 * mu < proven_mu(hits_of_pairs(VoteBudget.gaussian(mu), 0.5), 100_000) <= mu


def test_noise_of_the_release_is_gaussian_of_std_one_over_mu() -> None:
    mu = 0.7
    noise = noise_alone(VoteBudget.gaussian(mu)).ravel()
    assert VoteBudget.gaussian(mu).noise_variance == pytest.approx(1 / mu**2)
    require_std(noise, 1 / mu)
    assert stats.kstest(noise * mu, "norm").pvalue > 1e-6


def test_gaussian_votes_lie_on_the_grid_of_their_noise() -> None:
    """Integers are multiples of the grid, so the low bits of a released count say nothing about the count."""
    budget = VoteBudget.gaussian(0.3)
    grid = grid_spacing(noise_std=budget.noise_std)
    box = NoisyCounts(disjoint_pairs(500, True), 1, budget, NoiseSource.secure())
    counts = box.ask(np.arange(1000) % 2 == 0, np.zeros(1000), np.zeros(1000, dtype=int))
    assert np.array_equal(counts / grid, np.rint(counts / grid))
    assert (1 / grid).is_integer()
    assert (counts[::2] != 0).any(), "new nodes may hear each other, so their rows carry noise as well"


def test_bad_questions() -> None:
    box = NoisyCounts(graph_of(nx.path_graph(3)), 2, VoteBudget(1.0), NoiseSource.secure())
    good = (np.zeros(3, dtype=bool), np.zeros(3), np.zeros(3, dtype=int))
    with pytest.raises(InputError, match="new must be 3 booleans"):
        box.ask(np.zeros(2, dtype=bool), *good[1:])
    with pytest.raises(InputError, match="rank must be"):
        box.ask(np.ones(3, dtype=bool), np.full(3, np.nan), good[2])
    with pytest.raises(InputError, match=r"message must be a symbol in 0\.\.1"):
        box.ask(np.ones(3, dtype=bool), good[1], np.full(3, 2))
    with pytest.raises(InputError, match=r"message must be a symbol in 0\.\.3"):
        box.ask(np.ones(3, dtype=bool), good[1], np.array([0, 4, 1]), np.ones(3, dtype=bool), 4)
    with pytest.raises(InputError, match="epsilon must be"):
        VoteBudget(-1.0)
    with pytest.raises(InputError, match="mu must be"):
        VoteBudget.gaussian(0.0)
    with pytest.raises(InputError, match="mu must be inf with a finite epsilon"):
        VoteBudget(1.0, 1.0)
    for mu in (2.0**-30, 2.0**40):
        with pytest.raises(InputError, match="mu must be between"):
            NoisyCounts(graph_of(nx.path_graph(3)), 2, VoteBudget.gaussian(mu), NoiseSource.secure())


# -- growing graphs (Theorem 10) -------------------------------------------------------------------------------------

BATCHES = 3


class AsksOldPairsAgain(QueryOnceGuard):
    """The planted fault: nodes of earlier batches receive like everybody else."""

    def __init__(self, nodes: int, classes: int, present: np.ndarray | None = None) -> None:
        super().__init__(nodes, classes)


def all_graphs(nodes: int) -> Graph:
    """Every labelled graph with so many nodes, side by side: component k has edge number e if bit e of k is set."""
    pairs = list(itertools.combinations(range(nodes), 2))
    masks = np.arange(2 ** len(pairs))
    columns = [
        np.stack([nodes * masks[masks >> e & 1 == 1] + u, nodes * masks[masks >> e & 1 == 1] + v])
        for e, (u, v) in enumerate(pairs)
    ]
    edges = np.concatenate(columns, axis=1) if columns else np.zeros((2, 0), dtype=int)
    return Graph.from_edges(np.zeros((nodes * len(masks), 1)), edges)


def batch_counts(everything: Graph, present: np.ndarray, script: list[Stage]) -> np.ndarray:
    """The exact counts of one batch for every graph at once. [graphs, stages, nodes, classes]"""
    nodes = len(present)
    copies = everything.num_nodes // nodes
    noise = NoiseSource.secure()
    box = NoisyCounts(everything, 2, VoteBudget(math.inf), noise, np.tile(present, copies))
    asked = [box.ask(*(np.tile(part, copies) for part in stage)) for stage in script]
    return np.stack(asked, axis=1).reshape(copies, nodes, len(script), 2).swapaxes(1, 2)


def largest_moves(arrival: tuple[int, ...], scripts: list[list[Stage]]) -> np.ndarray:
    """What a pair moves in the counts of all batches, in L1, at most: over all graphs of every batch. [pairs]

    The graph of a batch may be any graph of the nodes that are there, whatever it was before: so edges that appear later, and
    edges that disappear, are covered, and so is every pair of histories of the edge that differs.
    """
    n = len(arrival)
    moved = np.zeros((n, n))
    for batch in range(BATCHES):
        there = [v for v in range(n) if arrival[v] <= batch]
        if len(there) < 2:
            continue
        script = [tuple(part[there] for part in stage) for stage in scripts[batch]]
        counts = batch_counts(GRAPHS[len(there)], np.array([arrival[v] < batch for v in there]), script)
        masks = np.arange(len(counts))
        for e, (u, v) in enumerate(itertools.combinations(there, 2)):
            moved[u, v] += np.abs(counts - counts[masks ^ (1 << e)]).sum(axis=(1, 2, 3)).max()
    return moved[np.triu_indices(n, 1)]


GRAPHS = {n: all_graphs(n) for n in range(2, 6)}


def test_one_edge_moves_one_entry_by_one_over_all_small_growing_graphs() -> None:
    """All growing graphs with up to 5 nodes and 3 batches: any order of arrival, any graph in every batch."""
    rng = np.random.default_rng(2)
    asked = 0
    for n in range(2, 6):
        for arrival in itertools.product(range(BATCHES), repeat=n):
            moved = largest_moves(arrival, [random_script(n, 2, rng)[:3] for _ in range(BATCHES)])
            assert set(moved) <= {0, 1}, (arrival, moved)
            asked += int(moved.sum())
    assert asked > 1000, "the scripts ask too little for this test to mean anything"


def test_asking_an_old_pair_again_is_found_by_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_votes, "QueryOnceGuard", AsksOldPairsAgain)
    rng = np.random.default_rng(3)
    worst = max(
        largest_moves(arrival, [random_script(3, 2, rng)[:3] for _ in range(BATCHES)]).max()
        for arrival in itertools.product(range(BATCHES), repeat=3)
    )
    assert worst > 1


def test_a_literal_batch() -> None:
    """Nodes 0 and 1 were there, 2 and 3 arrive: 0 - 1 is never asked again, 0 sends to 2, and 2 to 3."""
    graph = graph_of(nx.Graph([(0, 1), (0, 2), (1, 3), (2, 3)]))
    present = np.array([True, True, False, False])
    box = NoisyCounts(graph, 2, VoteBudget(math.inf), NoiseSource.secure(), present)
    first = box.ask(np.array([True, False, False, False]), np.zeros(4), np.array([1, 0, 0, 0]))
    assert first.tolist() == [[0, 0], [0, 0], [0, 1], [0, 0]]
    second = box.ask(np.array([False, True, True, True]), np.arange(4.0), np.array([0, 0, 1, 1]))
    assert second.tolist() == [[0, 0], [0, 0], [0, 0], [1, 1]], "1 and 2 send to 3, and nobody to 0 or 1"
    with pytest.raises(InputError, match="present must be 4 booleans"):
        NoisyCounts(graph, 2, VoteBudget(1.0), NoiseSource.secure(), np.zeros(3, dtype=bool))


HISTORIES = {"from the start": (1, 1, 1), "later": (0, 1, 1), "gone": (1, 0, 0), "for a while": (0, 1, 0)}


def stream_losses(epsilon: float, history: tuple[int, ...], arrival: tuple[int, int], pairs: int) -> np.ndarray:
    """Log-likelihood ratio of the whole stream, pair against no pair, of many independent pairs with this history.

    Both nodes of a pair send in every batch in which they are there, the second one last. So the pair can move no entry but
    that of the second node, and rows that cannot receive carry no noise: they are 0 in both worlds.
    """
    losses = np.zeros(pairs)
    for batch, joined in enumerate(history):
        there = np.array([a <= batch for a in arrival])
        present = np.array([a < batch for a in arrival])
        graph = disjoint_pairs(pairs, bool(joined and there.all()))
        box = NoisyCounts(graph, 1, VoteBudget(epsilon), NoiseSource.secure(), np.tile(present, pairs))
        new = np.tile(there, pairs)
        c = box.ask(new, np.tile([0.0, 1.0], pairs), np.zeros(2 * pairs, dtype=int), new)[1::2, 0]
        if c.any():
            losses += epsilon * (np.abs(c) - np.abs(c - 1))  # log p(c - 1) - log p(c)
    return losses


def proven_by_losses(with_edge: np.ndarray, without: np.ndarray) -> float:
    """The largest epsilon that thresholds on the ratio prove, at 10^-6."""
    best, runs = 0.0, len(without)
    for threshold in np.unique(with_edge):
        for event in (np.greater_equal, np.less_equal):
            hit, false = int(event(with_edge, threshold).sum()), int(event(without, threshold).sum())
            if min(hit, false) > 0:
                best = max(best, proven_epsilon((false, hit), runs), proven_epsilon((hit, false), runs))
    return best


@pytest.mark.parametrize("arrival", [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)])
def test_likelihood_ratio_attack_on_the_stream_reaches_the_claim_and_not_more(arrival: tuple[int, int]) -> None:
    """An edge that is there when its later end arrives is worth epsilon, once; one that comes later, or was gone, nothing."""
    epsilon, pairs = 1.0, 60_000
    nothing = stream_losses(epsilon, (0, 0, 0), arrival, pairs)
    for name, history in HISTORIES.items():
        proven = proven_by_losses(stream_losses(epsilon, history, arrival, pairs), nothing)
        assert proven <= epsilon, name
        if history[max(arrival)]:
            assert proven >= 0.8 * epsilon, name
        else:
            assert proven < 0.1, name


def test_the_attack_on_the_stream_rejects_a_pair_that_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_votes, "QueryOnceGuard", AsksOldPairsAgain)
    nothing = stream_losses(1.0, (0, 0, 0), (0, 1), 60_000)
    assert proven_by_losses(stream_losses(1.0, (1, 1, 1), (0, 1), 60_000), nothing) > 1.2


# -- blocks: memory is the case of one ---------------------------------------------------------------------------------


def noisy_transcript(graph: Graph, script: list[Stage], budget: VoteBudget) -> list[np.ndarray]:
    box = NoisyCounts(graph, 3, budget, NoiseSource.keyed(b"k" * 32))
    return [box.ask(*stage) for stage in script]


def test_blocks_of_any_size_and_order_give_the_same_bytes_over_all_small_graphs() -> None:
    rng = np.random.default_rng(5)
    for nxg in small_graphs()[1:]:
        graph, script = graph_of(nxg), random_script(nxg.number_of_nodes(), 3, rng)
        for budget in (VoteBudget(0.7), VoteBudget.gaussian(0.7)):
            whole = noisy_transcript(graph, script, budget)
            for blocked in (cut(graph, 1), cut(graph, 2, lambda firsts: firsts[::-1]), cut(graph, 7)):
                parts = noisy_transcript(blocked, script, budget)
                assert [a.tobytes() for a in whole] == [b.tobytes() for b in parts]


def test_a_block_that_comes_twice_or_not_at_all_is_refused_before_noise_is_drawn() -> None:
    graph, stage = graph_of(nx.path_graph(6)), random_script(6, 2, np.random.default_rng(7))[0][:3]
    for order, words in ((lambda firsts: [*firsts, 2], "rows from 2 on again"), (lambda firsts: firsts[1:], "row 0")):
        noise = NoiseSource.seeded(1)
        with pytest.raises(CaribouError, match=words):
            NoisyCounts(cut(graph, 2, order), 2, VoteBudget(1.0), noise).ask(*stage)
        assert noise.draws == 0


def test_noise_of_a_stage_serves_one_value() -> None:
    """Under one source a stage that failed or that is asked again otherwise gets other noise, and a sender twice is refused."""
    graph, noise = cut(graph_of(nx.empty_graph(40)), 8), NoiseSource.keyed(b"k" * 32)
    nobody, zeros = np.zeros(40, dtype=bool), np.zeros(40)
    boxes = [NoisyCounts(graph, 2, VoteBudget(0.5), noise) for _ in range(2)]
    answers = [box.ask(nobody, zeros, zeros.astype(int)) for box in boxes]
    assert noise.draws == 2
    assert not np.array_equal(*answers), "counts are zero, so equal answers would be equal noise"
    everybody = ~nobody
    boxes[0].ask(everybody, zeros, zeros.astype(int))
    with pytest.raises(CaribouError, match="never sent before"):
        boxes[0].ask(everybody, zeros, zeros.astype(int))
    assert noise.draws == 3


def test_only_blocks_with_receivers_are_read() -> None:
    """Later batches of a growing graph read the rows of arrivals: who was there before does not receive."""
    graph = graph_of(nx.path_graph(12))
    blocked = cut(graph, 3)
    present = np.arange(12) < 9
    box = NoisyCounts(blocked, 2, VoteBudget(math.inf), NoiseSource.secure(), present)
    counts = box.ask(np.ones(12, dtype=bool), np.arange(12.0), np.zeros(12, dtype=int))
    assert blocked._store.read == [9]
    assert counts[:, 0].tolist() == [0] * 9 + [1, 1, 1]
