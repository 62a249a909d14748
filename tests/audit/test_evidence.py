"""Evidence: the best block counts, bounds follow from counts, and JSON holds what a reader needs to check them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from audit.counted_evidence import counted
from audit.known_bad_mechanisms.known_bad import gaussian_claim, pure_claim
from caribou.audit.bounds import epsilon_bound
from caribou.privacy.accounting import gdp_epsilon
from caribou.privacy.budget import Budget


def test_the_block_that_proved_most_counts() -> None:
    claim = gaussian_claim(Budget(2.0, 1e-5))
    game = counted(claim, 400, 600)
    early = replace(game.judgements[0], runs=500, leak=0.9)
    both = replace(game, judgements=(early, *game.judgements))
    assert both.best is early
    assert both.leak == 0.9 > game.leak > 0
    assert both.epsilon_lower == pytest.approx(gdp_epsilon(mu=0.9, delta=1e-5))
    assert both.rejects_claim
    assert not game.rejects_claim
    assert both.runs == 250 + 500 + 1000, "the first block of 2,000 planned runs is never judged"


def test_rates_alone_prove_less_than_a_gaussian_claim_and_look_in_both_directions() -> None:
    claim = gaussian_claim(Budget(4.0, 1e-5))
    game = counted(claim, 182, 818)
    assert game.epsilon_by_rates == pytest.approx(epsilon_bound(182, 818, 1000, 1e-5, 0.975))
    assert game.epsilon_by_rates < game.epsilon_lower
    pure = pure_claim(Budget(1.0, 1e-5))
    one_sided = counted(pure, 500, 1000)  # the complement is never wrong: its rates prove far more
    assert one_sided.epsilon_by_rates > 3 > one_sided.epsilon_lower
