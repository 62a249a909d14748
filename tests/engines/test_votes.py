"""Votes over blocks: the counts of the box in memory, the same noise on every engine, each pair asked once, also resumed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from caribou.engines.blocks import BlockFiles, Layout
from caribou.engines.votes import BlockCounter, BlockVoteBox, Journal, Task
from caribou.errors import CaribouError
from caribou.graph import Graph
from caribou.mechanisms.edge_votes import VoteBox, VoteBudget
from caribou.mechanisms.noise_source import BlockNoise, NoiseSource
from engines_support import COLUMNS, NODES, Tables

CLASSES = 3
BUDGETS = [VoteBudget(0.7), VoteBudget.gaussian(0.5)]
LAYOUTS = [Layout(NODES, COLUMNS, 12), Layout(NODES, COLUMNS, 10, 11)]


def script(seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Three stages in which everybody becomes new once; arguments as `ask` takes them."""
    rng = np.random.default_rng(seed)
    stage = rng.integers(0, 3, NODES)
    for number in range(3):
        yield stage == number, rng.random(NODES), rng.integers(0, CLASSES, NODES), rng.random(NODES) < 0.9


def box_over(files: BlockFiles, budget: VoteBudget, journal: Journal | None = None) -> BlockVoteBox:
    counter = BlockCounter(files.layout, files.read, BlockNoise.seeded(9))
    return BlockVoteBox(NODES, CLASSES, budget, counter, journal)


def test_counts_are_those_of_the_vote_box_in_memory(tables: Tables) -> None:
    graph = Graph.from_edges(tables.features, tables.pairs.T)
    exact = VoteBudget(math.inf)
    memory = VoteBox(graph, CLASSES, exact, NoiseSource.secure())
    boxes = [box_over(tables.blocked(str(number), layout), exact) for number, layout in enumerate(LAYOUTS)]
    total = 0
    for arguments in script():
        expected = memory.ask(*arguments)
        total += int(expected.sum())
        for box in boxes:
            assert np.array_equal(box.ask(*arguments), expected)
    assert 0 < total <= graph.num_edges  # every pair at most once


@pytest.mark.parametrize("budget", BUDGETS)
def test_noise_is_the_same_on_every_layout_and_new_in_every_stage(tables: Tables, budget: VoteBudget) -> None:
    one, other = (box_over(tables.blocked(str(n), layout), budget) for n, layout in enumerate(LAYOUTS))
    exact = box_over(tables.blocked("exact", LAYOUTS[0]), VoteBudget(math.inf))
    noises = []
    for arguments in script():
        answer = one.ask(*arguments)
        assert np.array_equal(answer, other.ask(*arguments))
        noises.append((answer - exact.ask(*arguments)).astype(np.float64))
    rows = noises[0].any(axis=1)
    assert abs(noises[0][rows].var() / budget.noise_variance - 1) < 0.1
    both = noises[0].any(axis=1) & noises[1].any(axis=1)
    assert abs(np.corrcoef(noises[0][both].ravel(), noises[1][both].ravel())[0, 1]) < 0.05


class _DyingCounter(BlockCounter):
    """Dies in the middle of one stage."""

    stage = 2

    def count(self, task: Task) -> Iterator[np.ndarray]:
        for index, counts in enumerate(super().count(task)):
            if (task.ballot.stage, index) == (self.stage, 1):
                raise KeyboardInterrupt
            yield counts


def test_a_resumed_election_repeats_its_stages_and_refuses_others(tables: Tables, tmp_path: Path) -> None:
    files, budget = tables.blocked("a", LAYOUTS[1]), BUDGETS[0]
    whole = box_over(files, budget)
    expected = [whole.ask(*arguments) for arguments in script()]
    journal = tmp_path / "journal"
    journal.mkdir()
    dying = BlockVoteBox(
        NODES, CLASSES, budget, _DyingCounter(files.layout, files.read, BlockNoise.seeded(9)), Journal(journal)
    )
    stages = script()
    dying.ask(*next(stages))
    with pytest.raises(KeyboardInterrupt):
        dying.ask(*next(stages))
    # another second stage would ask other pairs with the noise of the one that was begun
    changed = box_over(files, budget, Journal(journal))
    first, second, _ = script()
    changed.ask(*first)
    with pytest.raises(CaribouError, match="stage 2 must be asked again"):
        changed.ask(second[0], second[1], (second[2] + 1) % CLASSES, second[3])
    resumed = box_over(files, budget, Journal(journal))
    for arguments, wanted in zip(script(), expected, strict=True):
        assert np.array_equal(resumed.ask(*arguments), wanted)
    with pytest.raises(CaribouError, match="never sent before"):
        resumed.ask(*first)


@pytest.mark.slow
def test_votes_on_ray_are_those_of_one_process(tables: Tables) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed (extra: ray)")
    import caribou
    from caribou.engines.ray import RayRunner

    here = str(Path(caribou.__file__).parent.parent)
    ray.init(
        "local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": here}},
    )
    files = tables.blocked("a", Layout(NODES, COLUMNS, 10))
    runner = RayRunner(files, BlockNoise.seeded(9), residual=False, workers=2)
    try:
        cluster, local = BlockVoteBox(NODES, CLASSES, BUDGETS[0], runner), box_over(files, BUDGETS[0])
        for arguments in script():
            assert np.array_equal(cluster.ask(*arguments), local.ask(*arguments))
    finally:
        runner.close()
        ray.shutdown()
