"""Declared classes: what a declaration may be, and that every label is looked up by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.classes import declared_names, places_of_names, places_of_numbers
from caribou.privacy.budget import PrivacyUnit

NOTHING = np.empty((2, 0), int)


def test_a_declaration_is_a_number_or_a_list() -> None:
    assert declared_names(2) == declared_names(np.int64(2)) == ("0", "1")
    assert declared_names([" a", "b"]) == ("a", "b")
    assert declared_names(np.array([3, 5])) == ("3", "5")
    for bad, message in (
        (True, "classes must be a list of classes, or their number, got True"),
        (10**9, "classes must be at most 1000000"),
        (["a"], "classes must be at least 2, got 1"),
        ("ab", "classes must be a list of classes, or their number, got 'ab'"),
        (["a", " "], "classes must have a name each"),
        ([1, "1"], "classes must differ, got '1' more than once"),
        ([0.5, 1.5], "classes must be text or whole numbers"),
    ):
        with pytest.raises(InputError, match=message):
            declared_names(bad)


@given(st.lists(st.integers(-3, 12), min_size=1, max_size=8), st.integers(0, 7), st.integers(-3, 99))
def test_a_label_decides_about_its_own_node_alone(labels: list[int], at: int, other: int) -> None:
    """Numbers and words, by value and by place: changing one label changes one entry."""
    at %= len(labels)
    changed = [other if k == at else label for k, label in enumerate(labels)]
    for names in (["1", "5", "10"], ["red", "blue"], declared_names(4)):
        found = [places_of_numbers(np.array(values), names) for values in (labels, changed)]
        words = [places_of_names([str(value) for value in values], names) for values in (labels, changed)]
        for before, after in (found, words):
            assert np.array_equal(np.delete(before, at), np.delete(after, at))
            assert set(before) <= set(range(-1, len(names)))


def test_a_graph_keeps_what_was_declared_and_says_what_was_measured() -> None:
    x = np.eye(4)
    measured = Graph.from_edges(x, NOTHING, labels=[0, 1, 2, -1])
    assert (measured.num_classes, measured.classes_declared) == (3, False)
    assert measured.sizes(PrivacyUnit.EDGE).classes == 3
    for declared in (
        Graph.from_edges(x, NOTHING, labels=[0, 1, 7, -5], classes=2),
        Graph.from_edges(x, NOTHING, labels=[0, 1, 2**40, -1], classes=["no", "yes"]),
        Graph.from_edges(x, NOTHING, labels=[4, 9, 0, -1], classes=[4, 9]),
        Graph.from_edges(x, NOTHING, labels=[0, 1, 5, 5], num_classes=2),
        measured.with_classes(2),
    ):
        assert declared.labels.tolist() == [0, 1, -1, -1]
        assert declared.classes_declared
        assert declared.sizes(PrivacyUnit.NODE).classes == 2
        assert declared.without_node(1).sizes(PrivacyUnit.NODE).classes == 2
    with pytest.raises(InputError) as caught:
        measured.sizes(PrivacyUnit.NODE)
    assert str(caught.value) == (
        "classes must be declared at node level, because one person's label must not decide about a class, got classes that "
        "were read from the labels: give classes=[...] where the graph is read or built (--classes a,b,c)"
    )
    assert Graph.from_edges(x, NOTHING).sizes(PrivacyUnit.NODE).classes == 0, "without labels nothing is measured"
