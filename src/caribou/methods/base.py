"""Methods: complete recipes from a graph and a budget to predictions with a certificate. They contain no formula."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate
from caribou.privacy.events import Event
from caribou.randomness import Streams


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a method hands back. ``released`` and ``weights`` are covered by the certificate and may be stored or published.

    ``probabilities``: [n, C], one row per node of the training graph. At edge level they may be published, too. At node
    level a node's own row is computed from its own features: it is for that node, and not covered for anybody else.
    ``released``: the arrays that mechanisms released (a state, a transcript), at edge level with the probabilities. ``weights``:
    parameters of the models that were trained on public data or privately.
    """

    probabilities: np.ndarray
    certificate: Certificate
    released: Mapping[str, np.ndarray] = field(default_factory=dict)
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)


class Method(Protocol):
    """A frozen record of public settings that can be fitted. No call changes the graph."""

    def fit(self, graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource) -> Fitted:
        """Train on ``graph`` within ``budget``; public coins from ``streams``, privacy noise from ``noise``."""
        ...

    def cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """What `fit` will cost, from public numbers alone: known before any noise is drawn."""
        ...

    def release(
        self, weights: Mapping[str, np.ndarray], graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource
    ) -> Fitted:
        """Predict another graph with fitted weights, which takes a release about that graph (unless no edge is read)."""
        ...

    def release_cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """What `release` will cost, from public numbers alone; empty if it reads nothing private but each node's own data."""
        ...

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of the nodes that ``released`` is about, without spending anything. [n, C]"""
        ...

    def settings(self) -> Mapping[str, Any]:
        """The public settings, for records and certificates: plain JSON values that `MethodInfo.create` takes back."""
        ...


@dataclass(frozen=True)
class MethodInfo:
    """A method by name: its privacy unit, where its class lives, and what it is in words.

    ``private`` = False: it protects nothing and takes an infinite epsilon only. ``transductive``: it predicts no other graph.
    ``data_independent``: it reads nothing that is protected at its unit, so it spends nothing and is the same at every epsilon.
    """

    unit: PrivacyUnit
    home: str
    summary: str
    private: bool = True
    transductive: bool = False
    data_independent: bool = False

    def check(self, name: str, budget: Budget) -> None:
        """The budget must be of this method's unit, and infinite if it has no privacy."""
        if budget.unit is not self.unit:
            raise InputError(f"unit must be {self.unit.value} for {name}, got {budget.unit.value}")
        if not self.private and budget.is_private:
            raise InputError(f"epsilon must be inf for {name}, which is not private, got {budget.epsilon:g}")

    def create(self, **settings: Any) -> Method:
        """The method with these settings; an unknown one is an error that lists the known ones."""
        module, name = self.home.split(":")
        cls = getattr(importlib.import_module(module), name)
        known = [f.name for f in fields(cls)]
        unknown = sorted(set(settings) - set(known))
        if unknown:
            raise InputError(f"setting must be one of {', '.join(known)}, got {', '.join(unknown)}")
        method: Method = cls(**settings)
        return method


METHODS = {
    "caribou-edp": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.caribou:Caribou",
        "perturbed contractive message passing of class messages",
    ),
    "caribou-inf": MethodInfo(
        PrivacyUnit.EDGE, "caribou.methods.edge.caribou:Caribou", "the same without noise: a yardstick", private=False
    ),
    "caribou-ndp": MethodInfo(
        PrivacyUnit.NODE,
        "caribou.methods.node.caribou:CaribouNdp",
        "a private model, with perturbed message passing of label codes where it pays",
    ),
    "votes-edp": MethodInfo(
        PrivacyUnit.EDGE, "caribou.methods.edge.votes:VotesEdge", "votes in waves, every pair of nodes asked once"
    ),
    "votes-ndp": MethodInfo(
        PrivacyUnit.NODE, "caribou.methods.node.votes:VotesNdp", "a private linear model, with votes where they pay"
    ),
    "sage-edp": MethodInfo(
        PrivacyUnit.EDGE, "caribou.methods.edge.sage:SageEdge", "GraphSAGE on a graph perturbed by randomized response"
    ),
    "sage-inf": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.sage:SageEdge",
        "GraphSAGE on the graph itself: a yardstick",
        private=False,
    ),
    "sage-ndp": MethodInfo(
        PrivacyUnit.NODE, "caribou.methods.node.sage:SageNdp", "one SAGE layer, trained and applied privately"
    ),
    "lapgraph-edp": MethodInfo(
        PrivacyUnit.EDGE, "caribou.methods.edge.lapgraph:LapGraph", "GraphSAGE on a graph perturbed by LapGraph"
    ),
    "gap-edp": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.gap:Gap",
        "GAP: noisy sums of embeddings over neighbours, K hops, all released",
    ),
    "gap-inf": MethodInfo(
        PrivacyUnit.EDGE, "caribou.methods.edge.gap:Gap", "the same without noise: a yardstick", private=False
    ),
    "gap-ndp": MethodInfo(
        PrivacyUnit.NODE, "caribou.methods.node.gap:GapNdp", "GAP with a private encoder and a private classifier"
    ),
    "dpdgc-edp": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.dpdgc:Dpdgc",
        "DPDGC: noisy products of A with privately trained weights",
        transductive=True,
    ),
    "dpdgc-inf": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.dpdgc:Dpdgc",
        "the same without noise: a yardstick",
        private=False,
        transductive=True,
    ),
    "dpdgc-ndp": MethodInfo(
        PrivacyUnit.NODE,
        "caribou.methods.node.dpdgc:DpdgcNdp",
        "DPDGC with every part trained privately",
        transductive=True,
    ),
    "mlp-dp": MethodInfo(
        PrivacyUnit.NODE,
        "caribou.methods.node.mlp:MlpDp",
        "a private model that never sees an edge, linear unless told otherwise",
    ),
    "mlp": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.mlp:Mlp",
        "the encoder alone: no edge is read, no noise is needed",
        data_independent=True,
    ),
}
"""The methods of ``caribou train``. Classes are imported when one is created."""


def method_info(name: str) -> MethodInfo:
    """The entry of METHODS; an unknown name is an error that lists the known ones."""
    if name not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {name!r}")
    return METHODS[name]
