"""The tables of downstream tasks say what the records say, and nothing where nothing was measured."""

from __future__ import annotations

from typing import Any

from reproduction.downstream import WITHOUT_EDGES, downstream_blocks

from caribou.experiments.records import OK, Record


def links(method: str, epsilon: Any, dataset: str, seed: int, rows: dict[str, float]) -> Record:
    figures = {name: {"auc": auc, "average_precision": auc - 0.1} for name, auc in rows.items()}
    by_rows = {name: {"cosine": both, "logistic": {**both, "auc": 0.25}} for name, both in figures.items()}
    settings = {"settings": {"hops": 2, "beta": 1.0}} if method.startswith("caribou") else {}
    cell = {"task": "links", "method": method, "dataset": dataset, "epsilon": epsilon, "seed": seed, **settings}
    return Record("downstream", cell, OK, {"by_rows": by_rows})


def graphs(method: str, hops: int, beta: float, accuracy: float) -> Record:
    cell = {"task": "graphs", "method": method, "dataset": "hubs", "epsilon": 4, "seed": 0}
    measures = {"by_rows": {"released": {"linear": accuracy, "mlp": 0.0}}}
    return Record("downstream", {**cell, "settings": {"hops": hops, "beta": beta}}, OK, measures)


def texts(table: Any) -> dict[tuple[str, str], list[str]]:
    return {(group, row[0].text): [entry.text for entry in row[1:]] for group, rows in table.groups for row in rows}


def test_links_by_budget_method_and_rows() -> None:
    records = [
        links("caribou-edp", 4, "cora", seed, {"released": 0.7 + 0.01 * seed, "joined": 0.9}) for seed in range(2)
    ]
    records += [links("gap-edp", 4, "photo", 0, {"released": 0.8}), links("mlp", "inf", "cora", 0, {"features": 0.6})]
    plain, trained = downstream_blocks(records)
    assert plain.head == ("method", "cora AUC", "cora AP", "photo AUC", "photo AP")
    assert texts(plain) == {
        ("ε = 4", "CARIBOU, K = 2, β = 1"): ["0.705", "0.605", "not run", "not run"],
        ("ε = 4", "CARIBOU, K = 2, β = 1 beside embeddings"): ["0.900", "0.800", "not run", "not run"],
        ("ε = 4", "GAP"): ["not run", "not run", "0.800", "0.700"],
        (WITHOUT_EDGES, "features alone"): ["0.600", "0.500", "not run", "not run"],
    }
    assert texts(trained)["ε = 4", "GAP"] == ["not run", "not run", "0.250", "0.700"]


def test_graphs_in_percent_by_settings_and_the_best_is_marked() -> None:
    (table,) = downstream_blocks([graphs("caribou-edp", 2, 1.0, 0.5), graphs("caribou-edp", 1, 0.0, 0.75)])
    assert texts(table) == {("ε = 4", "CARIBOU, K = 2, β = 1"): ["50.0"], ("ε = 4", "CARIBOU, K = 1, β = 0"): ["75.0"]}
    ((_, rows),) = table.groups
    assert [row[1].mark for row in rows] == ["second", "best"]


def test_records_without_figures_give_no_table() -> None:
    cell = {"task": "links", "method": "gap-edp", "dataset": "cora", "epsilon": 4, "seed": 0}
    assert downstream_blocks([Record("downstream", cell, OK, {"test_accuracy": 0.5})]) == []
    assert downstream_blocks([]) == []
