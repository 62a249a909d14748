"""How large a graph `caribou train` takes: CPU seconds and peak memory of a method on each engine, on a generated graph.

Ends of pairs follow a power law, 28 pairs of 100 join nodes of one class, and features tell the class of about half the nodes.

    python benchmarks/training.py --method caribou-edp --nodes 1000000 --pairs 50000000 --engines outofcore --memory 4GB
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scale import PROGRAM

CLASSES, CHUNK = 5, 1 << 20


def write_graph(folder: Path, nodes: int, pairs: int, columns: int, seed: int = 0) -> None:
    """edges.npy, features.npy, labels.npy and split.npy, written piece by piece."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, nodes)
    np.save(folder / "labels.npy", labels)
    np.save(folder / "split.npy", rng.choice([0, 1, 2], nodes, p=[0.2, 0.1, 0.7]).astype(np.int8))
    centres = rng.normal(size=(CLASSES, columns)) * 1.2 / np.sqrt(columns)
    with open(folder / "features.npy", "wb") as out:
        np.lib.format.write_array_header_1_0(out, {"descr": "<f4", "fortran_order": False, "shape": (nodes, columns)})
        for first in range(0, nodes, 1 << 16):
            some = labels[first : first + (1 << 16)]
            noise = rng.standard_normal((len(some), columns), dtype=np.float32)
            out.write((centres[some] + noise).astype("<f4").tobytes())
    members = [rng.permutation(np.flatnonzero(labels == c)).astype(np.int32) for c in range(CLASSES)]
    ends = np.cumsum((np.arange(nodes) + 10.0) ** -0.5)
    name = rng.permutation(nodes).astype(np.int32)
    with open(folder / "edges.npy", "wb") as out:
        np.lib.format.write_array_header_1_0(out, {"descr": "<i4", "fortran_order": False, "shape": (pairs, 2)})
        for first in range(0, pairs, CHUNK):
            count = min(CHUNK, pairs - first)
            u, v = name[np.searchsorted(ends, rng.random((2, count)) * ends[-1]).clip(max=nodes - 1)]
            for c in range(CLASSES):
                inside = np.flatnonzero((labels[u] == c) & (rng.random(count) < 0.1))
                v[inside] = members[c][(rng.random(len(inside)) ** 2 * len(members[c])).astype(np.int64)]
            out.write(np.stack([u, v], axis=1).astype("<i4").tobytes())


def measured(
    folder: Path, method: str, engine: str | None, memory: str | None, epsilon: float
) -> dict[str, float | str | None]:
    """One run of the command line in a process of its own."""
    peak = folder / "peak"
    options = [] if engine is None else ["--engine", engine, "--workers", "1"]
    options += ["--memory", memory] if engine == "outofcore" and memory is not None else []
    command = [sys.executable, "-c", PROGRAM, str(peak), "train", method, "--graph", str(folder)]
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [*command, "--epsilon", str(epsilon), "--delta", "1e-8", "--json", *options], check=True, stdout=subprocess.PIPE
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    document = json.loads(done.stdout)
    return {
        "method": method,
        "engine": engine,
        "accuracy": document["test_accuracy"]["mean"],
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "wall_s": time.perf_counter() - begun,
        "fit_cpu_s": document["cpu_seconds_per_fit"],
        "peak_mb": int(peak.read_text()) / 1024,
    }


def main() -> None:
    """Generate the graph, train on every engine, and print a line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="votes-edp", help="one that reads edges block by block")
    parser.add_argument("--nodes", type=int, default=10**6)
    parser.add_argument("--pairs", type=int, default=5 * 10**7)
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument(
        "--engines", nargs="+", default=["outofcore"], help="local, outofcore, ray, or memory (no engine)"
    )
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--folder", type=Path, help="keep the graph here, or use the one that is there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        if not (folder / "edges.npy").exists():
            write_graph(folder, given.nodes, given.pairs, given.columns)
        for engine in given.engines:
            name = None if engine == "memory" else engine
            found = measured(folder, given.method, name, given.memory, given.epsilon)
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
