"""What the clean last convolution of the public code explains: the sound mechanism with that one fault switched on.

python -m reproduction.clean_convolution [GRAPH ...]     default: the five standard graphs; prints a table and writes
                                                         results/clean-convolution.csv

The public code of the paper adds noise in K hops and then multiplies the noisy state by the normalised adjacency once more,
without noise. What it releases is therefore not private. Here everything else is as in ``caribou-edp`` at the authors' settings:
encoder, noise, floor, classification module, splits and noise seeds. **Nothing in the library does this**: figures from here are
no figures of a private method, and stand in no table beside private ones without saying so.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from caribou.datasets import load, published_delta
from caribou.graph import Graph
from caribou.layers import ContractiveGraphLayer, project_rows
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Outputs
from caribou.methods.caribou import Caribou
from caribou.models.encoder import kept_fits
from caribou.privacy.budget import Budget
from caribou.randomness import Streams
from reproduction import authors

RESULT = Path(__file__).resolve().parent / "results" / "clean-convolution.csv"
GRAPHS = ("cora", "pubmed", "photo:connected", "computers:connected", "berkeley13")
EPSILONS = (1, 2, 4, 8, 16, 32)
SEEDS = (0, 1, 2)
HEAD = ("dataset", "epsilon", "seed", "sound", "with a clean last convolution")


def fit_both(method: Caribou, graph: Graph, budget: Budget, streams: Streams, noise: int) -> tuple[Outputs, Outputs]:
    """The sound fit, and the same with one clean convolution more between the noise and the classification module."""
    plan = method.plan(graph.sizes(budget.unit), budget)
    calibrated = plan.parts["propagation"]
    start = method.encoded(plan, graph, streams)
    state = method.aggregate(graph, start, calibrated, NoiseSource.seeded(noise))
    once_more = ContractiveGraphLayer(contraction=1.0)  # W X alone: no mean, no residual, no noise
    operator = once_more.operator(graph, calibrated.sensitivity.bounds)
    with torch.no_grad():
        leaking = project_rows(once_more(torch.from_numpy(state), operator)).numpy()
    sound, fault = (method.classified(graph, start, rows, calibrated, streams) for rows in (state, leaking))
    return sound, fault


def measure(name: str, epsilons: Sequence[float] = EPSILONS, seeds: Sequence[int] = SEEDS) -> list[list[str]]:
    """The rows of one graph: test accuracy of both."""
    rows = []
    for seed in seeds:
        graph, streams = load(name, seed=seed), Streams(seed)
        split, labels = graph.for_learning(public=True)
        with kept_fits():
            for epsilon in epsilons:
                method = Caribou(**authors.settings("authors-mean")["caribou-edp", name, epsilon])
                budget = Budget(epsilon, published_delta(name))
                both = fit_both(method, graph, budget, streams, noise=1000 * seed + round(epsilon))
                right = (np.mean(one.probabilities[split.test].argmax(axis=1) == labels[split.test]) for one in both)
                rows.append([name, str(epsilon), str(seed), *(f"{share:.4f}" for share in right)])
                print(" | ".join(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    torch.set_num_threads(1)
    table = [row for graph_name in sys.argv[1:] or GRAPHS for row in measure(graph_name)]
    with open(RESULT, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([HEAD, *sorted(table, key=lambda row: (row[0], float(row[1]), row[2]))])
