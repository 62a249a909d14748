"""A process that measures cells: one thread, fits that cells share give the same results, and their cost is charged to all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import caribou as cb
from caribou.experiments.measures import measure
from caribou.experiments.worker import fit_name, measure_on_one_thread
from caribou.models.encoder import FOLDS
from caribou.models.objective import USUAL
from caribou.randomness import Streams

pytestmark = pytest.mark.usefixtures("quick_learning")
CELL = {"kind": "train", "method": "gap-edp", "dataset": "csbm:nodes=120", "epsilon": 4, "seed": 1}
TIMES = {"seconds", "cpu_seconds", "peak_mb", "peak_mb_before", "shared_cpu_seconds"}
GRAPH = cb.datasets.load("csbm", nodes=60, seed=0)


def results(measures: dict) -> dict:
    return {name: value for name, value in measures.items() if name not in TIMES}


@pytest.mark.parametrize(("method", "also"), [("gap-edp", "caribou-edp"), ("votes-edp", None)])
def test_a_shared_fit_gives_the_same_results_and_is_charged(method: str, also: str | None, tmp_path: Path) -> None:
    """An encoder, and a class prior; another method starts from the same encoder, another split does not."""
    cell = {**CELL, "method": method}
    alone = measure(cell, None)
    torch.set_num_threads(2)
    first = measure_on_one_thread(cell, None, tmp_path)
    assert torch.get_num_threads() == 1
    again = measure_on_one_thread(cell, None, tmp_path)
    assert results(alone) == results(first) == results(again)
    assert "shared_cpu_seconds" not in first
    assert 0 < again["shared_cpu_seconds"] < again["cpu_seconds"]
    if also is not None:
        assert "shared_cpu_seconds" in measure_on_one_thread({**cell, "method": also}, None, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    assert "shared_cpu_seconds" not in measure_on_one_thread({**cell, "seed": 2}, None, tmp_path)


def test_whatever_a_fit_is_made_of_keeps_it_apart() -> None:
    features, labels = np.array(GRAPH.features), np.array(GRAPH.labels)
    features[3, 0] += 1e-6
    labels[GRAPH.split.train[0]] = (labels[GRAPH.split.train[0]] + 1) % GRAPH.num_classes
    given = {"labels": GRAPH.labels, "split": GRAPH.split}
    graphs = (
        GRAPH,
        GRAPH.random_split(5),
        cb.Graph.from_edges(features, GRAPH.edge_index, **given),
        cb.Graph.from_edges(GRAPH.features, GRAPH.edge_index, labels=labels, split=GRAPH.split),
        cb.Graph.from_edges(sp.csr_array(GRAPH.features), GRAPH.edge_index, **given),  # scaled differently
    )
    encoder = (Streams(0), (4,), FOLDS, USUAL)
    keys = [(graph, *encoder) for graph in graphs]
    keys += [
        (GRAPH, Streams(1), *encoder[1:]),
        (GRAPH, Streams(0), (5,), FOLDS, USUAL),
        (GRAPH, Streams(0), (4,), 0, USUAL),
    ]
    keys += [(GRAPH, 0, None), (GRAPH, 1, None), (GRAPH, 0, "balanced")]
    names = {fit_name(key) for key in keys}
    assert len(names) == len(keys)
    assert fit_name((GRAPH.without_edge(*map(int, GRAPH.edge_index[:, 0])), *encoder)) in names, (
        "edges have no part in it"
    )
