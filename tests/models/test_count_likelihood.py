"""The likelihood of noisy counts, against sampling and against sums written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from caribou.mechanisms.edge_votes import VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.models.count_likelihood import (
    LARGEST,
    MULTIPLIERS,
    CountModel,
    multiplier_weights,
    vote_rates,
)

BUDGETS = (VoteBudget(0.7), VoteBudget(3.0), VoteBudget.gaussian(0.3), VoteBudget.gaussian(1.5))


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_the_table_is_the_convolution_of_count_and_noise(budget: VoteBudget) -> None:
    model = CountModel(budget)
    rates, points = np.array([0.2, 3.0, 40.0]), model.points()
    m = np.arange(LARGEST + 60)
    for rate, row in zip(rates, model.log_table(rates), strict=True):
        true = stats.poisson.pmf(m, rate)
        for i in range(1, 80, 7):
            gap = points[i] - m
            noise = (
                np.exp(-((gap * budget.mu) ** 2) / 2)
                if math.isfinite(budget.mu)
                else np.exp(-budget.epsilon * abs(gap))
            )
            assert row[i] == pytest.approx(math.log((true * noise).sum()), abs=1e-6)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_the_likelihood_prefers_the_rates_that_made_the_counts(budget: VoteBudget) -> None:
    """Two classes of receivers, 2 and 1.5 votes expected or the reverse: the mean log ratio is positive for both."""
    rng = np.random.default_rng(0)
    rates = np.array([[2.0, 1.5], [1.5, 2.0]])
    noise = NoiseSource.seeded(0)
    one = int(np.flatnonzero(np.isclose(MULTIPLIERS, 1.0))[0])
    for k in (0, 1):
        counts = budget.perturbed(rng.poisson(rates[k], (20_000, 2)), noise)
        L = CountModel(budget).log_likelihood(counts, rates)[:, :, one]
        ratio = L[:, k] - L[:, 1 - k]
        assert ratio.mean() > 5 * ratio.std() / math.sqrt(len(ratio))
        assert np.exp(-ratio).mean() == pytest.approx(1, abs=0.05), "E[likelihood ratio] is 1 under the truth"


# -- rates ---------------------------------------------------------------------------------------------------------


def voted(n: int, rates: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(len(rates), size=n)
    return rng.poisson(rates[labels]).astype(np.float64), labels


def fitted_rates(counts: np.ndarray, labels: np.ndarray, calibration: np.ndarray, exposure: float = 1.0) -> np.ndarray:
    C = counts.shape[1]
    totals = counts.sum(axis=1) / exposure
    mean_total = (float(totals.mean()), float(totals.var()) / len(totals))
    return vote_rates(
        counts, calibration, labels, np.full((len(calibration), C), exposure), np.full(C, 1 / C), mean_total
    )


def test_rates_are_recovered_from_many_nodes() -> None:
    rates = np.array([[3.0, 1.0, 0.2], [0.5, 2.0, 0.5], [0.1, 1.5, 4.0]])
    counts, labels = voted(20_000, rates)
    assert np.allclose(fitted_rates(counts, labels, np.arange(20_000)), rates, atol=0.1)
    # a node that only half of the voters reached tells the same rates
    halved, labels = voted(20_000, rates / 2)
    assert np.allclose(fitted_rates(halved, labels, np.arange(20_000), exposure=0.5), rates, atol=0.15)


def test_few_nodes_are_shrunk_to_homophily() -> None:
    """alpha I + beta 1 pi' is the truth: means of few noisy counts are far from it, the shrunk ones much nearer."""
    rates = 2.0 * np.eye(4) + 1.0 * np.full((4, 4), 1 / 4)
    errors = {"shrunk": 0.0, "raw": 0.0}
    for seed in range(20):
        counts, labels = voted(40, rates, seed)
        counts += np.random.default_rng(seed).standard_normal(counts.shape)
        B = fitted_rates(counts, labels, np.arange(40))
        raw = np.stack([counts[labels == k].mean(axis=0) if (labels == k).any() else np.zeros(4) for k in range(4)])
        errors["shrunk"] += float(((B - rates) ** 2).sum())
        errors["raw"] += float(((raw - rates) ** 2).sum())
    assert errors["shrunk"] < 0.4 * errors["raw"]


# -- degrees and classes -------------------------------------------------------------------------------------------


def test_the_distribution_of_degrees_is_recovered() -> None:
    """Half of the nodes with 0.2 times the rates, half with 3 times; classes known."""
    rng = np.random.default_rng(0)
    rates = np.array([[6.0, 1.0], [1.0, 6.0]])
    labels, multiplier = rng.integers(2, size=4000), rng.choice([0.2, 3.0], size=4000)
    counts = rng.poisson(rates[labels] * multiplier[:, None])
    g = multiplier_weights(CountModel(VoteBudget(4.0)).log_likelihood(counts, rates), np.eye(2)[labels])
    assert g.sum() == pytest.approx(1)
    degrees = np.array(MULTIPLIERS)
    small, large = g[degrees < 0.5].sum(), g[(degrees > 1.9) & (degrees < 5.5)].sum()
    assert small == pytest.approx(0.5, abs=0.05)
    assert large == pytest.approx(0.5, abs=0.05)


def test_a_class_without_labelled_nodes_changes_no_other_rate() -> None:
    """Nobody of it sends or receives, so it tells nothing: the rates of the others are those without it."""
    rng = np.random.default_rng(0)
    labels, cal = np.repeat([0, 1, 2], 40), np.arange(120)
    true = np.array([[4.0, 0.3, 1.0], [0.3, 3.0, 0.2], [1.0, 0.2, 5.0]])
    exposure = np.full((120, 3), 0.5)
    counts = rng.poisson(true[labels] * exposure) + rng.normal(0, 0.5, (120, 3))
    shares, mean = np.full(3, 1 / 3), (5.0, 0.01)
    plain = vote_rates(counts, cal, labels, exposure, shares, mean)
    noise = rng.normal(0, 0.5, (120, 1))
    more = vote_rates(
        np.hstack([counts, noise]),
        cal,
        labels,
        np.hstack([exposure, np.zeros((120, 1))]),
        np.append(shares, 1e-6),
        mean,
    )
    assert more[:3, :3] == pytest.approx(plain, rel=1e-3)


def test_many_classes_are_read_some_symbols_at_a_time_with_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    counts, rates = rng.integers(-2, 40, (30, 7)).astype(float), rng.uniform(0.1, 5, (4, 7))
    model = CountModel(VoteBudget(2.0))
    at_once = model.log_likelihood(counts, rates)
    monkeypatch.setattr("caribou.models.count_likelihood.TABLE", 1)
    assert np.array_equal(model.log_likelihood(counts, rates), at_once)
