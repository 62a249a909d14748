"""Graph-level prediction from private embeddings: pool the released rows of each group of nodes and classify the groups.

Think of companies (groups) in a network of transactions (secret edges): which companies have neighbours of another kind? Features
say nothing about that, edges do. The rows are released once at edge level; pooling and classification are post-processing.

    python examples/graph_pooling.py
"""

from __future__ import annotations

import numpy as np

import caribou as cb

GROUPS, SIZE = 120, 12


def groups_with_two_habits(rng: np.random.Generator) -> tuple[cb.Graph, np.ndarray, np.ndarray]:
    """Nodes of two public classes in groups; in groups of habit 1 nodes prefer partners of the other class.

    Returns the graph, the group of every node and the habit of every group (what is to be predicted).
    """
    n = GROUPS * SIZE
    group = np.repeat(np.arange(GROUPS), SIZE)
    habit = rng.integers(2, size=GROUPS)
    kind = rng.integers(2, size=n)
    by_kind = [np.flatnonzero(kind == k) for k in (0, 1)]
    sources = np.repeat(np.arange(n), 5)
    other = (rng.random(len(sources)) < np.where(habit[group[sources]] == 1, 0.8, 0.2)).astype(int)
    targets = np.array([rng.choice(by_kind[k]) for k in kind[sources] ^ other])
    features = np.eye(2)[kind] + 0.1 * rng.standard_normal((n, 2))
    graph = cb.Graph.from_edges(features, np.stack([sources, targets]), labels=kind, name="companies").random_split(0)
    return graph, group, habit


def by_kind(state: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """Rows in columns of their own for each kind of node, which is public at edge level. [n, 2 d]"""
    return np.hstack([np.where((kind == k)[:, None], state, 0.0) for k in (0, 1)])


def accuracy(rows: np.ndarray, group: np.ndarray, habit: np.ndarray) -> float:
    """Two thirds of the groups have public habits and train; the others are tested."""
    test = np.arange(GROUPS) % 3 == 0
    classifier = cb.GraphClassifier(pooling="mean").fit(rows, group, np.where(test, -1, habit))
    return float(np.mean(classifier.predict(rows, group)[test] == habit[test]))


def main() -> dict[str, float]:
    graph, group, habit = groups_with_two_habits(np.random.default_rng(3))
    kind = np.asarray(graph.labels)
    scores = {"features": accuracy(by_kind(np.asarray(graph.features), kind), group, habit)}
    for epsilon in (1.0, 4.0, float("inf")):
        budget = cb.Budget(epsilon, 1e-5, "edge")
        method = "caribou-edp" if budget.is_private else "caribou-inf"
        # features as messages: public at edge level, and no encoder is needed
        model = cb.Model(method, budget, messages="features", hops=1, beta=0.0, degree_floor=20).fit(graph)
        scores[f"{epsilon:g}"] = accuracy(by_kind(model.embeddings, kind), group, habit)
    return scores


if __name__ == "__main__":
    for name, value in main().items():
        print(f"accuracy {value:.1%}  {'features alone' if name == 'features' else f'embeddings at epsilon = {name}'}")
