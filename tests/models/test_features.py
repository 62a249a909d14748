"""Rows for private training: the same sparse and dense, of norm one, and each by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from caribou.errors import DataError, InputError
from caribou.mechanisms.bounded_rows import row_norms
from caribou.models.features import (
    centred_unit_rows,
    public_basis,
    read_public_features,
    unit_root_rows,
    with_random_features,
)
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


@pytest.mark.parametrize("rows", [12, 60])
def test_public_basis_is_principal_components(rows: int) -> None:
    rng = np.random.default_rng(0)
    x = np.abs(rng.standard_normal((rows, 20)))
    basis = public_basis(x, 5)
    unit = unit_root_rows(x)
    z = centred_unit_rows(unit, unit.mean(axis=0)).times(np.eye(20))
    _, spread, directions = np.linalg.svd(z)
    expected = np.diag(np.sqrt(spread[0] / spread[:5]))
    assert np.allclose(np.abs(directions[:5] @ basis.components), expected)
    private = basis.rows(np.abs(rng.standard_normal((30, 20))))
    assert private.shape == (30, 5)
    assert np.allclose(row_norms(private.matrix), private.norms)
    assert private.norms.max() <= 1 + 1e-12
    for small, count in ((x, 21), (np.ones((3, 4)), 2), (x, 0)):  # too few directions: centring only
        centred = public_basis(small, count)
        assert centred.components is None
        assert centred.rows(small).shape == small.shape


def test_public_features_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    def refused(name: str, match: str) -> None:
        with pytest.raises(DataError, match=match):
            read_public_features(tmp_path / name, columns=3)

    np.save(tmp_path / "columns.npy", np.ones((2, 4)))
    np.save(tmp_path / "nan.npy", np.array([[1.0, np.nan, 0.0]]))
    np.save(tmp_path / "empty.npy", np.ones((0, 3)))
    np.save(tmp_path / "flat.npy", np.ones(3))
    np.save(tmp_path / "words.npy", np.array([["a", "b", "c"]]))
    np.save(tmp_path / "objects.npy", np.array([[{}, 1, 2]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "other.npz", x=np.ones((2, 3)))
    (tmp_path / "broken.npz").write_bytes(b"PK not a zip")
    (tmp_path / "words.csv").write_text("a,b,c\n1,x,2\n")
    (tmp_path / "hole.csv").write_text("a,b,c\n1,,2\n")
    refused("columns.npy", "must have the graph's 3 columns, got 4")
    for name in ("nan.npy", "hole.csv"):
        refused(name, "must hold finite numbers, got nan or inf")
    refused("empty.npy", "must have at least one row")
    for name in ("flat.npy", "words.npy"):
        refused(name, "must be a table of numbers")
    for name in ("objects.npy", "other.npz", "broken.npz", "words.csv"):
        refused(name, "must be readable")
    outside = sp.csr_array(np.eye(3))
    outside.indices[2] = 10**6  # SciPy would multiply with whatever lies there
    sp.save_npz(tmp_path / "outside.npz", outside)
    refused("outside.npz", "must have sparse indices inside of its shape")
    refused("missing.npy", "must be an existing file")
    refused("table.txt", "must end in .npy")
