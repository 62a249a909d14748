"""Distinguish: play an audit target many times on two neighbouring graphs, and prove a lower bound on what it leaks.

Every run is reduced to scores. The first runs fit projections, the next ones choose a single test (score, threshold, direction),
and fresh runs judge that test; so the search for a good test needs no correction. Runs come in blocks that double
(`caribou.audit.power`). Before each block the game chooses the test anew on all earlier runs, and it judges the block at its
own share of the error (1/4, 1/4, 1/2 of it for three blocks). By the union bound all judgements together hold at the stated
confidence, and the game stops as soon as one of them rejects the claim.

`distinguish` plays one game against anything that is a function of a graph and a noise source. `Distinguish` is the attack on a
method: up to three games, each judged by the certificate of what it plays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from caribou._validate import MAX_RUNS, MAX_WORKERS, integer, open_unit_interval
from caribou.audit.attack import Attack, Findings, Forecast, Terms
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.batched_mechanisms import certified_mechanism
from caribou.audit.catalogue import MIN_RUNS
from caribou.audit.claims import Claim
from caribou.audit.discriminants import Discriminants, Test, best_test, fit_discriminants, hits
from caribou.audit.evidence import Evidence, Judgement
from caribou.audit.metrics import FALSE_POSITIVE_RATES, AttackResult, summarise
from caribou.audit.pairs import Pair, worst_pairs
from caribou.audit.power import block_sizes, error_shares, heats, planned_runs, runs_for_power
from caribou.audit.targets import FAILED, AuditTarget, BatchedTarget, FitTarget, PredictTarget, played, run_seed
from caribou.audit.transcripts import Runs, checked_transcript, observe, observe_batch
from caribou.errors import InputError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.metrics import Scored
from caribou.privacy.certificate import Certificate

FIT_SHARE = 0.4
"""Of the runs before a block: these fit discriminants, the others choose the test."""
MECHANISM = "mechanism"
"""The game that plays the noise of a certificate by the library's own mechanisms, not the audited method."""
MIN_METHOD_RUNS, MAX_METHOD_RUNS, MAX_MECHANISM_RUNS = 2_000, 5_000, 60_000

NO_GAME_OF_FITS = (
    "two fits with and without edges hand out the same if their noisy values are the same, and edges move what lies below the "
    "noise no farther than in a prediction, which stands for the sensitivity of a fit"
)
NOT_PROMISED = "'{}' was not played: the certificate promises nothing there"


# -- the attack on a method ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Planned:
    """A game before it is played: its target and pairs, the certificate that it is judged by, and the runs it may take."""

    target: AuditTarget | BatchedTarget
    pairs: Sequence[Pair]
    certificate: Certificate
    least: int
    most: int
    in_processes: bool = True


