"""Several labels at once: what a person is interested in, from their own columns and from the interests of their friends.

Friendships are private; columns and known interests are public. One release of noisy sums serves all labels.
"""

from __future__ import annotations

import math

import numpy as np

import caribou as cb


def interests(nodes: int = 1200, seed: int = 0) -> tuple[cb.Graph, np.ndarray, cb.Split]:
    """Four groups of people with interests of their own; friends are mostly of the same group, columns tell little of it."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 4, nodes)
    likely = np.array([[0.9, 0.8, 0.1], [0.1, 0.9, 0.1], [0.1, 0.1, 0.9], [0.8, 0.1, 0.8]])
    labels = rng.random((nodes, 3)) < likely[group]
    by_group = [np.flatnonzero(group == k) for k in range(4)]
    friends = np.stack([rng.choice(by_group[k], 8) for k in group])
    edges = np.stack([np.repeat(np.arange(nodes), 8), friends.ravel()])
    columns = np.eye(4)[group] + rng.normal(0, 1.5, (nodes, 4))
    parts = np.split(rng.permutation(nodes), [int(0.6 * nodes), int(0.8 * nodes)])
    return cb.Graph.from_edges(columns, edges, name="interests"), labels, cb.Split(*parts)


def main() -> dict[str, float]:
    graph, labels, split = interests()
    found = {}
    for name, epsilon in (("columns alone", 0.01), ("1", 1.0), ("4", 4.0), ("inf", math.inf)):
        model = cb.MultiLabelClassifier(cb.Budget(epsilon)).fit(graph, labels, split)
        found[name] = model.score("test")["macro_f1"]
    return found


if __name__ == "__main__":
    for name, score in main().items():
        print(f"macro F1, {name}: {score:.3f}")
