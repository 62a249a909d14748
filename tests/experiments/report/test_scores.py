"""The table of scores and its curves: the best are marked by column, intervals are said, published figures stand beneath."""

from __future__ import annotations

from caribou.experiments.records import OK, Record
from caribou.experiments.report.blocks import BEST, NOT_RUN, SECOND, Entry
from caribou.experiments.report.scores import (
    epsilon_curves,
    score_table,
)
from caribou.experiments.report.summary import grouped


def fitted(method: str, dataset: str, epsilon: object, seed: int, accuracy: float, **measures: object) -> Record:
    cell = {"method": method, "dataset": dataset, "epsilon": epsilon, "seed": seed}
    return Record("study", cell, OK, {"test_accuracy": accuracy, **measures})


RECORDS = [
    fitted(method, dataset, epsilon, seed, accuracy + 0.01 * seed)
    for method, dataset, epsilon, accuracy in (
        ("gap-edp", "cora", 1, 0.60),
        ("gap-edp", "pubmed", 1, 0.70),
        ("votes-edp", "cora", 1, 0.80),
        ("mlp", "cora", 1, 0.50),
        ("votes-edp", "cora", 8, 0.85),
        ("gap-inf", "cora", "inf", 0.90),
    )
    for seed in range(3)
]


def rows(**options: object) -> dict[str, dict[str, tuple[Entry, ...]]]:
    means = grouped(RECORDS, "epsilon", "method", "dataset")
    table = score_table("t", "T", RECORDS, means, **options)  # type: ignore[arg-type]
    assert table.head[0] == "method"
    return {title: {row[0].text: row[1:] for row in found} for title, found in table.groups}


def test_a_group_per_epsilon_a_row_per_method_and_the_best_two_of_a_column() -> None:
    found = rows()
    assert list(found) == ["ε = 1", "ε = 8", "ε = ∞"]
    assert {method: entries[0].text for method, entries in found["ε = 1"].items()} == {
        "gap-edp": "61.0 ± 2.5",
        "votes-edp": "81.0 ± 2.5",
        "mlp": "51.0 ± 2.5",
    }
    assert {method: entries[0].mark for method, entries in found["ε = 1"].items()} == {
        "gap-edp": SECOND,
        "votes-edp": BEST,
        "mlp": "",
    }
    assert found["ε = 1"]["votes-edp"][1].text == NOT_RUN
    assert found["ε = 1"]["gap-edp"][1].title == "3 seeds"
    assert list(found["ε = 8"]) == ["votes-edp"], "methods without a figure at this epsilon have no row"


def test_curves_over_epsilon_need_a_finite_one() -> None:
    (figure,) = epsilon_curves("c", RECORDS)
    assert "votes-edp 1: 81, 8: 86" in figure.alternative  # type: ignore[union-attr]
    assert epsilon_curves("c", [r for r in RECORDS if r.cell["epsilon"] == "inf"]) == []