@dataclass(frozen=True)
class Distinguish(Attack):
    """Plays the mechanism of the certificate, the method itself, and whole fits where a prediction does not speak for them."""

    name: ClassVar[str] = "distinguish"

    def forecast(self, audited: AuditedMethod, terms: Terms) -> Forecast:
        """The fits of the claim, and the runs of all games; those of whole fits are fits, too."""
        games = self.plan(audited).values()
        runs = [(game, planned_runs(len(game.pairs), self._runs(game, audited, terms))) for game in games]
        fits = sum(each for game, each in runs if isinstance(game.target, FitTarget))
        return Forecast(audited.claim_fits + fits, sum(each for _, each in runs))

    def games(self, audited: AuditedMethod) -> int:
        """How many games the plan has."""
        return len(self.plan(audited))

    def plan(self, audited: AuditedMethod) -> dict[str, Planned]:
        """Every game by name. A prediction is judged by its own certificate, which may cost less or more than that of a fit."""
        pairs, stated = covered_pairs(audited)[0], audited.fitted.certificate
        whole = FitTarget(audited.method, audited.budget, audited.streams)
        plan: dict[str, Planned] = {}
        mechanism = certified_mechanism(stated, audited.name)
        if mechanism is not None:
            target, pair = mechanism
            plan[MECHANISM] = Planned(target, [pair], stated, MIN_METHOD_RUNS, MAX_MECHANISM_RUNS, in_processes=False)
        if not audited.predicts_graphs:
            if pairs:
                plan[self.name] = Planned(whole, pairs, stated, MIN_METHOD_RUNS, MAX_METHOD_RUNS)
            return plan
        predicted = audited.replay.of_prediction
        if predicted.is_private:  # else the certificate itself says that the budget is exceeded
            weights = audited.fitted.weights
            prediction = PredictTarget(audited.method, audited.budget, weights, audited.streams)
            plan[self.name] = Planned(prediction, pairs, predicted, MIN_METHOD_RUNS, MAX_METHOD_RUNS)
        if not audited.replay.through_noise_alone:
            plan["fit"] = Planned(whole, pairs, stated, MIN_RUNS, MAX_METHOD_RUNS)
        return plan

    def run(self, audited: AuditedMethod, terms: Terms) -> Findings:
        """Play every game of the plan. ``terms.confidence`` is that of one game."""
        plan = self.plan(audited)
        proofs = {name: self._play(name, game, audited, terms) for name, game in plan.items()}
        measured = {name: _measured(name, evidence) for name, evidence in proofs.items()}
        spoken_for = audited.predicts_graphs and self.name in plan and "fit" not in plan
        untried = tuple(NOT_PROMISED.format(pair.name) for pair in covered_pairs(audited)[1])
        return Findings(measured, proofs, {"fit": NO_GAME_OF_FITS} if spoken_for else {}, untried=untried)

    def _runs(self, game: Planned, audited: AuditedMethod, terms: Terms) -> int:
        """Runs per graph: those that were asked for, or enough to see twice the claim, within the limits of the game."""
        if terms.runs is not None:
            return terms.runs
        claims = {claim_about(game.certificate, pair) for pair in game.pairs}
        enough = [runs_for_power(claim, terms.confidence, len(covered_pairs(audited)[0])) for claim in claims]
        return max(game.least, min(max(runs or MAX_METHOD_RUNS for runs in enough), game.most))

    def _play(self, name: str, game: Planned, audited: AuditedMethod, terms: Terms) -> Evidence:
        return distinguish(
            game.target,
            game.pairs,
            lambda pair: claim_about(game.certificate, pair),
            runs=self._runs(game, audited, terms),
            confidence=terms.confidence,
            seed=audited.seed,
            workers=terms.workers if game.in_processes else 1,
            progress=lambda done, planned, bound: terms.progress(name, done, planned, bound),
        )


def claim_about(certificate: Certificate, pair: Pair) -> Claim:
    """What a certificate promises about the edge or the node of a pair."""
    return Claim.of_certificate(certificate, pair.group, pair.degree)


def covered_pairs(audited: AuditedMethod) -> tuple[list[Pair], list[Pair]]:
    """The pairs about which the certificate promises anything, and the others."""
    certificate = audited.fitted.certificate
    played: tuple[list[Pair], list[Pair]] = ([], [])
    for pair in worst_pairs(audited.budget.unit):
        played[0 if claim_about(certificate, pair).is_private else 1].append(pair)
    return played


def _measured(name: str, evidence: Evidence) -> AttackResult:
    """The rates of the chosen score on the judged runs, beside those that the claim allows."""
    allowed = {rate: evidence.claim.allowed(rate) for rate in FALSE_POSITIVE_RATES}
    best = evidence.best
    note = f"worst-case pair '{evidence.pair}', score '{best.test}', {best.runs} judged runs per graph"
    return summarise(name, [evidence.judged], allowed=allowed, details={}, note=note)


# -- one game ------------------------------------------------------------------------------------------------------


