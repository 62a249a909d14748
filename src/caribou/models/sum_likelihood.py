"""Statistics of noisy sums of class messages: what a row of a released state says about the class of its node.

Everything here is computed from public values and from the release. Profiles: B[k, c] is the expected sum of messages of
class c that a node of class k receives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from caribou.models.count_likelihood import MULTIPLIERS, class_evidence, multiplier_weights, vote_rates

FEW = 3000
"""Rows from which the distribution of degrees is learned."""
SPREAD = 0.5
"""Sums vary more than independent messages would: their std grows by this share of their mean."""


@dataclass(frozen=True, eq=False)
class SumModel:
    """The distribution of a noisy sum given the class: normal around theta B[k], theta one of MULTIPLIERS.

    Its variance is noise_std^2 + theta B[k] + (SPREAD theta B[k])^2. ``weights`` is the distribution of theta. profiles:
    [C, C], weights: [T].
    """

    profiles: np.ndarray
    weights: np.ndarray
    noise_std: float

    def evidence(self, sums: np.ndarray) -> np.ndarray:
        """log p(sums | class), the largest class at 0. [n, C] -> [n, C]."""
        return class_evidence(_log_likelihood(sums, self.profiles, self.noise_std) + np.log(self.weights))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved run."""
        return {
            "sums.profiles": self.profiles,
            "sums.weights": self.weights,
            "sums.noise_std": np.array(self.noise_std),
        }


def fit_sum_model(
    sums: np.ndarray, judges: np.ndarray, labels: np.ndarray, prior: np.ndarray, shares: np.ndarray, noise_std: float
) -> SumModel:
    """Profiles from the labelled ``judges`` (shrunk as in `vote_rates`), the distribution of degrees from all rows by EM.

    sums: [n, C]; judges: indices of nodes with a label that no message carried; prior: [n, C] class probabilities without the
    release; shares: class shares of the training nodes.
    """
    totals = sums.sum(axis=1)
    mean = (float(totals.mean()), max(float(totals.var()) / len(totals), 1e-9))
    profiles = vote_rates(sums, judges, labels, np.ones((len(judges), len(shares))), shares, mean)
    weights = prior.copy()
    weights[judges] = np.eye(len(shares))[labels[judges]]
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
