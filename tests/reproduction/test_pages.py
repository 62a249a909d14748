"""What pages take from records is what the records say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from reproduction.items import ITEMS

from caribou.experiments.grid import available
from caribou.experiments.records import OK, cell_key, latest, read
from reproduction import pages

ROOT = Path(__file__).parents[2]


def test_pages_are_up_to_date() -> None:
    for page, content in pages.pages().items():
        assert page.read_text(encoding="utf-8") == content, "run: make result-pages"


def test_figures_in_the_words_about_downstream_tasks_stand_in_its_tables() -> None:
    tables, words = pages.DOWNSTREAM_PAGE.read_text(encoding="utf-8").split("## What works and what does not")
    figures = re.findall(r"\b(?:0\.\d{3}|\d{2,3}\.\d)\b", words)
    rows = "\n".join(line for line in tables.split("\n") if line.startswith("|"))
    assert len(figures) > 10
    assert not [figure for figure in figures if not re.search(rf"[|±] {re.escape(figure)} ", rows)]


def test_every_item_and_every_experiment_has_a_row() -> None:
    text = pages.README.read_text(encoding="utf-8")
    for item in ITEMS:
        assert f"| `caribou reproduce {item.name}` |" in text
    for experiment in available(ROOT / "reproduction" / "experiments"):
        rows = [line for line in text.split("\n") if line.startswith(f"| `{experiment.name}.toml`")]
        assert len(rows) == 1, experiment.name
        assert any(experiment.name in item.experiments for item in ITEMS), "nothing is measured for nothing"


@pytest.mark.parametrize(
    ("mark", "unit", "level"), [("edge", "edp", "edge"), ("node", "ndp", "node"), ("chains", "edp", "edge")]
)
def test_counts_of_wins_on_the_page_are_those_of_the_records(mark: str, unit: str, level: str) -> None:
    """Counted a second time, from the records, without the code that made the page."""
    experiments = available(ROOT / "reproduction" / "experiments")
    (grid,) = (e for e in experiments if e.name == f"{level}-accuracy")
    cells = {cell_key(cell) for cell in grid.cells("laptop")}
    accuracies: dict[tuple, list[float]] = {}
    for found in latest(read(ROOT / "reproduction" / "results", grid.name)[0]):
        cell = found.cell
        if found.status == OK and found.key in cells and cell.get("chosen") != "authors-top":
            changed = {**found.measures["settings"], **cell.get("settings", {})}
            name = {"authors-mean": "authors", True: "validated"}.get(cell.get("chosen"), "")
            if not cell["method"].startswith("caribou"):
                name = cell["method"]
            elif (
                changed.get("votes") or changed.get("leave_graph") or changed["messages"] in ("labels", "probabilities")
            ):
                name = "ours"
            key = (name, cell["dataset"], "any" if cell["method"] == "mlp" else cell["epsilon"])
            accuracies.setdefault(key, []).append(found.measures["test_accuracy"])
    means = {key: sum(values) / len(values) for key, values in accuracies.items()}
    graphs = ["chain-s:75", "chain-m:75", "chain-l:75", "chain-x:125"]
    if mark != "chains":
        graphs = ["cora", "pubmed", "berkeley13"]
        for name in ("photo", "computers"):
            whole = any(dataset == f"{name}:connected" for _, dataset, _ in means)
            graphs.append(f"{name}:connected" if whole else name)
    page = pages.CLAIMS_PAGE.read_text(encoding="utf-8")
    part = page.split(f"<!-- claims-{mark}: ")[1].split(f"<!-- end of claims-{mark} -->")[0]
    for face, title in (("authors", "CARIBOU, authors' settings"), ("validated", "CARIBOU, validated on our splits")):
        row = next(line for line in part.split("\n") if line.startswith(f"| {title} | ") and "(paper)" not in line)
        for shown, last in zip(
            row.split(" | ")[1:], ([], [("mlp", "any")] if unit == "edp" else [("mlp-dp", None)]), strict=True
        ):
            won = compared = 0
            for epsilon in (1, 2, 4, 8, 16, 32):
                for graph in graphs:
                    others = [(f"{rival}-{unit}", epsilon) for rival in ("gap", "sage", "dpdgc")]
                    others += [(name, at or epsilon) for name, at in last]
                    values = [means.get((name, graph, at)) for name, at in others]
                    own = means.get((face, graph, epsilon))
                    if own is not None and None not in values:
                        compared += 1
                        won += own >= max(values)
            assert shown.startswith(f"{won} of {compared} (" if compared else "not run"), (title, shown)
