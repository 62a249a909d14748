"""Audit targets: one run of what is audited, and the transcript of all that an adversary sees of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from caribou import methods
from caribou.audit.transcripts import WHOLE, Transcript, checked_transcript, word_number
from caribou.errors import CaribouError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Fitted, Method
from caribou.privacy.budget import Budget
from caribou.privacy.certificate import Certificate
from caribou.randomness import Streams, stream_seed

QUERIES = 16
"""How often the adversary repeats a question whose first two answers differ."""
FAILED = "an error"
"""The name under which the error of a run is part of its transcript."""
REFUSALS = (CaribouError, ArithmeticError, LookupError, ValueError)
"""Errors that a run may end with because of what is in the graph. Others are faults of the machine or of the program."""
CHUNK = 25
"""Runs per task of a worker process."""


class AuditTarget(Protocol):
    """One run of what is audited: any function of a graph and a noise source.

    It may also have ``hiding(node)``: the target without what is handed to that node alone.
    """

    def __call__(self, graph: Graph, noise: NoiseSource) -> Transcript:
        """Everything that is handed out after one run on ``graph``. Privacy noise comes from ``noise``."""
        ...


def played(target: AuditTarget, graph: Graph, seeds: Sequence[int], workers: int = 1) -> list[Transcript]:
    """One run of the target on the graph per seed; more than one of ``workers`` are processes with one thread each."""
    if workers == 1:
        return [_one(target, graph, seed) for seed in seeds]
    from joblib import Parallel, delayed, parallel_config

    with parallel_config("loky", inner_max_num_threads=1):
        found = Parallel(n_jobs=workers, batch_size=CHUNK)(delayed(_one)(target, graph, seed) for seed in seeds)
    return list(found)


def _one(target: AuditTarget, graph: Graph, seed: int) -> Transcript:
    """One run. An error is seen by everybody, so that it is what the run hands out."""
    try:
        found = target(graph, NoiseSource.seeded(seed))
    except REFUSALS as error:
        return {FAILED: np.array([word_number(f"{type(error).__name__}: {error}")])}
    return checked_transcript(found)


def run_seed(seed: int, pair: str, world: int, run: int) -> int:
    """The seed of the privacy noise of one run of an audit: below 2^52, different for every run."""
    return stream_seed(seed, f"audit|{pair}|{world}|{run}") >> 11


class BatchedTarget(Protocol):
    """Many runs at once (`caribou.audit.batched_mechanisms`)."""

    def many(self, graph: Graph, runs: int, noise: NoiseSource) -> Transcript:
        """``runs`` independent runs: the first axis of every array."""
        ...


@dataclass(frozen=True)
class FitTarget:
    """One fit of a method, and everything that it hands out; the adversary asks for predictions twice.

    ``method``, ``budget`` and the public ``streams``: what is fitted. ``hidden``: at node level, the node whose own row of
    predictions is not part of the claim.

    >>> from caribou.datasets import load
    >>> from caribou.methods import method_info
    >>> target = FitTarget(method_info("mlp-dp").create(), Budget(4, 1e-5, "node"))
    >>> sorted(target(load("csbm:nodes=80"), NoiseSource.seeded(0)))[-2:]
    ['weights.mean', 'weights.weights']
    """

    method: Method
    budget: Budget
    streams: Streams = field(default_factory=lambda: Streams(0))
    hidden: int | None = None

    def __call__(self, graph: Graph, noise: NoiseSource) -> Transcript:
        """Fit and hand out."""
        fitted = methods.fit(self.method, graph, self.budget, self.streams, noise)
        return handed_out(self.method, fitted, graph, self.hidden)

    def hiding(self, node: int) -> FitTarget:
        """The same without the predictions for this node."""
        return replace(self, hidden=node)


@dataclass(frozen=True)
class PredictTarget:
    """One prediction of a graph with public weights: at edge level all that depends on private edges.

    ``method``, ``budget`` and the public ``streams``: what predicts. The ``weights`` come from one fit on the same graph without
    any edge (`without_edges`), so that thousands of runs take seconds. They are public and not part of the transcript. The
    adversary asks for predictions twice. They are part of the transcript where they differ from the probabilities.

    >>> from caribou.datasets import load
    >>> from caribou.methods import fit, method_info
    >>> method, budget, graph = method_info("mlp-dp").create(), Budget(4, 1e-5, "node"), load("csbm:nodes=80")
    >>> weights = fit(method, without_edges(graph), budget, Streams(0)).weights
    >>> "probabilities" in PredictTarget(method, budget, weights)(graph, NoiseSource.seeded(0))
    True
    """

    method: Method
    budget: Budget
    weights: Mapping[str, np.ndarray]
    streams: Streams = field(default_factory=lambda: Streams(0))

    def __call__(self, graph: Graph, noise: NoiseSource) -> Transcript:
        """Predict ``graph`` and hand out."""
        predicted = methods.predict_graph(self.method, self.weights, graph, self.budget, self.streams, noise)
        public = Fitted(predicted.probabilities, predicted.certificate, predicted.released)
        out = arrays_of(public, slice(None))
        answers = asked(lambda: np.asarray(self.method.predict(self.weights, predicted.released, graph)), slice(None))
        if set(answers) == {"predictions"} and np.array_equal(answers["predictions"], predicted.probabilities):
            return out  # equal columns would only make a transcript too wide to estimate correlations
        return out | answers


def with_edges(graph: Graph, edges: np.ndarray) -> Graph:
    """The same nodes, features, labels and split with these edges alone. [2, m]"""
    made = Graph.from_edges(np.zeros((graph.num_nodes, 0)), edges)
    return replace(graph, indptr=made.indptr, indices=made.indices)


def without_pairs(graph: Graph, pairs: np.ndarray) -> Graph:
    """The graph without these edges, if it has them. [2, m]"""
    n, edges = graph.num_nodes, graph.edge_index
    gone, keys = (np.sort(each, axis=0) * [[n], [1]] for each in (pairs, edges))
    return with_edges(graph, edges[:, ~np.isin(keys.sum(axis=0), gone.sum(axis=0))])


def without_edges(graph: Graph) -> Graph:
    """At edge level all that is public of a graph."""
    return with_edges(graph, np.empty((2, 0), dtype=np.int64))


def handed_out(method: Method, fitted: Fitted, graph: Graph, hidden: int | None) -> dict[str, np.ndarray]:
    """All arrays of a fit by name, and its predictions for every node but ``hidden``."""
    rows = others(graph.num_nodes, hidden)
    answers = asked(lambda: np.asarray(method.predict(fitted.weights, fitted.released, graph)), rows)
    return arrays_of(fitted, rows) | answers


def arrays_of(fitted: Fitted, rows: np.ndarray | slice) -> dict[str, np.ndarray]:
    """All arrays of a fit or a prediction by name, these rows of its probabilities, and what its certificate states."""
    out = {f"released.{name}": np.asarray(array) for name, array in fitted.released.items()}
    out |= {f"weights.{name}": np.asarray(array) for name, array in fitted.weights.items()}
    out["probabilities"] = fitted.probabilities[rows]
    out["certificate"] = stated_numbers(fitted.certificate)
    return out


def asked(query: Callable[[], np.ndarray], rows: np.ndarray | slice) -> dict[str, np.ndarray]:
    """The answer to a question that is asked twice; if the answers differ, the mean of many and the first one."""
    first, second = query()[rows], query()[rows]
    if np.array_equal(first, second, equal_nan=True):
        return {"predictions": first}
    answers = np.stack([first, second, *(query()[rows] for _ in range(QUERIES - 2))])
    return {"predictions": answers.mean(axis=0), "one prediction": first}


UNSTATED = ("created", "certificate_id")
"""What differs between two certificates of the same cost: the time, and a random name."""
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s\[\]{},:"]+')
"""A word or a number of a JSON text."""


def stated_numbers(certificate: Certificate) -> np.ndarray:
    """All that a certificate states, as numbers, because its statements are published as well. [values]

    A word, the name of a field, or a number too large for a double is a number that follows from it: equal words, equal numbers.
    """
    stated = ({name: value} for name, value in certificate.to_dict().items() if name not in UNSTATED)
    return np.array([number for each in stated for number in _known_numbers(json.dumps(each, default=_plain))])


def _plain(value: Any) -> Any:
    """What is no plain JSON value in a certificate of a user's own: numbers as numbers, anything else by its text."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


@lru_cache(maxsize=4096)
def _known_numbers(text: str) -> tuple[float, ...]:
    """Remembered: most fields are the same in all runs of an audit."""
    return tuple(map(_number, TOKEN.findall(text)))


def _number(token: str) -> float:
    try:
        value = float(token)
    except ValueError:
        return word_number(token)
    return word_number(token) if abs(value) > WHOLE else value


def others(nodes: int, hidden: int | None) -> np.ndarray:
    """Which rows are handed out. [n], bool"""
    return np.arange(nodes) != (-1 if hidden is None else hidden)
