"""Inspection of tables: every planted problem is found at once, each with the flag that mends it, and nothing else is."""

from __future__ import annotations

from collections import Counter

import pytest

from caribou.errors import DataError
from caribou.graph import Graph
from caribou.graph.column_rules import ColumnRules
from caribou.graph.frames import FrameTable, Reading, Titles, read_frames
from caribou.graph.inspection import Finding, Findings, Problem, inspection_of
from caribou.privacy.budget import PrivacyUnit
from table_support import RULES, bank, dirty


def read(tables: tuple, rules: ColumnRules | None = None, unit: PrivacyUnit | None = None, classes=None) -> Reading:
    edges, nodes = (FrameTable(name, frame) for name, frame in zip(("edges", "nodes"), tables, strict=True))
    return read_frames(edges, nodes, Titles(), "bank", classes, rules, unit)


def test_every_planted_problem_is_found_with_its_flag() -> None:
    found = read(dirty()).inspection
    problems = {(problem.kind, problem.column): problem for problem in found.problems}
    expected = {
        (Finding.UNKNOWN_IDS, "sender"): "--drop-unknown-ids",
        (Finding.UNKNOWN_IDS, "receiver"): "--drop-unknown-ids",
        (Finding.EMPTY_CELLS, "income"): "--fill income=indicator",
        (Finding.TEXT, "segment"): "--category segment",
        (Finding.TEXT, "city"): "--ignore city",
        (Finding.DATES, "opened"): "--ignore opened",
        (Finding.WORDS, "balance"): "--unknown NA",
        (Finding.NOT_FINITE, "ratio"): "--range ratio=LOW:HIGH",
        (Finding.SPLIT_WORDS, "split"): "--ignore split",
    }
    labels = [problem for problem in found.problems if problem.kind is Finding.NO_LABEL_WORDS]
    assert {problem.flags[0] for problem in labels} == {"--unknown unknown", "--unknown '?'", "--unknown N/A"}
    assert {
        key: problem.flags[0] for key, problem in problems.items() if key[0] is not Finding.NO_LABEL_WORDS
    } == expected
    counts = {key: problem.count for key, problem in problems.items()}
    assert counts[Finding.EMPTY_CELLS, "income"] == 6
    assert counts[Finding.WORDS, "balance"] == 5
    assert counts[Finding.SPLIT_WORDS, "split"] == 8
    assert all(len(problem.examples) <= 3 for problem in found.problems)
    assert problems[Finding.TEXT, "city"].examples == ("'town 0'", "'town 1'", "'town 2'")


def test_notes_say_what_is_dropped_unused_or_constant() -> None:
    notes = Counter(note.kind for note in read(dirty()).inspection.notes)
    for kind in (Finding.UNUSED_COLUMNS, Finding.CONSTANT, Finding.DUPLICATES, Finding.SELF_LOOPS, Finding.DIRECTIONS):
        assert notes[kind] == 1, kind
    words = {note.kind: note.words for note in read(dirty()).inspection.notes}
    assert "'amount'" in words[Finding.UNUSED_COLUMNS]
    assert "one edge stands for all rows between two nodes" in words[Finding.UNUSED_COLUMNS]
    assert "'branch' is constant" in words[Finding.CONSTANT]
    assert "'n_transfers' may be computed from edges" in words[Finding.FROM_EDGES]


def test_a_reader_refuses_with_all_problems_in_one_line() -> None:
    with pytest.raises(DataError) as caught:
        read(dirty()).require()
    message = str(caught.value)
    assert message.startswith("tables must be mended in 12 places: (1) ")
    assert "\n" not in message
    for flag in (
        "--drop-unknown-ids",
        "--fill income=indicator",
        "--category segment",
        "--ignore opened",
        "--unknown N/A",
    ):
        assert flag in message


def test_a_clean_table_has_no_problem_and_says_what_it_did() -> None:
    found = read(bank(), RULES)
    assert found.inspection.readable
    assert found.graph is not None
    assert found.inspection.class_counts == {"fraud": 10, "ok": 20}
    assert found.inspection.unlabelled == 10
    kinds = {note.kind for note in found.inspection.notes}
    assert {Finding.DROPPED_EDGES, Finding.FILLED, Finding.UNLABELLED} <= kinds
    assert found.inspection.features == ("age", "income", "income=empty", "segment=business", "segment=private")


def test_node_level_asks_for_declarations_in_the_same_list() -> None:
    rules = ColumnRules(unknown=["unknown"], drop_unknown_ids=True, ignore=["opened"], categories={"segment": None})
    problems = read(bank(), rules, PrivacyUnit.NODE).inspection.problems
    flags = " ".join(flag for problem in problems for flag in problem.flags)
    for flag in ("--fill income=indicator", "--range age=LOW:HIGH", "--category segment=a,b,c", "--classes a,b,c"):
        assert flag in flags
    assert read(bank(), RULES, PrivacyUnit.NODE, ["fraud", "ok"]).inspection.readable
    undeclared = ColumnRules(unknown=["unknown"], drop_unknown_ids=True, ignore=["opened"])
    text = [p for p in read(bank(), undeclared, PrivacyUnit.NODE).inspection.problems if p.kind is Finding.TEXT]
    assert text[0].flags[0] == "--category segment=a,b,c"


def test_values_outside_a_range_and_words_outside_categories_are_noted() -> None:
    rules = ColumnRules(**{**RULES.to_dict(), "ranges": {"age": (30, 40)}, "categories": {"segment": ["private"]}})
    notes = {note.kind: note for note in read(bank(), rules).inspection.notes}
    assert notes[Finding.OUTSIDE].count == 29
    assert notes[Finding.UNSEEN].count == 13


def test_spellings_of_one_label_and_repeated_ids() -> None:
    edges, nodes = bank()
    nodes["label"] = [("0", "0.0", "1")[k % 3] for k in range(len(nodes))]
    found = read((edges, nodes), RULES)
    assert found.graph is not None
    assert found.graph.class_names == ("0", "1")
    assert [note.words for note in found.inspection.notes if note.kind is Finding.SAME_LABEL] == [
        "column 'label': 0 and 0.0 are one class"
    ]
    nodes.loc[1, "id"], nodes.loc[2, "id"] = "a00", None
    kinds = {problem.kind for problem in read((edges, nodes), RULES).inspection.problems}
    assert {Finding.REPEATED_IDS, Finding.EMPTY_IDS} <= kinds


def test_a_summary_of_a_graph_has_the_same_notes() -> None:
    graph = Graph.from_edges(
        [[1.0, 2.0], [1.0, 3.0], [1.0, 5.0], [0.0, 0.0]],
        [[0, 0, 1], [1, 1, 1]],
        labels=[0, 1, -1, -1],
        class_names=["no", "yes"],
        feature_names=["one", "degree"],
    )
    notes = graph.summary()["notes"]
    assert notes == [note.words for note in inspection_of(graph).notes]
    for words in (
        "1 rows repeat",
        "1 rows join a node to itself",
        "'one' is constant",
        "2 nodes have no label",
        "'degree'",
    ):
        assert any(words in note for note in notes), words
    assert graph.summary()["unlabelled"] == 2
    assert graph.class_counts == {"no": 1, "yes": 1}


def test_without_a_list_the_first_problem_is_the_error() -> None:
    problem = Problem(Finding.TEXT, "nodes.csv", "column 'a' must hold numbers, got 'x'")
    with pytest.raises(DataError, match=r"nodes.csv: column 'a' must hold numbers"):
        Findings(collect=False).add(problem)