def distinguish(
    target: AuditTarget | BatchedTarget,
    pairs: Pair | Sequence[Pair],
    claim: Claim | Callable[[Pair], Claim],
    *,
    runs: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[int, int, float], None] | None = None,
) -> Evidence:
    """Play ``runs`` runs on each graph of a pair and prove what can be proven at ``confidence``.

    Args:
        target: a function of a graph and a noise source that returns everything it hands out, as arrays by name; or one with
            ``many`` runs at once.
        pairs: neighbouring graphs. Of several pairs, the game plays some of the first block on each, more on the half that shows
            most, and so on until one is left. Runs that are not judged decide. The rest is played on that pair.
        claim: what is tested; a function of the pair where groups of nodes pay differently.
        runs: per graph.
        confidence: of all judgements together.
        seed: run k of a world draws its noise from a seed that follows from this one, the pair and k, so that the same call gives
            the same evidence.
        workers: more than 1 play in processes of one thread each; the target must then be picklable.
        progress: called with the runs done and planned, both worlds together, and the largest epsilon proven so far.

    Returns:
        The evidence: chosen pair and test, counts, and what they prove.

    >>> from caribou.audit.pairs import worst_pairs
    >>> def without_noise(graph, noise):
    ...     return {"edges": np.array([float(graph.num_edges)])}
    >>> evidence = distinguish(without_noise, worst_pairs("edge")[0], Claim(0.5, delta=0.0), runs=400)
    >>> bool(evidence.leak > evidence.claim.epsilon)
    True
    """
    runs = integer(at_least=MIN_RUNS, at_most=MAX_RUNS, runs=runs)
    integer(at_least=1, at_most=MAX_WORKERS, workers=workers)
    open_unit_interval(confidence=confidence)
    candidates = _checked_game(target, pairs, claim)
    claim_of = claim if callable(claim) else lambda _: claim
    sizes = block_sizes(runs)
    done, planned = 0, planned_runs(len(candidates), runs)

    def advance(size: int, bound: float) -> None:
        nonlocal done
        done += 2 * size
        if progress:
            progress(done, planned, bound)

    pair, worlds = _most_telling(
        candidates,
        claim_of,
        lambda pair, start, size: _block(target, workers, pair, start, size, seed),
        heats(len(candidates), sizes[0]),
        lambda size: advance(size, 0.0),
    )
    stated = claim_of(pair)
    judgements: list[Judgement] = []
    for size, share in zip(sizes[1:], error_shares(len(sizes) - 1), strict=True):
        test, discriminants = _choose(worlds, stated)
        fresh = _block(target, workers, pair, sum(len(w[0]) for w in worlds), size, seed)
        judged, scored = _judge(test, discriminants, fresh, stated, 1 - share * (1 - confidence))
        judgements.append(judged)
        worlds.append(fresh)
        advance(size, stated.as_epsilon(max(j.leak for j in judgements)))
        if judged.leak > stated.size:
            break
    return Evidence(
        stated,
        pair.name,
        tuple(judgements),
        confidence,
        runs,
        seed,
        scored,
        len(candidates),
        discriminants.uncorrelated,
        constant=discriminants.entries == 0,
    )


def _checked_game(target: Any, pairs: Any, claim: Any) -> list[Pair]:
    """The pairs as a list; an error names what is no target, pair or claim."""
    if not callable(target) and not callable(getattr(target, "many", None)):
        raise InputError(f"target must be a function of a graph and a source of noise, got {type(target).__name__}")
    if not isinstance(claim, Claim) and not callable(claim):
        raise InputError(f"claim must be a Claim or a function from a pair to one, got {claim!r}")
    candidates = [pairs] if isinstance(pairs, Pair) else list(pairs) if isinstance(pairs, Sequence) else []
    if not candidates or not all(isinstance(pair, Pair) for pair in candidates):
        raise InputError(f"pairs must be a Pair or a list of them, got {pairs!r}")
    return candidates


