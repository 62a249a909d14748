"""The likelihood of noisy counts, against sampling and against sums written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from caribou.mechanisms.edge_votes import VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.models.count_likelihood import LARGEST, MULTIPLIERS, SHAPE, CountModel

BUDGETS = (VoteBudget(0.7), VoteBudget(3.0), VoteBudget.gaussian(0.3), VoteBudget.gaussian(1.5))


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("overdispersed", [False, True])
def test_the_table_is_the_convolution_of_count_and_noise(budget: VoteBudget, overdispersed: bool) -> None:
    model = CountModel(budget, overdispersed)
    rates, points = np.array([0.2, 3.0, 40.0]), model.points()
    m = np.arange(LARGEST + 60)
    for rate, row in zip(rates, model.log_table(rates), strict=True):
        true = stats.nbinom.pmf(m, SHAPE, SHAPE / (SHAPE + rate)) if overdispersed else stats.poisson.pmf(m, rate)
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
        L = CountModel(budget, False).log_likelihood(counts, rates)[:, :, one]
        ratio = L[:, k] - L[:, 1 - k]
        assert ratio.mean() > 5 * ratio.std() / math.sqrt(len(ratio))
        assert np.exp(-ratio).mean() == pytest.approx(1, abs=0.05), "E[likelihood ratio] is 1 under the truth"
