"""Bounded graph layers: maps with a Lipschitz constant and a sensitivity at a privacy unit. No noise is drawn here.

One of your own: a subclass of `BoundedLayer` in a file of its own, its theorem under its name in
`caribou.privacy.sensitivity.LAYER_THEOREMS`, the class in `LAYERS`, and a test that attacks the bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from caribou.errors import InputError
from caribou.layers.attention import AttentionLayer
from caribou.layers.bounded import BoundedLayer, FusedStep
from caribou.layers.contractive import ContractiveGraphLayer, project_rows
from caribou.layers.gcn import GCNLayer
from caribou.layers.spectral import SpectralLayer

LAYERS: dict[str, type[BoundedLayer]] = {
    layer.name: layer for layer in (ContractiveGraphLayer, AttentionLayer, SpectralLayer, GCNLayer)
}
"""Every layer by its name."""


def layer_from_record(record: Mapping[str, Any], **public: Any) -> BoundedLayer:
    """The layer of a record (`BoundedLayer.record`).

    Args:
        record: name and parameters of the layer.
        public: public inputs that a record does not hold (rows, theta), by name.

    Returns:
        The layer, which has this record.

    >>> layer_from_record(SpectralLayer(theta0=0.5, theta1=-0.5).record())
    SpectralLayer(contraction=0.9, theta0=0.5, theta1=-0.5, beta=0.0)
    """
    return layer_class(record["layer"]).from_parameters(record["parameters"], **public)


def layer_class(name: str) -> type[BoundedLayer]:
    """The layer of this name; an unknown one is an error that lists the known ones."""
    if name not in LAYERS:
        raise InputError(f"layer must be one of {', '.join(LAYERS)}, got {name!r}")
    return LAYERS[name]


__all__ = [
    "LAYERS",
    "AttentionLayer",
    "BoundedLayer",
    "ContractiveGraphLayer",
    "FusedStep",
    "GCNLayer",
    "SpectralLayer",
    "layer_class",
    "layer_from_record",
    "project_rows",
]
