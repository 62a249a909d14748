"""Every item of the paper: what is shown is what the records say, with the paper's values beside it."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest
from reproduction.items import INTRODUCTION, ITEMS, chain_tops_table, heat_blocks, top_table
from reproduction.rows import row_label

from browser_support import Tab, needs_browser
from caribou.experiments.grid import Experiment, available
from caribou.experiments.records import FAILED, OK, Record, append, read_all, result_file
from caribou.experiments.report.blocks import Block, Figure, Table
from caribou.experiments.report.page import Section, sections, write_report
from caribou.experiments.report.summary import mean_of
from reproduction import paper

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
    """Invented records for every experiment at the smoke scale, one failed cell and two damaged lines."""
    folder = tmp_path_factory.mktemp("results")
    for experiment in known().values():
        cells = experiment.cells("smoke")
        for cell in cells:
            append(folder, Record(experiment.name, cell, OK, measured(cell), commit="abc"))
    failed = known()["failure"].cells("smoke")[-1]
    lines = result_file(folder, "failure").read_text().splitlines()
    result_file(folder, "failure").write_text("\n".join(lines[:-1]) + "\n")
    append(folder, Record("failure", failed, FAILED, error="Traceback\nout of <memory>"))
    with open(result_file(folder, "edge-accuracy"), "ab") as stream:
        stream.write(b'{"experiment"\n[1, 2]\n')
    return folder


@pytest.fixture(scope="module")
def parts(results: Path) -> dict[str, Section]:
    found = sections(read_all(results)[0], known(), "smoke", ITEMS, results)
    return {part.item.name: part for part in found}


@pytest.fixture(scope="module")
def page(parts: dict[str, Section], results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    _, problems = read_all(results)
    assert len(problems) == 2
    folder = tmp_path_factory.mktemp("report") / "out"
    return write_report(folder, list(parts.values()), problems, "smoke", INTRODUCTION)[0]


def test_numbers_on_the_page_are_those_of_the_records(page: Path, results: Path) -> None:
    by_group: dict[tuple, list[float]] = {}
    for record in read_all(results)[0]["edge-accuracy"]:
        group = (row_label(record), record.cell["epsilon"])
        if record.cell["dataset"] == "chain-s":
            by_group.setdefault(group, []).append(record.measures["test_accuracy"])
    column = "Chain-S, the paper's size"
    for name, entry in (("pu-3-edge", lambda v: mean_of(v).percent()), ("pu-1-edge", lambda v: f"{100 * max(v):.1f}")):
        rows = list(csv.DictReader((page.parent / f"{name}.csv").open()))
        found = {(row["method"], row["group"]): row[column] for row in rows}
        assert {group: entry(values) for group, values in by_group.items()} == {
            (method, int(group.removeprefix("ε = "))): shown for (method, group), shown in found.items()
        }


def test_every_item_has_a_section_with_a_table_and_a_picture(page: Path, parts: dict[str, Section]) -> None:
    html = page.read_text()
    for item in ITEMS:
        assert f'id="{item.name}"' in html
        kinds = {type(block) for block in parts[item.name].blocks}
        assert Table in kinds or item.name == "motivation", item.name
        assert Figure in kinds or item.name in ("allocation", "downstream"), item.name
    figures = re.findall(r'<div class="figure" role="img" tabindex="0" aria-label="([^"]*)"', html)
    assert len(figures) == html.count("<svg")
    assert all(len(words) > 60 for words in figures)
    identities = re.findall(r'\sid="([^"]+)"', html)
    assert len(identities) == len(set(identities)), "figures must not share ids"
    assert "<small>(" not in html, "no number of seeds is repeated where all entries have it"


def test_every_block_has_a_csv_of_its_own(page: Path, parts: dict[str, Section]) -> None:
    blocks = [block for part in parts.values() for block in part.blocks]
    names = [block.name for block in blocks]
    assert len(names) == len(set(names)), "blocks would overwrite each other's files"
    for block in blocks:
        rows = list(csv.reader((page.parent / f"{block.name}.csv").open()))
        assert len(rows) > 1, block.name
        assert len({len(row) for row in rows}) == 1, block.name


def test_what_the_paper_draws_is_drawn_beside_ours(parts: dict[str, Section]) -> None:
    for name in ("pu-1", "pu-3", "crv-eps", "crv-k", "crv-h", "ov-e", "ov-n", "noise", "failure"):
        figures = [block for block in parts[name].blocks if isinstance(block, Figure)]
        assert any("paper" in str(cell) for figure in figures for row in figure.data for cell in row), name


@pytest.mark.parametrize("name", ["crv-k", "crv-h", "ov-n"])
def test_the_same_records_give_the_same_files(name: str, page: Path, results: Path) -> None:
    """Boxes, heat maps, bars, curves and tables, drawn a second time."""
    items = [item for item in ITEMS if item.name == name]
    part = sections(read_all(results)[0], known(), "smoke", items, results)[0]
    for block in part.blocks:
        assert (page.parent / f"{block.name}.csv").read_text() == block.to_csv()
        if isinstance(block, Figure):
            assert (page.parent / f"{block.name}.svg").read_text() == block.svg
            assert (page.parent / f"{block.name}.png").read_bytes() == block.png


def test_columns_stand_in_the_order_of_the_file_whatever_was_run_first(page: Path, results: Path) -> None:
    records = {name: found[::-1] for name, found in read_all(results)[0].items()}
    items = [item for item in ITEMS if item.name == "pu-3"]
    part = sections(records, known(), "smoke", items, results)[0]
    head = part.blocks[0].to_csv().splitlines()[0]
    assert head == (page.parent / "pu-3-edge.csv").read_text().splitlines()[0]
    assert head.index("Chain-S") < head.index("csbm")


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


# -- single tables -------------------------------------------------------------------------------------------------


def rows_of(block: Block) -> dict[str, dict[str, tuple]]:
    assert isinstance(block, Table)
    return {title: {row[0].text: row[1:] for row in rows} for title, rows in block.groups}


def test_tops_have_the_settings_of_their_cell_on_hover() -> None:
    cell = {"kind": "train", "method": "caribou-edp", "dataset": "cora", "epsilon": 4, "chosen": "authors-top"}
    records = [
        Record("t", {**cell, "seed": s}, OK, {"test_accuracy": 0.5 + s / 10, "settings": {"hops": 7, "beta": 10.0}})
        for s in range(3)
    ]
    (entry,) = rows_of(top_table("t", "T", records, "top1"))["ε = 4"]["caribou-edp, authors' settings"]
    assert (entry.text, entry.paper) == ("70.0", f"{paper.accuracy('top1', 'caribou-edp', 'cora', 4):.1f}")
    assert entry.title == "3 seeds; hops 7, beta 10"


def test_chains_by_the_paper_s_rule_stand_above_what_does_not_choose_by_test_accuracy() -> None:
    sweep = [{"hops": 1}, {"hops": 8}]
    cell = {"kind": "sweep", "method": "caribou-edp", "dataset": "chain-s", "epsilon": 1, "sweep": sweep}
    scores = {0: ([0.5, 0.6], [0.9, 0.1]), 1: ([0.4, 0.8], [0.9, 0.1]), 2: ([0.6, 0.4], [0.8, 0.2])}
    records = [
        Record("t", {**cell, "seed": s}, OK, {"test_accuracies": test, "val_accuracies": val})
        for s, (test, val) in scores.items()
    ]
    found = rows_of(chain_tops_table(records))["ε = 1"]
    best, mean, validated = (entries[0] for entries in found.values())
    assert (best.text, best.paper) == ("80.0", "84.4")
    assert best.title == "6 runs; hops 8"
    assert mean.text == "55.0"
    assert validated.text == mean_of([0.5, 0.4, 0.6]).percent(), "hops 1 is best on validation nodes"
    assert not mean.paper
    assert not validated.paper


def test_heat_maps_are_at_the_authors_settings_of_each_entry() -> None:
    point = next(p for p in paper.points("heat map C_L", "cora") if p.epsilon == 4 and p.settings["contraction"] == 0.7)
    other = {**point.settings, "hops": point.settings["hops"] + 1}
    cell = {
        "kind": "sweep",
        "method": "caribou-edp",
        "dataset": "cora",
        "epsilon": 4,
        "sweep": [dict(point.settings), other],
    }
    measures = {"test_accuracies": [0.75, 0.25], "val_accuracies": [0.5, 0.5]}
    table, figure = heat_blocks({"heatmaps": [Record("heatmaps", {**cell, "seed": 0}, OK, measures)]})
    (entry,) = rows_of(table)["C_L, at the authors' own settings of each entry"]["0.7"]
    assert (entry.text, entry.paper) == ("75.0", f"{point.accuracy:.1f}")
    assert isinstance(figure, Figure)
    assert ("Cora, paper", "C_L", "0.7", "4", f"{point.accuracy:.4g}", "", "") in figure.data
