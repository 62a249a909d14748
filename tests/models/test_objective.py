"""The objective: what a rare class needs is chosen where it is asked for, and nothing changes where it is not."""

from __future__ import annotations

import numpy as np

from caribou.metrics import Metrics
from caribou.models.heads import Evidence, fit_bayes_head
from caribou.models.objective import USUAL, Objective


def test_the_first_wins_unless_another_is_clearly_better() -> None:
    y = np.array([0] * 90 + [1] * 10)
    noise = np.random.default_rng(0).normal(size=(100, 2))
    right = noise + 8 * np.eye(2)[y]
    objective = Objective("ap")
    assert objective.best([noise, right], y) == 1
    assert objective.best([right, noise], y) == 0
    assert objective.best([noise, noise + 1e-9 * right], y) == 0, "no gain to speak of"
    assert objective.score(noise[:3], y[:3]) == 0.0, "where all nodes are of one class there is nothing to rank"


def test_balanced_weights_make_a_head_find_the_rare_class() -> None:
    rng = np.random.default_rng(1)
    y = (rng.random(600) < 0.05).astype(np.int64)
    logs = np.log(np.clip(np.stack([0.7 - 0.25 * y, 0.3 + 0.25 * y], 1) + rng.normal(0, 0.2, (600, 2)), 0.05, 0.95))
    known = Evidence.of_prior(logs)
    recall = [
        Metrics(np.exp(fit_bayes_head(known, y, o)(known)), y).confusion.recall[1]
        for o in (USUAL, Objective(class_weight="balanced"))
    ]
    assert recall[0] < 0.3 < 0.7 < recall[1]
