"""The vote model: what votes taught about a graph, for nodes that arrive later. It comes from public values and releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from caribou.errors import InputError
from caribou.mechanisms.edge_votes import VoteBudget
from caribou.models.count_likelihood import CountModel
from caribou.models.heads import Head, PriorHead, head_from_arrays

_PREFIX, _HEAD = "votes.", "votes.head."


@dataclass(frozen=True, eq=False)
class VoteModel:
    """Rates of votes, how they scatter, and the head that turns them into classes.

    Args:
        prior_head: calibrates the prior.
        rates: B, [C, C]: expected votes of class c for a node of class k, if all training nodes of the fit vote.
        class_sizes: [C], the number of these training nodes by class.
        overdispersed: whether counts scatter more than Poisson counts.
        multipliers: [T], the distribution of the degree multiplier.
        head: class scores from prior and evidence.
    """

    prior_head: PriorHead
    rates: np.ndarray
    class_sizes: np.ndarray
    overdispersed: bool
    multipliers: np.ndarray
    head: Head

    def count_model(self, budget: VoteBudget) -> CountModel:
        """The distribution of a noisy count under the noise of ``budget``."""
        return CountModel(budget, self.overdispersed)

    def voters(self, p: np.ndarray, message: np.ndarray) -> np.ndarray:
        """X[j, c]: voters of true class j that send c, as a share of the training nodes of class j. [m, C], [m] -> [C, C]."""
        return voters(p, message, self.class_sizes)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model; `from_arrays` is the inverse."""
        return {
            "votes.prior_head": self.prior_head.theta,
            "votes.rates": self.rates,
            "votes.class_sizes": np.asarray(self.class_sizes, dtype=np.int64),
            "votes.overdispersed": np.array([self.overdispersed]),
            "votes.multipliers": self.multipliers,
            **{_HEAD + name: array for name, array in self.head.to_arrays().items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> VoteModel:
        """The inverse of `to_arrays`; other arrays may stand beside them."""
        if "votes.rates" not in arrays:
            raise InputError(
                "weights must hold what votes learned, got none: the model was fitted by an earlier version; fit it again"
            )
        own = {name: array for name, array in arrays.items() if name.startswith(_PREFIX)}
        head = {name.removeprefix(_HEAD): array for name, array in own.items() if name.startswith(_HEAD)}
        return cls(
            PriorHead(own["votes.prior_head"]),
            own["votes.rates"],
            own["votes.class_sizes"],
            bool(own["votes.overdispersed"][0]),
            own["votes.multipliers"],
            head_from_arrays(head),
        )


def voters(p: np.ndarray, message: np.ndarray, class_sizes: np.ndarray, symbols: int | None = None) -> np.ndarray:
    """X[j, s]: voters of true class j that send s, as a share of the training nodes of class j. -> [C, symbols]

    Args:
        p: [m, C], class probabilities of the voters.
        message: [m], what they send.
        class_sizes: [C], training nodes by class.
        symbols: size of the alphabet (default: C).

    >>> voters(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0, 1]), np.array([2, 1])).tolist()
    [[0.5, 0.25], [0.0, 0.5]]
    """
    sent = np.eye(p.shape[1] if symbols is None else symbols)[message]
    return p.T @ sent / class_sizes[:, None]


def signal_share(votes: np.ndarray, noise_variance: float) -> float:
    """The share of the variance of votes that is not noise, by which a head takes them (Wiener's factor).

    >>> signal_share(np.array([0.0, 4.0]), 1.0), signal_share(np.array([0.0, 4.0]), 9.0), signal_share(np.zeros(2), 1.0)
    (0.75, 0.0, 0.0)
    """
    spread = float(votes.var())
    return max(0.0, 1 - noise_variance / spread) if spread > 0 else 0.0


def vote_scale(votes: np.ndarray, expected: np.ndarray) -> float:
    """How many more votes came than expected: least squares, shrunk to 1 with variance 1. [m, C], [m, C].

    >>> round(vote_scale(np.full((500, 1), 6.0), np.full((500, 1), 3.0)), 3)
    2.0
    """
    energy = float((expected**2).sum())
    if energy <= 0:
        return 1.0
    s = float((votes * expected).sum()) / energy
    variance = float(((votes - s * expected) ** 2).mean()) / energy
    return float(np.clip((s / max(variance, 1e-9) + 1) / (1 / max(variance, 1e-9) + 1), 0.05, 5))
