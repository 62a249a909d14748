"""Rounding errors and grids: the stated bounds, and that they are negligible."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from caribou.privacy.arithmetic import grid_spacing


@given(noise_std=st.floats(1e-6, 1e6))
def test_grid_is_a_power_of_two_just_below_2_to_the_minus_28_of_the_noise(noise_std: float) -> None:
    g = grid_spacing(noise_std=noise_std)
    assert math.log2(g) == round(math.log2(g))
    assert 2.0**-29 < g / noise_std <= 2.0**-28
