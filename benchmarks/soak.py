"""Whether memory and file handles grow: 50 releases and 20 trainings in one process.

Releases go through every way out of files and memory in turn, with a ledger: `release`, `release_files` in memory and out of
core. Trainings take methods of both units in turn. Memory is what the process holds (resident) after a collection, when the
allocator has given back what is free. The first runs warm up: they load libraries and fill caches. After them, growth is the
slope of a line through memory against the number of the run.

    python benchmarks/soak.py --releases 50 --trainings 20
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from rich.console import Console
from rich.table import Table

import caribou as cb
from caribou.engines.pipeline import Request, release_files
from machine import described, machine

MIB = 2**20
METHODS = ("votes-edp", "caribou-edp", "mlp-dp", "votes-ndp")
WARM = 0.3
"""Part of the runs that warm up."""
ALLOWED_MIB_PER_RUN = 0.5


def releases(folder: Path, nodes: int) -> Iterator[Callable[[], object]]:
    """Endless releases of one graph, each to a place of its own that is removed, charged to one ledger."""
    graph = cb.datasets.load("csbm", nodes=nodes, average_degree=20.0, features=16, seed=0)
    rows = np.repeat(np.arange(nodes), np.diff(graph.indptr))
    np.save(folder / "edges.npy", np.stack([rows, graph.indices], axis=1))
    np.save(folder / "features.npy", np.asarray(graph.features, dtype=np.float32))
    ledger = folder / "ledger.sqlite"
    budget = cb.Budget(epsilon=1.0, delta=1e-9, unit="edge")
    files = {"budget": budget, "hops": 4, "degree_floor": 20, "name": graph.name}

    def from_files(engine: str) -> None:
        out = folder / "out.npy"
        memory = 1 << 30 if engine == "outofcore" else None
        request = Request(folder / "edges.npy", folder / "features.npy", out, engine=engine, memory=memory, **files)  # type: ignore[arg-type]
        release_files(request, ledger=ledger)
        out.unlink()
        request.certificate_path.unlink()

    def in_memory() -> None:
        bounds = cb.Bounds(degree_floor=20, nodes=nodes)
        cb.release(graph, cb.ContractiveGraphLayer(0.9), budget=budget, bounds=bounds, hops=4, ledger=ledger)

    for kind in cycle(("memory", "local", "outofcore")):
        yield in_memory if kind == "memory" else lambda kind=kind: from_files(kind)  # type: ignore[misc]


def trainings(nodes: int) -> Iterator[Callable[[], object]]:
    """Endless fits of some methods in turn."""
    graph = cb.datasets.load("csbm", nodes=nodes, seed=0)
    for method in cycle(METHODS):
        unit = "edge" if method.endswith("edp") else "node"
        budget = cb.Budget(epsilon=4.0, delta=1e-5, unit=unit)
        yield lambda method=method, budget=budget: cb.Model(method, budget=budget).fit(graph).predict()  # type: ignore[misc]


def watched(runs: Iterator[Callable[[], object]], count: int) -> dict[str, Any]:
    """Memory, open files and threads after each of ``count`` runs, and their growth per run when warm."""
    process, memory, handles, threads = psutil.Process(), [], [], []
    libc, begin = ctypes.CDLL(None), time.process_time()
    for _ in range(count):
        next(runs)()
        gc.collect()
        if hasattr(libc, "malloc_trim"):
            libc.malloc_trim(0)
        memory.append(process.memory_info().rss / MIB)
        handles.append(process.num_fds() if hasattr(process, "num_fds") else process.num_handles())
        threads.append(process.num_threads())
    warm = int(WARM * count)
    numbers = np.arange(count)
    return {
        "runs": count,
        "cpu": time.process_time() - begin,
        "memory_mib": memory,
        "handles": handles,
        "threads": threads,
        "growth_mib": float(np.polyfit(numbers[warm:], memory[warm:], 1)[0]),
        "new_handles": handles[-1] - handles[warm],
        "new_threads": threads[-1] - threads[warm],
    }


def grows(found: dict[str, Any]) -> bool:
    """Whether a series of runs leaks."""
    return found["growth_mib"] > ALLOWED_MIB_PER_RUN or found["new_handles"] > 0 or found["new_threads"] > 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=50)
    parser.add_argument("--trainings", type=int, default=20)
    parser.add_argument(
        "--nodes", type=int, default=20_000, help="of the graph that is released; fits take a tenth of it"
    )
    parser.add_argument("--out", type=Path, default=Path("bench-output"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        results = {
            "releases": watched(releases(Path(scratch), arguments.nodes), arguments.releases),
            "trainings": watched(trainings(arguments.nodes // 10), arguments.trainings),
        }
    console, here = Console(highlight=False), machine()
    console.print(described(here))
    table = Table(
        "what", "runs", "CPU s", "MiB first", "MiB warm", "MiB last", "MiB per run", "new handles", "new threads"
    )
    for name, found in results.items():
        memory = found["memory_mib"]
        sizes = (f"{memory[at]:.0f}" for at in (0, int(WARM * found["runs"]), -1))
        counts = (str(found["new_handles"]), str(found["new_threads"]))
        table.add_row(name, str(found["runs"]), f"{found['cpu']:.0f}", *sizes, f"{found['growth_mib']:.3f}", *counts)
    console.print(table)
    arguments.out.mkdir(exist_ok=True)
    (arguments.out / "soak.json").write_text(json.dumps({"machine": here, **results}, indent=2) + "\n")
    leaking = [name for name, found in results.items() if grows(found)]
    if leaking:
        raise SystemExit(f"memory, handles or threads grow with {' and '.join(leaking)}")


if __name__ == "__main__":
    main()
