"""What a layer must be to pass messages privately: a bounded map that carries its bound. No noise is drawn here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor, nn

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import Operator, normalize
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.sensitivity import LAYER_THEOREMS, Bounds, Sensitivity


@dataclass(frozen=True)
class FusedStep:
    """The numbers of the compiled loop: X <- weight W X + mean_weight Mean(X) + start_weight X^(0)."""

    weight: float
    mean_weight: float
    start_weight: float


class BoundedLayer(nn.Module):
    """One deterministic step of message passing that is Lipschitz for every graph and bounded between neighbours.

    Formal guarantee, for every graph and X^(0) fixed: ||forward(X) - forward(Y)||_F <= lipschitz ||X - Y||_F; and for all
    neighbouring graphs and all X with rows in the unit ball a step changes by at most ``sensitivity(unit, bounds).value`` (at
    node level after the projection of rows onto the unit ball). `caribou.mechanisms.message_passing.propagate` runs any of them.

    A layer gives its name, its constructor, `forward` and `parameters_dict`. ``name`` is its key in `LAYERS` and
    `caribou.privacy.sensitivity.LAYER_THEOREMS`: the record of a layer must be enough for the theorem to recompute the bound
    without the layer.
    """

    name: ClassVar[str]
    contraction: float
    beta: float

    def __init__(self) -> None:
        super().__init__()

    def forward(self, x: Tensor, operator: Operator, x0: Tensor | None = None) -> Tensor:
        """One step. x, x0: [n, d] -> [n, d]."""
        raise NotImplementedError

    @property
    def lipschitz(self) -> float:
        """The Lipschitz constant of one step in X, for every graph: C_L."""
        return self.contraction

    def operator(self, graph: Graph, bounds: Bounds, sampling: np.random.Generator | None = None) -> Operator:
        """What `forward` takes of a graph: the degree-floor operator. ``sampling`` draws the edges that survive a degree cap."""
        return normalize(graph, bounds, sampling)

    def sensitivity(self, unit: PrivacyUnit | str, bounds: Bounds) -> Sensitivity:
        """The bound of one step at a privacy unit, as a record that calibration takes."""
        return LAYER_THEOREMS[self.name](unit, self.parameters_dict(), bounds, None)

    def parameters_dict(self) -> dict[str, Any]:
        """The public parameters as plain JSON values: all that the theorem takes."""
        raise NotImplementedError

    def record(self) -> dict[str, Any]:
        """Name and public parameters; `layer_from_record` is the inverse."""
        return {"layer": self.name, "parameters": self.parameters_dict()}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], **public: Any) -> Self:
        """The layer of these public parameters; ``public``: public inputs that are not among them."""
        return cls(**parameters, **public)

    @classmethod
    def fused_step(cls, parameters: Mapping[str, Any]) -> FusedStep | None:
        """The numbers with which the compiled loop computes a layer of these parameters; None: it cannot."""
        return None

    def extra_repr(self) -> str:
        """Shown in ``repr``."""
        return ", ".join(f"{key}={value}" for key, value in self.parameters_dict().items())

    def _finished(self, messages: Tensor, operator: Operator, x0: Tensor | None) -> Tensor:
        """C_L messages + beta X^(0); nodes without a row of their own have no X^(0). [n, d] -> [n, d]"""
        out = self.contraction * messages
        if self.beta > 0:
            if x0 is None or x0.shape != out.shape:
                raise InputError(
                    f"x0 must have the shape of x, {tuple(out.shape)}, when beta > 0, "
                    f"got {None if x0 is None else tuple(x0.shape)}"
                )
            out = out + self.beta * operator.mask(x0)
        return out


def check_state(x: Tensor, operator: Operator, *, weighting: str = "equal") -> None:
    """A state has one row per node, and the operator is one of the layer's own kind."""
    if not isinstance(operator, Operator):
        raise InputError(f"operator must be an Operator (see layer.operator), got {type(operator).__name__}")
    if operator.weighting != weighting:
        raise InputError(f"operator must have {weighting} weights, got those of {operator.weighting}")
    if x.dim() != 2:
        raise InputError(f"x must have shape [nodes, columns], got {tuple(x.shape)}")
    if operator.num_nodes != x.size(0):
        raise InputError(f"x must have one row per node, {operator.num_nodes}, got {x.size(0)}")
