"""Inspection of tables: every planted problem is found at once, each with the flag that mends it, and nothing else is."""

from __future__ import annotations

from collections import Counter

import pytest

from caribou.errors import DataError
from caribou.graph import Graph
from caribou.privacy.budget import PrivacyUnit
from caribou.tables.inspect import Finding, inspection_of
from caribou.tables.nodes import read_tables
from caribou.tables.read import Reading, Titles
from caribou.tables.rules import ColumnRules
from caribou.tables.sources import FrameTable
from table_support import RULES, bank, dirty


def read(tables: tuple, rules: ColumnRules | None = None, unit: PrivacyUnit | None = None, classes=None) -> Reading:
    edges, nodes = (FrameTable(name, frame) for name, frame in zip(("edges", "nodes"), tables, strict=True))
    return read_tables(edges, nodes, Titles(), "bank", classes, rules, unit)


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
    assert [problem.flags[0] for problem in labels] == ["--unknown unknown --unknown '?' --unknown N/A"], "all at once"
    assert labels[0].count == 12
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


def test_the_flags_of_node_level_do_not_contradict_each_other() -> None:
    """What is to be ignored, or is a category, gets no range: the line can be given as it is, placeholders filled in."""
    found = read(bank(), ColumnRules(), PrivacyUnit.NODE).inspection
    flags = " ".join(found.flags).split(" --")
    titles = [flag.split()[1].partition("=")[0] for flag in flags if flag.split()[0] in ("ignore", "category", "range")]
    assert sorted(titles) == ["age", "income", "opened", "segment"], "each column has one meaning"
    rules = ColumnRules(
        unknown=["unknown"],
        drop_unknown_ids=True,
        ignore=["opened"],
        categories={"segment": ["a", "b", "c"]},
        fills={"income": "indicator"},
        ranges={"age": (0, 1), "income": (0, 1)},
    )
    assert {f"--{flag.removeprefix('--')}" for flag in flags} == {
        *("--unknown unknown", "--drop-unknown-ids", "--ignore opened", "--category segment=a,b,c"),
        *("--fill income=indicator", "--range age=LOW:HIGH", "--range income=LOW:HIGH", "--classes a,b,c"),
    }
    assert read(bank(), rules, PrivacyUnit.NODE, ["fraud", "ok"]).inspection.readable


def test_edges_of_other_ids_are_the_first_problem() -> None:
    for written in [lambda k: f"a{k:02d}".upper(), lambda k: f"{k}", lambda k: "zoe"]:
        edges, nodes = bank()
        edges["sender"] = [written(k) for k in range(len(edges))]
        for rules in (ColumnRules(), RULES):
            found = read((edges, nodes), rules).inspection
            assert not found.readable, "dropping all edges is no way to read a graph"
            first = found.problems[0]
            assert first.kind is Finding.NO_MATCH
            assert "column 'sender' holds" in first.rule
            assert not any(flag.startswith(("--drop-unknown-ids", "--column")) for flag in found.flags)


def test_one_class_in_two_spellings_is_a_problem_until_it_is_declared() -> None:
    edges, nodes = bank()
    nodes.loc[1, "label"], nodes.loc[5, "label"] = "FRAUD", " Fraud "
    found = read((edges, nodes), RULES).inspection
    (problem,) = found.problems
    assert problem.kind is Finding.SPELLINGS
    assert problem.count == 2
    assert problem.flags == (
        "--alias FRAUD=fraud --alias Fraud=fraud",
        "--classes FRAUD,Fraud,fraud,ok if they are different classes",
    )
    rules = ColumnRules(**{**RULES.to_dict(), "aliases": {"FRAUD": "fraud", "Fraud": "fraud"}})
    assert read((edges, nodes), rules).inspection.class_counts == {"fraud": 10, "ok": 20}
    apart = read((edges, nodes), RULES, classes=["FRAUD", "Fraud", "fraud", "ok"]).inspection
    assert apart.class_counts == {"FRAUD": 1, "Fraud": 1, "fraud": 8, "ok": 20}
    others = read((edges, nodes), RULES, classes=["fraud", "good"]).inspection
    assert [note.count for note in others.notes if note.kind is Finding.OTHER_LABELS] == [22]
    at_edges = read((edges, nodes), RULES, classes=["fraud", "good"], unit=PrivacyUnit.EDGE).inspection
    (problem,) = at_edges.problems
    assert (problem.kind, problem.count) == (Finding.OTHER_LABELS, 22)
    assert problem.flags == ("--classes a,b,c", "--alias ok=CLASS", "--unknown ok if it is no label")
    rules = ColumnRules(**{**RULES.to_dict(), "unknown": [*RULES.unknown, "ok", "FRAUD", "Fraud"]})
    left = read((edges, nodes), rules, classes=["fraud", "good"], unit=PrivacyUnit.EDGE).inspection
    assert left.class_counts == {"fraud": 8, "good": 0}


def test_a_rule_names_a_column_of_features_that_is_there() -> None:
    for change, message in (
        ({"ignore": ["opend"]}, r"got 'opend' \(--ignore\), found .*"),
        ({"ignore": ["opened", "colour"]}, r"got 'colour' \(--ignore\), found"),
        ({"percent": ["Age"]}, r"got 'Age' \(--percent\), found .*"),
        (
            {"fills": {"label": 0}},
            r"rules must name columns of features, got the label column 'label' \(--fill\); give --column",
        ),
        ({"ranges": {"id": (0, 1)}}, r"rules must name columns of features, got the id column 'id' \(--range\)"),
    ):
        with pytest.raises(DataError, match=message):
            read(bank(), ColumnRules(**{**RULES.to_dict(), **change})).require()
    graph = read(bank(), RULES).require()
    edges, nodes = bank()
    later = read((edges, nodes.drop(columns="opened")), graph.column_rules).inspection
    assert later.readable, "a column that was ignored before may be gone from the next table"
    assert [note.column for note in later.notes if note.kind is Finding.UNKNOWN_RULES] == ["opened"]
