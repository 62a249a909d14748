"""GAP at both units: hops from the budget alone, and what its classifiers read. Attacks on whole fits: test_transcripts."""

from __future__ import annotations

import math

import numpy as np

from baseline_support import GRAPH
from caribou.methods.gap import Gap, classifier_inputs, released_sums
from caribou.privacy.budget import Budget
from caribou.randomness import Streams


def test_hops_follow_from_the_budget_and_are_in_the_plan() -> None:
    for epsilon, hops in ((1.0, 1), (math.inf, 4)):
        plan = Gap().plan(GRAPH.sizes("edge"), Budget(epsilon))
        assert plan.public_parameters["hops"] == plan.parts["sums"].hops == hops
    assert Gap(hops=3).plan(GRAPH.sizes("edge"), Budget(1.0)).parts["sums"].hops == 3


def test_classifiers_read_rows_of_length_one_of_every_hop() -> None:
    start, *sums = (Streams(0).generator(str(k)).standard_normal((4, 2)) for k in range(3))
    first, *others = classifier_inputs(start, sums)
    assert first is start
    assert all(np.allclose(np.linalg.norm(rows, axis=1), 1) for rows in others)
    assert released_sums(sums).keys() == {"sums_1", "sums_2"}
