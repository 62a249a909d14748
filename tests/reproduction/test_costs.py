"""What fits cost: means over budgets and seeds, memory that a fit added, and published figures where there are some."""

from __future__ import annotations

from reproduction.costs import PublishedCost, cost_table

from caribou.experiments.records import OK, Record
from caribou.experiments.report.blocks import NOT_RUN, Entry


def fitted(method: str, epsilon: int, accuracy: float | None = 0.5, **measures: float) -> Record:
    cell = {"method": method, "dataset": "cora", "epsilon": epsilon, "seed": 0}
    return Record("study", cell, OK, measures | ({} if accuracy is None else {"test_accuracy": accuracy}))


RECORDS = [
    fitted("gap-edp", 1, cpu_seconds=2.0, peak_mb=500.0, peak_mb_before=200.0),
    fitted("gap-edp", 8, 0.7, cpu_seconds=4.0, peak_mb=540.0, peak_mb_before=200.0),
    fitted("votes-edp", 1, cpu_seconds=0.001, peak_mb=600.0),
]


def groups(records: list[Record], **options: object) -> dict[str, dict[str, tuple[Entry, ...]]]:
    table = cost_table("study", records, **options)  # type: ignore[arg-type]
    assert table.name == "study-cost"
    return {title: {row[0].text: row[1:] for row in rows} for title, rows in table.groups}


def test_time_and_memory_are_means_over_budgets() -> None:
    found = groups(RECORDS)
    assert found["CPU seconds of one fit"]["gap-edp"][0] == Entry("3.00", 3.0, title="2 fits")
    added = found["memory that the fit added to its process, MB"]
    assert added["gap-edp"][0].text == "320"
    assert added["votes-edp"][0].text == NOT_RUN, "the peak before the fit is not known"
    assert found["peak memory of the process, MB, libraries and data included"]["votes-edp"][0].text == "600"


def test_published_figures_stand_beside_ours_with_their_words() -> None:
    published = {"cpu_seconds": PublishedCost("a third of theirs", lambda m, d: 1.987 if m == "gap-edp" else None)}
    found = groups(RECORDS, published=published, dataset_title=str.upper)
    rows = found["CPU seconds of one fit (a third of theirs)"]
    assert (rows["gap-edp"][0].paper, rows["votes-edp"][0].paper) == ("1.99", "")
    assert cost_table("study", RECORDS, dataset_title=str.upper).head == ("method", "CORA")
