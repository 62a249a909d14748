"""Numbers and several labels at once as targets of nodes, at edge level: heads on released sums of what neighbours have.

At edge level targets are public, like features. Half of the training nodes send theirs over their edges. Every node gets the
noisy sum of what its neighbours sent, released by one hop of perturbed message passing (`caribou.release`). A head learns from
features and sums of the other half. So there is no mechanism here: what is released is X^(1) of public rows, and the rest is
post-processing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from caribou._validate import open_unit_interval
from caribou.errors import CaribouError, InputError
from caribou.graph import Graph, Split
from caribou.layers.contractive import ContractiveGraphLayer
from caribou.machine.memory import DOUBLE, require_memory
from caribou.mechanisms.noise_source import NoiseSource
from caribou.metrics import multilabel_metrics, regression_metrics
from caribou.models.released_rows import RIDGE, fit_softmax_regression
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate
from caribou.privacy.sensitivity import Bounds
from caribou.randomness import Streams
from caribou.release import LedgerLike, release

RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Strengths of the ridge among which validation nodes choose."""
Head = Callable[[np.ndarray], np.ndarray]
"""Columns of n nodes, [n, d] -> predictions, [n]."""


@dataclass(frozen=True, eq=False)
class Received:
    """What every node received: noisy sums of its neighbours' targets, and the noisy number of neighbours that sent.

    Args:
        sums: [n, L], of targets between -1 and 1.
        count: [n].
        noise_std: of every entry, in targets.
        certificate: of the release.
    """

    sums: np.ndarray
    count: np.ndarray
    noise_std: float
    certificate: Certificate

    def columns(self, target: int) -> np.ndarray:
        """Sum, number, and the mean that both give, shrunk by the noise: what a head reads. [n, 3]"""
        # without noise a node that nobody sent to has the mean 0
        mean = self.sums[:, target] / (np.maximum(self.count, 0) + max(self.noise_std**2, 1e-6))
        return np.stack([self.sums[:, target], self.count, mean], axis=1)


def release_sums(
    graph: Graph,
    targets: np.ndarray,
    senders: np.ndarray,
    budget: Budget,
    *,
    noise: NoiseSource | None = None,
    ledger: LedgerLike | None = None,
) -> Received:
    """Release the sums of targets over neighbours, by one hop of message passing.

    A sender's row of X^(0) is (targets, 1) / sqrt(L + 1), of length at most 1; all other rows are 0. With the floor F = n - 1 no
    degree matters: W = (A + I) / n, so X^(1) holds the sums and the own row, which is public and taken off.

    Args:
        graph: the private graph.
        targets: [n, L], between -1 and 1; public.
        senders: indices of the nodes that send.
        budget: at edge level.
        noise, ledger: as in `caribou.release`.
    """
    if budget.unit is not PrivacyUnit.EDGE:
        raise InputError(
            "unit must be edge for numbers and several labels as targets: at node level a person's target is private, and no "
            "head here is trained privately, got node"
        )
    n, length = graph.num_nodes, np.sqrt(targets.shape[1] + 1)
    start = np.zeros((n, targets.shape[1] + 1))
    start[senders] = np.hstack([targets[senders], np.ones((len(senders), 1))]) / length
    layer = ContractiveGraphLayer(contraction=1.0, alpha1=1.0, beta=0.0)
    bounds = Bounds(degree_floor=max(1, n - 1))
    made = release(graph, layer, hops=1, budget=budget, bounds=bounds, start=start, noise=noise, ledger=ledger)
    scale = bounds.degree_floor + 1
    sums = (np.asarray(made.state) * scale - start) * length
    std = float(made.certificate.mechanisms[0].details["noise_std"]) * scale * float(length)
    return Received(sums[:, :-1], sums[:, -1], std, made.certificate)


