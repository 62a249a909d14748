"""The formulas of the planner are the library's: 200 settings, every figure of each, to 1e-6."""

from __future__ import annotations

import math
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from caribou.errors import InputError
from caribou.privacy.accounting import (
    attack_rate,
    epsilon_for_rate,
    gdp_delta,
    gdp_epsilon,
    log_normal_cdf,
    pure_gdp_mu,
)
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.depth import plan_rows
from caribou.privacy.events import EpsilonDelta, Event, Gaussian
from caribou.privacy.filters import total_epsilon
from caribou.privacy.months import monthly_plans
from caribou.privacy.plan import attack_success, curve_degrees
from caribou.privacy.selection import RandomTrials, plan_selection, selection_epsilon
from caribou.privacy.sensitivity import Bounds, Sensitivity, declared_bounds, layer_sensitivity
from javascript_support import call

SETTINGS = 200
SLOW = 30
"""Of them, where the library itself searches for a long time."""
HOPS = [1, 2, 3, 8, 40, 128]
PRECISION = 1e-6


@dataclass(frozen=True)
class Setting:
    """One position of all controls."""

    unit: str
    epsilon: float
    delta: float
    contraction: float
    alpha1: float
    nodes: int | None
    floor: int | None
    cap: int | None
    declared: int | None
    degree: int
    fpr: float
    months: int
    share: float
    trials: int

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, self.delta, self.unit)

    @property
    def bounds(self) -> Bounds:
        node = self.unit == "node"
        return declared_bounds(
            self.unit,
            nodes=self.nodes,
            degree_floor=self.floor,
            degree_cap=self.cap if node else None,
            declared_degree=self.declared if node else None,
        )

    @property
    def sensitivity(self) -> Sensitivity:
        return layer_sensitivity(
            self.unit, contraction=self.contraction, alpha1=self.alpha1, beta=0.0, bounds=self.bounds
        )


def drawn() -> list[Setting]:
    """Settings from all over the page, its corners included; the same ones every time."""
    rng = random.Random(7)
    found = []
    while len(found) < SETTINGS:
        cap = rng.choice([None, None, 1, 5, 20, 100])
        setting = Setting(
            unit=rng.choice(["edge", "node"]),
            epsilon=rng.choice([2.0**-20, 0.01, 40.0]) if rng.random() < 0.05 else 10 ** rng.uniform(-1, 1.3),
            delta=10 ** rng.uniform(-12, -2),
            contraction=rng.choice([1.0, 0.999, rng.uniform(0.05, 1)]),
            alpha1=rng.choice([1.0, 1.0, rng.uniform(0.01, 1)]),
            nodes=rng.choice([None, 1, 2, 3, 50, round(10 ** rng.uniform(1, 6))]),
            floor=rng.choice([None, 0, 1, 2, 7, rng.randrange(300)]),
            cap=cap,
            declared=rng.choice([None, 1, 10, 200]),
            degree=rng.choice([0, 1, 5, rng.randrange(2000)]),
            fpr=rng.choice([0.001, 0.01, rng.uniform(0.0001, 0.9)]),
            months=rng.choice([1, 2, 12, rng.randrange(1, 40)]),
            share=rng.uniform(0.05, 0.95),
            trials=rng.choice([2, 10, 50]),
        )
        try:
            _ = setting.sensitivity
        except InputError:
            continue  # what the library refuses is compared below
        found.append(setting)
    return found


def bounds_of(setting: Setting) -> dict[str, Any]:
    return {key: getattr(setting, key) for key in ("nodes", "floor", "cap", "declared")}


def same(ours: Any, theirs: Any, what: object) -> None:
    """Equal to 1e-6 of the value; infinities and missing values are the same."""
    if isinstance(ours, float) and math.isinf(ours):
        assert theirs == "Infinity", what
    elif ours is None or isinstance(ours, str | int):
        assert theirs == ours, what
    else:
        assert theirs == pytest.approx(ours, rel=PRECISION, abs=1e-12), what


@pytest.fixture(scope="module")
def settings() -> list[Setting]:
    return drawn()


