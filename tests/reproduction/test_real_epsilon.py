"""On real graphs no node pays more than its degree is promised, and none within the declared degree more than the headline."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np
import pytest
from reproduction.real_epsilon import (
    BUDGET,
    DECLARED,
    RealGraph,
    measured_methods,
    paid_by,
    some_nodes,
)

import caribou as cb
from caribou.privacy.mechanism_records import Group

FILES = {"cora": "cora.npz", "photo": "amazon_photo.npz"}
DATA = Path(os.environ.get("CARIBOU_DATA", "/nonexistent"))


@functools.cache
def real_graph(name: str) -> RealGraph:
    if not (DATA / FILES[name]).exists():
        pytest.skip(f"CARIBOU_DATA must be a folder with {FILES[name]} to measure what its nodes pay")
    return RealGraph(cb.datasets.load(name, seed=0))


@pytest.mark.parametrize("name", ["cora", "photo"])
@pytest.mark.parametrize("title", measured_methods(1))
def test_no_node_pays_more_than_its_degree_is_promised(name: str, title: str) -> None:
    real = real_graph(name)
    method = measured_methods(DECLARED[name])[title]
    plan = method.plan(real.graph.sizes(BUDGET.unit), BUDGET)
    paid = paid_by(real, method, plan, some_nodes(real.graph, random=40, hubs=3))
    assert len(paid) > 40
    assert max(p.real / p.promised for p in paid if p.promised > 0) <= 1 + 1e-9
    assert {p.group for p in paid} == {Group.TRAINING, Group.VALIDATION, Group.OTHERS}
    limit = plan.scope.limit or real.graph.num_nodes
    covered = [p for p in paid if p.degree <= limit]
    assert np.mean([p.real <= p.headline * (1 + 1e-9) for p in covered]) >= 0.999
    assert np.mean(real.graph.degrees <= limit) > 0.998
    assert max(p.share for p in paid) > 0.1, "nothing moved: the worlds are the same"
