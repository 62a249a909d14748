"""Metrics of predictions: how good class probabilities are, where one class is rare as well as where all are common.

What follows from counts is a property of `ConfusionMatrix`, so that a matrix with noise gives the same metrics as an exact one.
Rankings (ROC, average precision) read scores; tied scores are one threshold. No noise is added here: at node level labels are
private, and so is every metric of them (`caribou.models.published_metrics` has the noisy version).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from caribou._validate import open_unit_interval
from caribou.errors import InputError
from caribou.machine.deferred import deferred_imports
from caribou.machine.notebook import html_table

with deferred_imports():
    import numpy as np

BINS = 10
"""Equal bins of confidence."""
IMBALANCED = 0.8
"""Share of the most frequent class from which accuracy says little: then the rare class is shown beside it."""


# -- ranking: scores of members and others ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores, and who really is a member. Both [m]; both kinds must be there."""

    scores: np.ndarray
    members: np.ndarray

    def __post_init__(self) -> None:
        scores, members = np.asarray(self.scores, dtype=np.float64), np.asarray(self.members, dtype=bool)
        if scores.ndim != 1 or scores.shape != members.shape:
            raise InputError(f"scores and members must be 1-D of one length, got {scores.shape} and {members.shape}")
        if not np.isfinite(scores).all():
            raise InputError("scores must be finite, got NaN or infinity")
        if members.all() or not members.any():
            raise InputError(f"members must hold both kinds, got {int(members.sum())} of {len(members)}")
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "members", members)


def threshold_counts(scored: Scored) -> tuple[np.ndarray, np.ndarray]:
    """False and true positives at every distinct threshold, from the strictest on. [k + 1] each, beginning with 0, 0."""
    order = np.argsort(-scored.scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scored.scores[order])), len(order) - 1)
    true = np.cumsum(scored.members[order])[last]
    return np.append(0, 1 + last - true), np.append(0, true)


def roc_curve(scored: Scored) -> tuple[np.ndarray, np.ndarray]:
    """False and true positive rates, from (0, 0) to (1, 1).

    >>> [x.tolist() for x in roc_curve(Scored([3.0, 2.0, 2.0, 1.0], [True, True, False, False]))]
    [[0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0]]
    """
    false, true = threshold_counts(scored)
    return false / false[-1], true / true[-1]


def area_under_curve(scored: Scored) -> float:
    """P(score of a member > score of another) + P(equal) / 2: Mann and Whitney's U over the number of pairs.

    >>> area_under_curve(Scored([3.0, 2.0, 2.0, 1.0], [True, True, False, False]))
    0.875
    """
    fpr, tpr = roc_curve(scored)
    return float((np.diff(fpr) * (tpr[1:] + tpr[:-1])).sum() / 2)


def average_precision(scored: Scored) -> float:
    """sum over thresholds of (recall gained) x precision, without interpolation.

    >>> average_precision(Scored([3.0, 2.0, 1.0], [True, False, True])).__round__(4)
    0.8333
    """
    false, true = threshold_counts(scored)
    return float((np.diff(true) * true[1:] / (true[1:] + false[1:])).sum() / true[-1])


@dataclass(frozen=True)
class Threshold:
    """From which probability on a node is called a member of the positive class.

    Args:
        positive: the class, as a number.
        value: the probability.
        f1: what it reaches on the nodes that it was chosen on.

    >>> Threshold(1, 0.3, 0.8).flags(np.array([[0.6, 0.4], [0.8, 0.2]])).tolist()
    [True, False]
    """

    positive: int
    value: float
    f1: float

    def flags(self, probabilities: np.ndarray) -> np.ndarray:
        """Who is called a member. [n, C] -> [n], bool"""
        return np.asarray(probabilities[:, self.positive] >= self.value)

    def confusion(self, probabilities: np.ndarray, labels: np.ndarray) -> ConfusionMatrix:
        """Others (0) and members (1), true by called; a negative label is unknown and left out. [n, C], [n]

        >>> Threshold(1, 0.3, 0.8).confusion(np.array([[0.6, 0.4], [0.8, 0.2], [0.5, 0.5]]), np.array([1, 1, 0])).counts.tolist()
        [[0, 1], [1, 1]]
        """
        members = np.where(labels < 0, -1, labels == self.positive)
        return ConfusionMatrix.of(self.flags(probabilities).astype(np.int64), members, 2)


