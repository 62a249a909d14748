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
from caribou.release import release as release

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
    "verify": "caribou.model.verify",
    "Ledger": "caribou.privacy.ledger",
    "plan": "caribou.pages.planner",
    "CaribouError": "caribou.errors",
}

__all__ = sorted([*_HOMES, "__version__", "datasets", "release"])

if TYPE_CHECKING:
    from caribou import datasets as datasets
    from caribou.datasets.files import read_graph as read_graph
    from caribou.datasets.files import write_graph as write_graph
    from caribou.errors import CaribouError as CaribouError
    from caribou.graph import Graph as Graph
    from caribou.graph import Split as Split
    from caribou.layers import register_layer as register_layer
    from caribou.layers.contractive import ContractiveGraphLayer as ContractiveGraphLayer
    from caribou.mechanisms.message_passing import propagate as propagate
    from caribou.mechanisms.noise_source import NoiseSource as NoiseSource
    from caribou.methods.base import Outputs as Outputs
    from caribou.methods.catalogue import register as register
    from caribou.model.estimator import Caribou as Caribou
    from caribou.model.estimator import Model as Model
    from caribou.model.estimator import Votes as Votes
    from caribou.model.estimator import load as load
    from caribou.model.verify import verify as verify
    from caribou.models.graph_classifier import GraphClassifier as GraphClassifier
    from caribou.models.links import LinkPredictor as LinkPredictor
    from caribou.models.node_targets import MultiLabelClassifier as MultiLabelClassifier
    from caribou.models.node_targets import NodeRegressor as NodeRegressor
    from caribou.pages.planner import plan as plan
    from caribou.privacy.budget import Budget as Budget
    from caribou.privacy.budget import PrivacyUnit as PrivacyUnit
    from caribou.privacy.certificate import Certificate as Certificate
    from caribou.privacy.events import Gaussian as Gaussian
    from caribou.privacy.events import Laplace as Laplace
    from caribou.privacy.ledger import Ledger as Ledger
    from caribou.privacy.mechanism_records import own_mechanism as own_mechanism
    from caribou.privacy.plan import ReleasePlan as ReleasePlan
    from caribou.privacy.sensitivity import Bounds as Bounds
    from caribou.release import Embeddings as Embeddings
    from caribou.release import NotedLedger as NotedLedger
    from caribou.tables.rules import ColumnRules as ColumnRules


def __getattr__(name: str) -> Any:
    if name == "datasets":
        return importlib.import_module("caribou.datasets")
    if name in _HOMES:
        with needs_training(f"caribou.{name}"):
            return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'caribou' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
