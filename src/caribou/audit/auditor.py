"""The whole audit of a method: its mechanism, itself, one run with canaries, and the attacks of the literature; one verdict."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from caribou._validate import integer, open_unit_interval
from caribou.audit import fits
from caribou.audit.batched_mechanisms import certified_mechanism
from caribou.audit.claims import Claim, weaker_than_asked
from caribou.audit.distinguish import MIN_RUNS as MIN_PLAYED
from caribou.audit.distinguish import Evidence, distinguish
from caribou.audit.metrics import FALSE_POSITIVE_RATES, AttackResult, Scored, summarise
from caribou.audit.noise_replay import Replay, replay_fits
from caribou.audit.onerun import OneRun, one_run
from caribou.audit.pairs import Pair, worst_pairs
from caribou.audit.targets import AuditTarget, FitTarget, PredictTarget, without_edges
from caribou.audit.verdict import Verdict, judge, runs_for_power
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Fitted, Method
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate, json_number
from caribou.randomness import Streams

MECHANISM = "mechanism"
"""The game that plays the noise of a certificate by the library's own mechanisms, not the audited method."""
PROVING = ("distinguish", "onerun")
MIN_RUNS, MOST_RUNS, MOST_MECHANISM_RUNS = 2_000, 5_000, 60_000
FITS = {"linkteller": 3, "similarity": 3, "gmia": 3, "lira": 16}
"""How often a measuring attack fits the method; lira compares the fits with each other and needs more."""
MEASURING = tuple(FITS)
ATTACKS = (*PROVING, *MEASURING)

NO_GAME_OF_FITS = (
    "two fits with and without edges hand out the same if their noisy values are the same, and edges move what lies below the "
    "noise no farther than in a release, which stands for the sensitivity of a fit"
)

SAME_COST = 1e-3
"""Relative: accounting rounds up, by an amount that depends on the size of the graph."""
ONE_KIND_OF_NODE = "only a training node was there or not: nothing was tried about validation and test nodes"

