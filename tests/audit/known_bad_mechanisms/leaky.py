"""Small graphs and methods for attacks: what leaks, and what does not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

import caribou as cb
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.randomized_response import pair_numbers, pairs_of_numbers
from caribou.methods import Outputs
from caribou.methods.mlp import MlpDp
from caribou.methods.sage import SageEdge
from caribou.models.sage import Neighbourhoods, SageModel
from caribou.privacy.budget import Budget
from caribou.privacy.plan import ReleasePlan
from caribou.randomness import Streams

STREAMS = Streams(5)
NOTHING = Budget(math.inf)
TIGHT = Budget(1.0, 1e-5)
SAGE = SageEdge(hidden=16, epochs=20)


def block_graph(nodes: int = 120, seed: int = 0) -> Graph:
    """Three classes, four neighbours each on average."""
    return cb.datasets.load(f"csbm:nodes={nodes},features=8,classes=3,average_degree=4", seed=seed)


class AnswersFromTheGraph(SageEdge):
    """A private fit whose predictions read the private edges again: the leak is behind `predict`."""

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        around = Neighbourhoods.of(pairs_of_numbers(pair_numbers(graph)), graph.num_nodes)
        return softmax(SageModel.from_arrays(weights, self.network).scores(graph.features, around), axis=1)


class Parrot(MlpDp):
    """It claims the privacy of mlp-dp, but keeps the rows it was trained on and is sure of their labels."""

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        fitted = super().fit(plan, graph, streams, noise)
        train = graph.for_learning()[0].train
        weights = {**fitted.weights, "rows": graph.features[train], "answers": graph.labels[train]}
        return replace(fitted, weights=weights, probabilities=self._repeat(weights, graph, fitted.probabilities))

    def predict_graph(
        self, plan: ReleasePlan, weights: Mapping[str, np.ndarray], graph: Graph, streams: Streams, noise: NoiseSource
    ) -> Outputs:
        fitted = super().predict_graph(plan, weights, graph, streams, noise)
        return replace(fitted, probabilities=self._repeat(weights, graph, fitted.probabilities))

    def _repeat(self, weights: Mapping[str, np.ndarray], graph: Graph, probabilities: np.ndarray) -> np.ndarray:
        answers = {row.tobytes(): label for row, label in zip(weights["rows"], weights["answers"], strict=True)}
        out = probabilities.copy()
        for node, row in enumerate(graph.features):
            if row.tobytes() in answers:
                out[node] = 0.001
                out[node, answers[row.tobytes()]] = 1 - 0.001 * (out.shape[1] - 1)
        return out


def gcn(graph: Graph, layers: int = 2, seed: int = 0) -> Any:
    """A plain GCN with random weights as a black box: it scales no rows, so the published perturbation reaches it."""
    rng = np.random.default_rng(seed)
    loops = graph.adjacency(np.float64) + sp.eye_array(graph.num_nodes)
    scale = sp.diags_array(1 / np.sqrt(np.asarray(loops.sum(axis=1)).ravel()))
    operator = scale @ loops @ scale
    first = rng.standard_normal((graph.num_features, 16))
    second = rng.standard_normal((16, 3))

    def query(features: Any) -> np.ndarray:
        hidden = np.maximum(operator @ (features @ first), 0)
        return softmax((operator if layers == 2 else sp.eye_array(graph.num_nodes)) @ hidden @ second, axis=1)

    return query


def content(graph: Graph) -> bytes:
    """All of a graph, to see that it did not change."""
    return b"".join(graph.content())
