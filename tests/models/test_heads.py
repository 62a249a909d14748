"""Heads: they recover known weights, are the optimum of their loss, and are chosen on rows that they were not fitted on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax

from caribou.models import heads
from caribou.models.heads import (
    FOLDS,
    KNOTS,
    Evidence,
    Head,
    choose_head_by_folds,
    fit_average_head,
    fit_bayes_head,
    fit_prior_head,
    fit_ridge_head,
)
from caribou.models.objective import USUAL, cross_entropies

C = 3


def drawn(n: int, seed: int, a: float = 1.0, b: float = 0.5, bias=(0.0, 0.0, 0.0)) -> tuple[Evidence, np.ndarray]:
    """Labels from softmax(a prior + b evidence + bias): the Bayes head is the truth."""
    rng = np.random.default_rng(seed)
    prior = log_softmax(rng.standard_normal((n, C)), axis=1)
    counts = rng.poisson(2.0, (n, C)).astype(np.float64)
    evidence = 1.5 * (counts - counts.max(axis=1, keepdims=True))
    p = softmax(a * prior + b * evidence + np.array(bias), axis=1)
    return Evidence(prior, evidence, counts), (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)


def next_class(n: int, seed: int) -> tuple[Evidence, np.ndarray]:
    """Nodes of class c receive votes of class c + 1, and the evidence does not know: only a linear map of counts does."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(C, size=n)
    counts = rng.poisson(0.5 + 4.0 * np.eye(C)[(labels + 1) % C]).astype(np.float64)
    prior = log_softmax(0.3 * rng.standard_normal((n, C)), axis=1)
    return Evidence(prior, counts - counts.max(axis=1, keepdims=True), counts), labels


# -- fits ----------------------------------------------------------------------------------------------------------


def test_the_bayes_head_recovers_known_weights() -> None:
    known, labels = drawn(30_000, 0, a=0.8, b=0.7, bias=(0.5, 0.0, -0.5))
    theta = fit_bayes_head(known, labels).theta
    assert theta[0] == pytest.approx(0.8, abs=0.08)
    assert theta[1] == pytest.approx(0.7, abs=0.05)
    assert np.allclose(theta[2:] - theta[2:].mean(), [0.5, 0, -0.5], atol=0.08)


def test_fits_are_the_optimum_of_their_loss() -> None:
    """The loss written in NumPy, minimised by another optimiser from another start."""
    known, labels = drawn(200, 2, a=0.5, b=0.9)
    rows = np.arange(200)

    def bayes(t: np.ndarray) -> float:
        scores = t[0] * known.prior + t[1] * known.evidence + t[2:]
        penalty = 1e-3 * (t[2:] ** 2).sum() + ((t[0] - 1) ** 2 + (t[1] - 0.5) ** 2) / 400
        return float((logsumexp(scores, axis=1) - scores[rows, labels]).mean() + penalty)

    def prior(t: np.ndarray) -> float:
        scores = t[0] * known.prior + t[1:]
        return float(
            (logsumexp(scores, axis=1) - scores[rows, labels]).mean()
            + 1e-3 * (t[1:] ** 2).sum()
            + (t[0] - 1) ** 2 / 400
        )

    start = np.random.default_rng(0).standard_normal(2 + C)
    assert np.allclose(fit_bayes_head(known, labels).theta, minimize(bayes, start, tol=1e-12).x, atol=1e-3)
    assert np.allclose(
        np.delete(fit_prior_head(known.prior, labels).theta, 1), minimize(prior, start[1:], tol=1e-12).x, atol=1e-3
    )


def test_the_ridge_head_learns_what_the_bayes_head_cannot_say() -> None:
    known, labels = next_class(300, 0)
    other, other_labels = next_class(300, 1)

    def accuracy(head: Head) -> float:
        return float((head(other).argmax(axis=1) == other_labels).mean())

    assert accuracy(fit_ridge_head(known, labels, 0.03)) > 0.8 > 0.6 > accuracy(fit_bayes_head(known, labels))


