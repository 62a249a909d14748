"""Trials on public data: nobody sees a test label, every validation node is scored unseen, and a stopped search goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reproduction.search import (
    HeldOut,
    Study,
    Trial,
    append_trial,
    held_out,
    read_trials,
    run_trials,
)

import caribou as cb
from reproduction import search as trials

GRAPH = cb.datasets.load("csbm", nodes=200, seed=3)
SPACE = {"clip": [0.3, 0.1], "shrinkage": [0.4, 0.8]}
STUDY = Study("mlp-dp", "csbm", 8.0, (0, 1))


def halves(name: str, seed: int) -> HeldOut:
    return held_out(GRAPH, seed)


# -- spaces --------------------------------------------------------------------------------------------------------


# -- what a fit sees -----------------------------------------------------------------------------------------------


def test_half_of_the_validation_nodes_are_scored_and_no_test_label_is_left() -> None:
    half = held_out(GRAPH, seed=1)
    split, labels = GRAPH.for_learning()
    kept, seen = half.graph.for_learning()
    assert set(half.scored) < set(split.val)
    assert len(half.scored) == 10
    assert (half.truth == labels[half.scored]).all()
    assert set(kept.val) == set(split.val) - set(half.scored)
    assert (kept.train == split.train).all()
    assert set(kept.test) == set(split.test) | set(half.scored)
    assert (seen[kept.test] == -1).all()
    assert (seen[kept.train] == labels[kept.train]).all()
    assert half.graph.num_classes == GRAPH.num_classes
    assert (GRAPH.labels[split.test] >= 0).all()  # the input is as it was
    assert not np.array_equal(held_out(GRAPH, seed=2).scored, half.scored)
    assert np.array_equal(held_out(GRAPH, seed=1).scored, half.scored)


def test_test_labels_change_nothing() -> None:
    """The whole search again with other labels on the test nodes: the same figures."""
    labels = np.array(GRAPH.labels)
    labels[GRAPH.split.test] = (labels[GRAPH.split.test] + 1) % GRAPH.num_classes
    other = replace(GRAPH, labels=labels)
    found = [run_trials(STUDY, SPACE, lambda name, seed, g=g: held_out(g, seed)) for g in (GRAPH, other)]
    assert [t.accuracy for t in found[0]] == [t.accuracy for t in found[1]]
    assert len({t.accuracy for t in found[0]}) > 1


# -- a search that is stopped --------------------------------------------------------------------------------------


def test_a_stopped_search_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run_trials(STUDY, SPACE, halves)
    assert len(whole) == 8
    file = tmp_path / "trials" / "csbm.jsonl"

    class Stop(Exception):
        pass

    def record(trial: Trial) -> None:
        append_trial(file, trial)
        if len(read_trials(file)) == 3:
            raise Stop

    with pytest.raises(Stop):
        run_trials(STUDY, SPACE, halves, read_trials(file), record)
    with file.open("ab") as stream:
        stream.write(whole[3].to_json().encode()[:40])  # killed while it wrote
    assert len(read_trials(file)) == 3
    made: list[Mapping[str, Any]] = []
    original = trials.run_trial
    monkeypatch.setattr(trials, "run_trial", lambda *a: made.append(a[1]) or original(*a))
    again = run_trials(STUDY, SPACE, halves, read_trials(file), lambda trial: append_trial(file, trial))
    assert len(made) == 5
    assert [replace(t, cpu_seconds=0.0) for t in again] == [replace(t, cpu_seconds=0.0) for t in whole]
    assert read_trials(file) == again
    other_version = [replace(t, version="0.0.0") for t in again]
    run_trials(STUDY, SPACE, halves, other_version)
    assert len(made) == 5 + 8  # figures of another version are not these


# -- best settings ----------------------------------------------------------------------------------------------------
