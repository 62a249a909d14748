"""Claim falsification: play a release many times on two neighbouring graphs, and prove a lower bound on what it leaks.

Every run is reduced to scores. On the first runs projections are fitted, on the next ones a single test (score, threshold,
direction) is chosen, and on fresh runs that test is judged: so the search for a good test needs no correction. Runs come in
blocks that double; before each block the test is chosen anew on all earlier runs, and the block is judged at its own share of
the error (1/4, 1/4, 1/2 of it for three blocks). By the union bound all verdicts together hold at the stated confidence, and the
game stops as soon as one of them refutes the claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np

from caribou._validate import integer, open_unit_interval
from caribou.audit.bounds import CONFIDENCE, epsilon_bound, epsilon_of_rates, many_bounds, mu_bound, pessimistic_rates
from caribou.audit.claims import Claim
from caribou.audit.discriminants import Discriminants, Test, best_test, fit_discriminants, hits
from caribou.audit.metrics import Scored
from caribou.audit.pairs import Pair
from caribou.audit.targets import AuditTarget
from caribou.audit.transcripts import Runs, Transcript, checked_transcript, observe, observe_batch, tabulate
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.randomness import stream_seed

FIT_SHARE = 0.4
"""Of the runs before a block: on these directions are fitted, on the others the test is chosen."""
MIN_RUNS = 40
BLOCKS = 4
MIN_SHOWN = 12
"""Runs per graph from which on a pair may be dropped because too little shows."""
CHUNK = 25
"""Runs per task of a worker process."""

Progress = Callable[[int, int, float], None]
"""Called with the runs done and the runs planned (both worlds together), and the largest epsilon proven so far."""


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


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a distinguishing game showed. ``leak``: the largest proven lower bound, in the unit of ``claim``."""

    claim: Claim
    pair: str
    release: str
    judgements: tuple[Judgement, ...]
    confidence: float
    planned: int
    seed: int
    judged: Scored
    """The chosen score on the last block, and which runs had the edge or node."""
    pairs: int = 1
    """From so many pairs this one was chosen."""
    uncorrelated: int = 0
    """Columns of the transcript if they were too many to look at how they go together, else 0."""

    @property
    def best(self) -> Judgement:
        """The block that proved most."""
        return max(self.judgements, key=lambda judgement: judgement.leak)

    @property
    def leak(self) -> float:
        """The largest lower bound, in the unit of the claim."""
        return self.best.leak

    @property
    def epsilon_lower(self) -> float:
        """The largest lower bound on epsilon at the claimed delta."""
        return self.claim.as_epsilon(self.leak)

    @property
    def epsilon_by_rates(self) -> float:
        """The largest lower bound on epsilon that follows from rates alone, in either direction of a test; of any release."""
        delta, out = 0.0 if self.claim.pure else self.claim.delta, 0.0
        for judged in self.judgements:
            fpr, tpr = pessimistic_rates(judged.false, judged.true, judged.runs, judged.confidence)
            out = max(out, epsilon_of_rates(fpr, tpr, delta), epsilon_of_rates(1 - tpr, 1 - fpr, delta))
        return out

    @property
    def runs(self) -> int:
        """Runs per graph that were made."""
        first = first_block(self.planned)
        return first + sum(judgement.runs for judgement in self.judgements)

    @property
    def rejects_claim(self) -> bool:
        """Whether more than the claim is proven."""
        return self.leak > self.claim.size

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        best = self.best
        return {
            "pair": self.pair,
            "release": self.release,
            "kind": self.claim.kind,
            "claimed": self.claim.size,
            "proven": self.leak,
            "epsilon_lower": self.epsilon_lower,
            "epsilon_lower_by_rates": self.epsilon_by_rates,
            "runs_per_graph": self.runs,
            "confidence": self.confidence,
            "test": best.test,
            "false_positives": best.false,
            "true_positives": best.true,
            "judged_runs": best.runs,
            "seed": self.seed,
        }


