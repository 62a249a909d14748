"""GAP at both units: hops from the budget alone, and what its classifiers read. Attacks on whole fits: test_transcripts."""

from __future__ import annotations

import math

from baseline_support import GRAPH
from caribou.methods.gap import Gap
from caribou.privacy.budget import Budget


def test_hops_follow_from_the_budget_and_are_in_the_plan() -> None:
    for epsilon, hops in ((1.0, 1), (math.inf, 4)):
        plan = Gap().plan(GRAPH.sizes("edge"), Budget(epsilon))
        assert plan.public_parameters["hops"] == plan.parts["sums"].hops == hops
    assert Gap(hops=3).plan(GRAPH.sizes("edge"), Budget(1.0)).parts["sums"].hops == 3
