"""Accuracy of ours, the paper's and features alone by data set, and the paper's figures are the paper's."""

from __future__ import annotations

from reproduction.panels import FEATURES, panels

from caribou.experiments.records import OK, Record
from reproduction import paper


def records(method: str, dataset: str, epsilon: float | str, **cell: object) -> list[Record]:
    base = {"kind": "train", "method": method, "dataset": dataset, "epsilon": epsilon}
    return [Record("t", {**base, "seed": s, **cell}, OK, {"test_accuracy": 0.5 + s / 100}) for s in range(3)]


def test_every_data_set_has_a_panel_in_the_paper_s_order() -> None:
    found = [
        r
        for dataset in ("pubmed", "cora")
        for r in (
            *records("mlp", dataset, "inf"),
            *(x for e in (1, 4) for x in records("votes-edp", dataset, e)),
            *(x for e in (1, 4) for x in records("caribou-edp", dataset, e, chosen="authors-mean")),
            *(x for e in (1, 4) for x in records("caribou-edp", dataset, e, chosen="authors-top")),
        )
    ]
    made = panels({"edge-accuracy": found}, "edge-accuracy")
    assert list(made) == ["Cora", "PubMed"]
    lines = made["Cora"]
    assert list(lines) == ["votes, ours", "caribou, run here", FEATURES, "caribou, paper"]
    assert lines["caribou, run here"][1].count == 3, "runs for the table of best seeds are left out"
    assert set(lines[FEATURES]) == {1, 4}, "what has no epsilon is level over all of them"
    published = {e: 100 * mean.value for e, mean in lines["caribou, paper"].items()}
    assert published[4] == paper.accuracy("mean", "caribou-edp", "cora", 4)
    assert set(published) == set(paper.EPSILONS)
    assert panels({}, "node-accuracy") == {}
