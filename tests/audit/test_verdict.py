"""When each word is said, and what the reasons say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from audit.counted_evidence import SCORED, counted
from audit.known_bad_mechanisms.known_bad import gaussian_claim, pure_claim
from caribou.audit.claims import Claim
from caribou.audit.distinguish import distinguish
from caribou.audit.evidence import OneRun
from caribou.audit.pairs import worst_pairs
from caribou.audit.power import runs_for_power
from caribou.audit.verdict import CONSISTENT, INCONCLUSIVE, VIOLATED, judge
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.budget import Budget


def word(claim: Claim, false: int, true: int, judged: int = 1000) -> str:
    return judge({"game": counted(claim, false, true, judged)}, claim, confidence=0.95).word


def test_each_word() -> None:
    claim = gaussian_claim(Budget(2.0, 1e-5))  # mu = 0.50
    assert word(claim, 400, 600) == CONSISTENT
    assert word(claim, 500, 500) == CONSISTENT
    assert word(claim, 300, 700) == VIOLATED
    assert word(claim, 375, 640) == INCONCLUSIVE, "suspicious, not proven"
    assert word(claim, 40, 60, judged=100) == INCONCLUSIVE, "too few"


def test_every_game_of_the_method_must_be_powerful_and_one_violation_is_enough() -> None:
    claim = pure_claim(Budget(8.0, 1e-5))
    weak, strong = counted(claim, 0, 1000), counted(claim, 6, 29_985, judged=30_000)
    assert judge({"method": weak}, claim, confidence=0.95).word == INCONCLUSIVE
    assert judge({"method": strong}, claim, confidence=0.95).word == CONSISTENT
    assert judge({"method": strong, "fit": weak}, claim, confidence=0.95).word == INCONCLUSIVE
    leaky = counted(gaussian_claim(Budget(1.0, 1e-5)), 100, 900)
    verdict = judge({"method": weak, "mechanism": leaky}, claim, confidence=0.95, reproduce="again")
    assert verdict.word == VIOLATED
    assert len(verdict.reasons) == 1
    assert verdict.reproduce == "again"


def test_a_game_that_does_not_play_the_method_cannot_accept_the_claim() -> None:
    claim = pure_claim(Budget(8.0, 1e-5))
    weak, strong = counted(claim, 0, 1000), counted(claim, 6, 29_985, judged=30_000)
    parts = {"confidence": 0.95, "parts": ("mechanism",)}
    assert judge({"mechanism": strong}, claim, **parts).word == INCONCLUSIVE
    assert judge({"method": weak, "mechanism": strong}, claim, **parts).word == INCONCLUSIVE
    assert judge({"method": strong, "mechanism": weak}, claim, **parts).word == CONSISTENT


def test_a_broken_promise_needs_no_game() -> None:
    claim = gaussian_claim(Budget(1.0, 1e-5))
    verdict = judge({}, claim, confidence=0.95, broken=("claims more than was asked for",))
    assert (verdict.word, verdict.reasons) == (VIOLATED, ("claims more than was asked for",))


def test_one_run_can_reject_the_claim_but_not_accept_it() -> None:
    claim = gaussian_claim(Budget(1.0, 1e-5))
    run = OneRun(claim, 500, 100, 99, 0.95, SCORED, 0)
    assert judge({"onerun": run}, claim, confidence=0.95).word == VIOLATED
    harmless = replace(run, correct=50)
    assert judge({"onerun": harmless}, claim, confidence=0.95).word == INCONCLUSIVE


def test_a_claim_that_no_feasible_number_of_runs_decides_is_inconclusive() -> None:
    claim = pure_claim(Budget(20.0, 1e-5))
    assert runs_for_power(claim, 0.95) is None
    game = replace(counted(claim, 0, 1000), planned=10**8)
    assert not game.powerful
    verdict = judge({"game": game}, claim, confidence=0.95)
    assert (verdict.word, verdict.more_runs) == (INCONCLUSIVE, None)
    assert "no feasible number" in verdict.reasons[0]


def test_an_earlier_block_is_suspicious_too() -> None:
    claim = gaussian_claim(Budget(2.0, 1e-5))
    game = counted(claim, 400, 600)
    early = replace(game.judgements[0], runs=500, false=170, true=330, leak=0.0)
    verdict = judge({"game": replace(game, judgements=(early, *game.judgements))}, claim, confidence=0.95)
    assert verdict.word == INCONCLUSIVE
    assert "at confidence 0.95" in verdict.reasons[0]


def test_what_an_epsilon_follows_from_is_said() -> None:
    """Randomized response of epsilon 1.5 is far within (4, 1e-5), and not mu-GDP for the mu of a Gaussian at (4, 1e-5)."""
    claim = gaussian_claim(Budget(4.0, 1e-5))
    verdict = judge({"game": counted(claim, 182, 818)}, claim, confidence=0.95)
    assert verdict.word == VIOLATED
    assert "the claim of mu-GDP is false" in verdict.reasons[0]
    record = verdict.to_json()
    assert record["mu_lower"] > claim.size
    assert record["epsilon_lower"] > 4
    assert "Gaussian as claimed" in record["epsilon_lower_by"]
    assert 1.2 < record["epsilon_lower_by_rates"] < 1.5
    assert "by rates alone epsilon >= 1." in verdict.proven()
    pure = pure_claim(Budget(2.0, 1e-5))
    record = judge({"game": counted(pure, 182, 818)}, pure, confidence=0.95).to_json()
    assert record["mu_lower"] is None
    assert record["epsilon_lower_by"] == "the rates of a test alone"


def test_what_would_decide_is_said_of_every_doubt() -> None:
    """Too few runs: those that see twice the claim. A suspicious test: those that reject by a test with such rates."""
    claim = gaussian_claim(Budget(2.0, 1e-5))
    few = judge({"game": counted(claim, 40, 60, judged=100)}, claim, confidence=0.95)
    assert few.more_runs == runs_for_power(claim, 0.95)
    suspicious = judge({"game": counted(claim, 375, 640)}, claim, confidence=0.95)
    assert suspicious.more_runs == runs_for_power(claim, 0.95, rates=(375.5 / 1001, 640.5 / 1001))
    assert suspicious.more_runs > 2000, "more than were played"
    assert str(suspicious.more_runs) in suspicious.reasons[0]
    assert judge({"game": counted(claim, 500, 500)}, claim, confidence=0.95).more_runs is None


@pytest.mark.slow
def test_noise_of_half_the_scale_is_rejected_with_the_runs_that_are_enough() -> None:
    """Laplace noise on counts at both ends of an edge, over all pairs: `consistent` would say that it was put to the test."""
    claim = Claim(2.0, 0.0)

    def half(graph: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        counts = graph.adjacency(np.float64) @ np.eye(graph.num_classes)[graph.labels]
        return {"counts": noise.add_laplace(counts, scale=1 / claim.epsilon)}

    pairs = worst_pairs("edge")
    runs = runs_for_power(claim, 0.95, len(pairs))
    games = [distinguish(half, pairs, claim, runs=runs, seed=seed) for seed in range(8)]
    assert sum(game.rejects_claim for game in games) >= 6, "of 10 at least 9 are to be expected"
