"""Rows of bounded norm: projection and unit length as properties, and `Rows` against the matrix written out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from caribou.errors import InputError
from caribou.layers import contractive
from caribou.mechanisms.bounded_rows import Rows, project_rows, row_norms, unit_length
from caribou.models.features import unit_root_rows

PAIRS = arrays(np.float64, (2, 3), elements=st.floats(-1e6, 1e6))


@given(PAIRS, st.floats(1e-3, 1e3))
def test_projection_is_onto_the_ball_and_does_not_expand(x: np.ndarray, radius: float) -> None:
    y = project_rows(x, radius)
    assert (np.linalg.norm(y, axis=1) <= radius * (1 + 1e-12)).all()
    assert np.linalg.norm(y[0] - y[1]) <= np.linalg.norm(x[0] - x[1]) * (1 + 1e-9) + 1e-12
    # what lies inside stays bit by bit; what lies outside keeps its direction
    inside = np.linalg.norm(x, axis=1) <= radius
    assert np.array_equal(y[inside], x[inside])
    assert np.allclose(np.linalg.norm(y[~inside], axis=1), radius)
    assert np.allclose(np.cross(x, y), 0, atol=1e-6 * max(1.0, np.abs(x).max()) * radius)


def test_projection_is_that_of_the_layers() -> None:
    """One map, in NumPy here and in torch there."""
    x = np.random.default_rng(0).standard_normal((50, 4)) * np.linspace(0.1, 3, 50)[:, None]
    assert np.allclose(project_rows(x, 1.0), contractive.project_rows(torch.from_numpy(x)).numpy(), rtol=1e-15)


def test_unit_length_is_not_lipschitz_and_keeps_zero_rows() -> None:
    x = np.array([[1e-9, 0.0], [-1e-9, 0.0], [0.0, 0.0], [3.0, 4.0]])
    y = unit_length(x)
    assert np.allclose(y, [[1, 0], [-1, 0], [0, 0], [0.6, 0.8]])
    assert np.linalg.norm(y[0] - y[1]) > 1e8 * np.linalg.norm(x[0] - x[1]), "so a projection must not be replaced by it"
    assert np.array_equal(unit_length(x, np.array([2.0, 1.0, 0.0, 5.0])), x / np.array([[2.0], [1.0], [1e-300], [5.0]]))


@given(arrays(np.float64, (4, 3), elements=st.floats(-1e100, 1e100)))
@example(np.array([[1e-200, 0.0, 0.0], [5e-324, 5e-324, 0.0], [1e-155, 0.0, 0.0], [1e-149, 0.0, 0.0]]))
def test_no_row_of_unit_length_is_longer_however_short_it_was(x: np.ndarray) -> None:
    """The squares of a row below 1e-154 are 0: divided by that, it would be as long as one likes."""
    assert (row_norms(unit_length(x)) <= 1 + 1e-12).all()
    assert (row_norms(unit_root_rows(x)) <= 1 + 1e-12).all()
    assert (row_norms(unit_root_rows(sp.csr_array(x))) <= 1 + 1e-12).all()


def test_norms_of_sparse_and_dense_rows() -> None:
    x = np.random.default_rng(0).standard_normal((20, 30)) * (np.random.default_rng(1).random((20, 30)) < 0.2)
    expected = np.linalg.norm(x, axis=1)
    assert np.allclose(row_norms(x), expected)
    assert np.allclose(row_norms(sp.csr_array(x)), expected)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("shifted", "scaled", "extra"),
    [(False, False, False), (True, True, False), (True, True, True)],
)
def test_rows_are_the_matrix_written_out(sparse: bool, shifted: bool, scaled: bool, extra: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 4)) * (rng.random((6, 4)) < 0.5)
    shift, scale, further = rng.standard_normal(4), rng.random(6), rng.standard_normal((6, 3))
    explicit = (x - (shift if shifted else 0)) * (scale[:, None] if scaled else 1)
    explicit = np.hstack([explicit, further]) if extra else explicit
    rows = Rows(
        sp.csr_array(x) if sparse else x,
        np.linalg.norm(explicit, axis=1),
        shift if shifted else None,
        scale if scaled else None,
        further if extra else None,
    )
    weights, right = rng.standard_normal((explicit.shape[1], 2)), rng.standard_normal((6, 2))
    assert rows.shape == explicit.shape
    assert np.allclose(rows.times(weights), explicit @ weights)
    assert np.allclose(rows.sum_of_outer(right), explicit.T @ right)
    index = np.array([4, 4, 1])
    taken = rows.take(index)
    assert taken.shape == (3, explicit.shape[1])
    assert np.allclose(taken.times(weights), explicit[index] @ weights)
    assert np.allclose(taken.norms, np.linalg.norm(explicit[index], axis=1))
    assert np.array_equal(np.asarray(sp.csr_array(x).todense()), x), "nothing that was given is changed"


def test_rows_of_features() -> None:
    x = np.array([[3, 4], [0, 0]], dtype=np.float32)
    rows = Rows.of(x)
    assert rows.matrix.dtype == np.float64
    assert rows.norms.tolist() == [5.0, 0.0]
    assert Rows.of(rows) is rows
    assert sp.issparse(Rows.of(sp.csr_array(x)).matrix)
    with pytest.raises(InputError, match=r"x must have shape \[rows, columns\], got \(3,\)"):
        Rows.of(np.ones(3))


def test_a_row_that_overflows_tells_nobody() -> None:
    """A warning would be there exactly if that person is."""
    x = np.array([[1e308, 1e308], [1.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (x, sp.csr_array(x)):
            assert row_norms(rows).tolist() == [np.inf, 1.0]


def test_rows_are_not_shown() -> None:
    assert "0.123" not in repr(Rows.of(np.full((2, 2), 0.123)))
