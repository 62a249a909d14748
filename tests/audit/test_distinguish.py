"""The judge: how error is spent, how tight it is, how often it is wrong, and that runs are reproducible and independent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from audit.known_bad_mechanisms.known_bad import edge_pair, gaussian_claim, graph, pure_claim
from caribou.audit.bounds import epsilon_bound, many_bounds, mu_bound
from caribou.audit.claims import Claim
from caribou.audit.discriminants import fit_discriminants
from caribou.audit.distinguish import block_sizes, distinguish, error_shares, run_seed
from caribou.audit.pairs import member_pair, worst_pairs
from caribou.audit.targets import AuditTarget, FitTarget
from caribou.audit.transcripts import Layout, equal_rows, observe, with_noise_removed
from caribou.audit.verdict import CONSISTENT, VIOLATED, judge
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.node.mlp import MlpDp
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


def test_blocks_and_errors_add_up() -> None:
    for runs in (40, 41, 999, 2000, 12345):
        assert sum(block_sizes(runs)) == runs
        assert min(block_sizes(runs)) >= 5
    for blocks in (1, 2, 3, 5):
        assert len(error_shares(blocks)) == blocks
        assert sum(error_shares(blocks)) == pytest.approx(1.0)


def test_bounds_of_many_tests_are_those_of_each() -> None:
    false, true = np.array([0, 3, 50, 100]), np.array([100, 60, 50, 0])
    for delta in (None, 0.0, 0.01):
        each = many_bounds(false, true, 100, delta=delta, confidence=0.95)
        for k in range(4):
            counts = (int(false[k]), int(true[k]), 100)
            single = mu_bound(*counts, 0.95) if delta is None else epsilon_bound(*counts, delta, 0.95)
            assert each[k] == pytest.approx(single, abs=1e-9)


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
    seeds = {run_seed(0, pair, world, run) for pair in "ab" for world in (0, 1) for run in range(50)}
    assert len(seeds) == 200


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, r"release must return a mapping from names to arrays .*, got NoneType None"),
        ([1.0, 2.0], r"release must return a mapping .*, got list \[1\.0, 2\.0\]"),
        ("text", r"release must return a mapping .*, got str 'text'"),
        (np.zeros(2), r"release must return a mapping .*, got ndarray"),
        ({1: np.zeros(2)}, r"release must return a mapping from names .*, got dict"),
        ({"x": None}, r"release must return an array of real numbers under 'x', got NoneType None"),
        ({"x": "text"}, r"release must return an array of real numbers under 'x', got str 'text'"),
        ({"x": [[1], [1, 2]]}, r"release must return an array of real numbers under 'x', got list"),
        ({"x": np.zeros(2, dtype=complex)}, r"release must return an array of real numbers under 'x', got ndarray"),
    ],
)
def test_a_release_that_returns_something_else_is_named(returned: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        distinguish(lambda *_: returned, PAIR, Claim(1.0, 0.0), runs=40)
    with pytest.raises(InputError, match=words):
        distinguish(SimpleNamespace(many=lambda *_: returned), PAIR, Claim(1.0, 0.0), runs=40)


def test_many_runs_must_be_as_many_as_asked_for() -> None:
    for returned, words in (
        ({"x": np.zeros((3, 2))}, r"many must return 5 runs along the first axis of 'x', got shape \(3, 2\)"),
        ({}, "many must return at least one array, got none"),
    ):
        with pytest.raises(InputError, match=words):
            distinguish(SimpleNamespace(many=lambda *_, r=returned: r), PAIR, Claim(1.0, 0.0), runs=40)


def test_what_is_no_release_pair_or_claim_is_named() -> None:
    claim = Claim(1.0, 0.0)
    for arguments, words in (
        ((None, PAIR, claim), "release must be a function of a graph and a source of noise, got NoneType"),
        ((attaining(Budget(1.0)), [], claim), r"pairs must be a Pair or a list of them, got \[\]"),
        ((attaining(Budget(1.0)), None, claim), "pairs must be a Pair or a list of them, got None"),
        ((attaining(Budget(1.0)), PAIR, 1.0), r"claim must be a Claim or a function from a pair to one, got 1\.0"),
    ):
        with pytest.raises(InputError, match=words):
            distinguish(*arguments, runs=40)


def test_a_shape_that_follows_the_edge_convicts() -> None:
    """Arrays may change their shape: an auditor that refused them would not see what it tells."""
    evidence = distinguish(
        lambda g, noise: {"x": noise.gaussian((4 + g.num_edges,), std=1.0)}, PAIR, Claim(1.0, 0.0), runs=400
    )
    assert evidence.rejects_claim


@pytest.mark.parametrize(
    ("epsilon", "delta", "words"),
    [
        ("abc", 0.0, "epsilon must be a number > 0 (inf means no privacy), got 'abc'"),
        (-1, 0.0, "epsilon must be a number > 0 (inf means no privacy), got -1"),
        (None, 0.0, "epsilon must be a number > 0 (inf means no privacy), got None"),
        (math.nan, 0.0, "epsilon must be a number > 0 (inf means no privacy), got nan"),
        (1.0, 2, "delta must be in [0, 1), got 2"),
        (1.0, "x", "delta must be in [0, 1), got 'x'"),
    ],
)
def test_a_bad_claim_is_named(epsilon: object, delta: object, words: str) -> None:
    with pytest.raises(InputError) as refused:
        Claim(epsilon, delta)  # type: ignore[arg-type]
    assert str(refused.value) == words


def test_of_several_pairs_the_one_that_shows_most_is_played() -> None:
    budget = Budget(8.0, 1e-5)
    same = edge_pair("same count", graph(3, [(0, 1)]), 0, 2)
    blind = type(PAIR)("nothing to see", PAIR.without, PAIR.without, PAIR.unit)
    evidence = distinguish(attaining(budget), [blind, PAIR, same], gaussian_claim(budget), runs=800)
    assert evidence.pair in ("two nodes", "same count")
    assert evidence.leak > 0


@dataclass(frozen=True)
class OneByOne:
    """The same without tensors of runs: what worker processes play."""

    inner: LinearIteration

    def __call__(self, g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        return {"state": self.inner.many(g, 1, noise)["state"][0]}


def test_progress_counts_runs_and_shows_the_bound() -> None:
    seen: list[tuple[int, int, float]] = []
    budget = Budget(8.0, 1e-5)
    distinguish(
        OneByOne(attaining(budget)), PAIR, gaussian_claim(budget), runs=200, progress=lambda *step: seen.append(step)
    )
    assert [done for done, _, _ in seen] == [50, 100, 200, 400]
    assert {planned for _, planned, _ in seen} == {400}
    assert seen[-1][2] > 0


@pytest.mark.slow
def test_processes_give_the_same_evidence_as_one_thread() -> None:
    budget, pair = Budget(8.0, 1e-5, "node"), member_pair()
    release = FitTarget(MlpDp(), budget, hidden=pair.hidden)
    one, two = (
        distinguish(release, pair, gaussian_claim(budget), runs=80, workers=workers).judged.scores for workers in (1, 2)
    )
    assert np.array_equal(one, two)


AUDITS, LEVEL = 200, 0.05


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "pure"])
def test_false_convictions_are_rarer_than_the_stated_level(kind: str) -> None:
    """200 audits of mechanisms that use up their claim exactly: where a wrong conviction is likeliest."""
    budget = Budget(1.0, 1e-5)
    release = attaining(budget) if kind == "gaussian" else RandomizedResponse(1.0)
    claim = gaussian_claim(budget) if kind == "gaussian" else pure_claim(budget)
    games = [distinguish(release, PAIR, claim, runs=400, confidence=1 - LEVEL, seed=seed) for seed in range(AUDITS)]
    wrong = sum(game.rejects_claim for game in games)
    covered = 1 - wrong / AUDITS
    assert wrong <= LEVEL * AUDITS, f"coverage {covered:.3f} of {1 - LEVEL}: {wrong} false convictions in {AUDITS}"
    release = replace(release, noise_std=release.noise_std / 2) if kind == "gaussian" else RandomizedResponse(2.0)
    caught = sum(distinguish(release, PAIR, claim, runs=2000, seed=seed).rejects_claim for seed in range(20))
    assert caught >= 16, f"only {caught} of 20 that leak twice the claim are caught"


# -- what is seen --------------------------------------------------------------------------------------------------


def test_equal_rows_are_counted_in_every_run() -> None:
    x = np.zeros((3, 4, 2))
    x[0] = [[1, 2], [1, 2], [3, 4], [1, 2]]
    x[1] = [[1, 2], [1, 2 + 1e-6], [0, 0], [0, 0]]
    x[2] = np.arange(8).reshape(4, 2)
    assert equal_rows(x).tolist() == [3, 0, 0]


def test_a_stored_seed_is_found_and_another_number_is_not() -> None:
    value = np.linspace(0, 1, 96).reshape(12, 8).round()
    noisy = value + NoiseSource.seeded(77).gaussian((12, 8), std=3.0)
    found = with_noise_removed({"x": noisy, "seed": np.array(77)})
    assert np.allclose(found["x without gaussian noise"], value)
    flat = 0.5 + 1e-3 * np.linspace(0, 1, 96).reshape(12, 8)  # a large mean is no correlation
    for count in range(60):
        assert set(with_noise_removed({"x": flat, "y": noisy, "count": np.array(count)})) == {"x", "y", "count"}


@pytest.mark.parametrize("stored", [np.array([77]), np.array([[3], [77]]), np.array(77.0), np.array([np.nan, 77.0])])
def test_a_seed_is_found_in_any_spelling(stored: np.ndarray) -> None:
    value = np.linspace(0, 1, 96).reshape(12, 8).round()
    noisy = value + NoiseSource.seeded(77).laplace((12, 8), scale=3.0)
    found = with_noise_removed({"x": noisy, "seed": stored})
    assert np.allclose(found["x without laplace noise"], value)


def test_a_seed_of_geometric_noise_is_found() -> None:
    value = np.arange(96).reshape(12, 8) // 48
    noisy = NoiseSource.seeded(77).add_discrete_laplace(value, epsilon=0.2)
    left = with_noise_removed({"x": noisy, "seed": np.array([77])})["x without laplace noise"]
    assert np.std(left - value) < 0.6 < 5 < np.std(noisy - value)


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(InputError, match="runs must be a whole number >= 40"):
        distinguish(attaining(Budget(1.0)), PAIR, Claim(1.0, 1e-5), runs=10)


def test_a_leak_of_twice_the_claim_is_violated() -> None:
    budget = Budget(2.0, 1e-5)
    evidence = distinguish(attaining(Budget(5.0, 1e-5)), PAIR, gaussian_claim(budget), runs=2000)
    assert judge({"game": evidence}, gaussian_claim(budget), confidence=0.95).word == VIOLATED


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


@pytest.mark.parametrize("odd", ODD)
def test_odd_runs_are_weighed_like_others(odd: str) -> None:
    """Shapes and infinite values that differ between runs of both worlds are no error, and no evidence."""
    claim = gaussian_claim(Budget(8.0, 1e-5))
    evidence = distinguish(NowAndThen(odd, 1 / 32), worst_pairs("edge")[0], claim, runs=120)
    assert not evidence.rejects_claim
    assert np.isfinite(evidence.judged.scores).all()


@pytest.mark.parametrize("odd", ODD)
def test_odd_runs_of_one_world_are_evidence(odd: str) -> None:
    claim = gaussian_claim(Budget(1.0, 1e-5))
    evidence = distinguish(NowAndThen(odd, 0.75, only_joined=True), worst_pairs("edge")[0], claim, runs=120)
    assert evidence.rejects_claim, evidence.best


# -- shapes that vary ----------------------------------------------------------------------------------------------


def random_shape(g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
    """Three or four numbers, by a coin; the graph is not read."""
    return {"x": noise.gaussian((3 + int(noise.integers(1, below=2)[0]),), std=1.0)}


def test_a_run_has_the_same_scores_alone_and_in_any_block() -> None:
    """What other runs of a block look like must not show: judged runs would not be independent."""
    transcripts = [random_shape(PAIR.without, NoiseSource.seeded(seed)) for seed in range(60)]
    directions = fit_discriminants(observe(transcripts[:15]), observe(transcripts[15:30]))
    together = directions(observe(transcripts[30:]))
    for size in (1, 2, 7):
        blocks = [directions(observe(transcripts[start : min(start + size, 60)])) for start in range(30, 60, size)]
        assert np.allclose(np.concatenate(blocks), together, rtol=1e-9)


def random_everything(g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
    """Shape, order, type, odd entries and large numbers follow coins; the graph is not read."""
    x, kind = random_shape(g, noise)["x"], int(noise.integers(1, below=6)[0])
    x[int(noise.integers(1, below=3)[0])] = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0)[kind]
    transcript = {"x": x.astype(np.float32 if kind % 2 else np.float64), "y": noise.integers(2, below=2**50) << 12}
    return transcript if kind < 3 else dict(reversed(transcript.items()))


@pytest.mark.parametrize("release", [random_shape, random_everything])
def test_what_does_not_follow_the_graph_is_never_convicted(release: AuditTarget) -> None:
    games = [distinguish(release, PAIR, Claim(1.0, 0.0), runs=48, seed=seed) for seed in range(20)]
    assert not any(game.rejects_claim for game in games)


def test_an_exact_entry_is_seen_before_junk_of_any_length() -> None:
    def release(g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        return {"x": np.append(2.0 + g.num_edges, noise.gaussian((int(noise.integers(1, below=500)[0]),), std=1.0))}

    assert distinguish(release, PAIR, Claim(1.0, 0.0), runs=120).rejects_claim


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


@pytest.mark.parametrize("leak", BESIDE)
def test_what_is_told_beside_the_values_convicts(leak: str) -> None:
    def release(g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        return BESIDE[leak](g.num_edges > 0, noise)

    evidence = distinguish(release, PAIR, Claim(1.0, 0.0), runs=120)
    assert evidence.rejects_claim, evidence.best


def test_ordinary_views_get_no_more_columns() -> None:
    runs = observe([{"x": NoiseSource.seeded(seed).gaussian((12, 2), std=1.0)} for seed in range(20)])
    assert Layout.of((runs, runs))(runs).shape == (20, 24)