def best_threshold(scored: Scored) -> tuple[float, float]:
    """The score from which on to call members for the best F1, half way to the next lower score, and that F1.

    Of equal ones the strictest is taken: it raises fewer alarms.

    >>> best_threshold(Scored([0.9, 0.4, 0.2, 0.1], [True, True, False, False]))
    (0.30000000000000004, 1.0)
    """
    false, true = threshold_counts(scored)
    f1 = 2 * true[1:] / (true[1:] + false[1:] + true[-1])
    distinct = np.unique(scored.scores)[::-1]
    best = int(np.argmax(f1))
    below = distinct[best + 1] if best + 1 < len(distinct) else distinct[best]
    return float((distinct[best] + below) / 2), float(f1[best])


# -- counts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ConfusionMatrix:
    """How many nodes of each class were given which class, and all metrics that follow from it.

    Args:
        counts: [C, C], true class by given class. Noisy counts may be fractions or 0, never negative.

    >>> made = ConfusionMatrix.of(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]), 2)
    >>> made.counts.tolist(), made.accuracy, made.majority, round(made.balanced_accuracy, 3)
    ([[2, 1], [0, 1]], 0.75, 0.75, 0.833)
    """

    counts: np.ndarray

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts)
        if counts.ndim != 2 or counts.shape[0] != counts.shape[1]:
            raise InputError(f"counts must be a square matrix, got shape {counts.shape}")
        if not (counts >= 0).all():
            raise InputError(f"counts must be >= 0, got {counts.min()}")
        object.__setattr__(self, "counts", counts)

    @classmethod
    def of(cls, predicted: np.ndarray, labels: np.ndarray, classes: int) -> ConfusionMatrix:
        """From given and true classes, [n] each, of 0 .. classes - 1; a negative label is unknown and left out."""
        known = labels >= 0
        counts = np.bincount(labels[known] * classes + predicted[known], minlength=classes * classes)
        return cls(counts.reshape(classes, classes))

    @cached_property
    def total(self) -> float:
        """How many nodes were scored."""
        return float(self.counts.sum())

    @cached_property
    def support(self) -> np.ndarray:
        """Nodes of each class. [C]"""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def accuracy(self) -> float:
        """Share of nodes that were given their class; not a number where no node is."""
        return _ratio(float(np.trace(self.counts)), self.total)

    @property
    def majority(self) -> float:
        """What giving everybody the most frequent class of these nodes would reach: accuracy must be compared with it."""
        return _ratio(float(self.support.max()), self.total)

    @cached_property
    def recall(self) -> np.ndarray:
        """Share of the nodes of a class that were given it; not a number for a class without nodes. [C]"""
        return np.array([_ratio(float(self.counts[k, k]), float(n)) for k, n in enumerate(self.support)])

    @cached_property
    def precision(self) -> np.ndarray:
        """Share of the nodes that were given a class and have it; 0 for a class that nobody was given. [C]"""
        given = self.counts.sum(axis=0)
        return np.array([float(self.counts[k, k]) / float(n) if n > 0 else 0.0 for k, n in enumerate(given)])

    @cached_property
    def f1(self) -> np.ndarray:
        """2 / (1 / precision + 1 / recall); not a number for a class that is neither there nor given. [C]"""
        sums = self.support + self.counts.sum(axis=0)
        return np.array([_ratio(2 * float(self.counts[k, k]), float(n)) for k, n in enumerate(sums)])

    @property
    def balanced_accuracy(self) -> float:
        """The mean recall of the classes that are there: every class counts the same, however rare it is."""
        return _mean(self.recall)

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes that are there or were given."""
        return _mean(self.f1)

    def per_class(self, names: Sequence[str]) -> dict[str, dict[str, float | None]]:
        """Precision, recall, F1 and support of every class, by name."""
        if len(names) != len(self.counts):
            raise InputError(f"names must be of {len(self.counts)} classes, got {len(names)}")
        columns = {"precision": self.precision, "recall": self.recall, "f1": self.f1, "support": self.support}
        return {
            name: {key: _number(values[k]) for key, values in columns.items()} for k, name in enumerate(map(str, names))
        }

    def to_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Plain JSON values; None where there is nothing to measure."""
        words = ("accuracy", "majority", "balanced_accuracy", "macro_f1")
        return {**{word: _number(getattr(self, word)) for word in words}, "per_class": self.per_class(names)}


# -- class probabilities ---------------------------------------------------------------------------------------------


def roc_auc(probabilities: np.ndarray, labels: np.ndarray, positive: int | None = None) -> float:
    """The area under the ROC curve: of two classes that of either; of more, the mean of each class against the rest.

    Classes that all nodes have, or none, are left out; not a number where none is left. [n, C], [n]
    """
    return _over_classes(area_under_curve, probabilities, labels, positive)


def mean_average_precision(probabilities: np.ndarray, labels: np.ndarray, positive: int | None = None) -> float:
    """Average precision: of two classes that of the ``positive`` one (None: the rarer); of more, the mean over all classes.

    Classes that all nodes have, or none, are left out; not a number where none is left. [n, C], [n]
    """
    return _over_classes(average_precision, probabilities, labels, positive)


