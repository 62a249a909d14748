"""Every sensitivity and every contraction factor, one function per theorem.

Letters: C_L = contraction, alpha_1 = alpha1, alpha_2 = 1 - alpha1, beta, F = degree_floor, M = degree_cap, n = nodes,
K = hops. The operator is W = S^(-1/2) (A + I) S^(-1/2) with s_i = max(deg_i, F) + 1, rows of every state lie in the unit
ball. Proofs: docs/privacy.md. Attacks on every statement: tests/privacy/test_sensitivity_attack.py and tests/layers.

A layer has its theorem here, under its name in `LAYER_THEOREMS`: numbers in, a `Sensitivity` out. So whoever verifies a
certificate needs neither the layer nor torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from caribou._validate import finite, half_open_unit_interval, integer, non_negative, one_of, positive, unit_interval
from caribou.errors import InputError
from caribou.privacy.arithmetic import STORAGES, Arithmetic
from caribou.privacy.budget import PrivacyUnit

_ROUND_UP = 1 + 2.0**-44
"""Every bound is inflated by this factor, so that the rounding of its own evaluation can only add noise."""


@dataclass(frozen=True)
class Bounds:
    """What is declared in public about the graph. Never computed from it.

    ``degree_floor`` (F) enters the normalisation max(deg, F) + 1; ``degree_cap`` (M) cuts the graph at node level and is
    refused at edge level; ``nodes`` is n. ``degree_floor=None`` means F = M where a cap is given (no normalisation
    changes when a node leaves), else 0.

    Args:
        degree_floor: F.
        degree_cap: M, at node level.
        nodes: n.

    >>> Bounds(degree_cap=20).degree_floor
    20
    >>> Bounds(degree_floor=10)
    Bounds(degree_floor=10, degree_cap=None, nodes=None)
    """

    degree_floor: int = 0
    degree_cap: int | None = None
    nodes: int | None = None

    def __init__(
        self, degree_floor: int | None = None, degree_cap: int | None = None, nodes: int | None = None
    ) -> None:
        cap = None if degree_cap is None else integer(at_least=1, degree_cap=degree_cap)
        floor = (cap or 0) if degree_floor is None else integer(at_least=0, degree_floor=degree_floor)
        object.__setattr__(self, "degree_floor", floor)
        object.__setattr__(self, "degree_cap", cap)
        object.__setattr__(self, "nodes", None if nodes is None else integer(at_least=1, nodes=nodes))

    def normaliser(self, degree: int) -> int:
        """s(d) = max(d, F) + 1."""
        return max(degree, self.degree_floor) + 1


@dataclass(frozen=True)
class Sensitivity:
    """The bound of one step of message passing, together with everything it was derived from.

    ``value`` bounds ||phi_G(X) - phi_G'(X)||_F over all neighbouring graphs G, G' and all X with rows in the unit ball;
    ``contraction`` is the Lipschitz constant of phi_G for every G. ``layer`` names the map and its theorem, ``parameters`` are
    the public numbers that the theorem takes, as sorted pairs. ``residual`` says how much more than the product W X a step
    computes, for its rounding error (`double_precision`). A calibration takes this record, not a number, so that noise cannot be
    paired with the bound of another map.
    """

    value: float
    unit: PrivacyUnit
    contraction: float
    layer: str
    parameters: tuple[tuple[str, Any], ...]
    residual: float
    bounds: Bounds
    theorem: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            **asdict(self),
            "unit": self.unit.value,
            "parameters": dict(self.parameters),
            "bounds": asdict(self.bounds),
        }

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


def recomputed_sensitivity(record: Mapping[str, Any]) -> Sensitivity:
    """The bound that the theorem gives for what a record (`Sensitivity.to_dict`) says it was derived from.

    Of the record only unit, layer, parameters and bounds are read. Records of version 0.1.0 name no layer: they are of the
    contractive one and hold its numbers at the top.

    >>> s = layer_sensitivity("edge", contraction=0.9, alpha1=1.0, beta=0.5, bounds=Bounds(degree_floor=10))
    >>> recomputed_sensitivity({**s.to_dict(), "value": 0.0}) == s
    True
    """
    bounds = Bounds(**record["bounds"])
    if "layer" not in record:
        numbers = {key: record[key] for key in ("contraction", "alpha1", "beta")}
        return layer_sensitivity(record["unit"], **numbers, bounds=bounds)
    theorem = LAYER_THEOREMS.get(record["layer"])
    if theorem is None:
        raise InputError(f"layer must be one of {', '.join(LAYER_THEOREMS)}, got {record['layer']!r}")
    return theorem(record["unit"], record["parameters"], bounds)


def layer_sensitivity(
    unit: PrivacyUnit | str, *, contraction: float, alpha1: float, beta: float, bounds: Bounds
) -> Sensitivity:
    """The sensitivity of the contractive graph layer at a privacy unit, with its theorem.

    >>> round(layer_sensitivity("edge", contraction=1.0, alpha1=1.0, beta=0.0, bounds=Bounds(degree_floor=10)).value, 4)
    0.1849
    """
    unit = PrivacyUnit.parse(unit)
    contraction = half_open_unit_interval(contraction=contraction)
    alpha1 = unit_interval(alpha1=alpha1)
    beta = non_negative(beta=beta)
    if unit is PrivacyUnit.EDGE:
        _refuse_cap_at_edge_level(bounds)
        value = edge_sensitivity(
            contraction=contraction, alpha1=alpha1, degree_floor=bounds.degree_floor, nodes=bounds.nodes
        )
        theorem = "edge sensitivity under a degree floor (docs/privacy.md, Theorem 2)"
    elif unit is PrivacyUnit.NODE:
        value = node_sensitivity(contraction=contraction, alpha1=alpha1, bounds=bounds)
        theorem = "node sensitivity under a degree cap (docs/privacy.md, Theorem 3)"
    else:
        raise InputError(f"unit must be edge or node, got {unit!r}")
    parameters = (("alpha1", alpha1), ("beta", beta), ("contraction", contraction))
    return Sensitivity(value, unit, contraction, "contractive", parameters, beta, bounds, theorem)


def _refuse_cap_at_edge_level(bounds: Bounds) -> None:
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


def node_sensitivity(*, contraction: float, alpha1: float, bounds: Bounds) -> float:
    """Theorem 3: Delta_node = sqrt(1 + (C_L (alpha_1 T + alpha_2 / sqrt(n)))^2), T bounding the other rows of W X.

    The 1 is the own row of the node, bounded by the projection inside phi. For F >= M no normalisation changes:
    T = sqrt(M) / (F + 1). For F < M, with s(d) = max(d, F) + 1:

        T = max_{d <= M} sqrt(d / (s(d) s(1))) + sqrt(M) (max_{F <= d < M} q(d) r(d) + max_{F <= d < M} q(d))
        q(d) = 1 - sqrt((d + 1) / (d + 2)),    r(d) = (1/sqrt(d+1)) (1/sqrt(d+1) + d / sqrt(s(1)))

    Assumes degrees <= M in both graphs (the guarantee is for the bounded graph) and alpha_2 = 1 - alpha_1; n is needed
    only when alpha_2 > 0. Unit: L2 (Frobenius) norm.
    """
    contraction = half_open_unit_interval(contraction=contraction)
    alpha1 = unit_interval(alpha1=alpha1)
    T = _capped_other_rows(bounds)
    if alpha1 < 1 and bounds.nodes is None:
        raise InputError("nodes must be given at node level when alpha1 < 1 (the mean over all nodes enters), got None")
    mean = 0.0 if alpha1 == 1 else (1 - alpha1) / math.sqrt(bounds.nodes or 1)
    others = contraction * (alpha1 * T + mean)
    return math.sqrt(1 + others**2) * _ROUND_UP


def _capped_other_rows(bounds: Bounds) -> float:
    """T of Theorem 3: how far the rows of W X move, but for the own row of the node that leaves."""
    if bounds.degree_cap is None:
        raise InputError("degree_cap must be a whole number >= 1 at node level, got None")
    M, F, s = bounds.degree_cap, bounds.degree_floor, bounds.normaliser
    if F >= M:
        return math.sqrt(M) / (F + 1)

    def q(d: int) -> float:
        return 1 - math.sqrt((d + 1) / (d + 2))

    def r(d: int) -> float:
        return (1 / math.sqrt(d + 1)) * (1 / math.sqrt(d + 1) + d / math.sqrt(s(1)))

    # d / s(d) grows with d and q falls; q r falls from d = 6 on at the latest (a test scans further).
    lost_messages = math.sqrt(M / (s(M) * s(1)))
    rescaled_rows = max(q(d) * r(d) for d in range(F, min(M, F + 8)))
    rescaled_columns = q(F)
    return lost_messages + math.sqrt(M) * (rescaled_rows + rescaled_columns)


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
    _refuse_cap_at_edge_level(bounds)
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
    unit: PrivacyUnit | str, *, contraction: float, theta0: float, theta1: float, beta: float, bounds: Bounds
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
        _refuse_cap_at_edge_level(bounds)
        product = edge_sensitivity(
            contraction=contraction, alpha1=1.0, degree_floor=bounds.degree_floor, nodes=bounds.nodes
        )
        value = abs(theta1) * product
    elif unit is PrivacyUnit.NODE:
        value = math.sqrt(1 + (contraction * abs(theta1) * _capped_other_rows(bounds)) ** 2) * _ROUND_UP
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
        _refuse_cap_at_edge_level(bounds)
        value = edge_sensitivity(
            contraction=contraction, alpha1=1.0, degree_floor=bounds.degree_floor, nodes=bounds.nodes
        )
    elif unit is PrivacyUnit.NODE:
        value = math.sqrt(1 + (contraction * _capped_other_rows(bounds)) ** 2) * _ROUND_UP
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


LayerTheorem = Callable[[PrivacyUnit | str, Mapping[str, Any], Bounds], Sensitivity]

LAYER_THEOREMS: dict[str, LayerTheorem] = {
    "contractive": lambda unit, parameters, bounds: layer_sensitivity(unit, bounds=bounds, **parameters),
    "attention": lambda unit, parameters, bounds: attention_sensitivity(unit, bounds=bounds, **parameters),
    "spectral": lambda unit, parameters, bounds: spectral_sensitivity(unit, bounds=bounds, **parameters),
    "gcn": lambda unit, parameters, bounds: gcn_sensitivity(unit, bounds=bounds, **parameters),
}
"""The theorem of every layer by its name: (unit, public parameters, bounds) -> `Sensitivity`. Raises if there is none."""


def neighbourhood_gradient_sensitivity(*, degree_cap: int, own_share: float, own_example: bool = True) -> float:
    """How far one node moves a sum of clipped gradients, one per target node on its 1-hop neighbourhood, in clips.

        own example + M sqrt(2 - (1 - t^2) / (1 + t^2)),    t = sqrt((1 - w) / w) / (2 M)

    own example = 1 for a training node, 0 for a node that is in no example of its own; w = ``own_share`` in [1/5, 1). The example
    of target i is the row h_i = (sqrt(w) z_i, sqrt(1 - w) a_i), a_i = ||z_i|| / M times the sum of its neighbours' rows, all of
    length at most 1; its gradient is the outer product of h_i and R_i = softmax(h_i W) - onehot(y_i), scaled down to the clip c.
    A node is in its own example, which goes with it (at most c), and in those of at most M neighbours, where it moves a_i by at
    most ||z_i|| / M:

    * h and h' lie on a plane at distance sqrt(w) ||z|| from 0 and sqrt(1 - w) ||z|| / M apart: seen from 0 the angle is at most
      2 arctan(t), its cosine at least k = (1 - t^2) / (1 + t^2) >= 0;
    * with s = 1 - p_y, <R, R'> >= s s' and ||R||^2 = s^2 + sum over k != y of p_k^2 <= 2 s^2, so cos(R, R') >= 1/2;
    * gradients are outer products, so their cosine is at least k / 2, and two of them of length at most c differ by at most
      c sqrt(2 - k) (a convex function of the two lengths; at the corner (c, 0) it is c, which is not more).

    Published: 2 (M + 1), with 2 for any two gradients. Assumes degrees <= M in both graphs. Unit: L2 norm over clip.

    >>> round(neighbourhood_gradient_sensitivity(degree_cap=4, own_share=0.5), 4)
    5.0611
    """
    M = integer(at_least=1, degree_cap=degree_cap)
    w = half_open_unit_interval(own_share=own_share)
    if not 0.2 <= w < 1:
        raise InputError(f"own_share must be in [0.2, 1), got {own_share!r}")
    t = math.sqrt((1 - w) / w) / (2 * M)
    k = (1 - t * t) / (1 + t * t)
    return (M * math.sqrt(2 - k) + (1 if own_example else 0)) * _ROUND_UP


# -- sums over neighbours and gradients over rows of A -------------------------------------------------------------


@dataclass(frozen=True)
class SumSensitivity:
    """The bound of one noisy sum over neighbours, Pi_r(A Z), with everything it was derived from.

    ``degree_cap`` = D and ``radius`` = r are declared at node level and None at edge level, where nothing is cut or clipped.
    """

    value: float
    unit: PrivacyUnit
    degree_cap: int | None
    radius: float | None
    theorem: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "unit": self.unit.value}


def sum_sensitivity(
    unit: PrivacyUnit | str, *, degree_cap: int | None = None, radius: float | None = None
) -> SumSensitivity:
    """The sensitivity of a sum over neighbours at a privacy unit, with its theorem.

    >>> [round(sum_sensitivity("edge").value, 4), round(sum_sensitivity("node", degree_cap=20, radius=4.0).value, 4)]
    [1.4142, 6.0]
    """
    unit = PrivacyUnit.parse(unit)
    if unit is PrivacyUnit.EDGE:
        if degree_cap is not None or radius is not None:
            raise InputError(f"degree_cap and radius must be None at edge level, got {degree_cap} and {radius}")
        theorem = "an edge moves two rows of A Z by one message each (docs/privacy.md, Theorem 5)"
        return SumSensitivity(sum_edge_sensitivity(), unit, None, None, theorem)
    elif unit is PrivacyUnit.NODE:
        if degree_cap is None or radius is None:
            raise InputError(f"degree_cap and radius must be given at node level, got {degree_cap} and {radius}")
        value = sum_node_sensitivity(degree_cap=degree_cap, radius=radius)
        theorem = "a node moves D rows by one message each, and its own clipped row (docs/privacy.md, Theorem 6)"
        return SumSensitivity(value, unit, degree_cap, radius, theorem)
    raise InputError(f"unit must be edge or node, got {unit!r}")


def sum_edge_sensitivity() -> float:
    """Theorem 5: ||A Z - A' Z||_F <= sqrt(2) for graphs that differ in one undirected edge uv and rows of Z of norm <= 1.

    Row u differs by z_v and row v by z_u; all other rows are equal. (One *directed* entry would move one row: 1, the value
    published for GAP by Sajadmanesh et al. 2023.) Reached by every pair with rows of norm 1. Unit: L2 (Frobenius) norm.
    """
    return math.sqrt(2) * _ROUND_UP


def sum_node_sensitivity(*, degree_cap: int, radius: float) -> float:
    """Theorem 6: ||Pi_r(A Z) - Pi_r(A' Z)||_F <= sqrt(D + min(r, D)^2) for graphs of degree <= D that differ in one node.

    Pi_r projects every row onto the ball of radius r > 0. The at most D neighbours of the node lose its message, of norm at
    most 1, and Pi_r is 1-Lipschitz: sqrt(D). The node's own row is 0 in one world and at most min(r, D) in the other. (GAP
    publishes sqrt(D): the own row is not counted.) Reached by a star with D leaves and equal rows of norm 1.

    Assumes degrees <= D in both graphs (the guarantee is for the bounded graph), and rows of Z of norm at most 1 that are equal
    in both worlds but for the node's own, which nobody reads in the world without it. Unit: L2 (Frobenius) norm.
    """
    D = integer(at_least=1, degree_cap=degree_cap)
    r = positive(radius=radius)
    return math.sqrt(D + min(r, D) ** 2) * _ROUND_UP


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


def adjacency_gradient_node_sensitivity(*, degree_cap: int) -> float:
    """Theorem 8: a node moves the same sum by at most 1 + D sqrt(2 - 1/sqrt(2)) = 1 + 1.137 D clips.

    Its own example goes: 1. Each of its at most D neighbours loses one entry of its row, which moves its clipped gradient by at
    most sqrt(2 - q) clips (Theorem 7), q = sqrt(d / (d + 1)) >= 1/sqrt(2) for d >= 1 other neighbours, and 1 <= sqrt(2 - q) for
    d = 0. These changes may point in the same direction, so they add up and not their squares: a multiplier with
    sqrt(D + 1), as published for DPDGC, is exceeded by the complete bipartite graph K_{2,D}.

    Assumes degrees <= D in both graphs. Unit: clips, L2 norm.
    """
    D = integer(at_least=1, degree_cap=degree_cap)
    return (1 + D * math.sqrt(2 - 1 / math.sqrt(2))) * _ROUND_UP


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
