"""The vote model: what messages taught about a graph, for nodes that arrive later. It comes from public values and releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from caribou.errors import InputError
from caribou.models.feature_codes import FeatureCodes
from caribou.models.heads import Head


@dataclass(frozen=True, eq=False)
class VoteModel:
    """Rates of messages, and the head that turns counts into classes.

    Args:
        prior_head: calibrates the prior.
        rates: [C, S]: expected messages of symbol s for a node of class k, if all senders of the fit send.
        senders: how many nodes these are: [C], by class, if symbols are classes; [1] if they are codes.
        multipliers: [T], the distribution of the degree multiplier.
        head: class scores from prior, evidence and counts.
        codes: what a node of given features sends; None: symbols are classes.
    """

    prior_head: Head
    rates: np.ndarray
    senders: np.ndarray
    multipliers: np.ndarray
    head: Head
    codes: FeatureCodes | None = None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model; `from_arrays` is the inverse."""
        return {
            "votes.prior_head": self.prior_head.theta,
            "votes.rates": self.rates,
            "votes.senders": np.asarray(self.senders, dtype=np.int64),
            "votes.multipliers": self.multipliers,
            **{f"votes.head.{name}": array for name, array in self.head.to_arrays().items()},
            **({} if self.codes is None else _prefixed("votes.symbols.", self.codes.to_arrays())),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> VoteModel:
        """The inverse of `to_arrays`; other arrays may stand beside them."""
        if "votes.rates" not in arrays:
            raise InputError("weights must hold what votes learned (votes.rates), got none: fit the model again")
        codes = _without("votes.symbols.", arrays)
        return cls(
            Head(arrays["votes.prior_head"]),
            arrays["votes.rates"],
            arrays["votes.senders"],
            arrays["votes.multipliers"],
            Head(**_without("votes.head.", arrays)),
            FeatureCodes.from_arrays(codes) if codes else None,
        )


def _prefixed(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {prefix + name: array for name, array in arrays.items()}


def _without(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


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
