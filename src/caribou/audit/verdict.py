"""The verdict on a claim, from the evidence of several games.

With L the proven lower bound of a game, c the claim (both in mu where the claim is mu-GDP, else in epsilon), at a confidence that
is shared by all games of an audit:

* ``VIOLATED``: L > c in some game. With probability at least the confidence this is never said of a claim that holds. Also if a
  certificate claims less than was asked for.
* ``inconclusive``: not violated, and either the runs are too few in a game that plays what is audited (not a part or a model of
  it), so that a release which leaks twice what it claims would be convicted with a probability below 9/10; or a test is
  suspicious: at confidence 9/10 it exceeds the claim. Both come with the number of runs that would decide.
* ``consistent``: otherwise. No test that was tried shows more than was claimed, and the runs were enough to see twice as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from scipy import stats

from caribou.audit.claims import Claim
from caribou.audit.distinguish import BLOCKS, Evidence, block_sizes, error_shares
from caribou.audit.onerun import OneRun

CONSISTENT, VIOLATED, INCONCLUSIVE = "consistent", "VIOLATED", "inconclusive"
FACTOR = 2.0
"""An audit must be able to see a release that leaks this many times what it claims."""
POWER = 0.9
FOUND_LITTLE = 0.1
"""Below this share of the claimed epsilon a reader is told that little was found."""
CHOOSING_A_TEST = {"mu": 1.5, "epsilon": 1.0}
CHOOSING_A_PAIR = 4 / 3
"""How many times the runs of the best test it takes if the test, and the pair out of several, are chosen by earlier runs.

