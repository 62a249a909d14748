"""One run: a single run with many canary edges, each there or not by a membership bit of its own, proves a lower bound.

The auditor knows everything but the membership bits (Steinke, Nasr and Jagielski 2023). A canary is a pair of a labelled node and
another node; no two canaries share a node. They are placed where an edge shows most: between nodes of few neighbours, and of
different classes where there are such. Two runs under the same noise, without any canary and with all of them, tell how far each
edge moves every table that is handed out (the noise cancels). On shadow runs, whose membership bits the auditor draws itself, it
learns what the transcript says about every canary's ends anyway. Then it makes the real run once, guesses the membership bits it
is surest of, and counts right guesses. What they prove follows from the trade-off curve of the claim (`caribou.audit.bounds`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from caribou._validate import integer, open_unit_interval
from caribou.audit.attack import Attack, Findings, Forecast, Terms
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.claims import Claim
from caribou.audit.discriminants import discriminant
from caribou.audit.evidence import OneRun
from caribou.audit.metrics import FALSE_POSITIVE_RATES, summarise
from caribou.audit.targets import AuditTarget, FitTarget, with_edges, without_pairs
from caribou.audit.transcripts import Transcript, checked_transcript, finite
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.metrics import Scored
from caribou.randomness import Streams, stream_seed

SHADOWS = 6
PROBES = 2
"""Runs under the same noise, without any canary and with all of them."""
GUESS_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Which share of the canaries is guessed; the shadow runs choose it, never the real one."""
MAX_CANARIES = 1000
MEMBERSHIP = "canary coins {}"
"""The public stream of the membership bits of a run. The label is part of every result, so it stays."""


@dataclass(frozen=True)
class CanaryRun(Attack):
    """One run with canary edges against the claim of a method."""

    name: ClassVar[str] = "onerun"

    def forecast(self, audited: AuditedMethod, terms: Terms) -> Forecast:
        """The fits of the claim, the probes, the shadow runs and the real one, whatever the terms are."""
        return Forecast(audited.claim_fits + PROBES + SHADOWS + 1)

    def games(self, audited: AuditedMethod) -> int:
        """One lower bound."""
        return 1

    def run(self, audited: AuditedMethod, terms: Terms) -> Findings:
        """Fit the method with canaries in its own graph, and guess their membership bits."""
        claim = audited.claim
        proof = one_run(
            FitTarget(audited.method, audited.budget, audited.streams),
            audited.own_graph,
            claim,
            confidence=terms.confidence,
            seed=audited.seed,
            progress=lambda done, planned: terms.progress(self.name, done, planned, 0.0),
        )
        if proof.scored is None:
            return Findings(proofs={self.name: proof})
        allowed = {rate: claim.allowed(rate) for rate in FALSE_POSITIVE_RATES}
        note = f"{proof.canaries} canary edges in one run, each there by a membership bit of its own"
        measured = summarise(self.name, [proof.scored], allowed=allowed, details={}, note=note)
        return Findings({self.name: measured}, {self.name: proof})


