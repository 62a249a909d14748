"""Every item of the paper: what is shown is what the records say, with the paper's values beside it."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest
from reproduction.items import INTRODUCTION, ITEMS
from reproduction.rows import row_label

from browser_support import Tab, needs_browser
from caribou.experiments.grid import Experiment, available
from caribou.experiments.records import OK, Record, append, read_all
from caribou.experiments.report.blocks import Block, Figure, Table
from caribou.experiments.report.page import Section, render, sections, write_report
from caribou.experiments.report.summary import mean_of

PAPER = Path(__file__).parents[2] / "reproduction"


@cache
def known() -> dict[str, Experiment]:
    """Read once: the grids are files, and nothing here changes them."""
    return {experiment.name: experiment for experiment in available(PAPER / "experiments")}


def test_every_experiment_belongs_to_an_item_and_every_item_has_cells() -> None:
    assert {name for item in ITEMS for name in item.experiments} == set(known())
    for item in ITEMS:
        for scale in ("smoke", "laptop", "full"):
            assert any(item.cells(known(), scale).values()), (item.name, scale)
    names = [item.name for item in ITEMS]
    assert len(names) == len(set(names))


def test_a_row_of_a_table_is_of_one_cell_per_seed() -> None:
    """Two cells of one seed in one entry would be averaged as if they were runs of the same thing."""
    for item in ITEMS:
        for name in {"edge-accuracy", "node-accuracy", "node-small-degree", "overhead"} & set(item.experiments):
            cells = item.cells(known(), "laptop")[name]
            places = [(row_label(Record(name, c, OK)), c["dataset"], c["epsilon"], c["seed"]) for c in cells]
            assert len(places) == len(set(places)), (item.name, name)


# -- records that were made up -------------------------------------------------------------------------------------


def value(cell: Mapping) -> float:
    """Some accuracy that differs from cell to cell."""
    text = str(sorted((name, str(v)) for name, v in cell.items() if name != "seed"))
    return 0.5 + (sum((k + 1) * ord(letter) for k, letter in enumerate(text)) % 400) / 1000 + 0.01 * cell.get("seed", 0)


def measured(cell: dict) -> dict:
    """Some outcome of a cell of any kind."""
    from caribou.experiments.measures import measure

    score = value(cell)
    if cell["kind"] == "noise":
        return measure(cell, None)
    if cell["kind"] == "sweep":
        scores = [value({**cell, "sweep": settings}) for settings in cell["sweep"]]
        return {"test_accuracies": scores, "val_accuracies": scores[::-1], "cpu_seconds": 2.5}
    if cell["kind"] == "audit":
        rates = {"0.001": 0.1, "0.01": 0.2, "0.1": 0.3}
        ways = {way: {"auc": score} for way in cell.get("query_modes", ())}
        details = {"query_modes": ways, "same_query_auc": 0.5, "class_auc": 0.6, "bound_applies": False}
        return {"auc": score, "tpr_at_fpr": rates, "tpr_allowed": rates, "details": details, "cpu_seconds": 2.5}
    if cell["kind"] == "downstream":
        areas = {"auc": score, "average_precision": score}
        return {"by_rows": {"released": {"cosine": areas, "logistic": areas, "linear": score}}, "cpu_seconds": 2.5}
    costs = {"cpu_seconds": 2.5, "peak_mb": 300.0, "peak_mb_before": 200.0}
    return {"test_accuracy": score, "val_accuracy": score, "settings": cell.get("settings", {}), **costs}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Invented records for every experiment at the smoke scale."""
    folder = tmp_path_factory.mktemp("results")
    for experiment in known().values():
        cells = experiment.cells("smoke")
        for cell in cells:
            append(folder, Record(experiment.name, cell, OK, measured(cell), commit="abc"))
    return folder


@pytest.fixture(scope="module")
def parts(results: Path) -> dict[str, Section]:
    found = sections(read_all(results)[0], known(), "smoke", ITEMS, results)
    return {part.item.name: part for part in found}


def block_of(parts: dict[str, Section], item: str, name: str) -> Block:
    return next(block for block in parts[item].blocks if block.name == name)


def test_numbers_of_the_report_are_those_of_the_records(parts: dict[str, Section], results: Path) -> None:
    by_group: dict[tuple, list[float]] = {}
    for record in read_all(results)[0]["edge-accuracy"]:
        group = (row_label(record), record.cell["epsilon"])
        if record.cell["dataset"] == "chain-s":
            by_group.setdefault(group, []).append(record.measures["test_accuracy"])
    column = "Chain-S, the paper's size"
    for item, entry in (("pu-3", lambda v: mean_of(v).percent()), ("pu-1", lambda v: f"{100 * max(v):.1f}")):
        rows = list(csv.DictReader(block_of(parts, item, f"{item}-edge").to_csv().splitlines()))
        found = {(row["method"], row["group"]): row[column] for row in rows}
        assert {group: entry(values) for group, values in by_group.items()} == {
            (method, int(group.removeprefix("ε = "))): shown for (method, group), shown in found.items()
        }


def test_every_item_has_a_table_and_a_picture(parts: dict[str, Section]) -> None:
    for item in ITEMS:
        kinds = {type(block) for block in parts[item.name].blocks}
        assert Table in kinds or item.name == "motivation", item.name
        assert Figure in kinds or item.name in ("allocation", "downstream"), item.name
    names = [block.name for part in parts.values() for block in part.blocks]
    assert len(names) == len(set(names)), "blocks would overwrite each other's files"


def test_curves_heat_maps_and_bars_drawn_twice_are_the_same_and_share_no_ids(
    parts: dict[str, Section], results: Path
) -> None:
    items = [item for item in ITEMS if item.name in ("failure", "crv-h", "ov-n")]
    again = sections(read_all(results)[0], known(), "smoke", items, results)[: len(items)]
    for part in again:
        for block in part.blocks:
            first = block_of(parts, part.item.name, block.name)
            assert first.to_csv() == block.to_csv()
            assert not isinstance(block, Figure) or first.drawn == block.drawn  # type: ignore[union-attr]
    html = render(again, [], "smoke")
    figures = re.findall(r'<div class="figure" role="img" tabindex="0" aria-label="([^"]*)"', html)
    assert len(figures) == html.count("<svg") >= 3
    assert all(len(words) > 60 for words in figures)
    identities = re.findall(r'\sid="([^"]+)"', html)
    assert len(identities) == len(set(identities)), "figures must not share ids"


@needs_browser
@pytest.mark.slow
def test_no_table_is_cut_off_at_1400_pixels(tmp_path: Path, look: Callable[[Path], Tab]) -> None:
    """The widest tables there are: every cell of the scale laptop, with intervals of two digits."""
    records = {
        name: [Record(name, c, OK, measured(c)) for c in e.cells("laptop") if c["epsilon"] in (1, "inf")]
        for name, e in known().items()
        if name in ("overhead", "audit", "edge-accuracy", "node-accuracy")
    }
    tables = [item for item in ITEMS if item.name in ("pu-3", "ov-e", "aud", "table-1")]
    found = [part for part in sections(records, known(), "laptop", tables) if part.item in tables]
    file = write_report(tmp_path / "report", found, [], "laptop", INTRODUCTION)[0]
    tab = look(file)
    tab.resize(1400)
    wide = (
        "[...document.querySelectorAll('.scroll, .figure')].filter((e) => e.scrollWidth > e.clientWidth)"
        ".map((e) => e.closest('figure').querySelector('h3').textContent)"
    )
    assert tab.run(wide) == []