def _over_classes(
    measure: Callable[[Scored], float], probabilities: np.ndarray, labels: np.ndarray, positive: int | None
) -> float:
    p, y = _known(probabilities, labels)
    if p.shape[1] == 2 or positive is not None:
        asked = [rarest(y, p.shape[1]) if positive is None else positive]
    else:
        asked = list(range(p.shape[1]))
    found = [measure(Scored(p[:, k], y == k)) for k in asked if 0 < (y == k).sum() < len(y)]
    return float(np.mean(found)) if found else math.nan


def class_f1(confusion: ConfusionMatrix, positive: int | None = None) -> float:
    """F1 of the most likely class: of two classes that of the ``positive`` one (None: the rarer); of more, the mean over all.

    >>> matrix = ConfusionMatrix(np.array([[90, 2], [4, 4]]))
    >>> round(class_f1(matrix), 3), round(class_f1(matrix, 0), 3), round(matrix.macro_f1, 3)
    (0.571, 0.968, 0.77)
    """
    if positive is None and len(confusion.counts) != 2:
        return confusion.macro_f1
    support = confusion.support
    return float(confusion.f1[int(support[1] <= support[0]) if positive is None else positive])


def rarest(labels: np.ndarray, classes: int) -> int:
    """The class with the fewest nodes; of equal ones the last, which by habit is the positive one.

    >>> rarest(np.array([0, 0, 1]), 2), rarest(np.array([0, 1]), 2), rarest(np.array([0, 1, 1]), 2)
    (1, 1, 0)
    """
    counts = np.bincount(labels[labels >= 0], minlength=classes)
    return int(classes - 1 - np.argmin(counts[::-1]))


