"""Audit targets hand out everything but the hidden node's own row, and are asked again if answers differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from caribou import methods
from caribou.audit.pairs import member_pair, worst_pairs
from caribou.audit.targets import (
    QUERIES,
    BlackBoxTarget,
    FitTarget,
    PredictTarget,
    stated_numbers,
    without_edges,
)
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS
from caribou.methods.mlp import MlpDp
from caribou.methods.sage import SageEdge
from caribou.privacy.budget import Budget
from caribou.randomness import Streams


def test_a_fit_hands_out_arrays_weights_predictions_and_the_certificate() -> None:
    pair = member_pair()
    target = FitTarget(MlpDp(), Budget(4.0, 1e-5, "node"), hidden=pair.hidden)
    transcript = target(pair.joined, NoiseSource.seeded(1))
    assert {"released.shrinkage", "weights.weights", "weights.mean", "probabilities", "predictions"} <= set(transcript)
    assert transcript["probabilities"].shape == (pair.joined.num_nodes - 1, 3)
    assert len(transcript["certificate"]) > 3
    again = target(pair.joined, NoiseSource.seeded(1))
    assert all(np.array_equal(transcript[name], again[name]) for name in transcript)
    assert not np.array_equal(transcript["weights.mean"], target(pair.joined, NoiseSource.seeded(2))["weights.mean"])


def test_weights_fitted_without_edges_are_no_part_of_the_transcript() -> None:
    pair = worst_pairs("edge")[0]
    budget, method = Budget(4.0, 1e-5), SageEdge(epochs=2, hidden=2)
    bare = without_edges(pair.joined)
    assert bare.num_edges == 0
    assert np.array_equal(bare.features, pair.joined.features)
    weights = methods.fit(method, bare, budget, Streams(0), NoiseSource.seeded(0)).weights
    transcript = PredictTarget(method, budget, weights)(pair.joined, NoiseSource.seeded(1))
    assert {"released.edges", "released.edge_count", "probabilities"} <= set(transcript)
    assert not any(name.startswith("weights") for name in transcript)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_black_box_is_asked_again_if_its_answers_differ(fresh: bool) -> None:
    calls = []

    def train(graph: Graph, noise: NoiseSource) -> object:
        fixed = noise.gaussian((graph.num_nodes, 2), std=1.0)

        def ask(asked: Graph) -> np.ndarray:
            calls.append(asked)
            return noise.gaussian((graph.num_nodes, 2), std=1.0) if fresh else fixed

        return ask

    transcript = BlackBoxTarget(train)(worst_pairs("edge")[0].joined, NoiseSource.seeded(0))
    assert len(calls) == (QUERIES if fresh else 2)
    assert ("one prediction" in transcript) is fresh
    assert transcript["predictions"].std() < (0.6 if fresh else 2)


def test_a_black_box_that_answers_something_else_is_named() -> None:
    graph = worst_pairs("edge")[0].joined
    for train, words in (
        (lambda *_: None, "train must return a function from a graph to predictions, got NoneType"),
        (lambda *_: lambda asked: None, "array of real numbers under 'predictions', got NoneType None"),
        (lambda *_: lambda asked: [0.5, 0.5], r"one row for each of the 12 nodes, got shape \(2,\)"),
    ):
        with pytest.raises(InputError, match=words):
            BlackBoxTarget(train)(graph, NoiseSource.seeded(0))


def test_all_that_a_certificate_states_but_time_and_name_is_seen() -> None:
    stated = methods.fit(
        MlpDp(), member_pair().joined, Budget(4.0, 1e-5, "node"), Streams(0), NoiseSource.seeded(0)
    ).certificate
    named = {**stated.public_parameters, "number": 2**60}
    first = replace(stated, public_parameters=named)
    for other, seen in (
        (replace(first, created="later", certificate_id="another"), False),
        (replace(first, versions={**stated.versions, "caribou": "0.1.0+joined"}), True),
        (replace(first, public_parameters={**named, "number": 2**60 + 1}), True),
        (replace(first, public_parameters={**named, "number": np.int64(2**60)}), False),
        (replace(first, public_parameters={**named, "number": np.array([2**60])}), False),
        (replace(first, public_parameters={**named, "number": np.array([2**60, 1])}), True),
        (replace(first, public_parameters={**named, "number": {2**60}}), True),
    ):
        assert np.array_equal(stated_numbers(first), stated_numbers(other)) is not seen


@pytest.mark.parametrize("name", [name for name, info in METHODS.items() if info.private])
def test_everything_that_a_method_hands_out_is_seen(name: str, quick_public_steps: None) -> None:
    """Weights, released states, probabilities, predictions, and what the certificate states; at node level of hubs, too."""
    info = METHODS[name]
    small = {"epochs": 1, "hidden": 2, "layers": 1} if name in ("sage-edp", "lapgraph-edp") else {}
    method, budget, pair = info.create(**small), Budget(4.0, 1e-5, info.unit), worst_pairs(info.unit)[-2]
    target = FitTarget(method, budget)
    target = target if pair.hidden is None else target.hiding(pair.hidden)
    fitted = methods.fit(method, pair.joined, budget, target.streams, NoiseSource.seeded(7))
    seen = target(pair.joined, NoiseSource.seeded(7))
    own = {f"released.{key}": value for key, value in fitted.released.items()}
    own |= {f"weights.{key}": value for key, value in fitted.weights.items()}
    assert set(seen) >= {*own, "probabilities", "certificate", "predictions"}
    for key, value in own.items():
        assert np.array_equal(seen[key], np.asarray(value), equal_nan=True), key
    others = pair.joined.num_nodes - (pair.hidden is not None)
    assert seen["probabilities"].shape == (others, pair.joined.num_classes)
