"""The code vote model: what messages of feature codes taught about a graph, for nodes that arrive later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from caribou.mechanisms.edge_votes import VoteBudget
from caribou.models.count_likelihood import MULTIPLIERS, CountModel
from caribou.models.feature_codes import FeatureCodes
from caribou.models.heads import Head, PriorHead, head_from_arrays

GROUPS = 10
"""Receivers are grouped by the share of senders before them; a group shares its rates."""
_HEAD = "code_votes.head."


@dataclass(frozen=True, eq=False)
class CodeVoteModel:
    """Rates of codes, how counts scatter, and the head that turns them into classes.

    Args:
        prior_head: calibrates the prior.
        codes: the code of every node, from its features.
        rates: [C, M]: expected messages of code m for a node of class k, if all nodes of the fit send.
        senders: how many nodes these are.
        overdispersed: whether counts scatter more than Poisson counts.
        multipliers: [T], the distribution of the degree multiplier.
        head: class scores from prior, evidence and codes.
    """

    prior_head: PriorHead
    codes: FeatureCodes
    rates: np.ndarray
    senders: int
    overdispersed: bool
    multipliers: np.ndarray
    head: Head

    def count_model(self, budget: VoteBudget) -> CountModel:
        """The distribution of a noisy count under the noise of ``budget``."""
        return CountModel(budget, self.overdispersed)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model; `from_arrays` is the inverse."""
        return {
            **{f"code_votes.{name}": array for name, array in self.codes.to_arrays().items()},
            "code_votes.prior_head": self.prior_head.theta,
            "code_votes.rates": self.rates,
            "code_votes.senders": np.array([self.senders]),
            "code_votes.overdispersed": np.array([self.overdispersed]),
            "code_votes.multipliers": self.multipliers,
            **{_HEAD + name: array for name, array in self.head.to_arrays().items()},
        }

    @staticmethod
    def is_in(arrays: Mapping[str, np.ndarray]) -> bool:
        """Whether a saved model learned from codes."""
        return "code_votes.rates" in arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> CodeVoteModel:
        """The inverse of `to_arrays`; other arrays may stand beside them."""
        own = {n.removeprefix("code_votes."): a for n, a in arrays.items() if n.startswith("code_votes.")}
        head = {n.removeprefix(_HEAD): a for n, a in arrays.items() if n.startswith(_HEAD)}
        return cls(
            PriorHead(own["prior_head"]),
            FeatureCodes.from_arrays(own),
            own["rates"],
            int(own["senders"][0]),
            bool(own["overdispersed"][0]),
            own["multipliers"],
            head_from_arrays(head),
        )


def code_likelihood(model: CountModel, counts: np.ndarray, rates: np.ndarray, exposure: np.ndarray) -> np.ndarray:
    """Log likelihoods of noisy code counts of nodes that received from a share of all senders. -> [n, C, T]

    Args:
        model: the distribution of a count.
        counts: [n, M].
        rates: [C, M], if all send.
        exposure: [n], the share.
    """
    group = np.clip((exposure / max(float(exposure.max(initial=0)), 1e-9) * GROUPS).astype(int), 0, GROUPS - 1)
    L = np.zeros((len(counts), len(rates), len(MULTIPLIERS)))
    for k in range(GROUPS):
        rows = group == k
        if rows.any():
            L[rows] = model.log_likelihood(counts[rows], rates * exposure[rows].mean())
    return L


def code_columns(counts: np.ndarray, exposure: np.ndarray) -> np.ndarray:
    """Counts brought to what all senders would have sent, as a head takes them. [n, M], [n] -> [n, M]"""
    return counts / np.maximum(exposure, 0.25)[:, None]
