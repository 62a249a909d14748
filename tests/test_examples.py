"""The examples on released embeddings: they carry what features do not, and more of it at a larger epsilon."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def main_of(name: str) -> Callable[[], dict[str, float]]:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


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
