"""A cell of a user's comparison: measured again it is the same, and a kind that nobody knows is refused."""

from __future__ import annotations

import json

import pytest

from caribou.errors import InputError
from caribou.experiments.measures import measure, noise_seed

CELL = {"kind": "train", "method": "gap-edp", "dataset": "csbm:nodes=120", "epsilon": 4, "seed": 1}
TIMES = {"seconds", "cpu_seconds", "peak_mb", "peak_mb_before"}


@pytest.mark.usefixtures("quick_learning")
def test_a_cell_can_be_measured_again() -> None:
    first, again = ({k: v for k, v in measure(CELL, None).items() if k not in TIMES} for _ in range(2))
    assert first == again
    assert first["epsilon_spent"] == pytest.approx(4, rel=1e-3)
    assert not first["searched"]
    assert "hops" in first["settings"]
    json.dumps(first, allow_nan=False)
    assert noise_seed(CELL) != noise_seed({**CELL, "epsilon": 8})


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(InputError, match="kind must be one of train"):
        measure({"kind": "nonsense"}, None)
