"""Ridge regression onto class indicators: every penalty at once, and predictions out of fold from the same Gram matrices.

Rows come in blocks and only Gram matrices are kept, so a tall table is read, not held. No step size and no epochs. The penalty
is chosen by the leave-one-out error, which has a closed form. The scores of training rows are out of fold, not leave-one-out:
leaving out one row shifts the mean of all others away from its label, a little and always, and what is fitted on such scores
reads the label off that shift.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
BLOCK = 8192
FOLDS = 8
KEPT = 100_000_000
"""Columns of all rows are kept for the second pass if they have at most so many entries."""
JUDGED = 5_000
"""Penalties are compared on so many training rows at most."""

Columns = Callable[[np.ndarray], Tensor]
"""Numbers of rows, [m] -> their columns phi, [m, D], float32."""


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """W = (Phi' Phi + lambda)^-1 Phi' (Y - pi): scores phi W, with Y the class indicators and pi the class shares.

    Args:
        weights: W, [D, C].
        penalty: lambda, of the least mean squared leave-one-out error.
        scores: [n, C]; those of training rows by fits without their fold.
        directions: [D, D], orthonormal eigenvectors of Phi' Phi as columns, that of the largest eigenvalue first.
    """

    weights: np.ndarray
    penalty: float
    scores: np.ndarray
    directions: np.ndarray


def fit_ridge(
    columns: Columns,
    count: int,
    train: np.ndarray,
    labels: np.ndarray,
    classes: int,
    penalties: Sequence[float] = PENALTIES,
) -> RidgeFit:
    """Fit on training rows, and score all rows.

    With h_i = phi_i' (Phi' Phi + lambda)^-1 phi_i and residual r_i of the full fit, the residual of the fit without row i is
    r_i / (1 - h_i) (Cook and Weisberg, 1982, section 2.2): the penalty has the least sum of their squares.

    Args:
        columns: of any rows, by number.
        count: n, how many rows there are.
        train: [m], numbers of the training rows, in random order: every FOLDS-th is in the same fold.
        labels: [n]; only those of training rows are read.
        classes: C.
        penalties: lambda to choose from.

    >>> x = torch.tensor([[1.0], [2.0], [-1.0], [-3.0], [1.5]])
    >>> fit = fit_ridge(lambda rows: x[rows], 5, np.array([0, 2, 1, 3]), np.array([0, 0, 1, 1, -1]), 2)
    >>> fit.scores.argmax(axis=1).tolist()
    [0, 0, 1, 1, 0]
    """
    if count * columns(np.zeros(1, np.int64)).shape[1] <= KEPT:
        columns = torch.cat([columns(rows) for rows in blocks(np.arange(count))]).__getitem__
    shares = np.bincount(labels[train], minlength=classes) / len(train)
    targets = torch.from_numpy(np.eye(classes) - shares)[np.maximum(labels, 0)]
    folds = [train[k::FOLDS] for k in range(FOLDS)]
    parts = [_moments(columns, fold, targets) for fold in folds]
    gram, moments = (sum(part, start=torch.zeros(1)) for part in zip(*parts, strict=True))
    values, vectors = spectrum(gram)
    penalty = _best_penalty(columns, train[:JUDGED], targets, values, vectors, moments, penalties)
    weights = _solved(gram, moments, penalty)
    scores = np.empty((count, classes))
    for rows in blocks(np.arange(count)):
        scores[rows] = columns(rows) @ weights.float()
    for fold, (own_gram, own_moments) in zip(folds, parts, strict=True):
        others = _solved(gram - own_gram, moments - own_moments, penalty).float()
        for rows in blocks(fold):
            scores[rows] = columns(rows) @ others
    return RidgeFit(weights.numpy(), penalty, scores, np.ascontiguousarray(vectors.flip(1).numpy()))


def spectrum(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, ascending, and eigenvectors of a Gram matrix of any rank. [D, D] -> [D], [D, D], float32.

    Divide and conquer in single precision takes half the time, and penalties are far above its error. With few rows
    hundreds of eigenvalues are 0 but for rounding, and it may not converge; QR iterations in double precision do.
    """
    single = gram.float()
    try:
        values, vectors = torch.linalg.eigh(single)
        if torch.isfinite(values).all() and torch.isfinite(vectors).all():
            return values, vectors
    except torch.linalg.LinAlgError:
        pass
    exact = scipy.linalg.eigh(gram.double().numpy(), driver="ev")
    values, vectors = (torch.from_numpy(part).float() for part in exact)
    return values, vectors


def _moments(columns: Columns, rows: np.ndarray, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Phi' Phi and Phi' (Y - pi) of some rows. [D, D], [D, C]"""
    width = columns(np.zeros(1, np.int64)).shape[1]
    gram, moments = (
        torch.zeros(width, width, dtype=torch.double),
        torch.zeros(width, targets.shape[1], dtype=torch.double),
    )
    for block in blocks(rows):
        phi = columns(block)
        gram += phi.T @ phi
        moments += phi.T @ targets[block].float()
    return gram, moments


def _solved(gram: Tensor, moments: Tensor, penalty: float) -> Tensor:
    """(gram + lambda)^-1 moments."""
    damped = gram + penalty * torch.eye(len(gram), dtype=torch.double)
    return torch.cholesky_solve(moments, torch.linalg.cholesky(damped))


def _best_penalty(
    columns: Columns,
    train: np.ndarray,
    targets: Tensor,
    values: Tensor,
    vectors: Tensor,
    moments: Tensor,
    penalties: Sequence[float],
) -> float:
    """The penalty of the least leave-one-out error on some training rows; values and vectors are those of the Gram matrix."""
    values, moments = values.double().clamp(min=0), vectors.double().T @ moments
    errors = np.zeros(len(penalties))
    for rows in blocks(train):
        turned, truth = columns(rows) @ vectors, targets[rows]
        squares = turned * turned
        for k, penalty in enumerate(penalties):
            inverse = 1 / (values + penalty)
            leverage = squares @ inverse.float()
            residuals = truth - turned @ (moments * inverse[:, None]).float()
            errors[k] += float(((residuals / (1 - leverage).clamp(min=1e-3)[:, None]) ** 2).sum())
    return float(penalties[int(np.argmin(errors))])


def blocks(rows: np.ndarray) -> Iterator[np.ndarray]:
    """The rows in order, BLOCK at a time."""
    for first in range(0, len(rows), BLOCK):
        yield rows[first : first + BLOCK]