def one_run(
    target: AuditTarget,
    graph: Graph,
    claim: Claim,
    *,
    canaries: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> OneRun:
    """Audit ``target`` on ``graph`` with one run, after six shadow runs on which the auditor learns its score.

    Assumes: edge level. What right guesses prove follows from the trade-off curve of ``claim``. Everything else follows from
    ``seed``.

    Args:
        target: a function of a graph and a noise source that returns everything it hands out, as arrays by name.
        graph: in which canary edges are placed.
        claim: what is claimed.
        canaries: how many; None = as many as fit, at most `MAX_CANARIES`.
        confidence: of the lower bound.
        seed: of canaries, membership bits and noise.
        progress: called with the runs done and planned.

    Returns:
        The guesses, how many were right, and what they prove.

    >>> from caribou.audit.claims import Claim
    >>> from caribou.datasets import load
    >>> def nearly_exact_degrees(graph, noise):
    ...     return {"degrees": noise.add_gaussian(graph.degrees[:, None].astype(float), std=0.1)}
    >>> one_run(nearly_exact_degrees, load("csbm:nodes=120", seed=1), Claim(4.0, 1e-5), seed=1).epsilon_lower > 1
    True
    """
    open_unit_interval(confidence=confidence)
    streams = Streams(seed)
    base, pairs = plant(graph, canaries, streams.attack)
    if pairs.shape[1] < 2:  # an auditor guesses one bit to be 1 and another one to be 0
        raise InputError(
            f"graph must have room for two canary edges, got {graph.num_nodes} nodes and {pairs.shape[1]} pair"
        )
    done = itertools.count(1)

    def play(present: np.ndarray, noise_of: int | str) -> dict[str, np.ndarray]:
        noise = NoiseSource.seeded(stream_seed(seed, f"canary noise {noise_of}") >> 11)
        transcript = checked_transcript(target(with_canaries(base, pairs[:, present]), noise))
        if progress:
            progress(next(done), PROBES + SHADOWS + 1)
        return transcript

    everyone = np.ones(pairs.shape[1], dtype=bool)
    changes = table_changes(play(~everyone, "probe"), play(everyone, "probe"), graph.num_nodes)
    played: list[tuple[dict[str, np.ndarray], np.ndarray]] = []
    for run in range(SHADOWS + 1):
        present = np.less(streams.generator(MEMBERSHIP.format(run)).random(pairs.shape[1]), 0.5)
        played.append((canary_scores(play(present, run), pairs, graph, changes), present))
    # how many are guessed is chosen on the shadow runs alone, each of them guessed with what the others teach
    taught = _aligned(played[:SHADOWS])
    guessed = [
        (_learned(taught[:left] + taught[left + 1 :])(table), present) for left, (table, present) in enumerate(taught)
    ]

    def proven(share: float) -> float:
        counts = [_guess(totals, truth, share) for totals, truth in guessed]
        correct = sum(right for _, right in counts) // SHADOWS
        return claim.proven_by_guesses(correct, counts[0][0], pairs.shape[1], confidence)

    share = max(GUESS_SHARES, key=proven)
    *taught, (table, truth) = _aligned(played)
    totals = _learned(taught)(table)
    guesses, correct = _guess(totals, truth, share)
    scored = Scored(totals, truth) if 0 < truth.sum() < len(truth) else None
    return OneRun(claim, len(truth), guesses, correct, confidence, scored, seed)


def plant(graph: Graph, canaries: int | None, rng: np.random.Generator) -> tuple[Graph, np.ndarray]:
    """The graph without any of the canary pairs, and the pairs: one end labelled for training, no node twice. [2, m]

    An edge moves a normalised row most where there are few others, and where its ends are opposite. So nodes with the fewest
    neighbours are taken first (chance decides between equal ones), and ends are joined across classes.
    """
    if graph.split is None or graph.labels is None:
        raise InputError("graph must have labels and a split to plant canary edges, got none")
    train = rng.permutation(graph.split.train)
    rest = rng.permutation(np.setdiff1d(np.arange(graph.num_nodes), graph.split.train))
    if len(rest) < 2:  # nearly all nodes are for training
        train, rest = train[::2], train[1::2]
    most = min(len(train), len(rest), MAX_CANARIES)
    count = most if canaries is None else min(integer(at_least=1, canaries=canaries), most)
    if count < 1:
        raise InputError(f"graph must have room for a canary edge, got {graph.num_nodes} nodes")
    ends = [part[np.argsort(graph.degrees[part], kind="stable")][:count] for part in (train, rest)]
    first, second = (part[np.argsort(graph.labels[part], kind="stable")] for part in ends)
    pairs = np.stack([first, np.roll(second, count // 2)])
    return without_pairs(graph, pairs), pairs


def with_canaries(graph: Graph, pairs: np.ndarray) -> Graph:
    """The graph with these edges beside its own."""
    return with_edges(graph, np.concatenate([graph.edge_index, pairs], axis=1))


def table_changes(without: Transcript, joined: Transcript, nodes: int) -> dict[str, np.ndarray]:
    """By name: how far all canaries together move every table with one row per node. Assumes: two runs under the same noise.

    No two canaries share a node, so the rows of its ends show what one canary does, to first order.
    """
    out = {}
    for name, array in joined.items():
        before, after = np.asarray(without.get(name)), np.asarray(array)
        if after.ndim == 2 and len(after) == nodes and after.dtype.kind == "f" and before.shape == after.shape:
            out[name] = np.nan_to_num(after - before, nan=0.0, posinf=0.0, neginf=0.0)
    return out


def canary_scores(
    transcript: Transcript, pairs: np.ndarray, graph: Graph, changes: Mapping[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Per canary and by name: what every table says about its ends.

    Each end alone, crossed with the other's class, and both along the change that the edge makes (``changes``).
    """
    u, v = pairs
    labels = np.maximum(np.asarray(graph.labels), 0)
    out: dict[str, np.ndarray] = {}
    for name, array in transcript.items():
        values = np.asarray(array)
        if values.ndim != 2:
            continue
        if values.dtype.kind in "iu" and values.shape[0] == 2:  # a list of pairs
            listed, ends = np.sort(values, axis=0), np.sort(pairs, axis=0)
            keys = [pair[0] * graph.num_nodes + pair[1] for pair in (ends, listed)]
            out[f"{name} lists it"] = np.isin(keys[0], keys[1]).astype(np.float64)
        elif len(values) == graph.num_nodes:
            out[f"{name}, likeness"] = (values[u] * values[v]).sum(axis=1)
            if changes and name in changes and changes[name].shape == values.shape:
                along = values * changes[name]
                out[f"{name}, along its change"] = along[u].sum(axis=1) + along[v].sum(axis=1)
            if values.shape[1] >= graph.num_classes:
                out[f"{name}, second end"] = values[v, labels[u]]
                out[f"{name}, first end"] = values[u, labels[v]]
                out[f"{name}, sums"] = values[u].sum(axis=1) + values[v].sum(axis=1)
    if not out:
        raise InputError("target must hand out a table with one row per node, or a list of pairs, got neither")
    return out


def _aligned(played: Sequence[tuple[dict[str, np.ndarray], np.ndarray]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The columns that every one of these runs has, beside its membership bits. [m, k] and [m] per run"""
    names = [name for name in played[0][0] if all(name in table for table, _ in played)]
    return [(finite(np.stack([table[name] for name in names], axis=1)), present) for table, present in played]


def _learned(shadows: Sequence[tuple[np.ndarray, np.ndarray]]) -> Callable[[np.ndarray], np.ndarray]:
    """A score per canary: how far it lies above what is usual for it, in the direction in which an edge moves it.

    A canary's usual value is its mean over the shadow runs, less what its own edge added there; directions and effects come from
    the deviations of all canaries together.
    """
    scores = np.stack([table for table, _ in shadows])  # [runs, m, k]
    present = np.stack([c for _, c in shadows]).astype(np.float64)[:, :, None]
    deviations, centred = scores - scores.mean(axis=0), present - present.mean(axis=0)
    effect = (deviations * centred).sum(axis=(0, 1)) / np.maximum((centred**2).sum(), 1e-12)
    usual = (scores - (present - 0.5) * effect).mean(axis=0)
    inside, outside = (
        (scores - usual)[np.broadcast_to(present[:, :, 0] == value, scores.shape[:2])] for value in (1.0, 0.0)
    )
    enough = min(len(inside), len(outside)) > 1  # few canaries whose bits are nearly all equal teach nothing
    direction = discriminant(outside, inside) if enough else np.zeros(scores.shape[2])
    return lambda table: (table - usual) @ direction


def _guess(total: np.ndarray, present: np.ndarray, share: float) -> tuple[int, int]:
    """Guess the highest scores to be members and as many lowest ones not: how many guesses, and how many are right."""
    each = min(max(1, round(share * len(present) / 2)), len(present) // 2)  # no canary is guessed twice
    order = np.argsort(total, kind="stable")
    low, high = order[:each], order[len(order) - each :]
    return 2 * each, int((~present[low]).sum() + present[high].sum())
