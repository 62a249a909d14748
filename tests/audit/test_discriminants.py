"""Discriminants: they find what tells two worlds apart, and a run is scored by itself alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from caribou.audit.bounds import mu_bound
from caribou.audit.discriminants import (
    FITTED,
    MAX_CORRELATED,
    Partners,
    Test,
    best_test,
    correlated,
    discriminant,
    fit_discriminants,
    hits,
    thresholds,
    usual_where_missing,
)
from caribou.audit.transcripts import observe, observe_batch
from caribou.mechanisms.noise_source import NoiseSource


def random_shape(noise: NoiseSource) -> dict[str, np.ndarray]:
    """Three or four numbers, by a random bit."""
    return {"x": noise.gaussian((3 + int(noise.integers(1, below=2)[0]),), std=1.0)}


def test_a_run_has_the_same_scores_alone_and_in_any_block() -> None:
    """What other runs of a block look like must not show: judged runs would not be independent."""
    transcripts = [random_shape(NoiseSource.seeded(seed)) for seed in range(60)]
    discriminants = fit_discriminants(observe(transcripts[:15]), observe(transcripts[15:30]))
    together = discriminants(observe(transcripts[30:]))
    for size in (1, 2, 7):
        blocks = [discriminants(observe(transcripts[start : min(start + size, 60)])) for start in range(30, 60, size)]
        assert np.allclose(np.concatenate(blocks), together, rtol=1e-9)


def test_fishers_direction_is_the_inverse_covariance_times_the_gap() -> None:
    """Correlated Gaussians: the direction is proportional to S^-1 (mean difference), not to the difference itself."""
    rng = np.random.default_rng(0)
    root = np.array([[1.0, 0.0], [0.9, math.sqrt(1 - 0.81)]])
    a, b = (rng.standard_normal((20_000, 2)) @ root.T + gap for gap in ([0, 0], [0.5, 0.0]))
    direction = discriminant(a, b)
    expected = np.linalg.solve(root @ root.T, [0.5, 0.0])
    assert direction / direction[0] == pytest.approx(expected / expected[0], abs=0.05)
    assert discriminant(np.zeros((5, 0)), np.zeros((5, 0))).shape == (0,)


@pytest.mark.parametrize(
    ("world", "column"),
    [
        (lambda rng, n: rng.standard_normal((n, 6)) + 0.6, "mean projection"),
        (lambda rng, n: rng.standard_normal((n, 6)) * 2, "energy"),
        (lambda rng, n: rng.standard_normal((n, 6)) * [2, 0.5, 1, 1, 1, 1], "likelihood ratio of fitted Gaussians"),
    ],
)
def test_each_fitted_score_sees_what_it_is_made_for(world, column: str) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(1)
    make = [lambda n: rng.standard_normal((n, 6)), lambda n: world(rng, n)]
    fitted = fit_discriminants(*(observe_batch({"x": each(400)}) for each in make))
    assert fitted.names[-len(FITTED) :] == FITTED
    place = fitted.names.index(column)
    a, b = (fitted(observe_batch({"x": each(400)}))[:, place] for each in make)
    assert np.abs((b > np.median(a)).mean() - 0.5) > 0.3


def test_the_best_test_has_the_largest_bound_of_all() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((300, 3)), rng.standard_normal((300, 3)) + np.array([0, 2, 0.5])
    chosen = best_test(a, b, lambda false, true: mu_bound(false, true, 300, 0.95))
    assert chosen.column == 1
    found = mu_bound(*hits(a, b, chosen), 300, 0.95)
    for column in range(3):
        for threshold in thresholds(a[:, column], b[:, column]):
            for sign in (1, -1):
                for second in (True, False):
                    counts = hits(a, b, Test(column, threshold, sign, second))
                    assert mu_bound(*counts, 300, 0.95) <= found


def test_missing_entries_say_nothing_and_wide_tables_have_no_correlations() -> None:
    x = np.array([[1.0, np.nan], [np.inf, 4.0]])
    assert usual_where_missing(x, np.array([7.0, 8.0])).tolist() == [[1, 8], [7, 4]]
    assert correlated(np.zeros((2 * MAX_CORRELATED, MAX_CORRELATED)))
    assert not correlated(np.zeros((2 * MAX_CORRELATED - 1, MAX_CORRELATED)))
    assert not correlated(np.zeros((10_000, MAX_CORRELATED + 1)))


def test_a_direction_without_variance_is_not_left_out() -> None:
    """Two columns with one noise: each hides its shift, their difference shows it."""
    rng = np.random.default_rng(3)
    z = rng.standard_normal((2, 100))
    a, b = (np.stack([noise, noise + shift], axis=1) for noise, shift in zip(z, (0.0, 1e-3), strict=True))
    direction = discriminant(a, b)
    assert (a @ direction).max() < (b @ direction).min()


def test_partners_are_columns_with_one_noise() -> None:
    rng = np.random.default_rng(4)
    z, other = rng.standard_normal((2, 60, 300)), rng.standard_normal((2, 60, 5))
    a, b = (np.concatenate([z[k], 2 * z[k] + 0.1 * k, other[k]], axis=1) for k in (0, 1))
    found = Partners.of(a, b)
    assert sorted(found.first.tolist()) == list(range(300, 600))
    assert np.allclose(found.slope, 2)
    assert np.allclose(found(b)[:, a.shape[1] :], 0.1)
    assert len(Partners.of(other[0], other[1]).first) == 0
    same = np.concatenate([z[0], z[0]], axis=1)
    assert len(Partners.of(same, same).first) == 0, "equal columns say nothing twice"
    assert len(Partners.of(a[:, :1], b[:, :1]).first) == 0
