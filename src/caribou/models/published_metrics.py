"""Metrics that may be published at node level: a noisy confusion matrix, released like anything else, and what follows from it.

Labels are private there, so exact metrics are for the curator. Noise is added to the counts, test nodes are charged for it, and
accuracy, recall and F1 with their intervals are computed from the noisy counts: post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from caribou._validate import positive
from caribou.errors import InputError
from caribou.machine.deferred import deferred_imports
from caribou.privacy.assumptions import Assumption
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate
from caribou.privacy.mechanism_records import ConfusionRecord
from caribou.privacy.plan import ReleaseKind, ReleasePlan
from caribou.privacy.sizes import Sizes
from caribou.release import Drawn, LedgerLike, Private, execute

with deferred_imports():
    import numpy as np

    from caribou.graph import Graph
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.mechanisms.noisy_confusion import noisy_confusion
    from caribou.metrics import ConfusionMatrix
    from caribou.randomness import Streams

CONFIDENCE = 0.95
SAMPLES = 500
"""Draws of the noise from which intervals are made."""
NUMBERS = ("accuracy", "majority", "balanced_accuracy", "macro_f1")


@dataclass(frozen=True, eq=False)
class PublishedMetrics:
    """Metrics of test nodes that a certificate covers.

    Args:
        counts: the noisy confusion matrix, [C, C], true class by predicted class.
        classes: names of the classes.
        epsilon: what it cost a test node.
        certificate: of this release.

    >>> from caribou.datasets import load
    >>> graph = load("csbm:nodes=200", seed=1)
    >>> made = publish_metrics(np.full((200, 4), 0.25), graph, ["a", "b", "c", "d"], Budget(2, 1e-5, "node"))
    >>> made.counts.shape, made.certificate.status
    ((4, 4), 'private')
    """

    counts: np.ndarray
    classes: tuple[str, ...]
    epsilon: float
    certificate: Certificate

    @property
    def confusion(self) -> ConfusionMatrix:
        """The noisy counts, those below 0 at 0."""
        return ConfusionMatrix(np.maximum(self.counts, 0))

    def interval(self, metric: str) -> tuple[float, float]:
        """Where the metric of the exact counts lies with 95 % confidence; noise alone, not the choice of the test nodes.

        The exact counts are the noisy ones less noise of a known distribution. Such noise is drawn again from a public seed and
        taken off; the metric of what is left has these quantiles.
        """
        if metric not in NUMBERS:
            raise InputError(f"metric must be one of {', '.join(NUMBERS)}, got {metric!r}")
        found = [getattr(matrix, metric) for matrix in self._possible]
        known = [value for value in found if not math.isnan(value)]
        if not known:
            return 0.0, 1.0
        low, high = np.quantile(known, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        return float(low), float(high)

    @cached_property
    def _possible(self) -> list[ConfusionMatrix]:
        """Exact counts that noise may have turned into these."""
        shape, rng = (SAMPLES, *self.counts.shape), Streams(0).generator("published metrics")
        # the difference of two variables with P(k) = (1 - q) q^(k - 1), q = e^-epsilon, is the discrete Laplace distribution
        share = -math.expm1(-self.epsilon)
        taken = rng.geometric(share, shape) - rng.geometric(share, shape)
        return [ConfusionMatrix(np.maximum(counts, 0)) for counts in self.counts - taken]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: every metric with its interval, the noisy counts, what they cost."""
        shown = self.confusion.to_dict(self.classes)
        return {
            **{name: {"value": shown[name], "interval95": list(self.interval(name))} for name in NUMBERS},
            "per_class": shown["per_class"],
            "noisy_confusion": self.counts.tolist(),
            "classes": list(self.classes),
            "epsilon": self.epsilon,
            "certificate_id": self.certificate.certificate_id,
        }


def metrics_plan(sizes: Sizes, budget: Budget) -> ReleasePlan:
    """The plan of a noisy confusion matrix of the test nodes, which pay the whole budget."""
    if budget.unit is not PrivacyUnit.NODE:
        raise InputError(
            "unit must be node to publish noisy metrics: at edge level labels are public, and metrics may be published as they "
            "are, got edge"
        )
    return ReleasePlan(
        budget,
        (ConfusionRecord(epsilon=positive(epsilon=budget.epsilon), classes=sizes.classes),),
        released=("the noisy confusion matrix of the test nodes and everything computed from it",),
        kind=ReleaseKind.METRICS,
        public_parameters={"nodes": sizes.nodes, "test_nodes": sizes.test},
    )


def publish_metrics(
    probabilities: np.ndarray,
    graph: Graph,
    classes: Sequence[str],
    budget: Budget,
    *,
    noise: NoiseSource | None = None,
    ledger: LedgerLike | None = None,
    replace_fingerprint: bool = False,
    private: Private | None = None,
    assumptions: Sequence[Assumption] = (),
) -> PublishedMetrics:
    """Release the confusion matrix of the test nodes with noise.

    Args:
        probabilities: [n, C]; each row a function of earlier releases and of the data of its own node.
        graph: with labels and a split; node level.
        classes: names of the classes.
        budget: what test nodes pay, beside the fit.
        noise, ledger, replace_fingerprint: as in `caribou.Model.fit`.
        private: the graph as its owner has it, if ``graph`` was brought into the columns and classes of the model; its content
            is what a ledger knows.
        assumptions: what the model rests on, which predicts.

    Returns:
        The metrics with their certificate.
    """
    split, labels = graph.for_learning()
    plan = replace(metrics_plan(graph.sizes(budget.unit), budget), assumptions=tuple(assumptions))
    matrix = ConfusionMatrix.of(probabilities[split.test].argmax(axis=1), np.array(labels)[split.test], len(classes))
    released = execute(
        plan,
        private or graph,
        lambda source: Drawn(noisy_confusion(matrix, budget.epsilon, source)),
        noise=noise or NoiseSource.secure(),
        ledger=ledger,
        replace_fingerprint=replace_fingerprint,
    )
    return PublishedMetrics(released.value, tuple(map(str, classes)), budget.epsilon, released.certificate)
