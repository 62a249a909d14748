"""How far computed values may be from exact ones, and the grid on which value and noise meet.

Letters: n = nodes, d = columns, u = 2^-53.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from caribou._validate import integer, non_negative, positive


@dataclass(frozen=True)
class Arithmetic:
    """How far the computed map may be from the exact one: ||computed phi(X) - phi(X)||_F <= fixed + per_noise_std * std.

    If every computed step is within e of its exact value, the proof of Theorem 1 goes through with the sensitivity
    Delta + 2 e (each of the two worlds errs by at most e); so the release is calibrated to that. ``nodes`` and
    ``columns`` say for which size the bound was derived, ``storage`` in which precision states lie between steps.
    """

    fixed: float = 0.0
    per_noise_std: float = 0.0
    nodes: int = 0
    columns: int = 0
    storage: str = "double"

    def error(self, noise_std: float) -> float:
        """e for this noise."""
        return self.fixed + self.per_noise_std * noise_std


GRID_BITS = 28


def grid_spacing(*, noise_std: float) -> float:
    """The power of two to whose multiples value and noise are rounded before they are added: about 2^-28 noise_std.

    Fine enough to cost nothing (2^-28 sqrt(n d) of the noise), coarse enough that the low bits of the value do not show in a sum,
    and that double precision decides nearly every rounding of the noise.
    """
    return 2.0 ** (math.floor(math.log2(noise_std)) - GRID_BITS)


def double_precision(*, nodes: int, columns: int, residual: float) -> Arithmetic:
    """The error bound of one step in IEEE double precision, for every graph with ``nodes`` nodes.

    With u = 2^-53, row i of W X sums deg_i + 1 <= n products; its error is at most (n + 32) u sum_j W_ij, whatever the order
    of summation, and sqrt(sum_i (sum_j W_ij)^2) = ||W 1|| <= sqrt(n); the norm in a projection sums d squares; scalar factors
    and the mean are covered by the 32. Everything else that a layer computes errs by at most (n + d + 32) u sqrt(n) ``residual``,
    which its theorem states (`Sensitivity.residual`); for a term beta X^(0) that is beta. Rounding value and noise to the grid
    moves each of the n d entries by at most g <= 2^-28 noise_std in all, and adding them by at most 16 u noise_std more than the
    value's own rounding.
    """
    n, d = integer(at_least=1, nodes=nodes), integer(at_least=1, columns=columns)
    entries = math.sqrt(n * d)
    u = 2.0**-53
    return Arithmetic(
        fixed=(n + d + 32) * u * math.sqrt(n) * (1 + non_negative(residual=residual)),
        per_noise_std=(2.0**-GRID_BITS + 16 * u) * entries,
        nodes=n,
        columns=d,
    )


def single_storage(*, nodes: int, columns: int, residual: float) -> Arithmetic:
    """The error bound of one step that is computed in double precision from states stored in single precision.

    Stored are y = S^(-1/2) X and X^(0), each entry rounded once: y_jk = a_j x_jk (1 + h), |h| <= 2^-24, up to double rounding.
    The product is S^(-1/2) (A + I) y = W (X + H), where H has entries h x_jk; so it errs by ||W H|| <= ||H|| <= 2^-24 sqrt(n),
    because ||W|| <= 1 and rows of X have length at most 1. The term beta X^(0), beta = ``residual``, errs by beta 2^-24
    sqrt(n). All else is `double_precision`; the factor covers double rounding and numbers below 2^-126. Rounding the last state
    is post-processing.

    >>> round(single_storage(nodes=10**6, columns=16, residual=0.0).fixed, 6)
    6e-05
    """
    double = double_precision(nodes=nodes, columns=columns, residual=residual)
    rounding = 2.0**-24 * (1 + 2.0**-20) * math.sqrt(nodes) * (1 + residual)
    return Arithmetic(double.fixed + rounding, double.per_noise_std, double.nodes, double.columns, "single")


STORAGES = {"double": double_precision, "single": single_storage}
"""The bounds by the precision in which states are stored."""


def sum_arithmetic(*, nodes: int, columns: int, radius: float | None) -> Arithmetic:
    """The error bound of a sum over neighbours in double precision, for messages on the grid of the noise.

    Such sums are exact, and so is adding the noise: without clipping (``radius`` = None) there is no error at all. Clipping to
    r takes a row off the grid. With u = 2^-53: a norm sums d squares and a quotient is rounded, (d + 8) u r for each of n
    rows; rounding value and noise to the grid moves each of the n d entries by at most 2^-28 noise_std in all.
    """
    n, d = integer(at_least=1, nodes=nodes), integer(at_least=1, columns=columns)
    if radius is None:
        return Arithmetic(nodes=n, columns=d)
    fixed = (d + 8) * 2.0**-53 * positive(radius=radius) * math.sqrt(n)
    return Arithmetic(fixed, 2.0**-GRID_BITS * math.sqrt(n * d), n, d)


def vote_weight_bits(nodes: int) -> int:
    """How many binary places a fraction of a vote has: so many that sums of n votes are exact in double precision.

    >>> vote_weight_bits(2708), vote_weight_bits(10**6)
    (40, 32)
    """
    return 52 - integer(at_least=1, nodes=nodes).bit_length()


def vote_arithmetic(*, nodes: int, columns: int, radius: float, fractions: bool) -> Arithmetic:
    """The error bound of clipped sums of votes: that of `sum_arithmetic`, and of fractions that are cut off after some places.

    Votes are whole, or ``fractions`` rounded down to multiples of 2^-b, b = `vote_weight_bits`; sums are exact either way. Where
    a receiver leaves, a rounded fraction may grow by 2^-b more than the exact one does, in at most n rows for each of at most n
    senders: n sqrt(n) 2^-b in all. It is halved here, because a bound on the error counts twice.
    """
    clipped = sum_arithmetic(nodes=nodes, columns=columns, radius=radius)
    rounded = nodes * math.sqrt(nodes) * 2.0 ** -(vote_weight_bits(nodes) + 1) if fractions else 0.0
    return Arithmetic(clipped.fixed + rounded, clipped.per_noise_std, clipped.nodes, clipped.columns)
