"""Audit targets hand out everything but the hidden node's own row, and are asked again if answers differ."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from audit.known_bad_mechanisms.known_bad import edge_pair, graph
from audit.traced import Traced
from caribou import methods
from caribou.audit.claims import Claim
from caribou.audit.distinguish import distinguish
from caribou.audit.pairs import member_pair, worst_pairs
from caribou.audit.targets import (
    CHUNK,
    FAILED,
    QUERIES,
    FitTarget,
    PredictTarget,
    asked,
    played,
    run_seed,
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
    assert {"weights.weights", "weights.mean", "probabilities", "predictions"} <= set(transcript)
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
def test_predictions_are_asked_for_again_if_they_differ(fresh: bool) -> None:
    noise, calls = NoiseSource.seeded(0), []

    def ask() -> np.ndarray:
        calls.append(1)
        return noise.gaussian((12, 2), std=1.0) if fresh or len(calls) == 1 else first

    first = ask()
    answers = asked(ask, np.arange(12) > 0)
    assert len(calls) == 1 + (QUERIES if fresh else 2)
    assert ("one prediction" in answers) is fresh
    assert answers["predictions"].shape == (11, 2)
    assert answers["predictions"].std() < (0.6 if fresh else 2)


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


def test_everything_that_a_method_hands_out_is_seen(quick_public_steps: None) -> None:
    """Weights, released states, probabilities, predictions, and what the certificate states; at node level of hubs, too."""
    for name in [name for name, info in METHODS.items() if info.private]:
        require_all_of(name)


def require_all_of(name: str) -> None:
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


# -- many runs ---------------------------------------------------------------------------------------------------------

PAIR = edge_pair("two nodes", graph(2, []), 0, 1)


@pytest.mark.slow
def test_processes_hand_out_what_this_process_does() -> None:
    seeds = [run_seed(0, "a pair", 0, run) for run in range(3 * CHUNK + 1)]
    one, two = (played(Traced(), PAIR.joined, seeds, workers) for workers in (1, 2))
    assert len(two) == len(seeds)
    assert all(np.array_equal(a["x"], b["x"]) for a, b in zip(one, two, strict=True))
    assert {int(run["place"][0]) for run in one} == {os.getpid()}
    assert os.getpid() not in {int(run["place"][0]) for run in two}
    assert {int(run["place"][1]) for run in two} == {1}, "one thread each"


def test_every_run_has_a_seed_of_its_own() -> None:
    seeds = {run_seed(0, pair, world, run) for pair in "ab" for world in (0, 1) for run in range(50)}
    assert len(seeds) == 200
    assert max(seeds) < 2**52
    assert run_seed(0, "a", 0, 0) != run_seed(1, "a", 0, 0)


def test_an_error_is_what_a_run_hands_out() -> None:
    """Words tell errors apart; an error of the program itself is not swallowed."""

    def refuses(g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        raise InputError(f"got {g.num_edges} edges")

    (without,), (joined,) = (played(refuses, graph, [1]) for graph in PAIR.worlds)
    assert list(without) == list(joined) == [FAILED]
    assert without[FAILED] != joined[FAILED]
    with pytest.raises(AttributeError):
        played(lambda g, noise: g.nothing, PAIR.joined, [1])
    with pytest.raises(InputError, match="got 1 edges"):
        distinguish(refuses, PAIR, Claim(1.0, 0.0), runs=40)  # every run fails: that is no evidence of privacy
