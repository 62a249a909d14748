"""What ``make bench`` prints: ratios measured in one run, because absolute times mean little across machines.

(a) one round of message passing against its bare sparse product; (b) secure noise against torch.randn; (c) the whole
release against depth; (d) building the operator, with and without a degree cap, against one round; (e) exact samplers against
the same formulas in double precision.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import caribou as cb
from caribou.graph.operator import normalize
from caribou.layers.contractive import project_rows
from caribou.mechanisms import samplers
from caribou.mechanisms.message_passing import propagate
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.arithmetic import double_precision
from caribou.privacy.calibration import calibrate_propagation
from machine import cpu_seconds, described, machine

PRODUCT = "product_seconds"


def measure(nodes: int, average_degree: float, columns: int) -> dict[str, float]:
    graph = cb.datasets.load("csbm", nodes=nodes, average_degree=average_degree, features=columns, seed=0)
    bounds = cb.Bounds(degree_floor=20, nodes=nodes)
    layer = cb.ContractiveGraphLayer(0.9, 0.9, 0.3)
    operator = normalize(graph, bounds)
    x = project_rows(torch.from_numpy(np.array(graph.features, dtype=np.float64)))
    arithmetic = double_precision(nodes=nodes, columns=columns, residual=layer.beta)
    noise = NoiseSource.secure()

    def release(hops: int) -> Callable[[], object]:
        calibrated = calibrate_propagation(layer.sensitivity("edge", bounds), hops=hops, mu=1.0, arithmetic=arithmetic)
        return lambda: propagate(layer, operator, x, calibrated, noise)

    product = cpu_seconds(lambda: operator.matrix @ x, 5)
    one_round = cpu_seconds(release(1), 5)
    capped = cb.Bounds(degree_cap=10, nodes=nodes)
    return {
        PRODUCT: product,
        "round / bare product": one_round / product,
        "noise / torch.randn": cpu_seconds(lambda: noise.gaussian(tuple(x.shape), std=1.0), 5)
        / cpu_seconds(lambda: torch.randn(x.shape, dtype=torch.float64), 5),
        "8 hops / 1 hop": cpu_seconds(release(8), 3) / one_round,
        "64 hops / 1 hop": cpu_seconds(release(64), 1) / one_round,
        "operator / round": cpu_seconds(lambda: normalize(graph, bounds), 3) / one_round,
        "operator with cap / round": cpu_seconds(lambda: normalize(graph, capped, np.random.default_rng(0)), 3)
        / one_round,
    }


def exact_noise(count: int = 10**6) -> dict[str, float]:
    """(e): the exact samplers against what they would be in double precision with 128-bit uniforms."""

    def exponentials(size: int) -> np.ndarray:
        words = samplers.words(NoiseSource.seeded(0)._next_stream(), 2 * size).astype(np.float64)
        return np.asarray(-np.log((words[:size] + (words[size:] + 0.5) * 2.0**-64) * 2.0**-64))

    def rounded_gaussians() -> np.ndarray:
        radius = np.sqrt(2 * exponentials(count // 2))
        angle = samplers.words(NoiseSource.seeded(0)._next_stream(), count // 2) * (2 * np.pi * 2.0**-64)
        return np.rint(np.concatenate([radius * np.cos(angle), radius * np.sin(angle)]) * 2.0**28) * 2.0**-28

    noise = NoiseSource.seeded(0)
    ratios = {}
    for epsilon in (0.1, 1.0, 4.0, 16.0):
        exact = cpu_seconds(lambda e=epsilon: noise.discrete_laplace((count,), epsilon=e))  # type: ignore[misc]
        plain = cpu_seconds(
            lambda e=epsilon: np.floor(exponentials(count) / e) - np.floor(exponentials(count) / e)  # type: ignore[misc]
        )
        ratios[f"discrete Laplace, epsilon = {epsilon:g}"] = exact / plain
    plain = cpu_seconds(lambda: np.rint((exponentials(count) - exponentials(count)) * 2.0**28) * 2.0**-28)
    ratios["Laplace"] = cpu_seconds(lambda: noise.laplace((count,), scale=1.0)) / plain
    ratios["Gaussian"] = cpu_seconds(lambda: noise.gaussian((count,), std=1.0)) / cpu_seconds(rounded_gaussians)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--average-degree", type=float, default=20.0)
    parser.add_argument("--out", type=Path, default=Path("bench-output"))
    arguments = parser.parse_args()
    table = Table(title="ratios of CPU time", title_justify="left")
    table.add_column("ratio")
    results = {}
    for columns in (16, 64):
        table.add_column(f"d = {columns}", justify="right")
        results[columns] = measure(arguments.nodes, arguments.average_degree, columns)
    for name in results[16]:
        if name != PRODUCT:
            table.add_row(name, *(f"{results[columns][name]:.3g}" for columns in results))
    console, here = Console(highlight=False), machine()
    console.print(described(here))
    console.print(f"{arguments.nodes:,} nodes, average degree {arguments.average_degree:g}")
    products = ", ".join(f"{1000 * results[columns][PRODUCT]:.3g} ms at d = {columns}" for columns in results)
    console.print(f"one bare sparse product: {products}")
    console.print(table)
    samplers_table = Table(title="exact samplers / the same in double precision", title_justify="left")
    samplers_table.add_column("noise")
    samplers_table.add_column("ratio", justify="right")
    ratios = exact_noise()
    for name, ratio in ratios.items():
        samplers_table.add_row(name, f"{ratio:.3g}")
    console.print(described(here))
    console.print(samplers_table)
    arguments.out.mkdir(exist_ok=True)
    (arguments.out / "core.json").write_text(
        json.dumps({"machine": here, **results, "exact noise": ratios}, indent=2) + "\n"
    )


if __name__ == "__main__":
    main()
