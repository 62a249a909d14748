"""How an adversary reaches a method: through one release, or through a new release per query, and with which noise.

Three ways to query a fitted method with other features:

- ``cached``: the release that was made once answers every query (`Method.predict`). This is what a certificate is about, and what
  a transductive service does.
- ``fixed``: every query is a new release (`Method.release`) under the same noise key. Equal noise cancels: this measures the map
  without noise. No certificate covers noise that is used twice: the figure says what that mistake would cost.
- ``fresh``: every query is a new release with new noise. Each costs its own budget.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from caribou.audit import fits
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Fitted, Method
from caribou.privacy.budget import Budget
from caribou.randomness import Streams

WAYS = ("cached", "fixed", "fresh")
NOTES = {
    "cached": "all queries were answered from one release, whose noise is therefore the same in all of them",
    "fixed": "every query was a new release under the same noise key, so that the noise of two queries cancels",
    "fresh": "every query was a new release with fresh noise",
}
SMALLEST = 1e-30
"""Probabilities below are taken for it: their logarithm must be finite."""

Query = Callable[[Any], np.ndarray]
"""A black box: features [n, d] -> posteriors [n, C]."""


def refusal(method: Method, graph: Graph, budget: Budget) -> str:
    """Why the method predicts no other graph, in its own words; empty if it does."""
    try:
        method.release_cost(graph, budget)
    except InputError as error:
        return str(error)
    return ""


def query_of(
    way: str, method: Method, fitted: Fitted, graph: Graph, budget: Budget, streams: Streams, secret: Streams
) -> Query:
    """A fitted method as a black box. ``streams``: the public coins of the fit; ``secret``: where noise keys come from."""
    queries = 0

    def cached(features: Any) -> np.ndarray:
        return method.predict(fitted.weights, fitted.released, replace(graph, features=features))

    def released(features: Any) -> np.ndarray:
        nonlocal queries
        queries += 1
        noise = NoiseSource.seeded(secret.child("query" if way == "fixed" else f"query {queries}").seed)
        changed = replace(graph, features=features)
        return fits.predict_graph(method, fitted.weights, changed, budget, streams, noise).probabilities

    return cached if way == "cached" else released


def logits(posteriors: np.ndarray) -> np.ndarray:
    """log p minus its mean over classes: what went into the softmax, up to a constant per row. [n, C] -> [n, C]"""
    logs = np.log(np.maximum(np.asarray(posteriors, dtype=np.float64), SMALLEST))
    return logs - logs.mean(axis=1, keepdims=True)
