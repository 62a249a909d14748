"""LinkTeller, G-MIA and likelihood ratios on public data sets, beside the figures of the paper.

One JSON record per attack, under results/audit/. Every record is one seed: a fit, its noise and the adversary's draws. Records
that exist are not made again, so the run can be stopped and resumed. `caribou-inf:features` sends features as messages. `--table`
writes the tables of docs/audit-results.md from the records alone.

    python benchmarks/audit.py linkteller --datasets cora --methods sage-inf,sage-edp --epsilons 1,8,32 --seeds 0,1,2
    python benchmarks/audit.py --table
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import caribou as cb
from caribou.audit import gmia, linkteller, lira
from caribou.audit.scores import AttackResult, mean_interval
from caribou.experiments import runner
from caribou.methods import METHODS
from caribou.privacy.budget import Budget
from caribou.randomness import Streams
from caribou.reports.paper import attack_auc

RESULTS = Path(__file__).parent.parent / "results" / "audit"
GCN = "gcn"
GCN_EPOCHS = 200
LIRA_RUNS = 128
PAGE = RESULTS.parents[1] / "docs" / "audit-results.md"
EPSILONS = (1.0, 8.0, 32.0, 2.0, 4.0, 16.0)


def create(name: str) -> tuple[Any, Any]:
    """The entry of METHODS and the method; ``name:messages`` sets the messages of CARIBOU."""
    base, _, messages = name.partition(":")
    return METHODS[base], METHODS[base].create(**({"messages": messages} if messages else {}))


def is_private(name: str) -> bool:
    return name != GCN and create(name)[0].private


@lru_cache
def commit() -> str:
    """Of the code that was loaded: asked once, at the beginning."""
    return runner.commit()


def run(attack: str, dataset: str, name: str, epsilon: float, seed: int, ways: Sequence[str] | None) -> dict[str, Any]:
    """One record: configuration, result, seconds, versions."""
    graph = cb.datasets.load(dataset, seed=seed)
    start = time.time()
    config, result = attack_gcn(graph, seed) if name == GCN else attack_method(attack, graph, name, epsilon, seed, ways)
    return {
        "config": {"attack": attack, "dataset": dataset, "method": name, **config},
        "seed": seed,
        "result": result.to_json(),
        "seconds": round(time.time() - start, 1),
        "versions": {
            "caribou": cb.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "commit": commit(),
    }


def attack_method(
    attack: str, graph: cb.Graph, name: str, epsilon: float, seed: int, ways: Sequence[str] | None
) -> tuple[dict[str, Any], AttackResult]:
    info, method = create(name)
    budget = Budget(epsilon, 1e-5, info.unit)
    options: dict[str, Any] = {"ways": ways} if attack == "linkteller" and ways else {}
    module = {"linkteller": linkteller, "gmia": gmia, "lira": lira}[attack]
    runs = LIRA_RUNS if attack == "lira" else 1
    result = module.attack(method, graph, budget, Streams(seed), runs=runs, **options)
    config = {
        "settings": dict(method.settings()),
        "unit": info.unit.value,
        "epsilon": "inf" if math.isinf(epsilon) else epsilon,
        "delta": budget.delta,
        **options,
    }
    return config, result


def attack_gcn(graph: cb.Graph, seed: int) -> tuple[dict[str, Any], AttackResult]:
    """LinkTeller as published, on what it was published for: all entries of a row, a GCN with 16 hidden units."""
    from torch_geometric.nn import GCNConv

    torch.manual_seed(seed)
    data = graph.to_pyg()
    x = rows_of_sum_one(data.x.to_dense() if data.x.layout != torch.strided else data.x)
    first, second = GCNConv(x.size(1), 16), GCNConv(16, graph.num_classes)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01, weight_decay=5e-4)
    for _ in range(GCN_EPOCHS):
        h = torch.dropout(torch.relu(first(x, data.edge_index)), 0.5, True)
        out = second(h, data.edge_index)
        loss = torch.nn.functional.cross_entropy(out[data.train_mask], data.y[data.train_mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def query(features: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            h = torch.relu(first(torch.from_numpy(features.copy()), data.edge_index))
            return torch.softmax(second(h, data.edge_index).double(), dim=1).numpy()

    owned = replace(graph, features=x.numpy())
    setting = linkteller.Setting(entries="all")
    result = linkteller.attack_black_box(query, owned, Streams(seed), setting=setting)
    return {"settings": {"hidden": 16, "epochs": GCN_EPOCHS}, "unit": None, "epsilon": "inf", "delta": None}, result


def rows_of_sum_one(x: torch.Tensor) -> torch.Tensor:
    """The usual scaling of bag-of-words features. It belongs to the data: the model itself scales nothing."""
    return (x / x.abs().sum(dim=1, keepdim=True).clamp(min=1)).float()


def file_of(attack: str, dataset: str, name: str, epsilon: float, seed: int) -> Path:
    return RESULTS / attack / f"{dataset}-{name.replace(':', '-')}-{epsilon:g}-{seed}.json"


def measure(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    commit()
    for dataset in arguments.datasets.split(","):
        for epsilon in map(float, arguments.epsilons.split(",")):
            for seed in map(int, arguments.seeds.split(",")):
                for name in arguments.methods.split(","):
                    if is_private(name) != math.isfinite(epsilon) and not (
                        arguments.attack == "lira" and is_private(name)
                    ):
                        continue
                    target = file_of(arguments.attack, dataset, name, epsilon, seed)
                    if target.exists():
                        continue
                    ways = arguments.ways.split(",") if arguments.ways else None
                    record = run(arguments.attack, dataset, name, epsilon, seed, ways)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    part = target.with_suffix(".part")
                    part.write_text(json.dumps(record, indent=1) + "\n")
                    os.replace(part, target)
                    print(target.name, f"{record['result']['auc']:.3f}", f"{record['seconds']:.0f} s", flush=True)


# -- the tables ----------------------------------------------------------------------------------------------------


def records(attack: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((RESULTS / attack).glob("*.json"))]


def cell(values: Sequence[float | None]) -> str:
    """Mean, half the width of the 95 % interval over seeds, and their number; one seed has no interval."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    if len(known) == 1:
        return f"{known[0]:.3f} (1)"
    low, high = mean_interval(known)
    return f"{np.mean(known):.3f} ± {(high - low) / 2:.3f} ({len(known)})"


