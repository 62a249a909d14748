"""What pages take from records is what the records say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from caribou.experiments.grid import Experiment, available
from caribou.experiments.records import FAILED, OK, Record
from caribou.experiments.report.blocks import Entry, Table
from reproduction import pages

ROOT = Path(__file__).parents[2]
TABLE = Experiment("table", "A table", "", "train", ({"method": ["a", "b"], "dataset": "cora", "seeds": 3},), {})


def record(method: str, seed: int, status: str = OK, **measures: float) -> Record:
    return Record("table", {"kind": "train", "method": method, "dataset": "cora", "seed": seed}, status, measures)


def test_pages_are_up_to_date() -> None:
    for page, content in pages.pages().items():
        assert page.read_text(encoding="utf-8") == content, "run: make result-pages"


def test_figures_in_the_words_about_downstream_tasks_stand_in_its_tables() -> None:
    tables, words = pages.DOWNSTREAM_PAGE.read_text(encoding="utf-8").split("## What works and what does not")
    figures = re.findall(r"\b(?:0\.\d{3}|\d{2,3}\.\d)\b", words)
    rows = "\n".join(line for line in tables.split("\n") if line.startswith("|"))
    assert len(figures) > 10
    assert not [figure for figure in figures if not re.search(rf"[|±] {re.escape(figure)} ", rows)]


def test_minutes_by_kind_over_two_cores_with_a_shared_encoder_once() -> None:
    first = record("a", 0, cpu_seconds=300.0)
    again = record("a", 1, cpu_seconds=300.0, shared_cpu_seconds=180.0)
    failed = record("b", 0, FAILED)
    # a: (300 + 120) / 2 = 210 s on average, three cells, two cores
    assert pages.minutes(TABLE, [first, again, failed]) == "> 5 (time known for 3 of 6 cells)"
    other = record("b", 1, cpu_seconds=60.0)
    assert pages.minutes(TABLE, [first, again, failed, other]) == "7"
    assert pages.minutes(TABLE, [record("a", 0, cpu_seconds=1.0), record("b", 0, cpu_seconds=1.0)]) == "< 1"


def test_minutes_without_times_were_not_measured() -> None:
    assert pages.minutes(TABLE, []) == "n.m."
    assert pages.minutes(TABLE, [record("a", 0, test_accuracy=0.5)]) == "n.m."


def test_the_column_is_replaced_and_nothing_else() -> None:
    text = "| a | `table.toml` | `caribou run` | n.m. |\n| a | `other.toml` | | 3 |\nAbout `table.toml`.\n"
    records = {"table": [record("a", 0, cpu_seconds=480.0), record("b", 0, cpu_seconds=0.0)]}
    changed = pages.with_minutes(text, [TABLE], records)
    assert changed == text.replace("n.m.", "12")
    assert pages.with_minutes(changed, [TABLE], records) == changed


def test_every_experiment_has_a_row() -> None:
    lines = pages.README.read_text(encoding="utf-8").split("\n")
    for experiment in available(ROOT / "reproduction" / "experiments"):
        rows = [line for line in lines if line.startswith("|") and f"`{experiment.name}.toml`" in line]
        assert len(rows) == 1, experiment.name
        assert rows[0].count("|") == 5, "item, file, command, minutes"


def test_markdown_tells_how_many_seeds_where_there_is_no_interval() -> None:
    row = (Entry("sage"), Entry("0.5", 0.5, title="1 seed"), Entry("0.5 ± 0.1", 0.5, title="3 seeds"))
    lines = pages.markdown(Table("t", "T", ("method", "1", "2"), (("cora", (row,)),))).split("\n")
    assert lines[2:] == ["| **cora** |  |  |", "| sage | 0.5 (1 seed) | 0.5 ± 0.1 |"]


def test_who_is_best_is_counted_from_the_means() -> None:
    figures = {"caribou-edp": 0.8, "gap-edp": 0.7, "sage-edp": 0.75, "votes-edp": 0.9}
    scores = {(1, method, "cora"): {0: value} for method, value in figures.items()}
    scores["inf", "mlp", "cora"] = {0: 0.5}
    scores |= {(4, "caribou-edp", "cora"): {0: 0.6}, (4, "dpdgc-edp", "cora"): {0: 0.65}}
    text = pages.claims_table(scores, "edp", ["cora"])
    rows = [line.split(" | ") for line in text.split("\n")[2:6]]
    assert [row[-1].strip(" |") for row in rows] == ["80.0 (84.3)", "75.0 sage", "50.0", "90.0"]
    assert "`caribou-edp` is at least as good as these in 1 (beyond chance, seed by seed: 0)." in text
    assert text.endswith(
        "`votes-edp` is at least as good as these and `caribou-edp` in 1 (beyond chance, seed by seed: 0)."
    )


def test_the_mechanism_of_the_paper_is_counted_by_itself() -> None:
    """Splits differ much more than methods do: what is beyond chance is judged seed by seed."""
    scores = {
        (1, "caribou-edp", "cora"): {0: 0.70, 1: 0.80, 2: 0.90},
        (1, "gap-edp", "cora"): {0: 0.65, 1: 0.75, 2: 0.851},
        (1, pages.ALONE, "cora"): {0: 0.66, 1: 0.74, 2: 0.86},
    }
    text = pages.claims_table(scores, "edp", ["cora"])
    assert "| 1 | CARIBOU, messages alone (paper) | 75.3 (84.3) |" in text
    assert "|  | CARIBOU as searched | 80.0 |" in text
    assert (
        "`caribou-edp` with messages alone is at least as good as these in 1 (beyond chance, seed by seed: 0)." in text
    )
    assert "`caribou-edp` is at least as good as these in 1 (beyond chance, seed by seed: 1)." in text


def test_a_page_without_marks_is_an_error() -> None:
    cell = {"kind": "audit", "attack": "lira", "dataset": "cora", "method": "gap-ndp", "epsilon": 1, "seed": 0}
    rates = {"0.01": 0.1, "0.1": 0.2}
    measured = Record("audit", cell, OK, {"auc": 0.5, "tpr_at_fpr": rates, "tpr_allowed": rates})
    with pytest.raises(ValueError, match="marks of audit-lira"):
        pages.audit_page("nothing here", [measured])
