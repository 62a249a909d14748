"""The verdict on a claim, from the evidence of several games.

L is the proven lower bound of a game and c the claim, both in mu where the claim is mu-GDP, else in epsilon. All games of an
audit share one confidence.

* ``VIOLATED``: the claim is rejected. L > c in some game; a claim that holds is rejected with probability at most 1 - confidence.
  Also if a certificate claims less than was asked for.
* ``inconclusive``: not violated, and one of three doubts is left. Either a game that plays what is audited (not a part or a model
  of it) has too few runs: a mechanism that leaks twice its claim would be rejected with a probability below 9/10. Or a test is
  suspicious: at confidence 9/10 it exceeds the claim. Or all runs of a method that claims noise handed out the same. The first
  two come with the number of runs that settles them in 9 of 10 audits.
* ``consistent``: otherwise. The evidence is consistent with the claim: no test that was tried shows more, and the runs were
  enough to see twice as much.

The confidence is that of one call: whoever audits again and again until a claim is violated, or until it is not, has another one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from caribou.audit.claims import Claim
from caribou.audit.evidence import Evidence, OneRun, Proof
from caribou.audit.power import BLOCKS, MAX_RUNS, error_shares, rarest_seen, runs_for_power
from caribou.errors import InputError
from caribou.privacy.documents import json_number

CONSISTENT, VIOLATED, INCONCLUSIVE = "consistent", "VIOLATED", "inconclusive"
FOUND_LITTLE = 0.1
"""Below this share of the claimed epsilon the verdict says that little was found."""
SUSPICION = 0.9
"""At this confidence the last block is suspicious; earlier ones at a stricter level, as their share of the error is smaller."""
UNTOUCHED = (
    "{}: every run handed out the same numbers although the claim needs noise: the method does not use the noise that it is "
    "given, or repeats what it has kept of an earlier run"
)
BY_MU = "the proven mu at the claimed delta, right if the mechanism is Gaussian as claimed"
BY_RATES = "the rates of a test alone"
BY_GUESSES = "right guesses about canaries in one run"


@dataclass(frozen=True, eq=False)
class Verdict:
    """The outcome of an audit. ``word``: consistent, VIOLATED or inconclusive; ``reasons``: one sentence each.

    ``epsilon_by``: what ``epsilon_lower`` follows from. Against a mu-GDP claim the games prove ``mu_lower``. A mechanism that is
    not Gaussian may exceed a claimed mu and keep its epsilon, so ``epsilon_by_rates`` says what follows without that assumption.
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
            f"mu >= {self.mu_lower:.3g}, which is {text} for a mechanism that is Gaussian as claimed; by rates alone "
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
    proofs: Mapping[str, Proof],
    claim: Claim,
    *,
    confidence: float,
    reproduce: str | None = None,
    parts: Collection[str] = (),
    broken: Sequence[str] = (),
    untried: Sequence[str] = (),
) -> Verdict:
    """Weigh what was proven against the claim.

    Args:
        proofs: distinguishing games and runs with canaries by name, each made at its own share of the error.
        claim: what was promised.
        confidence: of the whole verdict.
        reproduce: the command that plays the same games again.
        parts: games that play a part of what is audited, or a model of it; they can reject the claim, not accept it.
        broken: promises that are broken in plain words, whatever the games show.
        untried: what no game has tried; the verdict says it where nothing is found.

    Returns:
        One word with its reasons, and the largest proven epsilon.

    >>> judge({}, Claim(2.0, 1e-5), confidence=0.95).word
    'inconclusive'
    """
    games = {name: proof for name, proof in proofs.items() if isinstance(proof, Evidence)}
    runs = [proof for proof in proofs.values() if isinstance(proof, OneRun)]
    if len(games) + len(runs) < len(proofs):
        raise InputError(f"proofs must hold evidence of games or runs with canaries, got {list(proofs.values())}")
    guessed = max((run.epsilon_by_rates for run in runs), default=0.0)
    each = [(e.epsilon_lower, BY_MU if e.claim.kind == "mu" else BY_RATES) for e in games.values()]
    each += [(run.epsilon_lower, BY_MU if run.claim.kind == "mu" else BY_GUESSES) for run in runs]
    lower, by = max(each, default=(0.0, BY_RATES))

    def said(word: str, reasons: Sequence[str], more_runs: int | None = None) -> Verdict:
        mu = max((proof.leak for proof in proofs.values() if proof.claim.kind == "mu"), default=None)
        rates = max([e.epsilon_by_rates for e in games.values()] + [guessed])
        return Verdict(word, claim, lower, confidence, tuple(reasons), more_runs, reproduce, by, mu, rates)

    rejections = [*broken, *(describe_violation(name, e) for name, e in games.items() if e.rejects_claim)]
    rejections += [run.describe() for run in runs if run.rejects_claim]
    if rejections:
        return said(VIOLATED, rejections)
    whole = {name: e for name, e in games.items() if name not in parts}
    if not whole:
        text = "the method itself was not played against the claim; attacks alone measure and prove nothing"
        if runs:
            text = (
                "one run with canaries can reject the claim, not accept it: the method itself was not played against it"
            )
        return said(INCONCLUSIVE, (text,))
    doubts = [doubt for name, e in games.items() if (doubt := _suspicion(name, e))]
    doubts += [_too_few(name, e) for name, e in whole.items() if not e.powerful]
    doubts += [(UNTOUCHED.format(name), None) for name, e in whole.items() if e.constant and e.claim.size > 0]
    if doubts:
        needed = [runs for _, runs in doubts if runs is not None]
        return said(INCONCLUSIVE, [text for text, _ in doubts], max(needed, default=None))
    reasons = [*(describe_consistent(name, e) for name, e in games.items()), *untried]
    if found_little(lower, claim.epsilon):
        reasons.append(
            "the tests that were tried found next to nothing: this shows that they fail, not how much a better one finds"
        )
    return said(CONSISTENT, reasons)


