"""A public unlabelled sample of feature rows, which gives the centre and the directions of the model at no cost.

The sample must not contain rows of the private graph, nor be chosen by looking at it. Then everything that is computed from it is
public, and the private rows need neither a noisy mean nor noise in directions that hold no data.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou.errors import DataError
from caribou.graph.checks import check_places
from caribou.mechanisms.bounded_rows import Rows
from caribou.models.features import centred_unit_rows, stretched_rows, unit_root_rows

ENDINGS = (".npy", ".npz", ".csv", ".parquet")


@dataclass(frozen=True, eq=False)
class PublicBasis:
    """What a public sample of feature rows gives.

    Args:
        mean: [d].
        components: [d, k], or None for centring only.
    """

    mean: np.ndarray
    components: np.ndarray | None

    def rows(self, features: Any) -> Rows:
        """Coordinates of every centred row in the components, stretched to length 1 (less only for almost no length).

        Acts on each row alone. [n, d] -> [n, k], or [n, d] without components (sparse rows then stay sparse).
        """
        centred = centred_unit_rows(unit_root_rows(features), self.mean)
        if self.components is None:
            return centred
        return stretched_rows(centred.times(self.components))


def public_basis(sample: Any, count: int) -> PublicBasis:
    """Mean and leading principal directions of a public sample, after the same map as private rows.

    Direction j is divided by the fourth root of its variance (half way to coordinates of equal variance).

    Args:
        sample: [m, d], dense or CSR.
        count: k, how many directions. A sample that does not span so many would cut off more than noise does: then, or for
            k = 0, only the mean is used.

    >>> sample = np.random.default_rng(0).random((20, 6))
    >>> public_basis(sample, 2).components.shape, public_basis(sample, 7).components
    ((6, 2), None)
    """
    unit = unit_root_rows(sample)
    mean = np.asarray(unit.mean(axis=0), dtype=np.float64).ravel()
    if count == 0:
        return PublicBasis(mean, None)
    rows = centred_unit_rows(unit, mean)
    z = rows.times(np.eye(rows.shape[1]))
    wide = z.shape[0] < z.shape[1]
    spread, vectors = np.linalg.eigh(z @ z.T if wide else z.T @ z)  # the smaller of the two; ascending
    spread = spread[::-1][:count]
    if len(spread) < count or spread[-1] <= 1e-9 * max(float(spread[0]), 1e-6):
        return PublicBasis(mean, None)
    components = vectors[:, ::-1][:, :count]
    if wide:
        components = z.T @ (components / np.sqrt(spread))
    return PublicBasis(mean, components * (spread[0] / spread) ** 0.25)


def read_public_features(path: str | os.PathLike[str], *, columns: int) -> np.ndarray | sp.csr_array:
    """Numeric rows from a file. -> [m, columns], CSR if the file holds a sparse matrix.

    Args:
        path: .npy, .npz (an array ``features``, or what ``scipy.sparse.save_npz`` writes), .csv (with or without a line of
            titles) or .parquet.
        columns: d, the columns of the graph's features.

    Raises:
        DataError: the file is missing or cannot be read, has another number of columns or no rows, or holds values that are
            not finite numbers.
    """
    file = Path(path)
    if file.suffix.lower() not in ENDINGS:
        raise DataError(f"public_features must end in {', '.join(ENDINGS)}, got {str(path)!r}")
    if not file.is_file():
        raise DataError(f"public_features must be an existing file, got {str(path)!r}")
    try:
        rows = _read(file)
    except (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise DataError(f"{file}: public_features must be readable, got {type(error).__name__}: {error}") from error
    if rows.ndim != 2 or rows.dtype.kind not in "biuf":
        raise DataError(f"{file}: public_features must be a table of numbers, got {rows.dtype} of shape {rows.shape}")
    if rows.shape[1] != columns:
        raise DataError(f"{file}: public_features must have the graph's {columns} columns, got {rows.shape[1]}")
    if rows.shape[0] == 0:
        raise DataError(f"{file}: public_features must have at least one row, got none")
    if not np.isfinite(rows.data if sp.issparse(rows) else rows).all():
        raise DataError(f"{file}: public_features must hold finite numbers, got nan or inf")
    return rows


def _read(file: Path) -> Any:
    ending = file.suffix.lower()
    if ending == ".npy":
        return np.load(file, allow_pickle=False)
    if ending == ".npz":
        with np.load(file, allow_pickle=False) as arrays:
            if "features" in arrays.files:
                return arrays["features"]
            if "format" not in arrays.files:
                raise KeyError("no array 'features', and no sparse matrix")
        matrix = sp.load_npz(file)
        check_places(public_features=matrix)
        return sp.csr_array(matrix)
    import pandas as pd

    if ending == ".parquet":
        return pd.read_parquet(file).to_numpy(dtype=np.float64)
    first = pd.read_csv(file, nrows=1, header=None)
    titled = not all(kind.kind in "biuf" for kind in first.dtypes)
    return pd.read_csv(file, header=0 if titled else None).to_numpy(dtype=np.float64)
