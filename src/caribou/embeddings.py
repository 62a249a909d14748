"""Private node embeddings: a graph in, X^(K) and its certificate out."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.layers import BoundedLayer
from caribou.mechanisms.message_passing import check_pairing, propagate
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.budget import Budget, warn_of_large_delta
from caribou.privacy.calibration import budget_mu, calibrate_propagation
from caribou.privacy.certificate import (
    Assumption,
    Certificate,
    certify,
    initial_state_assumption,
    propagation_record,
    standing_assumptions,
)
from caribou.privacy.ledger import Ledger, ledger_text
from caribou.privacy.sensitivity import LAYER_ASSUMPTIONS, Bounds
from caribou.randomness import Streams


@dataclass(frozen=True, eq=False)
class Release:
    """What may leave the house: the last state, and the certificate that says what it cost."""

    state: Tensor  # [n, d], float64, rows in the unit ball
    certificate: Certificate


def release(
    graph: Graph,
    layer: BoundedLayer,
    *,
    hops: int,
    budget: Budget,
    bounds: Bounds,
    start: Tensor | np.ndarray | None = None,
    seed: int = 0,
    noise: NoiseSource | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    replace_fingerprint: bool = False,
) -> Release:
    """Release X^(K) of ``graph`` after K steps of ``layer`` under the whole ``budget``.

    ``start`` is X^(0) (default: the features); it must be public at edge level, and a row-wise function of each node's
    own data at node level. ``seed`` draws the public coins (which edges survive a degree cap). ``noise`` defaults to a
    fresh key from the operating system. With a ``ledger`` (or its path) the cost is booked under ``graph.name`` before any
    noise is drawn, and refused if the data set's total does not allow it; ``replace_fingerprint=True`` declares that a
    graph whose content has changed is still about the same people.

    >>> import caribou as cb
    >>> graph = cb.datasets.load("csbm", nodes=200, seed=1)
    >>> result = cb.release(graph, cb.ContractiveGraphLayer(contraction=0.8), hops=8,
    ...                     budget=cb.Budget(4, 1e-5, "edge"), bounds=cb.Bounds(degree_floor=10))
    >>> tuple(result.state.shape), result.certificate.status
    ((200, 32), 'private')
    """
    _check_types(graph=(graph, Graph), budget=(budget, Budget), bounds=(bounds, Bounds))
    if not isinstance(layer, BoundedLayer):
        raise InputError(f"layer must be a BoundedLayer (see caribou.layers), got {type(layer).__name__}")
    noise = noise or NoiseSource.secure()
    _check_types(noise=(noise, NoiseSource), ledger=(ledger, (Ledger, str, os.PathLike, type(None))))
    if ledger is not None and budget.is_private and not noise.is_secret:
        raise InputError(f"noise must come from the operating system when a ledger is given, got {noise.origin}")
    if bounds.nodes not in (None, graph.num_nodes):
        raise InputError(f"nodes must be the number of nodes of the graph, {graph.num_nodes}, got {bounds.nodes}")
    warn_of_large_delta(budget, graph.num_nodes)
    bounds = Bounds(bounds.degree_floor, bounds.degree_cap, graph.num_nodes)
    x0 = _features(graph) if start is None else _tensor(start)
    columns = x0.shape[-1] if x0.dim() == 2 else 1
    sensitivity = layer.sensitivity(budget.unit, bounds)
    arithmetic = sensitivity.arithmetic(nodes=graph.num_nodes, columns=max(1, columns))
    calibrated = calibrate_propagation(sensitivity, hops=hops, mu=budget_mu(budget), arithmetic=arithmetic)
    operator = layer.operator(graph, bounds, Streams(seed).sampling)
    check_pairing(layer, operator, x0, calibrated)  # before the ledger: a bad argument must not cost budget
    certificate = certify(
        budget,
        [propagation_record(calibrated)],
        released=[f"the last state X^(K), {graph.num_nodes} x {columns}, and whatever is computed from it"],
        public_parameters={
            "nodes": graph.num_nodes,
            "columns": columns,
            "hops": calibrated.hops,
            "layer": layer.name,
            **layer.parameters_dict(),
            "degree_floor": bounds.degree_floor,
            "degree_cap": bounds.degree_cap,
            "start": "features" if start is None else "given by the curator",
        },
        assumptions=[
            *standing_assumptions(budget.unit, noise_is_secret=noise.is_secret, noise_origin=noise.origin),
            initial_state_assumption(budget.unit),
            *(Assumption("layer", sentence) for name, sentence in LAYER_ASSUMPTIONS.items() if name == layer.name),
        ],
    )
    if ledger is None:
        return Release(propagate(layer, operator, x0, calibrated, noise), certificate)
    ledger_text(dataset=graph.name)
    # last: a new ledger is made here, and a refused release must not leave one behind
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    receipt = book.charge(
        graph.name,
        budget.unit,
        certificate.events,
        description=f"embeddings after {calibrated.hops} hops",
        fingerprint=book.fingerprint(graph.content()),
        replace_fingerprint=replace_fingerprint,
        certificate_id=certificate.certificate_id,
    )
    state = propagate(layer, operator, x0, calibrated, noise)
    book.annotate(receipt.id, "released")
    return Release(state, certificate)


def _check_types(**fields: tuple[object, type | tuple[type, ...]]) -> None:
    """The border: whatever is not of the right type is named, without showing it (it may be private)."""
    for name, (value, kinds) in fields.items():
        if not isinstance(value, kinds):
            wanted = kinds.__name__ if isinstance(kinds, type) else kinds[0].__name__
            raise InputError(f"{name} must be a {wanted}, got {type(value).__name__}")


def _tensor(start: Tensor | np.ndarray) -> Tensor:
    if isinstance(start, np.ndarray) and start.dtype.kind in "fiub":
        return torch.from_numpy(np.array(start))
    if isinstance(start, Tensor):
        return start
    raise InputError(f"start must be a real tensor or array, got {type(start).__name__}")


def _features(graph: Graph) -> Tensor:
    if graph.num_features < 1:
        raise InputError("start must be given for a graph without features, got None")
    dense = graph.features.toarray() if sp.issparse(graph.features) else graph.features
    return torch.from_numpy(np.array(dense, dtype=np.float64))
