"""A public sample: principal components, every file format, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from caribou.errors import DataError
from caribou.mechanisms.bounded_rows import row_norms
from caribou.models.features import centred_unit_rows, unit_root_rows
from caribou.models.public_features import public_basis, read_public_features


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
    refused("outside.npz", r"must have sparse indices in \[0, 3\), got 0 to 1000000")
    refused("missing.npy", "must be an existing file")
    refused("table.txt", "must end in .npy")
