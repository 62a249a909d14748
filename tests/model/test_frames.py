"""Tables of predictions: titles of their columns, and classes as the user wrote them."""

from __future__ import annotations

import numpy as np
import pytest

from caribou.model.frames import class_array, predictions_tables


@pytest.mark.parametrize(
    ("title", "expected"), [("person", "person"), (None, "node"), ("class", "node"), ("p_yes", "node")]
)
def test_a_title_that_another_column_has_is_not_used_for_the_ids(title: str | None, expected: str) -> None:
    (table,) = predictions_tables(np.array([[0.25, 0.75]]), ("no", "yes"), ("ann",), title, None)
    assert list(table.columns) == [expected, "class", "probability", "p_no", "p_yes"]


def test_classes_are_numbers_only_where_all_of_them_are() -> None:
    assert class_array(["3", "-1"]).tolist() == [3, -1]
    assert class_array(["3", "03"]).tolist() == ["3", "03"]
