"""What pages take from records is what the records say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from reproduction.items import ITEMS

from caribou.experiments.grid import Experiment, available
from caribou.experiments.records import FAILED, OK, Record, cell_key, latest, read
from reproduction import pages

ROOT = Path(__file__).parents[2]
TABLE = Experiment("table", "A table", "", "train", ({"method": ["a", "b"], "dataset": "cora", "seeds": 3},), {})


def record(method: str, seed: int, status: str = OK, **measures: float) -> Record:
    return Record("table", {"kind": "train", "method": method, "dataset": "cora", "seed": seed}, status, measures)


def test_pages_are_up_to_date() -> None:
    for page, content in pages.pages().items():
        assert page.read_text(encoding="utf-8") == content, "run: make result-pages"


def test_figures_in_the_words_about_downstream_tasks_stand_in_its_tables() -> None:
    tables, words = pages.DOWNSTREAM_PAGE.read_text(encoding="utf-8").split("## What works and what does not")
    figures = re.findall(r"\b(?:0\.\d{3}|\d{2,3}\.\d)\b", words)
    rows = "\n".join(line for line in tables.split("\n") if line.startswith("|"))
    assert len(figures) > 10
    assert not [figure for figure in figures if not re.search(rf"[|±] {re.escape(figure)} ", rows)]


def test_minutes_by_kind_over_two_cores_with_a_shared_encoder_once() -> None:
    first = record("a", 0, cpu_seconds=300.0)
    again = record("a", 1, cpu_seconds=300.0, shared_cpu_seconds=180.0)
    failed = record("b", 0, FAILED)
    # a: (300 + 120) / 2 = 210 s on average, three cells, two cores
    assert pages.minutes(TABLE, [first, again, failed]) == "> 5 (time known for 3 of 6 cells)"
    other = record("b", 1, cpu_seconds=60.0)
    assert pages.minutes(TABLE, [first, again, failed, other]) == "7"
    assert pages.minutes(TABLE, [record("a", 0, cpu_seconds=1.0), record("b", 0, cpu_seconds=1.0)]) == "< 1"
    assert pages.minutes(TABLE, []) == pages.minutes(TABLE, [record("a", 0, test_accuracy=0.5)]) == "n.m."


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


def test_a_page_without_marks_is_an_error() -> None:
    cell = {"kind": "audit", "attack": "lira", "dataset": "cora", "method": "gap-ndp", "epsilon": 1, "seed": 0}
    rates = {"0.01": 0.1, "0.1": 0.2}
    measured = Record("audit", cell, OK, {"auc": 0.5, "tpr_at_fpr": rates, "tpr_allowed": rates})
    with pytest.raises(ValueError, match="marks of audit-lira"):
        pages.audit_page("nothing here", [measured])
