"""A plain GCN as a black box: the model that LinkTeller was published for, so that the attack can be compared with its paper.

Kipf and Welling, "Semi-supervised classification with graph convolutional networks", ICLR 2017. It has no privacy at all: every
query reads the edges again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from caribou.graph import Graph
from caribou.models.fit_context import one_thread
from caribou.models.trainer import take_steps
from caribou.randomness import Streams

SETTINGS: Mapping[str, Any] = {"hidden": 16, "epochs": 200}
LEARNING_RATE, WEIGHT_DECAY, DROPOUT = 0.01, 5e-4, 0.5


@dataclass(frozen=True, eq=False)
class PlainGcn:
    """Two graph convolutions. ``graph``: with the features that the model takes, and that an adversary may change."""

    graph: Graph
    first: nn.Module
    second: nn.Module
    edges: Tensor

    @classmethod
    @one_thread()
    def fit(cls, graph: Graph, streams: Streams) -> PlainGcn:
        """Adam on the training nodes, all at once, with dropout between the layers."""
        from torch_geometric.nn import GCNConv

        owned = replace(graph, features=rows_of_sum_one(graph.features))
        data = owned.to_pyg()
        x, train = data.x, data.train_mask
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(streams.seed)
            first, second = GCNConv(x.size(1), SETTINGS["hidden"]), GCNConv(SETTINGS["hidden"], graph.num_classes)
            weights = [*first.parameters(), *second.parameters()]
            optimizer = torch.optim.Adam(weights, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)

            def loss(_: int) -> Tensor:
                hidden = torch.dropout(torch.relu(first(x, data.edge_index)), DROPOUT, True)
                return nn.functional.cross_entropy(second(hidden, data.edge_index)[train], data.y[train])

            take_steps(loss, optimizer, steps=SETTINGS["epochs"])
        return cls(owned, first, second, data.edge_index)

    def query(self, features: np.ndarray) -> np.ndarray:
        """Posteriors of all nodes from any features. [n, d] -> [n, C]"""
        with torch.no_grad():
            hidden = torch.relu(self.first(torch.from_numpy(features.copy()), self.edges))
            return torch.softmax(self.second(hidden, self.edges).double(), dim=1).numpy()


def rows_of_sum_one(features: Any) -> np.ndarray:
    """The usual scaling of bag-of-words features, dense. It belongs to the data: the model itself scales nothing. [n, d]"""
    x = np.asarray(features.todense() if sp.issparse(features) else features, dtype=np.float32)
    return x / np.maximum(np.abs(x).sum(axis=1, keepdims=True), 1)
