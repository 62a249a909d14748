"""Encoders that cells share: the same results as without sharing, and the cost of a whole fit."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import caribou as cb
from caribou.experiments.encoders import ENCODERS, FitFolder, encoder_name, prior_name
from caribou.experiments.measures import measure
from caribou.experiments.worker import measure_on_one_thread
from caribou.models.encoder import FOLDS, cross_fit, fit_one, kept_encoders
from caribou.models.objective import USUAL
from caribou.randomness import Streams

pytestmark = pytest.mark.usefixtures("quick_learning")
CELL = {"kind": "train", "method": "gap-edp", "dataset": "csbm:nodes=120", "epsilon": 4, "seed": 1}
TIMES = {"seconds", "cpu_seconds", "peak_mb", "peak_mb_before", "shared_cpu_seconds"}


def results(measures: dict) -> dict:
    return {name: value for name, value in measures.items() if name not in TIMES}


def test_a_shared_encoder_gives_the_same_results_and_is_charged(tmp_path: Path) -> None:
    alone = measure(CELL, None)
    first = measure_on_one_thread(CELL, None, tmp_path)
    again = measure_on_one_thread(CELL, None, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    assert results(alone) == results(first) == results(again)
    assert "shared_cpu_seconds" not in first
    assert 0 < again["shared_cpu_seconds"] < again["cpu_seconds"]


def test_a_shared_prior_gives_the_same_results_and_is_charged(tmp_path: Path) -> None:
    cell = {**CELL, "method": "votes-edp"}
    alone = measure(cell, None)
    first = measure_on_one_thread(cell, None, tmp_path)
    again = measure_on_one_thread(cell, None, tmp_path)
    other = measure_on_one_thread({**cell, "seed": 2}, None, tmp_path)
    assert results(alone) == results(first) == results(again)
    assert "shared_cpu_seconds" not in first
    assert "shared_cpu_seconds" not in other
    assert 0 < again["shared_cpu_seconds"] < again["cpu_seconds"]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_prior_is_kept_apart_by_graph_seed_and_weights() -> None:
    graph = cb.datasets.load("csbm", nodes=60, seed=0)
    other = graph.random_split(5)
    names = {prior_name(key) for key in ((graph, 0, None), (graph, 1, None), (graph, 0, "balanced"), (other, 0, None))}
    assert len(names) == 4
    assert prior_name((graph.without_edge(*graph.edge_index[:, 0]), 0, None)) in names


def test_another_method_starts_from_the_same_encoder_another_split_does_not(tmp_path: Path) -> None:
    measure_on_one_thread(CELL, None, tmp_path)
    assert "shared_cpu_seconds" in measure_on_one_thread({**CELL, "method": "caribou-edp"}, None, tmp_path)
    assert "shared_cpu_seconds" not in measure_on_one_thread({**CELL, "seed": 2}, None, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("change", ["features", "labels", "seed", "hidden", "folds"])
def test_whatever_an_encoder_is_fitted_on_keeps_it_apart(change: str, tmp_path: Path) -> None:
    graph = cb.datasets.load("csbm", nodes=60, seed=0)
    features, labels = np.array(graph.features), np.array(graph.labels)
    with kept_encoders(FitFolder(tmp_path, ENCODERS)):
        cross_fit(graph, Streams(0), (4,))
        if change == "features":
            features[3, 0] += 1e-6
        if change == "labels":
            labels[graph.split.train[0]] = (labels[graph.split.train[0]] + 1) % graph.num_classes
        other = cb.Graph.from_edges(features, graph.edge_index, labels=labels, split=graph.split)
        fit = fit_one if change == "folds" else cross_fit
        fit(other, Streams(int(change == "seed")), (5,) if change == "hidden" else (4,))
    assert len(list(tmp_path.iterdir())) == 2


def test_edges_have_no_part_in_it(tmp_path: Path) -> None:
    """An encoder reads no edge, so graphs that differ in edges only share one."""
    graph = cb.datasets.load("csbm", nodes=60, seed=0)
    other = graph.without_edge(*map(int, graph.edge_index[:, 0]))
    with kept_encoders(FitFolder(tmp_path, ENCODERS)):
        first, again = (cross_fit(g, Streams(0), (4,)) for g in (graph, other))
    assert len(list(tmp_path.iterdir())) == 1
    assert np.array_equal(first.probabilities, again.probabilities)


def test_dense_and_sparse_features_are_told_apart(tmp_path: Path) -> None:
    """They are scaled differently."""
    graph = cb.datasets.load("csbm", nodes=60, seed=0)
    sparse = cb.Graph.from_edges(sp.csr_array(graph.features), graph.edge_index, labels=graph.labels, split=graph.split)
    names = {encoder_name((g, Streams(0), (4,), FOLDS, USUAL)) for g in (graph, sparse)}
    assert len(names) == 2


def test_a_folder_that_was_cleaned_up_costs_another_fit_and_no_cell(tmp_path: Path) -> None:
    graph, folder = cb.datasets.load("csbm", nodes=60, seed=0), tmp_path / "encoders"
    found = []
    for _ in range(2):
        with kept_encoders(FitFolder(folder, ENCODERS)):
            found.append(cross_fit(graph, Streams(0), (4,)).probabilities)
        assert len(list(folder.iterdir())) == 1
        shutil.rmtree(folder)
    assert np.array_equal(*found)
