"""LinkTeller and G-MIA on public data sets, beside the figures of the paper; one JSON record per attack, under results/audit/.

Every record is one seed: a fit, its noise and the adversary's draws. Records that exist are not made again, so the run can be
stopped and resumed. `--table` prints the Markdown of docs/audit-results.md from the records alone.

    python benchmarks/audit.py linkteller --datasets cora --methods sage-inf,sage-edp --epsilons 1,8,32 --seeds 0,1,2
    python benchmarks/audit.py --table
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import caribou as cb
from caribou.audit.scores import mean_interval
from caribou.methods import METHODS
from caribou.privacy.budget import Budget
from caribou.randomness import Streams

RESULTS = Path(__file__).parent.parent / "results" / "audit"
PAPER = RESULTS / "paper.csv"
EPSILONS = (1.0, 8.0, 32.0, 2.0, 4.0, 16.0)
FEATURES = "caribou-inf:features"
"""caribou-inf with features as messages, as in the paper; by default messages are labels and class probabilities."""


def create(name: str) -> tuple[Any, Any]:
    """The entry of METHODS and the method; ``name:messages`` sets the messages of CARIBOU."""
    base, _, messages = name.partition(":")
    return METHODS[base], METHODS[base].create(**({"messages": messages} if messages else {}))


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=RESULTS.parents[1]
    )
    return done.stdout.strip()


def run(attack: str, dataset: str, name: str, epsilon: float, seed: int, ways: Sequence[str] | None) -> dict[str, Any]:
    """One record: configuration, result, seconds, versions."""
    from caribou.audit import gmia, linkteller

    info, method = create(name)
    graph = cb.datasets.load(dataset, seed=seed)
    budget = Budget(epsilon, 1e-5, info.unit)
    options: dict[str, Any] = {"ways": ways} if attack == "linkteller" and ways else {}
    start = time.time()
    result = {"linkteller": linkteller, "gmia": gmia}[attack].attack(
        method, graph, budget, Streams(seed), runs=1, **options
    )
    return {
        "config": {
            "attack": attack,
            "dataset": dataset,
            "method": name,
            "settings": dict(method.settings()),
            "unit": info.unit.value,
            "epsilon": "inf" if math.isinf(epsilon) else epsilon,
            "delta": budget.delta,
            **options,
        },
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


def file_of(attack: str, dataset: str, name: str, epsilon: float, seed: int) -> Path:
    return RESULTS / attack / f"{dataset}-{name.replace(':', '-')}-{epsilon:g}-{seed}.json"


def measure(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    for dataset in arguments.datasets.split(","):
        for epsilon in map(float, arguments.epsilons.split(",")):
            for seed in map(int, arguments.seeds.split(",")):
                for name in arguments.methods.split(","):
                    private = create(name)[0].private
                    if private != math.isfinite(epsilon) and name != "mlp":
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


def records(attack: str) -> Iterator[dict[str, Any]]:
    for path in sorted((RESULTS / attack).glob("*.json")):
        yield json.loads(path.read_text())


def cell(values: Sequence[float]) -> str:
    """Mean and half the width of the 95 % interval over seeds."""
    if not values:
        return ""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    low, high = mean_interval(values)
    return f"{np.mean(values):.3f} ± {(high - low) / 2:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attack", nargs="?", choices=("linkteller", "gmia"), default="linkteller")
    parser.add_argument("--datasets", default="cora,photo")
    parser.add_argument("--methods", default="gap-edp,caribou-edp,sage-edp")
    parser.add_argument("--epsilons", default=",".join(f"{e:g}" for e in EPSILONS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--ways", default="", help="linkteller: cached,fixed,fresh")
    parser.add_argument("--table", action="store_true", help="print the tables of docs/audit-results.md")
    arguments = parser.parse_args()
    measure(arguments)


if __name__ == "__main__":
    main()
