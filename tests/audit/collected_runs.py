"""What transcripts that a test has collected prove: one test chosen on some runs, judged on the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from caribou.audit.bounds import CONFIDENCE, Count, Rate, epsilon_bound, mu_bound
from caribou.audit.discriminants import best_test, fit_discriminants, hits
from caribou.audit.transcripts import Transcript, tabulate

PARTS = (0.2, 0.5)
"""Where the fitting part and the choosing part end."""


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
    """The largest epsilon and mu that the runs of two worlds prove. ``scores``: the adversary's own.

    Each of the two bounds holds at ``confidence`` by itself; the claim decides which of them counts, not the data.
    """
    a, b = (tabulate(seen, named) for seen, named in zip(transcripts, scores, strict=True))
    runs = min(len(a), len(b))
    first, second = (round(share * runs) for share in PARTS)
    fitted = fit_discriminants(a.part(0, first), b.part(0, first))
    (ca, cb), (ja, jb) = (
        [fitted(world.part(start, stop)) for world in (a, b)] for start, stop in ((first, second), (second, runs))
    )

    def judged(bound: Callable[[Count, Count, int], Rate]) -> tuple[float, str]:
        test = best_test(ca, cb, lambda false, true: bound(false, true, second - first))
        return bound(*hits(ja, jb, test), runs - second), fitted.names[test.column]

    epsilon, by_epsilon = judged(lambda false, true, n: epsilon_bound(false, true, n, delta, confidence))
    mu, by_mu = judged(lambda false, true, n: mu_bound(false, true, n, confidence))
    return Proven(epsilon, mu, (by_epsilon, by_mu))