Report = Callable[[str, int, int, float], None]
"""Called with the name of a part, its steps done and planned, and the largest epsilon proven so far."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an audit found. ``games``: by name, with evidence; ``attacks``: by name, measured; ``skipped``: why not.

    ``notes``: what else a reader must know, one sentence each.
    """

    subject: str
    verdict: Verdict
    games: Mapping[str, Evidence]
    one_run: OneRun | None
    attacks: Mapping[str, AttackResult]
    skipped: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values: claim, verdict, lower bound, and every attack by name."""
        claim = self.verdict.claim
        attacks = {name: result.to_json() for name, result in self.attacks.items()}
        for name, game in self.games.items():
            attacks[name]["game"] = game.to_json()
        if self.one_run is not None:
            attacks.setdefault("onerun", {})["game"] = self.one_run.to_json()
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
        }


@dataclass(frozen=True, eq=False)
class Planned:
    """A distinguishing game before it is played, with the certificate that it is judged by."""

    release: AuditTarget
    pairs: Sequence[Pair]
    certificate: Certificate
    runs: int
    workers: int


@dataclass(frozen=True, eq=False)
class Audit:
    """The settings of an audit. ``runs`` per graph of a pair, None = as many as are needed to see twice the claim, but 2,000 to
    5,000 for a whole method; ``seed``: everything follows from it. ``subject``: what is audited, in words; ``stored``: of a saved
    run, the certificate that stands beside it, with which the certificate of the fits here is compared."""

    name: str
    method: Method
    budget: Budget
    graph: Graph | None = None
    attacks: Sequence[str] = ATTACKS
    runs: int | None = None
    confidence: float = 0.95
    seed: int = 0
    workers: int | None = None
    reproduce: str | None = None
    transductive: bool = False
    subject: str | None = None
    stored: Certificate | None = None

    def __post_init__(self) -> None:
        unknown = sorted(set(self.attacks) - set(ATTACKS))
        if unknown or not self.attacks:
            raise InputError(f"attack must be one of {', '.join(ATTACKS)}, got {', '.join(unknown) or 'none'}")
        open_unit_interval(confidence=self.confidence)
        if self.runs is not None:
            integer(at_least=MIN_PLAYED, runs=self.runs)
        if self.workers is not None:
            integer(at_least=1, workers=self.workers)

    def run(self, report: Report | None = None) -> Outcome:
        """Play all games and attacks, and judge."""
        report = report or (lambda *_: None)
        skipped: dict[str, str] = {}
        certificate = self._fitted.certificate
        claim = Claim.of_certificate(certificate)
        broken = [text for stated in self._certificates if (text := weaker_than_asked(stated, self.budget)) is not None]
        if self.stored is not None and (text := weaker_than_asked(self.stored, self.budget)) is not None:
            broken.append(f"as it is stored, {text}")
        games: dict[str, Evidence] = {}
        proven: OneRun | None = None
        if not claim.is_private:
            skipped |= dict.fromkeys(PROVING, "no privacy is claimed, so there is nothing to refute")
        else:
            plan = self._plan(certificate)
            share = 1 - (1 - self.confidence) / max(1, len(plan) + self._plays_one_run)
            for name, planned in plan.items():
                games[name] = self._distinguish(name, planned, share, report)
            if self._plays_one_run:
                try:
                    proven = self._one_run(claim, share, report)
                except InputError as error:  # what the games have shown stands
                    skipped["onerun"] = str(error)
            elif "onerun" in self.attacks:
                skipped["onerun"] = self._why_not_one_run
            if "distinguish" in games and "fit" not in games and self._applies:
                skipped["fit"] = NO_GAME_OF_FITS
        results = {name: self._as_result(name, game) for name, game in games.items()}
        if proven is not None and proven.scored is not None:
            results["onerun"] = self._one_run_result(proven, proven.scored, claim)
        measured, more = self._measure(report)
        verdict = judge(
            games,
            claim,
            confidence=self.confidence,
            one_run=proven,
            reproduce=self.reproduce,
            parts=(MECHANISM,),
            broken=tuple(dict.fromkeys(broken)),
            untried=(ONE_KIND_OF_NODE,) if self.budget.unit is PrivacyUnit.NODE else (),
        )
        notes = _about_stored(self.stored, certificate)
        return Outcome(
            self.subject or self.name, verdict, games, proven, results | measured, skipped | more, tuple(notes)
        )

    # -- games that can refute -------------------------------------------------------------------------------------

    @property
    def _applies(self) -> bool:
        """Whether releases with public weights are played: at edge level, if the method predicts other graphs."""
        return self.budget.unit is PrivacyUnit.EDGE and not self.transductive

    @cached_property
    def _replay(self) -> Replay:
        return replay_fits(self.method, self.budget, Streams(self.seed), self.seed)

    @cached_property
    def _fitted(self) -> Fitted:
        """A fit on a worst-case graph, for its certificate; at edge level without any edge, so that its weights are public."""
        if self._applies:
            return self._replay.fitted
        graph = worst_pairs(self.budget.unit)[0].joined
        if self.budget.unit is PrivacyUnit.EDGE:
            graph = without_edges(graph)
        return fits.fit(self.method, graph, self.budget, Streams(self.seed), NoiseSource.seeded(self.seed))

    @property
    def _certificates(self) -> tuple[Certificate, ...]:
        return self._replay.certificates if self._applies else (self._fitted.certificate,)

    def _plan(self, certificate: Certificate) -> dict[str, Planned]:
        """Every distinguishing game: a release is judged by its own certificate, which may cost less or more than a fit's."""
        if "distinguish" not in self.attacks:
            return {}
        pairs = worst_pairs(self.budget.unit)
        mechanism = certified_mechanism(certificate, self.name)
        fits = self._applies and not self._replay.through_noise_alone
        confidence = 1 - (1 - self.confidence) / (1 + fits + (mechanism is not None) + self._plays_one_run)

        def enough(stated: Certificate) -> int:
            return runs_for_power(Claim.of_certificate(stated, pairs[0].group), confidence, len(pairs)) or MOST_RUNS

        workers = self.workers or os.cpu_count() or 1
        plan: dict[str, Planned] = {}
        if mechanism is not None:
            runs = self.runs or max(MIN_RUNS, min(enough(certificate), MOST_MECHANISM_RUNS))
            plan[MECHANISM] = Planned(mechanism[0], [mechanism[1]], certificate, runs, 1)
        whole = FitTarget(self.method, self.budget, Streams(self.seed), hidden=pairs[0].hidden)
        release, stated = (self._applied(), self._replay.applied) if self._applies else (whole, certificate)
        if stated.is_private:  # else it breaks its promise in plain words
            runs = self.runs or max(MIN_RUNS, min(enough(stated), MOST_RUNS))
            plan["distinguish"] = Planned(release, pairs, stated, runs, workers)
        if fits:
            runs = self.runs or max(MIN_PLAYED, min(enough(certificate), MOST_RUNS))
            plan["fit"] = Planned(whole, pairs, certificate, runs, workers)
        return plan

    def _applied(self) -> AuditTarget:
        return PredictTarget(self.method, self.budget, self._fitted.weights, Streams(self.seed))

    def _distinguish(self, name: str, planned: Planned, confidence: float, report: Report) -> Evidence:
        return distinguish(
            planned.release,
            planned.pairs,
            lambda pair: Claim.of_certificate(planned.certificate, pair.group),
            runs=planned.runs,
            confidence=confidence,
            seed=self.seed,
            workers=planned.workers,
            name=f"{self.name}, {name}",
            progress=lambda done, whole, bound: report(name, done, whole, bound),
        )

    @property
    def _plays_one_run(self) -> bool:
        return "onerun" in self.attacks and not self._why_not_one_run

    @property
    def _why_not_one_run(self) -> str:
        if self.budget.unit is not PrivacyUnit.EDGE:
            return "canaries are edges, and the claim is about nodes"
        return "" if self.graph is not None else "canary edges need a graph to be planted in; give a data set"

    def _one_run(self, claim: Claim, confidence: float, report: Report) -> OneRun:
        graph = self._graph
        release = FitTarget(self.method, self.budget, Streams(self.seed))
        return one_run(
            release,
            graph,
            delta=0.0 if claim.pure else claim.delta,
            confidence=confidence,
            seed=self.seed,
            progress=lambda done, planned: report("onerun", done, planned, 0.0),
        )

    @property
    def _graph(self) -> Graph:
        if self.graph is None:
            raise InputError("dataset must be given for this attack, got none")
        return self.graph

    # -- attacks that measure --------------------------------------------------------------------------------------

    def _measure(self, report: Report) -> tuple[dict[str, AttackResult], dict[str, str]]:
        results: dict[str, AttackResult] = {}
        skipped: dict[str, str] = {}
        for name in (name for name in MEASURING if name in self.attacks):
            if self.graph is None:
                skipped[name] = "this attack is made on a data set; give one"
                continue

            def progress(done: int, planned: int, name: str = name) -> None:
                report(name, done, planned, 0.0)

            attack = importlib.import_module(f"caribou.audit.{name}").attack
            try:
                streams = Streams(self.seed)
                results[name] = attack(
                    self.method, self.graph, self.budget, streams, runs=FITS[name], progress=progress
                )
            except InputError as error:
                skipped[name] = str(error)
        return results, skipped

    def _as_result(self, name: str, game: Evidence) -> AttackResult:
        allowed = {rate: game.claim.allowed(rate) for rate in FALSE_POSITIVE_RATES}
        note = f"worst-case pair '{game.pair}', score '{game.best.test}', {game.best.runs} judged runs per graph"
        return summarise(name, [game.judged], allowed=allowed, details={}, note=note)

    def _one_run_result(self, proven: OneRun, scored: Scored, claim: Claim) -> AttackResult:
        allowed = {rate: claim.allowed(rate) for rate in FALSE_POSITIVE_RATES}
        note = f"{proven.canaries} canary edges in one run, each there by a coin"
        return summarise("onerun", [scored], allowed=allowed, details={}, note=note)


def _about_stored(stored: Certificate | None, replayed: Certificate) -> list[str]:
    """Where the certificate of a saved run is not that of the fits which are audited, and where it is void anyway."""
    if stored is None:
        return []
    notes = ["the method is fitted anew with the settings of the run; its stored weights and arrays are not looked at"]
    here, there = (Claim.of_certificate(certificate).spent for certificate in (replayed, stored))
    if not math.isclose(here, there, rel_tol=SAME_COST):
        notes.append(f"the stored certificate costs epsilon = {there:.6g}, that of the fits here {here:.6g}")
    if stored.void_reasons:
        notes.append(f"the stored certificate is void: {'; '.join(stored.void_reasons)}")
    return notes
