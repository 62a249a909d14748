"""The likelihood of noisy vote counts: how many votes of each class a node of each class receives, and what a count tells.

Everything here is computed from public values and released counts. Rates: B[k, c] is the expected number of training
neighbours of class c of a node of class k.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from caribou.machine.deferred import deferred_imports
from caribou.mechanisms.edge_votes import VoteBudget

with deferred_imports():
    import numpy as np
    from scipy.special import gammaln, logsumexp

JACKKNIFE_GROUPS = 20
"""Groups of receivers for the standard error of what messages tell."""
MULTIPLIERS = (0.0, 0.08, 0.2, 0.4, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 9.0, 18.0)
"""Degrees are heavy-tailed: a node's rates are B times one of these, with weights learned from the release."""
TABLE = 1 << 23
"""Numbers of a table of likelihoods that are held at once: with many classes, some symbols at a time."""
LARGEST = 300
"""Larger counts are scaled down to this; they decide the class anyway."""
USUAL_RECEIVERS = 2.0
"""How many receivers of a class the scatter of all receivers stands for, beside its own."""
EM_STEPS = 25
PART = 1 << 17
"""Rows whose likelihoods are computed together: [n, C, T] numbers are held once, and copies are of so many rows."""


def parts(rows: np.ndarray) -> Iterator[np.ndarray]:
    """The rows in order, PART at a time."""
    for first in range(0, len(rows), PART):
        yield rows[first : first + PART]


def vote_rates(
    counts: np.ndarray,
    calibration: np.ndarray,
    labels: np.ndarray,
    exposure: np.ndarray,
    shares: np.ndarray,
    mean_total: tuple[float, float],
) -> np.ndarray:
    """B by empirical Bayes: class profiles of the calibration nodes, shrunk to alpha I + beta 1 pi'. -> [C, C].

    Args:
        counts: [n, C], released.
        calibration: indices of the calibration nodes.
        labels: [n]; only those of the calibration nodes are read.
        exposure: [len(calibration), C], the share of each class that could have voted for the node.
        shares: pi, [C], class shares of the training nodes.
        mean_total: the observed mean number of votes of an unlabelled node, and its variance (needs no label).
    """
    C = counts.shape[1]
    observed, variance = np.zeros((C, C)), np.full((C, C), np.inf)
    everybody = counts[calibration].var(axis=0)
    for k in range(C):
        rows = labels[calibration] == k
        votes, seen = counts[calibration[rows]], exposure[rows].sum(axis=0)
        asked = seen > 0  # nobody of a class without senders could have voted, whoever received
        # few receivers of a class may agree by chance, which is no proof that all do
        spread = ((votes - votes.mean(axis=0)) ** 2).sum(axis=0) if len(votes) else 0.0
        spread = (spread + USUAL_RECEIVERS * everybody) / (len(votes) + USUAL_RECEIVERS)
        observed[k, asked] = votes.sum(axis=0)[asked] / seen[asked]
        variance[k, asked] = np.maximum(len(votes) * spread, 1e-3)[asked] / seen[asked] ** 2
    pooled = _pooled(observed, variance, shares, mean_total)
    diagonal = np.eye(C, dtype=bool)
    B = pooled.copy()
    for part in (diagonal, ~diagonal):
        part = part & np.isfinite(variance)
        if part.any():
            gap = (observed - pooled)[part]
            weight = 1 / variance[part] ** 2
            t2 = max(0.0, float((weight * (gap**2 - variance[part])).sum() / weight.sum()))
            B[part] += t2 / (t2 + variance[part]) * gap
    floor = 0.01 * max(float(pooled.sum(axis=1).mean()), 1e-3) * shares
    return np.maximum(B, floor[None, :])


def _pooled(
    observed: np.ndarray, variance: np.ndarray, shares: np.ndarray, mean_total: tuple[float, float]
) -> np.ndarray:
    """alpha I + beta 1 pi': weighted least squares, then one Kalman step with the mean number of votes, alpha + beta."""
    C = len(shares)
    design = np.stack([np.eye(C).ravel(), np.tile(shares, C)], axis=1)
    weight = 1 / variance.ravel()
    precision = design.T @ (design * weight[:, None]) + 1e-9 * np.eye(2)
    covariance = np.linalg.inv(precision)
    theta = covariance @ (design.T @ (weight * observed.ravel()))
    h = np.ones(2)
    total, total_variance = mean_total
    gain = covariance @ h / (h @ covariance @ h + total_variance)
    theta = theta + gain * (total - h @ theta)
    alpha, beta = max(theta[0], 0.0), max(theta[1], 0.0)
    return alpha * np.eye(C) + beta * np.tile(shares, (C, 1))