@pytest.fixture(scope="module")
def bounds(settings: list[Setting], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    calls = [["declaredBounds", s.unit, bounds_of(s)] for s in settings]
    return call(calls, tmp_path_factory.mktemp("bounds"))


def compare(settings: list[Setting], calls: list[list[Any]], expected: list[Any], folder: Path) -> None:
    for setting, ours, theirs in zip(settings, expected, call(calls, folder), strict=True):
        if isinstance(ours, dict):
            for key, value in ours.items():
                same(value, theirs[key], (key, setting))
        elif isinstance(ours, list):
            assert len(ours) == len(theirs), setting
            for one, other in zip(ours, theirs, strict=True):
                for key, value in one.items():
                    same(value, other[key], (key, setting))
        else:
            same(ours, theirs, setting)


def test_bounds_and_sensitivity(settings: list[Setting], bounds: list[dict[str, Any]], tmp_path: Path) -> None:
    for setting, theirs in zip(settings, bounds, strict=True):
        ours = setting.bounds
        assert (theirs["floor"], theirs["cap"], theirs["cuts"]) == (ours.degree_floor, ours.degree_cap, ours.cuts)
        if setting.unit == "node":
            assert theirs["covered"] == ours.covered_degree, setting
    layer = [
        {"contraction": s.contraction, "alpha1": s.alpha1, "bounds": b} for s, b in zip(settings, bounds, strict=True)
    ]
    calls = [["layerSensitivity", s.unit, given] for s, given in zip(settings, layer, strict=True)]
    compare(settings, calls, [s.sensitivity.value for s in settings], tmp_path)


def test_noise_against_depth(settings: list[Setting], tmp_path: Path) -> None:
    keys = ("kappa", "mu", "noise_std", "noise_multiplier", "rdp_noise_multiplier")
    keys += ("linear_noise_multiplier", "linear_gdp_noise_multiplier")
    calls, expected = [], []
    for s in settings:
        budget = {"epsilon": s.epsilon, "delta": s.delta}
        calls.append(["planRows", budget, s.sensitivity.value, s.contraction, HOPS])
        expected.append([{key: asdict(row)[key] for key in keys} for row in plan_rows(s.budget, s.sensitivity, HOPS)])
    compare(settings, calls, expected, tmp_path)


def test_what_a_node_of_each_degree_gets(settings: list[Setting], bounds: list[dict[str, Any]], tmp_path: Path) -> None:
    chosen, calls, expected = [], [], []
    for s, b in zip(settings, bounds, strict=True):
        if s.unit == "node":
            layer = {"contraction": s.contraction, "alpha1": s.alpha1, "bounds": b}
            chosen.append(s)
            calls.append(["epsilonAtDegree", {"epsilon": s.epsilon, "delta": s.delta}, layer, s.degree])
            mu = budget_mu(s.budget) * s.sensitivity.at_degree(s.degree) / s.sensitivity.value
            expected.append(gdp_epsilon(mu=mu, delta=s.delta))
    assert len(chosen) > 60
    compare(chosen, calls, expected, tmp_path)
    degrees = call([["curveDegrees", b["nodes"], b["covered"]] for b in bounds if b["covered"] is not None], tmp_path)
    wanted = [curve_degrees(b["nodes"], b["covered"]) for b in bounds if b["covered"] is not None]
    assert degrees == wanted


def test_the_attacker(settings: list[Setting], tmp_path: Path) -> None:
    rates = [(s, gaussian, steps) for s in settings for gaussian in (True, False) for steps in (1, 2)]
    asked = [
        {"epsilon": s.epsilon, "delta": s.delta, "fpr": s.fpr, "gaussian": gaussian, "steps": steps}
        for s, gaussian, steps in rates
    ]
    calls = [["attackRate", given] for given in asked]
    expected = [
        attack_rate(epsilon=s.epsilon, delta=s.delta, false_positive_rate=s.fpr, gaussian=gaussian, steps=steps)
        for s, gaussian, steps in rates
    ]
    compare([s for s, _, _ in rates], calls, expected, tmp_path)


def test_the_figures_of_a_certificate(settings: list[Setting], tmp_path: Path) -> None:
    calls, expected, chosen = [], [], []
    for s in settings:
        mu = budget_mu(s.budget)
        for release, event in (({"mu": mu}, Gaussian(1 / mu)), ({"epsilon": s.epsilon}, EpsilonDelta(s.epsilon))):
            for steps, rates in enumerate(attack_success([event], s.delta).values(), start=1):
                for fpr, rate in rates.items():
                    chosen.append(s)
                    calls.append(["releaseRate", release, float(fpr), steps])
                    expected.append(rate)
    compare(chosen, calls, expected, tmp_path)


def test_epsilon_for_a_rate(settings: list[Setting], tmp_path: Path) -> None:
    chosen = [(s, s.fpr + (1 - s.fpr) * s.share, gaussian) for s in settings[:SLOW] for gaussian in (True, False)]
    calls = [
        ["epsilonForRate", {"tpr": tpr, "fpr": s.fpr, "delta": s.delta, "gaussian": gaussian}]
        for s, tpr, gaussian in chosen
    ]
    expected = [
        epsilon_for_rate(true_positive_rate=tpr, false_positive_rate=s.fpr, delta=s.delta, gaussian=gaussian)
        for s, tpr, gaussian in chosen
    ]
    compare([s for s, _, _ in chosen], calls, expected, tmp_path)


def test_a_year(settings: list[Setting], tmp_path: Path) -> None:
    chosen = [s for s in settings if s.epsilon > 0.05][:SLOW]
    calls = [["monthlyPlans", s.unit, {"epsilon": s.epsilon, "delta": s.delta}, s.months, s.share] for s in chosen]
    keys = ("way", "first", "later", "presence", "replacement")
    expected = [
        [{key: asdict(plan)[key] for key in keys} for plan in monthly_plans(s.budget, s.months, s.share)]
        for s in chosen
    ]
    compare(chosen, calls, expected, tmp_path)


def test_releases_of_two_kinds_together(settings: list[Setting], tmp_path: Path) -> None:
    calls, expected = [], []
    for s in settings:
        mu = budget_mu(s.budget) * s.share
        releases = [{"mu": mu}, {"epsilon": s.epsilon / 3}, {"mu": mu / 2}]
        calls.append(["totalEpsilon", releases, {"epsilon": s.epsilon, "delta": s.delta}])
        events = [[Gaussian(1 / mu)], [EpsilonDelta(s.epsilon / 3)], [Gaussian(2 / mu)]]
        expected.append(total_epsilon(events, s.budget))
    compare(settings, calls, expected, tmp_path)


def test_a_search(settings: list[Setting], tmp_path: Path) -> None:
    calls, expected, chosen = [], [], []
    for s in settings:
        mu = budget_mu(s.budget)
        for release, event in (({"mu": mu}, Gaussian(1 / mu)), ({"epsilon": s.epsilon}, EpsilonDelta(s.epsilon))):
            for shape in (0.0, 1.0):
                chosen.append(s)
                calls.append(["selectionEpsilon", release, shape, s.trials, s.delta])
                expected.append(selection_epsilon([[event]], RandomTrials.of_mean(shape, s.trials), s.delta))
    compare(chosen, calls, expected, tmp_path)


@pytest.mark.parametrize("kind", ["gaussian", "pure"])
@pytest.mark.parametrize("trials", [2, 10])
def test_what_a_search_leaves_to_a_trial(kind: str, trials: int, tmp_path: Path) -> None:
    """The library's search ends 2^-16 below the budget, and rounds up to a grid: to a thousandth."""
    budget = Budget(4.0, 1e-5)

    def costs(epsilon: float) -> list[list[Event]]:
        return [[Gaussian(1 / budget_mu(Budget(epsilon, 1e-5))) if kind == "gaussian" else EpsilonDelta(epsilon)]]

    (theirs,) = call([["trialEpsilon", {"epsilon": 4.0, "delta": 1e-5}, trials, kind]], tmp_path)
    assert theirs == pytest.approx(plan_selection(costs, trials=trials, budget=budget).epsilon, rel=1e-3)


def test_the_normal_distribution_far_out(tmp_path: Path) -> None:
    xs = [-300.0, -37.0, -36.0, -20.0, -5.0, -3.6, -3.5, -1.0, 0.0, 0.3, 3.5, 3.6, 6.0]
    for x, theirs in zip(xs, call([["logNormalCdf", x] for x in xs], tmp_path), strict=True):
        assert theirs == pytest.approx(log_normal_cdf(x), rel=1e-12, abs=1e-15), x
    pairs = [(0.1, 1.0), (1.0, 4.0), (3.0, 0.5), (0.01, 0.0001)]
    for (mu, eps), theirs in zip(pairs, call([["gdpDelta", mu, eps] for mu, eps in pairs], tmp_path), strict=True):
        assert theirs == pytest.approx(gdp_delta(mu=mu, epsilon=eps), rel=1e-9)
    epsilons = [0.0005, 0.5, 30.0]
    for epsilon, theirs in zip(epsilons, call([["pureGdpMu", e] for e in epsilons], tmp_path), strict=True):
        assert theirs == pytest.approx(pure_gdp_mu(epsilon), rel=1e-9)


@pytest.mark.parametrize(
    ("unit", "given", "field"),
    [
        ("node", {"nodes": None}, "nodes"),
        ("node", {"nodes": 100, "cap": 5, "declared": 9}, "declared_degree"),
        ("node", {"nodes": 100, "cap": 5, "floor": 3}, "degree_floor"),
    ],
)
def test_what_the_library_refuses_the_page_refuses(
    unit: str, given: dict[str, Any], field: str, tmp_path: Path
) -> None:
    (answer,) = call([["declaredBounds", unit, given]], tmp_path)
    assert answer["error"].startswith(f"{field} must be ")
    full = Setting(
        unit,
        1.0,
        1e-5,
        0.9,
        1.0,
        **{"nodes": None, "floor": None, "cap": None, "declared": None, **given},
        degree=1,
        fpr=0.01,
        months=1,
        share=0.5,
        trials=2,
    )
    with pytest.raises(InputError, match=f"^{field} must be "):
        _ = full.sensitivity
