"""The page of any records: what is measured, failed, unreadable and missing, on every screen; whole or not at all."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from browser_support import AXE, WIDTHS, Tab, needs_browser
from caribou.errors import InputError
from caribou.experiments.grid import Experiment, available
from caribou.experiments.records import FAILED, OK, Record, append, read_all, result_file
from caribou.experiments.report.blocks import Block, Table
from caribou.experiments.report.page import Section, general_blocks, of_cells, sections, write_report
from caribou.experiments.report.summary import mean_of

STUDY = """
title = "My study"
kind = "train"
[[grid]]
method = ["gap-edp", "mlp", "votes-edp", "sage-edp"]
dataset = ["a-graph-of-mine", "another-graph-of-mine", "a-third-one", "a-fourth-one"]
epsilon = [1, 2, 4, 8]
seeds = 3
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's grid with invented records, one cell missing, one failed, one damaged line, and records without a grid."""
    folder = tmp_path_factory.mktemp("world")
    (folder / "study.toml").write_text(STUDY)
    (experiment,) = available(folder)
    lacking, *cells = experiment.cells("laptop")
    for number, cell in enumerate(cells):
        append(folder / "records", Record("study", cell, OK, {"test_accuracy": 0.5 + number % 40 / 100}, commit="abc"))
    append(folder / "records", Record("study", lacking, FAILED, error="Traceback\nout of <memory>"))
    append(folder / "records", Record("loose", {**cells[0], "seed": 9}, OK, {"test_accuracy": 0.75}))
    with open(result_file(folder / "records", "study"), "ab") as stream:
        stream.write(b'{"experiment"\n')
    return folder


def known(world: Path) -> dict[str, Experiment]:
    return {experiment.name: experiment for experiment in available(world)}


@pytest.fixture(scope="module")
def parts(world: Path) -> list[Section]:
    return sections(read_all(world / "records")[0], known(world), "laptop", results=world / "records")


@pytest.fixture(scope="module")
def page(world: Path, parts: list[Section]) -> Path:
    problems = read_all(world / "records")[1]
    return write_report(world / "report", parts, problems, "laptop", "Said <besides>.")[0]


def test_every_experiment_with_a_grid_or_records_has_a_section(page: Path) -> None:
    html = page.read_text()
    assert re.findall(r'<h2 id="([^"]+)">([^<]+)<', html)[1:] == [("study", "My study"), ("loose", "loose")]
    assert "Said &lt;besides&gt;." in html
    assert "Paper:" not in html
    written = {file.name for file in page.parent.iterdir()}
    assert written == {
        "index.html",
        "study-table.csv", "study-table.tex", "study-curves.csv", "study-curves.svg", "study-curves.png",
        "loose-table.csv", "loose-table.tex",
    }  # fmt: skip


def test_damage_and_failures_are_on_the_page(page: Path) -> None:
    html = page.read_text()
    assert "study.jsonl, line" in html
    assert "out of &lt;memory&gt;" in html
    assert not re.findall(r"https?://(?!www\.w3\.org/)", html), "the page must not need a network"


def test_what_is_missing_is_said_with_its_command(page: Path, parts: list[Section], world: Path) -> None:
    study = parts[0]
    assert (study.measured, study.missing, study.commits) == (191, 1, ("abc",))
    assert study.commands == (f"caribou run {world}/study.toml --scale laptop --resume --out {world}/records",)
    assert study.commands[0] in page.read_text()
    assert (parts[1].missing, parts[1].commands) == (0, ())


def test_an_earlier_report_is_replaced_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "new" / "report"
    write_report(out, [], [], "smoke")
    (out / "old.csv").write_text("from the time before")
    write_report(out, [], [], "smoke", "Second.")
    assert [file.name for file in out.iterdir()] == ["index.html"]

    def disk_full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", disk_full)
    with pytest.raises(InputError, match=r"out must be a folder that can be written, got .*: No space left"):
        write_report(out, [], [], "smoke", "Third.")
    assert "Second." in (out / "index.html").read_text()
    assert [file.name for file in out.parent.iterdir()] == ["report"]


@needs_browser
def test_nothing_overflows_and_nothing_is_logged(page: Path, look: Callable[[Path], Tab]) -> None:
    tab = look(page)
    for width in WIDTHS:
        tab.resize(width)
        assert (width, tab.overflowing(), tab.cut_text()) == (width, [], [])
    if AXE.exists():
        tab.scheme("dark")
        assert tab.violations() == []
    assert tab.complaints() == []


# -- what any experiment gets -----------------------------------------------------------------------------------------


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
    blocks = named(general_blocks("study", {"study": records}))
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
    blocks = named(general_blocks("study", {"study": records}))
    assert list(texts(blocks["study-table"])["ε = 4"]) == ["gap-edp, hops 1", "gap-edp, hops 2", "gap-edp, hops 3"]
    assert "study-curves" not in blocks, "one epsilon is no curve"
    words = [fitted("gap-edp", 4, 0, 0.5, settings={"hidden": hidden}) for hidden in ([16], [32, 8], "default")]
    blocks = named(general_blocks("study", {"study": words}))
    assert list(texts(blocks["study-table"])["ε = 4"])[1:] == ["gap-edp, hidden [32, 8]", "gap-edp, hidden default"]


def test_without_a_score_there_is_nothing_to_compare() -> None:
    cell = {"kind": "train", "method": "mlp", "dataset": "mine", "epsilon": 4, "seed": 0}
    assert general_blocks("study", {"study": [Record("study", cell, OK, {"test_accuracy": None})]}) == []


def test_records_of_cells_come_in_the_order_of_the_cells() -> None:
    records = [fitted("gap-edp", 4, seed, 0.5) for seed in (2, 0, 1)]
    cells = [record.cell for record in sorted(records, key=lambda r: r.cell["seed"])][:2]
    assert [r.cell["seed"] for r in of_cells(records, cells)] == [0, 1]