def symbol_rates(counts: np.ndarray, labels: np.ndarray, exposure: np.ndarray, classes: int) -> np.ndarray:
    """R[k, s], expected messages of symbol s of a node of class k, by empirical Bayes: class means, shrunk to the mean of all.

    Symbols need not be classes, so no shape of R is expected. Some are much rarer than others, so what is shrunk is the ratio to
    the mean, with a variance of ratios that is the same for all symbols. -> [C, S]

    Args:
        counts: [n, S], released about nodes whose labels are known.
        labels: [n].
        exposure: [n], the share of all senders that could have sent to the node.
        classes: C.

    >>> counts = np.array([[4, 0], [6, 0], [0, 5], [0, 5]] * 20)
    >>> symbol_rates(counts, np.array([0, 0, 1, 1] * 20), np.full(80, 0.5), 2).round(1).tolist()
    [[10.0, 0.1], [0.1, 10.0]]
    """
    pooled = counts.sum(axis=0) / max(float(exposure.sum()), 1e-9)
    pooled = np.maximum(pooled, 0.01 * max(float(pooled.sum()), 1e-3) / counts.shape[1])
    gap, variance = np.zeros((classes, len(pooled))), np.full((classes, len(pooled)), np.inf)
    for k in range(classes):
        votes, seen = counts[labels == k], max(float(exposure[labels == k].sum()), 1e-9)
        if len(votes) > 1:
            gap[k] = votes.sum(axis=0) / seen / pooled - 1
            variance[k] = np.maximum(len(votes) * votes.var(axis=0), 1e-3) / (seen * pooled) ** 2
    weight = 1 / variance**2
    t2 = max(
        0.0, float((weight * (gap**2 - np.where(np.isfinite(variance), variance, 0))).sum() / max(weight.sum(), 1e-300))
    )
    return pooled * np.maximum(1 + t2 / (t2 + variance) * gap, 0.02)


def message_information(counts: np.ndarray, labels: np.ndarray, classes: int, excess: float = 0.0) -> float:
    """What messages tell about the receiver's class: sum_k pi_k sum_s ((m_ks - m_s)^2 - v_ks) / V_s.

    m_ks: mean count of symbol s at receivers of class k; m_s, V_s: mean and variance of all; v_ks: the sampling variance of m_ks.
    It is subtracted, so that messages without meaning have an expected information of about 0, however noisy.

    Args:
        counts: [n, S], noisy counts of receivers with known labels.
        labels: [n].
        classes: C.
        excess: variance of noise that a count would not have if these symbols were sent alone.

    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(2000) % 2
    >>> telling = message_information(rng.poisson(np.where(labels[:, None] == [0, 1], 1.5, 0.5)), labels, 2)
    >>> nothing = message_information(rng.poisson(1.0, (2000, 2)), labels, 2)
    >>> round(telling, 1), abs(round(nothing, 1))
    (0.4, 0.0)
    """
    mean, variance = counts.mean(axis=0), counts.var(axis=0)
    variance = np.maximum(variance - excess, 0.05 * variance + 1e-9)
    total = 0.0
    for k in range(classes):
        votes = counts[labels == k]
        if len(votes) > 1:
            scatter = votes.var(axis=0, ddof=1) / len(votes)
            total += len(votes) / len(counts) * float((((votes.mean(axis=0) - mean) ** 2 - scatter) / variance).sum())
    return total


def jackknifed_gain(
    one: np.ndarray, other: np.ndarray, labels: np.ndarray, classes: int, excess: tuple[float, float]
) -> tuple[float, float]:
    """How much more one kind of messages tells than another, and the standard error of that.

    The standard error is that of the jackknife over groups of receivers, whose order must be random.

    Args:
        one: [n, S], noisy counts.
        other: [n, S'], of the same receivers.
        labels: [n].
        classes: C.
        excess: of either, as in `message_information`.

    Returns:
        Gain and standard error.
    """

    def gain(rows: np.ndarray) -> float:
        first, second = (
            message_information(counts[rows], labels[rows], classes, more)
            for counts, more in zip((one, other), excess, strict=True)
        )
        return first - second

    group = np.arange(len(labels)) % JACKKNIFE_GROUPS
    without = np.array([gain(group != k) for k in range(JACKKNIFE_GROUPS)])
    return gain(np.ones(len(labels), dtype=bool)), float(np.sqrt((JACKKNIFE_GROUPS - 1) * without.var()))


