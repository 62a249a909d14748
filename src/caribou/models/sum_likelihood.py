"""The likelihood of noisy sums of class messages: what a row of a released state tells about the class of its node.

Everything here is computed from public values and from the release. Profiles: B[k, c] is the expected sum of messages of
class c that a node of class k receives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from caribou.models.count_likelihood import MULTIPLIERS, class_evidence, multiplier_weights, parts, vote_rates

FEW = 3000
"""Rows from which the distribution of degrees is learned."""
SPREAD = 0.5
"""Sums vary more than independent messages would: their std grows by this share of their mean."""


@dataclass(frozen=True, eq=False)
class SumModel:
    """The distribution of a noisy sum given the class: normal around theta B[k], theta one of MULTIPLIERS.

    Its variance is noise_std^2 + theta B[k] + (SPREAD theta B[k])^2.

    Args:
        profiles: B, [C, C].
        weights: [T], the distribution of theta over MULTIPLIERS.
        noise_std: standard deviation of the noise in a sum.

    >>> model = SumModel(np.array([[4.0, 0.5], [0.5, 4.0]]), np.full(len(MULTIPLIERS), 1 / len(MULTIPLIERS)), 1.0)
    >>> model.evidence(np.array([[5.0, 0.0], [0.0, 5.0]])).argmax(axis=1).tolist()
    [0, 1]
    """

    profiles: np.ndarray
    weights: np.ndarray
    noise_std: float

    def evidence(self, sums: np.ndarray) -> np.ndarray:
        """log p(sums | class), the largest class at 0. [n, C] -> [n, C]."""
        evidence = np.empty((len(sums), len(self.profiles)))
        for rows in parts(np.arange(len(sums))):
            L = _log_likelihood(sums[rows], self.profiles, self.noise_std)
            evidence[rows] = class_evidence(L + np.log(self.weights))
        return evidence

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        return {
            "sums.profiles": self.profiles,
            "sums.weights": self.weights,
            "sums.noise_std": np.array(self.noise_std),
        }


def fit_sum_model(
    sums: np.ndarray,
    calibration_nodes: np.ndarray,
    labels: np.ndarray,
    prior: np.ndarray,
    shares: np.ndarray,
    noise_std: float,
) -> SumModel:
    """Profiles from the calibration nodes (shrunk as in `vote_rates`), the distribution of degrees from all rows by EM.

    Args:
        sums: [n, C], released.
        calibration_nodes: indices of nodes with a label that no message carried.
        labels: [n]; only those of the calibration nodes are read.
        prior: [n, C], class probabilities without the release.
        shares: [C], class shares of the training nodes.
        noise_std: standard deviation of the noise in a sum.
    """
    totals = sums.sum(axis=1)
    mean = (float(totals.mean()), max(float(totals.var()) / len(totals), 1e-9))
    everyone = np.ones((len(calibration_nodes), len(shares)))
    profiles = vote_rates(sums, calibration_nodes, labels, everyone, shares, mean)
    weights = prior.copy()
    weights[calibration_nodes] = np.eye(len(shares))[labels[calibration_nodes]]
    some = np.arange(len(sums))[:: max(1, len(sums) // FEW)]
    g = multiplier_weights(_log_likelihood(sums[some], profiles, noise_std), weights[some])
    return SumModel(profiles, g, noise_std)


def _log_likelihood(sums: np.ndarray, profiles: np.ndarray, noise_std: float) -> np.ndarray:
    """L[v, k, t] = sum_c log N(sums[v, c]; theta_t B[k, c], variance). [n, C], [C, C] -> [n, C, T]."""
    L = np.empty((len(sums), len(profiles), len(MULTIPLIERS)))
    for t, theta in enumerate(MULTIPLIERS):
        for k, row in enumerate(profiles):
            mean = theta * row
            variance = noise_std**2 + mean + (SPREAD * mean) ** 2
            L[:, k, t] = (-0.5 * (sums - mean) ** 2 / variance - 0.5 * np.log(variance)).sum(axis=1)
    return L
