"""Rounding errors and grids: the stated bounds, and that they are negligible."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caribou.graph import Graph
from caribou.graph.operator import normalize
from caribou.privacy.arithmetic import STORAGES, double_precision, grid_spacing, single_storage, sum_arithmetic
from caribou.privacy.sensitivity import Bounds


@given(noise_std=st.floats(1e-6, 1e6))
def test_grid_is_a_power_of_two_just_below_2_to_the_minus_28_of_the_noise(noise_std: float) -> None:
    g = grid_spacing(noise_std=noise_std)
    assert math.log2(g) == round(math.log2(g))
    assert 2.0**-29 < g / noise_std <= 2.0**-28


def test_bounds_by_their_closed_forms() -> None:
    """The statements of the docstrings, with u = 2^-53: 1000 nodes, 16 columns, beta = 0.5."""
    u, n, d = 2.0**-53, 1000, 16
    double = double_precision(nodes=n, columns=d, residual=0.5)
    assert double.fixed == pytest.approx((n + d + 32) * u * math.sqrt(n) * 1.5)
    assert double.per_noise_std == pytest.approx((2.0**-28 + 16 * u) * math.sqrt(n * d))
    assert double.error(3.0) == double.fixed + 3.0 * double.per_noise_std
    single = single_storage(nodes=n, columns=d, residual=0.5)
    assert single.fixed - double.fixed == pytest.approx(2.0**-24 * math.sqrt(n) * 1.5, rel=1e-5)
    assert single.per_noise_std == double.per_noise_std
    assert (double.storage, single.storage) == ("double", "single")
    assert {name: bound(nodes=2, columns=1, residual=0.0).storage for name, bound in STORAGES.items()} == {
        "double": "double",
        "single": "single",
    }


def test_sums_on_the_grid_are_exact_and_clipped_ones_are_not() -> None:
    exact = sum_arithmetic(nodes=100, columns=4, radius=None)
    assert exact.error(7.0) == 0
    clipped = sum_arithmetic(nodes=100, columns=4, radius=2.0)
    assert clipped.fixed == pytest.approx(12 * 2.0**-53 * 2.0 * 10)
    assert clipped.per_noise_std == pytest.approx(2.0**-28 * 20)


@given(n=st.integers(2, 40), d=st.integers(1, 5), floor=st.integers(0, 5), seed=st.integers(0, 10**6))
@settings(max_examples=40)
def test_a_product_in_double_precision_errs_by_less_than_its_bound(n: int, d: int, floor: int, seed: int) -> None:
    """W X in double precision against exact fractions of the same doubles, for random graphs and rows of length 1."""
    rng = np.random.default_rng(seed)
    graph = Graph.from_edges(np.zeros((n, 1)), rng.integers(0, n, (2, 3 * n)))
    w = normalize(graph, Bounds(degree_floor=floor)).matrix.to_dense().numpy()
    x = rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    exact = [[sum(Fraction(a) * Fraction(b) for a, b in zip(row, column, strict=True)) for column in x.T] for row in w]
    error = math.sqrt(
        float(
            sum(
                (Fraction(v) - e) ** 2
                for row, es in zip(w @ x, exact, strict=True)
                for v, e in zip(row, es, strict=True)
            )
        )
    )
    assert error <= double_precision(nodes=n, columns=d, residual=0.0).fixed
