"""Tables of time and memory: our figures, and the paper's under them where it has some."""

from __future__ import annotations

import pytest
from reproduction.costs import larger_blocks, overhead_bars, overhead_blocks, overhead_table

from caribou.experiments.records import OK, Record
from caribou.experiments.report.blocks import Entry, Table

LARGE = "csbm:nodes=169343,classes=40,features=128,average_degree=13.674"


def fitted(method: str, dataset: str, epsilon: object = 4, seed: int = 0, **measures: float) -> Record:
    cell = {"kind": "train", "method": method, "dataset": dataset, "epsilon": epsilon, "seed": seed}
    return Record("table", cell, OK, {"test_accuracy": 0.5, **measures})


def rows(table: Table, word: str) -> dict[str, list[Entry]]:
    (found,) = [rows for title, rows in table.groups if word in title]
    return {row[0].text: list(row[1:]) for row in found}


@pytest.fixture(scope="module")
def table() -> Table:
    records = [
        fitted("gap-edp", "cora", 1, cpu_seconds=2.0, peak_mb=500.0, peak_mb_before=200.0),
        fitted("gap-edp", "cora", 32, cpu_seconds=4.0, peak_mb=540.0, peak_mb_before=200.0),
        fitted("votes-edp", "cora", cpu_seconds=5.0, peak_mb=600.0),
        fitted("votes-edp", "berkeley13", cpu_seconds=9.0, peak_mb=700.0, peak_mb_before=300.0),
    ]
    return overhead_table("ov-e", records, ["cora", "berkeley13"])


def test_time_is_the_mean_over_budgets_beside_a_third_of_the_paper_s(table: Table) -> None:
    gap, votes = (rows(table, "CPU seconds of one fit")[method] for method in ("gap-edp", "votes-edp"))
    assert (gap[0].text, gap[0].paper) == ("3.00", "1.99"), "5.98 / 3 in the paper"
    assert (votes[0].text, votes[0].paper) == ("5.00", ""), "the paper has no votes"
    assert gap[1].text == "not run"


def test_memory_of_the_fit_stands_beside_the_paper_s_and_that_of_the_process_apart(table: Table) -> None:
    added = rows(table, "fit added")
    assert (added["gap-edp"][0].text, added["gap-edp"][0].paper) == ("320", "28")
    assert added["votes-edp"][0].text == "not run", "unknown before the fit, so nothing is claimed"
    assert added["votes-edp"][1].text == "400"
    assert rows(table, "peak memory")["gap-edp"][0].text == "520"


def test_titles_of_data_sets(table: Table) -> None:
    assert table.head == ("method", "Cora", "Berkeley13 (stands in for Facebook)")


def test_bars_show_ours_and_the_paper_s_in_panels_of_their_own() -> None:
    records = [
        fitted("gap-edp", "cora", 1, added_mb=320.0, cpu_seconds=2.0),
        fitted("votes-edp", "cora", 1, cpu_seconds=3.0),
    ]
    figure = overhead_bars("f", records, ["cora"])
    drawn = {row[:3]: row[3] for row in figure.data[1:]}
    assert drawn["CPU seconds of one fit here", "votes-edp", "Cora"] == "3"
    assert drawn["seconds of one run in the paper, on its GPU", "gap-edp", "Cora"] == "1.993"
    assert drawn["MB in the paper, on its GPU", "gap-edp", "Cora"] == "27.55"
    assert not any(row[0].endswith("GPU") and row[1] == "votes-edp" for row in figure.data)


def test_a_changed_caribou_has_no_figure_of_the_paper() -> None:
    ours = fitted("caribou-edp", "cora", 1, cpu_seconds=2.0)
    changed = Record(ours.experiment, {**ours.cell, "settings": {"votes": 0.5}}, OK, ours.measures)
    table, _ = overhead_blocks("ov-e")([ours, changed])
    assert isinstance(table, Table)
    found = rows(table, "CPU seconds of one fit")
    assert found["caribou-edp, defaults"][0].paper
    assert not found["caribou-edp, with votes, ours"][0].paper


def test_larger_graphs_are_told_by_their_size() -> None:
    records = [
        fitted("gap-edp", LARGE, cpu_seconds=90.0, peak_mb=6100.0, peak_mb_before=400.0),
        fitted("mlp", LARGE, cpu_seconds=18.0, peak_mb=1200.0, peak_mb_before=400.0),
        fitted("votes-edp", "arxiv-edges", cpu_seconds=60.0, peak_mb=2000.0, peak_mb_before=500.0),
    ]
    table, figure = larger_blocks(records)
    generated = rows(table, "generated: 169,343 nodes, 1,157,798 edges, 128 features, 40 classes")
    assert [entry.text for entry in generated["gap-edp, ε = 4"]] == ["50.0", "1.5", "6.1", "0.4"]
    assert list(generated) == ["gap-edp, ε = 4", "mlp"], "without edges there is no budget to state"
    assert rows(table, "arxiv-edges: 169,343 nodes, 1,157,799 edges")["votes-edp, ε = 4"][1].text == "1.0"
    assert "70.6 at ε = 1" in table.caption
    assert ("CPU minutes", "gap-edp", "generated, 169,343 nodes", "1.5") in figure.data
