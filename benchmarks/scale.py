"""How fast and how large: ratios measured in one run, because absolute times mean little across machines.

(a) our round against the memory floor; (b) other ways to compute a round, or only its product, against ours; (c) out of core
against in memory; (d) Ray with 2 workers against one process; (e) time, memory and disk of whole releases against edges and
depth; (f) a cost model that is fitted to (e), and what it says of 10^11 edges on a cluster; the same fitted to at most 10^8
edges, and what it says of 10^9 on this machine.
All times are CPU seconds, user and system, of one thread (Ray: of all its processes).

The floor is what one thread needs to stream, at its own bandwidth, one row of y and one index per edge and the state twice: as if
no row were ever found in a cache, and none ever waited for.

    python benchmarks/scale.py --largest 8
    python benchmarks/scale.py --largest 9 --scratch DISK     (13 GB)
    python benchmarks/scale.py --columns --largest 9 --scratch DISK     (only (e) and (f))
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from rich.console import Console
from rich.table import Table
from scipy.optimize import nnls

from caribou.engines.blocks import BlockFiles, Layout
from caribou.engines.local import LocalRunner
from caribou.engines.out_of_core import OutOfCoreRunner
from caribou.engines.preparation import Memory, prepare
from caribou.engines.rounds import Runner, Step
from caribou.mechanisms.noise_source import RunKey
from caribou.tables.edges import open_edges
from caribou.tables.nodes import open_nodes
from caribou.tables.read import Titles
from caribou.tables.rules import ColumnRules
from machine import bandwidth, cpu_seconds, described, machine

NODES, PAIRS = 10**6, 10**7
PROGRAM = """
import atexit, sys
from pathlib import Path
status = Path("/proc/self/status")
peak = lambda: next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
target = Path(sys.argv.pop(1))
atexit.register(lambda: target.write_text(peak()))
from caribou.cli import main
main()
"""
"""The command line, which at its end writes its own peak memory in kB: that of a child counts what its parent had."""
TARGETS = {
    "round / floor, d = 16": "<= 3.0",
    "round / floor, d = 64": "<= 2.5",
    "round / torch CSR product, d = 16": "<= 1.15",
    "round / torch CSR product, d = 64": "<= 1.15",
    "PyG MessagePassing round / ours, d = 16": ">= 5",
    "torch passes / ours, d = 16": ">= 1.8",
    "peak memory / (CSR + 3 buffers), d = 16": "<= 1.3",
    "out of core (1 GB) / in memory, d = 16": "<= 2.5",
    "Ray 2 workers / one process, d = 16": "<= 1.4",
    "Ray 2 workers / one process, d = 64": "<= 1.25",
    "time per edge, 10^8 / 10^6": "<= 1.5",
}


def power_law_pairs(nodes: int, pairs: int, seed: int, file: Path) -> None:
    """Ends drawn with a density of (rank + 10)^-1/2, ranks being a random order: an undirected power-law graph.

    The quantile function is a square, so nothing is searched, and the file is written as it is drawn.
    """
    rng = np.random.default_rng(seed)
    name = rng.permutation(nodes).astype(np.int32)
    lowest, highest = np.sqrt(10.0), np.sqrt(nodes + 10.0)
    with open(file, "wb") as out:
        np.lib.format.write_array_header_1_0(out, {"descr": "<i4", "fortran_order": False, "shape": (pairs, 2)})
        for first in range(0, pairs, 1 << 20):
            root = lowest + rng.random(2 * min(1 << 20, pairs - first)) * (highest - lowest)
            out.write(name[(root * root - 10.0).astype(np.int64).clip(0, nodes - 1)].tobytes())


def tables(folder: Path, nodes: int, pairs: int, columns: int) -> tuple[Path, Path]:
    edges, features = folder / f"edges-{pairs}.npy", folder / f"features-{nodes}-{columns}.npy"
    if not edges.exists():
        power_law_pairs(nodes, pairs, 0, edges)
    if not features.exists():
        np.save(features, np.random.default_rng(1).standard_normal((nodes, columns), dtype=np.float32))
    return edges, features


def blocked(folder: Path, edges: Path, features: Path, layout: Layout) -> BlockFiles:
    files = BlockFiles(folder, layout)
    folder.mkdir()
    bounds = {"degree_floor": 20, "degree_cap": None, "cap_key": 0}
    rows = open_nodes(features, Titles(), ColumnRules())
    prepare(open_edges(edges, Titles()), rows, files, **bounds, memory=Memory())  # type: ignore[arg-type]
    return files


def step(number: int) -> Step:
    return Step(number, 0.9, 1.0, 0.0, 20, False, False, 0.3)


def started(runner: Runner, files: BlockFiles) -> Runner:
    runner.start(files.state("round-0").shards())
    return runner


def one_round(runner: Runner) -> Callable[[], object]:
    numbers = itertools.count(1)  # a round is run once: its noise must not serve two states
    return lambda: runner.round(step(next(numbers)), None, lambda *_: None)


def others(files: BlockFiles, columns: int) -> dict[str, Callable[[], object]]:
    """Rounds and products of other libraries, in single precision, with a plain generator where noise is part of it."""
    import scipy.sparse as sp
    from torch_geometric import EdgeIndex
    from torch_geometric.nn import MessagePassing

    parts = [files.read(index).tiles[0] for index in range(files.layout.blocks)]
    degrees = np.concatenate([np.diff(part.starts) for part in parts])
    indices = np.concatenate([part.columns for part in parts])
    starts = np.concatenate([[0], np.cumsum(degrees)])
    root = 1 / np.sqrt(np.maximum(degrees, 20) + 1)
    n = len(degrees)
    values = (np.repeat(root, degrees) * root[indices]).astype(np.float32)
    x = torch.randn(n, columns)
    warnings.simplefilter("ignore", UserWarning)  # CSR is "in beta state" for years
    csr = torch.sparse_csr_tensor(
        torch.from_numpy(starts.astype(np.int32)), torch.from_numpy(indices), torch.from_numpy(values)
    )
    own = torch.from_numpy((root**2).astype(np.float32))[:, None]
    matrix = sp.csr_array((values, indices, starts.astype(np.int32)), shape=(n, n))
    rows = torch.from_numpy(np.repeat(np.arange(n, dtype=np.int64), degrees))
    pairs = torch.stack([torch.from_numpy(indices.astype(np.int64)), rows])
    weight = torch.from_numpy(values)

    class Plain(MessagePassing):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.propagate(pairs, x=x, weight=weight)

        def message(self, x_j: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return weight[:, None] * x_j

    layer = Plain(aggr="add")
    index = EdgeIndex(torch.stack([rows, pairs[0]]), sparse_size=(n, n), sort_order="row", is_undirected=True)
    index.fill_cache_()

    def finished(product: torch.Tensor) -> torch.Tensor:
        value = 0.9 * (product + own * x) + 0.3 * torch.randn(n, columns)
        return value / torch.linalg.vector_norm(value, dim=1, keepdim=True).clamp(min=1)

    return {
        "torch passes": lambda: finished(csr @ x),
        "PyG MessagePassing round": lambda: finished(layer(x)),
        "torch CSR product": lambda: csr @ x,
        "scipy CSR product": lambda: matrix @ x.numpy(),
        "PyG EdgeIndex product": lambda: index.matmul(x, weight),
    }


def ray_ratio(files: BlockFiles, ours: Callable[[], object], turns: int = 8) -> float:
    """CPU seconds of all processes of a Ray with 2 workers over those of one process, in turns.

    The first rounds fill the memory that later ones use again, and are left out.
    """
    from caribou.engines.ray import RayRunner

    def spent() -> float:
        me = psutil.Process()
        times = [process.cpu_times() for process in [me, *me.children(recursive=True)] if process.is_running()]
        return sum(t.user + t.system for t in times)

    runner = RayRunner(files, RunKey.seeded(0).noise(b"benchmark"), residual=False, workers=2)
    theirs = one = 0.0
    try:
        started(runner, files)
        for number in range(1, 3 + turns):
            alone, before = cpu_seconds(ours, 1), spent()
            runner.round(step(number), None, lambda *_: None)
            if number > 2:
                theirs, one = theirs + spent() - before, one + alone
    finally:
        runner.close()
    return theirs / one


def release(
    folder: Path, edges: Path, features: Path, engine: str, hops: int, memory: str | None = None
) -> dict[str, float]:
    """A whole ``caribou propagate`` in its own process: CPU and wall seconds, peak memory, peak disk beside its tables."""
    out = folder / "out.npy"
    command = [sys.executable, "-c", PROGRAM, str(folder / "peak"), "propagate"]
    command += ["--edges", str(edges), "--features", str(features)]
    command += ["--degree-floor", "20", "--delta", "1e-9", "--hops", str(hops), "--engine", engine, "--workers", "1"]
    command += ["--out", str(out), *(["--memory", memory] if memory else [])]
    begin, before, most, ended = time.perf_counter(), disk_bytes(folder), [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            most[0] = max(most[0], disk_bytes(folder) - before)

    watcher = threading.Thread(target=watch)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    watcher.start()
    _, status, usage = os.wait4(process.pid, 0)
    ended.set()
    watcher.join()
    if status != 0:
        raise SystemExit(f"failed: {' '.join(command)}")
    out.unlink()
    out.with_suffix(".certificate.json").unlink()  # a release never writes over another
    return {
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": time.perf_counter() - begin,
        "peak_mb": int((folder / "peak").read_text()) / 1024,
        "disk_mb": most[0] / 2**20,
    }


def disk_bytes(folder: Path) -> int:
    """What the files below a folder take on disk now; those that vanish meanwhile count as nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def measure_rounds(folder: Path, columns: int, results: dict[str, Any]) -> None:
    """(a) to (d) for one number of columns."""
    edges, features = tables(folder, NODES, PAIRS, columns)
    files = blocked(folder / f"blocks-{columns}", edges, features, Layout(NODES, columns, 16))
    blocks = [files.read(index) for index in range(files.layout.blocks)]
    runner = started(LocalRunner(files.layout, blocks, None, RunKey.seeded(0).noise(b"benchmark")), files)
    entries = sum(block.entries for block in blocks)
    floor = (entries * (4 * columns + 4) + 8 * NODES * columns) / bandwidth()
    rivals = others(files, columns)
    rounds, product = one_round(runner), rivals["torch CSR product"]
    turns = [(cpu_seconds(rounds, 1), cpu_seconds(product, 1)) for _ in range(7)]
    ours, theirs = (min(times) for times in zip(*turns, strict=True))
    size = f"d = {columns}"
    results["seconds"] |= {f"floor, {size}": floor, f"our round, {size}": ours, f"torch CSR product, {size}": theirs}
    results["spread"][f"our round, {size}"], results["spread"][f"torch CSR product, {size}"] = (
        max(times) / min(times) for times in zip(*turns, strict=True)
    )
    results["ratios"][f"round / floor, {size}"] = ours / floor
    results["ratios"][f"round / torch CSR product, {size}"] = ours / theirs
    tile, draws, noise = 1024 * columns, NODES // 1024, RunKey.seeded(0).noise(b"benchmark")
    secure = cpu_seconds(lambda: [0 for _ in noise.gaussians(1, 0, [tile] * draws, size=tile, std=1.0, grid=2.0**-28)])
    plain = cpu_seconds(lambda: [torch.randn(tile, dtype=torch.float64) for _ in range(draws)])
    results["ratios"][f"secure noise / torch.randn, {size}"] = secure / plain
    for name, work in rivals.items():
        if name == "torch CSR product":
            continue  # measured in turn with ours
        if "Message" in name and columns > 16:
            continue  # it holds a row per edge, several times: 20 GB
        repeats = 1 if "Message" in name else 3
        results["ratios"][f"{name} / ours, {size}"] = cpu_seconds(work, repeats) / ours
    disk = OutOfCoreRunner(files, RunKey.seeded(0).noise(b"benchmark"), residual=False, sum_rows=1)
    results["ratios"][f"out of core (1 GB) / in memory, {size}"] = cpu_seconds(one_round(disk)) / ours
    try:
        results["ratios"][f"Ray 2 workers / one process, {size}"] = ray_ratio(files, rounds)
    except Exception as problem:  # noqa: BLE001 - not installed, or not started: the other figures are still worth having
        print(f"Ray was not measured: {problem}", file=sys.stderr)
        results["ratios"][f"Ray 2 workers / one process, {size}"] = float("nan")
    runner.close()
    shutil.rmtree(files.folder)


