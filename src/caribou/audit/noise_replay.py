"""Noise replay: does a fit read private edges through its noise alone?

The check fits a method on a graph without edges and records what `NoiseSource.add_gaussian`, `add_laplace` and
`add_discrete_laplace` return. It then fits the method on a graph with edges and replays the recorded noisy values. Sound noise
can produce the same values on both graphs, so a fit that post-processes noisy and public values hands out the same twice. A fit
that also reads the edges directly does not. Two fits are enough, and the graphs may differ in any number of edges.

Replay says nothing about the size of the noise. So the check also compares a fit with a prediction on another graph, which the
audit plays in full: the scales of the noise, and how far edges move the clean values under each draw. A fit that bounds these
values less needs more noise. This is a proxy for the sensitivity of a fit, on one graph and for one draw, and not a bound on it.
Noise that is drawn first and added later cannot be replayed. Such a fit looks as if it read the edges, and is played in full.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from caribou import methods
from caribou.audit.attack import Attack, Findings, Forecast, Terms
from caribou.audit.pairs import two_class_graph
from caribou.audit.targets import handed_out, without_edges
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Fitted, Method
from caribou.privacy.budget import Budget
from caribou.privacy.certificate import Certificate
from caribou.randomness import Streams

if TYPE_CHECKING:
    from caribou.audit.audited_method import AuditedMethod

BUSY = [(0, 1), (0, 2), (1, 2), (0, 11), (3, 7), (6, 7), (6, 11), (10, 11), (4, 10), (5, 9)]
"""Edges of every kind that the pairs have."""
SLACK = 1.01
"""How much more a fit may have to hide than a prediction: less than any number of runs would show."""


# -- the attack ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoiseReplay(Attack):
    """Fits twice, predicts twice, and says what a replayed fit handed out differently."""

    name: ClassVar[str] = "noise-replay"

    def forecast(self, audited: AuditedMethod, terms: Terms) -> Forecast:
        """The fits of the claim: one without edges and one with edges, whatever the terms are."""
        return Forecast(audited.claim_fits)

    def run(self, audited: AuditedMethod, terms: Terms) -> Findings:
        """Replay on the pairs' own nodes; ``terms`` change nothing."""
        if not audited.predicts_graphs:
            return Findings(
                skipped={self.name: "it compares a fit with a prediction, and the method predicts no other graph"}
            )
        replay = audited.replay
        terms.progress(self.name, 1, 1, 0.0)
        if replay.through_noise_alone:
            return Findings(notes=(f"{self.name}: a fit reads edges through its noise alone",))
        return Findings(
            notes=(
                f"{self.name}: fits differ in {', '.join(replay.differences)}; a game of predictions does not speak for them",
            )
        )


# -- recording and replaying ---------------------------------------------------------------------------------------


@dataclass
class Recording:
    """What was drawn, in order: (stream, kind, scale); and by stream and number the noisy values and the clean ones below."""

    drawn: list[tuple[str, str, float]] = field(default_factory=list)
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
            far = float(np.linalg.norm(value - there)) if there is not None and there.shape == value.shape else math.inf
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

    def stream(self, purpose: str) -> NoiseSource:
        """A child with the same recording."""
        path = f"{self._path}/{purpose}"
        return ReplayedNoise(self._inner.stream(purpose), self._recording, self._replayed, path)

    def add_gaussian(self, value: np.ndarray, *, std: float) -> np.ndarray:
        """As `NoiseSource.add_gaussian`, or the recorded value."""
        return self._added("Gaussian", std, value, super().add_gaussian(value, std=std))

    def add_laplace(self, value: np.ndarray, *, scale: float) -> np.ndarray:
        """As `NoiseSource.add_laplace`, or the recorded value."""
        return self._added("Laplace", scale, value, super().add_laplace(value, scale=scale))

    def add_discrete_laplace(self, counts: np.ndarray, *, epsilon: float) -> np.ndarray:
        """As `NoiseSource.add_discrete_laplace`, or the recorded value."""
        return self._added("discrete_laplace", epsilon, counts, super().add_discrete_laplace(counts, epsilon=epsilon))

    def _added(self, kind: str, scale: float, value: np.ndarray, noisy: np.ndarray) -> np.ndarray:
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