Measured, not derived: docs/decisions.md. A test between Gaussians needs its threshold and its direction; one of randomized
response has a single threshold.
"""
SUSPICION = 0.9
MOST_RUNS = 10**7


@dataclass(frozen=True, eq=False)
class Verdict:
    """The outcome of an audit. ``word``: consistent, VIOLATED or inconclusive; ``reasons``: one sentence each."""

    word: str
    claim: Claim
    epsilon_lower: float
    confidence: float
    reasons: tuple[str, ...]
    more_runs: int | None = None
    reproduce: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "verdict": self.word,
            "epsilon_lower": self.epsilon_lower if math.isfinite(self.epsilon_lower) else "inf",
            "confidence": self.confidence,
            "reasons": list(self.reasons),
            "runs_that_would_decide": self.more_runs,
            "reproduce": self.reproduce,
        }


def judge(
    games: Mapping[str, Evidence],
    claim: Claim,
    *,
    confidence: float,
    one_run: OneRun | None = None,
    reproduce: str | None = None,
    parts: Collection[str] = (),
    broken: Sequence[str] = (),
) -> Verdict:
    """Weigh distinguishing games (each played at its own share of the error) and a one-run audit against the claim.

    ``parts``: games that play a part of what is audited, or a model of it; they can convict, not acquit. ``broken``: promises
    that are broken in plain words, whatever games show.
    """
    lower = max([e.epsilon_lower for e in games.values()] + ([one_run.epsilon_lower] if one_run else []), default=0.0)
    guilty = [*broken, *(describe_violation(name, e) for name, e in games.items() if e.refuted)]
    if one_run is not None and one_run.epsilon_lower > claim.epsilon:
        guilty.append(one_run.describe())
    if guilty:
        return Verdict(VIOLATED, claim, lower, confidence, tuple(guilty), None, reproduce)
    whole = {name: e for name, e in games.items() if name not in parts}
    if not whole:
        text = "no game was played that could refute the claim; attacks alone measure and prove nothing"
        return Verdict(INCONCLUSIVE, claim, lower, confidence, (text,), None, reproduce)
    doubts = [doubt for name, e in games.items() if (doubt := _suspicion(name, e)) is not None]
    doubts += [_too_few(name, e) for name, e in whole.items() if not powerful(e)]
    if doubts:
        runs = [needed for _, needed in doubts if needed is not None]
        reasons = tuple(text for text, _ in doubts)
        return Verdict(INCONCLUSIVE, claim, lower, confidence, reasons, max(runs, default=None), reproduce)
    reasons = tuple(describe_consistent(name, e) for name, e in games.items())
    if lower < FOUND_LITTLE * claim.epsilon:
        reasons += (
            "the tests that were tried found next to nothing: this shows that they fail, not how much a better one finds",
        )
    return Verdict(CONSISTENT, claim, lower, confidence, reasons, None, reproduce)


def describe_violation(name: str, evidence: Evidence) -> str:
    """The evidence against a claim in one sentence."""
    best, claim = evidence.best, evidence.claim
    return (
        f"{name}, pair '{evidence.pair}': the test '{best.test}' is right on {best.true} of {best.runs} runs of one graph and "
        f"wrong on {best.false} of {best.runs} of the other, which proves {claim.kind} >= {best.leak:.3g} at confidence "
        f"{best.confidence:.4g}; claimed is {claim.size:.3g}"
    )


def describe_consistent(name: str, evidence: Evidence) -> str:
    """What a game without a finding says."""
    claim = evidence.claim
    share = evidence.leak / claim.size if claim.size > 0 else 0.0
    return (
        f"{name}, pair '{evidence.pair}': {claim.kind} >= {evidence.leak:.3g} is proven, {share:.0%} of the claimed "
        f"{claim.size:.3g}, with {evidence.runs} runs per graph"
    )


def powerful(evidence: Evidence) -> bool:
    """Whether the planned runs were enough to see FACTOR times the claim."""
    return evidence.planned >= runs_for_power(evidence.claim, evidence.confidence, evidence.pairs)


def _too_few(name: str, evidence: Evidence) -> tuple[str, int]:
    needed = runs_for_power(evidence.claim, evidence.confidence, evidence.pairs)
    text = f"{name}: {evidence.planned} runs per graph are too few to convict a release that leaks twice its claim"
    return f"{text}; {needed} would be enough", needed


def _suspicion(name: str, evidence: Evidence) -> tuple[str, int | None] | None:
    claim, last = evidence.claim, evidence.judgements[-1]
    if claim.proven(last.false, last.true, last.runs, SUSPICION) <= claim.size:
        return None
    text = f"{name}: the test '{last.test}' exceeds the claim at confidence {SUSPICION:g}, but not beyond"
    return text, runs_to_convict(evidence)


# -- how many runs -------------------------------------------------------------------------------------------------


def runs_for_power(claim: Claim, confidence: float, pairs: int = 1) -> int:
    """Runs per graph that convict a release which leaks FACTOR times the claim with probability POWER.

    By the best test: mu-GDP: Gaussians at distance FACTOR mu, each threshold a test; else randomized response of FACTOR epsilon,
    whose single test has TPR = e^eps / (1 + e^eps) and FPR = 1 - TPR. Times what choosing a test, and one of ``pairs``, costs.
    """
    best = _smallest(lambda runs: power(claim, runs, confidence) >= POWER)
    return _two_digits(best * CHOOSING_A_TEST[claim.kind] * (CHOOSING_A_PAIR if pairs > 1 else 1.0))


def power(claim: Claim, runs: int, confidence: float) -> float:
    """The probability that ``runs`` runs convict a release that leaks FACTOR times the claim: the best test, the last block."""
    if claim.size <= 0:
        return 1.0  # nothing at all may be seen: whatever is proven refutes it
    judged = block_sizes(runs)[-1]
    level = 1 - error_shares(BLOCKS - 1)[-1] * (1 - confidence)
    return _power(claim.kind, claim.size, claim, judged, level)


@lru_cache(maxsize=4096)
def _power(kind: str, size: float, claim: Claim, judged: int, level: float) -> float:
    if kind == "mu":
        half = FACTOR * size / 2
        rates = [(stats.norm.cdf(-half - shift), stats.norm.cdf(half - shift)) for shift in (0.0, half / 2, half)]
    else:
        truth = 1 / (1 + math.exp(-min(FACTOR * size, 700.0)))
        rates = [(1 - truth, truth)]
    return max(_conviction_rate(claim, fpr, tpr, judged, level) for fpr, tpr in rates)


def _conviction_rate(claim: Claim, fpr: float, tpr: float, judged: int, level: float) -> float:
    """P[proven > size] for two binomial counts: the smallest true count that convicts, for each likely false count."""
    low, high = (int(stats.binom.ppf(q, judged, fpr)) for q in (1e-4, 1 - 1e-4))
    step = max(1, (high - low) // 40)
    total = weight = 0.0
    for false in range(low, high + 1, step):
        p = float(stats.binom.pmf(false, judged, fpr))
        total += p * float(stats.binom.sf(_needed_hits(claim, false, judged, level) - 1, judged, tpr))
        weight += p
    return total / weight if weight > 0 else 0.0


def _needed_hits(claim: Claim, false: int, judged: int, level: float) -> int:
    """The smallest number of true positives that convicts beside ``false`` false ones; judged + 1 if none does."""
    low, high = 0, judged + 1
    while low < high:
        middle = (low + high) // 2
        if claim.proven(false, middle, judged, level) > claim.size:
            high = middle
        else:
            low = middle + 1
    return low


def _smallest(enough: Callable[[int], bool]) -> int:
    """The smallest number of runs, to two digits, that is enough; MOST_RUNS if none is."""
    high = 80
    while not enough(high):
        high *= 2
        if high > MOST_RUNS:
            return MOST_RUNS
    low = high // 2
    while high - low > max(8, low // 50):
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return _two_digits(high)


def _two_digits(runs: float) -> int:
    """Rounded up."""
    unit = 10 ** max(0, len(str(int(runs))) - 2)
    return unit * math.ceil(runs / unit - 1e-9)


def runs_to_convict(evidence: Evidence) -> int | None:
    """Runs per graph with which the rates that were seen would refute the claim; None if no number does."""
    claim, last = evidence.claim, evidence.judgements[-1]
    if claim.leak(last.false / last.runs, last.true / last.runs) <= claim.size:
        return None

    def enough(runs: int) -> bool:
        judged = block_sizes(runs)[-1]
        counts: Sequence[int] = [round(hits * judged / last.runs) for hits in (last.false, last.true)]
        return claim.proven(counts[0], counts[1], judged, last.confidence) > claim.size

    return _smallest(enough)
