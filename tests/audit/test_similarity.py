"""The similarity attack: what it finds in posteriors, beside what features alone tell."""

from __future__ import annotations

import numpy as np
import pytest

from audit.known_bad_mechanisms.leaky import NOTHING, SAGE, STREAMS, TIGHT, block_graph, content
from caribou.audit import similarity
from caribou.audit.linkteller import Setting
from caribou.audit.similarity import correlations
from caribou.methods.edge.sage import SageEdge
from caribou.randomness import Streams


def test_correlations_are_numpys_where_columns_are_centred() -> None:
    rows = np.random.default_rng(0).standard_normal((6, 4))
    centred = rows - rows.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1)
    assert correlations(rows) == pytest.approx(centred @ centred.T / np.outer(lengths, lengths))
    assert not correlations(np.ones((3, 2))).any(), "equal rows have no direction"


def test_posteriors_tell_more_than_features_without_privacy_only() -> None:
    graph = block_graph(200)
    before = content(graph)
    setting = Setting(200)
    deep = SageEdge(hidden=16, layers=3, epochs=40)
    leaky = similarity.attack(deep, graph, NOTHING, STREAMS, runs=3, setting=setting)
    private = similarity.attack(SAGE, graph, TIGHT, STREAMS, runs=3, setting=setting)
    assert leaky.auc > leaky.details["auc_of_features"] + 0.1
    assert leaky.auc > private.auc + 0.1
    assert private.auc < private.details["auc_of_features"] + 0.05
    assert not private.details["bound_applies"]
    assert content(graph) == before


def test_equal_seeds_give_equal_results() -> None:
    graph = block_graph(80)
    one, two, other = (similarity.attack(SAGE, graph, TIGHT, Streams(s), runs=1).to_json() for s in (1, 1, 2))
    assert one == two
    assert one != other
