"""One name per row: whose settings CARIBOU has, and what we changed in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from caribou.experiments.records import OK, Record
from reproduction import rows


def fitted(method: str = "caribou-edp", dataset: str = "cora", epsilon: object = 4, **more: object) -> Record:
    measured = more.pop("measured", {})
    cell = {"kind": "train", "method": method, "dataset": dataset, "epsilon": epsilon, "seed": 0, **more}
    return Record("t", cell, OK, {"settings": measured})


@pytest.mark.parametrize(
    ("more", "face"),
    [
        ({"chosen": "authors-mean"}, "authors' settings"),
        ({"chosen": "authors-small-degree"}, "authors' settings"),
        ({"chosen": True}, "validated on our splits"),
        ({}, "defaults"),
        ({"kind": "sweep", "sweep": [{"hops": 1}]}, "authors' grid"),
        ({"settings": {"messages": "features"}}, "raw features as messages"),
    ],
)
def test_a_row_of_caribou_says_what_it_is(more: dict, face: str) -> None:
    assert rows.row_label(fitted(**more)) == f"caribou-edp, {face}"


def test_a_sweep_becomes_a_record_per_setting() -> None:
    plain = fitted()
    sweep = fitted(settings={"degree_floor": 2}, sweep=[{"hops": 1}, {"hops": 2}, {"hops": 0}])
    measures = {"test_accuracies": [0.5, 0.6, None], "val_accuracies": [0.7, 0.8, None], "cpu_seconds": 9.0}
    first, *found = rows.expanded([plain, replace(sweep, measures=measures)])
    assert first is plain
    assert [r.cell["settings"] for r in found] == [{"degree_floor": 2, "hops": 1}, {"degree_floor": 2, "hops": 2}]
    assert [(r.measures["test_accuracy"], r.measures["val_accuracy"]) for r in found] == [(0.5, 0.7), (0.6, 0.8)]
    assert not any("cpu_seconds" in r.measures or "sweep" in r.cell for r in found), "time is that of all of them"