def distinguish(
    release: AuditTarget,
    pairs: Pair | Sequence[Pair],
    claim: Claim | Callable[[Pair], Claim],
    *,
    runs: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
    workers: int = 1,
    name: str = "release",
    progress: Progress | None = None,
) -> Evidence:
    """Play ``runs`` runs on each graph of a pair and prove what can be proven at ``confidence``.

    Of several pairs, some of the first block is played on each, more of it on the half on which most shows, and so on until one
    is left (decided on runs that are not judged); the rest is played on that one. ``claim`` may depend on the pair: groups of
    nodes may pay differently. ``workers`` > 1: separate processes, one thread each; the release must be picklable. Run k of a
    world draws its noise from a seed that follows from ``seed``, the pair and k, so that the same call gives the same evidence.
    """
    runs = integer(at_least=MIN_RUNS, runs=runs)
    open_unit_interval(confidence=confidence)
    candidates = _checked_game(release, pairs, claim)
    claim_of = claim if callable(claim) else lambda _: claim
    sizes = block_sizes(runs)
    done, planned = 0, 2 * (sum(played * size for played, size in heats(len(candidates), sizes[0])) + runs - sizes[0])

    def advance(size: int, bound: float) -> None:
        nonlocal done
        done += 2 * size
        if progress:
            progress(done, planned, bound)

    with players(workers) as play:
        pair, worlds = _most_telling(
            candidates,
            claim_of,
            lambda pair, start, size: _block(play, release, pair, start, size, seed),
            heats(len(candidates), sizes[0]),
            lambda size: advance(size, 0.0),
        )
        stated = claim_of(pair)
        judgements: list[Judgement] = []
        for size, share in zip(sizes[1:], error_shares(len(sizes) - 1), strict=True):
            test, directions = _choose(worlds, stated)
            fresh = _block(play, release, pair, sum(len(w[0]) for w in worlds), size, seed)
            judged, scored = _judge(test, directions, fresh, stated, 1 - share * (1 - confidence))
            judgements.append(judged)
            worlds.append(fresh)
            advance(size, stated.as_epsilon(max(j.leak for j in judgements)))
            if judged.leak > stated.size:
                break
    return Evidence(
        stated,
        pair.name,
        name,
        tuple(judgements),
        confidence,
        runs,
        seed,
        scored,
        len(candidates),
        directions.uncorrelated,
    )


def _checked_game(release: Any, pairs: Any, claim: Any) -> list[Pair]:
    """The pairs as a list; what is no release, pair or claim is named."""
    if not callable(release) and not callable(getattr(release, "many", None)):
        raise InputError(f"release must be a function of a graph and a source of noise, got {type(release).__name__}")
    if not isinstance(claim, Claim) and not callable(claim):
        raise InputError(f"claim must be a Claim or a function from a pair to one, got {claim!r}")
    candidates = [pairs] if isinstance(pairs, Pair) else list(pairs) if isinstance(pairs, Sequence) else []
    if not candidates or not all(isinstance(pair, Pair) for pair in candidates):
        raise InputError(f"pairs must be a Pair or a list of them, got {pairs!r}")
    return candidates


