"""The objective: what models on public labels are chosen by, and how much each class counts in their loss.

At edge level labels are public, so any metric of validation nodes may choose a checkpoint, a head or a round. At node level
validation labels are private and only a mechanism that is charged for may choose; no method there takes an objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from caribou._validate import one_of
from caribou.machine.deferred import deferred_imports

with deferred_imports():
    import numpy as np
    from scipy.special import log_softmax, softmax

    from caribou.metrics import Metrics, selecting_name

BALANCED = "balanced"
RESAMPLES = 60
"""Bootstrap samples of the validation nodes from which the error of a difference of two metrics is estimated."""


@dataclass(frozen=True)
class Objective:
    """What is best on validation nodes. The default is what every method did before it could be asked.

    Args:
        metric: a metric of `caribou.metrics.SELECTING`, larger is better; None: accuracy and cross-entropy, as each model says.
        class_weight: "balanced": every class has the same weight in the loss, however rare it is; None: every node has.

    >>> Objective("ap").metric, Objective(class_weight="balanced").class_weights(np.array([0, 0, 0, 1]), 2).round(3).tolist()
    ('average_precision', [0.667, 2.0])
    """

    metric: str | None = None
    class_weight: str | None = None

    def __post_init__(self) -> None:
        if self.metric is not None:
            object.__setattr__(self, "metric", selecting_name(self.metric))
        if self.class_weight is not None:
            one_of((BALANCED,), class_weight=self.class_weight)

    def class_weights(self, labels: np.ndarray, classes: int) -> np.ndarray | None:
        """n / (C n_k) for class k, 1 in the mean over the nodes; None where all nodes count the same. [n] -> [C]"""
        if self.class_weight is None:
            return None
        counts = np.maximum(np.bincount(labels, minlength=classes), 1)
        return len(labels) / (classes * counts)

    def score(self, logits: np.ndarray, labels: np.ndarray) -> float:
        """The metric of validation nodes; 0 where it says nothing, as if there were none. [n, C], [n]

        Assumes: a metric is named.
        """
        value = Metrics(softmax(logits, axis=1), labels).value(str(self.metric))
        return 0.0 if np.isnan(value) else value

    def best(self, candidates: Sequence[np.ndarray], labels: np.ndarray) -> int:
        """0, unless the best of the candidates' scores, [n, C] each, beats the first by more than one standard error.

        By cross-entropy, with the error of paired rows; or by the metric, with that of the bootstrap: nodes are drawn anew from
        a fixed public seed, the same for both.
        """
        if self.metric is None:
            losses = [cross_entropies(scores, labels) for scores in candidates]
            best = int(np.argmin([loss.mean() for loss in losses]))
            saved = losses[0] - losses[best]
            return best if saved.mean() > saved.std() / np.sqrt(len(saved)) else 0
        best = int(np.argmax([self.score(scores, labels) for scores in candidates]))
        rng = np.random.default_rng(0)
        rows = rng.integers(0, len(labels), (RESAMPLES, len(labels)))
        gains = [self.score(candidates[best][r], labels[r]) - self.score(candidates[0][r], labels[r]) for r in rows]
        gain = self.score(candidates[best], labels) - self.score(candidates[0], labels)
        return best if gain > float(np.std(gains)) else 0


def cross_entropies(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """-log softmax at the label, per row. [n, C], [n] -> [n].

    >>> cross_entropies(np.zeros((1, 4)), np.array([2])).round(4).tolist()            # log 4
    [1.3863]
    """
    losses: np.ndarray = -log_softmax(scores, axis=1)[np.arange(len(labels)), labels]
    return losses


USUAL = Objective()
"""No metric is named and every node counts the same."""
