"""What node-level methods share: rows of bounded length, a linear head of exactly its mu, and the checks of shares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import caribou as cb
from caribou.mechanisms.bounded_rows import row_norms
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.mlp import centred
from caribou.methods.node_method import (
    calibrate_node_sums,
    fit_linear_head,
    messages,
    node_bounds,
    plan_head,
    side_by_side,
)
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.events import gaussian_mu
from caribou.privacy.sizes import Sizes

ROWS = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(2, 4)), elements=st.floats(-1e3, 1e3))


@given(ROWS)
def test_messages_have_mean_zero_and_length_at_most_one(logits: np.ndarray) -> None:
    sent = messages(logits)
    assert (row_norms(sent) <= 1 + 1e-12).all()
    assert np.abs(centred(logits).mean(axis=1)).max() <= 1e-12 * max(1.0, np.abs(logits).max())
    shifted = messages(logits + 7.0)
    assert np.allclose(shifted, sent, atol=1e-6) or row_norms(centred(logits)).min() < 1e-6


@given(ROWS, st.integers(1, 4))
def test_rows_side_by_side_have_length_at_most_one(part: np.ndarray, count: int) -> None:
    rows = side_by_side([part] * count)
    assert rows.shape == (len(part), count * part.shape[1])
    assert (row_norms(rows) <= 1 + 1e-12).all()


def test_sums_are_calibrated_to_mu_with_the_own_row_at_the_radius() -> None:
    """Theorem 6: one node moves the sums by sqrt(d + r^2), so the noise is that over mu; at sqrt(d) both parts are equal."""
    sizes = Sizes(nodes=50, columns=8, classes=3)
    for hops in (1, 3):
        for radius in (None, 4.0):
            bounds = node_bounds(sizes, None, 16)
            calibrated = calibrate_node_sums(sizes, 0.5, bounds=bounds, radius=radius, hops=hops)
            assert calibrated.noise_std == pytest.approx(np.sqrt(hops * (16 + 16)) / 0.5, rel=1e-4)


def test_the_head_costs_its_mu_and_is_a_function_of_the_noise() -> None:
    graph = cb.datasets.load("csbm:nodes=80", seed=1)
    plan = plan_head(graph.sizes(PrivacyUnit.NODE), 0.7, None)
    mu = gaussian_mu([plan.record.event])
    assert mu == pytest.approx(0.7, rel=1e-9)
    assert mu <= 0.7
    rows = side_by_side([np.asarray(graph.features, dtype=np.float64)])
    one, two, three = (fit_linear_head(plan, rows, graph, NoiseSource.seeded(s)) for s in (0, 0, 1))
    assert one.shape == (graph.num_features, graph.num_classes)
    assert np.array_equal(one, two)
    assert not np.array_equal(one, three)
    assert plan_head(graph.sizes(PrivacyUnit.NODE), 0.7, 10**5).schedule != plan.schedule
