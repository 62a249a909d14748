"""The page of the field: conversion of epsilon, tables from records, and what the page concludes from them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from caribou.experiments.records import read_all
from caribou.experiments.report.summary import grouped, successes
from caribou.methods import METHODS
from caribou.privacy.accounting import gdp_delta, gdp_mu, pure_epsilon
from caribou.privacy.budget import Budget
from caribou.privacy.sizes import Sizes
from reproduction import field, pages

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("directed", "undirected"), [(1, 1.47), (2, 2.95), (4, 5.99), (8, 12.3), (16, 25.3)])
def test_an_undirected_edge_costs_two_entries(directed: float, undirected: float) -> None:
    found = field.undirected_epsilon(directed)
    assert float(f"{found:.3g}") == undirected
    # the definition: (found, delta) is exactly what a Gaussian of mu sqrt(2) has, and no smaller epsilon is
    mu = math.sqrt(2) * gdp_mu(epsilon=directed, delta=1e-5)
    assert gdp_delta(mu=mu, epsilon=found) == pytest.approx(1e-5, rel=1e-6)
    assert gdp_delta(mu=mu, epsilon=0.999 * found) > 1e-5
    assert f" {undirected} |" in field.conversion_table()


def test_rows_are_methods_of_their_unit() -> None:
    for rows, unit in ((field.EDGE, "edge"), (field.NODE, "node")):
        assert {METHODS[method].unit.value for method in rows} == {unit}
    private = {name for name, info in METHODS.items() if info.private}
    assert private <= {*field.EDGE, *field.NODE}, "the page compares every private method"


def test_kinds_of_guarantees_are_those_of_the_plans() -> None:
    """Pure epsilon: the plan costs epsilon whatever delta is."""
    sizes = Sizes(nodes=500, columns=20, classes=3, train=300)
    for name, kind in field.EDGE.items():
        cost = METHODS[name].create().plan(sizes, Budget(4)).cost
        pure = pure_epsilon(cost)
        found = field.GAUSSIAN if pure is None else field.PURE if pure else field.NO_EDGE
        assert found == kind, name


def test_conclusions_of_the_page_hold_in_the_records() -> None:
    """They are written by hand: if new records contradict them, write others."""
    records = read_all(ROOT / "reproduction" / "results")[0]
    edge, node = (
        grouped(
            field.one_graph([r for r in successes(records[f"{level}-accuracy"]) if field._searched_alike(r)]),
            "epsilon",
            "method",
            "dataset",
        )
        for level in ("edge", "node")
    )
    cells = [(epsilon, dataset) for epsilon in field.BUDGETS for dataset in pages.STANDARD]

    def best(means: field.Means, epsilon: int, dataset: str, among: set[str]) -> float:
        return max(mean.value for (e, m, d), mean in means.items() if (e, d) == (epsilon, dataset) and m in among)

    others = set(field.EDGE) - {"votes-edp"}
    wins = sum(edge[e, "votes-edp", d].value > best(edge, e, d, others) for e, d in cells)
    assert wins > len(cells) / 2, "conclusion 3: votes-edp is the one to try first"
    assert all(edge[1, "votes-edp", d].value > edge["inf", "mlp", d].value for d in pages.STANDARD), "conclusion 3"
    reading = set(field.NODE) - {"mlp-dp"}
    gains = [best(node, 1, d, reading) - node[1, "mlp-dp", d].value for d in pages.STANDARD]
    assert max(gains) < 0.01, "conclusion 4: at a small epsilon nothing is clearly better than mlp-dp"
    dense = node[16, "votes-ndp", "berkeley13"].value - node[16, "mlp-dp", "berkeley13"].value
    assert dense > 0.05, "conclusion 4: on a dense graph and at a large epsilon votes-ndp is"
