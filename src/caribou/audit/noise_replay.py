"""Noise replay: does a release read private values through its noise alone, and do they move by no more than it hides?

The check fits a method on a graph without edges and records what `NoiseSource.add_gaussian`, `add_laplace` and
`add_discrete_laplace` return. It then fits the method on a graph with edges and replays the recorded noisy values. Sound noise
can produce the same values on both graphs, so a fit that post-processes noisy and public values hands out the same twice. A fit
that also reads the edges directly does not. Two fits are enough, and the graphs may differ in any number of edges.

*Clean shifts*: on neighbours the same replay tells how far the values under each draw move. With the scale of the draw that is a
cost; the costs of a release together must not exceed its claim. So a sensitivity that is larger than it says is found in one run,
however rarely outputs would show it (a cousin of Re:cord-play, arXiv 2602.17454). Assumes: every noisy value is released, but for
message passing, where the last state is; samples that nobody knows are not credited.

The check also compares a fit with a prediction on another graph, which the audit plays in full: the scales of the noise, and how
far edges move the clean values under each draw. Noise that is drawn first and added later cannot be replayed. Such a fit looks as
if it read the edges, and is played in full.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from caribou import methods
from caribou.audit.attack import Attack, Findings, Forecast, Terms
from caribou.audit.claims import Claim
from caribou.audit.pairs import Pair, two_class_graph, worst_pairs
from caribou.audit.targets import handed_out, without_edges
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Fitted, Method
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate
from caribou.privacy.events import EpsilonDelta, Event, Gaussian, NonPrivate
from caribou.privacy.mechanism_records import MessagePassingRecord
from caribou.randomness import Streams

if TYPE_CHECKING:
    from caribou.audit.audited_method import AuditedMethod

BUSY = [(0, 1), (0, 2), (1, 2), (0, 11), (3, 7), (6, 7), (6, 11), (10, 11), (4, 10), (5, 9)]
"""Edges of every kind that the pairs have."""
SLACK = 1.01
"""How much more a fit may have to hide than a prediction: less than any number of runs would show."""
SAME_COST = 1e-3
"""Relative: accounting rounds up, by an amount that depends on the size of the graph."""
NORMS = {"Gaussian": 2, "Laplace": 1, "discrete_laplace": 1}
"""In which a shift costs what it costs under noise of a kind."""


# -- the attack ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoiseReplay(Attack):
    """Says what a replayed fit handed out differently, and how far clean values move between neighbours."""

    name: ClassVar[str] = "noise-replay"

    def forecast(self, audited: AuditedMethod, terms: Terms) -> Forecast:
        """The fits of the claim; where the method predicts no other graph, two per pair of neighbours."""
        return Forecast(audited.claim_fits if audited.predicts_graphs else 2 * len(neighbours(audited.budget.unit)))

    def run(self, audited: AuditedMethod, terms: Terms) -> Findings:
        """Replay on the pairs' own nodes; ``terms`` change nothing."""
        notes = []
        if audited.predicts_graphs:
            found = audited.replay.differences
            differing = f"fits differ in {', '.join(found)}; a game of predictions does not speak for them"
            notes.append(differing if found else "a fit reads edges through its noise alone")
        shifts = []
        pairs = neighbours(audited.budget.unit)
        for done, pair in enumerate(pairs, start=1):
            shifts.append(clean_shift(audited, pair))
            terms.progress(self.name, done, len(pairs), 0.0)
        worst = max(shifts, key=lambda shift: shift.ratio)
        if any(shift.unseen for shift in shifts):
            notes.append("some of its noise is not added to values, so that clean shifts say nothing")
            return Findings(notes=tuple(f"{self.name}: {note}" for note in notes))
        notes.append(
            f"over {len(shifts)} pairs, values under the noise move by at most {100 * worst.ratio:.4g} % of what it hides"
        )
        broken = (f"{self.name}, {worst.describe()}",) if worst.ratio > 1 + SAME_COST else ()
        return Findings(notes=tuple(f"{self.name}: {note}" for note in notes), broken=broken)


# -- recording and replaying ---------------------------------------------------------------------------------------


@dataclass
class Recording:
    """What was drawn, in order: (stream, kind, scale); and by stream and number the noisy values and the clean ones below."""

    drawn: list[tuple[str, str, float]] = field(default_factory=list)
    unseen: bool = False
    """Whether noise was drawn that was not added to a value."""
    values: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    clean: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)

    @property
    def scales(self) -> Counter[tuple[str, float]]:
        """How often each kind and scale of noise was drawn."""
        return Counter((kind, scale) for _, kind, scale in self.drawn)

    def moved(self, other: Recording) -> dict[tuple[str, float], list[float]]:
        """By kind and scale: how far the clean values of each draw lie from those of the other recording, farthest first."""
        out: dict[tuple[str, float], list[float]] = {}
        for (_, kind, scale), (place, value) in zip(self.drawn, self.clean.items(), strict=True):
            there = other.clean.get(place)
            alike = there is not None and there.shape == value.shape
            far = float(np.linalg.norm((value - there).ravel(), NORMS[kind])) if alike else math.inf
            out.setdefault((kind, scale), []).append(far)
        return {key: sorted(each, reverse=True) for key, each in out.items()}


