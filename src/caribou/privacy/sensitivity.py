"""Every sensitivity and every contraction factor, one function per theorem.

Letters: C_L = contraction, alpha_1 = alpha1, alpha_2 = 1 - alpha1, beta, F = degree_floor, M = degree_cap, n = nodes,
K = hops. The operator is W = S^(-1/2) (A + I) S^(-1/2) with s_i = max(deg_i, F) + 1, rows of every state lie in the unit
ball. Proofs: docs/privacy.md. Attacks on every statement: tests/privacy/test_sensitivity.py and tests/layers.

A layer has its theorem here, under its name in `LAYER_THEOREMS`: numbers in, a `Sensitivity` out. So whoever verifies a
certificate needs neither the layer nor torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from caribou._validate import finite, half_open_unit_interval, integer, non_negative, one_of, positive, unit_interval
from caribou.errors import InputError
from caribou.privacy.arithmetic import STORAGES, Arithmetic
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.documents import Count, Natural

_ROUND_UP = 1 + 2.0**-44
"""Every bound is inflated by this factor, so that the rounding of its own evaluation can only add noise."""


@dataclass(frozen=True)
class Bounds:
    """What is declared in public about the graph. Never computed from it.

    ``degree_floor`` (F) enters the normalisation max(deg, F) + 1; ``degree_cap`` (M) cuts the graph at node level and is
    refused at edge level; ``nodes`` is n. ``degree_floor=None`` means F = M where a cap is given (no normalisation
    changes when a node leaves), else 0. ``declared_degree`` (node level) is the degree up to which a node gets the headline
    epsilon, in every graph; a node of larger degree gets what the curve by degree says.

    Args:
        degree_floor: F.
        degree_cap: M, at node level.
        nodes: n.
        declared_degree: d*; None = the cap where there is one, else n - 1: every node.

    >>> Bounds(degree_cap=20).degree_floor
    20
    >>> Bounds(degree_floor=10)
    Bounds(degree_floor=10, degree_cap=None, nodes=None, declared_degree=None)
    >>> Bounds(degree_floor=100, nodes=2708).largest_degree, Bounds(degree_cap=20, nodes=2708).covered_degree
    (2707, 20)
    """

    degree_floor: Natural = 0
    degree_cap: Count | None = None
    nodes: Count | None = None
    declared_degree: Count | None = None

    def __init__(
        self,
        degree_floor: int | None = None,
        degree_cap: int | None = None,
        nodes: int | None = None,
        declared_degree: int | None = None,
    ) -> None:
        cap = None if degree_cap is None else integer(at_least=1, degree_cap=degree_cap)
        floor = (cap or 0) if degree_floor is None else integer(at_least=0, degree_floor=degree_floor)
        declared = None if declared_degree is None else integer(at_least=1, declared_degree=declared_degree)
        object.__setattr__(self, "degree_floor", floor)
        object.__setattr__(self, "degree_cap", cap)
        object.__setattr__(self, "nodes", None if nodes is None else integer(at_least=1, nodes=nodes))
        object.__setattr__(self, "declared_degree", declared)
        if declared is not None and self.cuts and declared > (cap or 0):
            # a node above the cap is cut itself: to promise it the headline would be to promise something of another graph
            raise InputError(f"declared_degree must be at most degree_cap = {cap}, got {declared}")

    @property
    def cuts(self) -> bool:
        """Whether the cap can remove an edge."""
        return self.degree_cap is not None and (self.nodes is None or self.degree_cap < self.nodes - 1)

    @property
    def largest_degree(self) -> int:
        """The largest degree that a graph of n nodes can have; 1 for a single node, so that no bound is 0."""
        if self.nodes is None:
            raise InputError("nodes must be given at node level where there is no degree_cap (--nodes), got None")
        return max(1, self.nodes - 1)

    @property
    def covered_degree(self) -> int:
        """d*: the degree up to which a node gets the headline epsilon."""
        if self.declared_degree is not None:
            return self.declared_degree if self.nodes is None else min(self.declared_degree, self.largest_degree)
        return self.degree_cap if self.cuts and self.degree_cap is not None else self.largest_degree


@dataclass(frozen=True)
class Sensitivity:
    """The bound of one step of message passing, together with everything it was derived from.

    ``value`` bounds ||phi_G(X) - phi_G'(X)||_F over all neighbouring graphs G, G' and all X with rows in the unit ball;
    ``contraction`` is the Lipschitz constant of phi_G for every G. ``layer`` names the map and its theorem, ``parameters`` are
    the public numbers that the theorem takes, as sorted pairs. ``residual`` says how much more than the product W X a step
    computes, for its rounding error (`double_precision`). A calibration takes this record, not a number, so that noise cannot be
    paired with the bound of another map. At node level ``value`` is for nodes of degree at most ``bounds.covered_degree``, and
    `at_degree` for those of any other.
    """

    value: float
    unit: PrivacyUnit
    contraction: float
    layer: str
    parameters: tuple[tuple[str, Any], ...]
    residual: float
    bounds: Bounds
    theorem: str

    def at_degree(self, degree: int) -> float:
        """The bound for a node of this degree that leaves; at edge level the same for all.

        >>> s = layer_sensitivity("node", contraction=1.0, alpha1=1.0, beta=0.0, bounds=Bounds(degree_floor=100, nodes=2708))
        >>> [round(s.at_degree(d), 3) for d in (0, 10, 100, 2707)], round(s.value, 3)
        ([1.0, 1.002, 1.019, 1.172], 1.172)
        """
        if self.unit is PrivacyUnit.EDGE:
            return self.value
        return LAYER_THEOREMS[self.layer](self.unit, dict(self.parameters), self.bounds, degree).value

    def arithmetic(self, *, nodes: int, columns: int, storage: str = "double") -> Arithmetic:
        """The rounding error of one step of this layer for n x d states that lie in ``storage`` precision between steps.

        >>> from caribou.privacy.arithmetic import double_precision
        >>> s = layer_sensitivity("edge", contraction=0.9, alpha1=1.0, beta=0.5, bounds=Bounds(degree_floor=10))
        >>> s.arithmetic(nodes=100, columns=8) == double_precision(nodes=100, columns=8, residual=0.5)
        True
        """
        bound = STORAGES[one_of(tuple(STORAGES), storage=storage)]
        if storage != "double" and self.layer != "contractive":
            raise InputError(
                f"storage must be double for the layer {self.layer!r} (no bound is known), got {storage!r}"
            )
        return bound(nodes=nodes, columns=columns, residual=self.residual)


def layer_sensitivity(
    unit: PrivacyUnit | str,
    *,
    contraction: float,
    alpha1: float,
    beta: float,
    bounds: Bounds,
    degree: int | None = None,
) -> Sensitivity:
    """The sensitivity of the contractive graph layer at a privacy unit, with its theorem.

    ``degree``: of the node that leaves (node level); None = the largest that the headline covers.

    >>> round(layer_sensitivity("edge", contraction=1.0, alpha1=1.0, beta=0.0, bounds=Bounds(degree_floor=10)).value, 4)
    0.1849
    """
    unit = PrivacyUnit.parse(unit)
    contraction = half_open_unit_interval(contraction=contraction)
    alpha1 = unit_interval(alpha1=alpha1)
    beta = non_negative(beta=beta)
    if unit is PrivacyUnit.EDGE:
        refuse_cap_at_edge_level(bounds)
        value = edge_sensitivity(
            contraction=contraction, alpha1=alpha1, degree_floor=bounds.degree_floor, nodes=bounds.nodes
        )
        theorem = "edge sensitivity under a degree floor (docs/privacy.md, Theorem 2)"
    elif unit is PrivacyUnit.NODE:
        value = node_sensitivity(contraction=contraction, alpha1=alpha1, bounds=bounds, degree=degree)
        theorem = f"node sensitivity, {_node_theorem(bounds)}"
    else:
        raise InputError(f"unit must be edge or node, got {unit!r}")
    parameters = (("alpha1", alpha1), ("beta", beta), ("contraction", contraction))
    return Sensitivity(value, unit, contraction, "contractive", parameters, beta, bounds, theorem)


def _node_theorem(bounds: Bounds) -> str:
    return (
        "with degrees cut to the cap (docs/privacy.md, Theorem 9)"
        if bounds.cuts
        else "every edge read (docs/privacy.md, Theorem 3)"
    )


def refuse_cap_at_edge_level(bounds: Bounds) -> None:
    """Bounds of a layer at edge level: nothing is declared about degrees but the floor."""
    if bounds.declared_degree is not None:
        raise InputError(f"declared_degree must be None at edge level, got {bounds.declared_degree}")
    if bounds.degree_cap is not None:
        # One edge can free a slot for another: cutting reacts to it in more places than the theorem counts.
        raise InputError(
            f"degree_cap must be None at edge level (cutting degrees is not covered), got {bounds.degree_cap}"
        )


def edge_sensitivity(*, contraction: float, alpha1: float, degree_floor: int, nodes: int | None = None) -> float:
    """Theorem 2: Delta_edge = C_L alpha_1 max over 0 <= d_u, d_v <= max(F, 3) of the total change of W X.

    With a(s) = 1/sqrt(s), s_u = max(d_u, F) + 1 before and s'_u = max(d_u + 1, F) + 1 after the edge uv is added,
    delta_u = a(s_u) - a(s'_u) and a_w = 1/sqrt(max(1, F) + 1) (a neighbour has degree >= 1):

        R_u     = (1/s_u - 1/s'_u) + delta_u d_u a_w + a(s'_u) a(s'_v)                 own row of u; R_v alike
        total^2 = R_u^2 + R_v^2 + a_w^2 (d_u delta_u^2 + d_v delta_v^2)                rows of the neighbours
                  + 2 delta_u delta_v min(d_u, d_v) / (max(2, F) + 1)                  common neighbours, degree >= 2

    Beyond d = max(F, 3) every term decreases, so the scan is exhaustive. If ``nodes`` = n is declared, degrees before the edge
    are at most n - 2, and the scan ends there: with F >= n - 1 no normalisation ever changes and Delta_edge is
    C_L alpha_1 sqrt(2) / (F + 1). Holds for every graph (of n nodes) and every X with rows in the unit ball. Unit: L2
    (Frobenius) norm.

    >>> round(101 * edge_sensitivity(contraction=1.0, alpha1=1.0, degree_floor=100), 4)
    2.1115
    >>> round(101 * edge_sensitivity(contraction=1.0, alpha1=1.0, degree_floor=100, nodes=101), 4)
    1.4142
    """
    contraction = half_open_unit_interval(contraction=contraction)
    alpha1 = unit_interval(alpha1=alpha1)
    F = integer(at_least=0, degree_floor=degree_floor)
    largest = math.inf if nodes is None else max(0, integer(at_least=1, nodes=nodes) - 2)
    a_w = 1 / math.sqrt(max(1, F) + 1)

    def before_and_after(d: int) -> tuple[float, float]:
        return float(max(d, F) + 1), float(max(d + 1, F) + 1)

    # Below F nothing changes but the new entry itself, so of those degrees only one need be looked at.
    degrees = range(min(max(0, F - 1), int(min(largest, F))), int(min(largest, max(F, 3))) + 1)
    worst = 0.0
    for d_u in degrees:
        s_u, t_u = before_and_after(d_u)
        delta_u = 1 / math.sqrt(s_u) - 1 / math.sqrt(t_u)
        for d_v in degrees:
            s_v, t_v = before_and_after(d_v)
            delta_v = 1 / math.sqrt(s_v) - 1 / math.sqrt(t_v)
            new_entry = 1 / math.sqrt(t_u * t_v)
            R_u = (1 / s_u - 1 / t_u) + delta_u * d_u * a_w + new_entry
            R_v = (1 / s_v - 1 / t_v) + delta_v * d_v * a_w + new_entry
            neighbours = a_w**2 * (d_u * delta_u**2 + d_v * delta_v**2)
            common = 2 * delta_u * delta_v * min(d_u, d_v) / (max(2, F) + 1)
            worst = max(worst, R_u**2 + R_v**2 + neighbours + common)
    return contraction * alpha1 * math.sqrt(worst) * _ROUND_UP


def node_floor(nodes: int) -> int:
    """The default degree floor at node level, a public rule: F = ceil(2 sqrt(n)).

    T of Theorem 3 grows like 1/sqrt(F) + sqrt(n)/F, so this F costs about 12 % more noise than the own row alone.

    >>> node_floor(2708), node_floor(10**6)
    (105, 2000)
    """
    return math.isqrt(4 * integer(at_least=1, nodes=nodes) - 1) + 1


def declared_bounds(
    unit: PrivacyUnit | str,
    *,
    nodes: int | None,
    degree_floor: int | None = None,
    degree_cap: int | None = None,
    declared_degree: int | None = None,
) -> Bounds:
    """Bounds by what was declared. At node level, without floor and cap, the floor follows from n (`node_floor`).

    >>> declared_bounds("node", nodes=2708).degree_floor, declared_bounds("edge", nodes=2708).degree_floor
    (105, 0)
    """
    if (
        PrivacyUnit.parse(unit) is PrivacyUnit.NODE
        and degree_floor is None
        and degree_cap is None
        and nodes is not None
    ):
        degree_floor = node_floor(nodes)
    return Bounds(degree_floor, degree_cap, nodes, declared_degree)


def node_sensitivity(*, contraction: float, alpha1: float, bounds: Bounds, degree: int | None = None) -> float:
    """Theorem 3: Delta_node = sqrt(1 + (C_L (alpha_1 T + alpha_2 / sqrt(n)))^2), T bounding the other rows of W X.

    The 1 is the own row of the node, bounded by the projection inside phi. T is `uncut_other_rows` where every edge is read, and
    `cut_other_rows` where degrees are cut to M. Holds for every graph; ``degree`` is that of the node which leaves (None = the
    largest that the headline covers). n is needed when alpha_2 = 1 - alpha_1 > 0. Unit: L2 (Frobenius) norm.
    """
    contraction = half_open_unit_interval(contraction=contraction)
    alpha1 = unit_interval(alpha1=alpha1)
    T = _other_rows(bounds, degree)
    if alpha1 < 1 and bounds.nodes is None:
        raise InputError("nodes must be given at node level when alpha1 < 1 (the mean over all nodes enters), got None")
    mean = 0.0 if alpha1 == 1 else (1 - alpha1) / math.sqrt(bounds.nodes or 1)
    others = contraction * (alpha1 * T + mean)
    return math.sqrt(1 + others**2) * _ROUND_UP


def _other_rows(bounds: Bounds, degree: int | None) -> float:
    """T: how far the rows of W X move, but for the own row, when a node of this degree leaves."""
    d = bounds.covered_degree if degree is None else integer(at_least=0, degree=degree)
    if bounds.cuts and bounds.degree_cap is not None:
        return cut_other_rows(degree_floor=bounds.degree_floor, degree_cap=bounds.degree_cap, degree=d)
    return uncut_other_rows(
        degree_floor=bounds.degree_floor, largest_degree=bounds.largest_degree, degree=min(d, bounds.largest_degree)
    )


def uncut_other_rows(*, degree_floor: int, largest_degree: int, degree: int) -> float:
    """Theorem 3: T for a node of degree d that leaves a graph whose degrees are at most M (n - 1 bounds every graph).

    For F >= M no normalisation changes: T = sqrt(d) / (F + 1). For F < M, with s(d) = max(d, F) + 1:

        T = sqrt(d / (s(d) s(1))) + sqrt(d) (max_{F <= k < M} q(k) r(k) + max_{F <= k < M} q(k))
        q(k) = 1 - sqrt((k + 1) / (k + 2)),    r(k) = (1/sqrt(k+1)) (1/sqrt(k+1) + k / sqrt(s(1)))

    The first term is the lost messages; at most d neighbours have a degree above F and are rescaled.
    """
    F, M = integer(at_least=0, degree_floor=degree_floor), integer(at_least=0, largest_degree=largest_degree)
    d = integer(at_least=0, degree=degree)
    if F >= M:
        return math.sqrt(d) / (F + 1)
    s_one = max(1, F) + 1

    def q(k: int) -> float:
        return 1 - math.sqrt((k + 1) / (k + 2))

    def r(k: int) -> float:
        return (1 / math.sqrt(k + 1)) * (1 / math.sqrt(k + 1) + k / math.sqrt(s_one))

    # k / s(k) grows with k and q falls; q r falls from k = 6 on at the latest (a test scans further).
    lost_messages = math.sqrt(d / ((max(d, F) + 1) * s_one))
    rescaled_rows = max(q(k) * r(k) for k in range(F, min(M, F + 8)))
    return lost_messages + math.sqrt(d) * (rescaled_rows + q(F))


def cut_other_rows(*, degree_floor: int, degree_cap: int, degree: int) -> float:
    """Theorem 9: T for a node of degree d where an edge survives if it is among the first M of both its ends, and F >= M.

        T = (sqrt(min(d, M)) + sqrt(d (min(d, M) + 2))) / (F + 1)

    At most min(d, M) rows lose a message. Besides, each of the d neighbours may have a place free and take one edge instead
    (`freed_edges`); no normalisation changes. Holds for every graph. Assumes an order of pairs that does not depend on edges.
    """
    F, M = integer(at_least=0, degree_floor=degree_floor), integer(at_least=1, degree_cap=degree_cap)
    d = integer(at_least=0, degree=degree)
    if F < M:
        raise InputError(f"degree_floor must be at least degree_cap = {M} at node level, got {F}")
    return (math.sqrt(min(d, M)) + math.sqrt(freed_edges(degree_cap=M, degree=d))) / (F + 1)


def freed_edges(*, degree_cap: int, degree: int) -> int:
    """Theorem 9: d (min(d, M) + 2) bounds the sum of squared degrees of the edges that appear when a node of degree d leaves.

    A neighbour u of the node that had it among its first M takes its next pair instead, and no other list changes. So at most d
    edges appear, each chosen by one such u. Let x_u be the other end, in(x) how many chose x, deg the degrees among new edges,
    all at most min(d, M). The sum of deg^2 is the sum of deg(u) + deg(x_u) over the edges: deg(u) <= 1 + in(u) gives at most 2 d,
    and deg(x_u) <= min(d, M) gives d min(d, M).
    """
    d = integer(at_least=0, degree=degree)
    return d * (min(d, integer(at_least=1, degree_cap=degree_cap)) + 2)


# -- further layers ------------------------------------------------------------------------------------------------


def attention_sensitivity(
    unit: PrivacyUnit | str, *, contraction: float, beta: float, sharpness: float, bounds: Bounds
) -> Sensitivity:
    """The sensitivity of the contractive attention layer, C_L W X + beta X^(0) with public edge weights (edge level only).

    ``sharpness`` shapes the weights and does not enter the bound, which holds for all weights in [0, 1] (Theorem L1). Rounding:
    a weighted degree is itself a rounded sum of up to n weights, so W X errs twice as much as with whole degrees.

    >>> bounds = Bounds(degree_floor=10)
    >>> round(attention_sensitivity("edge", contraction=1.0, beta=0.0, sharpness=2.0, bounds=bounds).value, 4)
    0.1841
    """
    unit = PrivacyUnit.parse(unit)
    contraction = half_open_unit_interval(contraction=contraction)
    beta = non_negative(beta=beta)
    sharpness = non_negative(sharpness=sharpness)
    if unit is not PrivacyUnit.EDGE:
        raise InputError(
            "unit must be edge for the attention layer (its weights come from rows that only edge level makes public), "
            f"got {unit.value}"
        )
    refuse_cap_at_edge_level(bounds)
    value = weighted_edge_sensitivity(contraction=contraction, degree_floor=bounds.degree_floor, nodes=bounds.nodes)
    theorem = "edge sensitivity with public edge weights (docs/privacy.md, Theorem L1)"
    parameters = (("beta", beta), ("contraction", contraction), ("sharpness", sharpness))
    return Sensitivity(value, unit, contraction, "attention", parameters, 1 + beta, bounds, theorem)


def weighted_edge_sensitivity(*, contraction: float, degree_floor: int, nodes: int | None = None) -> float:
    """Theorem L1: Delta = C_L sqrt(2) / (F + 1) sqrt((1 + F m)^2 + F m^2), m = 1 - sqrt((F + 1) / (F + 2)).

    W = S^(-1/2) (A_w + I) S^(-1/2), where A_w has one weight in [0, 1] per edge and s_i = max(sum of the weights at i, F) + 1.
    The maximum over all weighted graphs, all weights of the new edge and all X with rows in the unit ball; reached by two stars
    of F leaves with weights 1, whose centres are joined. If ``nodes`` = n is declared and F >= n - 1, no normalisation ever
    changes and Delta = C_L sqrt(2) / (F + 1).

    Assumes that the weight of a pair does not depend on the edges. Unit: L2 (Frobenius) norm.

    >>> [round(weighted_edge_sensitivity(contraction=1.0, degree_floor=F), 4) for F in (0, 1, 2, 3, 5, 10, 20, 50)]
    [1.4142, 0.8469, 0.6044, 0.47, 0.3255, 0.1841, 0.0986, 0.0412]
    """
    contraction = half_open_unit_interval(contraction=contraction)
    F = integer(at_least=0, degree_floor=degree_floor)
    if nodes is not None and integer(at_least=1, nodes=nodes) <= F + 1:
        return contraction * math.sqrt(2) / (F + 1) * _ROUND_UP
    m = 1 / ((F + 2) * (1 + math.sqrt((F + 1) / (F + 2))))  # 1 - sqrt((F + 1) / (F + 2)) without cancellation
    return contraction * math.sqrt(2 * ((1 + F * m) ** 2 + F * m**2)) / (F + 1) * _ROUND_UP


def spectral_sensitivity(
    unit: PrivacyUnit | str,
    *,
    contraction: float,
    theta0: float,
    theta1: float,
    beta: float,
    bounds: Bounds,
    degree: int | None = None,
) -> Sensitivity:
    """The sensitivity of the spectral layer, C_L (theta_0 X + theta_1 W X) + beta X^(0) with |theta_0| + |theta_1| <= 1.

    Theorem L2: at edge level |theta_1| times that of W X; at node level sqrt(1 + (C_L |theta_1| T)^2), T of Theorem 3.

    >>> half = {"contraction": 1.0, "theta0": 0.5, "theta1": -0.5, "beta": 0.0}
    >>> round(spectral_sensitivity("edge", **half, bounds=Bounds(degree_floor=10)).value, 4)
    0.0925
    """
    unit = PrivacyUnit.parse(unit)
    contraction = half_open_unit_interval(contraction=contraction)
    theta0, theta1 = finite(theta0=theta0), finite(theta1=theta1)
    beta = non_negative(beta=beta)
    # Decimal fractions that sum to 1 may exceed it by half a unit in the last place: part of the rounding error of a step.
    if abs(theta0) + abs(theta1) > 1:
        raise InputError(f"|theta0| + |theta1| must be at most 1, got {theta0!r} and {theta1!r}")
    if unit is PrivacyUnit.EDGE:
        refuse_cap_at_edge_level(bounds)
        product = edge_sensitivity(
            contraction=contraction, alpha1=1.0, degree_floor=bounds.degree_floor, nodes=bounds.nodes
        )
        value = abs(theta1) * product
    elif unit is PrivacyUnit.NODE:
        value = math.sqrt(1 + (contraction * abs(theta1) * _other_rows(bounds, degree)) ** 2) * _ROUND_UP
    else:
        raise InputError(f"unit must be edge or node, got {unit!r}")
    theorem = f"{unit.value} sensitivity of a polynomial in W (docs/privacy.md, Theorem L2)"
    parameters = (("beta", beta), ("contraction", contraction), ("theta0", theta0), ("theta1", theta1))
    return Sensitivity(value, unit, contraction, "spectral", parameters, beta, bounds, theorem)


ACTIVATIONS = ("identity", "relu", "tanh")
"""Activations of the GCN layer: 1-Lipschitz, and 0 at 0."""


def gcn_sensitivity(
    unit: PrivacyUnit | str,
    *,
    contraction: float,
    beta: float,
    activation: str,
    columns: int,
    spectral_norm: float,
    bounds: Bounds,
    degree: int | None = None,
) -> Sensitivity:
    """The sensitivity of the contractive GCN layer, C_L sigma(W X Theta) + beta X^(0), Theta public, ||Theta||_2 <= 1.

    Theorem L3: as for W X, at edge level Theorem 2, at node level sqrt(1 + (C_L T)^2), T of Theorem 3. ``spectral_norm`` is the
    bound on ||Theta||_2 that was enforced, ``columns`` = d the size of Theta. Rounding: the product with Theta adds d u times
    || |Theta| ||_2 <= ||Theta||_F <= sqrt(d).

    >>> numbers = {"contraction": 0.9, "beta": 0.0, "activation": "tanh", "columns": 16, "spectral_norm": 1.0}
    >>> round(gcn_sensitivity("edge", **numbers, bounds=Bounds(degree_floor=10)).value, 4)
    0.1664
    """
    unit = PrivacyUnit.parse(unit)
    contraction = half_open_unit_interval(contraction=contraction)
    beta = non_negative(beta=beta)
    activation = one_of(ACTIVATIONS, activation=activation)
    columns = integer(at_least=1, columns=columns)
    spectral_norm = half_open_unit_interval(spectral_norm=spectral_norm)
    if unit is PrivacyUnit.EDGE:
        refuse_cap_at_edge_level(bounds)
        value = edge_sensitivity(
            contraction=contraction, alpha1=1.0, degree_floor=bounds.degree_floor, nodes=bounds.nodes
        )
    elif unit is PrivacyUnit.NODE:
        value = math.sqrt(1 + (contraction * _other_rows(bounds, degree)) ** 2) * _ROUND_UP
    else:
        raise InputError(f"unit must be edge or node, got {unit!r}")
    theorem = f"{unit.value} sensitivity of a graph convolution (docs/privacy.md, Theorem L3)"
    parameters = (
        ("activation", activation),
        ("beta", beta),
        ("columns", columns),
        ("contraction", contraction),
        ("spectral_norm", spectral_norm),
    )
    residual = math.sqrt(columns) + beta
    return Sensitivity(value, unit, contraction, "gcn", parameters, residual, bounds, theorem)


LayerTheorem = Callable[[PrivacyUnit | str, Mapping[str, Any], Bounds, int | None], Sensitivity]

LAYER_THEOREMS: dict[str, LayerTheorem] = {
    "contractive": lambda unit, parameters, bounds, d: layer_sensitivity(unit, bounds=bounds, degree=d, **parameters),
    "attention": lambda unit, parameters, bounds, _: attention_sensitivity(unit, bounds=bounds, **parameters),
    "spectral": lambda unit, parameters, bounds, d: spectral_sensitivity(unit, bounds=bounds, degree=d, **parameters),
    "gcn": lambda unit, parameters, bounds, d: gcn_sensitivity(unit, bounds=bounds, degree=d, **parameters),
}
"""The theorem of every layer by its name: (unit, public parameters, bounds, degree) -> `Sensitivity`. Raises if there is none.

``degree``: of the node that leaves; None = the largest that the headline covers.
"""


def neighbourhood_gradient_sensitivity(
    *, message_scale: int, own_share: float, bounds: Bounds, own_example: bool = True, degree: int | None = None
) -> float:
    """How far one node moves a sum of clipped gradients, one per target node on its 1-hop neighbourhood, in clips.

        own example + c sqrt(2 - (1 - t^2) / (1 + t^2)),    t = sqrt((1 - w) / w) / (2 m)

    own example = 1 for a training node, 0 for a node that is in no example of its own; w = ``own_share`` in [1/5, 1);
    m = ``message_scale``; c = `touched_rows`: how many times a neighbourhood changes by one message. The example of target i is
    the row h_i = (sqrt(w) z_i, sqrt(1 - w) a_i), a_i = ||z_i|| / m times the sum of its neighbours' rows, brought to length at
    most ||z_i||; all z are of length at most 1. Its gradient is the outer product of h_i and R_i = softmax(h_i W) - onehot(y_i),
    scaled down to the clip. The own example of a node goes with it (at most one clip). A message more or less moves a_i by at
    most ||z_i|| / m, because the projection is 1-Lipschitz:

    * h and h' lie on a plane at distance sqrt(w) ||z|| from 0 and sqrt(1 - w) ||z|| / m apart: seen from 0 the angle is at most
      2 arctan(t), its cosine at least k = (1 - t^2) / (1 + t^2) >= 0;
    * with s = 1 - p_y, <R, R'> >= s s' and ||R||^2 = s^2 + sum over k != y of p_k^2 <= 2 s^2, so cos(R, R') >= 1/2;
    * gradients are outer products, so their cosine is at least k / 2, and two of them of length at most one clip differ by at
      most sqrt(2 - k) (a convex function of the two lengths; at the corner (1, 0) it is 1, which is not more).

    Published: 2 (D + 1), with 2 for any two gradients. Holds for every graph. Unit: L2 norm over clip.

    >>> bounds = Bounds(nodes=100, declared_degree=4)
    >>> round(neighbourhood_gradient_sensitivity(message_scale=4, own_share=0.5, bounds=bounds), 4)
    5.0611
    """
    m = integer(at_least=1, message_scale=message_scale)
    w = half_open_unit_interval(own_share=own_share)
    if not 0.2 <= w < 1:
        raise InputError(f"own_share must be in [0.2, 1), got {own_share!r}")
    t = math.sqrt((1 - w) / w) / (2 * m)
    k = (1 - t * t) / (1 + t * t)
    return (touched_rows(bounds, degree) * math.sqrt(2 - k) + (1 if own_example else 0)) * _ROUND_UP


# -- sums over neighbours and gradients over rows of A -------------------------------------------------------------


def touched_rows(bounds: Bounds, degree: int | None = None) -> int:
    """How often an entry of A outside the own row changes when a node of degree d leaves, in every graph.

    Every edge read: d, one entry in each neighbour's row. Degrees cut to M: min(d, M) entries go, and at most d edges appear
    (`freed_edges`), each in the rows of both its ends: min(d, M) + 2 d.
    """
    d = bounds.covered_degree if degree is None else integer(at_least=0, degree=degree)
    if bounds.cuts and bounds.degree_cap is not None:
        return min(d, bounds.degree_cap) + 2 * d
    return min(d, bounds.largest_degree)


@dataclass(frozen=True)
class SumSensitivity:
    """The bound of one noisy sum over neighbours, Pi_r(A Z), with everything it was derived from.

    ``bounds`` and ``radius`` = r are declared at node level; at edge level nothing is cut or clipped. ``value`` is for nodes of
    degree at most ``bounds.covered_degree``, `at_degree` for those of any other.
    """

    value: float
    unit: PrivacyUnit
    bounds: Bounds
    radius: float | None
    theorem: str

    def at_degree(self, degree: int) -> float:
        """The bound for a node of this degree that leaves; at edge level the same for all."""
        if self.unit is PrivacyUnit.EDGE or self.radius is None:
            return self.value
        return sum_node_sensitivity(bounds=self.bounds, radius=self.radius, degree=degree)


def sum_sensitivity(
    unit: PrivacyUnit | str, *, bounds: Bounds | None = None, radius: float | None = None
) -> SumSensitivity:
    """The sensitivity of a sum over neighbours at a privacy unit, with its theorem.

    >>> bounds = Bounds(nodes=1000, declared_degree=20)
    >>> [round(sum_sensitivity("edge").value, 4), round(sum_sensitivity("node", bounds=bounds, radius=4.0).value, 4)]
    [1.4142, 6.0]
    """
    unit = PrivacyUnit.parse(unit)
    bounds = bounds or Bounds()
    if unit is PrivacyUnit.EDGE:
        if bounds != Bounds() or radius is not None:
            raise InputError(f"bounds and radius must be None at edge level, got {bounds} and {radius}")
        theorem = "an edge moves two rows of A Z by one message each (docs/privacy.md, Theorem 5)"
        return SumSensitivity(sum_edge_sensitivity(), unit, bounds, None, theorem)
    elif unit is PrivacyUnit.NODE:
        if radius is None:
            raise InputError("radius must be given at node level, got None")
        value = sum_node_sensitivity(bounds=bounds, radius=radius)
        theorem = (
            "a node moves its neighbours' rows by one message each, and its own clipped row "
            f"(docs/privacy.md, Theorem{'s 6 and 9' if bounds.cuts else ' 6'})"
        )
        return SumSensitivity(value, unit, bounds, radius, theorem)
    raise InputError(f"unit must be edge or node, got {unit!r}")


def sum_edge_sensitivity() -> float:
    """Theorem 5: ||A Z - A' Z||_F <= sqrt(2) for graphs that differ in one undirected edge uv and rows of Z of norm <= 1.

    Row u differs by z_v and row v by z_u; all other rows are equal. (One *directed* entry would move one row: 1, the value
    published for GAP by Sajadmanesh et al. 2023.) Reached by every pair with rows of norm 1. Unit: L2 (Frobenius) norm.
    """
    return math.sqrt(2) * _ROUND_UP


def sum_node_sensitivity(*, bounds: Bounds, radius: float, degree: int | None = None) -> float:
    """Theorem 6: ||Pi_r(A Z) - Pi_r(A' Z)||_F <= sqrt(R^2 + min(r, d)^2) if a node of degree d leaves, in every graph.

    Pi_r projects every row onto the ball of radius r > 0. The d neighbours of the node lose its message, of norm at most 1, and
    Pi_r is 1-Lipschitz: R = sqrt(d). The node's own row is 0 in one world and at most min(r, d) in the other. (GAP publishes
    sqrt(D): the own row is not counted.) Reached by a star with d leaves and equal rows of norm 1.

    Where degrees are cut to D (Theorem 9), min(d, D) messages are lost, and the edges that appear instead move rows by at most
    sqrt(d (min(d, D) + 2)) (`freed_edges`): R is the sum of the two, and the own row is at most min(r, d, D).

    Assumes rows of Z of norm at most 1 that are equal in both worlds but for the node's own, which nobody reads in the world
    without it. Unit: L2 (Frobenius) norm.
    """
    r = positive(radius=radius)
    d = bounds.covered_degree if degree is None else integer(at_least=0, degree=degree)
    kept, freed = d, 0
    if bounds.cuts and bounds.degree_cap is not None:
        kept, freed = min(d, bounds.degree_cap), freed_edges(degree_cap=bounds.degree_cap, degree=d)
    else:
        kept = min(d, bounds.largest_degree)
    others = math.sqrt(kept) + math.sqrt(freed)
    return math.sqrt(others**2 + min(r, kept) ** 2) * _ROUND_UP


def neighbour_count_sensitivity() -> int:
    """Theorem 12: ||A Y - A' Y||_1 = 2 for graphs that differ in one undirected edge uv, with Y the classes as one-hot rows.

    The edge adds 1 to the entry (u, class of v) and 1 to the entry (v, class of u): two entries in two rows, whatever the
    classes. (One *directed* entry would move one count: 1.) Assumes classes that are equal in both worlds: public, or computed
    from earlier releases. Unit: L1 norm, in counts.
    """
    return 2


def confusion_sensitivity() -> int:
    """Theorem 14: ||M - M'||_1 <= 1 for the confusion matrices of two graphs of which one has a node zeroed out.

    M[j, k] counts test nodes of class j that were predicted as k. A prediction is a function of earlier releases, which are
    fixed, and of the data of its own node. So the predictions and labels of all other nodes are the same in both worlds. The node
    itself is counted once if it is a test node with a label, and never otherwise; without its data it has no label and is not
    counted. One entry changes by at most 1. (A node that is *replaced* leaves one entry and joins another: 2, as two steps.)
    Unit: L1 norm, in counts.
    """
    return 1


def adjacency_gradient_edge_sensitivity() -> float:
    """Theorem 7: an edge moves the sum of clipped gradients over rows of A by at most sqrt(7 - 2 sqrt(2)) = 2.0425 clips.

    The model is softmax(a_i W), a_i row i of A, W = [n, C]; the gradient of example i is a_i (x) (p_i - e_y), clipped to norm c.
    The edge uv is in two examples, u and v. Of one of them, with d neighbours before and q = sqrt(d / (d + 1)), the part on old
    neighbours moves by at most c sqrt(1 + q^2 - q) (p - e_y stays in a cone of 60 degrees, so cos >= 1/2) and the new row is at
    most c sqrt(1 - q^2). The two new rows are orthogonal to all else, the other parts may add up:

        total^2 <= (P_u + P_v)^2 + N_u^2 + N_v^2,   largest at d = 1:  4 (3/2 - 1/sqrt(2)) + 2 / 2 = 7 - 2 sqrt(2)

    Reached by two nodes with one common neighbour. For gradients of any other form only 4 clips hold (two examples, from -c to
    c each). Assumes public labels and rows of W that were released before. Unit: clips, L2 norm.
    """
    return math.sqrt(7 - 2 * math.sqrt(2)) * _ROUND_UP


def adjacency_gradient_node_sensitivity(*, bounds: Bounds, degree: int | None = None) -> float:
    """Theorem 8: a node of degree d moves the same sum by at most 1 + c sqrt(2 - 1/sqrt(2)) = 1 + 1.137 c clips.

    Its own example goes: 1. An entry more or less in the row of another node moves the clipped gradient of that row by at most
    sqrt(2 - q) clips (Theorem 7), q = sqrt(k / (k + 1)) >= 1/sqrt(2) for k >= 1 other entries, and 1 <= sqrt(2 - q) for k = 0.
    c = `touched_rows` counts such changes: d where every edge is read. They may point in the same direction, so they add up and
    not their squares: a multiplier with sqrt(D + 1), as published for DPDGC, is exceeded by the complete bipartite graph K_{2,D}.

    Holds for every graph. Unit: clips, L2 norm.
    """
    return (1 + touched_rows(bounds, degree) * math.sqrt(2 - 1 / math.sqrt(2))) * _ROUND_UP


# -- votes at node level -------------------------------------------------------------------------------------------


def vote_weight(votes: int, receivers_per_sender: int | None) -> float:
    """What one of N votes of a sender counts: 1 up to M of them, sqrt(M / N) above. M = None: always 1.

    >>> vote_weight(3, 4), vote_weight(16, 4), vote_weight(16, None)
    (1.0, 0.5, 1.0)
    """
    if receivers_per_sender is None or votes <= receivers_per_sender:
        return 1.0
    return math.sqrt(receivers_per_sender / votes)


def vote_sender_sensitivity(*, receivers_per_sender: int | None, degree: int) -> float:
    """Theorem 9: a sender of degree d that leaves moves the clipped rows of its receivers by at most sqrt(min(d, M)) in L2.

    It has N <= d receivers and gives each the vote w(N) (`vote_weight`); the projection of a row is 1-Lipschitz. So the rows move
    by at most sqrt(N) w(N): sqrt(N) up to M, sqrt(M) above. No other vote changes. M = None: sqrt(d).
    """
    d = integer(at_least=0, degree=degree)
    return math.sqrt(d if receivers_per_sender is None else min(d, receivers_per_sender)) * _ROUND_UP


def vote_receiver_sensitivity(*, receivers_per_sender: int | None, row_clip: float, degree: int) -> float:
    """Theorem 9: a receiver of degree d that leaves moves the rows by at most sqrt(min(tau, d)^2 + (d g)^2) in L2.

    Its own row, of length at most min(tau, d), becomes 0. A sender with N > M receivers gives each of the other N - 1 more when
    this one is gone, by w(N - 1) - w(N): together sqrt(M) (1 - sqrt((N - 1) / N)), largest at N = M + 1:
    g = sqrt(M) (1 - sqrt(M / (M + 1))). At most d senders do so, and their increases may fall on the same rows. M = None: g = 0.

    >>> round(vote_receiver_sensitivity(receivers_per_sender=8, row_clip=5.0, degree=16), 4)
    5.6302
    """
    d, tau = integer(at_least=0, degree=degree), positive(row_clip=row_clip)
    M = receivers_per_sender
    # 1 - sqrt(M / (M + 1)) without cancellation
    g = 0.0 if M is None else math.sqrt(M) / ((M + 1) * (1 + math.sqrt(M / (M + 1))))
    return math.hypot(min(tau, d), d * g) * _ROUND_UP


def convergence_factor(*, hops: int, contraction: float) -> float:
    """Theorem 1: kappa = min(K, (1 - c^K)(1 + c) / ((1 + c^K)(1 - c))), c = C_L: the number of hops that one pays for.

    Written as tanh(K h) / tanh(h) with h = -log(c) / 2, which loses no digits for c near 1 or large K; kappa = K at
    c = 1. As K grows it converges to (1 + c) / (1 - c).

    >>> round(convergence_factor(hops=10, contraction=0.8) / 2, 2)
    3.63
    """
    K = integer(at_least=1, hops=hops)
    c = half_open_unit_interval(contraction=contraction)
    if c == 1:
        return float(K)
    h = -math.log(c) / 2
    return min(float(K), math.tanh(K * h) / math.tanh(h) * _ROUND_UP)