def _most_telling(
    candidates: Sequence[Pair],
    claim_of: Callable[[Pair], Claim],
    block: Callable[[Pair, int, int], tuple[Runs, Runs]],
    planned: Sequence[tuple[int, int]],
    advance: Callable[[int], None],
) -> tuple[Pair, list[tuple[Runs, Runs]]]:
    """The pair on which most shows, with the runs of the first block on it."""
    left: list[tuple[Pair, list[tuple[Runs, Runs]]]] = [(pair, []) for pair in candidates]
    for count, size in planned:
        if count < len(left):
            left = sorted(left, key=lambda entry: -_shown(entry[1], claim_of(entry[0])))[:count]
        for pair, worlds in left:
            worlds.append(block(pair, sum(len(world[0]) for world in worlds), size))
            advance(size)
    return max(left, key=lambda entry: _shown(entry[1], claim_of(entry[0]))) if len(left) > 1 else left[0]


def _shown(worlds: Sequence[tuple[Runs, Runs]], claim: Claim) -> float:
    """Which share of its claim the best test shows on the choosing part of the runs so far; for the choice of a pair."""
    test, columns = _choose(worlds, claim)
    both = [Runs.join([pair[k] for pair in worlds]) for k in (0, 1)]
    start = round(FIT_SHARE * len(both[0]))
    a, b = (columns(world.part(start, len(world))) for world in both)
    shown = claim.proven(*hits(a, b, test), len(a), 0.9)
    return shown / claim.size if claim.size > 0 else shown


def _choose(worlds: Sequence[tuple[Runs, Runs]], claim: Claim) -> tuple[Test, Discriminants]:
    """Discriminants fitted and a test chosen on all runs so far."""
    a, b = (Runs.join([pair[k] for pair in worlds]) for k in (0, 1))
    stop = round(FIT_SHARE * len(a))
    discriminants = fit_discriminants(a.part(0, stop), b.part(0, stop))
    left = len(a) - stop
    ta, tb = (discriminants(world.part(stop, len(world))) for world in (a, b))
    test = best_test(ta, tb, lambda false, true: claim.proven(false, true, left, 0.95))
    return test, discriminants


def _judge(
    test: Test, discriminants: Discriminants, fresh: tuple[Runs, Runs], claim: Claim, confidence: float
) -> tuple[Judgement, Scored]:
    a, b = (discriminants(world) for world in fresh)
    false, true = hits(a, b, test)
    leak = claim.proven(false, true, len(a), confidence)
    sign = test.sign if test.second else -test.sign
    scores = sign * np.concatenate([a[:, test.column], b[:, test.column]])
    members = np.arange(2 * len(a)) >= len(a)
    text = test.describe(discriminants.names)
    return Judgement(len(a), text, false, true, confidence, leak), Scored(scores, members)


def _block(target: Any, workers: int, pair: Pair, start: int, size: int, seed: int) -> tuple[Runs, Runs]:
    """``size`` runs in both worlds, as tables."""
    if pair.hidden is not None and hasattr(target, "hiding"):
        target = target.hiding(pair.hidden)
    many = getattr(target, "many", None)
    if many is not None:
        noises = [NoiseSource.seeded(run_seed(seed, pair.name, world, start)) for world in (0, 1)]
        batches = [many(graph, size, noise) for graph, noise in zip(pair.worlds, noises, strict=True)]
        a, b = (observe_batch(checked_transcript(batch, runs=size)) for batch in batches)
        return a, b
    seeds = [[run_seed(seed, pair.name, world, run) for run in range(start, start + size)] for world in (0, 1)]
    both = [played(target, graph, each, workers) for graph, each in zip(pair.worlds, seeds, strict=True)]
    if all(FAILED in transcript for world in both for transcript in world):
        target(pair.joined, NoiseSource.seeded(seeds[1][0]))  # nothing was handed out at all: the error says why
    a, b = (observe(world, pair.scores) for world in both)
    return a, b
