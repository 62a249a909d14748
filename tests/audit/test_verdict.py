"""When each word is said, and how many runs would decide."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from audit.known_bad_mechanisms.known_bad import gaussian_claim, pure_claim
from caribou.audit import fits
from caribou.audit.claims import Claim, weaker_than_asked
from caribou.audit.distinguish import Evidence, Judgement
from caribou.audit.metrics import Scored
from caribou.audit.onerun import OneRun
from caribou.audit.pairs import member_pair
from caribou.audit.verdict import (
    CONSISTENT,
    INCONCLUSIVE,
    VIOLATED,
    describe_consistent,
    judge,
    power,
    powerful,
    rarest_seen,
    runs_for_power,
    runs_to_reject,
)
from caribou.errors import InputError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.node.mlp import MlpDp
from caribou.privacy.budget import Budget
from caribou.privacy.events import EpsilonDelta, Event, Gaussian, Laplace, NonPrivate, Parallel, event_to_dict
from caribou.randomness import Streams

SCORED = Scored(np.array([0.0, 1.0]), np.array([False, True]))


def evidence(claim: Claim, false: int, true: int, judged: int = 1000, confidence: float = 0.95) -> Evidence:
    """A game whose last block had these counts."""
    level = 1 - (1 - confidence) / 2
    last = Judgement(
        judged, "score > 0 says second graph", false, true, level, claim.proven(false, true, judged, level)
    )
    return Evidence(claim, "pair", "release", (last,), confidence, 2 * judged, 0, SCORED)


def word(claim: Claim, false: int, true: int, judged: int = 1000) -> str:
    return judge({"game": evidence(claim, false, true, judged)}, claim, confidence=0.95).word


def test_each_word() -> None:
    claim = gaussian_claim(Budget(2.0, 1e-5))  # mu = 0.50
    assert word(claim, 400, 600) == CONSISTENT
    assert word(claim, 500, 500) == CONSISTENT
    assert word(claim, 300, 700) == VIOLATED
    assert word(claim, 375, 640) == INCONCLUSIVE, "suspicious, not proven"
    assert word(claim, 40, 60, judged=100) == INCONCLUSIVE, "too few"


def test_a_reader_is_told_when_little_was_found() -> None:
    claim = gaussian_claim(Budget(2.0, 1e-5))
    nothing, something = (
        judge({"game": evidence(claim, *counts)}, claim, confidence=0.95) for counts in ((500, 500), (400, 600))
    )
    assert "next to nothing" in nothing.reasons[-1]
    assert "next to nothing" not in " ".join(something.reasons)


def test_too_few_runs_say_how_many_would_do() -> None:
    claim = gaussian_claim(Budget(1.0, 1e-5))
    verdict = judge({"game": evidence(claim, 50, 50, 100)}, claim, confidence=0.95)
    needed = runs_for_power(claim, 0.95)
    assert verdict.more_runs == needed
    assert str(needed) in verdict.reasons[0]
    assert power(claim, round(needed / 1.5), 0.95) >= 0.9 > power(claim, needed // 3, 0.95)


def test_choosing_a_pair_takes_runs_as_well() -> None:
    for claim in (gaussian_claim(Budget(2.0, 1e-5)), pure_claim(Budget(2.0, 1e-5))):
        assert runs_for_power(claim, 0.95, pairs=8) > 1.2 * runs_for_power(claim, 0.95)


def test_a_suspicion_says_how_many_runs_would_prove_it() -> None:
    claim = gaussian_claim(Budget(2.0, 1e-5))
    game = evidence(claim, 375, 640)
    more = runs_to_reject(game)
    assert more is not None
    judged = more // 2
    assert claim.proven(round(0.375 * judged), round(0.64 * judged), judged, 0.975) > claim.size
    assert judge({"game": game}, claim, confidence=0.95).more_runs == more
    assert runs_to_reject(evidence(claim, 500, 500)) is None


def test_every_game_of_the_method_must_be_powerful_and_one_violation_is_enough() -> None:
    claim = pure_claim(Budget(8.0, 1e-5))
    weak, strong = evidence(claim, 0, 1000), evidence(claim, 3, 19_990, judged=20_000)
    assert judge({"method": weak}, claim, confidence=0.95).word == INCONCLUSIVE
    assert judge({"method": strong}, claim, confidence=0.95).word == CONSISTENT
    assert judge({"method": strong, "fit": weak}, claim, confidence=0.95).word == INCONCLUSIVE
    guilty = evidence(gaussian_claim(Budget(1.0, 1e-5)), 100, 900)
    verdict = judge({"method": weak, "mechanism": guilty}, claim, confidence=0.95, reproduce="again")
    assert verdict.word == VIOLATED
    assert len(verdict.reasons) == 1
    assert verdict.reproduce == "again"


def test_a_game_that_does_not_play_the_method_cannot_acquit_it() -> None:
    claim = pure_claim(Budget(8.0, 1e-5))
    weak, strong = evidence(claim, 0, 1000), evidence(claim, 3, 19_990, judged=20_000)
    parts = {"confidence": 0.95, "parts": ("mechanism",)}
    assert judge({"mechanism": strong}, claim, **parts).word == INCONCLUSIVE
    assert judge({"method": weak, "mechanism": strong}, claim, **parts).word == INCONCLUSIVE
    assert judge({"method": strong, "mechanism": weak}, claim, **parts).word == CONSISTENT


def test_a_broken_promise_needs_no_game() -> None:
    claim = gaussian_claim(Budget(1.0, 1e-5))
    verdict = judge({}, claim, confidence=0.95, broken=("claims more than was asked for",))
    assert (verdict.word, verdict.reasons) == (VIOLATED, ("claims more than was asked for",))


def test_one_run_can_convict_but_not_acquit() -> None:
    claim = gaussian_claim(Budget(1.0, 1e-5))
    run = OneRun(500, 100, 99, 1e-5, 0.95, 2.9, SCORED, 0)
    assert judge({}, claim, confidence=0.95, one_run=run).word == VIOLATED
    harmless = replace(run, correct=50, epsilon_lower=0.0)
    assert judge({}, claim, confidence=0.95, one_run=harmless).word == INCONCLUSIVE


@pytest.mark.parametrize(("epsilon", "at_most"), [(1.0, 3000), (2.0, 900), (8.0, 200)])
def test_gaussian_claims_need_few_runs(epsilon: float, at_most: int) -> None:
    assert runs_for_power(gaussian_claim(Budget(epsilon, 1e-5)), 0.95) <= at_most


def test_pure_claims_of_a_large_epsilon_need_many() -> None:
    """Rates of e^-8 must be seen: no way around e^8 runs."""
    assert runs_for_power(pure_claim(Budget(8.0, 1e-5)), 0.95) > 2 * math.exp(8)
    assert runs_for_power(pure_claim(Budget(1.0, 1e-5)), 0.95) < 400


def test_a_claim_that_no_feasible_number_of_runs_decides_is_inconclusive() -> None:
    claim = pure_claim(Budget(20.0, 1e-5))
    assert runs_for_power(claim, 0.95) is None
    game = replace(evidence(claim, 0, 1000), planned=10**8)
    assert not powerful(game)
    verdict = judge({"game": game}, claim, confidence=0.95)
    assert (verdict.word, verdict.more_runs) == (INCONCLUSIVE, None)
    assert "no feasible number" in verdict.reasons[0]


def test_a_claim_of_zero_needs_more_than_the_fewest_runs() -> None:
    assert runs_for_power(Claim(1.0, 1e-5, events=(EpsilonDelta(0.0),)), 0.95) > 80


def test_an_earlier_block_is_suspicious_too() -> None:
    claim = gaussian_claim(Budget(2.0, 1e-5))
    game = evidence(claim, 400, 600)
    early = replace(game.judgements[0], runs=500, false=170, true=330, leak=0.0)
    verdict = judge({"game": replace(game, judgements=(early, *game.judgements))}, claim, confidence=0.95)
    assert verdict.word == INCONCLUSIVE
    assert "at confidence 0.95" in verdict.reasons[0]


def test_a_reader_is_told_how_rare_an_event_was_not_seen() -> None:
    claim = pure_claim(Budget(1.0, 1e-5))
    share = rarest_seen(claim, 1000, 0.975)
    seen, unseen = (
        claim.proven(0, hits, 1000, 0.975) > claim.size for hits in (round(1000 * share), round(1000 * share) - 1)
    )
    assert seen
    assert not unseen
    assert f"fewer than 1 in {1 / share:.3g} releases" in describe_consistent("game", evidence(claim, 500, 500))
    assert rarest_seen(claim, 10, 0.975) == 1.0


def test_a_view_that_was_too_wide_is_named() -> None:
    game = evidence(gaussian_claim(Budget(2.0, 1e-5)), 500, 500)
    assert "columns" not in describe_consistent("game", game)
    assert "the transcript had 384 columns, too many" in describe_consistent("game", replace(game, uncorrelated=384))


def test_what_an_epsilon_follows_from_is_said() -> None:
    """Randomized response of epsilon 1.5 is far within (4, 1e-5), and not mu-GDP for the mu of a Gaussian at (4, 1e-5)."""
    claim = gaussian_claim(Budget(4.0, 1e-5))
    verdict = judge({"game": evidence(claim, 182, 818)}, claim, confidence=0.95)
    assert verdict.word == VIOLATED
    assert "the claim of mu-GDP is false" in verdict.reasons[0]
    record = verdict.to_json()
    assert record["mu_lower"] > claim.size
    assert record["epsilon_lower"] > 4
    assert "Gaussian as claimed" in record["epsilon_lower_by"]
    assert 1.2 < record["epsilon_lower_by_rates"] < 1.5
    assert "by rates alone epsilon >= 1." in verdict.proven()
    pure = pure_claim(Budget(2.0, 1e-5))
    record = judge({"game": evidence(pure, 182, 818)}, pure, confidence=0.95).to_json()
    assert record["mu_lower"] is None
    assert record["epsilon_lower_by"] == "the rates of a test alone"


def test_what_no_game_has_tried_is_said_where_nothing_is_found() -> None:
    claim = gaussian_claim(Budget(2.0, 1e-5))
    found = judge({"game": evidence(claim, 400, 600)}, claim, confidence=0.95, untried=("only a training node",))
    assert found.reasons[-1] == "only a training node"


# -- claims --------------------------------------------------------------------------------------------------------


def test_kinds_of_claims() -> None:
    budget = Budget(2.0, 1e-5)
    assert gaussian_claim(budget).kind == "mu"
    assert pure_claim(budget).pure
    mixed = Claim.of_events([Gaussian(5.0), EpsilonDelta(0.5)], budget)
    assert (mixed.kind, mixed.pure) == ("epsilon", False)
    assert mixed.size <= 2.0
    assert Claim(2.0, 1e-5).size == 2.0
    assert not Claim.of_events([NonPrivate()], budget).is_private
    groups = Claim.of_events([Parallel(((Gaussian(5.0),), (Gaussian(2.0),)))], budget)
    assert groups.mu == pytest.approx(0.5)
    assert Claim.of_events([Parallel(((Gaussian(5.0),), (Laplace(1.0),)))], budget).kind == "epsilon"
    with pytest.raises(InputError, match="epsilon must be a number > 0"):
        Claim(0.0, 1e-5)


def test_events_that_cost_more_than_the_stated_epsilon_do_not_widen_a_claim() -> None:
    stated = gaussian_claim(Budget(1.0, 1e-5))
    wide = Claim(1.0, 1e-5, events=(Gaussian(0.05),))
    assert wide.mu == 20
    assert wide.size == pytest.approx(stated.size, rel=1e-6)
    assert Claim(1.0, 1e-5, events=(Gaussian(100.0),)).size == 0.01, "events that cost less are held to what they cost"
    assert Claim(1.0, 0.0, events=(Gaussian(0.05),)).kind == "epsilon"
    assert word(wide, 300, 700) == VIOLATED


@pytest.mark.parametrize("cheap", [Gaussian(9.0), EpsilonDelta(0.5)])
def test_a_group_that_spends_more_than_was_asked_for_breaks_the_promise(cheap: Event) -> None:
    budget = Budget(1.0, 1e-5, "node")
    fit = fits.fit(MlpDp(), member_pair().joined, budget, Streams(0), NoiseSource.seeded(0)).certificate
    assert weaker_than_asked(fit, budget) is None
    groups = {"training nodes": [event_to_dict(cheap)], "others": [event_to_dict(Gaussian(0.5))]}
    worse = replace(fit, public_parameters={**fit.public_parameters, "groups": groups})
    assert "claims epsilon = 9.99" in (weaker_than_asked(worse, budget) or "")


def test_what_a_claim_allows() -> None:
    claim = gaussian_claim(Budget(4.0, 1e-5))
    for fpr in (0.001, 0.1, 0.6):
        assert claim.leak(fpr, claim.allowed(fpr)) == pytest.approx(claim.size, rel=1e-9)
    pure = pure_claim(Budget(1.0, 1e-5))
    assert pure.allowed(0.1) == pytest.approx(0.1 * math.e)
    assert pure.leak(0.1, pure.allowed(0.1)) == pytest.approx(1.0)
    assert claim.as_epsilon(claim.size) == pytest.approx(4.0, rel=1e-6)
    assert claim.as_epsilon(0.0) == 0
