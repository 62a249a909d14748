"""Perturbed contractive message passing (the paper's Algorithm 1): K rounds of which only the last state is seen."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import Operator
from caribou.layers import LAYERS, BoundedLayer, project_rows
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.calibration import CalibratedPropagation
from caribou.privacy.sensitivity import LAYER_THEOREMS


def propagate(
    layer: BoundedLayer,
    operator: Operator,
    start: Tensor,
    calibrated: CalibratedPropagation,
    noise: NoiseSource,
) -> Tensor:
    """X^(k+1) = Pi(phi(X^(k)) + noise_std Z) for k = 0 .. K-1; only X^(K) comes back. [n, d] -> [n, d], float64.

    phi is one step of the layer at edge level, and that projected by Pi at node level (the own row of the protected node must be
    bounded before the noise). ``operator`` comes from `BoundedLayer.operator`. Rows of ``start`` are projected onto the unit ball
    first.

    At node level a node whose row of X^(0) is zero has no row of its own (`Operator.without_own_rows`). The rule looks at the
    node's own data and never at its edges. So a person whose data were deleted, a row of zeros without an edge, is the zeroed-out
    node of the theorem, bit by bit (docs/privacy.md, Lemma B). At edge level X^(0) is public, and the rule is not used.

    Formal guarantee: X^(K) is calibrated.mu-GDP at calibrated.sensitivity.unit (docs/privacy.md, Theorem 1), given that
    ``start`` is public at edge level, and at node level a row-wise function of the node's own data and of private releases. The
    intermediate states are not part of the guarantee and exist only inside this function.

    Args:
        layer: one step.
        operator: what the layer takes of the private graph.
        start: X^(0), [n, d].
        calibrated: noise for this layer, these bounds, this size and K hops.
        noise: private randomness.

    Returns:
        X^(K), [n, d], float64, rows in the unit ball.

    >>> from caribou.layers import ContractiveGraphLayer
    >>> from caribou.privacy.calibration import calibrate_propagation
    >>> from caribou.privacy.sensitivity import Bounds
    >>> graph = Graph.from_edges(np.eye(3), [[0, 1], [1, 2]])
    >>> layer, bounds = ContractiveGraphLayer(0.8), Bounds(degree_floor=2, nodes=3)
    >>> bound = layer.sensitivity("edge", bounds)
    >>> calibrated = calibrate_propagation(bound, hops=4, mu=1.0, arithmetic=bound.arithmetic(nodes=3, columns=3))
    >>> start = torch.eye(3, dtype=torch.float64)
    >>> propagate(layer, layer.operator(graph, bounds), start, calibrated, NoiseSource.secure()).shape
    torch.Size([3, 3])
    """
    check_pairing(layer, operator, start, calibrated)
    x0 = operator.mask(project_rows(start.detach().to(torch.float64)))
    bounded_before_noise = calibrated.sensitivity.unit is PrivacyUnit.NODE
    if bounded_before_noise:
        operator = operator.without_own_rows(~x0.any(dim=1).numpy())
    x = x0
    with torch.no_grad():
        for _ in range(calibrated.hops):
            x = layer(x, operator, x0)  # [n, d]
            if bounded_before_noise:
                x = project_rows(x)
            x = project_rows(torch.from_numpy(noise.add_gaussian(x.numpy(), std=calibrated.noise_std)))
    return x


def check_pairing(layer: BoundedLayer, operator: Operator, start: Tensor, calibrated: CalibratedPropagation) -> None:
    """The noise must have been calibrated for this layer, these bounds and this size, and X^(0) must be usable."""
    if operator.bounds.nodes not in (None, operator.num_nodes):
        raise InputError(
            f"nodes must be the number of nodes of the graph, {operator.num_nodes}, got {operator.bounds.nodes}"
        )
    if layer.name in LAYER_THEOREMS and LAYERS.get(layer.name) is not type(layer):
        raise InputError(
            f"layer must be the {layer.name} layer itself to have its theorem, got {type(layer).__name__}: a subclass computes "
            "something else, so write an OwnLayer with a name and a bound of its own"
        )
    expected = layer.sensitivity(calibrated.sensitivity.unit, operator.bounds)
    if calibrated.sensitivity != expected:
        raise InputError(
            "calibrated must belong to this layer and these bounds: "
            f"calibrated for {calibrated.sensitivity}, the layer has {expected}"
        )
    if layer.lipschitz > expected.contraction:
        raise InputError(
            f"contraction of the layer's sensitivity must be at least its Lipschitz constant, {layer.lipschitz}, "
            f"got {expected.contraction}"
        )
    if not isinstance(start, Tensor) or start.is_complex() or start.layout != torch.strided:
        raise InputError(f"start must be a dense real tensor, got {_kind(start)}")
    if start.dim() != 2 or start.size(0) != operator.num_nodes or start.size(1) < 1:
        raise InputError(f"start must have shape [{operator.num_nodes}, columns >= 1], got {tuple(start.shape)}")
    if not torch.isfinite(start).all():
        raise InputError("start must be finite, got NaN or infinity (it would carry edges past the noise)")
    if calibrated.is_private:
        needed = expected.arithmetic(nodes=start.size(0), columns=start.size(1))
        if calibrated.arithmetic.error(calibrated.noise_std) < needed.error(calibrated.noise_std):
            raise InputError(
                "calibrated must include the arithmetic error of this size: calibrate with "
                f"arithmetic=sensitivity.arithmetic(nodes={start.size(0)}, columns={start.size(1)})"
            )


def start_of(graph: Graph, start: Tensor | np.ndarray | None) -> Tensor:
    """X^(0): what is given as a tensor, or the features in double precision. [n, d]"""
    if start is None:
        if graph.num_features < 1:
            raise InputError("start must be given for a graph without features, got None")
        dense = graph.features.toarray() if sp.issparse(graph.features) else graph.features
        return torch.from_numpy(np.array(dense, dtype=np.float64))
    if isinstance(start, np.ndarray) and start.dtype.kind in "fiub":
        return torch.from_numpy(np.array(start))
    if isinstance(start, Tensor):
        return start
    raise InputError(f"start must be a real tensor or array, got {type(start).__name__}")


def _kind(value: object) -> str:
    return f"{value.dtype} in layout {value.layout}" if isinstance(value, Tensor) else type(value).__name__
