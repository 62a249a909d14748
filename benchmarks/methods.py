"""All methods once on one data set at one epsilon: accuracy, epsilon spent and CPU seconds (``make bench-methods``).

Methods run in separate processes, two at a time, with one thread each, at their default settings. Methods without privacy have an
infinite epsilon. The figures of one fit are no measure of quality: one split, one draw of the noise. Cora needs its file: set
CARIBOU_DATA, or it is downloaded.

    python benchmarks/methods.py --dataset cora --epsilon 4
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from caribou.methods import METHODS


def measured(name: str, *, dataset: str, epsilon: float, seed: int) -> dict[str, Any]:
    """One fit of one method, in this process."""
    import caribou as cb
    from caribou.errors import CaribouError
    from caribou.model.estimator import accuracy

    info = METHODS[name]
    budget = cb.Budget(epsilon if info.private else float("inf"), None, info.unit)
    graph = cb.datasets.load(dataset, seed=seed)
    model = cb.Model(name, budget, seed=seed)
    start = time.process_time()
    try:
        model.fit(graph)
    except CaribouError as error:
        return {"method": name, "error": str(error)}
    seconds = time.process_time() - start
    return {
        "method": name,
        "unit": info.unit.value,
        "accuracy": accuracy(model.predict_proba(), graph, "test"),
        "epsilon_spent": model.certificate.epsilon_spent,
        "cpu_seconds": seconds,
    }


def table(rows: list[dict[str, Any]], title: str) -> Table:
    out = Table(title=title)
    for heading in ("method", "unit", "test accuracy", "epsilon spent", "CPU s"):
        out.add_column(heading, justify="left" if heading in ("method", "unit") else "right")
    for row in rows:
        if "error" in row:
            out.add_row(row["method"], "", "refused", "", row["error"])
        else:
            cells = f"{row['accuracy']:.1%}", f"{row['epsilon_spent']:.4g}", f"{row['cpu_seconds']:.1f}"
            out.add_row(row["method"], row["unit"], *cells)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("bench-output"))
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the new processes
    work = partial(
        measured,
        dataset=arguments.dataset,
        epsilon=arguments.epsilon,
        seed=arguments.seed,
    )
    start = time.perf_counter()
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        rows = list(pool.map(work, METHODS))
    wall = time.perf_counter() - start
    cpu = sum(row.get("cpu_seconds", 0.0) for row in rows)
    Console().print(table(rows, f"{arguments.dataset}, epsilon = {arguments.epsilon:g}, one fit each"))
    Console().print(
        f"{len(rows)} methods: {cpu:.0f} s of CPU for the fits, {wall:.0f} s with {arguments.jobs} processes"
    )
    arguments.out.mkdir(exist_ok=True)
    document = {"dataset": arguments.dataset, "epsilon": arguments.epsilon, "wall_seconds": wall, "methods": rows}
    (arguments.out / "methods.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