def brier(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The mean squared distance of the probabilities from the truth: sum over classes (Brier 1950), halved for two.

    So it is (p - y)^2 of the positive class where there are two. [n, C], [n]

    >>> brier(np.array([[0.8, 0.2]]), np.array([0])).__round__(3)
    0.04
    """
    p, y = _known(probabilities, labels)
    if len(y) == 0:
        return math.nan
    squares = ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1)
    return float(squares.mean()) / (2 if p.shape[1] == 2 else 1)


def calibration_error(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The mean gap between confidence and accuracy in equal bins of confidence, weighted by their nodes (Naeini et al. 2015).

    [n, C], [n]
    """
    p, y = _known(probabilities, labels)
    if len(y) == 0:
        return math.nan
    sure, right = p.max(axis=1), p.argmax(axis=1) == y
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    return float(np.abs(np.bincount(place, weights=sure - right, minlength=BINS)).sum() / len(y))


@dataclass(frozen=True, eq=False)
class Metrics:
    """All metrics of class probabilities on labelled nodes.

    Args:
        probabilities: [n, C].
        labels: [n]; nodes with a negative one are left out.
        positive: the class that rankings and F1 are about, as a number; None: of two classes the rarer, of more all of them.

    >>> made = Metrics(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 1, 1]))
    >>> made.value("accuracy").__round__(3), made.value("ap"), made.to_dict(["ok", "fraud"])["majority"].__round__(3)
    (0.667, 1.0, 0.667)
    """

    probabilities: np.ndarray
    labels: np.ndarray
    positive: int | None = None

    @cached_property
    def confusion(self) -> ConfusionMatrix:
        """Of the most likely classes."""
        return ConfusionMatrix.of(self.probabilities.argmax(axis=1), self.labels, self.probabilities.shape[1])

    def value(self, metric: str) -> float:
        """One metric by its name in `METRICS`, or by its short name; not a number where there is nothing to measure."""
        return METRICS[metric_name(metric)](self)

    def _repr_html_(self) -> str:
        known = {name: self.value(name) for name in METRICS}
        rows = [(name.replace("_", " "), f"{value:.4g}") for name, value in known.items() if not math.isnan(value)]
        curator = ("at node level", "for the curator alone: labels are private there, and read without noise")
        return html_table("Metrics", [("labelled nodes", int(self.confusion.counts.sum())), *rows, curator])

    def to_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Plain JSON values, classes by their ``names``; None where there is nothing to measure."""
        ranked = ("f1", "roc_auc", "average_precision", "brier", "calibration_error")
        return {
            **self.confusion.to_dict(names),
            **{name: _number(self.value(name)) for name in ranked},
            "confusion": self.confusion.counts.tolist(),
        }


METRICS: Mapping[str, Callable[[Metrics], float]] = {
    "accuracy": lambda m: m.confusion.accuracy,
    "balanced_accuracy": lambda m: m.confusion.balanced_accuracy,
    "macro_f1": lambda m: m.confusion.macro_f1,
    "f1": lambda m: class_f1(m.confusion, m.positive),
    "roc_auc": lambda m: roc_auc(m.probabilities, m.labels, m.positive),
    "average_precision": lambda m: mean_average_precision(m.probabilities, m.labels, m.positive),
    "brier": lambda m: brier(m.probabilities, m.labels),
    "calibration_error": lambda m: calibration_error(m.probabilities, m.labels),
    "majority": lambda m: m.confusion.majority,
}
"""Every metric that is one number, by name."""
SHORT = {"ap": "average_precision", "auc": "roc_auc"}
"""Names that people type."""
SELECTING = ("accuracy", "balanced_accuracy", "macro_f1", "f1", "roc_auc", "average_precision")
"""Metrics that a model can be chosen by: in [0, 1], and larger is better."""


def metric_name(metric: Any, known: Sequence[str] = tuple(METRICS)) -> str:
    """The whole name of a metric among the ``known`` ones; an unknown one is an error that lists them.

    >>> metric_name("ap"), metric_name("accuracy")
    ('average_precision', 'accuracy')
    """
    name = SHORT.get(metric, metric) if isinstance(metric, str) else None
    if name not in known:
        raise InputError(f"metric must be one of {', '.join(known)} ({_short(known)}), got {metric!r}")
    return str(name)


def selecting_name(metric: Any) -> str:
    """The whole name of a metric that a model can be chosen by.

    >>> selecting_name("auc")
    'roc_auc'
    """
    return metric_name(metric, SELECTING)


def _short(known: Sequence[str]) -> str:
    return ", ".join(f"{short} for {name}" for short, name in SHORT.items() if name in known)


# -- numbers and several labels at once --------------------------------------------------------------------------------


def regression_metrics(predicted: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Root mean squared error, mean absolute error, R^2, and the error of the mean of the targets. [n], [n]

    >>> made = regression_metrics(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0]))
    >>> round(made["rmse"], 3), round(made["r2"], 3)
    (0.577, 0.5)
    """
    y, error = np.asarray(targets, dtype=np.float64), np.asarray(predicted, dtype=np.float64) - targets
    spread = float(((y - y.mean()) ** 2).sum()) if len(y) else 0.0
    return {
        "rmse": math.sqrt(_ratio(float((error**2).sum()), len(y))),
        "mae": _ratio(float(np.abs(error).sum()), len(y)),
        "r2": 1 - _ratio(float((error**2).sum()), spread),
        "rmse_of_mean": math.sqrt(_ratio(spread, len(y))),
    }


def multilabel_metrics(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Of several labels at once: micro and macro F1 at 1/2, mean average precision, share of nodes with all labels right.

    probabilities: [n, L]; labels: [n, L], 0 and 1. Average precision leaves out labels that all nodes have, or none.

    >>> multilabel_metrics(np.array([[0.9, 0.2], [0.1, 0.6]]), np.array([[1, 0], [0, 1]]))["micro_f1"]
    1.0
    """
    y, given = np.asarray(labels, dtype=bool), np.asarray(probabilities) >= 0.5
    hits, sums = (given & y).sum(axis=0), given.sum(axis=0) + y.sum(axis=0)
    each = np.array([_ratio(2 * float(h), float(s)) if s else 0.0 for h, s in zip(hits, sums, strict=True)])
    ranked = [
        average_precision(Scored(probabilities[:, k], y[:, k])) for k in range(y.shape[1]) if 0 < y[:, k].sum() < len(y)
    ]
    return {
        "micro_f1": _ratio(2 * float(hits.sum()), float(sums.sum())),
        "macro_f1": float(each.mean()),
        "average_precision": float(np.mean(ranked)) if ranked else math.nan,
        "all_right": float((given == y).all(axis=1).mean()) if len(y) else math.nan,
    }


# -- several fits ------------------------------------------------------------------------------------------------------


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Student's interval of a mean; a single value gives no width and is returned twice.

    >>> [round(x, 3) for x in mean_interval([0.4, 0.5, 0.6])]
    [0.252, 0.748]
    """
    from scipy import stats

    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, mean
    quantile = stats.t.ppf((1 + open_unit_interval(confidence=confidence)) / 2, len(values) - 1)
    width = float(quantile * np.std(values, ddof=1) / math.sqrt(len(values)))
    return mean - width, mean + width


# -- numbers ---------------------------------------------------------------------------------------------------------


def _known(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of nodes with a label."""
    rows = labels >= 0
    return probabilities[rows], labels[rows]


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan


def _mean(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def _number(value: Any) -> float | None:
    """As JSON can hold it."""
    number = float(value)
    return None if math.isnan(number) else number
