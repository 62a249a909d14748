"""The examples: released embeddings carry what features do not, and the demonstration runs from graph to certificate."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def module_of(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main_of(name: str) -> Callable[[], dict[str, float]]:
    return module_of(name).main


@pytest.mark.usefixtures("quick_learning")
def test_link_prediction() -> None:
    auc = main_of("link_prediction")()
    assert auc["features"] < 0.55
    assert auc["8"] > 0.65
    assert auc["inf"] >= auc["8"] - 0.03 > auc["1"] - 0.05


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
    files = {"accuracy.png", "caribou-edp", "convergence.png", "ledger.sqlite", "votes-edp"}
    assert {p.name for p in (tmp_path / "demo-output").iterdir()} == files
    said = capsys.readouterr().out
    assert "verified: private, epsilon = 4" in said
    assert "a third fit is refused" in said
