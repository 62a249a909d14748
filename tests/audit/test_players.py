"""Players: separate processes hand out what this process does, with one thread each; every run has a seed of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pytest

from audit.known_bad_mechanisms.known_bad import edge_pair, graph
from caribou.audit.claims import Claim
from caribou.audit.distinguish import distinguish
from caribou.audit.players import CHUNK, FAILED, players, run_seed
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource

PAIR = edge_pair("two nodes", graph(2, []), 0, 1)


@dataclass(frozen=True)
class Traced:
    """Noise alone, and where it was drawn."""

    def __call__(self, g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
        return {"x": noise.gaussian((3,), std=1.0), "place": np.array([os.getpid(), threads])}


@pytest.mark.slow
def test_processes_hand_out_what_this_process_does() -> None:
    seeds = [run_seed(0, "a pair", 0, run) for run in range(3 * CHUNK + 1)]
    with players(1) as here, players(2) as there:
        one, two = (play(Traced(), PAIR.joined, seeds) for play in (here, there))
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


def test_what_a_player_cannot_take_is_named() -> None:
    with pytest.raises(InputError, match="workers must be a whole number >= 1, got 0"), players(0):
        pass
    with players(1) as play, pytest.raises(InputError, match="target must return a mapping"):
        play(lambda *_: None, PAIR.joined, [1])


def test_an_error_is_what_a_run_hands_out() -> None:
    """Words tell errors apart; an error of the program itself is not swallowed."""

    def refuses(g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        raise InputError(f"got {g.num_edges} edges")

    with players(1) as play:
        (without,), (joined,) = (play(refuses, graph, [1]) for graph in PAIR.worlds)
        assert list(without) == list(joined) == [FAILED]
        assert without[FAILED] != joined[FAILED]
        with pytest.raises(AttributeError):
            play(lambda g, noise: g.nothing, PAIR.joined, [1])
    with pytest.raises(InputError, match="got 1 edges"):
        distinguish(refuses, PAIR, Claim(1.0, 0.0), runs=40)  # every run fails: that is no evidence of privacy