class ReplayedNoise(NoiseSource):
    """Noise of another source, with a recording of it; noisy values that ``replayed`` holds are returned in place of new ones."""

    def __init__(
        self, inner: NoiseSource, recording: Recording, replayed: Recording | None = None, path: str = ""
    ) -> None:
        super().__init__(bytes(32), origin=inner.origin)  # no noise is drawn under this key: see `_next_stream`
        self._inner, self._recording, self._replayed, self._path = inner, recording, replayed, path
        self._count = 0
        self._adding = False

    def stream(self, purpose: str) -> NoiseSource:
        """A child with the same recording."""
        path = f"{self._path}/{purpose}"
        return ReplayedNoise(self._inner.stream(purpose), self._recording, self._replayed, path)

    def add_gaussian(self, value: np.ndarray, *, std: float) -> np.ndarray:
        """As `NoiseSource.add_gaussian`, or the recorded value."""
        return self._added("Gaussian", std, value, lambda: NoiseSource.add_gaussian(self, value, std=std))

    def add_laplace(self, value: np.ndarray, *, scale: float) -> np.ndarray:
        """As `NoiseSource.add_laplace`, or the recorded value."""
        return self._added("Laplace", scale, value, lambda: NoiseSource.add_laplace(self, value, scale=scale))

    def add_discrete_laplace(self, counts: np.ndarray, *, epsilon: float) -> np.ndarray:
        """As `NoiseSource.add_discrete_laplace`, or the recorded value."""
        drawn = lambda: NoiseSource.add_discrete_laplace(self, counts, epsilon=epsilon)  # noqa: E731
        return self._added("discrete_laplace", epsilon, counts, drawn)

    def _added(self, kind: str, scale: float, value: np.ndarray, draw: Callable[[], np.ndarray]) -> np.ndarray:
        self._adding = True
        noisy = draw()
        self._adding = False
        if noisy is value:  # nothing was added, so noise cannot explain a difference
            return noisy
        self._recording.drawn.append((self._path, kind, float(scale)))
        place = (self._path, self._count)
        self._count += 1
        before = None if self._replayed is None else self._replayed.values.get(place)
        if before is not None and before.shape == noisy.shape:
            noisy = before.copy()
        self._recording.values[place] = noisy.copy()
        self._recording.clean[place] = np.array(value, dtype=np.float64)
        return noisy

    def _next_stream(self) -> Any:
        self._draws += 1
        self._recording.unseen |= not self._adding
        return self._inner._next_stream()


@dataclass(frozen=True, eq=False)
class Replay:
    """A fit without any edge, and what a replayed fit with edges handed out differently.

    ``certificates``: of the fit, of the replayed fit, and of a prediction.
    """

    fitted: Fitted
    certificates: tuple[Certificate, Certificate, Certificate]
    differences: tuple[str, ...]

    @property
    def of_prediction(self) -> Certificate:
        """The certificate of the prediction."""
        return self.certificates[-1]

    @property
    def through_noise_alone(self) -> bool:
        """Whether the audit of predictions speaks for the fit as well."""
        return not self.differences


def replay_fits(method: Method, budget: Budget, streams: Streams, seed: int) -> Replay:
    """Fit without edges, fit with edges and replayed noise, predict in the same way, and compare. Assumes: edge level."""
    busy = two_class_graph(BUSY)
    bare, first, second, third, fourth = without_edges(busy), *(Recording() for _ in range(4))

    def noise(recording: Recording, replayed: Recording | None = None) -> NoiseSource:
        return ReplayedNoise(NoiseSource.seeded(seed), recording, replayed)

    fitted = methods.fit(method, bare, budget, streams, noise(first))
    again = methods.fit(method, busy, budget, streams, noise(second, first))
    methods.predict_graph(method, fitted.weights, bare, budget, streams, noise(third))
    predicted = methods.predict_graph(method, fitted.weights, busy, budget, streams, noise(fourth, third))
    before = handed_out(method, fitted, bare, None)
    # asked about the busy graph, predictions that multiply by clean edges differ although fit and prediction are sound
    after = [handed_out(method, fit, graph, None) for fit, graph in ((again, bare), (again, busy), (fitted, busy))]
    found = sorted({name for transcript in after for name in _differing(before, transcript)})
    if first.drawn != second.drawn:
        found.append("the scales of its noise")
    if first.scales != fourth.scales:
        found.append("the scales of its noise and those of a prediction")
    elif _farther(first.moved(second), third.moved(fourth)):
        found.append("how far edges move the values under its noise and those under the noise of a prediction")
    certificates = (fitted.certificate, again.certificate, predicted.certificate)
    return Replay(fitted, certificates, tuple(found))


