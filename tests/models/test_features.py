"""Rows for private training: the same sparse and dense, of norm one, and each by itself."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from caribou.errors import InputError
from caribou.mechanisms.bounded_rows import row_norms
from caribou.models.features import centred_unit_rows, unit_root_rows, with_random_features
from descent_support import C


def test_centred_rows_are_the_same_sparse_and_dense_and_have_unit_norm() -> None:
    rng = np.random.default_rng(0)
    x = np.abs(rng.standard_normal((50, 40))) * (rng.random((50, 40)) < 0.1)
    x[:, 0] += 0.1
    x[3] = 0
    unit = unit_root_rows(sp.csr_array(x))
    assert sp.issparse(unit)
    assert np.allclose(unit.todense(), unit_root_rows(x)), "how rows are stored follows the input, not its content"
    norms = row_norms(unit)
    assert norms[3] == 0
    assert np.allclose(np.delete(norms, 3), 1)
    assert np.allclose(unit.todense()[0] ** 2 * np.abs(x[0]).sum(), x[0])
    mean = 0.05 * rng.standard_normal(40)
    mean += 0.97 * (
        np.asarray(unit.todense())[5] - mean
    )  # so that row 5 is closer to the mean than the shortest residual
    sparse, dense = centred_unit_rows(unit, mean), centred_unit_rows(np.asarray(unit.todense()), mean)
    weights, right = rng.standard_normal((40, C)), rng.standard_normal((50, C))
    assert np.allclose(sparse.times(weights), dense.times(weights))
    assert np.allclose(sparse.sum_of_outer(right), dense.sum_of_outer(right))
    assert np.allclose(row_norms(sparse.times(np.eye(40))), sparse.norms)
    assert np.allclose(row_norms(dense.matrix), dense.norms)
    assert dense.norms[5] < 1
    assert np.allclose(np.delete(dense.norms, 5), 1)
    assert not np.shares_memory(unit.data, x)


@pytest.mark.parametrize("sparse", [False, True])
def test_random_features_are_columns_of_rows_of_norm_one(sparse: bool) -> None:
    rng = np.random.default_rng(0)
    x = np.abs(rng.standard_normal((50, 40))) * (rng.random((50, 40)) < 0.1)
    unit = unit_root_rows(sp.csr_array(x))
    z = centred_unit_rows(unit if sparse else np.asarray(unit.todense()), 0.01 * rng.random(40))
    joined = with_random_features(z, np.random.default_rng(3).standard_normal((40, 30)), share=0.2)
    assert joined.shape == (50, 70)
    assert sp.issparse(joined.matrix) == sparse
    explicit = joined.times(np.eye(70))
    hidden = np.maximum(z.times(np.eye(40)) @ np.random.default_rng(3).standard_normal((40, 30)) - 0.5, 0)
    hidden /= np.maximum(row_norms(hidden), 1e-300)[:, None]
    assert np.allclose(explicit, np.hstack([0.8**0.5 * z.times(np.eye(40)), 0.2**0.5 * hidden]))
    assert np.allclose(row_norms(explicit), joined.norms)
    assert joined.norms.max() <= 1 + 1e-12
    right, weights = rng.standard_normal((50, C)), rng.standard_normal((70, C))
    assert np.allclose(joined.sum_of_outer(right), explicit.T @ right)
    taken = joined.take(np.array([4, 2]))
    assert np.allclose(taken.times(weights), (explicit @ weights)[[4, 2]])
    with pytest.raises(InputError, match="must not have further columns"):
        with_random_features(joined, np.ones((70, 2)), share=0.2)


@pytest.mark.parametrize("sparse", [False, True])
def test_every_row_is_mapped_by_itself(sparse: bool) -> None:
    """What one node's features are leaves the rows of all others as they are, bit by bit: also how rows are stored."""
    rng = np.random.default_rng(0)
    x = np.abs(rng.standard_normal((30, 12))) * (rng.random((30, 12)) < 0.2)
    y = x.copy()
    y[7] = 1e6 * rng.random(12)
    directions, weights = rng.standard_normal((12, 6)), rng.standard_normal((18, 2))
    others = np.delete(np.arange(30), 7)
    outs = []
    for features in (x, y):
        unit = unit_root_rows(sp.csr_array(features) if sparse else features)
        assert sp.issparse(unit) == sparse
        rows = with_random_features(centred_unit_rows(unit, np.full(12, 0.05)), directions, share=0.1)
        outs.append(np.column_stack([rows.take(others).times(weights), rows.norms[others]]))
    assert np.array_equal(outs[0], outs[1])
