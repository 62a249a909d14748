"""Evidence against a claim: what a distinguishing game, or one run with canaries, has proven."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from caribou.audit.bounds import epsilon_of_rates, one_run_bound, pessimistic_rates
from caribou.audit.claims import Claim
from caribou.audit.power import first_block, runs_for_power
from caribou.metrics import Scored
from caribou.privacy.documents import json_number


@dataclass(frozen=True)
class Judgement:
    """One block: the test that was chosen before it, its counts on the block, and what they prove."""

    runs: int
    test: str
    false: int
    true: int
    confidence: float
    leak: float
    """Proven, in the unit of the claim."""


class Proof(ABC):
    """What proves a lower bound at a stated ``confidence``: ``leak``, in the unit of ``claim``. All follows from ``seed``."""

    claim: Claim
    confidence: float
    seed: int

    @property
    @abstractmethod
    def leak(self) -> float:
        """The largest proven lower bound, in the unit of the claim."""

    @property
    @abstractmethod
    def epsilon_by_rates(self) -> float:
        """The lower bound on epsilon that holds for any mechanism, whatever noise it claims."""

    @property
    def rejects_claim(self) -> bool:
        """Whether more than the claim is proven."""
        return self.leak > self.claim.size

    @property
    def epsilon_lower(self) -> float:
        """The largest lower bound on epsilon at the claimed delta."""
        return self.claim.as_epsilon(self.leak)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "kind": self.claim.kind,
            "claimed": json_number(self.claim.size),
            "proven": self.leak,
            "epsilon_lower": self.epsilon_lower,
            "epsilon_lower_by_rates": self.epsilon_by_rates,
            "confidence": self.confidence,
            "seed": self.seed,
        }


@dataclass(frozen=True, eq=False)
class Evidence(Proof):
    """What a distinguishing game showed."""

    claim: Claim
    pair: str
    judgements: tuple[Judgement, ...]
    confidence: float
    planned: int
    seed: int
    judged: Scored
    """The chosen score on the last block, and which runs had the edge or node."""
    pairs: int = 1
    """The game chose its pair among this many."""
    uncorrelated: int = 0
    """Columns of the transcript if they were too many to estimate their correlations, else 0."""
    constant: bool = False
    """Whether every run of both graphs handed out the same numbers."""

    @property
    def best(self) -> Judgement:
        """The block that proved most."""
        return max(self.judgements, key=lambda judgement: judgement.leak)

    @property
    def leak(self) -> float:
        """That of the best block."""
        return self.best.leak

    @property
    def epsilon_by_rates(self) -> float:
        """The largest lower bound on epsilon that follows from rates alone, in either direction of a test; of any mechanism."""
        out, delta = 0.0, self.claim.used_delta
        for judged in self.judgements:
            fpr, tpr = pessimistic_rates(judged.false, judged.true, judged.runs, judged.confidence)
            out = max(out, epsilon_of_rates(fpr, tpr, delta), epsilon_of_rates(1 - tpr, 1 - fpr, delta))
        return out

    @property
    def runs(self) -> int:
        """Runs per graph that were made."""
        return first_block(self.planned) + sum(judgement.runs for judgement in self.judgements)

    @property
    def enough_to_see_twice(self) -> int | None:
        """Runs per graph that see a mechanism which leaks twice the claim; None: not feasible."""
        return runs_for_power(self.claim, self.confidence, self.pairs)

    @property
    def powerful(self) -> bool:
        """Whether so many were planned."""
        needed = self.enough_to_see_twice
        return needed is not None and self.planned >= needed

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        best = self.best
        return {
            **super().to_json(),
            "pair": self.pair,
            "runs_per_graph": self.runs,
            "test": best.test,
            "false_positives": best.false,
            "true_positives": best.true,
            "judged_runs": best.runs,
        }


@dataclass(frozen=True, eq=False)
class OneRun(Proof):
    """What one run with canaries showed: ``correct`` of ``guesses`` membership bits among ``canaries`` were guessed.

    ``scored``: all scores with their membership bits, for a curve; None if all bits are equal.
    """

    claim: Claim
    canaries: int
    guesses: int
    correct: int
    confidence: float
    scored: Scored | None
    seed: int

    @cached_property
    def leak(self) -> float:
        """What the right guesses prove."""
        return self.claim.proven_by_guesses(self.correct, self.guesses, self.canaries, self.confidence)

    @cached_property
    def epsilon_by_rates(self) -> float:
        """The lower bound on epsilon that follows from right guesses alone; of any mechanism."""
        return one_run_bound(self.correct, self.guesses, self.canaries, self.claim.used_delta, self.confidence)

    @cached_property
    def p_value(self) -> float:
        """The largest probability of so many right guesses if the claim holds."""
        return self.claim.p_value_of_guesses(self.correct, self.guesses, self.canaries)

    @property
    def rejects_claim(self) -> bool:
        """Whether so many right guesses are too rare under the claim."""
        return self.claim.is_private and self.p_value <= 1 - self.confidence

    def describe(self) -> str:
        """In one sentence."""
        gaussian = f"mu >= {self.leak:.3g}, which is " if self.claim.kind == "mu" else ""
        return (
            f"one run: {self.correct} of {self.guesses} guesses about {self.canaries} canary edges are right, which proves "
            f"{gaussian}epsilon >= {self.epsilon_lower:.3g} at delta = {self.claim.used_delta:g} and "
            f"confidence {self.confidence:.4g}"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        counts = {"canaries": self.canaries, "guesses": self.guesses, "correct": self.correct, "p_value": self.p_value}
        return {**super().to_json(), **counts}
