"""The method under audit: its claim comes from a fit without private edges, which is made once."""

from __future__ import annotations

import numpy as np
import pytest

from audit.known_bad_mechanisms.whole_methods import Sound
from caribou import methods
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.pairs import member_pair
from caribou.graph import Graph
from caribou.methods.mlp import MlpDp
from caribou.privacy.budget import Budget

EDGE, NODE = Budget(2.0, 1e-5), Budget(2.0, 1e-5, "node")


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """The graphs of all fits."""
    seen: list[Graph] = []
    fit = methods.fit
    monkeypatch.setattr(methods, "fit", lambda method, graph, *rest: seen.append(graph) or fit(method, graph, *rest))
    return seen


def test_weights_are_public_at_edge_level_and_fits_are_made_once(graphs: list[Graph]) -> None:
    audited = AuditedMethod("mine", Sound(), EDGE)
    assert audited.predicts_graphs
    assert audited.claim.mu == pytest.approx(audited.replay.of_prediction.cost[0].noise_multiplier ** -1)
    assert audited.fitted is audited.replay.fitted
    assert len(graphs) == audited.claim_fits == 2
    assert graphs[0].num_edges == 0, "the fit whose weights are used reads no edge"
    assert len(audited.certificates) == 3


@pytest.mark.parametrize("transductive", [False, True])
def test_other_methods_are_fitted_once(transductive: bool, graphs: list[Graph]) -> None:
    node = AuditedMethod("mine", MlpDp(), NODE)
    edge = AuditedMethod("mine", Sound(), EDGE, transductive=True)
    audited = edge if transductive else node
    assert not audited.predicts_graphs
    assert audited.certificates == (audited.fitted.certificate,)
    assert len(graphs) == audited.claim_fits == 1
    if transductive:
        assert graphs[0].num_edges == 0
    else:
        assert np.array_equal(graphs[0].features, member_pair().joined.features)