def found_little(proven: float, claimed: float) -> bool:
    """Whether what is proven is too small a share of the claim to say much about it."""
    return proven < FOUND_LITTLE * claimed


def describe_violation(name: str, evidence: Evidence) -> str:
    """The evidence against a claim in one sentence."""
    best, claim = evidence.best, evidence.claim
    false = f"; the claim of mu-GDP is false (by rates alone epsilon >= {evidence.epsilon_by_rates:.3g})"
    return (
        f"{name}, pair '{evidence.pair}': the test '{best.test}' is right on {best.true} of {best.runs} runs of one graph and "
        f"wrong on {best.false} of {best.runs} of the other, which proves {claim.kind} >= {best.leak:.3g} at confidence "
        f"{best.confidence:.4g}; the claim is {claim.size:.3g}{false if claim.kind == 'mu' else ''}"
    )


def describe_consistent(name: str, evidence: Evidence) -> str:
    """What a game that did not reject the claim says."""
    claim = evidence.claim
    share = evidence.leak / claim.size if claim.size > 0 else 0.0
    last = evidence.judgements[-1]
    text = (
        f"{name}, pair '{evidence.pair}': {claim.kind} >= {evidence.leak:.3g} is proven, {share:.0%} of the claimed "
        f"{claim.size:.3g}, with {evidence.runs} runs per graph; an event that happens in fewer than 1 in "
        f"{1 / rarest_seen(claim, last.runs, last.confidence):.3g} runs would not have been seen"
    )
    if evidence.uncorrelated:
        text += f"; the transcript had {evidence.uncorrelated} columns, too many to estimate their correlations"
    return text


Doubt = tuple[str, int | None]
"""A reason not to decide, and the runs per graph that settle it in 9 of 10 audits, if there is a feasible number."""


def _too_few(name: str, evidence: Evidence) -> Doubt:
    needed = evidence.enough_to_see_twice
    text = f"{name}: {evidence.planned} runs per graph are too few to reject the claim of a mechanism that leaks twice as much"
    enough = f"no feasible number (up to {MAX_RUNS:,})" if needed is None else str(needed)
    return f"{text}; {enough} would be enough in 9 of 10 audits", needed


def _suspicion(name: str, evidence: Evidence) -> Doubt | None:
    """Which test exceeds the claim, though not beyond the asked confidence; None if none does."""
    claim, shares = evidence.claim, error_shares(BLOCKS - 1)
    for judged, share in zip(evidence.judgements[::-1], shares[::-1], strict=False):
        level = 1 - (1 - SUSPICION) * share / shares[-1]
        if claim.proven(judged.false, judged.true, judged.runs, level) > claim.size:
            rates = ((judged.false + 0.5) / (judged.runs + 1), (judged.true + 0.5) / (judged.runs + 1))
            needed = runs_for_power(claim, evidence.confidence, evidence.pairs, rates)
            text = f"{name}: the test '{judged.test}' exceeds the claim at confidence {level:g}, but not beyond"
            return (
                f"{text}; if it is as good as it looks, {needed} runs per graph reject the claim in 9 of 10 audits",
                needed,
            )
    return None
