"""The demonstration: a graph, a plan, a private release, its certificate, and what the release is good for.

Run it with ``make demo``. Everything is generated here; nothing is downloaded. Results go to demo-output/.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

import caribou as cb
from caribou.cli import app

OUTPUT = Path("demo-output")
EPSILON, DELTA, HOPS, CONTRACTION, FLOOR, BETA = 4.0, 1e-5, 2, 0.9, 20, 0.3


def class_scores(columns: np.ndarray, graph: cb.Graph) -> np.ndarray:
    """Ridge regression onto the classes, fitted on the training nodes: the simplest model that shows what is in the columns."""
    design = np.hstack([columns, np.ones((graph.num_nodes, 1))])
    targets = np.eye(graph.num_classes)[graph.labels]
    train = graph.split.train
    gram = design[train].T @ design[train] + np.eye(design.shape[1])
    return design @ np.linalg.solve(gram, design[train].T @ targets[train])


def accuracy(columns: np.ndarray, graph: cb.Graph) -> str:
    test = graph.split.test
    return f"{np.mean(class_scores(columns, graph)[test].argmax(axis=1) == graph.labels[test]):.1%}"


def messages(graph: cb.Graph) -> torch.Tensor:
    """X^(0): centred class scores of each node's own features. No edge enters, so at edge level they are public."""
    scores = class_scores(np.asarray(graph.features), graph)
    scores -= scores.mean(axis=1, keepdims=True)
    return torch.from_numpy(scores / np.linalg.norm(scores, axis=1, keepdims=True))


def main() -> None:
    console = Console()
    if OUTPUT.exists():
        shutil.rmtree(OUTPUT)
    OUTPUT.mkdir()

    console.rule("1. A graph whose edges are secret")
    graph = cb.datasets.load("csbm", nodes=3000, classes=4, average_degree=20.0, homophily=0.8, signal=2.0, seed=1)
    console.print(f"{graph}: features, labels and split are public, every edge is protected")

    console.rule("2. What depth costs, before any data is touched")
    command = ["plan", "--epsilon", str(EPSILON), "--delta", str(DELTA), "--contraction", str(CONTRACTION)]
    command += ["--degree-floor", str(FLOOR), "--plot", str(OUTPUT / "convergence.png")]
    console.print(f"$ caribou {' '.join(command)}", highlight=False)
    app(command, standalone_mode=False)

    console.rule("3. One private release, booked in a ledger")
    budget = cb.Budget(epsilon=EPSILON, delta=DELTA, unit="edge")
    ledger = cb.Ledger(OUTPUT / "ledger.sqlite")
    ledger.set_budget(graph.name, budget)
    layer = cb.ContractiveGraphLayer(contraction=CONTRACTION, beta=BETA)
    bounds = cb.Bounds(degree_floor=FLOOR)
    start = messages(graph)
    result = cb.release(graph, layer, hops=HOPS, budget=budget, bounds=bounds, start=start, ledger=ledger)
    result.certificate.save(OUTPUT / "certificate.json")
    result.certificate.save(OUTPUT / "certificate.md")
    console.print(Markdown(result.certificate.to_markdown()))

    console.rule("4. Anybody can recompute the claim")
    app(["verify", str(OUTPUT / "certificate.json")], standalone_mode=False)

    console.rule("5. A second release is refused: the budget is spent")
    try:
        cb.release(graph, layer, hops=HOPS, budget=budget, bounds=bounds, start=start, ledger=ledger)
    except cb.CaribouError as error:
        console.print(f"refused: {error}")
    app(["ledger", "show", "--ledger", str(OUTPUT / "ledger.sqlite")], standalone_mode=False)

    console.rule("6. What the release is good for")
    noiseless = cb.release(graph, layer, hops=HOPS, budget=cb.Budget(float("inf")), bounds=bounds, start=start)
    features = np.asarray(graph.features)
    table = Table("columns", "test accuracy", "edges protected")
    table.add_row("features alone", accuracy(features, graph), "not used")
    private = np.hstack([features, result.state.numpy()])
    table.add_row(f"features and private X^({HOPS})", accuracy(private, graph), str(budget))
    plain = np.hstack([features, noiseless.state.numpy()])
    table.add_row(f"features and X^({HOPS}) without noise", accuracy(plain, graph), "no")
    console.print(table)
    console.print(f"saved {', '.join(str(path) for path in sorted(OUTPUT.iterdir()))}")


if __name__ == "__main__":
    main()
