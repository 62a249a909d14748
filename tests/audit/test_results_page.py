"""The tables of docs/audit-results.md are what the records give."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_of_attacks", ROOT / "benchmarks" / "audit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_come_from_the_records(benchmark: ModuleType, tmp_path: Path) -> None:
    copy = tmp_path / "page.md"
    copy.write_text(benchmark.PAGE.read_text())
    benchmark.write_page(copy)
    assert copy.read_text() == benchmark.PAGE.read_text(), "run: python benchmarks/audit.py --table"


def test_records_are_complete(benchmark: ModuleType) -> None:
    for attack in ("linkteller", "gmia"):
        for record in benchmark.records(attack):
            assert {"config", "seed", "result", "seconds", "versions", "commit"} <= set(record)
            assert 0 <= record["result"]["auc"] <= 1
            json.dumps(record)


def test_without_privacy_linkteller_finds_nine_tenths(benchmark: ModuleType) -> None:
    found = [
        r["result"]["auc"] for r in benchmark.records("linkteller") if r["config"]["method"] in ("gcn", "sage-inf")
    ]
    assert found
    assert min(found) >= 0.9


def test_cells(benchmark: ModuleType) -> None:
    assert benchmark.cell([0.5]) == "0.500 (1)", "one seed has no interval"
    assert benchmark.cell([0.4, 0.5, 0.6, None]) == "0.500 ± 0.248 (3)"
    assert benchmark.cell([None]) == ""
    assert benchmark.of_the_paper("linkteller", "cora", 1.0) == "0.427"