def measure_releases(folder: Path, largest: int, results: dict[str, Any]) -> None:
    """(e): directed edges 10^5 .. 10^largest with d = 16 and K = 4, at edges / 20 nodes (from 10^8 on: / 100); then K and d."""
    nothing = release(folder, *tables(folder, 5000, 10, 16), "local", 1)  # what starting the program takes
    results["releases"].append({"edges": 20, "nodes": 5000, "hops": 1, "columns": 16, "memory": "all", **nothing})
    per_edge: dict[int, float] = {}
    for exponent in range(5, largest + 1):
        pairs = 10**exponent // 2
        nodes = 10**exponent // (100 if exponent >= 8 else 20)
        edges, features = tables(folder, nodes, pairs, 16)
        memory = "4GB" if exponent >= 8 else "1GB"
        measured = release(folder, edges, features, "outofcore", 4, memory)
        per_edge[exponent] = (measured["cpu"] - nothing["cpu"]) / 10**exponent
        known = {"edges": 10**exponent, "nodes": nodes, "hops": 4, "columns": 16, "memory": memory}
        results["releases"].append({**known, **measured})
        edges.unlink()
        features.unlink()
    for hops, columns in ((1, 16), (4, 16), (16, 16), (4, 64)):
        edges, features = tables(folder, NODES, PAIRS, columns)
        known = {"edges": 2 * PAIRS, "nodes": NODES, "hops": hops, "columns": columns, "memory": "all"}
        results["releases"].append({**known, **release(folder, edges, features, "local", hops)})
    local = next(r for r in results["releases"] if r["memory"] == "all" and (r["hops"], r["columns"]) == (4, 16))
    arrays = (2 * PAIRS * 4 + NODES * 8 + 3 * NODES * 16 * 4) / 2**20
    results["ratios"]["peak memory / (CSR + 3 buffers), d = 16"] = (local["peak_mb"] - nothing["peak_mb"]) / arrays
    if 8 in per_edge:
        results["ratios"]["time per edge, 10^8 / 10^6"] = per_edge[8] / per_edge[6]


