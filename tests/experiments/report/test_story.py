"""The story of a report: a panel per data set, lines as the records say, and sentences that are counted."""

from __future__ import annotations

import csv
import math

from caribou.experiments.records import OK, Record
from caribou.experiments.report.scores import metric_score
from caribou.experiments.report.story import MOST_LINES, Panel, Story, general_story, lines_of
from caribou.experiments.report.summary import Mean


def record(method: str, dataset: str, epsilon: float | str, seed: int, value: float) -> Record:
    cell = {"kind": "train", "method": method, "dataset": dataset, "epsilon": epsilon, "seed": seed}
    return Record("mine", cell, OK, {"test_accuracy": value, "test_metrics": {"macro_f1": value / 2}})


RECORDS = [
    *(record("votes-edp", name, e, s, 0.6 + e / 20 + s / 100) for name in ("a", "b") for e in (1, 4) for s in range(3)),
    *(record("mlp", name, "inf", s, 0.7) for name in ("a", "b") for s in range(3)),
    *(record("gap-edp", "a", e, 0, 0.5) for e in (1, 4)),
]


def test_a_panel_per_data_set_and_features_alone_are_level() -> None:
    story = general_story({"mine": RECORDS})
    assert story is not None
    assert [(panel.group, panel.dataset) for panel in story.panels] == [("mine", "a"), ("mine", "b")]
    lines = story.panels[0].lines
    assert list(lines) == ["votes-edp", "mlp", "gap-edp"]
    assert {e: round(mean.value, 9) for e, mean in lines["mlp"].items()} == {1: 0.7, 4: 0.7}


def test_sentences_count_means_at_both_ends() -> None:
    story = general_story({"mine": RECORDS})
    assert story is not None
    assert story.sentences("mine") == [
        "votes-edp: above features alone on 0 of 2 data sets at ε = 1 and on 2 of 2 data sets at ε = 4.",
        "gap-edp: above features alone on 0 of 1 data sets at ε = 1 and on 0 of 1 data sets at ε = 4.",
    ]


def test_a_published_line_is_compared_with_ours_alone() -> None:
    theirs = {1: Mean(0.65, math.nan, 0)}
    ours = {1: Mean(0.7, 0.01, 3)}
    story = Story((Panel("g", "a", {"votes, ours": ours, "mlp": ours, "caribou, paper": theirs}),))
    assert story.sentences("g") == [
        "votes, ours: above features alone on 0 of 1 data sets at ε = 1.",
        "votes, ours: above caribou, paper on 1 of 1 data sets at ε = 1.",
    ]
    dashes = {line.name: line.style for line in story.charts()["story-0"].lines}
    assert dashes == {"votes, ours": "-", "mlp": ":", "caribou, paper": "--"}


def test_intervals_are_drawn_from_three_seeds_on_and_the_csv_has_the_same() -> None:
    story = general_story({"mine": RECORDS})
    assert story is not None
    votes, _, gap = story.charts()["story-0"].lines
    epsilon, value, low, high = votes.points[0]
    assert (epsilon, round(value, 6)) == (1, 66.0)
    assert low < value < high
    assert gap.points == [[1, 50.0], [4, 50.0]]
    rows = list(csv.reader(story.to_csv().splitlines()))
    assert rows[0][:5] == ["group", "panel", "line", "epsilon", "test accuracy, %"]
    assert rows[1][:5] == ["mine", "a", "votes-edp", "1", "66"]
    assert float(rows[1][5]) == float(f"{high - value:.3g}")


def test_words_say_what_is_drawn() -> None:
    story = general_story({"mine": RECORDS})
    assert story is not None
    assert "votes-edp 1: 66, 4: 81; mlp 1: 70, 4: 70" in story.charts()["story-0"].words


def test_records_without_two_epsilons_have_no_story() -> None:
    assert general_story({"mine": [r for r in RECORDS if r.cell["epsilon"] in (1, "inf")]}) is None
    assert general_story({"noise": [Record("noise", {"kind": "noise", "hops": 2}, OK, {"noise": 1.0})]}) is None


def test_other_metrics_and_many_methods() -> None:
    story = general_story({"mine": RECORDS}, metric_score("macro_f1"))
    assert story is not None
    assert story.charts()["story-0"].lines[2].points == [[1, 0.25], [4, 0.25]]
    many = [record(f"own{k}-edp", "a", e, 0, 0.5) for k in range(12) for e in (1, 4)]
    found = general_story({"mine": many})
    assert found is not None
    assert len(found.panels[0].lines) == MOST_LINES
    assert len(lines_of(many, [f"own{k}-edp" for k in range(12)])) == 12
