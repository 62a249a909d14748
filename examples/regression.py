"""A number for every node: what an account turns over, from its own columns and from what its partners turn over.

The edges are private; columns and known numbers are public. The head reads noisy sums over neighbours, released once. Compare
the mean for everybody, the columns alone (at an epsilon so small that the sums are noise), and the sums at epsilon 1, 4 and
without noise.
"""

from __future__ import annotations

import math

import numpy as np

import caribou as cb


def turnover(nodes: int = 1200, seed: int = 0) -> tuple[cb.Graph, np.ndarray, cb.Split]:
    """Accounts in a hidden order of size: partners are of similar size, and the columns tell little of it."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(0, 10, nodes)
    order = np.argsort(size)
    place = np.argsort(order)
    near = np.clip(place[:, None] + rng.integers(-60, 61, (nodes, 10)), 0, nodes - 1)
    edges = np.stack([np.repeat(np.arange(nodes), 10), order[near].ravel()])
    columns = np.stack([size + rng.normal(0, 4, nodes), rng.normal(size=nodes)], axis=1)
    parts = np.split(rng.permutation(nodes), [int(0.6 * nodes), int(0.8 * nodes)])
    return cb.Graph.from_edges(columns, edges, name="turnover"), size, cb.Split(*parts)


def main() -> dict[str, float]:
    graph, size, split = turnover()
    found = {}
    for name, epsilon in (("columns alone", 0.01), ("1", 1.0), ("4", 4.0), ("inf", math.inf)):
        model = cb.NodeRegressor(cb.Budget(epsilon)).fit(graph, size, split)
        errors = model.score("test")
        found[name] = errors["rmse"]
    found["mean"] = errors["rmse_of_mean"]
    return found


if __name__ == "__main__":
    for name, error in main().items():
        print(f"root mean squared error, {name}: {error:.2f}")
