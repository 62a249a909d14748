"""Settings of GraphSAGE: each out of its range is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from caribou.errors import InputError
from caribou.models.sage_config import AGGREGATORS, SageConfig


@pytest.mark.parametrize(
    "wrong",
    [{"hidden": 0}, {"layers": 0}, {"aggregator": "max"}, {"dropout": 1.5}, {"learning_rate": 0.0}, {"epochs": 0}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_setting_out_of_its_range_is_refused_by_name(wrong: dict[str, Any]) -> None:
    (field,) = wrong
    with pytest.raises(InputError) as refused:
        SageConfig(**wrong)
    assert refused.value.field == field
    assert all(SageConfig(aggregator=aggregator) for aggregator in AGGREGATORS)
