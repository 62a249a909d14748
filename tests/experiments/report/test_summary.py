"""Records summarised: Student's interval by its table, groups by axes and settings, and what is left out."""

from __future__ import annotations

import math

import pytest

from caribou.experiments.records import FAILED, OK, Record
from caribou.experiments.report.summary import (
    Mean,
    budget_words,
    grouped,
    mean_of,
    seed_words,
    seeds_of,
    successes,
    values_by,
)


def record(seed: int, accuracy: object, status: str = OK, **cell: object) -> Record:
    return Record("study", {"method": "gap", "seed": seed, **cell}, status, {"test_accuracy": accuracy})


@pytest.mark.parametrize(("values", "t"), [([0.5, 0.6, 0.7], 4.3027), ([0.1, 0.2, 0.4, 0.8], 3.1824)])
def test_half_widths_are_those_of_students_t(values: list[float], t: float) -> None:
    """Quantiles of the 97.5 % point with n - 1 degrees of freedom, from the table."""
    n, mean = len(values), sum(values) / len(values)
    deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1))
    found = mean_of(values)
    assert (found.value, found.count) == (pytest.approx(mean), n)
    assert found.half_width == pytest.approx(t * deviation / math.sqrt(n), rel=1e-4)


def test_fewer_than_three_seeds_show_no_interval() -> None:
    assert math.isnan(mean_of([0.5]).half_width)
    assert [mean_of([0.5] * n).percent() for n in (1, 2, 3)] == ["50.0", "50.0", "50.0 ± 0.0"]
    assert [mean_of([0.5] * n).decimals(2) for n in (1, 2, 3)] == ["0.50", "0.50", "0.50 ± 0.00"]
    assert seeds_of([Mean(0.5, 0, 5), Mean(0.5, 0, 2), Mean(0.5, 0, 3)]) == "2 to 5"
    assert [seed_words(n) for n in (1, 3)] == ["1 seed", "3 seeds"]
    assert [budget_words(e) for e in ("inf", 0.5)] == ["ε = ∞", "ε = 0.5"]


def test_groups_are_by_axes_and_settings_and_leave_out_what_is_no_figure() -> None:
    records = [
        record(0, 0.5, settings={"hops": 1}),
        record(1, 0.7, settings={"hops": 1}),
        record(0, 0.9, settings={"hops": 2}),
        record(1, None, settings={"hops": 2}),
        record(2, True, settings={"hops": 2}),
    ]
    assert {hops: mean.value for hops, mean in grouped(records, "hops").items()} == {1: pytest.approx(0.6), 2: 0.9}
    assert values_by(records, ("method", "seed"), "test_accuracy") == {("gap", 0): [0.5, 0.9], ("gap", 1): [0.7]}
    assert grouped(records, "hops", measure="nothing") == {}


def test_of_equal_cells_the_last_counts_and_failures_are_none() -> None:
    records = [record(0, 0.5), record(1, 0.6, FAILED), record(0, 0.8)]
    assert [r.measures["test_accuracy"] for r in successes(records)] == [0.8]