class _NodeTargets:
    """What both kinds of targets have in common: who sends, who learns, and what was released."""

    def __init__(self, budget: Budget, *, senders: float = 0.5, seed: int = 0) -> None:
        if not isinstance(budget, Budget):
            raise InputError(f"budget must be a Budget, got {type(budget).__name__}")
        self.budget, self.senders = budget, open_unit_interval(senders=senders)
        self._streams = Streams(seed)
        self._received: Received | None = None
        self._predictions = np.empty((0, 0))
        self._targets = np.empty((0, 0))
        self._split: Split | None = None

    @property
    def certificate(self) -> Certificate:
        """What was released, and what it cost."""
        if self._received is None:
            raise CaribouError("model must be fitted first: call fit(graph, targets, split)")
        return self._received.certificate

    def fit(
        self,
        graph: Graph,
        targets: Any,
        split: Split | None = None,
        *,
        noise: NoiseSource | None = None,
        ledger: LedgerLike | None = None,
    ) -> Self:
        """Release the sums and learn the heads.

        Args:
            graph: the private graph.
            targets: public; those of training and validation nodes must be known, NaN elsewhere. [n] numbers, or [n, L] labels 0
                and 1.
            split: None: that of the graph.
            noise, ledger: as in `caribou.release`.

        Returns:
            The model itself.
        """
        split = graph.split if split is None else split
        if split is None:
            raise InputError("split must be given, or the graph must have one, got None")
        y = self._checked(targets, graph.num_nodes, split)
        train = self._streams.generator("targets").permutation(split.train)
        sent = min(len(train) - 1, max(1, round(self.senders * len(train))))
        if sent < 1:
            raise InputError(f"split.train must hold 2 nodes or more, one to send and one to learn, got {len(train)}")
        message = self._messages(y, split)
        received = release_sums(graph, message, train[:sent], self.budget, noise=noise, ledger=ledger)
        own, columns = _dense(graph.features), []
        for target in range(y.shape[1]):
            inputs = np.hstack([own, received.columns(target)])
            head = self._fit_head(inputs, y[:, target], np.sort(train[sent:]), np.array(split.val))
            columns.append(head(inputs))
        self._received, self._split, self._targets = received, split, y
        self._predictions = np.stack(columns, axis=1)
        return self

    def _checked(self, targets: Any, nodes: int, split: Split) -> np.ndarray:
        """The targets as numbers, [n, L]."""
        raise NotImplementedError

    def _messages(self, y: np.ndarray, split: Split) -> np.ndarray:
        """What senders send, between -1 and 1. [n, L]"""
        raise NotImplementedError

    def _fit_head(self, inputs: np.ndarray, y: np.ndarray, rows: np.ndarray, val: np.ndarray) -> Head:
        """Learn one target, [n], of ``rows``; ``val``: rows that may choose."""
        raise NotImplementedError

    def _scored(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        """Predictions and targets of the nodes of a part whose targets are known."""
        _ = self.certificate
        if part not in ("train", "val", "test"):
            raise InputError(f"part must be one of train, val, test, got {part!r}")
        rows = np.asarray(getattr(self._split, part))
        rows = rows[~np.isnan(self._targets[rows]).any(axis=1)]
        return self._predictions[rows], self._targets[rows]


class NodeRegressor(_NodeTargets):
    """A number for every node, from its features and the noisy sum of its neighbours' numbers. Edge level.

    Args:
        budget: epsilon and delta; the unit is edge.
        senders: share of the training nodes that send their targets; the others teach the head.
        seed: the public seed.

    Formal guarantee: (epsilon, delta)-DP at edge level, the certificate of one release of X^(1) (docs/privacy.md, Theorems 1 and
    2). Features and targets are public there and get no noise.

    >>> import caribou as cb
    >>> graph = cb.datasets.load("csbm", nodes=200, seed=1)
    >>> model = cb.NodeRegressor(cb.Budget(4)).fit(graph, graph.labels * 2.5, graph.split)
    >>> model.predict().shape, model.certificate.status
    ((200,), 'private')
    """

    def _checked(self, targets: Any, nodes: int, split: Split) -> np.ndarray:
        return _known_targets(targets, (nodes,), split).reshape(-1, 1)

    def _messages(self, y: np.ndarray, split: Split) -> np.ndarray:
        """Scaled by middle and half width of the training targets, which are public at edge level."""
        low, high = y[split.train].min(), y[split.train].max()
        half = max((high - low) / 2, 1e-12)
        return np.clip((np.nan_to_num(y) - (low + high) / 2) / half, -1, 1)

    def _fit_head(self, inputs: np.ndarray, y: np.ndarray, rows: np.ndarray, val: np.ndarray) -> Head:
        return _fit_ridge(inputs, y, rows, val)

    def predict(self) -> np.ndarray:
        """The number of every node of the graph that was fitted. [n]"""
        _ = self.certificate
        return self._predictions[:, 0]

    def score(self, part: str = "test") -> dict[str, float]:
        """Errors on a ``part`` of the split: rmse, mae, r2, and rmse_of_mean, that of one number for all."""
        predictions, targets = self._scored(part)
        return regression_metrics(predictions[:, 0], targets[:, 0])


class MultiLabelClassifier(_NodeTargets):
    """Several labels at once for every node, from its features and the noisy sums of its neighbours' labels. Edge level.

    Args:
        budget: epsilon and delta; the unit is edge.
        senders: share of the training nodes that send their labels; the others teach the heads.
        seed: the public seed.

    Formal guarantee: as of `NodeRegressor`. All labels share one release; each costs noise in proportion to sqrt(L + 1).

    >>> import caribou as cb
    >>> graph = cb.datasets.load("csbm", nodes=200, seed=1)
    >>> labels = np.stack([graph.labels < 2, graph.labels % 2 == 0], axis=1)
    >>> model = cb.MultiLabelClassifier(cb.Budget(4)).fit(graph, labels, graph.split)
    >>> model.predict_proba().shape, sorted(model.score())
    ((200, 2), ['all_right', 'average_precision', 'macro_f1', 'micro_f1'])
    """

    def _checked(self, targets: Any, nodes: int, split: Split) -> np.ndarray:
        shape = np.shape(targets)
        if len(shape) != 2 or shape[1] < 1:
            raise InputError(f"labels must be of shape [{nodes}, L], got {shape}")
        y = _known_targets(targets, (nodes, shape[1]), split)
        if not np.isin(y[~np.isnan(y)], (0, 1)).all():
            raise InputError("labels must be 0 and 1, got other values")
        return y

    def _messages(self, y: np.ndarray, split: Split) -> np.ndarray:
        return np.nan_to_num(y)

    def _fit_head(self, inputs: np.ndarray, y: np.ndarray, rows: np.ndarray, val: np.ndarray) -> Head:
        labels = y[rows].astype(int)
        if len(np.unique(labels)) == 1:  # a label that all of them have, or none
            return lambda columns: np.full(len(columns), float(labels[0]))
        model = fit_softmax_regression(inputs[rows], labels, 2, RIDGE)
        return lambda columns: model(columns)[:, 1]

    def predict_proba(self) -> np.ndarray:
        """The probability of every label of every node. [n, L]"""
        _ = self.certificate
        return self._predictions

    def predict(self) -> np.ndarray:
        """The labels that are more likely than not. [n, L], bool"""
        return self.predict_proba() >= 0.5

    def score(self, part: str = "test") -> dict[str, float]:
        """Metrics on a ``part`` of the split (`caribou.metrics.multilabel_metrics`)."""
        return multilabel_metrics(*self._scored(part))


def _dense(features: Any) -> np.ndarray:
    n, d = features.shape
    require_memory(3 * DOUBLE * n * d, f"the heads of {n:,} nodes with all {d:,} features")
    return np.asarray(features.todense() if sp.issparse(features) else features, dtype=np.float64)


def _known_targets(targets: Any, shape: tuple[int, ...], split: Split) -> np.ndarray:
    """The targets as numbers; those that are learned from must be known."""
    try:
        y = np.array(targets, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"targets must be numbers of shape {list(shape)}, got {type(targets).__name__}") from error
    if y.shape != shape:
        raise InputError(f"targets must be of shape {list(shape)}, got {list(y.shape)}")
    if not np.isfinite(y[np.concatenate([split.train, split.val])]).all():
        raise InputError("targets of training and validation nodes must be finite, got NaN or infinity")
    return y


def _fit_ridge(inputs: np.ndarray, y: np.ndarray, rows: np.ndarray, val: np.ndarray) -> Head:
    """Least squares with a ridge on standardised columns; validation nodes choose its strength. Without any: the middle one."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    models = [make_pipeline(StandardScaler(), Ridge(ridge * len(rows))).fit(inputs[rows], y[rows]) for ridge in RIDGES]
    best = models[len(RIDGES) // 2]
    if len(val):
        best = min(models, key=lambda model: float(((model.predict(inputs[val]) - y[val]) ** 2).mean()))
    return lambda columns: np.asarray(best.predict(columns))
