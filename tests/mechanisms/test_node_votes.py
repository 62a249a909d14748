"""Votes at node level: brute-force sensitivities, the choice of receivers, the scale of the noise, and attacks on both ends."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from caribou.graph import Graph, Split
from caribou.graph.operator import pair_hash
from caribou.mechanisms.node_votes import VotePlan, clip_counts, release_votes, vote_counts
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.node.votes import SELECTION_SHARE, base_mu
from caribou.privacy.budget import Budget

NODE = {"delta": 1e-5, "unit": "node"}


def test_one_shift_on_one_entry_is_the_worst_row() -> None:
    """Hockey-stick divergence of Laplace(1) shifted by (t, s - t) against (s, 0): never larger (proof in the module)."""
    grid = np.linspace(-25, 26, 20_001)
    step = grid[1] - grid[0]
    density = np.exp(-np.abs(grid)) / 2

    def loss(t: float) -> np.ndarray:
        return np.abs(grid - t) - np.abs(grid)

    for s in (0.25, 1.0, 3.0):
        for t in (0.1 * s, 0.5 * s, 0.8 * s):
            for e in (-0.9 * s, 0.0, 0.3 * s, 0.9 * s):
                whole = max(0.0, 1 - math.exp((e - s) / 2), 1 - math.exp(e))
                rest = e - loss(s - t)
                one = np.maximum(0, np.maximum(1 - np.exp((rest - t) / 2), 1 - np.exp(rest)))
                split = float((density * one).sum() * step)
                assert split <= whole + 1e-5


def rescaled(counts: np.ndarray, row_clip: float) -> np.ndarray:
    """The wrong clip: scale a row down to length tau."""
    total = counts.sum(axis=1, keepdims=True)
    return counts * np.minimum(1, row_clip / np.maximum(total, 1))


def largest_single_vote_move(clip, tau: float, most: int) -> float:
    rows = np.array(list(itertools.product(range(most), repeat=3)), dtype=float)
    before = clip(rows, tau)
    return max(float(np.abs(clip(rows + np.eye(3)[c], tau) - before).sum(axis=1).max()) for c in range(3))


@pytest.mark.parametrize("tau", [0.8, 2.0, 3.2, 4.0, 11.4])
def test_the_clip_is_1_lipschitz_and_plain_rescaling_is_not(tau: float) -> None:
    most = math.ceil(3 * tau) + 3
    assert 0.5 < largest_single_vote_move(clip_counts, tau, most) <= 1 + 1e-12
    rows = np.array(list(itertools.product(range(most), repeat=3)), dtype=float)
    norms = np.abs(clip_counts(rows, tau)).sum(axis=1)
    assert 0.99 * tau < norms.max() <= tau * (1 + 1e-12)
    if tau >= 2:
        assert largest_single_vote_move(rescaled, tau, most) > 1.2


def all_graphs(pairs: list[tuple[int, int]]) -> list[np.ndarray]:
    """Every set of these pairs, as 2 x E arrays."""
    masks = itertools.product((False, True), repeat=len(pairs))
    return [
        np.array([p for p, kept in zip(pairs, mask, strict=True) if kept], dtype=int).reshape(-1, 2).T for mask in masks
    ]


def test_one_node_moves_the_votes_as_claimed_on_all_small_graphs() -> None:
    """All graphs on 4 nodes, and all graphs between 2 senders and 4 receivers.

    A sender moves at most M rows by at most 1 each, whatever is truncated; a receiver moves its own row by at most tau, where
    nothing is truncated.
    """
    two_by_four = [(u, v) for u in (0, 1) for v in range(2, 6)]
    cases = [(4, [0, 1], edges) for edges in all_graphs(list(itertools.combinations(range(4), 2)))]
    cases += [(6, [0, 1], edges) for edges in all_graphs(two_by_four)]
    max_rows, largest = 0, 0.0
    for n, train, edges in cases:
        others = [v for v in range(n) if v not in train]
        split = Split(train, others[:1], others[1:])
        graph = Graph.from_edges(np.ones((n, 1)), edges, labels=np.arange(n) % 2, split=split, num_classes=2)
        for plan, tau in ((VotePlan(1, 0.5), 2.0), (VotePlan(2, 1.0), 0.7)):
            full = clip_counts(vote_counts(graph, split, plan, 11), tau)
            for v in train:
                smaller = graph.without_node(v)
                moved = np.abs(full - clip_counts(vote_counts(smaller, smaller.split, plan, 11), tau)).sum(axis=1)
                max_rows, largest = max(max_rows, int((moved > 0).sum())), max(largest, float(moved.max()))
                assert (moved > 0).sum() <= plan.receivers_per_sender
                assert moved.max() <= 1 + 1e-12
        everything = clip_counts(vote_counts(graph, split, None, 11), 0.7)
        for v in others:
            smaller = graph.without_node(v)
            moved = np.abs(everything - clip_counts(vote_counts(smaller, smaller.split, None, 11), 0.7)).sum(axis=1)
            assert moved[v] <= 0.7 + 1e-12
            assert np.delete(moved, v).max() == 0
    assert max_rows == 2
    assert largest > 0.8


def test_a_removed_receiver_frees_a_place_which_is_why_truncation_is_an_assumption() -> None:
    """The known gap, kept visible: above M, removing a receiver moves another row."""
    split = Split([0], [], [1, 2])
    graph = Graph.from_edges(np.ones((3, 1)), [[0, 0], [1, 2]], labels=[0, 1, 1], split=split)
    plan = VotePlan(1, 0.5)
    chosen = int(vote_counts(graph, split, plan, 0).sum(axis=1).argmax())
    smaller = graph.without_node(chosen)
    moved = np.abs(vote_counts(graph, split, plan, 0) - vote_counts(smaller, smaller.split, plan, 0)).sum(axis=1)
    assert np.delete(moved, chosen).max() == 1


def test_selection_is_uniform_and_a_function_of_the_pair() -> None:
    n = 400
    receivers = np.arange(1, n)
    graph = Graph.from_edges(
        np.ones((n, 1)), np.stack([np.zeros(n - 1, int), receivers]), labels=[0] * n, split=Split([0], [], receivers)
    )
    taken = sum(vote_counts(graph, graph.split, VotePlan(40, 0.5), seed).sum(axis=1) for seed in range(500))
    expected = 500 * 40 / (n - 1)
    assert abs(taken[1:] - expected).max() < 6 * math.sqrt(expected)
    hashes = pair_hash(3, np.zeros(5, int), np.arange(5))
    assert np.array_equal(hashes[2:], pair_hash(3, np.zeros(3, int), np.arange(2, 5)))
    assert len(set(hashes.tolist()) | set(pair_hash(3, np.arange(5), np.zeros(5, int)).tolist())) == 9


def star(senders: int, receivers: int) -> Graph:
    """Every sender joined to every receiver; all senders of class 0."""
    n = senders + receivers
    edges = np.array([(u, v) for u in range(senders) for v in range(senders, n)]).T
    labels = np.array([0] * senders + [1] * receivers)
    return Graph.from_edges(
        np.ones((n, 1)), edges, labels=labels, split=Split(range(senders), [], range(senders, n)), num_classes=2
    )


def test_likelihood_ratio_attack_on_a_receiver_stays_within_epsilon_and_comes_close() -> None:
    """A test node with as many equal votes as fill its clip, against its absence: the log ratio of the whole release."""
    epsilon, plan = 3.0, VotePlan(2, 0.5)
    budget = Budget(epsilon, **NODE)
    graph = star(senders=60, receivers=1)
    with_node = vote_counts(graph, graph.split, plan, 0)
    smaller = graph.without_node(60)
    without = vote_counts(smaller, smaller.split, plan, 0)
    means = [clip_counts(c, plan.row_clip()) for c in (with_node, without)]
    b = plan.noise_scale(epsilon)
    ratios = []
    for seed in range(300):
        votes = release_votes(
            with_node, graph.split, plan, budget.epsilon, NoiseSource.seeded(seed), validation_share=1 - SELECTION_SHARE
        )
        ratios.append(float((np.abs(votes - means[1]) - np.abs(votes - means[0])).sum()) / b)
    assert max(ratios) <= epsilon
    assert max(ratios) > 0.9 * epsilon
    # the fault that this must reject: no clip at all
    unclipped = (np.abs(with_node + b - without) - np.abs(with_node + b - with_node)).sum() / b
    assert unclipped > 2 * epsilon


def test_likelihood_ratio_attack_on_a_sender_stays_within_the_composed_budget() -> None:
    """A sender in M rows and in the Gaussians: delta(epsilon) estimated from exact log ratios, against the claim."""
    epsilon, delta, plan = 1.0, 0.05, VotePlan(3, 0.5)
    budget = Budget(epsilon, delta, "node")
    graph = star(senders=1, receivers=10)
    counts = vote_counts(graph, graph.split, plan, 0)
    assert counts.sum() == 3
    mean, b = clip_counts(counts, plan.row_clip()), plan.noise_scale(epsilon)
    mu = base_mu(budget, plan)
    rng = np.random.default_rng(0)
    draws = 20_000
    children = NoiseSource.seeded(0).laplace((draws, *counts.shape), scale=b)
    gaussians = mu * (mu / 2 + rng.standard_normal(draws))  # log ratio of a mu-GDP release under its worst pair
    votes = mean + children
    ratios = (np.abs(votes) - np.abs(votes - mean)).sum(axis=(1, 2)) / b + gaussians
    estimate = np.maximum(0, 1 - np.exp(epsilon - ratios))
    error = estimate.std() / math.sqrt(draws)
    assert estimate.mean() - 4 * error <= delta
    assert estimate.mean() > 0.6 * delta  # the clip leaves a vote at 1 - 1/(4 tau) of its worst case
    # planted fault: half the noise in the votes is rejected
    votes = mean + children / 2
    wrong = (np.abs(votes) - np.abs(votes - mean)).sum(axis=(1, 2)) / (b / 2) + gaussians
    assert np.maximum(0, 1 - np.exp(epsilon - wrong)).mean() > 1.3 * delta


def test_votes_noise_has_the_claimed_scale_in_every_row() -> None:
    graph = star(senders=3, receivers=20_000)
    plan, budget = VotePlan(2, 0.5), Budget(2.0, **NODE)
    empty = np.zeros((graph.num_nodes, 2))
    sample = np.abs(
        release_votes(
            empty, graph.split, plan, budget.epsilon, NoiseSource.secure(), validation_share=1 - SELECTION_SHARE
        )
    ).ravel()
    b = plan.noise_scale(2.0)
    assert b == pytest.approx(2.0)
    error = b / math.sqrt(len(sample))
    assert abs(sample.mean() - b) < 4.5 * error  # |Laplace| is exponential: mean b, std b
    assert abs(sample.mean() - 1.05 * b) > 4.5 * error
    assert abs(sample.mean() - 0.95 * b) > 4.5 * error
    assert (sample > 0).all()
