"""Evidence with given counts, for tests of what is made of it."""

from __future__ import annotations

import numpy as np

from caribou.audit.claims import Claim
from caribou.audit.evidence import Evidence, Judgement
from caribou.metrics import Scored

SCORED = Scored(np.array([0.0, 1.0]), np.array([False, True]))


def counted(claim: Claim, false: int, true: int, judged: int = 1000, confidence: float = 0.95) -> Evidence:
    """A game whose last block had these counts."""
    level = 1 - (1 - confidence) / 2
    leak = claim.proven(false, true, judged, level)
    last = Judgement(judged, "score > 0 says second graph", false, true, level, leak)
    return Evidence(claim, "pair", (last,), confidence, 2 * judged, 0, SCORED)
