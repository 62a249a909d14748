"""The one door from the audit to a method: every fit, and every prediction on another graph, goes through these two functions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from caribou import methods
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Fitted, Method
from caribou.privacy.budget import Budget
from caribou.randomness import Streams


def fit(method: Method, graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource) -> Fitted:
    """Fit ``method`` on ``graph`` within ``budget``.

    Args:
        method: what is audited.
        graph: the training graph; it is not changed.
        budget: what the fit may spend.
        streams: public randomness.
        noise: private randomness; an audit seeds it, so that a verdict can be reproduced.

    Returns:
        Probabilities [n, C], certificate, released arrays and weights.
    """
    return methods.fit(method, graph, budget, streams, noise)


def predict_graph(
    method: Method,
    weights: Mapping[str, np.ndarray],
    graph: Graph,
    budget: Budget,
    streams: Streams,
    noise: NoiseSource,
) -> Fitted:
    """Predict another graph with the weights of an earlier fit, which spends ``budget`` on that graph.

    Args:
        method: what is audited.
        weights: of a `Fitted` of the same method.
        graph: the graph to predict; it is not changed.
        budget: what the prediction may spend.
        streams: public randomness.
        noise: private randomness.

    Returns:
        Probabilities [n, C] of the nodes of ``graph``, and the certificate of this prediction.
    """
    return methods.predict_graph(method, weights, graph, budget, streams, noise)
