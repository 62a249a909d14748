"""The report says what the records say, on every screen, and survives damaged records."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from caribou.errors import InputError
from caribou.experiments.grid import available
from caribou.experiments.records import FAILED, OK, Record, append, read_all, result_file
from caribou.reports import paper
from caribou.reports.blocks import NOT_RUN, Entry, Table
from caribou.reports.figures import styles
from caribou.reports.items import ITEMS
from caribou.reports.page import sections, write_report
from caribou.reports.summary import mean_of

ROOT = Path(__file__).parents[2]
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


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
    for experiment in available(ROOT / "experiments"):
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
    known = {e.name: e for e in available(ROOT / "experiments")}
    return write_report(tmp_path_factory.mktemp("report") / "out", sections(records, known, "smoke"), problems, "smoke")


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


def test_half_widths_and_the_papers_figures_are_columns_of_their_own() -> None:
    rows = (
        (Entry("gap"), Entry("80.2 ± 4.7", 0.802, "84.3"), Entry(NOT_RUN, paper="1.0"), Entry("60.0", title="1 seed")),
    )
    table = Table("t", "T", ("method", "a", "b", "c"), (("ε = ∞", rows),), "50 % of it.")
    assert table.to_csv().splitlines() == [
        "group,method,a,a (half width),a (paper),b,b (paper),c",
        "ε = ∞,gap,80.2,4.7,84.3,not run,1.0,60.0",
    ]
    html = table.to_html()
    assert '<span class="none">not run</span><small class="paper">1.0</small>' in html
    assert "60.0 <small>(1 seed)</small>" in html
    assert "80.2 ± 4.7 <small>(" not in html
    latex = table.to_latex()
    assert r"$\varepsilon$ = $\infty$" in latex
    assert latex.startswith("% T. 50 % of it.\n")


def test_lines_of_one_figure_differ() -> None:
    labels = [*(f"gap-edp, ε = {e}" for e in (1, 2, 4, 8, 16, 32)), "gap-inf"]
    for group in (labels, ["linear", "caribou, exact", "caribou, the paper's formula"]):
        looks = styles(group)
        assert len({(look["color"], look["marker"], look["linestyle"]) for look in looks.values()}) == len(group)


def test_the_paper_has_no_costs_without_privacy() -> None:
    assert paper.overhead("seconds_3_runs", "gap-edp", "cora") is not None
    assert paper.overhead("seconds_3_runs", "gap-inf", "cora") is None


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


def test_what_is_missing_is_said_with_its_command(results: Path) -> None:
    records, _ = read_all(results)
    known = {e.name: e for e in available(ROOT / "experiments")}
    parts = {part.item.experiment: part for part in sections({"motivation": records["motivation"]}, known, "smoke")}
    assert parts["motivation"].missing == 0
    assert parts["failure"].missing == len(known["failure"].cells("smoke"))
    assert parts["failure"].command == "caribou run experiments/failure.toml --scale smoke --resume --out results"
    assert not parts["failure"].blocks


def test_the_same_records_give_the_same_files(page: Path, results: Path, tmp_path: Path) -> None:
    records, problems = read_all(results)
    known = {e.name: e for e in available(ROOT / "experiments")}
    again = write_report(tmp_path / "again", sections(records, known, "smoke"), problems, "smoke")
    for file in page.parent.iterdir():
        assert (again.parent / file.name).read_bytes() == file.read_bytes(), file.name


def test_columns_stand_in_the_order_of_the_file_whatever_was_run_first(page: Path, results: Path) -> None:
    records, _ = read_all(results)
    known = {e.name: e for e in available(ROOT / "experiments")}
    backwards = {"edge-accuracy": records["edge-accuracy"][::-1]}
    (part,) = (p for p in sections(backwards, known, "smoke") if p.item.experiment == "edge-accuracy")
    written = (page.parent / "edge-accuracy-table.csv").read_text()
    assert part.blocks[0].to_csv().splitlines()[0] == written.splitlines()[0]
    assert written.splitlines()[0].index("chain-s") < written.splitlines()[0].index("csbm")


def test_best_and_second_are_marked_once_per_column(page: Path) -> None:
    latex = (page.parent / "edge-accuracy-table.tex").read_text()
    assert latex.count(r"\textbf{") == latex.count(r"\underline{") == 2  # two data sets, two methods


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(InputError, match="out must be a new folder or an earlier report"):
        write_report(tmp_path, [], [], "smoke")
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: the page is not rendered")
@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_overflows_and_nothing_is_logged(page: Path, width: int, tmp_path: Path) -> None:
    probe = tmp_path / "probe.html"
    script = (
        "<script>window.addEventListener('load', () => { const d = document.documentElement;"
        "document.title = 'widths ' + d.scrollWidth + ' ' + d.clientWidth; });</script></body>"
    )
    probe.write_text(page.read_text().replace("</body>", script))
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --enable-logging=stderr --v=0"
    )
    # headless windows have a least width; an iframe gives the page the width of a phone
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<iframe src="probe.html" style="width:{width}px;height:3000px;border:0" onload="'
        'document.title=this.contentDocument.title"></iframe>'
    )
    done = subprocess.run(
        [str(CHROMIUM), *flags.split(), "--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}",
         "--dump-dom", "--virtual-time-budget=5000", frame.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found = re.search(r"<title>widths (\d+) (\d+)</title>", done.stdout)
    assert found, done.stdout[:500]
    assert int(found[1]) <= int(found[2]), "the page is wider than the screen"
    assert "CONSOLE" not in done.stderr
