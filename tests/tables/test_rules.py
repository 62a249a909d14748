"""Rules of columns: what they say, what they refuse, and that a run reads the next table as the first one."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from caribou.cli.options import TableOptions
from caribou.errors import InputError
from caribou.tables.rules import ColumnRules, computed_from_edges, looks_like_no_value
from table_support import RULE_FLAGS, RULES


def test_a_range_clips_and_scales_and_a_log_range_keeps_small_amounts_apart() -> None:
    rules = ColumnRules(ranges={"a": (10, 20)}, logs={"b": (-1, 999)})
    assert rules.scaled("a", np.array([5.0, 10.0, 15.0, 99.0, np.inf])).tolist() == [0, 0, 0.5, 1, 1]
    assert rules.scaled("b", np.array([-1.0, 999.0])).tolist() == [0, 1]
    assert rules.scaled("b", np.array([9.0]))[0] == pytest.approx(math.log(11) / math.log(1001))
    assert rules.scaled("c", np.array([7.0])).tolist() == [7]


def test_a_star_is_every_column_without_a_rule_of_its_own() -> None:
    rules = ColumnRules(ranges={"*": (0, 2), "a": (0, 4)}, fills={"*": 1}, categories={"kind": None})
    assert (rules.range_of("a"), rules.range_of("b")) == (((0, 4), False), ((0, 2), False))
    assert (rules.fill_of("b"), rules.fill_of("kind")) == (1, None)
    assert rules.titles == ("kind", "a")


def test_rules_are_json_and_flags_and_come_back() -> None:
    read = ColumnRules(
        **{
            **RULES.to_dict(),
            "learned_fills": {"age": 3.5},
            "learned_categories": {"segment": ["b"]},
            "unscaled": ["age2"],
        }
    )
    assert ColumnRules.from_dict(json.loads(json.dumps(read.to_dict()))) == read
    assert ColumnRules() == ColumnRules.from_dict({})
    words = iter(RULE_FLAGS)
    given: dict[str, list[str]] = {}
    for word in words:
        given.setdefault(word, []).append("" if word == "--drop-unknown-ids" else next(words))
    options = TableOptions(
        unknown=given["--unknown"],
        drop_unknown_ids=True,
        ignore=given["--ignore"],
        category=given["--category"],
        fill=given["--fill"],
        value_range=given["--range"],
        log_range=given["--log"],
    )
    assert options.rules() == RULES


def test_rules_of_a_run_can_be_added_to_and_not_contradicted() -> None:
    joined = RULES.joined(ColumnRules(unknown=["?"], ignore=["note"]))
    assert joined.unknown == ("unknown", "NA", "?")
    assert joined.ignore == ("opened", "note")
    with pytest.raises(
        InputError, match=r"rules of column 'age' must be those of the run, \(18.0, 95.0\), got \(0.0, 1.0\)"
    ):
        RULES.joined(ColumnRules(ranges={"age": (0, 1)}))
    assert RULES.same_features(joined)
    assert not RULES.same_features(ColumnRules())


def test_node_level_refuses_what_was_learned_or_left_as_it_is() -> None:
    RULES.require_declared()
    for changes, message in (
        (
            {"unscaled": ["age"]},
            r"declared range .* got 'age' without: give --range age=LOW:HIGH",
        ),
        ({"categories": {"city": None}}, r"categories must be declared .* got 'city' .* --category city=a,b,c"),
        ({"learned_fills": {"age": 1.0}}, r"fills must be declared .* got 'age' .* --fill age=0"),
    ):
        with pytest.raises(InputError, match=message):
            ColumnRules(**changes).require_declared()


REFUSED: list[tuple[dict, str]] = [
    ({"ranges": {"a": (1, 1)}}, r"range of 'a' must have LOW < HIGH, got 1:1 \(--range a=0:10000\)"),
    ({"ranges": {"a": (0, math.inf)}}, r"range of 'a' must be a finite number, got inf"),
    ({"ranges": {"a": (-1e308, 1e308)}}, r"range of 'a' must have a finite width"),
    ({"ranges": {"a": 3}}, r"range of 'a' must be LOW and HIGH, got 3"),
    ({"ranges": {"a": (True, 2)}}, r"range of 'a' must be a number, got True"),
    ({"ranges": {"a": (0, 1)}, "logs": {"a": (0, 1)}}, r"got 'a' in --range and --log"),
    ({"categories": {"a": None}, "logs": {"a": (0, 1)}}, r"got 'a' in --category and --log"),
    ({"categories": {"a": []}}, r"category 'a' must have values, got none \(--category a=a,b,c\)"),
    ({"categories": {"*": None}}, r"category must name one column, got '\*'"),
    ({"categories": {"a": ["x"]}, "fills": {"a": "y"}}, r"fill of 'a' must be one of its categories, got 'y'"),
    ({"fills": {"a": "mean"}}, r"fill of a numeric column must be a number or indicator, got 'mean' for 'a' \(--fill a=0"),
    ({"fills": {"a": math.nan}}, r"fill of 'a' must be a finite number, got nan"),
    ({"ignore": ["a"], "ranges": {"a": (0, 1)}}, r"an ignored column must have no other rule, got 'a' in --ignore"),
    ({"unknown": [""]}, r"unknown must be words that are not empty, got ''"),
    ({"unknown": "NA"}, r"unknown must be a list of words, got 'NA'"),
    ({"fills": ["a"]}, r"fills must have a value for each column, got \['a'\]"),
    ({"drop_unknown_ids": 1}, r"drop_unknown_ids must be true or false, got 1"),
]  # fmt: skip


def test_rules_that_mean_nothing_are_refused() -> None:
    for rules, message in REFUSED:
        with pytest.raises(InputError, match=message):
            ColumnRules(**rules)
    with pytest.raises(InputError, match="column rules must have names of"):
        ColumnRules.from_dict({"colour": 1})


def test_words_and_names_that_mean_something_else() -> None:
    assert [
        w for w in ("", "Unknown", "NA", "n/a", "?", "None", "NULL", "-1", "ok", "1") if looks_like_no_value(w)
    ] == [
        *("", "Unknown", "NA", "n/a", "?", "None", "NULL", "-1"),
    ]
    edge_names = [
        "degree",
        "in-degree",
        "n_transfers",
        "tx_count",
        "partners",
        "avg_amount",
        "PageRank",
        "n neighbours",
    ]
    assert computed_from_edges(edge_names) == edge_names
    assert computed_from_edges(["age", "income", "discount", "country", "account", "night_share", "average"]) == []
