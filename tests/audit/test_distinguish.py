"""The distinguishing game: how tight it is, how often it is wrong, what it sees, and that it can be played again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audit.known_bad_mechanisms.known_bad import edge_pair, gaussian_claim, graph, pure_claim
from caribou.audit.claims import Claim
from caribou.audit.distinguish import distinguish
from caribou.audit.pairs import worst_pairs
from caribou.audit.verdict import CONSISTENT, judge
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.sensitivity import convergence_factor

PAIR = edge_pair("two nodes", graph(2, []), 0, 1)


@dataclass(frozen=True)
class LinearIteration:
    """x <- c x + shift + noise, K times, only the last x is seen; the shift of sensitivity 1 is there with the edge.

    A linear map with aligned shifts: the pair on which the convergent bound mu = sqrt(kappa) / noise_std is attained.
    """

    hops: int
    contraction: float
    noise_std: float

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        x = np.zeros((runs, 1))
        for _ in range(self.hops):
            x = self.contraction * x + g.num_edges + noise.gaussian(x.shape, std=self.noise_std)
        return {"state": x}


def attaining(budget: Budget, hops: int = 8, contraction: float = 0.9) -> LinearIteration:
    kappa = convergence_factor(hops=hops, contraction=contraction)
    return LinearIteration(hops, contraction, math.sqrt(kappa) / budget_mu(budget))


@dataclass(frozen=True)
class RandomizedResponse:
    """Whether there is the edge, told truly with probability e^eps / (1 + e^eps): pure epsilon is attained."""

    epsilon: float

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        lie = noise.integers(runs, below=2**32) / 2**32 > 1 / (1 + math.exp(-self.epsilon))
        return {"bit": (lie ^ (g.num_edges > 0)).astype(np.float64)[:, None]}


def test_the_audit_is_tight_where_the_convergent_bound_is_attained() -> None:
    """At least 80 % of epsilon = 2 is proven with K = 8."""
    budget = Budget(2.0, 1e-5)
    claim = gaussian_claim(budget)
    evidence = distinguish(attaining(budget), PAIR, claim, runs=40_000)
    assert 0.8 * 2.0 <= evidence.epsilon_lower <= 2.0
    assert judge({"game": evidence}, claim, confidence=0.95).word == CONSISTENT


def test_the_same_call_gives_the_same_evidence_and_runs_are_different() -> None:
    budget = Budget(2.0, 1e-5)
    one, two, other = (
        distinguish(attaining(budget), PAIR, gaussian_claim(budget), runs=400, seed=seed).judged.scores
        for seed in (3, 3, 4)
    )
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


BAD_TRANSCRIPTS = [None, {1: np.zeros(2)}, {"x": None}, {"x": [[1], [1, 2]]}, {"x": np.zeros(2, dtype=complex)}]
BAD_GAMES: list[tuple[str, tuple[Any, ...]]] = [
    ("runs", (attaining(Budget(1.0)), PAIR, Claim(1.0, 0.0), 10)),
    ("target", (None, PAIR, Claim(1.0, 0.0), 40)),
    ("pairs", (attaining(Budget(1.0)), [], Claim(1.0, 0.0), 40)),
    ("pairs", (attaining(Budget(1.0)), None, Claim(1.0, 0.0), 40)),
    ("claim", (attaining(Budget(1.0)), PAIR, 1.0, 40)),
    *(("target", (lambda *_, r=bad: r, PAIR, Claim(1.0, 0.0), 40)) for bad in BAD_TRANSCRIPTS),
    *(("target", (SimpleNamespace(many=lambda *_, r=bad: r), PAIR, Claim(1.0, 0.0), 40)) for bad in BAD_TRANSCRIPTS),
    *(
        ("many", (SimpleNamespace(many=lambda *_, r=bad: r), PAIR, Claim(1.0, 0.0), 40))
        for bad in ({}, {"x": np.zeros((3, 2))})
    ),
]


def test_what_cannot_be_played_is_named() -> None:
    for field, (target, pairs, claim, runs) in BAD_GAMES:
        with pytest.raises(InputError) as refused:
            distinguish(target, pairs, claim, runs=runs)
        assert refused.value.field == field, str(refused.value)


def test_of_several_pairs_the_one_that_shows_most_is_played() -> None:
    budget = Budget(8.0, 1e-5)
    same = edge_pair("same count", graph(3, [(0, 1)]), 0, 2)
    blind = type(PAIR)("nothing to see", PAIR.without, PAIR.without, PAIR.unit)
    evidence = distinguish(attaining(budget), [blind, PAIR, same], gaussian_claim(budget), runs=800)
    assert evidence.pair in ("two nodes", "same count")
    assert evidence.leak > 0


AUDITS, LEVEL = 200, 0.05


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "pure"])
def test_false_rejections_are_rarer_than_the_stated_level(kind: str) -> None:
    """200 audits of mechanisms that use up their claim exactly: where a false rejection is likeliest."""
    budget = Budget(1.0, 1e-5)
    target = attaining(budget) if kind == "gaussian" else RandomizedResponse(1.0)
    claim = gaussian_claim(budget) if kind == "gaussian" else pure_claim(budget)
    games = [distinguish(target, PAIR, claim, runs=400, confidence=1 - LEVEL, seed=seed) for seed in range(AUDITS)]
    wrong = sum(game.rejects_claim for game in games)
    covered = 1 - wrong / AUDITS
    assert wrong <= LEVEL * AUDITS, f"coverage {covered:.3f} of {1 - LEVEL}: {wrong} false rejections in {AUDITS}"
    target = replace(target, noise_std=target.noise_std / 2) if kind == "gaussian" else RandomizedResponse(2.0)
    caught = sum(distinguish(target, PAIR, claim, runs=2000, seed=seed).rejects_claim for seed in range(20))
    assert caught >= 16, f"only {caught} of 20 that leak twice the claim are caught"


# -- runs that do not look like the others -------------------------------------------------------------------------


@dataclass(frozen=True)
class NowAndThen:
    """Noise alone, and with probability ``often`` (at least with the edge) an odd thing that other runs do not hand out."""

    odd: str
    often: float
    only_joined: bool = False

    def __call__(self, g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        x = noise.gaussian((12, 2), std=1.0)
        if not noise.bernoulli(1, probability=self.often)[0] or (self.only_joined and g.num_edges == 0):
            return {"table": x, "list": x[0]}
        return {
            "longer": {"table": x, "list": np.append(x[0], 1.0)},
            "shorter": {"table": x[1:], "list": x[0]},
            "missing": {"list": x[0]},
            "another": {"table": x, "list": x[0], "more": x[1]},
            "infinite": {"table": np.where(x == x[0, 0], -np.inf, x), "list": x[0]},
        }[self.odd]


ODD = ["longer", "shorter", "missing", "another", "infinite"]


def test_odd_runs_are_weighed_like_others() -> None:
    """Shapes and infinite values that differ between runs of both worlds are no error, and no evidence."""
    for odd in ODD:
        claim = gaussian_claim(Budget(8.0, 1e-5))
        evidence = distinguish(NowAndThen(odd, 1 / 32), worst_pairs("edge")[0], claim, runs=120)
        assert not evidence.rejects_claim
        assert np.isfinite(evidence.judged.scores).all()


def test_odd_runs_of_one_world_are_evidence() -> None:
    for odd in ODD:
        claim = gaussian_claim(Budget(1.0, 1e-5))
        evidence = distinguish(NowAndThen(odd, 0.75, only_joined=True), worst_pairs("edge")[0], claim, runs=120)
        assert evidence.rejects_claim, (odd, evidence.best)


# -- shapes that vary ----------------------------------------------------------------------------------------------


def random_shape(g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
    """Three or four numbers, by a random bit; the graph is not read."""
    return {"x": noise.gaussian((3 + int(noise.integers(1, below=2)[0]),), std=1.0)}


def random_everything(g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
    """Shape, order, type, odd entries and large numbers are random; the graph is not read."""
    x, kind = random_shape(g, noise)["x"], int(noise.integers(1, below=6)[0])
    x[int(noise.integers(1, below=3)[0])] = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0)[kind]
    transcript = {"x": x.astype(np.float32 if kind % 2 else np.float64), "y": noise.integers(2, below=2**50) << 12}
    return transcript if kind < 3 else dict(reversed(transcript.items()))


def test_what_does_not_follow_the_graph_is_never_rejected() -> None:
    for target in [random_shape, random_everything]:
        games = [distinguish(target, PAIR, Claim(1.0, 0.0), runs=48, seed=seed) for seed in range(20)]
        assert not any(game.rejects_claim for game in games)


def test_an_exact_entry_is_seen_before_junk_of_any_length() -> None:
    def target(g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        return {"x": np.append(2.0 + g.num_edges, noise.gaussian((int(noise.integers(1, below=500)[0]),), std=1.0))}

    assert distinguish(target, PAIR, Claim(1.0, 0.0), runs=120).rejects_claim


# -- what is told beside the values --------------------------------------------------------------------------------

BESIDE: dict[str, Callable[[bool, NoiseSource], dict[str, np.ndarray]]] = {
    "a name": lambda edge, noise: {"yes" if edge else "no": np.ones(1)},
    "a name, lengths vary": lambda edge, noise: {"yes" if edge else "no": np.ones(int(noise.integers(1, below=99)[0]))},
    "a shape of the same size": lambda edge, noise: {"x": noise.gaussian((2, 3) if edge else (3, 2), std=1.0)},
    "where there is no number": lambda edge, noise: {"x": np.array([1.0, np.nan] if edge else [np.nan, 1.0])},
    "the sign of infinity": lambda edge, noise: {"x": np.array([np.inf if edge else -np.inf])},
    "the sign of zero": lambda edge, noise: {"x": np.array([-0.0 if edge else 0.0])},
    "a type": lambda edge, noise: {"x": noise.gaussian((4,), std=1.0).astype(np.float32 if edge else np.float64)},
    "the order of names": lambda edge, noise: {name: noise.gaussian((2,), std=1.0) for name in ("ab", "ba")[edge]},
    "a large whole number": lambda edge, noise: {"x": np.array([2**60 + edge])},
}


def test_what_is_told_beside_the_values_rejects_the_claim() -> None:
    for leak, told in BESIDE.items():
        target = partial(lambda told, g, noise: told(g.num_edges > 0, noise), told)
        evidence = distinguish(target, PAIR, Claim(1.0, 0.0), runs=120)
        assert evidence.rejects_claim, (leak, evidence.best)
