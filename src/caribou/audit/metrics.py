"""Metrics of an attack: intervals of its AUC, true positive rates, and the rates that a certificate allows.

A score is larger where the adversary believes in membership (`caribou.metrics.Scored`). Every rate comes from the score itself,
never from hard labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import special, stats

from caribou.metrics import Scored, area_under_curve, average_precision, mean_interval, roc_curve
from caribou.privacy.accounting import largest_true_positive_rate
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.events import Event

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)
CONFIDENCE = 0.95
CURVE_POINTS = 1001

NO_BOUND = (
    "the attack did not draw who is a member, so public data alone may tell as much (similar nodes are often joined)."
)
"""Why no allowed rate stands beside an attack that is not `AttackResult.bounded`."""


@dataclass(frozen=True, eq=False)
class AttackResult:
    """How well one attack did, beside what the certificate allows.

    ``auc`` (1/2 = guessing) with its interval at 95 %; ``average_precision``; ``tpr_at_fpr``: true positive rates at three false
    positive rates; ``tpr_allowed``: the largest ones that the certificate allows in a game about one protected unit, 1 where it
    promises nothing; ``roc``: the curve; ``details``: plain JSON; ``note``: what was attacked, and how noise was handled.

    ``details["bound_applies"]``: whether the attack drew the membership bits, so that a rate above ``tpr_allowed`` speaks against
    the certificate. Where the data decide (similar nodes are joined more often), public data alone may reach more.
    """

    name: str
    auc: float
    auc_interval: tuple[float, float]
    average_precision: float
    tpr_at_fpr: Mapping[float, float]
    tpr_allowed: Mapping[float, float]
    roc: tuple[np.ndarray, np.ndarray]
    details: Mapping[str, Any]
    note: str

    @property
    def bounded(self) -> bool:
        """Whether the certificate bounds these rates: random bits chose the members, as in every game that proves something."""
        return bool(self.details.get("bound_applies", True))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, without the curve."""
        return {
            "auc": self.auc,
            "auc_interval": list(self.auc_interval),
            "average_precision": self.average_precision,
            "tpr_at_fpr": {f"{rate:g}": value for rate, value in self.tpr_at_fpr.items()},
            "tpr_allowed": {f"{rate:g}": value for rate, value in self.tpr_allowed.items()},
            "details": dict(self.details),
            "note": self.note,
        }


# -- one run -------------------------------------------------------------------------------------------------------


def placements(scored: Scored) -> tuple[np.ndarray, np.ndarray]:
    """For every member the share of others below it, for every other the share of members above it; ties count one half.

    The structural components of DeLong, DeLong and Clarke-Pearson 1988; the mean of either is the AUC.
    """
    ranks = stats.rankdata(scored.scores)
    inside, outside = scored.scores[scored.members], scored.scores[~scored.members]
    above = (ranks[scored.members] - stats.rankdata(inside)) / len(outside)
    below = (ranks[~scored.members] - stats.rankdata(outside)) / len(inside)
    return above, 1 - below


def area_interval(scored: Scored) -> tuple[float, float]:
    """DeLong's interval of the AUC at 95 %, on the scale of its logit so that it stays in [0, 1].

    var = var(placements of members) / m + var(placements of others) / n. Assumes independent items; pairs that share a node are
    not, and there the interval over runs (`mean_interval`) counts. At AUC 0 or 1, where the variance vanishes, the other end is
    Clopper and Pearson's for min(m, n) trials without a failure.
    """
    above, below = placements(scored)
    area, fewest = float(above.mean()), min(len(above), len(below))
    level = (1 - CONFIDENCE) / 2
    if not 0 < area < 1:
        end = level ** (1 / fewest)
        return (end, 1.0) if area >= 1 else (0.0, 1 - end)
    variance = sum(float(part.var(ddof=1)) / len(part) for part in (above, below) if len(part) > 1)
    width = stats.norm.ppf(1 - level) * math.sqrt(variance) / (area * (1 - area))
    centre = math.log(area / (1 - area))
    return float(special.expit(centre - width)), float(special.expit(centre + width))


def true_positive_rate(scored: Scored, false_positive_rate: float) -> float:
    """The largest measured TPR of a threshold whose FPR is at most the given one; nothing is interpolated."""
    fpr, tpr = roc_curve(scored)
    return float(tpr[fpr <= false_positive_rate].max())


# -- several runs --------------------------------------------------------------------------------------------------


def allowed_rates(events: Sequence[Event] | None, budget: Budget, about: PrivacyUnit) -> dict[float, float]:
    """The largest TPR that events allow at each FPR in a game about one edge, or one node; ``None``: they do not cover it.

    About an edge at node level: T(T(FPR)), T the largest TPR in a game about one node. An edge is added by taking one of its
    nodes out and putting it back with the edge: two steps between neighbours. About a node, edge level promises nothing.
    """
    if events is None or (about is PrivacyUnit.NODE and budget.unit is PrivacyUnit.EDGE):
        return dict.fromkeys(FALSE_POSITIVE_RATES, 1.0)
    out = {rate: rate for rate in FALSE_POSITIVE_RATES}
    for _ in range(1 if about is budget.unit else 2):
        limit = partial(largest_true_positive_rate, events, delta=budget.delta)
        out = {rate: tpr if tpr >= 1 else limit(false_positive_rate=tpr) for rate, tpr in out.items()}
    return out


def summarise(
    name: str,
    runs: Sequence[Scored],
    *,
    allowed: Mapping[float, float],
    details: Mapping[str, Any],
    note: str,
) -> AttackResult:
    """Means over runs: scores of different runs are not on one scale and are never pooled.

    The interval of the AUC is Student's over the runs if there are three or more, else the mean of DeLong's.
    """
    areas = [area_under_curve(run) for run in runs]
    if len(runs) > 2:
        low, high = mean_interval(areas)
    else:
        low, high = (float(np.mean(ends)) for ends in zip(*map(area_interval, runs), strict=True))
    return AttackResult(
        name,
        float(np.mean(areas)),
        (max(0.0, low), min(1.0, high)),
        float(np.mean([average_precision(run) for run in runs])),
        {rate: float(np.mean([true_positive_rate(run, rate) for run in runs])) for rate in allowed},
        dict(allowed),
        mean_curve(runs),
        {"runs": len(runs), "auc_of_runs": areas, **details},
        note,
    )


def mean_curve(runs: Sequence[Scored]) -> tuple[np.ndarray, np.ndarray]:
    """The ROC of one run, or the mean over runs at equal false positive rates. [k], [k]"""
    curves = [roc_curve(run) for run in runs]
    if len(curves) == 1 and len(curves[0][0]) <= CURVE_POINTS:
        return curves[0]
    grid = np.union1d(np.linspace(0, 1, CURVE_POINTS), np.geomspace(1e-4, 1, 101))
    return grid, np.mean([np.interp(grid, *curve) for curve in curves], axis=0)
