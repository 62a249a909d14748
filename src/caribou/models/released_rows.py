"""Rows that a mechanism released, one per node: all that a downstream task may read of a private graph, and its linear head.

What is computed from released rows and from public values is post-processing: it costs nothing, and the certificate of the
release covers it. A graph is neither of the two, so it is refused here, whatever it is called.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.bounded_rows import unit_length
from caribou.privacy.certificate import Certificate
from caribou.release import Embeddings

STATE, SUMS = "state", "sums_"


def released_rows(released: Mapping[str, np.ndarray]) -> np.ndarray:
    """One row per node of what a method released. [n, d]

    The last state X^(K) as it is; or the noisy sums of every hop, each row at length 1, side by side.

    Args:
        released: `Model.released`, or that of another graph (`Fitted.released`).

    Returns:
        The rows, [n, d].

    >>> released_rows({"sums_1": np.array([[3.0, 4.0]]), "sums_2": np.array([[0.0, 2.0]])}).tolist()
    [[0.6, 0.8, 0.0, 1.0]]
    """
    if STATE in released:
        return released_state(released[STATE])
    hops = sum(1 for name in released if name.startswith(SUMS))
    if hops == 0:
        raise InputError(
            f"released must hold {STATE} or {SUMS}1, {SUMS}2, ... (caribou-edp, caribou-ndp, gap-edp, "
            f"gap-ndp), got {', '.join(sorted(released)) or 'nothing'}"
        )
    return np.concatenate([unit_length(released_state(released[f"{SUMS}{k}"])) for k in range(1, hops + 1)], axis=1)


def released_state(state: Any) -> np.ndarray:
    """The rows as a float64 array [n, d]; a graph or a sparse matrix is an error, because it is private.

    `Embeddings` whose certificate promises nothing are used with a warning. A dense array is taken for what it is called: that it
    was released is up to the caller.

    >>> released_state([[1, 2]]).tolist()
    [[1.0, 2.0]]
    """
    refuse_graph("state", state, "released rows [n, d], such as Model.embeddings")
    if isinstance(state, Embeddings) and not state.certificate.is_guarantee:
        warnings.warn(unprotected(state.certificate), stacklevel=2)
    rows = np.asarray(state.state if isinstance(state, Embeddings) else state)
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        raise InputError(f"state must be numbers of shape [n, d], got {rows.dtype} of shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise InputError("state must be finite, got NaN or infinity")
    return rows.astype(np.float64)


def unprotected(certificate: Certificate) -> str:
    """What to say before rows are used whose certificate promises nothing."""
    return (
        f"the certificate of this release is {certificate.status!r}: its rows, and everything computed from them, may show "
        "private data; do not publish them"
    )


def refuse_graph(name: str, value: Any, rule: str) -> None:
    """A graph, a PyG ``Data`` or a sparse (adjacency) matrix is an error. Its edges are not looked at."""
    # of the type, not of the value: a property would be run, and might read edges
    if isinstance(value, Graph) or sp.issparse(value) or _has_edges(value):
        raise InputError(
            f"{name} must be {rule}, got {type(value).__name__}: what is learned from the private graph itself is not covered by "
            "the certificate"
        )


def _has_edges(value: Any) -> bool:
    """PyG's ``Data`` keeps its arrays in a store; networkx calls its edges so."""
    kind = type(value)
    known = ("edge_index", "edges", "adj_t")
    return any(hasattr(kind, name) for name in known) or kind.__module__.startswith("torch_geometric.")


RIDGE = 0.01
"""Penalty per row: strong enough for columns that are mostly noise."""
STEPS = 500


@dataclass(frozen=True, eq=False)
class SoftmaxRegression:
    """scikit-learn's logistic regression, on standardised columns if they were in the fit. ``classes``: C."""

    model: Any
    classes: int

    @property
    def columns(self) -> int:
        """d."""
        return int(self.model.n_features_in_)

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        """Class probabilities; 0 of a class without a row. [m, d] -> [m, C]"""
        found = np.zeros((len(columns), self.classes))
        found[:, self.model.classes_] = self.model.predict_proba(columns)
        return found


def fit_softmax_regression(
    columns: np.ndarray, labels: np.ndarray, classes: int, ridge: float = RIDGE, *, standardise: bool = True
) -> SoftmaxRegression:
    """Minimise mean cross-entropy + ridge / 2 ||A||^2 of softmax(z A + b); the bias b pays nothing.

    Args:
        columns: [m, d].
        labels: [m], classes in [0, C), at least two of them.
        classes: C.
        ridge: strength of the penalty.
        standardise: every column by its own mean and standard deviation; false: columns are taken as they are.

    Returns:
        The fitted model.

    >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> fit_softmax_regression(x, np.array([0, 0, 1, 1]), 2)(x).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # of two classes scikit-learn has one column w of weights, which stands for -w / 2 and w / 2
    twice = 2 if len(np.unique(labels)) == 2 else 1
    regression = LogisticRegression(C=twice / (ridge * len(labels)), max_iter=STEPS)
    scaler = StandardScaler(with_mean=standardise, with_std=standardise)
    return SoftmaxRegression(make_pipeline(scaler, regression).fit(columns, labels), classes)
