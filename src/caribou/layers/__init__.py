"""Bounded graph layers: maps with a Lipschitz constant and a sensitivity at a privacy unit. No noise is drawn here.

Every layer is a `BoundedLayer`. One of your own is a subclass of `OwnLayer`, made known by `register_layer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from caribou.errors import InputError
from caribou.layers.attention import AttentionLayer
from caribou.layers.bounded import BoundedLayer, FusedStep
from caribou.layers.contractive import ContractiveGraphLayer, project_rows
from caribou.layers.gcn import GCNLayer
from caribou.layers.own import OwnLayer
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


def register_layer(layer: type[OwnLayer]) -> None:
    """Give a bounded layer of your own its name, by which ``caribou-edp`` knows it (``layer="..."``).

    Commands find it in the files that ``caribou --methods FILE`` names. A certificate says that its bound is the owner's.

    Args:
        layer: a subclass of `OwnLayer` with a new ``name``.

    Returns:
        Nothing.

    >>> class Halved(OwnLayer):
    ...     name, statement = "halved", "W X / 2 moves by half of what W X moves by"
    >>> register_layer(Halved)
    >>> LAYERS.pop("halved").__name__                                                 # the table is as it was
    'Halved'
    """
    if not isinstance(layer, type) or not issubclass(layer, OwnLayer):
        raise InputError(f"layer must be a subclass of caribou.layers.OwnLayer, got {layer!r}")
    if not layer.name.isidentifier() or not issubclass(LAYERS.get(layer.name, OwnLayer), OwnLayer):
        raise InputError.of("layer", "have a name of its own, of letters, digits and underscores", layer.name)
    LAYERS[layer.name] = layer


__all__ = [
    "LAYERS",
    "AttentionLayer",
    "BoundedLayer",
    "ContractiveGraphLayer",
    "FusedStep",
    "GCNLayer",
    "OwnLayer",
    "SpectralLayer",
    "layer_class",
    "layer_from_record",
    "project_rows",
    "register_layer",
]