def terms(edges: float, nodes: float, columns: int, hops: int) -> list[float]:
    """What a release does: it starts, prepares edges, prepares features and writes, then adds rows and finishes rows K times."""
    return [1.0, edges, nodes * columns, edges * columns * hops, nodes * columns * hops]


TERMS = ("start", "per edge", "per entry", "per edge, column and hop", "per entry and hop")


def fitted(used: list[dict[str, Any]]) -> dict[str, Any]:
    """(f): CPU seconds of releases as a sum of `terms` with coefficients >= 0, by relative squares."""
    rows = np.array([terms(r["edges"], r["nodes"], r["columns"], r["hops"]) for r in used])
    seconds = np.array([r["cpu"] for r in used])
    scaled = rows / seconds[:, None]
    unit = np.abs(scaled).max(axis=0)
    coefficients = nnls(scaled / unit, np.ones(len(used)))[0] / unit
    errors = rows @ coefficients / seconds - 1
    return {"coefficients": dict(zip(TERMS, coefficients.tolist(), strict=True)), "errors": errors.tolist()}


def predicted(model: dict[str, Any], edges: float, nodes: float, columns: int, hops: int) -> float:
    """CPU seconds by the model."""
    return float(np.dot(list(model["coefficients"].values()), terms(edges, nodes, columns, hops)))


