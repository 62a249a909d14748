"""Who is best: one rule for our records and for the paper's tables, checked on cases that can be counted by hand."""

from __future__ import annotations

import itertools

import pytest
from reproduction.comparison import Wins, rivals, wins

from reproduction import paper

CELLS = [(1, "cora"), (4, "cora")]


def test_beyond_chance_is_judged_seed_by_seed() -> None:
    """Splits differ much more than methods do."""
    own = {0: 0.70, 1: 0.80, 2: 0.90}
    close = {seed: value - 0.05 for seed, value in own.items()}
    mixed = {0: 0.65, 1: 0.90, 2: 0.80}
    for rival, clear in ((close, 1), (mixed, 0)):
        scores = {(1, "a", "cora"): own, (1, "b", "cora"): rival}
        assert wins(scores, "a", CELLS[:1], ("b",)) == Wins(1, clear, 1, 1)
    few = {(1, "a", "cora"): {0: 0.9, 1: 0.9}, (1, "b", "cora"): {0: 0.1, 1: 0.1}}
    assert wins(few, "a", CELLS[:1], ("b",)).clear == 0, "two seeds are no evidence"


STANDARD = ("cora", "pubmed", "photo", "computers", "facebook")


@pytest.mark.parametrize(("unit", "level", "count"), [("edp", "edge", 26), ("ndp", "node", 25)])
def test_the_paper_s_own_counts(unit: str, level: str, count: int) -> None:
    """In its table of means CARIBOU is best of four in so many of 30 cells: counted here a second time, by hand."""
    cells = list(itertools.product(paper.EPSILONS, STANDARD))
    found = wins(paper.scores("mean", level), f"caribou-{unit}", cells, rivals(unit))
    assert found == Wins(count, 0, 30, 30)
    by_hand = 0
    for epsilon, dataset in cells:
        values = {m: paper.accuracy("mean", m, dataset, epsilon) for m in (f"caribou-{unit}", *rivals(unit))}
        by_hand += values[f"caribou-{unit}"] == max(values.values())
    assert by_hand == count
