"""Query modes: equal or fresh noise means what it says, and a method without predictions has its one release."""

from __future__ import annotations

import numpy as np
import pytest

from audit.known_bad_mechanisms.leaky import NOTHING, SAGE, STREAMS, TIGHT, block_graph
from caribou import methods
from caribou.audit.query_modes import (
    CACHED,
    FIXED,
    FRESH,
    logits,
    possible_modes,
    preferred_mode,
    query_of,
    refusal,
)
from caribou.errors import InputError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.dpdgc import Dpdgc
from caribou.randomness import Streams


def test_equal_noise_and_fresh_noise() -> None:
    graph = block_graph(60)
    fitted = methods.fit(SAGE, graph, TIGHT, STREAMS, NoiseSource.seeded(1))
    for mode, same in ((CACHED, True), (FIXED, True), (FRESH, False)):
        query = query_of(mode, SAGE, fitted, graph, TIGHT, STREAMS, Streams(3))
        assert np.array_equal(query(graph.features), query(graph.features)) == same, mode
    with pytest.raises(InputError, match="query_mode must be one of cached, fixed, fresh, got 'sideways'"):
        query_of("sideways", SAGE, fitted, graph, TIGHT, STREAMS, Streams(3))


def test_a_method_for_one_graph_says_why_it_predicts_no_other() -> None:
    graph = block_graph(60)
    assert "transductive" in refusal(Dpdgc(), graph, TIGHT)
    assert not refusal(SAGE, graph, TIGHT)


def test_which_modes_are_made_and_which_is_the_headline() -> None:
    for asked, budget, refused, modes, headline in [
        (None, TIGHT, "", (CACHED, FIXED, FRESH), CACHED),
        (None, NOTHING, "", (CACHED, FIXED), FIXED),
        (None, TIGHT, "transductive", (CACHED,), CACHED),
        (None, NOTHING, "transductive", (CACHED,), CACHED),
        ((FRESH, FIXED), TIGHT, "", (FRESH, FIXED), FIXED),
        ((FRESH,), NOTHING, "", (FRESH,), FRESH),
        ((FIXED,), TIGHT, "transductive", (CACHED,), CACHED),
    ]:
        assert possible_modes(asked, budget, refused) == modes
        assert preferred_mode(modes, budget) == headline


def test_logits_survive_zero_and_sum_to_zero() -> None:
    assert np.isfinite(logits(np.array([[1.0, 0.0]]))).all()
    p = np.array([[0.2, 0.3, 0.5]])
    assert logits(p).sum() == pytest.approx(0)
    assert np.exp(logits(p)) / np.exp(logits(p)).sum() == pytest.approx(p)
