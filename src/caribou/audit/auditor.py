"""The whole audit of a method: every attack that was asked for, through one protocol, and one verdict."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from caribou.audit.attack import Attack, Findings, Forecast, Progress, Terms, no_progress
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.catalogue import CATALOGUE, Promise, check_order
from caribou.audit.claims import Claim, weaker_than_asked
from caribou.audit.distinguish import MECHANISM
from caribou.audit.evidence import Proof
from caribou.audit.metrics import AttackResult
from caribou.audit.noise_replay import SAME_COST
from caribou.audit.verdict import Verdict, judge
from caribou.errors import InputError
from caribou.privacy.certificate import Certificate
from caribou.privacy.documents import json_number


def _loaded(home: str) -> Attack:
    module, _, name = home.partition(":")
    made: Attack = getattr(importlib.import_module(f"caribou.audit.{module}"), name)()
    return made


ATTACKS: Mapping[str, Attack] = {name: _loaded(entry.home) for name, entry in CATALOGUE.items()}
"""All attacks by name, in the order in which an audit makes them."""
NEEDS_PRIVACY = (Promise.CLAIM, Promise.POST_PROCESSING)
"""Promises that exist only where privacy is claimed."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an audit found: lower bounds by name, measured attacks by name, and why others were skipped.

    ``notes``: what else a reader must know, one sentence each. ``fits``: how often each attack fitted the method, at most.
    """

    subject: str
    verdict: Verdict
    proofs: Mapping[str, Proof]
    attacks: Mapping[str, AttackResult]
    skipped: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    fits: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values: claim, verdict, lower bound, and every attack by name."""
        claim = self.verdict.claim
        attacks: dict[str, Any] = {name: result.to_json() for name, result in self.attacks.items()}
        for name, proof in self.proofs.items():
            attacks.setdefault(name, {})["game"] = proof.to_json()
        return {
            "subject": self.subject,
            "claimed": {
                "epsilon": json_number(claim.epsilon),
                "delta": claim.delta,
                "unit": claim.unit.value,
                "mu": claim.mu,
            },
            **self.verdict.to_json(),
            "attacks": attacks,
            "skipped": dict(self.skipped),
            "notes": list(self.notes),
            "fits": dict(self.fits),
        }


@dataclass(frozen=True, eq=False)
class Audit:
    """An audit before it is made.

    Args:
        audited: the method, its budget, its seed, and a graph for attacks that need one.
        attacks: names in `ATTACKS`.
        runs: per graph of a pair; None = as many as are needed to see twice the claim, within 2,000 to 5,000 for a whole method.
        confidence: of the verdict; the lower bounds of all attacks share its error.
        workers: processes; None = one per core.
        reproduce: the command that makes the same audit again.
        subject: what is audited, in words; None = the name of the method.
        stored: the certificate beside a saved model; the audit compares it with the certificate of its own fits.

    >>> from caribou.methods import METHODS
    >>> from caribou.privacy.budget import Budget
    >>> audited = AuditedMethod("mlp-dp", METHODS["mlp-dp"].create(), Budget(8.0, 1e-5, "node"))
    >>> Audit(audited, attacks=("distinguish",), runs=400).run().verdict.word                       # doctest: +SKIP
    'consistent'
    """

    audited: AuditedMethod
    attacks: Sequence[str] = tuple(ATTACKS)
    runs: int | None = None
    confidence: float = 0.95
    workers: int | None = None
    reproduce: str | None = None
    subject: str | None = None
    stored: Certificate | None = None

    def __post_init__(self) -> None:
        check_order(self.attacks, self.runs, self.confidence, self.workers)

    def run(
        self,
        progress: Progress = no_progress,
        announce: Callable[[Mapping[str, Forecast]], None] = lambda _: None,
    ) -> Outcome:
        """Make all attacks, and judge. ``announce`` is told what they will take before the first of them is made."""
        wanted = [attack for name, attack in ATTACKS.items() if name in self.attacks]
        skipped = {attack.name: reason for attack in wanted if (reason := self._why_not(attack))}
        made = [attack for attack in wanted if attack.name not in skipped]
        share = 1 - (1 - self.confidence) / max(1, sum(attack.games(self.audited) for attack in made))
        terms = {attack.name: self._terms(attack, share, progress) for attack in made}
        forecasts = {attack.name: attack.forecast(self.audited, terms[attack.name]) for attack in made}
        announce(forecasts)
        fits = {name: forecast.fits for name, forecast in forecasts.items()}
        proofs: dict[str, Proof] = {}
        broken = self._broken()
        untried: tuple[str, ...] = ()
        attacks: dict[str, AttackResult] = {}
        notes = _about_stored(self.stored, self.audited.fitted.certificate)
        for attack in made:
            found = self._made(attack, terms[attack.name])
            proofs |= found.proofs
            attacks |= found.measured
            skipped |= found.skipped
            notes += found.notes
            broken, untried = broken + found.broken, untried + found.untried
        verdict = judge(
            proofs,
            self.audited.claim,
            confidence=self.confidence,
            reproduce=self.reproduce,
            parts=(MECHANISM,),
            broken=broken,
            untried=untried,
        )
        return Outcome(self.subject or self.audited.name, verdict, proofs, attacks, skipped, tuple(notes), fits)

    def _why_not(self, attack: Attack) -> str:
        """Why an attack cannot be made on this method; empty if it can."""
        unit = self.audited.budget.unit
        if attack.facts.promise in NEEDS_PRIVACY and not self.audited.claim.is_private:
            return "no privacy is claimed, so there is nothing to reject"
        if unit not in attack.facts.units:
            judged = " or ".join(sorted(each.value for each in attack.facts.units))
            return f"it judges claims at {judged} level, and this claim is at {unit.value} level"
        if attack.facts.needs_graph and self.audited.graph is None:
            return "it attacks a graph; give a data set"
        return ""

    def _terms(self, attack: Attack, confidence: float, progress: Progress) -> Terms:
        """``runs`` are those of games; an attack that measures has a number of its own."""
        runs = self.runs if attack.facts.promise is Promise.CLAIM else None
        return Terms(runs, confidence, self.workers or os.cpu_count() or 1, progress)

    def _made(self, attack: Attack, terms: Terms) -> Findings:
        try:
            return attack.run(self.audited, terms)
        except InputError as error:
            if not attack.facts.needs_graph:
                raise
            return Findings(skipped={attack.name: str(error)})  # the graph does not suit it; other attacks stand

    def _broken(self) -> tuple[str, ...]:
        """Promises that certificates break in plain words, each once."""
        stated = [weaker_than_asked(certificate, self.audited.budget) for certificate in self.audited.certificates]
        broken = [text for text in stated if text is not None]
        if self.stored is not None and (text := weaker_than_asked(self.stored, self.audited.budget)) is not None:
            broken.append(f"as it is stored, {text}")
        return tuple(dict.fromkeys(broken))


def _about_stored(stored: Certificate | None, replayed: Certificate) -> list[str]:
    """Where the certificate of a saved model is not that of the fits which are audited, and where it is void anyway."""
    if stored is None:
        return []
    notes = [
        "the audit refits the method with the settings of the run; it does not look at the stored weights and arrays"
    ]
    here, there = (Claim.of_certificate(certificate).spent for certificate in (replayed, stored))
    if not math.isclose(here, there, rel_tol=SAME_COST):
        notes.append(f"the stored certificate costs epsilon = {there:.6g}, that of the fits here {here:.6g}")
    if stored.void_reasons:
        notes.append(f"the stored certificate is void: {'; '.join(stored.void_reasons)}")
    return notes
