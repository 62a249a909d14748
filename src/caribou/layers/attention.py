"""The contractive attention layer: neighbours that are alike in public count more. Edge level only."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from caribou._validate import half_open_unit_interval, non_negative
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import Operator, normalize_weighted
from caribou.layers.bounded import BoundedLayer, check_state
from caribou.privacy.sensitivity import Bounds


class AttentionLayer(BoundedLayer):
    r"""C_L W X + beta X^(0), W = S^(-1/2) (A_w + I) S^(-1/2) with edge weights w_uv in (0, 1] from public rows p.

        w_uv = (1 + gamma ||p_u - p_v||^2 / 8)^(-8)                      close to exp(-gamma ||p_u - p_v||^2)
        s_i  = max(sum_j w_ij, F) + 1

    ``rows`` = p, [n, k]: features, or class probabilities of a model that saw no edge. ``sharpness`` = gamma >= 0; at 0 all
    weights are 1. ``contraction`` = C_L in (0, 1], ``beta`` >= 0. For every graph the map is C_L-Lipschitz in X: ||W|| <= 1,
    because |x'(A_w + I)x| <= sum_i (sum_j w_ij + 1) x_i^2.

    Formal guarantee: at edge level a step changes by at most `sensitivity` (docs/privacy.md, Theorem L1). *Assumes* that the rows
    are public: the weight of a pair then depends on no edge, so an edge changes no weight but its own. The weight is computed
    with +, -, * and / alone, column by column: the same pair has the same bits in both worlds, whatever the other edges. At node
    level rows are private, and the layer is refused.

    >>> import torch
    >>> graph = Graph.from_edges(np.eye(3), [[0, 1], [1, 2]])
    >>> layer = AttentionLayer(rows=np.array([[0.0], [0.0], [1.0]]), sharpness=8.0, contraction=1.0)
    >>> operator = layer.operator(graph, Bounds(degree_floor=1))
    >>> layer(torch.eye(3, dtype=torch.float64), operator)[1].tolist()[2] < 0.01         # 1 hardly listens to 2
    True
    >>> round(layer.sensitivity("edge", Bounds(degree_floor=10)).value, 4)
    0.1841
    """

    name: ClassVar[str] = "attention"

    def __init__(
        self, rows: np.ndarray | Tensor, *, sharpness: float = 2.0, contraction: float = 0.9, beta: float = 0.0
    ) -> None:
        super().__init__()
        self.contraction = half_open_unit_interval(contraction=contraction)
        self.beta = non_negative(beta=beta)
        self.sharpness = non_negative(sharpness=sharpness)
        self._columns = _checked_columns(rows)

    def operator(self, graph: Graph, bounds: Bounds, sampling: np.random.Generator | None = None) -> Operator:
        """The degree-floor operator with weighted degrees. A degree cap is refused: no theorem covers it."""
        if bounds.degree_cap is not None:
            raise InputError(f"degree_cap must be None for the attention layer, got {bounds.degree_cap}")
        if self._columns.shape[1] != graph.num_nodes:
            raise InputError(f"rows must be one per node, {graph.num_nodes}, got {self._columns.shape[1]}")
        return normalize_weighted(graph, bounds, self.weights, weighting=self.name)

    def weights(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """w_uv of pairs: a function of the two rows alone, bit by bit. [E], [E] -> [E]"""
        if self.sharpness == 0:
            return np.ones(len(u))
        squares = np.zeros(len(u))
        with np.errstate(over="ignore"):  # rows infinitely far apart have weight 0
            for column in self._columns:
                gap = column[u] - column[v]
                squares += gap * gap
            weight = 1 / (1 + squares * (self.sharpness / 8))
        for _ in range(3):
            weight = weight * weight
        return weight

    def forward(self, x: Tensor, operator: Operator, x0: Tensor | None = None) -> Tensor:
        """One step. x: [n, d], x0: [n, d] (needed if beta > 0) -> [n, d]; ``operator`` from `operator`."""
        check_state(x, operator, weighting=self.name)
        return self._finished(operator.aggregate(x), operator, x0)

    def parameters_dict(self) -> dict[str, Any]:
        """C_L, beta and gamma. The rows are public, too, but do not enter the bound."""
        return {"contraction": self.contraction, "beta": self.beta, "sharpness": self.sharpness}


def _checked_columns(rows: np.ndarray | Tensor) -> np.ndarray:
    """A sealed copy, one public column per row. [n, k] -> [k, n]"""
    values = np.array(rows.detach().cpu().numpy() if isinstance(rows, Tensor) else rows)
    if values.ndim != 2 or values.dtype.kind not in "fiub" or values.shape[1] < 1:
        raise InputError(f"rows must be a real matrix with a row per node, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise InputError("rows must be finite, got NaN or infinity")
    columns = np.array(values.T, dtype=np.float64, order="C")
    columns.setflags(write=False)
    return columns