def groups(attack: str) -> Iterator[tuple[str, str, float, list[dict[str, Any]]]]:
    """Data set, method, epsilon, results of all seeds; without privacy first."""
    found: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for record in records(attack):
        config = record["config"]
        found.setdefault((config["dataset"], config["method"], float(config["epsilon"])), []).append(record["result"])
    for key in sorted(found, key=lambda k: (k[0], k[2] != math.inf, k[1], k[2])):
        yield *key, found[key]


def of_the_paper(attack: str, dataset: str, epsilon: float) -> str:
    value = attack_auc(attack, dataset, f"{epsilon:g}")
    return "" if value is None else f"{value:.3f}"


def linkteller_table() -> Iterator[str]:
    ways = ("cached", "fixed", "fresh")
    yield "| data set | method | ε | one release | new release per query, same noise | fresh noise | paper |"
    yield "|---|---|---|---|---|---|---|"
    for dataset, method, epsilon, results in groups("linkteller"):
        cells = [cell([r["details"]["ways"].get(way, {}).get("auc") for r in results]) for way in ways]
        if method == GCN:
            cells[1] = cell([r["auc"] for r in results])
        words = " | ".join(cells)
        yield f"| {dataset} | {method} | {epsilon:g} | {words} | {of_the_paper('linkteller', dataset, epsilon)} |"


def gmia_table() -> Iterator[str]:
    columns = ("same_query_auc", "class_auc")
    yield "| data set | method | ε | AUC | all queried in the full graph | class alone | paper |"
    yield "|---|---|---|---|---|---|---|"
    for dataset, method, epsilon, results in groups("gmia"):
        cells = [cell([r["auc"] for r in results]), *(cell([r["details"].get(c) for r in results]) for c in columns)]
        words = " | ".join(cells)
        yield f"| {dataset} | {method} | {epsilon:g} | {words} | {of_the_paper('g-mia', dataset, epsilon)} |"


def lira_table() -> Iterator[str]:
    yield "| data set | method | ε | AUC | TPR at FPR 0.01 | allowed | TPR at FPR 0.1 | allowed |"
    yield "|---|---|---|---|---|---|---|---|"
    for dataset, method, epsilon, results in groups("lira"):
        cells = [cell([r["auc"] for r in results])]
        for rate in ("0.01", "0.1"):
            cells += [cell([r["tpr_at_fpr"][rate] for r in results]), f"{results[0]['tpr_allowed'][rate]:.3f}"]
        yield f"| {dataset} | {method} | {epsilon:g} | {' | '.join(cells)} |"


def write_page(page: Path) -> None:
    """Put the tables between the marks of the page."""
    text = page.read_text()
    for name, lines in (("linkteller", linkteller_table()), ("gmia", gmia_table()), ("lira", lira_table())):
        begin, end = f"<!-- {name}: made by benchmarks/audit.py --table -->", f"<!-- end of {name} -->"
        head, _, rest = text.partition(begin)
        text = head + begin + "\n\n" + "\n".join(lines) + "\n\n" + end + rest.partition(end)[2]
    page.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attack", nargs="?", choices=("linkteller", "gmia", "lira"), default="linkteller")
    parser.add_argument("--datasets", default="cora,photo")
    parser.add_argument("--methods", default="gap-edp,caribou-edp,sage-edp")
    parser.add_argument("--epsilons", default=",".join(f"{e:g}" for e in EPSILONS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--ways", default="", help="linkteller: cached,fixed,fresh")
    parser.add_argument("--table", action="store_true", help="write the tables of docs/audit-results.md")
    arguments = parser.parse_args()
    if arguments.table:
        write_page(PAGE)
    else:
        measure(arguments)


if __name__ == "__main__":
    main()
