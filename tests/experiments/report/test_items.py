"""General tables and curves: what a user's own experiment gets without writing any."""

from __future__ import annotations

import itertools

from caribou.experiments.records import OK, Record
from caribou.experiments.report.blocks import Block, Table
from caribou.experiments.report.items import general_blocks, of_cells
from caribou.experiments.report.summary import mean_of


def fitted(method: str, epsilon: object, seed: int, accuracy: float, **more: object) -> Record:
    cell = {"kind": "train", "method": method, "dataset": "mine", "epsilon": epsilon, "seed": seed, **more}
    return Record("study", cell, OK, {"test_accuracy": accuracy, "cpu_seconds": 2.0, "peak_mb": 100.0})


def named(blocks: list[Block]) -> dict[str, Block]:
    return {block.name: block for block in blocks}


def texts(table: Table) -> dict[str, dict[str, list[str]]]:
    return {title: {row[0].text: [entry.text for entry in row[1:]] for row in rows} for title, rows in table.groups}


def test_means_with_intervals_by_method_data_set_and_epsilon() -> None:
    accuracies = {("mlp-dp", 1): (0.5, 0.6, 0.7), ("mlp-dp", 8): (0.8, 0.8, 0.8), ("gap-ndp", 8): (0.9, 0.7, 0.8)}
    records = [fitted(m, e, s, a) for (m, e), found in accuracies.items() for s, a in enumerate(found)]
    records.append(fitted("gap-inf", "inf", 0, 0.95))
    blocks = named(general_blocks("study", records))
    assert set(blocks) == {"study-table", "study-curves"}
    table = texts(blocks["study-table"])
    assert table["ε = 1"] == {"mlp-dp": [mean_of(accuracies["mlp-dp", 1]).percent()]}
    assert table["ε = 8"] == {"mlp-dp": ["80.0 ± 0.0"], "gap-ndp": ["80.0 ± 24.8"]}
    assert table["ε = ∞"] == {"gap-inf": ["95.0"]}
    assert "seeds: 1 to 3" in blocks["study-table"].caption
    assert "mlp-dp 1: 60, 8: 80" in blocks["study-curves"].alternative


def test_settings_that_differ_are_rows() -> None:
    records = [
        fitted("gap-edp", 4, seed, 0.5 + 0.1 * hops, settings={"hops": hops, "hidden": [16]})
        for hops, seed in itertools.product((1, 2, 3), range(3))
    ]
    blocks = named(general_blocks("study", records))
    assert list(texts(blocks["study-table"])["ε = 4"]) == ["gap-edp, hops 1", "gap-edp, hops 2", "gap-edp, hops 3"]
    assert "study-curves" not in blocks, "one epsilon is no curve"
    words = [fitted("gap-edp", 4, 0, 0.5, settings={"hidden": hidden}) for hidden in ([16], [32, 8], "default")]
    blocks = named(general_blocks("study", words))
    assert list(texts(blocks["study-table"])["ε = 4"])[1:] == ["gap-edp, hidden [32, 8]", "gap-edp, hidden default"]


def test_without_a_score_there_is_nothing_to_compare() -> None:
    cell = {"kind": "train", "method": "mlp", "dataset": "mine", "epsilon": 4, "seed": 0}
    assert general_blocks("study", [Record("study", cell, OK, {"test_accuracy": None})]) == []


def test_records_of_cells_come_in_the_order_of_the_cells() -> None:
    records = [fitted("gap-edp", 4, seed, 0.5) for seed in (2, 0, 1)]
    cells = [record.cell for record in sorted(records, key=lambda r: r.cell["seed"])][:2]
    assert [r.cell["seed"] for r in of_cells(records, cells)] == [0, 1]
