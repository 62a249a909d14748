"""A sum of clipped contributions with Gaussian noise: the pairing of bound and noise, and the allowance for rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from caribou.errors import InputError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.allocation import AllocatedPart
from caribou.privacy.arithmetic import grid_spacing


@dataclass(frozen=True)
class ClippedSum:
    """What each contribution to a sum must be clipped to, and the noise that the sum is then released with.

    Args:
        bound: the largest L2 norm of one contribution: the clip, less the `rounding_margin`.
        noise_std: standard deviation of the noise in every entry: clip x noise multiplier x sensitivity multiple.

    Formal guarantee: if adding or removing one protected unit moves the exact sum by at most ``sensitivity_multiple`` bounds,
    then one `release` is a Gaussian mechanism of the part's noise multiplier z, i.e. (1/z)-GDP, rounding included.

    >>> from caribou.privacy.allocation import Part
    >>> ClippedSum.of(AllocatedPart(Part("mean"), 3.0), clip=0.5, rows=100, entries=10).noise_std
    1.5
    """

    bound: float
    noise_std: float

    @classmethod
    def of(
        cls,
        calibrated: AllocatedPart,
        *,
        clip: float,
        rows: int,
        entries: int,
        max_rows: int | None = None,
        sensitivity_multiple: float = 1.0,
    ) -> ClippedSum:
        """The sum of one step of a calibrated part.

        Args:
            calibrated: the part with its noise per step. One that was given no budget is refused.
            clip: bound on one contribution.
            rows: number of contributions.
            entries: number of entries of the sum.
            max_rows: a public bound on ``rows`` (`row_count_bound`).
            sensitivity_multiple: by how many clips the protected unit moves the sum (from a theorem), at least 1.
        """
        if not sensitivity_multiple >= 1:
            raise InputError(f"sensitivity_multiple must be >= 1, got {sensitivity_multiple!r}")
        multiplier = running_multiplier(calibrated) * sensitivity_multiple  # noise in clips
        margin = rounding_margin(rows=row_count_bound(rows, max_rows), entries=entries, noise_multiplier=multiplier)
        return cls(clip * (1 - margin), clip * multiplier)

    def release(self, total: np.ndarray, noise: NoiseSource) -> np.ndarray:
        """The sum with its noise. ``total``: a sum of contributions of norm at most ``bound``, of any shape."""
        return noise.add_gaussian(total, std=self.noise_std)


def running_multiplier(calibrated: AllocatedPart) -> float:
    """The noise per unit of sensitivity; a part that was given no budget must not run on private data."""
    if math.isinf(calibrated.noise_multiplier):
        raise InputError(f"part {calibrated.part.name!r} must have a share of the budget to run, got none")
    return calibrated.noise_multiplier


def row_count_bound(rows: int, max_rows: int | None) -> int:
    """A public bound on the number of rows, from which allowances for rounding are computed.

    Args:
        rows: how many there are.
        max_rows: the public bound; None if ``rows`` is itself public. Otherwise an allowance computed from the number itself
            would change with one row. More rows than the bound are refused.

    >>> row_count_bound(140, None), row_count_bound(140, 2708)
    (140, 2708)
    """
    if max_rows is None:
        return rows
    if rows > max_rows:
        raise InputError(f"rows must be at most max_rows = {max_rows}, got {rows}")
    return max_rows


def rounding_margin(*, rows: int, entries: int, noise_multiplier: float) -> float:
    """By how much contributions are shortened so that rounding cannot lengthen what one of them does to the noisy sum.

    2^-20 for the row's own norm; n^2 2^-52 for two sums of n terms (each computed to n 2^-53 of the sum of norms), times
    32 because a centred sparse sum is a difference of terms up to 10 times as long; 2 sqrt(D) z 2^-28 for the grid, which
    moves each of D entries by at most 2^-28 standard deviations in either world. Relative to the clip.

    Args:
        rows: n, a public bound (`row_count_bound`). Beyond a margin of 1/2 (about 8 million rows) the sum is refused.
        entries: D, the number of entries of the sum.
        noise_multiplier: z, the standard deviation of the noise in clips; 0 for none.

    >>> f"{rounding_margin(rows=1000, entries=100, noise_multiplier=5.0):.1e}"
    '1.3e-06'
    """
    grid = 2 * math.sqrt(entries) * grid_spacing(noise_std=noise_multiplier) if noise_multiplier > 0 else 0.0
    margin = 2.0**-20 + 32 * rows**2 * 2.0**-52 + grid
    if margin > 0.5:
        raise InputError(
            f"rows must be few enough for double precision, a margin of at most 1/2, got {margin:.3g} for {rows}"
        )
    return margin
