"""Table I: growth of noise by the paper's formula, and stars by the rule that the caption states."""

from __future__ import annotations

import math

import pytest
from reproduction.designs import DESIGNS, design_table, growth

from caribou.experiments.records import OK, Record

METHODS = {"caribou": 0.9, "gap": 0.8, "dpdgc": 0.7, "sage": 0.6}


@pytest.mark.parametrize("hops", [1, 2, 8, 64])
def test_growth_is_that_of_the_paper_s_column(hops: int) -> None:
    power = 0.9**hops
    convergent = math.sqrt(min(hops, (1 - power) / (1 + power) * 1.9 / 0.1))
    expected = {"sage": 1.0, "dpdgc": math.sqrt(hops), "gap": math.sqrt(hops), "caribou": convergent}
    for family, value in expected.items():
        assert growth(DESIGNS[family].growth, hops) == pytest.approx(value, rel=1e-6)


def records(unit: str, chosen: object = "authors-top") -> list[Record]:
    return [
        Record(
            "t",
            {
                "kind": "train",
                "method": f"{family}-{unit}",
                "dataset": "cora",
                "epsilon": 4,
                "seed": seed,
                "chosen": chosen,
            },
            OK,
            {"test_accuracy": accuracy},
        )
        for family, accuracy in METHODS.items()
        for seed in range(3)
    ]


def test_stars_stand_beside_the_paper_s() -> None:
    table = design_table({"edge-accuracy": records("edp"), "node-accuracy": []})
    rows = {row[0].text: row for row in table.groups[0][1]}
    edge, node = table.head.index("EDP stars"), table.head.index("NDP stars")
    assert [(rows[name][edge].text, rows[name][edge].paper) for name in ("GraphSAGE", "DPDGC", "GAP")] == [
        ("2.0", "2"), ("3.0", "3"), ("4.0", "4"),
    ]  # fmt: skip
    assert rows["CARIBOU, authors' settings"][edge].text == "5.0"
    assert rows["CARIBOU, validated on our splits"][edge].text == "not run"
    assert rows["GAP"][node].text == "not run"
    assert "1 at edge, 0 at node level" in table.caption


def test_the_rule_on_the_paper_s_own_table_keeps_its_order() -> None:
    table = design_table({})
    for title in ("EDP, our rule on the paper", "NDP, our rule on the paper"):
        column = table.head.index(title)
        values = {row[0].text.partition(",")[0]: float(row[column].text) for row in table.groups[0][1]}
        assert values["CARIBOU"] > max(values["GAP"], values["DPDGC"]) > values["GraphSAGE"]
