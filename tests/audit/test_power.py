"""How many runs reject the claim of a mechanism that leaks twice as much, and how rare an event may be to be seen."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from audit.known_bad_mechanisms.known_bad import gaussian_claim, pure_claim
from caribou.audit.catalogue import MIN_RUNS
from caribou.audit.power import (
    FACTOR,
    MIN_SHOWN,
    POWER,
    block_sizes,
    error_shares,
    first_block,
    heats,
    leaking,
    needed_hits,
    planned_runs,
    power,
    rarest_seen,
    runs_for_power,
)
from caribou.privacy.budget import Budget


def test_the_power_is_just_enough_at_the_runs_of_the_best_test() -> None:
    claim = gaussian_claim(Budget(1.0, 1e-5))
    needed = runs_for_power(claim, 0.95)
    assert power(claim, round(needed / 1.5), 0.95) >= POWER > power(claim, needed // 3, 0.95)


def test_the_rates_of_a_leaking_mechanism_are_those_of_its_noise() -> None:
    """Two values that move by 1, with Laplace noise of FACTOR epsilon together; Gaussians at FACTOR mu."""
    rng, runs, epsilon = np.random.default_rng(0), 100_000, 1.5
    fpr, tpr = leaking(pure_claim(Budget(epsilon, 1e-5)))
    values = rng.laplace(scale=2 / (FACTOR * epsilon), size=(2, runs, 2)) + np.arange(2)[:, None, None]
    sums = np.clip(values, 0, 1).sum(axis=2)
    for threshold in (0.4, 1.0, 1.6, 2.0):
        false, true = (sums >= threshold).mean(axis=1)
        assert np.interp(true, tpr, fpr) == pytest.approx(false, abs=0.01)
    claim = gaussian_claim(Budget(epsilon, 1e-5))
    fpr, tpr = leaking(claim)
    assert stats.norm.ppf(tpr) - stats.norm.ppf(fpr) == pytest.approx(np.full(len(fpr), FACTOR * claim.mu))


def test_the_stated_power_is_that_of_simulated_games() -> None:
    """A test with given rates, judged on the last block."""
    rng, confidence = np.random.default_rng(0), 0.95
    for claim, runs, rates in (
        (pure_claim(Budget(1.0, 1e-5)), 120, (0.12, 0.88)),
        (gaussian_claim(Budget(2.0, 1e-5)), 400, (0.2, 0.56)),
    ):
        judged = block_sizes(runs)[-1]
        false, true = (rng.binomial(judged, rate, 4000) for rate in rates)
        proven = claim.proven(false, true, judged, 1 - (1 - confidence) / 2)
        stated = power(claim, runs, confidence, rates)
        assert 0.5 < stated < 0.99
        assert (proven > claim.size).mean() == pytest.approx(stated, abs=4 * math.sqrt(0.25 / 4000))


def test_needed_hits_is_the_smallest_number_that_rejects() -> None:
    for claim in (gaussian_claim(Budget(2.0, 1e-5)), pure_claim(Budget(1.0, 1e-5))):
        for false in (0, 7, 30):
            hits = needed_hits(claim, false, 200, 0.975)
            assert claim.proven(false, hits, 200, 0.975) > claim.size >= claim.proven(false, hits - 1, 200, 0.975)
    assert needed_hits(pure_claim(Budget(8.0, 1e-5)), 5, 10, 0.975) == 11, "no count of so few runs does"


def test_the_rarest_event_that_is_seen() -> None:
    claim = pure_claim(Budget(1.0, 1e-5))
    share = rarest_seen(claim, 1000, 0.975)
    seen, unseen = (
        claim.proven(0, hits, 1000, 0.975) > claim.size for hits in (round(1000 * share), round(1000 * share) - 1)
    )
    assert seen
    assert not unseen
    assert rarest_seen(claim, 10, 0.975) == 1.0


def test_blocks_and_errors_add_up() -> None:
    for runs in (40, 41, 999, 2000, 12345):
        assert sum(block_sizes(runs)) == runs
        assert min(block_sizes(runs)) >= 5
    for blocks in (1, 2, 3, 5):
        assert len(error_shares(blocks)) == blocks
        assert sum(error_shares(blocks)) == pytest.approx(1.0)


def test_heats_drop_half_of_the_pairs_and_one_pair_gets_the_whole_first_block() -> None:
    for pairs in [1, 2, 3, 8, 9]:
        for first in [5, 12, 20, 250, 5000]:
            planned = heats(pairs, first)
            assert sum(size for _, size in planned) == first
            assert [left for left, _ in planned] == sorted((left for left, _ in planned), reverse=True)
            assert planned[0][0] == pairs
            assert all(after >= before / 2 for (before, _), (after, _) in pairwise(planned))
            assert all(
                size >= min(MIN_SHOWN, first - sum(s for _, s in planned[:k])) for k, (_, size) in enumerate(planned)
            )


def test_planned_runs_are_those_of_all_heats_and_blocks() -> None:
    for pairs in (1, 2, 8):
        for runs in (MIN_RUNS, 400, 2001):
            chosen = sum(left * size for left, size in heats(pairs, first_block(runs)))
            assert planned_runs(pairs, runs) == 2 * (chosen + sum(block_sizes(runs)[1:]))
