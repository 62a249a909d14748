"""Softmax regression with a ridge: the linear head of downstream tasks, on public labels and released columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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
