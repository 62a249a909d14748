"""The contractive graph layer: one deterministic step, with the sensitivity that bounds it. No noise is drawn here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from caribou._validate import half_open_unit_interval, non_negative, unit_interval
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import Operator, operator_of
from caribou.layers.bounded import BoundedLayer, FusedStep, check_state
from caribou.privacy.sensitivity import Bounds


class ContractiveGraphLayer(BoundedLayer):
    r"""CGL(X) = C_L (alpha_1 W X + alpha_2 Mean(X)) + beta X^(0), the paper's Equation (contractive graph layer).

    ``contraction`` = C_L in (0, 1], ``alpha1`` = alpha_1 in [0, 1], alpha_2 = 1 - alpha_1, ``beta`` >= 0. W is the
    degree-floor operator of `caribou.graph.operator`. For every graph the map is C_L-Lipschitz in X, because ||W|| <= 1 and
    ||Mean|| <= 1.

    Formal guarantee: `sensitivity` bounds the change of one step over all neighbouring graphs and all X with rows in
    the unit ball (docs/privacy.md, Theorems 2 and 3).

    Args:
        contraction: C_L.
        alpha1: weight of the neighbours; the mean over all nodes has the rest.
        beta: weight of X^(0).

    Shapes: X, X^(0) and the result are [n, d].

    >>> import torch
    >>> layer = ContractiveGraphLayer(contraction=0.8, alpha1=1.0, beta=0.5)
    >>> edge_index = torch.tensor([[0, 1], [1, 2]])                     # the path 0 - 1 - 2; either direction will do
    >>> x = torch.eye(3)
    >>> layer(x, edge_index, x0=x).shape
    torch.Size([3, 3])
    >>> round(layer.sensitivity("edge", Bounds(degree_floor=10)).value, 4)
    0.1479
    """

    name: ClassVar[str] = "contractive"

    def __init__(self, contraction: float = 0.9, alpha1: float = 1.0, beta: float = 0.0) -> None:
        super().__init__()
        self.contraction = half_open_unit_interval(contraction=contraction)
        self.alpha1 = unit_interval(alpha1=alpha1)
        self.beta = non_negative(beta=beta)

    def forward(
        self, x: Tensor, adjacency: Operator | Graph | Tensor, x0: Tensor | None = None, *, bounds: Bounds | None = None
    ) -> Tensor:
        """One step. x: [n, d], x0: [n, d] (needed if beta > 0), adjacency: `Operator`, `Graph` or edge_index [2, E].

        ``bounds`` is used to build the operator from a `Graph` or an edge_index (default: floor 0, no cap); an `Operator`
        carries its own.
        """
        if x.dim() != 2:
            raise InputError(f"x must have shape [nodes, columns], got {tuple(x.shape)}")
        operator = operator_of(adjacency, x.size(0), bounds or Bounds())
        check_state(x, operator)
        out = self.alpha1 * operator.aggregate(x)
        if self.alpha1 < 1:
            out = out + (1 - self.alpha1) * operator.mean(x)
        return self._finished(out, operator, x0)

    def parameters_dict(self) -> dict[str, Any]:
        """C_L, alpha_1 and beta."""
        return {"contraction": self.contraction, "alpha1": self.alpha1, "beta": self.beta}

    @classmethod
    def fused_step(cls, parameters: Mapping[str, Any]) -> FusedStep:
        """C_L alpha_1, C_L alpha_2 and beta."""
        contraction, alpha1 = parameters["contraction"], parameters["alpha1"]
        return FusedStep(contraction * alpha1, contraction * (1 - alpha1), parameters["beta"])


def project_rows(x: Tensor) -> Tensor:
    """Project every row onto the unit ball: x_i / max(1, ||x_i||). 1-Lipschitz (normalising to the sphere is not)."""
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=1)
