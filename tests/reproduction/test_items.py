"""The report of the paper's evaluation says what the records say, has every item, and survives damaged records."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from reproduction.items import INTRODUCTION, ITEMS

from caribou.experiments.grid import available
from caribou.experiments.records import FAILED, OK, Record, append, read_all, result_file
from caribou.experiments.report.page import sections, write_report
from caribou.experiments.report.summary import mean_of

PAPER = Path(__file__).parents[2] / "reproduction"


def value(cell: dict, seed: int) -> float:
    """Some accuracy that differs from cell to cell."""
    return 0.5 + (hash_of(str(sorted(cell.items(), key=str))) % 400) / 1000 + 0.01 * seed


def attacked(cell: dict) -> dict:
    """Some outcome of an attack."""
    area = value({name: v for name, v in cell.items() if name != "seed"}, cell["seed"])
    rates = {"0.001": 0.1, "0.01": 0.2, "0.1": 0.3}
    ways = {way: {"auc": area} for way in cell.get("query_modes", ())}
    details = {"query_modes": ways, "same_query_auc": 0.5, "class_auc": 0.6, "bound_applies": False}
    return {"auc": area, "tpr_at_fpr": rates, "tpr_allowed": rates, "details": details, "cpu_seconds": 2.5}


def hash_of(text: str) -> int:
    return sum((k + 1) * ord(letter) for k, letter in enumerate(text))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Invented records for every experiment at the smoke scale, one failed cell and two damaged lines."""
    from caribou.experiments.measures import measure

    folder = tmp_path_factory.mktemp("results")
    for experiment in available(PAPER / "experiments"):
        for cell in experiment.cells("smoke"):
            if cell["kind"] == "noise":
                measures = measure(cell, None)
            elif cell["kind"] == "audit":
                measures = attacked(cell)
            else:
                plain = {name: v for name, v in cell.items() if name != "seed"}
                measures = {"test_accuracy": value(plain, cell.get("seed", 0)), "cpu_seconds": 2.5, "peak_mb": 300.0}
            append(folder, Record(experiment.name, cell, OK, measures, commit="abc"))
    cell = {"kind": "train", "method": "votes-edp", "dataset": "chain-s", "epsilon": 64, "seed": 0}
    append(folder, Record("edge-accuracy", cell, FAILED, error="Traceback\nout of <memory>"))
    with open(result_file(folder, "edge-accuracy"), "ab") as stream:
        stream.write(b'{"experiment"\n[1, 2]\n')
    return folder


