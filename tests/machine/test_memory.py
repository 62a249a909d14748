"""What would not fit into memory is refused with the number needed, from public sizes, before it is made."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import caribou as cb
from caribou import methods
from caribou.errors import InputError
from caribou.machine import memory
from caribou.mechanisms.bounded_rows import Rows
from caribou.mechanisms.neighbour_sums import noisy_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS
from caribou.methods.caribou import unit_rows
from caribou.methods.dpdgc import check_size
from caribou.methods.votes import VotesEdge
from caribou.models.classifier import ClassifierConfig, fit_classifier
from caribou.models.features import unit_root_rows, with_random_features
from caribou.privacy.calibration import calibrate_sums
from caribou.privacy.sensitivity import sum_sensitivity
from caribou.randomness import Streams

GRAPH = cb.datasets.load("csbm", nodes=100, classes=4, features=8, seed=0)


def test_the_machine_or_its_container_sets_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_CGROUP_LIMIT", limit)
    physical = memory.machine_memory()
    assert 2**28 < physical < 2**50
    limit.write_text("1048576\n")
    assert memory.machine_memory() == 2**20
    limit.write_text("max\n")
    assert memory.machine_memory() == physical
    memory.require_memory(physical, "as much as there is")
    with pytest.raises(InputError, match=rf"more must fit into memory \({physical / 2**30:.3g} GiB\), got about"):
        memory.require_memory(physical + 1, "more")


def sums(hops: int = 2) -> object:
    calibrated = calibrate_sums(sum_sensitivity("edge"), hops=hops, mu=1.0, nodes=100, columns=5)
    return noisy_sums(GRAPH.adjacency(np.float64), np.zeros((100, 5)), calibrated, NoiseSource.seeded(0))


def classifier() -> object:
    inputs, labels = [np.zeros((100, 5)), np.zeros((100, 3))], np.zeros(100, dtype=int)
    config, part = ClassifierConfig(hidden=16, epochs=1), np.arange(5)
    return fit_classifier(inputs, labels, train=part, val=part, classes=4, config=config, seed=0)


@pytest.mark.parametrize(
    ("start", "needed", "words"),
    [
        (sums, 8 * 100 * 5 * 7, "2 noisy sums of 100 nodes with 5 columns"),
        (
            classifier,
            4 * (10 * (8 + 5 * 32) + 100 * 4 * 32) + 8 * 100 * 8,
            "classifier of 100 nodes with 2 inputs and hidden = 16",
        ),
        (
            lambda: VotesEdge(max_rounds=3).require_memory_for(GRAPH.sizes("edge")),
            8 * 100 * 4 * (12 + 8),
            "answers of up to 4 rounds to 100 nodes in 4 classes",
        ),
        (
            lambda: check_size(GRAPH.sizes("edge")),
            8 * 6 * 100 * 4,
            "weights of dpdgc, a row for each of 100 nodes and 4 classes",
        ),
        (lambda: unit_rows(GRAPH), 8 * 6 * 100 * 8, "messages of 100 nodes with all 8 features"),
        (lambda: unit_root_rows(np.ones((100, 8))), 8 * 4 * 100 * 8, "rows of 100 nodes with 8 dense columns"),
        (
            lambda: with_random_features(Rows.of(np.ones((100, 8))), np.ones((8, 30)), share=0.1),
            8 * 3 * 100 * 30,
            "30 random features of 100 nodes",
        ),
    ],
)
def test_each_part_names_what_it_needs(
    start: Callable[[], object], needed: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: needed - 1)
    with pytest.raises(InputError, match=rf"{re.escape(words)}.* must fit into memory"):
        start()
    monkeypatch.setattr(memory, "machine_memory", lambda: needed)
    start()


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        (
            "sage-ndp",
            {},
            r"neighbourhoods of 140,000 training nodes with 30,000,000 columns .* got about 9.39e\+04 GiB",
        ),
        (
            "mlp",
            {"hidden": [64, 16]},
            r"encoder of 200,000 nodes with 30,000,000 columns and hidden = \[64, 16\] .* got about 1[67]\d GiB",
        ),
        ("gap-edp", {"hidden": [512]}, r"hidden = \[512\] .* GiB"),
        ("sage-edp", {"hidden": 50_000}, r"GraphSAGE on 200,000 nodes with hidden = 50000, layers = 2 .* GiB"),
        ("lapgraph-edp", {"hidden": 50_000}, r"GraphSAGE on 200,000 nodes .* GiB"),
        ("caribou-edp", {"messages": "features"}, r"messages of 200,000 nodes with all 30,000,000 features .* GiB"),
    ],
)
def test_a_graph_that_is_too_wide(name: str, settings: dict, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sparse features take hardly any room themselves; what would be made of them is refused before it is made."""
    monkeypatch.setattr(memory, "machine_memory", lambda: 64 * 2**30)
    n, d = 200_000, 30_000_000
    graph = cb.Graph.from_edges(sp.csr_array((n, d), dtype=np.float32), [[0], [1]], labels=np.arange(n) % 2, classes=2)
    info = METHODS[name]
    budget = cb.Budget(4.0 if info.private else math.inf, 1e-5, info.unit)
    with pytest.raises(InputError, match=words):
        methods.fit(info.create(**settings), graph.random_split(0), budget, Streams(0), NoiseSource.seeded(0))


@pytest.mark.parametrize("name", [name for name, info in METHODS.items() if info.unit is cb.PrivacyUnit.NODE])
def test_rows_that_do_not_fit_cost_nothing_at_node_level(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    graph, ledger = cb.datasets.load("csbm:nodes=100,features=8", seed=0), tmp_path / "ledger.sqlite"
    monkeypatch.setattr(memory, "machine_memory", lambda: 8 * 4 * 100 * 8 - 1)
    with pytest.raises(InputError, match="must fit into memory"):
        methods.fit(METHODS[name].create(), graph, cb.Budget(4.0, 1e-5, "node"), Streams(0), ledger=ledger)
    assert not ledger.exists()
