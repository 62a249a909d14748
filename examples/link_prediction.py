"""Link prediction from private embeddings: rank pairs of nodes by the similarity of their released rows.

The embeddings are released once, at edge level; everything after that is post-processing, so ranking any number of pairs costs
nothing more. Held-out edges are taken out *before* the release, so that the score says something about edges that the model has
not seen.

    python examples/link_prediction.py
"""

from __future__ import annotations

import numpy as np

import caribou as cb


def hold_out(graph: cb.Graph, share: float, rng: np.random.Generator) -> tuple[cb.Graph, np.ndarray, np.ndarray]:
    """The graph without some edges, those edges, and as many pairs that are no edges. Pairs: [2, m]."""
    u, v = graph.edge_index
    edges = np.stack([u, v])[:, u < v]
    held = rng.permutation(edges.shape[1])[: int(share * edges.shape[1])]
    rest = np.delete(edges, held, axis=1)
    known = set(map(tuple, edges.T.tolist()))
    others: set[tuple[int, int]] = set()
    while len(others) < len(held):
        a, b = sorted(rng.integers(graph.num_nodes, size=2).tolist())
        if a != b and (a, b) not in known:
            others.add((a, b))
    smaller = cb.Graph.from_edges(
        graph.features, rest, labels=graph.labels, split=graph.split, name=f"{graph.name}, edges held out"
    )
    return smaller, edges[:, held], np.array(sorted(others)).T


def auc(positive: np.ndarray, negative: np.ndarray) -> float:
    """The probability that an edge is ranked above a non-edge."""
    ranks = np.argsort(np.argsort(np.concatenate([positive, negative]))) + 1
    m, n = len(positive), len(negative)
    return float((ranks[:m].sum() - m * (m + 1) / 2) / (m * n))


def similarity(rows: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Cosine of the centred rows of each pair."""
    x = rows - rows.mean(axis=0)
    x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    return np.einsum("ij,ij->i", x[pairs[0]], x[pairs[1]])


def main() -> dict[str, float]:
    graph = cb.datasets.load("csbm", nodes=800, classes=4, average_degree=14.0, homophily=0.8, signal=1.0, seed=2)
    smaller, edges, others = hold_out(graph, 0.2, np.random.default_rng(0))
    scores = {}
    for epsilon in (1.0, 8.0, float("inf")):
        budget = cb.Budget(epsilon, 1e-5, "edge")
        method = "caribou-edp" if budget.is_private else "caribou-inf"
        model = cb.Model(method, budget, messages="labels", hidden=[16]).fit(smaller)
        scores[f"{epsilon:g}"] = auc(similarity(model.embeddings, edges), similarity(model.embeddings, others))
    features = np.asarray(graph.features)
    scores["features"] = auc(similarity(features, edges), similarity(features, others))
    return scores


if __name__ == "__main__":
    for name, value in main().items():
        print(f"AUC {value:.3f}  {'features alone' if name == 'features' else f'embeddings at epsilon = {name}'}")
