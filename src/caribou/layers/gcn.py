"""The contractive GCN layer: a graph convolution with a public mixing matrix and a 1-Lipschitz activation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from caribou._validate import half_open_unit_interval, integer, non_negative, one_of
from caribou.errors import InputError
from caribou.graph.operator import Operator
from caribou.layers.bounded import BoundedLayer, check_state
from caribou.privacy.sensitivity import ACTIVATIONS
from caribou.randomness import Streams

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {"identity": lambda x: x, "relu": torch.relu, "tanh": torch.tanh}
"""The activations by name: 1-Lipschitz, and 0 at 0."""


class GCNLayer(BoundedLayer):
    r"""C_L sigma(W X Theta) + beta X^(0), with a public Theta of spectral norm at most 1. Theta: [d, d].

    ``columns`` = d. ``theta`` is divided by its largest singular value, rounded up, if that exceeds 1; None draws an orthogonal
    matrix from the public ``seed``. ``activation`` = sigma: identity, relu or tanh, 1-Lipschitz with sigma(0) = 0.
    ``contraction`` = C_L in (0, 1], ``beta`` >= 0. W is the degree-floor operator of `caribou.graph.operator`. For every graph
    the map is C_L-Lipschitz in X, because ||W|| <= 1, ||Theta|| <= 1 and sigma is 1-Lipschitz.

    Formal guarantee: `sensitivity` bounds the change of one step at edge and at node level (docs/privacy.md, Theorem L3).
    *Assumes* that Theta is public: it was drawn or trained without private data.

    >>> from caribou.graph import Graph
    >>> from caribou.privacy.sensitivity import Bounds
    >>> layer = GCNLayer(2, theta=np.array([[0.0, 3.0], [-3.0, 0.0]]), activation="relu", contraction=1.0)
    >>> operator = layer.operator(Graph.from_edges(np.eye(2), [[0], [1]]), Bounds(degree_floor=1))
    >>> [[round(value, 6) for value in row] for row in layer(torch.eye(2), operator).tolist()]
    [[0.0, 0.5], [0.0, 0.5]]
    >>> round(layer.sensitivity("edge", Bounds(degree_floor=10)).value, 4)
    0.1849
    """

    name: ClassVar[str] = "gcn"

    def __init__(
        self,
        columns: int,
        *,
        theta: np.ndarray | Tensor | None = None,
        seed: int = 0,
        activation: str = "tanh",
        contraction: float = 0.9,
        beta: float = 0.0,
    ) -> None:
        super().__init__()
        self.columns = integer(at_least=1, columns=columns)
        self.activation = one_of(ACTIVATIONS, activation=activation)
        self.contraction = half_open_unit_interval(contraction=contraction)
        self.beta = non_negative(beta=beta)
        given = _orthogonal(self.columns, seed) if theta is None else _checked_theta(theta, self.columns)
        self._theta = torch.from_numpy(given / max(1.0, spectral_norm_bound(given)))

    @property
    def theta(self) -> Tensor:
        """Theta, [d, d], float64, with ||Theta||_2 <= 1. A copy."""
        return self._theta.clone()

    def forward(self, x: Tensor, operator: Operator, x0: Tensor | None = None) -> Tensor:
        """One step. x: [n, d], x0: [n, d] (needed if beta > 0) -> [n, d]; ``operator`` from `operator`."""
        check_state(x, operator)
        if x.size(1) != self.columns:
            raise InputError(f"x must have {self.columns} columns, the size of Theta, got {x.size(1)}")
        mixed = operator.aggregate(x) @ self._theta.to(x.dtype)
        return self._finished(FUNCTIONS[self.activation](mixed), operator, x0)

    def parameters_dict(self) -> dict[str, Any]:
        """C_L, beta, the activation, d and the bound on ||Theta||_2. Theta is public, too, but does not enter the bound."""
        return {
            "contraction": self.contraction,
            "beta": self.beta,
            "activation": self.activation,
            "columns": self.columns,
            "spectral_norm": 1.0,
        }

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], **public: Any) -> Self:
        """The layer of these public parameters with the given ``theta``, or the one of the given ``seed``."""
        return cls(**{key: value for key, value in parameters.items() if key != "spectral_norm"}, **public)


def spectral_norm_bound(matrix: np.ndarray) -> float:
    """At least ||matrix||_2: the computed one plus more than it, and a division by it, can be off. [d, d] -> number"""
    d = max(matrix.shape)
    # A backward stable decomposition errs by a low power of d times 2^-53; rounding the quotient by sqrt(d) 2^-53.
    return float(np.linalg.norm(matrix, 2)) * (1 + (d + 8) ** 2 * 2.0**-50)


def _orthogonal(columns: int, seed: int) -> np.ndarray:
    """The orthogonal factor of a matrix of public uniform numbers. [d, d]"""
    uniform = Streams(seed).generator("layer").random((columns, columns)) - 0.5
    factor: np.ndarray = np.linalg.qr(uniform)[0]
    return factor


def _checked_theta(theta: np.ndarray | Tensor, columns: int) -> np.ndarray:
    values = np.array(theta.detach().cpu().numpy() if isinstance(theta, Tensor) else theta)
    if values.shape != (columns, columns) or values.dtype.kind not in "fiub":
        raise InputError(f"theta must be a real matrix of shape {(columns, columns)}, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise InputError("theta must be finite, got NaN or infinity")
    return values.astype(np.float64)
