"""Columns of a node table: what a cell means, and the message for one that means nothing."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caribou.errors import DataError
from caribou.tables import cells as columns


def place(k):
    return f"nodes.csv: row {k + 1}"


def cells(*values):
    return np.array(values, dtype=object)


def texts(*values, kind=None):
    return columns.texts(pa.array(values, kind), "id", place).to_pylist()


@given(st.lists(st.integers(-(10**17), 10**17), min_size=1, max_size=5))
def test_a_number_is_the_same_id_however_it_is_stored(numbers):
    as_text = texts(*(f" {n} " for n in numbers))
    assert as_text == [str(n) for n in numbers]
    assert texts(*numbers) == as_text
    exact = [n for n in numbers if abs(n) < 2**53]
    assert texts(*exact, kind=pa.float64()) == [str(n) for n in exact]


def test_texts_lose_blanks_and_nothing_else():
    assert texts(" 01 ", "", None, "a b", "2.0") == ["01", None, None, "a b", "2"]
    assert texts(True, None) == ["True", None]
    for good, bad in ((1.0, 1.5), (1.0, np.inf), (None, [1]), (None, b"x")):
        with pytest.raises(DataError, match=r"nodes.csv: row 2: column 'id' must hold text or whole numbers, got"):
            texts(good, bad)


def test_parts_of_different_types_become_text_each_by_itself():
    parts = pa.array([1, 2]), pa.nulls(1), pa.array([0.5, np.nan]), pa.array(["007"])
    assert columns.joined(parts).to_pylist() == ["1", "2", None, "0.5", None, "007"]
    assert columns.joined(parts[:2]).to_pylist() == [1, 2, None]


@given(st.lists(st.sampled_from(["b", "a", "10", "9", None]), min_size=1, max_size=8))
def test_classes_are_numbered_in_their_order(found):
    labels, names = columns.classes(cells(*found), "label", place)
    assert [None if k < 0 else names[k] for k in labels] == found
    numeric = set(found) <= {"10", "9", None}
    assert list(names) == sorted({c for c in found if c}, key=float if numeric else str)


def test_labels_that_no_column_of_numbers_holds_are_words():
    assert columns.classes(cells("1_0", "9", "10"), "label", place)[1] == ("10", "1_0", "9")


def test_splits_are_words():
    split = columns.parts(cells("TRAIN", "validation", None, "test", "valid"), "split", place)
    assert [part.tolist() for part in (split.train, split.val, split.test)] == [[0], [1, 4], [3]]
    with pytest.raises(DataError, match="row 1: column 'split' must be train, val or test, got 'dev'"):
        columns.parts(cells("dev"), "split", place)


def test_a_row_of_empty_cells_has_no_features():
    table = pa.record_batch({"a": [1.0, np.nan], "b": ["7", None], "c": [True, None]})
    assert columns.features(table, ["a", "b", "c"], place).values.tolist() == [[1, 7, 1], [0, 0, 0]]
