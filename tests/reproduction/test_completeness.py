"""No cell of the paper's tables and figures without a record or a named reason."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from reproduction.completeness import Wanted, absent, expected
from reproduction.items import ITEMS
from reproduction.pages import current
from reproduction.rows import LEAVES, row_label

from caribou.experiments.grid import available
from caribou.experiments.records import OK, Record, read_all
from caribou.experiments.report.summary import successes
from reproduction import completeness, paper

PAPER = Path(__file__).parents[2] / "reproduction"


def test_every_cell_of_the_paper_has_a_record_or_a_reason() -> None:
    records = current(read_all(PAPER / "results")[0], available(PAPER / "experiments"))
    missing = absent(records)
    by_item = Counter(wanted.item for wanted in missing)
    assert not missing, f"{dict(by_item)}\n" + "\n".join(map(str, missing))


def test_every_cell_of_the_paper_is_in_a_grid_or_has_a_reason() -> None:
    """The same, as if every cell of the grids had been measured: what is left is in no grid."""
    records = {
        e.name: [_measured(e.name, cell) for cell in e.cells("laptop")] for e in available(PAPER / "experiments")
    }
    missing = absent(records)
    assert not missing, "\n".join(map(str, missing))


def _measured(name: str, cell: dict) -> Record:
    accuracies = [0.5] * len(cell.get("sweep", ()))
    measures = {"test_accuracies": accuracies, "val_accuracies": accuracies} if accuracies else {"test_accuracy": 0.5}
    return Record(name, cell, OK, measures)


def test_the_paper_s_cells_are_counted() -> None:
    counts = Counter(wanted.item for wanted in expected())
    # 4 methods and CARIBOU twice, 9 data sets, 6 budgets, two units; without privacy 5 methods and CARIBOU twice
    assert counts["pu-3"] == 9 * (2 * 6 * 5 + 6)
    assert counts["pu-1"] == counts["pu-3"] + 9 * 6, "the table of tops has a private MLP at node level"
    assert counts["pu-2"] == 9 * 6 * 4
    assert counts[completeness.CHAINS] == 4 * 6
    assert counts["crv-eps"] == 2 * 7 * (11 + 11 + 8)
    assert counts["crv-h"] == 2 * 6 * (4 + 5 + 5)
    assert counts["crv-d"] == 2 * 6 * 7 * 4
    assert (counts["ov-e"], counts["ov-n"]) == (45, 45)
    assert counts["aud linkteller"] == counts["aud g-mia"] == 5 * 7
    assert set(completeness.SOURCES) == set(counts)
    experiments = {name for item in ITEMS for name in item.experiments}
    assert {name for names in completeness.SOURCES.values() for name in names} <= experiments


def fits(epsilon: int, count: int, **more: object) -> list[Record]:
    cell = {"kind": "train", "method": "caribou-edp", "dataset": "photo:connected", "epsilon": epsilon, **more}
    return [Record("edge-accuracy", {**cell, "seed": seed}, OK, {"test_accuracy": 0.5}) for seed in range(count)]


def test_a_cell_is_there_with_its_row_and_all_its_seeds() -> None:
    cells = {
        face: Wanted("pu-3", f"caribou-edp, {face}", "photo", 4)
        for face in (completeness.AUTHORS, completeness.VALIDATED)
    }
    theirs, ours = cells.values()
    assert {theirs, ours} <= set(absent({}))
    missing = absent({"edge-accuracy": fits(4, 3, chosen="authors-mean")})
    assert theirs not in missing
    assert ours in missing
    assert theirs in absent({"edge-accuracy": fits(4, 2, chosen="authors-mean")}), "two seeds are too few"
    assert theirs in absent({"edge-accuracy": fits(8, 3, chosen="authors-mean")}), "another budget is another cell"


def test_a_setting_of_a_sweep_counts() -> None:
    (point, *_) = paper.points("heat map C_L", "cora")
    cell = {"kind": "sweep", "method": "caribou-edp", "dataset": "cora", "epsilon": point.epsilon}
    cell["sweep"] = [dict(point.settings)]
    measures = {"test_accuracies": [0.5], "val_accuracies": [0.5]}
    records = [Record("heatmaps", {**cell, "seed": seed}, OK, measures) for seed in range(3)]
    wanted = Wanted("crv-h", "caribou-edp", "cora", point.epsilon, (("contraction", point.settings["contraction"]),))
    assert wanted in absent({})
    assert wanted not in absent({"heatmaps": records})


def test_a_reason_covers_what_it_names_and_nothing_else() -> None:
    (reason,) = (missing for missing in completeness.MISSING if missing.dataset == "reddit2")
    assert reason.covers(Wanted("larger", "caribou-edp", "reddit2", 4))
    assert not reason.covers(Wanted("pu-3", "caribou-edp", "reddit2", 4))
    assert not any(wanted.dataset == "reddit2" for wanted in absent({}))
    assert all(missing.reason and missing.command for missing in (*completeness.MISSING, *completeness.STAND_INS))


def test_every_record_of_caribou_at_node_level_read_the_graph() -> None:
    """Only a setting of ours leaves the graph alone, and its records have a row of their own."""
    records = [
        r for found in read_all(PAPER / "results")[0].values() for r in found if r.cell.get("method") == "caribou-ndp"
    ]
    assert len(records) > 100
    for record in successes(records):
        settings = {**record.cell.get("settings", {}), **record.measures.get("settings", {})}
        if LEAVES in row_label(record):
            continue
        assert not settings.get("leave_graph"), record.cell
        assert settings.get("graph_share", 0.1) > 0, record.cell