def test_ridge_scores_are_the_formula_written_out() -> None:
    known, labels = drawn(80, 4)
    head = fit_ridge_head(known, labels, 0.3)
    k = len(KNOTS)
    columns = np.concatenate([known.prior, known.counts, np.clip(known.counts, -1, 4)], axis=1)
    standardised = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    t = head.theta
    expected = t[0] * known.prior + t[1] * known.evidence + t[2 + k : 2 + k + C]
    expected = expected + np.interp(known.counts, KNOTS, t[2 : 2 + k])
    expected = expected + standardised @ t[2 + C + k :].reshape(3 * C, C)
    assert np.allclose(head(known), expected)


# -- choice --------------------------------------------------------------------------------------------------------


def test_the_bayes_head_is_kept_unless_another_is_clearly_better() -> None:
    rng = np.random.default_rng(0)
    head, _ = choose_head_by_folds(*drawn(200, 5), Head(np.zeros(2 + C)), rng)
    assert head.centre is None
    head, _ = choose_head_by_folds(*next_class(200, 2), Head(np.array([1.0, 0, 0, 0, 0])), rng)
    assert head.centre is not None


def test_counts_that_are_noise_do_not_spoil_a_good_prior() -> None:
    rng = np.random.default_rng(0)
    n, labels = 600, rng.integers(C, size=600)
    prior = log_softmax(2.0 * np.eye(C)[labels] + rng.standard_normal((n, C)), axis=1)
    noise = 6.0 * np.eye(C)[rng.integers(C, size=n)]
    known, half = Evidence(prior, noise, noise), np.arange(300)
    candidate = fit_prior_head(prior[half], labels[half])
    head, _ = choose_head_by_folds(known.rows(half), labels[half], candidate, rng)
    others = np.arange(300, 600)
    gap = cross_entropies(head(known.rows(others)), labels[others]) - cross_entropies(
        candidate(known.rows(others)), labels[others]
    )
    assert gap.mean() < 0.02


def best(losses: list[np.ndarray]) -> int:
    """The choice among candidates with these cross-entropies, of two classes with label 0."""
    return USUAL.best(
        [np.stack([np.zeros(4), np.log(np.expm1(loss))], axis=1) for loss in losses], np.zeros(4, dtype=int)
    )


def test_only_a_gain_of_more_than_one_standard_error_counts() -> None:
    losses = np.array([5.0, 6.0, 5.0, 6.0])
    assert best([losses, losses - 0.2]) == 1, "the same gain on every row: no error at all"
    noisy = losses - np.array([3.0, -2.9, 3.0, -2.9])
    assert noisy.mean() < losses.mean()
    assert best([losses, noisy]) == 0
    assert best([losses, losses - 0.2, losses - 0.5]) == 2


def test_scores_of_folds_are_out_of_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row's own label may be anything: its score stays as it is, bit by bit, as long as the same kind is chosen."""
    monkeypatch.setattr(heads, "RIDGES", (0.03,))
    known, labels = next_class(120, 5)
    prior_head = Head(np.array([1.0, 0.0, 0.0, 0.0, 0.0]))
    head, scores = choose_head_by_folds(known, labels, prior_head, np.random.default_rng(0))
    for row in (0, 17):
        other = labels.copy()
        other[row] = (other[row] + 1) % C
        other_head, other_scores = choose_head_by_folds(known, other, prior_head, np.random.default_rng(0))
        assert (other_head.centre is None) == (head.centre is None)
        assert np.array_equal(other_scores[row], scores[row])
        same = (other_scores == scores).all(axis=1).mean()
        assert same == pytest.approx(1 / FOLDS), "its own fold, and nobody else"
    assert (scores.argmax(axis=1) == labels).mean() > 0.7


# -- records -------------------------------------------------------------------------------------------------------


def test_every_kind_of_head_survives_its_arrays() -> None:
    known, labels = drawn(60, 8)
    fits = (fit_prior_head(known.prior, labels), fit_bayes_head(known, labels), fit_ridge_head(known, labels, 0.3))
    for head in (*fits, fit_average_head(known, labels)):
        assert np.array_equal(Head(**head.to_arrays())(known), head(known))
