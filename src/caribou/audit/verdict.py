"""The verdict on a claim, from the evidence of several games.

With L the proven lower bound of a game, c the claim (both in mu where the claim is mu-GDP, else in epsilon), at a confidence that
is shared by all games of an audit:

* ``VIOLATED``: L > c in some game. With probability at least the confidence this is never said of a claim that holds. Also if a
  certificate claims less than was asked for.
* ``inconclusive``: not violated, and either the runs are too few in a game that plays what is audited (not a part or a model of
  it), so that a release which leaks twice what it claims would be convicted with a probability below 9/10; or a test is
  suspicious: at confidence 9/10 it exceeds the claim. Both come with the number of runs that would decide.
* ``consistent``: otherwise. No test that was tried shows more than was claimed, and the runs were enough to see twice as much.

The confidence is that of one call: whoever audits again and again until a claim is violated, or until it is not, has another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from scipy import stats

from caribou.audit.claims import Claim
from caribou.audit.distinguish import BLOCKS, Evidence, Judgement, block_sizes, error_shares
from caribou.audit.onerun import OneRun
from caribou.privacy.certificate import json_number

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
"""At which the last block is suspicious; earlier ones at a level that is stricter as their share of the error is smaller."""
LEAST_SEEN = 1.0
"""Of a claim of zero, which has no double: the epsilon that the runs must be able to see."""
MOST_RUNS = 10**7
"""More are not feasible."""
BY_MU = "the proven mu at the claimed delta, right if the release is Gaussian as claimed"
BY_RATES = "the rates of a test alone"
BY_GUESSES = "right guesses about canaries in one run"


@dataclass(frozen=True, eq=False)
class Verdict:
    """The outcome of an audit. ``word``: consistent, VIOLATED or inconclusive; ``reasons``: one sentence each.

    ``epsilon_by``: what ``epsilon_lower`` follows from. Of a mu-GDP claim what is proven is ``mu_lower``; a release that is not
    Gaussian may exceed a claimed mu and keep its epsilon, so ``epsilon_by_rates`` says what follows without that assumption.
    """

    word: str
    claim: Claim
    epsilon_lower: float
    confidence: float
    reasons: tuple[str, ...]
    more_runs: int | None = None
    reproduce: str | None = None
    epsilon_by: str = BY_RATES
    mu_lower: float | None = None
    epsilon_by_rates: float = 0.0

    def proven(self) -> str:
        """What is proven, in words."""
        text = f"epsilon >= {self.epsilon_lower:.3g}"
        if self.mu_lower is None or self.epsilon_by != BY_MU:
            return text
        return (
            f"mu >= {self.mu_lower:.3g}, which is {text} for a release that is Gaussian as claimed; by rates alone "
            f"epsilon >= {self.epsilon_by_rates:.3g}"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "verdict": self.word,
            "epsilon_lower": json_number(self.epsilon_lower),
            "epsilon_lower_by": self.epsilon_by,
            "epsilon_lower_by_rates": json_number(self.epsilon_by_rates),
            "mu_lower": None if self.mu_lower is None else json_number(self.mu_lower),
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
    untried: Sequence[str] = (),
) -> Verdict:
    """Weigh distinguishing games (each played at its own share of the error) and a one-run audit against the claim.

    ``parts``: games that play a part of what is audited, or a model of it; they can convict, not acquit. ``broken``: promises
    that are broken in plain words, whatever games show. ``untried``: what no game has tried; said where nothing is found.
    """
    by_guesses = one_run.epsilon_lower if one_run else 0.0
    each = [(e.epsilon_lower, BY_MU if e.claim.kind == "mu" else BY_RATES) for e in games.values()]
    lower, by = max([*each, *([(by_guesses, BY_GUESSES)] if one_run else [])], default=(0.0, BY_RATES))

    def said(word: str, reasons: Sequence[str], more_runs: int | None = None) -> Verdict:
        mu = max((e.leak for e in games.values() if e.claim.kind == "mu"), default=None)
        rates = max([e.epsilon_by_rates for e in games.values()] + [by_guesses])
        return Verdict(word, claim, lower, confidence, tuple(reasons), more_runs, reproduce, by, mu, rates)

    guilty = [*broken, *(describe_violation(name, e) for name, e in games.items() if e.rejects_claim)]
    if one_run is not None and one_run.epsilon_lower > claim.epsilon:
        guilty.append(one_run.describe())
    if guilty:
        return said(VIOLATED, guilty)
    whole = {name: e for name, e in games.items() if name not in parts}
    if not whole:
        text = "the method itself was not played against the claim; attacks alone measure and prove nothing"
        if one_run is not None:
            text = "one run with canaries can convict, not acquit: the method itself was not played against the claim"
        return said(INCONCLUSIVE, (text,))
    doubts = [doubt for name, e in games.items() if (doubt := _suspicion(name, e)) is not None]
    doubts += [_too_few(name, e) for name, e in whole.items() if not powerful(e)]
    if doubts:
        runs = [needed for _, needed in doubts if needed is not None]
        return said(INCONCLUSIVE, [text for text, _ in doubts], max(runs, default=None))
    reasons = [*(describe_consistent(name, e) for name, e in games.items()), *untried]
    if lower < FOUND_LITTLE * claim.epsilon:
        reasons.append(
            "the tests that were tried found next to nothing: this shows that they fail, not how much a better one finds"
        )
    return said(CONSISTENT, reasons)


def describe_violation(name: str, evidence: Evidence) -> str:
    """The evidence against a claim in one sentence."""
    best, claim = evidence.best, evidence.claim
    false = f"; the claim of mu-GDP is false (by rates alone epsilon >= {evidence.epsilon_by_rates:.3g})"
    return (
        f"{name}, pair '{evidence.pair}': the test '{best.test}' is right on {best.true} of {best.runs} runs of one graph and "
        f"wrong on {best.false} of {best.runs} of the other, which proves {claim.kind} >= {best.leak:.3g} at confidence "
        f"{best.confidence:.4g}; claimed is {claim.size:.3g}{false if claim.kind == 'mu' else ''}"
    )


def describe_consistent(name: str, evidence: Evidence) -> str:
    """What a game without a finding says."""
    claim = evidence.claim
    share = evidence.leak / claim.size if claim.size > 0 else 0.0
    last = evidence.judgements[-1]
    text = (
        f"{name}, pair '{evidence.pair}': {claim.kind} >= {evidence.leak:.3g} is proven, {share:.0%} of the claimed "
        f"{claim.size:.3g}, with {evidence.runs} runs per graph; an event that happens in fewer than 1 in "
        f"{1 / rarest_seen(claim, last.runs, last.confidence):.3g} releases would not have been seen"
    )
    if evidence.uncorrelated:
        text += (
            f"; the transcript had {evidence.uncorrelated} columns, too many to look at how pairs of them go together"
        )
    return text


def rarest_seen(claim: Claim, judged: int, confidence: float) -> float:
    """The share of releases that an event must have to convict on ``judged`` runs; one that is rarer is not seen.

    Of an event that never happens in one of the two worlds, so that it alone refutes any claim: the smallest true count k that
    proves more than the claim beside no false one, over the runs. For a pure claim that is about 4 e^epsilon / judged.
    """
    return min(1.0, _needed_hits(claim, 0, judged, confidence) / judged)


def powerful(evidence: Evidence) -> bool:
    """Whether the planned runs were enough to see FACTOR times the claim."""
    needed = runs_for_power(evidence.claim, evidence.confidence, evidence.pairs)
    return needed is not None and evidence.planned >= needed


def _too_few(name: str, evidence: Evidence) -> tuple[str, int | None]:
    needed = runs_for_power(evidence.claim, evidence.confidence, evidence.pairs)
    text = f"{name}: {evidence.planned} runs per graph are too few to convict a release that leaks twice its claim"
    enough = f"no feasible number (up to {MOST_RUNS:,})" if needed is None else str(needed)
    return f"{text}; {enough} would be enough", needed


def _suspicion(name: str, evidence: Evidence) -> tuple[str, int | None] | None:
    claim, shares = evidence.claim, error_shares(BLOCKS - 1)
    for judged, share in zip(evidence.judgements[::-1], shares[::-1], strict=False):
        level = 1 - (1 - SUSPICION) * share / shares[-1]
        if claim.proven(judged.false, judged.true, judged.runs, level) > claim.size:
            text = f"{name}: the test '{judged.test}' exceeds the claim at confidence {level:g}, but not beyond"
            return text, runs_to_reject(evidence, judged)
    return None


# -- how many runs -------------------------------------------------------------------------------------------------


def runs_for_power(claim: Claim, confidence: float, pairs: int = 1) -> int | None:
    """Runs per graph that convict a release which leaks FACTOR times the claim with probability POWER; None if not feasible.

    By the best test: mu-GDP: Gaussians at distance FACTOR mu, each threshold a test; else randomized response of FACTOR epsilon,
    whose single test has TPR = e^eps / (1 + e^eps) and FPR = 1 - TPR. Times what choosing a test, and one of ``pairs``, costs.
    """
    best = _smallest(lambda runs: power(claim, runs, confidence) >= POWER)
    if best is None:
        return None
    return _two_digits(best * CHOOSING_A_TEST[claim.kind] * (CHOOSING_A_PAIR if pairs > 1 else 1.0))


def power(claim: Claim, runs: int, confidence: float) -> float:
    """The probability that ``runs`` runs convict a release that leaks FACTOR times the claim: the best test, the last block."""
    judged = block_sizes(runs)[-1]
    level = 1 - error_shares(BLOCKS - 1)[-1] * (1 - confidence)
    return _power(claim.kind, claim.size, claim, judged, level)


@lru_cache(maxsize=4096)
def _power(kind: str, size: float, claim: Claim, judged: int, level: float) -> float:
    surest = ((1 - level) / 2) ** (1 / judged)  # the limits of rates after all or none of the runs
    if claim.leak(1 - surest, surest) <= size:
        return 0.0
    if kind == "mu":
        half = FACTOR * size / 2
        rates = [(stats.norm.cdf(-half - shift), stats.norm.cdf(half - shift)) for shift in (0.0, half / 2, half)]
    else:
        truth = 1 / (1 + math.exp(-min(FACTOR * size or LEAST_SEEN, 700.0)))
        rates = [(1 - truth, truth)]
    return max(_rejection_rate(claim, fpr, tpr, judged, level) for fpr, tpr in rates)


def _rejection_rate(claim: Claim, fpr: float, tpr: float, judged: int, level: float) -> float:
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


def _smallest(enough: Callable[[int], bool]) -> int | None:
    """The smallest number of runs, to two digits, that is enough; None if MOST_RUNS are not."""
    high = 80
    while not enough(high):
        high *= 2
        if high > MOST_RUNS:
            return None
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


def runs_to_reject(evidence: Evidence, judged: Judgement | None = None) -> int | None:
    """Runs per graph with which the rates that were seen (in the last block) would refute the claim; None if no number does."""
    claim, last = evidence.claim, judged or evidence.judgements[-1]
    if claim.leak(last.false / last.runs, last.true / last.runs) <= claim.size:
        return None

    def enough(runs: int) -> bool:
        judged = block_sizes(runs)[-1]
        counts: Sequence[int] = [round(hits * judged / last.runs) for hits in (last.false, last.true)]
        return claim.proven(counts[0], counts[1], judged, last.confidence) > claim.size

    return _smallest(enough)