CLUSTER = {"machines": 64, "cores": 32, "network_gb_per_s": 1.25}
"""On paper: 10 Gb/s between machines; every machine gets the whole state once per round."""


def on_paper(results: dict[str, Any], columns: int = 16, hops: int = 4) -> dict[str, float]:
    """10^9 edges (10^7 nodes) here, and 10^11 (10^9 nodes) on a cluster whose cores are like this one: seconds.

    The first is a prediction from at most 10^8 edges, also where 10^9 were measured: so the model can be held to it.
    """
    model, size = results["model"], f"d = {columns}"
    smaller = fitted([r for r in results["releases"] if r["edges"] <= 10**8])
    overhead = results["ratios"].get(f"Ray 2 workers / one process, {size}", float("nan"))  # unknown if not measured
    work = predicted(model, 1e11, 1e9, columns, hops)
    computing = overhead * work / (CLUSTER["machines"] * CLUSTER["cores"])
    moving = hops * 4e9 * columns / (CLUSTER["network_gb_per_s"] * 1e9)
    return {
        "10^9 edges here by those of up to 10^8, CPU s": predicted(smaller, 1e9, 1e7, columns, hops),
        "10^11 edges, CPU s": work,
        "10^11 edges on the cluster, computing, wall s": computing,
        "10^11 edges on the cluster, moving states, wall s": moving,
        "10^11 edges on the cluster, GB of edges per machine": 4e11 / CLUSTER["machines"] / 1e9,
        "10^11 edges on the cluster, GB of one state": 4e9 * columns / 1e9,
    }


