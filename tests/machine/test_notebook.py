"""What a notebook shows: words that may be published, escaped, and nothing private."""

from __future__ import annotations

from pathlib import Path

import pytest

import caribou as cb
from caribou.machine.notebook import html_table
from caribou.metrics import Metrics
from caribou.privacy.ledger import Ledger


def test_cells_are_escaped() -> None:
    assert "&lt;script&gt;" in html_table("<script>", [("a<b", "<i>")])
    assert "<i>" not in html_table("x", [("a", "<i>")])


def test_graph_model_certificate_and_ledger(tmp_path: Path) -> None:
    graph = cb.datasets.load("csbm", nodes=70, seed=1)
    shown = graph._repr_html_()
    assert "<th>nodes</th><td>70</td>" in shown
    assert str(graph.num_edges) not in shown, "how many edges there are is private"
    assert str(len(graph.split.train)) in shown  # type: ignore[union-attr]
    model = cb.Model("mlp-dp", cb.Budget(4, 1e-5, "node"), clip=0.25)
    assert "not fitted" in model._repr_html_()
    assert "<th>clip</th><td>0.25</td>" in model._repr_html_()
    ledger = Ledger(tmp_path / "ledger.sqlite")
    model.fit(graph, ledger=ledger)
    assert "<th>certificate</th><td>private</td>" in model._repr_html_()
    assert "epsilon = 4, delta = 1e-05 at node level" in model.certificate._repr_html_()
    assert "Not protected" in model.certificate._repr_html_()
    shown = model.metrics()._repr_html_()
    assert f"<th>labelled nodes</th><td>{len(graph.split.test)}</td>" in shown  # type: ignore[union-attr]
    assert f"<th>average precision</th><td>{model.score(metric='ap'):.4g}</td>" in shown
    assert "for the curator alone" in shown
    assert "<td>node</td><td>1</td>" in ledger._repr_html_()
    assert "no budget is set" in ledger._repr_html_()


@pytest.mark.parametrize("cls", [cb.Graph, cb.Model, cb.Certificate, cb.Ledger, Metrics])
def test_every_object_that_users_hold_has_a_display(cls: type) -> None:
    assert callable(cls._repr_html_)  # type: ignore[attr-defined]
