"""Columns of a node table: what a cell means, and the message for one that means nothing."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caribou.errors import DataError
from caribou.tables import cells as columns


def place(k):
    return f"nodes.csv: row {k + 1}"


def cells(*values):
    return np.array(values, dtype=object)


@given(st.lists(st.integers(-(10**17), 10**17), min_size=1, max_size=5))
def test_a_number_is_the_same_id_however_it_is_stored(numbers):
    as_text = columns.texts(pd.Series([f" {n} " for n in numbers]), "id", place)
    assert as_text.tolist() == [str(n) for n in numbers]
    assert columns.texts(pd.Series(numbers), "id", place).tolist() == as_text.tolist()
    exact = [n for n in numbers if abs(n) < 2**53]
    assert columns.texts(pd.Series(exact, dtype=float), "id", place).tolist() == [str(n) for n in exact]


def test_texts_lose_blanks_and_nothing_else():
    found = columns.texts(pd.Series([" 01 ", "", None, "a b", True, 2.0]), "id", place)
    assert found.tolist() == ["01", None, None, "a b", "True", "2"]
    for bad in (1.5, np.inf, [1], b"x"):
        with pytest.raises(DataError, match=r"nodes.csv: row 2: column 'id' must hold text or whole numbers, got"):
            columns.texts(pd.Series(["a", bad], dtype=object), "id", place)


@given(st.lists(st.sampled_from(["b", "a", "10", "9", None]), min_size=1, max_size=8))
def test_classes_are_numbered_in_their_order(found):
    labels, names = columns.classes(cells(*found), "label", place)
    assert [None if k < 0 else names[k] for k in labels] == found
    numeric = set(found) <= {"10", "9", None}
    assert list(names) == sorted({c for c in found if c}, key=float if numeric else str)


def test_splits_are_words():
    split = columns.parts(cells("TRAIN", "validation", None, "test", "valid"), "split", place)
    assert [part.tolist() for part in (split.train, split.val, split.test)] == [[0], [1, 4], [3]]
    with pytest.raises(DataError, match="row 1: column 'split' must be train, val or test, got 'dev'"):
        columns.parts(cells("dev"), "split", place)


def test_a_row_of_empty_cells_has_no_features():
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": ["7", None], "c": [True, None]})
    assert columns.features(frame, ["a", "b", "c"], place).values.tolist() == [[1, 7, 1], [0, 0, 0]]
