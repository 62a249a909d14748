"""A bounded layer of one's own: its class carries the bound, and a certificate repeats it as the owner's statement."""

from __future__ import annotations

from typing import ClassVar

from caribou._validate import non_negative, positive
from caribou.errors import InputError
from caribou.layers.bounded import BoundedLayer
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.sensitivity import Bounds, Sensitivity, refuse_cap_at_edge_level


class OwnLayer(BoundedLayer):
    """A layer that this library has no theorem about, at edge level.

    A subclass gives ``name``, ``statement`` (why its bound holds, and what it assumes), a constructor that sets ``contraction``
    and ``beta``, `forward`, `parameters_dict` and `edge_bound`. Its map must be ``contraction``-Lipschitz for every graph. No
    program can check a proof: attack the bound before you rely on it (`tests/layers/test_own.py` shows how).

    >>> class Halved(OwnLayer):
    ...     name, statement = "halved", "W X / 2 moves by half of what W X moves by"
    >>> issubclass(Halved, BoundedLayer)
    True
    """

    statement: ClassVar[str]

    def edge_bound(self, bounds: Bounds) -> float:
        """How far one edge moves a step, in Frobenius norm, for every graph and all states with rows in the unit ball."""
        raise NotImplementedError

    def sensitivity(self, unit: PrivacyUnit | str, bounds: Bounds) -> Sensitivity:
        """The bound as a record that calibration takes; refused at node level."""
        parsed = PrivacyUnit.parse(unit)
        if parsed is not PrivacyUnit.EDGE:
            raise InputError(f"unit must be edge for the layer {self.name}, which is the owner's, got {parsed.value}")
        refuse_cap_at_edge_level(bounds)
        parameters = tuple(sorted(self.parameters_dict().items()))
        value, theorem = positive(edge_bound=self.edge_bound(bounds)), f"the owner's statement: {self.statement}"
        return Sensitivity(
            value, parsed, self.contraction, self.name, parameters, 1 + non_negative(beta=self.beta), bounds, theorem
        )
