"""The spectral layer: a polynomial of degree one in W, low-pass or high-pass."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from caribou._validate import finite, half_open_unit_interval, non_negative
from caribou.errors import InputError
from caribou.graph.operator import Operator
from caribou.layers.bounded import BoundedLayer, check_state


class SpectralLayer(BoundedLayer):
    r"""C_L (theta_0 X + theta_1 W X) + beta X^(0) with |theta_0| + |theta_1| <= 1.

    ``theta1`` > 0 smooths over edges (low-pass); ``theta1`` < 0 sharpens differences (high-pass), for graphs whose neighbours
    tend to differ. ``contraction`` = C_L in (0, 1], ``beta`` >= 0. W is the degree-floor operator of `caribou.graph.operator`.
    For every graph the map is C_L-Lipschitz in X, because ||theta_0 I + theta_1 W|| <= |theta_0| + |theta_1|.

    Formal guarantee: `sensitivity` bounds the change of one step at edge and at node level (docs/privacy.md, Theorem L2). Only
    theta_1 W X reads edges, so the edge bound is |theta_1| times that of W X.

    >>> import torch
    >>> from caribou.graph import Graph
    >>> from caribou.privacy.sensitivity import Bounds
    >>> layer = SpectralLayer(theta0=0.5, theta1=-0.5, contraction=1.0)
    >>> pair = layer.operator(Graph.from_edges(torch.eye(2).numpy(), [[0], [1]]), Bounds(degree_floor=1))
    >>> layer(torch.tensor([[1.0], [-1.0]]), pair).tolist(), layer(torch.tensor([[1.0], [1.0]]), pair).tolist()
    ([[0.5], [-0.5]], [[0.0], [0.0]])
    >>> round(layer.sensitivity("edge", Bounds(degree_floor=10)).value, 4)
    0.0925
    """

    name: ClassVar[str] = "spectral"

    def __init__(
        self, *, theta0: float = 0.5, theta1: float = 0.5, contraction: float = 0.9, beta: float = 0.0
    ) -> None:
        super().__init__()
        self.contraction = half_open_unit_interval(contraction=contraction)
        self.beta = non_negative(beta=beta)
        self.theta0, self.theta1 = finite(theta0=theta0), finite(theta1=theta1)
        if abs(self.theta0) + abs(self.theta1) > 1:
            raise InputError(f"|theta0| + |theta1| must be at most 1, got {theta0!r} and {theta1!r}")

    def forward(self, x: Tensor, operator: Operator, x0: Tensor | None = None) -> Tensor:
        """One step. x: [n, d], x0: [n, d] (needed if beta > 0) -> [n, d]; ``operator`` from `operator`."""
        check_state(x, operator)
        return self._finished(self.theta0 * operator.mask(x) + self.theta1 * operator.aggregate(x), operator, x0)

    def parameters_dict(self) -> dict[str, Any]:
        """C_L, theta_0, theta_1 and beta."""
        return {
            "contraction": self.contraction,
            "theta0": self.theta0,
            "theta1": self.theta1,
            "beta": self.beta,
        }
