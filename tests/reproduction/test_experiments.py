"""The grids, search spaces and tuned settings of the paper's evaluation fit the methods of today."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from reproduction.measures import GCN
from reproduction.search import read_spaces
from reproduction.search import settings_of as settings_in
from reproduction.tuned import FILE, read_settings

from caribou.audit.auditor import ATTACKS
from caribou.experiments.grid import SCALES, available
from caribou.experiments.measures import budget_of
from caribou.methods import METHODS

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "reproduction"


@pytest.mark.parametrize("experiment", available(PAPER / "experiments"), ids=lambda e: e.name)
def test_ours_name_known_methods_at_every_scale(experiment) -> None:
    for scale in SCALES:
        cells = experiment.cells(scale)
        assert cells
        assert {cell["method"] for cell in cells if "method" in cell} <= {*METHODS, GCN}
        assert {cell["attack"] for cell in cells if cell["kind"] == "audit"} <= set(ATTACKS)
        # what is not private takes no epsilon: a scale must not put one there
        for cell in cells:
            if "method" in cell and cell["method"] != GCN:
                METHODS[cell["method"]].check(cell["method"], budget_of(cell))


def test_the_stored_entries_are_settings_of_their_methods() -> None:
    entries = read_settings(FILE)
    assert entries
    for entry in entries:
        info = METHODS[entry.method]
        info.create(**entry.settings)
        assert (info.private and not info.data_independent) == (entry.epsilon < math.inf), entry
        assert entry.tried == 8
        assert entry.seeds
        assert entry.version
        assert entry.default_accuracy is None or entry.default_accuracy <= entry.validation_accuracy


def test_every_method_has_a_declared_space_of_the_same_size_with_its_defaults() -> None:
    spaces = read_spaces(PAPER / "experiments/spaces")
    assert set(spaces) == set(METHODS)
    for name, space in spaces.items():
        listed = settings_in(name, space)
        assert len(listed) == 8, name
        created = [METHODS[name].create(**settings) for settings in listed]
        assert created[0] == METHODS[name].create(), name
        assert all(a != b for i, a in enumerate(created) for b in created[:i]), f"{name} has a setting twice"
