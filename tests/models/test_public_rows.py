"""Rows of public features: words by how rare they are, numbers by rank or by mean and deviation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

from caribou.models import public_rows as module
from caribou.models.public_rows import NARROW, PublicRows, column_moments

RNG = np.random.default_rng(0)
WORDS = sp.csr_array((RNG.random((50, 40)) < 0.05) * RNG.integers(1, 5, (50, 40)), dtype=np.float64)
NARROW_TABLE = np.exp(3 * RNG.standard_normal((200, 5)))
WIDE_TABLE = RNG.standard_normal((60, NARROW + 1)) * 7 + 3


def test_words_are_rooted_weighted_and_of_length_one() -> None:
    rows = PublicRows.of(WORDS)(WORDS).todense()
    dense = WORDS.todense()
    expected = np.sqrt(dense) * (1 + np.log(51 / (1 + (dense > 0).sum(axis=0))))
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(rows, expected / np.maximum(lengths, 1e-12), atol=1e-6)
    assert sp.issparse(PublicRows.of(WORDS)(WORDS))


def test_a_narrow_table_is_read_by_rank() -> None:
    """So a monotone change of a column changes nothing, and one account with a billion moves nobody."""
    rows = PublicRows.of(NARROW_TABLE)(NARROW_TABLE)
    logs = np.log(NARROW_TABLE)
    assert np.corrcoef(rows.ravel(), PublicRows.of(logs)(logs).ravel())[0, 1] > 0.999
    assert abs(rows).max() <= norm.ppf(0.995) / np.sqrt(5) + 1e-6
    assert np.abs(rows.mean(axis=0)).max() < 0.02


def test_a_wide_table_is_standardised() -> None:
    rows = PublicRows.of(WIDE_TABLE)(WIDE_TABLE) * np.sqrt(NARROW + 1)
    assert np.allclose(rows.mean(axis=0), 0, atol=1e-5)
    assert np.allclose(rows.std(axis=0), 1, atol=1e-5)


@pytest.mark.parametrize("table", [WORDS, NARROW_TABLE, WIDE_TABLE])
def test_arrays_bring_it_back(table: np.ndarray | sp.csr_array) -> None:
    rows = PublicRows.of(table)
    again = PublicRows.from_arrays({**rows.to_arrays(), "prior.linear": np.zeros(1)})
    same, other = rows(table[:3]), again(table[:3])
    assert np.array_equal(
        same.todense() if sp.issparse(same) else same, other.todense() if sp.issparse(other) else other
    )


@pytest.mark.parametrize("part", [1, 17, 60])
def test_moments_have_the_bits_of_numpy_whatever_the_parts(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART", part)
    table = WIDE_TABLE.astype(np.float32)
    for rows in (table, sp.csr_array(table)):
        mean, std = column_moments(rows)
        assert mean.tobytes() == table.mean(axis=0).tobytes()
        assert std.tobytes() == table.std(axis=0).tobytes()
