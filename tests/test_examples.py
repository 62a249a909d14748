"""The examples: released embeddings carry what features do not, and the demonstration runs from graph to certificate."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caribou.privacy.ledger import Ledger

EXAMPLES = Path(__file__).parents[1] / "examples"


def module_of(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def main_of(name: str) -> Callable[[], dict[str, float]]:
    return module_of(name).main


@pytest.mark.usefixtures("quick_learning")
def test_twelve_months_cost_one_epsilon(tmp_path: Path) -> None:
    """A year of a small bank, killed after month 2: the same call makes the rest, and nothing is charged twice."""
    year = module_of("twelve_months")
    bank = year.Bank(accounts=300, transfers=2000, new_accounts=90, new_transfers=800)
    first = year.main(tmp_path / "year", months=3, bank=bank)
    ledger = Ledger(tmp_path / "year" / "ledger.sqlite")
    before = [entry.certificate_id for entry in ledger.entries()]
    figures = year.main(tmp_path / "year", bank=bank)
    assert [m.month for m in figures] == list(range(12))
    assert [m.average_precision for m in figures[:3]] == [m.average_precision for m in first]
    entries = ledger.entries()
    assert [entry.certificate_id for entry in entries[:3]] == before
    assert [entry.extends for entry in entries] == [None, *(entry.certificate_id for entry in entries[:-1])]
    assert ledger.total(year.NAME, "edge").epsilon_spent == pytest.approx(year.EPSILON, rel=1e-4)
    assert all(m.epsilon_so_far == pytest.approx(year.EPSILON, rel=1e-4) for m in figures)
    assert np.mean([m.accuracy for m in figures]) > 0.9
    assert np.mean([m.average_precision for m in figures[1:]]) > 0.3, "a class of 4 % at random: 0.05"


def test_the_attack_on_the_year_proves_most_of_epsilon_and_never_more() -> None:
    year = module_of("twelve_months")
    assert 0.8 * 2.0 <= year.proven_epsilon(epsilon=2.0) <= 2.0
    assert year.proven_epsilon(epsilon=2.0, fault=True) > 1.2 * 2.0


def test_graph_pooling() -> None:
    accuracy = main_of("graph_pooling")()
    assert accuracy["features"] < 0.7
    assert accuracy["4"] > 0.85
    assert accuracy["inf"] > 0.9


@pytest.mark.usefixtures("quick_learning")
def test_the_demo_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it but the time: the encoder in a few steps, and one thread in the place of two processes."""
    demo = module_of("demo")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    demo.main()
    files = {"accuracy.png", "caribou-edp", "ledger.sqlite", "votes-edp"}
    assert {p.name for p in (tmp_path / "demo-output").iterdir()} == files
    said = capsys.readouterr().out
    assert "verified: private, epsilon = 4" in said
    assert "a third fit is refused" in said


def test_regression() -> None:
    error = main_of("regression")()
    assert error["inf"] < 0.3 < error["4"] < error["columns alone"] - 0.3 < error["mean"]


def test_multilabel() -> None:
    score = main_of("multilabel")()
    assert score["inf"] > score["4"] > score["columns alone"] + 0.02


@pytest.fixture
def methods_as_they_were() -> Iterator[None]:
    """Whatever is registered inside is forgotten."""
    from caribou.methods import METHODS

    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)
    sys.modules.pop("own_method", None)


@pytest.mark.usefixtures("methods_as_they_were")
def test_a_method_of_ones_own_in_thirty_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It uses public names only, and works where methods of the library do: in train, run and audit."""
    import inspect
    import json

    import caribou as cb
    from caribou.experiments.measures import measure
    from caribou.methods.catalogue import METHODS, OWN_METHODS
    from cli_support import run

    file = EXAMPLES / "own_method.py"
    monkeypatch.setenv(OWN_METHODS, "")  # restored afterwards, whatever the command sets
    done = run(
        "--methods", file, "train", "label-counts", "--dataset", "csbm:nodes=120", "--json", "--out", tmp_path / "run"
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["test_accuracy"]["mean"] > 0.5
    assert document["certificate"]["mechanisms"][0]["mechanism"] == "own mechanism"
    assert "label-counts" in run("--methods", file, "methods").stdout
    cell = {"kind": "train", "method": "label-counts", "dataset": "csbm:nodes=100", "epsilon": 4, "seed": 0}
    assert measure(cell, None)["epsilon_spent"] == pytest.approx(4, rel=1e-3)
    audited = run("audit", "label-counts", "--attack", "distinguish", "--runs", "200", "--workers", "1", "--json")
    assert json.loads(audited.stdout)["verdict"] != "VIOLATED"
    assert cb.load(tmp_path / "run").predict().shape == (120,)
    cls = METHODS["label-counts"].own
    code = [line for line in inspect.getsource(cls).splitlines() if line.strip()]  # type: ignore[arg-type]
    assert len(code) <= 34
    imported = [line for line in file.read_text().splitlines() if "import" in line and "caribou" in line]
    assert imported == ["import caribou as cb"]


NOTEBOOKS = {
    "fraud_in_ten_minutes": {"ACCOUNTS, TRANSFERS = 5_000, 21_000": "ACCOUNTS, TRANSFERS = 900, 4_500"},
    "node_level": {"ACCOUNTS, TRANSFERS = 5_000, 21_000": "ACCOUNTS, TRANSFERS = 900, 4_500"},
    "audit": {"RUNS = 2_000": "RUNS = 200"},
    "own_method": {"NODES = 1_000": "NODES = 150"},
}
"""The notebooks, with the line of sizes that a test makes smaller."""


@pytest.mark.usefixtures("quick_learning", "methods_as_they_were")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(NOTEBOOKS))
def test_notebooks_run_from_the_first_cell_to_the_last(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are scripts in cells: what they promise in words they assert at their ends."""
    text = (EXAMPLES / "notebooks" / f"{name}.py").read_text(encoding="utf-8")
    assert text.startswith("# %% [markdown]\n# # ")
    for line, smaller in NOTEBOOKS[name].items():
        assert line in text
        text = text.replace(line, smaller)
    monkeypatch.chdir(EXAMPLES.parent)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    module = types.ModuleType(f"{name}_notebook")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look themselves up there
    cells = vars(module)
    exec(compile(text, f"{name}.py", "exec"), cells)
    said = capsys.readouterr().out
    if name == "fraud_in_ten_minutes":
        assert all(0 < score <= 1 for score in cells["average_precision"].values())
        assert "tables must be mended in" in said
        assert set(cells["scored"]["id"]) == set(cells["accounts"]["id"])
    elif name == "node_level":
        assert "--range" in said
    elif name == "own_method":
        assert cells["scores"][16.0] > 0.5


def test_every_notebook_is_run() -> None:
    assert {path.stem for path in (EXAMPLES / "notebooks").glob("*.py")} == set(NOTEBOOKS)
