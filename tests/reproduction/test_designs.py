"""Table I: growth of noise by the paper's formula, and stars by the rule that the caption states."""

from __future__ import annotations

import math

import pytest
from reproduction.designs import DESIGNS, design_table, growth


@pytest.mark.parametrize("hops", [1, 2, 8, 64])
def test_growth_is_that_of_the_paper_s_column(hops: int) -> None:
    power = 0.9**hops
    convergent = math.sqrt(min(hops, (1 - power) / (1 + power) * 1.9 / 0.1))
    expected = {"sage": 1.0, "dpdgc": math.sqrt(hops), "gap": math.sqrt(hops), "caribou": convergent}
    for family, value in expected.items():
        assert growth(DESIGNS[family].growth, hops) == pytest.approx(value, rel=1e-6)


def test_the_rule_on_the_paper_s_own_table_keeps_its_order() -> None:
    table = design_table({})
    for title in ("EDP, our rule on the paper", "NDP, our rule on the paper"):
        column = table.head.index(title)
        values = {row[0].text.partition(",")[0]: float(row[column].text) for row in table.groups[0][1]}
        assert values["CARIBOU"] > max(values["GAP"], values["DPDGC"]) > values["GraphSAGE"]