def _farther(fit: Mapping[tuple[str, float], list[float]], prediction: Mapping[tuple[str, float], list[float]]) -> bool:
    """Whether some draw of a fit has to hide more than that of a prediction with the same scale."""
    return any(
        not far <= SLACK * there
        for scale, each in fit.items()
        for far, there in zip(each, prediction.get(scale, ()), strict=False)
    )


def _differing(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> set[str]:
    same = {name for name in a if name in b and _same(a[name], b[name])}
    return {*a, *b} - same or (set() if list(a) == list(b) else {"the order of what is handed out"})


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype != b.dtype or not np.array_equal(a, b, equal_nan=True):
        return False
    return a.dtype.kind != "f" or np.array_equal(np.signbit(a), np.signbit(b))


# -- clean shifts --------------------------------------------------------------------------------------------------


@cache
def neighbours(unit: PrivacyUnit) -> tuple[Pair, ...]:
    """At edge level one graph with every pair of its nodes joined or not; at node level the pairs of games."""
    if unit is not PrivacyUnit.EDGE:
        return worst_pairs(unit)
    busy = two_class_graph(BUSY)
    found = []
    for u, v in itertools.combinations(range(busy.num_nodes), 2):
        there = busy.has_edge(u, v)
        without, joined = busy.without_edge(u, v) if there else busy, busy if there else busy.with_edge(u, v)
        found.append(Pair(f"nodes {u} and {v}", without, joined, unit))
    return tuple(found)


@dataclass(frozen=True)
class Shift:
    """What the clean values cost that differ between two neighbours, beside what is claimed about the pair.

    ``moved``: a claim with the events that follow from distances and scales. ``unseen``: there was other noise beside.
    """

    pair: str
    claim: Claim
    moved: Claim
    unseen: bool

    @property
    def ratio(self) -> float:
        """The share of the claim that is used: of mu where both are Gaussian, else of epsilon."""
        if not self.moved.events:
            return 0.0
        if not self.moved.is_private or self.claim.size <= 0:
            return math.inf
        if self.moved.kind == self.claim.kind == "mu":
            return float(self.moved.mu or 0.0) / self.claim.size
        return self.moved.spent / min(self.claim.epsilon, self.claim.spent)

    def describe(self) -> str:
        """In words."""
        return (
            f"{self.pair}: the values under the noise move {self.ratio:.3g} times as far as the noise hides, which costs "
            f"epsilon = {self.moved.spent if self.moved.is_private else math.inf:.3g} if all noisy values are released; "
            f"{self.claim.describe()} is claimed"
        )


def clean_shift(audited: AuditedMethod, pair: Pair) -> Shift:
    """The release about one graph under noise, and about its neighbour with the same noisy values."""
    first, second = Recording(), Recording()
    for graph, noise in (
        (pair.without, ReplayedNoise(NoiseSource.seeded(audited.seed), first)),
        (pair.joined, ReplayedNoise(NoiseSource.seeded(audited.seed), second, first)),
    ):
        if audited.predicts_graphs:
            weights = audited.fitted.weights
            made = methods.predict_graph(audited.method, weights, graph, audited.budget, audited.streams, noise)
        else:
            made = methods.fit(audited.method, graph, audited.budget, audited.streams, noise)
    claim = Claim.of_certificate(made.certificate, pair.group, pair.degree)
    distances = first.moved(second)
    for record in made.certificate.mechanisms:
        if isinstance(record, MessagePassingRecord) and ("Gaussian", record.calibrated.noise_std) in distances:
            # states before the last stay hidden: no hop may move farther than its sensitivity, and K of them cost kappa
            hops = ("Gaussian", record.calibrated.noise_std)
            distances[hops] = [max(distances[hops]) * math.sqrt(record.calibrated.kappa)]
    events = cost_of(distances) if first.drawn == second.drawn else (NonPrivate(),)
    moved = Claim(claim.epsilon, claim.delta, claim.unit, events)
    return Shift(pair.name, claim, moved, first.unseen or second.unseen)


def cost_of(moved: Mapping[tuple[str, float], list[float]]) -> tuple[Event, ...]:
    """What noise of these kinds and scales pays for values that moved so far."""
    squares = pure = 0.0
    for (kind, scale), distances in moved.items():
        if kind == "Gaussian":
            squares += sum((far / scale) ** 2 for far in distances)
        else:
            pure += sum(distances) * (scale if kind == "discrete_laplace" else 1 / scale)
    if not math.isfinite(squares + pure):
        return (NonPrivate(),)
    gaussian = (Gaussian(1 / math.sqrt(squares)),) if squares else ()
    return gaussian + ((EpsilonDelta(pure),) if pure else ())
