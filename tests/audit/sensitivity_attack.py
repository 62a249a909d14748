"""The sensitivity attack on an operator: how far one edge or node can be made to move W X."""

from __future__ import annotations

import numpy as np

from caribou.audit.pairs import worst_rows


def largest_change(difference: np.ndarray, rng: np.random.Generator, starts: int = 24, steps: int = 60) -> float:
    """The largest ||D X||_F that the attack reaches: a lower bound on the sensitivity of X -> W X."""
    active = np.flatnonzero(np.abs(difference).sum(axis=0))
    if len(active) == 0:
        return 0.0
    reduced = difference[:, active]
    reduced = reduced[np.abs(reduced).sum(axis=1) > 0]
    return float(np.linalg.norm(reduced @ worst_rows(reduced, rng, starts, steps)))
