"""What training costs, as ratios of CPU time measured in one run on one thread.

(a) votes-edp and caribou-edp with all stages on Cora against a plain two-layer PyG GCN trained for 200 epochs; (b) votes-ndp on
Cora and PubMed against the same private training done with Opacus DP-SGD at batch 256: the same linear model on the same rows
(random features included) for as many passes over the training nodes. Libraries of both sides are imported before: each fit of
(a) is first done once on a generated graph, which is not timed.
Needs the files of the data sets: set CARIBOU_DATA. Without them (a) runs on a generated graph of Cora's size.

    python benchmarks/train.py
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import dp_accounting.pld  # noqa: F401  what accounting imports is not timed, as Opacus is not
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import caribou as cb
from caribou.methods.node.mlp import MlpDp
from caribou.models.linear import path_length_schedule
from caribou.privacy.calibration import budget_mu
from caribou.randomness import Streams

DEGREES = {"cora": 4, "pubmed": 4.5}
GCN_EPOCHS = 200
GOALS = {"votes-edp": "<= 0.25", "caribou-edp": "<= 1", "votes-ndp": "<= 0.1"}


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def dense(graph: cb.Graph) -> torch.Tensor:
    x = graph.to_pyg().x
    return (x.to_dense() if x.layout != torch.strided else x).float()


def gcn(graph: cb.Graph) -> Callable[[], object]:
    """A two-layer GCN with 16 hidden units, as in its paper: dropout 1/2, Adam, weight decay."""
    from torch_geometric.nn import GCNConv

    x, data = dense(graph), graph.to_pyg()
    first, second = GCNConv(x.size(1), 16), GCNConv(16, graph.num_classes)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01, weight_decay=5e-4)

    def run() -> None:
        for _ in range(GCN_EPOCHS):
            h = torch.relu(first(torch.dropout(x, 0.5, True), data.edge_index))
            out = second(torch.dropout(h, 0.5, True), data.edge_index)
            loss = torch.nn.functional.cross_entropy(out[data.train_mask], data.y[data.train_mask])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return run


def opacus_sgd(graph: cb.Graph, epsilon: float) -> Callable[[], object]:
    """The linear model of the same budget by Opacus: DP-SGD, expected batch 256, as many passes as ours."""
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    train = torch.from_numpy(graph.split.train.copy())
    budget = cb.Budget(epsilon, 1e-5, "node")
    epochs = path_length_schedule(mu=budget_mu(budget), train_size=len(train)).steps
    plan = MlpDp().plan_base(graph.sizes(budget.unit), budget_mu(budget))
    rows = MlpDp().fit_base(plan, graph, Streams(0), cb.NoiseSource.seeded(0)).rows
    x = torch.from_numpy(rows.times(np.eye(rows.shape[1]))).float()
    y = torch.from_numpy(graph.labels.copy())
    model = torch.nn.Linear(x.size(1), graph.num_classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loader = DataLoader(TensorDataset(x[train], y[train]), batch_size=256)

    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            private, dp_optimizer, batches = PrivacyEngine(accountant="rdp").make_private_with_epsilon(
                module=model,
                optimizer=optimizer,
                data_loader=loader,
                target_epsilon=epsilon,
                target_delta=1e-5,
                epochs=epochs,
                max_grad_norm=1.0,
            )
            for _ in range(epochs):
                for rows, labels in batches:
                    if len(labels) == 0:
                        continue
                    loss = torch.nn.functional.cross_entropy(private(rows), labels)
                    dp_optimizer.zero_grad()
                    loss.backward()
                    dp_optimizer.step()

    return run


def measure() -> dict[str, float]:
    real = "CARIBOU_DATA" in os.environ
    graph = cb.datasets.load("cora" if real else "csbm", **({} if real else {"nodes": 2708, "classes": 7}), seed=0)
    small = cb.datasets.load("csbm", nodes=2000, features=100, seed=0)
    gcn(small)()
    for method in ("votes-edp", "caribou-edp"):
        cb.Model(method, cb.Budget(4.0, 1e-5, "edge")).fit(small)
    reference = cpu_seconds(gcn(graph))
    results = {"gcn_seconds": reference}
    for method in ("votes-edp", "caribou-edp"):
        model = cb.Model(method, cb.Budget(4.0, 1e-5, "edge"))
        results[f"{method} / GCN, {graph.name}"] = cpu_seconds(lambda m=model: m.fit(graph)) / reference
    for name in DEGREES if real else ():
        private = cb.datasets.load(name, seed=0)
        other = cpu_seconds(opacus_sgd(private, 8.0))
        model = cb.Votes(budget=cb.Budget(8.0, 1e-5, "node"), declared_degree=70, declared_average_degree=DEGREES[name])
        results[f"votes-ndp / Opacus DP-SGD, {name}"] = cpu_seconds(lambda m=model, g=private: m.fit(g)) / other
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("bench-output"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = measure()
    console = Console(highlight=False)
    console.print(f"a two-layer GCN, {GCN_EPOCHS} epochs: {results['gcn_seconds']:.1f} CPU s")
    table = Table("ratio of CPU time", "measured", "to reach")
    for name, ratio in results.items():
        if name != "gcn_seconds":
            table.add_row(name, f"{ratio:.2f}", next(goal for words, goal in GOALS.items() if name.startswith(words)))
    console.print(table)
    arguments.out.mkdir(exist_ok=True)
    (arguments.out / "train.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