def save(results: dict[str, Any], out: Path) -> None:
    """After each part, so that a long run that is stopped has told something."""
    out.mkdir(exist_ok=True)
    (out / "scale.json").write_text(json.dumps(results, indent=2) + "\n")


def draw(results: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right, depth) = plt.subplots(1, 3, figsize=(14, 4.2), width_ratios=(1.2, 1, 0.8))
    ratios = {k: v for k, v in results["ratios"].items() if "d = 16" in k and "memory /" not in k}
    left.barh(list(ratios), list(ratios.values()), color="#546e7a")
    left.axvline(1, color="#e64a19", linewidth=1)
    left.set_xscale("log")
    left.invert_yaxis()
    left.set_xlabel("ratio of CPU time")
    for at, value in enumerate(ratios.values()):
        left.text(value, at, f" {value:.2g}", va="center", fontsize=8)
    left.tick_params(axis="y", labelsize=8)
    left.margins(x=0.15)
    sized = [r for r in results["releases"] if r["hops"] == 4 and r["memory"] != "all"]
    right.loglog([r["edges"] for r in sized], [r["cpu"] for r in sized], "o-", color="#546e7a", label="CPU seconds")
    right.loglog(
        [r["edges"] for r in sized], [r["peak_mb"] for r in sized], "s--", color="#e64a19", label="peak memory, MB"
    )
    right.set_xlabel("directed edges; out of core, K = 4, d = 16")
    right.legend()
    right.grid(alpha=0.3)
    deep = [r for r in results["releases"] if r["memory"] == "all" and r["edges"] == 2 * PAIRS and r["columns"] == 16]
    depth.plot([r["hops"] for r in deep], [r["cpu"] for r in deep], "o-", color="#546e7a")
    depth.set(xlabel="K; 2·10⁷ edges in memory, d = 16", ylabel="CPU seconds", ylim=(0, None))
    depth.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def show(results: dict[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(described(results["machine"]))
    console.print(f"{NODES:,} nodes, {2 * PAIRS:,} directed edges")
    table = Table("ratio of CPU time (or memory)", "measured", "to reach")
    for name, ratio in results["ratios"].items():
        table.add_row(name, f"{ratio:.2f}", TARGETS.get(name, ""))
    console.print(table)
    for name, ratio in results["spread"].items():
        console.print(f"largest / smallest of 7 turns, {name}: {ratio:.2f}")
    if not results["releases"]:
        return
    console.print(described(results["machine"]))
    table = Table("edges", "nodes", "d", "K", "memory", "CPU s", "wall s", "peak MB", "disk MB")
    for r in results["releases"]:
        numbers = (f"{r['edges']:.0e}", f"{r['nodes']:.0e}", str(r["columns"]), str(r["hops"]), r["memory"])
        table.add_row(*numbers, f"{r['cpu']:.1f}", f"{r['wall']:.1f}", f"{r['peak_mb']:.0f}", f"{r['disk_mb']:.0f}")
    console.print(table)
    console.print(described(results["machine"]))
    table = Table("cost model, CPU seconds", "coefficient")
    for name, value in results["model"]["coefficients"].items():
        table.add_row(name, f"{value:.3g}")
    table.add_row("largest relative error", f"{max(map(abs, results['model']['errors'])):.2f}")
    for name, value in results["on_paper"].items():
        table.add_row(name, f"{value:.3g}")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("bench-output"))
    parser.add_argument("--largest", type=int, default=8, help="releases of up to 10^LARGEST directed edges")
    parser.add_argument("--columns", type=int, nargs="*", default=[16, 64], help="numbers of columns for (a) to (d)")
    parser.add_argument(
        "--scratch", type=Path, default=None, help="a folder with 10 GB free, for 10^9 edges 13 (default: the system's)"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {"machine": machine(), "seconds": {}, "spread": {}, "ratios": {}, "releases": []}
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch:
        folder = Path(scratch)
        for columns in arguments.columns:
            measure_rounds(folder, columns, results)
            save(results, arguments.out)
        if arguments.largest >= 5:
            measure_releases(folder, arguments.largest, results)
            results["model"] = fitted(results["releases"])
            results["on_paper"] = on_paper(results)
    save(results, arguments.out)
    draw(results, arguments.out / "scale.png")
    show(results)


if __name__ == "__main__":
    main()