def block_sizes(runs: int) -> list[int]:
    """1/8, 1/8, 1/4 and 1/2 of the runs.

    >>> block_sizes(2000)
    [250, 250, 500, 1000]
    """
    sizes = [runs // 2 ** (BLOCKS - 1)] + [runs // 2**k for k in range(BLOCKS - 1, 0, -1)]
    return [*sizes[:-1], runs - sum(sizes[:-1])]


def first_block(runs: int) -> int:
    """Runs of the first block, which is never judged."""
    return block_sizes(runs)[0]


def error_shares(blocks: int) -> list[float]:
    """How the error is spent: half of it on the last and largest block, the rest in the same way on the ones before.

    >>> error_shares(3)
    [0.25, 0.25, 0.5]
    """
    return [2.0 ** -(blocks - 1)] + [2.0 ** -(blocks - k) for k in range(1, blocks)]


def heats(pairs: int, first: int) -> list[tuple[int, int]]:
    """How many pairs are still in, and how many runs each of them gets, until one has had the whole first block.

    Half of the pairs go after each heat. A heat has a quarter of the first block, but 12 runs, below which chance decides.

    >>> heats(8, 250), heats(8, 20), heats(1, 20)
    ([(8, 62), (4, 62), (2, 126)], [(8, 12), (4, 8)], [(1, 20)])
    """
    out, done = [], 0
    while pairs > 1 and done < first:
        size = first - done if pairs == 2 else min(first - done, max(MIN_SHOWN, first // 4))
        out.append((pairs, size))
        done += size
        pairs = (pairs + 1) // 2
    return [*out, (1, first - done)] if done < first else out


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
    """What the best test shows on the choosing part of the runs so far; for the choice of a pair."""
    test, columns = _choose(worlds, claim)
    both = [Runs.join([pair[k] for pair in worlds]) for k in (0, 1)]
    start = round(FIT_SHARE * len(both[0]))
    a, b = (columns(world.part(start, len(world))) for world in both)
    return claim.proven(*hits(a, b, test), len(a), 0.9)


def _choose(worlds: Sequence[tuple[Runs, Runs]], claim: Claim) -> tuple[Test, Discriminants]:
    """Discriminants fitted and a test chosen on all runs so far."""
    a, b = (Runs.join([pair[k] for pair in worlds]) for k in (0, 1))
    stop = round(FIT_SHARE * len(a))
    directions = fit_discriminants(a.part(0, stop), b.part(0, stop))
    left = len(a) - stop
    ta, tb = (directions(world.part(stop, len(world))) for world in (a, b))
    test = best_test(ta, tb, lambda false, true: claim.proven_by_each(false, true, left, 0.95))
    return test, directions


def _judge(
    test: Test, directions: Discriminants, fresh: tuple[Runs, Runs], claim: Claim, confidence: float
) -> tuple[Judgement, Scored]:
    a, b = (directions(world) for world in fresh)
    false, true = hits(a, b, test)
    leak = claim.proven(false, true, len(a), confidence)
    sign = test.sign if test.second else -test.sign
    scores = sign * np.concatenate([a[:, test.column], b[:, test.column]])
    members = np.arange(2 * len(a)) >= len(a)
    text = test.describe(directions.names)
    return Judgement(len(a), text, false, true, confidence, leak), Scored(scores, members)


# -- playing -------------------------------------------------------------------------------------------------------

Play = Callable[[AuditTarget, Graph, Sequence[int]], list[Transcript]]


@contextmanager
def players(workers: int) -> Iterator[Play]:
    """How single runs are made: here, or by ``workers`` processes with one thread each."""
    if integer(at_least=1, workers=workers) == 1:
        yield _play
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_one_thread) as pool:

        def play(release: AuditTarget, graph: Graph, seeds: Sequence[int]) -> list[Transcript]:
            chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
            futures = [pool.submit(_play, release, graph, chunk) for chunk in chunks]
            return [transcript for future in futures for transcript in future.result()]

        yield play


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _play(release: AuditTarget, graph: Graph, seeds: Sequence[int]) -> list[Transcript]:
    return [checked_transcript(release(graph, NoiseSource.seeded(seed))) for seed in seeds]


def run_seed(seed: int, pair: str, world: int, run: int) -> int:
    """The seed of the privacy noise of one run of an audit: below 2^52, different for every run."""
    return stream_seed(seed, f"audit|{pair}|{world}|{run}") >> 11


def _block(play: Play, release: AuditTarget, pair: Pair, start: int, size: int, seed: int) -> tuple[Runs, Runs]:
    """``size`` runs in both worlds, as tables."""
    many = getattr(release, "many", None)
    out = []
    for world, graph in enumerate(pair.worlds):
        if many is not None:
            noise = NoiseSource.seeded(run_seed(seed, pair.name, world, start))
            out.append(observe_batch(checked_transcript(many(graph, size, noise), runs=size), pair.batch_scores))
        else:
            seeds = [run_seed(seed, pair.name, world, run) for run in range(start, start + size)]
            out.append(observe(play(release, graph, seeds), pair.scores))
    return out[0], out[1]


# -- transcripts that somebody else has collected ------------------------------------------------------------------------

PARTS = (0.2, 0.5)
"""Where the fitting part and the choosing part of a single game end."""


@dataclass(frozen=True)
class Proven:
    """Lower bounds at the confidence of `prove`: ``epsilon`` at the claimed delta, ``mu`` if the claim is mu-GDP; what won."""

    epsilon: float
    mu: float
    by: tuple[str, str]


def prove(
    scores: tuple[Sequence[Mapping[str, float]], Sequence[Mapping[str, float]]],
    transcripts: tuple[Sequence[Transcript], Sequence[Transcript]],
    *,
    delta: float,
    confidence: float = CONFIDENCE,
) -> Proven:
    """The largest epsilon and mu that the runs of two worlds prove. ``scores``: the adversary's own; ``transcripts``: all it saw.

    Each of the two bounds holds at ``confidence`` by itself; which of them counts follows from the claim, not from the data.
    """
    a, b = (tabulate(transcript, named) for transcript, named in zip(transcripts, scores, strict=True))
    runs = min(len(a), len(b))
    first, second = (round(share * runs) for share in PARTS)
    directions = fit_discriminants(a.part(0, first), b.part(0, first))
    (ca, cb), (ja, jb) = (
        [directions(world.part(start, stop)) for world in (a, b)] for start, stop in ((first, second), (second, runs))
    )

    def judged(bound: Callable[[int, int, int], float], delta: float | None) -> tuple[float, str]:
        test = best_test(
            ca,
            cb,
            lambda false, true: many_bounds(false, true, second - first, delta=delta, confidence=confidence),
        )
        return bound(*hits(ja, jb, test), runs - second), directions.names[test.column]

    epsilon, by_epsilon = judged(lambda false, true, n: epsilon_bound(false, true, n, delta, confidence), delta)
    mu, by_mu = judged(lambda false, true, n: mu_bound(false, true, n, confidence), None)
    return Proven(epsilon, mu, (by_epsilon, by_mu))
