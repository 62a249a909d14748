"""Query modes: how an adversary who changes features reaches a fitted method, and with which noise.

- ``cached``: the prediction that was made once answers every query (`Method.predict`). A certificate covers this mode, and a
  transductive service works in it.
- ``fixed``: every query predicts the graph again under the same noise key. Equal noise cancels, so this mode measures the map
  without noise. No certificate covers noise that is used twice: the figure says what that mistake would cost.
- ``fresh``: every query predicts the graph again with new noise. Each query costs its own budget.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from caribou import methods
from caribou._validate import one_of
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Fitted, Method
from caribou.privacy.budget import Budget
from caribou.randomness import Streams

CACHED, FIXED, FRESH = QUERY_MODES = ("cached", "fixed", "fresh")
NOTES = {
    CACHED: "all queries were answered from one release, whose noise is therefore the same in all of them",
    FIXED: "every query was a new release under the same noise key, so that the noise of two queries cancels",
    FRESH: "every query was a new release with fresh noise",
}
SMALLEST = 1e-30
"""Smaller probabilities count as this one: their logarithm must be finite."""

Query = Callable[[Any], np.ndarray]
"""A black box: features [n, d] -> posteriors [n, C]."""


def refusal(method: Method, graph: Graph, budget: Budget) -> str:
    """Why the method predicts no other graph, in its own words; empty if it does."""
    try:
        method.plan_graph(graph.sizes(budget.unit), budget, {})
    except InputError as error:
        return str(error)
    return ""


def query_of(
    mode: str, method: Method, fitted: Fitted, graph: Graph, budget: Budget, streams: Streams, secret: Streams
) -> Query:
    """A fitted method as a black box. ``streams``: the public randomness of the fit; ``secret``: seeds the noise of queries."""
    one_of(QUERY_MODES, query_mode=mode)
    queries = 0

    def cached(features: Any) -> np.ndarray:
        return method.predict(fitted.weights, fitted.released, replace(graph, features=features))

    def predicted(features: Any) -> np.ndarray:
        nonlocal queries
        queries += 1
        noise = NoiseSource.seeded(secret.child("query" if mode == FIXED else f"query {queries}").seed)
        changed = replace(graph, features=features)
        return methods.predict_graph(method, fitted.weights, changed, budget, streams, noise).probabilities

    return cached if mode == CACHED else predicted


def possible_modes(asked: tuple[str, ...] | None, budget: Budget, refused: str) -> tuple[str, ...]:
    """The modes that were asked for, or all that make sense: without noise, ``fresh`` is ``fixed``.

    ``refused``: why the method predicts no other graph; it then has its one release only.
    """
    if refused:
        return (CACHED,)
    return asked or (QUERY_MODES if budget.is_private else (CACHED, FIXED))


def preferred_mode(modes: tuple[str, ...], budget: Budget) -> str:
    """The mode whose figures are the headline: what the certificate covers, or without privacy one forward pass per query."""
    order = QUERY_MODES if budget.is_private else (FIXED, FRESH, CACHED)
    return next(mode for mode in order if mode in modes)


def logits(posteriors: np.ndarray) -> np.ndarray:
    """log p minus its mean over classes: the input of the softmax, up to a constant per row. [n, C] -> [n, C]"""
    logs = np.log(np.maximum(np.asarray(posteriors, dtype=np.float64), SMALLEST))
    return logs - logs.mean(axis=1, keepdims=True)
