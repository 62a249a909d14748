"""Cells of attacks (once per cell, with how noise was handled) and of downstream tasks (repeatable, by one release each)."""

from __future__ import annotations

import json

import pytest

from caribou.experiments.measures import measure
from caribou.methods.sage import SageEdge

pytestmark = pytest.mark.usefixtures("quick_learning")
GRAPH = "csbm:nodes=120,signal=2"
LINKTELLER = {
    "kind": "audit", "attack": "linkteller", "dataset": GRAPH, "method": "sage-edp", "epsilon": 4, "seed": 0, "nodes": 30,
    "query_modes": ["cached", "fresh"], "settings": {"epochs": 20, "hidden": 16},
}  # fmt: skip
TIMES = {"seconds", "cpu_seconds", "peak_mb", "peak_mb_before"}


def results(measures: dict) -> dict:
    return {name: value for name, value in measures.items() if name not in TIMES}


def test_linkteller_says_how_noise_was_handled_and_fits_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fits, fit = [], SageEdge.fit
    monkeypatch.setattr(SageEdge, "fit", lambda *args: fits.append(1) or fit(*args))
    found = measure(LINKTELLER, None)
    assert len(fits) == 1
    assert set(found["details"]["query_modes"]) == {"cached", "fresh"}
    assert found["details"]["query_mode"] == "cached", "what the certificate covers"
    assert found["auc"] == found["details"]["query_modes"]["cached"]["auc"] == 0.5
    assert "one release" in found["note"]
    assert found["details"]["nodes"] == 30
    assert found["settings"]["epochs"] == 20
    assert found["cpu_seconds"] > 0
    json.dumps(found, allow_nan=False)
    assert results(measure(LINKTELLER, None)) == results(found), "a cell can be measured again"


def test_without_privacy_edges_are_found() -> None:
    cell = {**LINKTELLER, "method": "sage-inf", "epsilon": "inf", "query_modes": ["cached", "fixed"]}
    found = measure(cell, None)
    assert found["details"]["query_mode"] == "fixed"
    assert found["auc"] > 0.9
    gcn = {name: value for name, value in cell.items() if name != "query_modes"} | {"method": "gcn"}
    assert measure(gcn, None)["auc"] > 0.9
