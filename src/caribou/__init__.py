"""CARIBOU: private graph learning whose guarantee survives attack.

Names in the order of the pipeline: a graph comes in, bounds and a budget are declared, a contractive layer is run with noise, a
state comes out with its certificate, and tasks are done with it. Heavy libraries are loaded on first use, so that
``import caribou`` is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from caribou.errors import needs_training

# At once, and not on first use: the function has the name of its module, and the last one bound wins. It loads nothing heavy.
from caribou.release import release

__version__ = "0.1.0"

_HOMES = {
    "Graph": "caribou.graph",
    "Split": "caribou.graph",
    "ColumnRules": "caribou.tables.rules",
    "read_graph": "caribou.datasets.files",
    "write_graph": "caribou.datasets.files",
    "Budget": "caribou.privacy.budget",
    "PrivacyUnit": "caribou.privacy.budget",
    "Bounds": "caribou.privacy.sensitivity",
    "ContractiveGraphLayer": "caribou.layers.contractive",
    "propagate": "caribou.mechanisms.message_passing",
    "NoiseSource": "caribou.mechanisms.noise_source",
    "Embeddings": "caribou.release",
    "NotedLedger": "caribou.release",
    "Model": "caribou.model.estimator",
    "Votes": "caribou.model.estimator",
    "Caribou": "caribou.model.estimator",
    "load": "caribou.model.estimator",
    "register": "caribou.methods.catalogue",
    "register_layer": "caribou.layers",
    "Outputs": "caribou.methods.base",
    "ReleasePlan": "caribou.privacy.plan",
    "own_mechanism": "caribou.privacy.mechanism_records",
    "Gaussian": "caribou.privacy.events",
    "Laplace": "caribou.privacy.events",
    "LinkPredictor": "caribou.models.links",
    "GraphClassifier": "caribou.models.graph_classifier",
    "NodeRegressor": "caribou.models.node_targets",
    "MultiLabelClassifier": "caribou.models.node_targets",
    "Certificate": "caribou.privacy.certificate",
    "verify": "caribou.privacy.verify",
    "Ledger": "caribou.privacy.ledger",
    "plan": "caribou.pages.planner",
    "CaribouError": "caribou.errors",
}

__all__ = [
    "Bounds",
    "Budget",
    "Caribou",
    "CaribouError",
    "Certificate",
    "ColumnRules",
    "ContractiveGraphLayer",
    "Embeddings",
    "Gaussian",
    "Graph",
    "GraphClassifier",
    "Laplace",
    "Ledger",
    "LinkPredictor",
    "Model",
    "MultiLabelClassifier",
    "NodeRegressor",
    "NoiseSource",
    "NotedLedger",
    "Outputs",
    "PrivacyUnit",
    "ReleasePlan",
    "Split",
    "Votes",
    "__version__",
    "datasets",
    "load",
    "own_mechanism",
    "plan",
    "propagate",
    "read_graph",
    "register",
    "register_layer",
    "release",
    "verify",
    "write_graph",
]

if TYPE_CHECKING:
    from caribou import datasets
    from caribou.datasets.files import read_graph, write_graph
    from caribou.errors import CaribouError
    from caribou.graph import Graph, Split
    from caribou.layers import register_layer
    from caribou.layers.contractive import ContractiveGraphLayer
    from caribou.mechanisms.message_passing import propagate
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.methods.base import Outputs
    from caribou.methods.catalogue import register
    from caribou.model.estimator import Caribou, Model, Votes, load
    from caribou.models.graph_classifier import GraphClassifier
    from caribou.models.links import LinkPredictor
    from caribou.models.node_targets import MultiLabelClassifier, NodeRegressor
    from caribou.pages.planner import plan
    from caribou.privacy.budget import Budget, PrivacyUnit
    from caribou.privacy.certificate import Certificate
    from caribou.privacy.events import Gaussian, Laplace
    from caribou.privacy.ledger import Ledger
    from caribou.privacy.mechanism_records import own_mechanism
    from caribou.privacy.plan import ReleasePlan
    from caribou.privacy.sensitivity import Bounds
    from caribou.privacy.verify import verify
    from caribou.release import Embeddings, NotedLedger
    from caribou.tables.rules import ColumnRules


def __getattr__(name: str) -> Any:
    if name == "datasets":
        return importlib.import_module("caribou.datasets")
    if name in _HOMES:
        with needs_training(f"caribou.{name}"):
            return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'caribou' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
