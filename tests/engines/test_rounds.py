"""Every engine, block size and column tile gives the same bytes; the fused round is the torch round to 1e-5."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import caribou as cb
from caribou.engines.blocks import TILE, Layout
from caribou.engines.rounds import RoundGuard, Step, steps_of
from caribou.errors import CaribouError
from caribou.graph.operator import normalize
from caribou.layers.contractive import ContractiveGraphLayer, project_rows
from caribou.privacy.arithmetic import double_precision, single_storage
from caribou.randomness import Streams
from engines_support import CAP, COLUMNS, NODES, Tables, block_noise, calibrated_for, in_memory, last_state, local


def test_a_round_is_repeated_as_it_was_or_refused() -> None:
    guard, step, mean = RoundGuard(), steps_of(calibrated_for("edge"))[0], np.arange(3.0)
    for _ in range(2):
        guard.require(step, mean, 1)
    for other in (
        (replace(step, noise_std=2 * step.noise_std), mean, 1),
        (replace(step, degree_floor=9), mean, 1),
        (step, mean + 1e-15, 1),
        (step, None, 1),
        (step, mean, 2),
    ):
        with pytest.raises(CaribouError, match="round 1 must be asked as before"):
            guard.require(*other)
    guard.require(replace(step, number=2), mean + 1, 2)


def by_torch(tables: Tables, unit: str, cap: int | None) -> np.ndarray:
    """The rounds of `mechanisms.message_passing` in double precision, with the noise of the blocks."""
    calibrated, noise = calibrated_for(unit, cap), block_noise(5)
    graph = cb.Graph.from_edges(tables.features, tables.pairs.T)
    operator = normalize(graph, calibrated.sensitivity.bounds, Streams(0).sampling)
    layer = ContractiveGraphLayer(0.9, 0.8, 0.3)
    x = x0 = project_rows(torch.from_numpy(tables.features))
    if unit == "node":
        operator = operator.without_own_rows(graph.without_features)
    for step in steps_of(calibrated):
        x = layer(x, operator, x0)
        x = project_rows(x) if unit == "node" else x
        sizes = [min(TILE, NODES - first) * COLUMNS for first in range(0, NODES, TILE)]
        numbers = {"size": TILE * COLUMNS, "std": step.noise_std, "grid": step.grid}
        drawn = [z.copy() for z in noise.gaussians(step.number, 0, sizes, **numbers)]
        rounded = np.rint(x.numpy() / step.grid) * step.grid
        x = project_rows(torch.from_numpy(rounded + np.concatenate(drawn).reshape(NODES, COLUMNS)))
    return x.numpy()


@pytest.mark.parametrize(("unit", "cap"), [("edge", None), ("node", CAP)])
def test_fused_round_is_the_torch_round(tables: Tables, unit: str, cap: int | None) -> None:
    ours = local(tables, "a", unit, cap)
    assert ours.dtype == np.float32
    assert np.abs(ours - by_torch(tables, unit, cap)).max() < 1e-5
    assert np.linalg.norm(ours.astype(np.float64), axis=1).max() < 1 + 1e-6


@pytest.mark.parametrize(("unit", "cap"), [("edge", None), ("node", CAP)])
def test_a_blank_row_of_a_file_is_the_zeroed_out_node_at_node_level_alone(
    tables: Tables, unit: str, cap: int | None
) -> None:
    """Its row is the noise alone, and what it holds after a round is read by nobody. At edge level it gets the mean."""
    blank, calibrated = NODES - 1, calibrated_for(unit, cap, hops=1)
    files = tables.blocked("a", Layout(NODES, COLUMNS, 11), cap=cap)
    ownless = np.concatenate([files.ownless(index) for index in range(files.layout.blocks)])
    assert int(np.flatnonzero(ownless)[-1]) == blank
    ours = last_state(in_memory(files), files, calibrated)[blank]
    step = steps_of(calibrated)[0]
    first = (NODES - 1) // TILE * TILE
    numbers = {"size": TILE * COLUMNS, "std": step.noise_std, "grid": step.grid}
    drawn = next(block_noise(5).gaussians(1, first // TILE, [(NODES - first) * COLUMNS], **numbers))
    alone = project_rows(torch.from_numpy(drawn.reshape(-1, COLUMNS)[blank - first].copy())[None])[0].numpy()
    assert np.array_equal(ours, alone.astype(np.float32)) == (unit == "node")


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_stored_states_err_by_less_than_their_bound_and_by_more_than_that_of_double_precision(
    tables: Tables, beta: float
) -> None:
    files = tables.blocked("a", Layout(NODES, COLUMNS, 11))
    runner = in_memory(files, 0, residual=beta > 0)
    runner.start(files.state("round-0").shards())
    runner.round(Step(1, 0.5, 0.0, beta, 8, False, True, 0.0), None, lambda *_: None)
    x0 = project_rows(torch.from_numpy(tables.features))
    operator = normalize(cb.Graph.from_edges(tables.features, tables.pairs.T), cb.Bounds(8))
    exact = project_rows(ContractiveGraphLayer(0.5, 1.0, beta)(x0, operator, x0)).numpy()
    # the result is itself stored in single precision, at most 2^-24 of its length
    error = np.linalg.norm(np.concatenate(list(runner.shards())) - exact) - 2.0**-24 * np.linalg.norm(exact)
    assert error < single_storage(nodes=NODES, columns=COLUMNS, residual=beta).fixed
    rounded = np.linalg.norm(x0.numpy() - files.state("x0").read(0, NODES))
    assert rounded > double_precision(nodes=NODES, columns=COLUMNS, residual=beta).fixed
