"""Codes of features: groups are found, sparse and dense rows alike, and a saved model codes others as it coded its own."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from caribou.models.feature_codes import FeatureCodes

RNG = np.random.default_rng(3)
N = 1500
GROUP = RNG.integers(0, 4, N)
DENSE = RNG.standard_normal((N, 80)) + 6 * np.eye(80)[GROUP]
WORDS = sp.csr_array(np.eye(30)[3 * GROUP] + (RNG.random((N, 30)) < 0.02))


@pytest.mark.parametrize("features", [DENSE, DENSE[:, :10], WORDS], ids=["dense", "narrow", "words"])
def test_groups_are_found(features: np.ndarray | sp.csr_array) -> None:
    codes = FeatureCodes.of(features, 4, np.random.default_rng(0))
    code = codes(features)
    table = np.zeros((4, 4))
    np.add.at(table, (code, GROUP), 1)
    assert codes.count == 4
    assert table.max(axis=1).sum() / N > 0.9


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("columns", [20, 80])
def test_a_wide_table_of_equal_rows_has_one_code(columns: int, value: float) -> None:
    """Such a table has no leading direction. Codes are fitted after a ledger was charged, so they must not fail."""
    for rows in (np.full((40, columns), value), sp.csr_array(np.full((40, columns), value))):
        codes = FeatureCodes.of(rows, 8, np.random.default_rng(0))
        assert codes.count == 1
        assert codes(rows).tolist() == [0] * 40


@pytest.mark.parametrize("features", [DENSE, WORDS], ids=["dense", "words"])
def test_arrays_and_back(features: np.ndarray | sp.csr_array) -> None:
    codes = FeatureCodes.of(features, 5, np.random.default_rng(1))
    back = FeatureCodes.from_arrays(codes.to_arrays())
    assert np.array_equal(back(features), codes(features))
    assert np.array_equal(FeatureCodes.of(features, 5, np.random.default_rng(1)).centres, codes.centres)