@dataclass(frozen=True)
class CountModel:
    """The distribution of a noisy count: Poisson, plus the noise of the budget. Degrees scatter more: that is for `MULTIPLIERS`.

    Args:
        budget: which noise, discrete Laplace or Gaussian, and how much.

    >>> model = CountModel(VoteBudget(2.0))
    >>> L = model.log_likelihood(np.array([[6, 0]]), np.array([[4.0, 1.0], [1.0, 4.0]]))     # [1 node, 2 classes, T]
    >>> bool(L[0, 0].max() > L[0, 1].max())
    True
    """

    budget: VoteBudget

    def log_table(self, rates: np.ndarray) -> np.ndarray:
        """log P(released count = s | rate), up to a constant, for s = points(); any shape of rates -> [..., points]."""
        rate, m = np.maximum(rates, 1e-9)[..., None], np.arange(LARGEST + 60)
        p = np.exp(m * np.log(rate) - rate - gammaln(m + 1))  # P(m votes | rate)
        with_noise = self._plus_gaussian(p) if math.isfinite(self.budget.mu) else self._plus_discrete_laplace(p)
        return np.log(np.maximum(with_noise, 1e-280))

    def points(self) -> np.ndarray:
        """The released counts at which the table is computed; others take the nearest.

        Discrete Laplace noise: -1 .. LARGEST; below 0 all ratios are equal, so -1 stands for every negative count. Gaussian
        noise: a quarter of a standard deviation apart (at least 1/8), from five below 0.
        """
        if not math.isfinite(self.budget.mu):
            return np.arange(-1.0, LARGEST + 1)
        std = self.budget.noise_std
        return np.arange(-5 * std, LARGEST, max(std / 4, 0.125))

    def _plus_discrete_laplace(self, p: np.ndarray) -> np.ndarray:
        """With a = e^-epsilon: P(s) ~ sum_m p(m) a^|s - m|, by one pass up and one pass down."""
        from scipy.signal import lfilter

        a = math.exp(-self.budget.epsilon)
        up = lfilter([1.0], [1.0, -a], p)  # sum over m <= s
        down = a * lfilter([1.0], [1.0, -a], p[..., ::-1])[..., ::-1]  # sum over m > s - 1, of s - 1
        return np.concatenate([down[..., :1], (up[..., :-1] + down[..., 1:])[..., : LARGEST + 1]], axis=-1)

    def _plus_gaussian(self, p: np.ndarray) -> np.ndarray:
        """P(s) ~ sum_m p(m) exp(-(s - m)^2 mu^2 / 2)."""
        gap = self.points()[None, :] - np.arange(p.shape[-1])[:, None]
        return p @ np.exp(-0.5 * (gap * self.budget.mu) ** 2)

    def log_likelihood(self, counts: np.ndarray, rates: np.ndarray) -> np.ndarray:
        """L[v, k, t] = sum_s log P(counts[v, s] | MULTIPLIERS[t] rates[k, s]). [n, S], [C, S] -> [n, C, T]."""
        points = self.points()
        place = (scaled_down(counts) - points[0]) / (points[1] - points[0])
        index = np.clip(np.rint(place), 0, len(points) - 1).astype(np.int64)
        L = np.zeros((len(counts), len(rates), len(MULTIPLIERS)))
        at_once = max(1, TABLE // (len(MULTIPLIERS) * len(rates) * (LARGEST + 60)))
        for first in range(0, counts.shape[1], at_once):
            some = slice(first, first + at_once)
            table = self.log_table(np.array(MULTIPLIERS)[:, None, None] * rates[:, some])  # [T, C, symbols, points]
            for rows in parts(np.arange(len(counts))):
                total = L[rows].transpose(2, 1, 0)
                for c in range(table.shape[2]):
                    total = total + table[:, :, c, index[rows, first + c]]
                L[rows] = total.transpose(2, 1, 0)
        return L


def scaled_down(counts: np.ndarray) -> np.ndarray:
    """Rows whose largest count exceeds LARGEST, scaled to it; other rows as they are. [n, C] -> [n, C].

    >>> scaled_down(np.array([[600.0, 60.0], [7.0, -2.0]])).tolist()
    [[300.0, 30.0], [7.0, -2.0]]
    """
    largest = counts.max(axis=1, keepdims=True, initial=1)
    return np.where(largest > LARGEST, counts * (LARGEST / np.maximum(largest, 1)), counts)


def multiplier_weights(L: np.ndarray, class_weights: np.ndarray) -> np.ndarray:
    """g: the distribution of the degree multiplier, by EM with half a pseudo-count each. -> [T].

    Args:
        L: log likelihoods, [n, C, T]; without rows the distribution is uniform.
        class_weights: probabilities of the classes, [n, C].
    """
    T = L.shape[2]
    if len(L) == 0:
        return np.full(T, 1 / T)
    joint = L + np.log(np.maximum(class_weights, 1e-12))[:, :, None]
    joint = np.exp(joint - joint.max(axis=(1, 2), keepdims=True)).sum(axis=1)  # [n, T]: the class is summed out
    g = np.full(T, 1 / T)
    for _ in range(EM_STEPS):
        share = joint * g
        share /= share.sum(axis=1, keepdims=True)
        g = (share.sum(axis=0) + 0.5) / (len(L) + 0.5 * T)
    return g


def class_evidence(J: np.ndarray) -> np.ndarray:
    """log sum_t exp J[v, k, t], the largest class at 0 and none below -60. [n, C, T] -> [n, C].

    >>> class_evidence(np.log(np.array([[[1.0, 1.0], [0.5, 0.5]]]))).round(4).tolist()
    [[0.0, -0.6931]]
    """
    evidence = np.empty(J.shape[:2])
    for rows in parts(np.arange(len(J))):
        LL = logsumexp(J[rows[0] : rows[-1] + 1], axis=2)
        evidence[rows] = np.maximum(LL - LL.max(axis=1, keepdims=True), -60)
    return evidence
