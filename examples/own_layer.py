"""A bounded layer of your own in one file, for the message passing of caribou-edp.

    caribou --methods examples/own_layer.py train caribou-edp --dataset csbm:nodes=600 --epsilon 4 --set layer=tanh

tanh flattens large sums, so that a node of many neighbours does not drown the others. It is 1-Lipschitz in every entry: a step
moves by at most what C_L W X moves by, and the bound of that is the library's (docs/privacy.md, Theorem 2). The certificate says
that the step from there to this layer is your statement.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

import caribou as cb
from caribou.layers import OwnLayer
from caribou.privacy.sensitivity import layer_sensitivity


class TanhLayer(OwnLayer):
    """C_L tanh(W X) + beta X^(0), entry by entry."""

    name = "tanh"
    statement = "tanh is 1-Lipschitz in every entry, so a step moves by at most what C_L W X moves by (Theorem 2)"

    def __init__(self, *, contraction: float = 0.9, beta: float = 0.0) -> None:
        super().__init__()
        self.contraction, self.beta = contraction, beta

    def forward(self, x: Tensor, operator: Any, x0: Tensor | None = None) -> Tensor:
        """One step. x, x0: [n, d] -> [n, d]."""
        return self._finished(operator.aggregate(x).tanh(), operator, x0)

    def parameters_dict(self) -> dict[str, Any]:
        """All that the bound follows from."""
        return {"contraction": self.contraction, "beta": self.beta}

    def edge_bound(self, bounds: cb.Bounds) -> float:
        """Of one step, for every graph."""
        return layer_sensitivity("edge", contraction=self.contraction, alpha1=1.0, beta=0.0, bounds=bounds).value


cb.register_layer(TanhLayer)