@pytest.fixture(scope="module")
def page(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    records, problems = read_all(results)
    assert len(problems) == 2
    known = {e.name: e for e in available(PAPER / "experiments")}
    parts = sections(records, known, "smoke", ITEMS)
    return write_report(tmp_path_factory.mktemp("report") / "out", parts, problems, "smoke", INTRODUCTION)


def test_numbers_on_the_page_are_those_of_the_records(page: Path, results: Path) -> None:
    records, _ = read_all(results)
    html = page.read_text()
    by_group: dict[tuple, list[float]] = {}
    for record in records["edge-accuracy"]:
        if record.status == OK:
            cell = record.cell
            group = (cell["method"], cell["dataset"], cell["epsilon"])
            by_group.setdefault(group, []).append(record.measures["test_accuracy"])
    rows = list(csv.DictReader((page.parent / "edge-accuracy-table.csv").open()))
    found = {(row["method"], dataset, row["group"]): row[dataset] for row in rows for dataset in ("chain-s",)}
    for (method, dataset, epsilon), values in by_group.items():
        text = mean_of(values).percent()
        assert f">{text}<" in html
        if dataset == "chain-s":
            assert found[method, dataset, f"ε = {epsilon}"] == text.partition(" ± ")[0]


def test_top_accuracies_are_the_best_of_the_seeds(page: Path, results: Path) -> None:
    records, _ = read_all(results)
    ok = [r for r in records["edge-accuracy"] if r.status == OK and r.cell["dataset"] == "chain-s"]
    rows = list(csv.DictReader((page.parent / "edge-accuracy-top.csv").open()))
    for row in rows:
        best = max(r.measures["test_accuracy"] for r in ok if r.cell["method"] == row["method"])
        assert row["chain-s"] == f"{100 * best:.1f}"


def test_every_item_has_a_section_and_every_figure_words(page: Path) -> None:
    html = page.read_text()
    for item in ITEMS:
        assert f'id="{item.experiment}"' in html
    figures = re.findall(r'<div class="figure" role="img" aria-label="([^"]*)">', html)
    assert len(figures) == html.count("<svg ")
    assert all(len(words) > 60 for words in figures)
    identities = re.findall(r'\sid="([^"]+)"', html)
    assert len(identities) == len(set(identities)), "figures must not share ids"
    for suffix in ("svg", "png"):
        assert len(list(page.parent.glob(f"*.{suffix}"))) == len(figures)


def test_damage_and_failures_are_on_the_page(page: Path) -> None:
    html = page.read_text()
    assert "edge-accuracy.jsonl, line" in html
    assert "out of &lt;memory&gt;" in html
    assert not re.findall(r"https?://(?!www\.w3\.org/)", html), "the page must not need a network"


def test_best_and_second_are_marked_once_per_column(page: Path) -> None:
    latex = (page.parent / "edge-accuracy-table.tex").read_text()
    assert latex.count(r"\textbf{") == latex.count(r"\underline{") == 2  # two data sets, two methods


def test_what_is_missing_is_said_with_its_command(results: Path) -> None:
    records, _ = read_all(results)
    known = {e.name: e for e in available(PAPER / "experiments")}
    items = [item for item in ITEMS if item.experiment in ("motivation", "failure")]
    found = sections({"motivation": records["motivation"]}, known, "smoke", items)
    parts = {part.item.experiment: part for part in found}
    assert set(parts) == set(known), "experiments without an item have a section, too"
    assert parts["motivation"].missing == 0
    assert parts["failure"].missing == len(known["failure"].cells("smoke"))
    assert parts["failure"].command == "caribou run failure --scale smoke --resume --out results"
    assert not parts["failure"].blocks
    (part,) = sections({}, {"failure": known["failure"]}, "smoke", results=PAPER / "results")
    assert part.command == "caribou run failure --scale smoke --resume", "where its records are by default"


@pytest.mark.parametrize("name", ["chain-depth", "heatmaps", "degree", "noise-depth"])
def test_the_same_records_give_the_same_files(name: str, page: Path, results: Path) -> None:
    """Boxes, heat maps, curves and tables, drawn a second time."""
    records, _ = read_all(results)
    known = {e.name: e for e in available(PAPER / "experiments") if e.name == name}
    items = [item for item in ITEMS if item.experiment == name]
    (part,) = sections({name: records[name]}, known, "smoke", items)
    for block in part.blocks:
        if hasattr(block, "svg"):
            assert (page.parent / f"{block.name}.svg").read_text() == block.svg
            assert (page.parent / f"{block.name}.png").read_bytes() == block.png
        else:
            assert (page.parent / f"{block.name}.csv").read_text() == block.to_csv()


def test_columns_stand_in_the_order_of_the_file_whatever_was_run_first(page: Path, results: Path) -> None:
    records, _ = read_all(results)
    known = {e.name: e for e in available(PAPER / "experiments") if e.name == "edge-accuracy"}
    backwards = {"edge-accuracy": records["edge-accuracy"][::-1]}
    items = [item for item in ITEMS if item.experiment == "edge-accuracy"]
    (part,) = sections(backwards, known, "smoke", items)
    written = (page.parent / "edge-accuracy-table.csv").read_text()
    assert part.blocks[0].to_csv().splitlines()[0] == written.splitlines()[0]
    assert written.splitlines()[0].index("chain-s") < written.splitlines()[0].index("csbm")


def test_the_introduction_tells_how_to_compare_with_the_paper(page: Path) -> None:
    assert "compare the order of methods, not single figures" in page.read_text()
