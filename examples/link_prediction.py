"""Link prediction from private embeddings: rank pairs of nodes by the similarity of their released rows.

The embeddings are released once, at edge level; everything after that is post-processing, so ranking any number of pairs costs
nothing more. Held-out edges are taken out *before* the release, so that the score says something about edges that the model has
not seen.

    python examples/link_prediction.py
"""

from __future__ import annotations

import numpy as np

import caribou as cb
from caribou.metrics import Scored, area_under_curve
from caribou.models.hidden_pairs import HiddenPairs, hide_edges
from caribou.randomness import Streams


def auc(rows: np.ndarray, hidden: HiddenPairs) -> float:
    """The probability that a hidden edge is ranked above a pair that is no edge."""
    scores = cb.LinkPredictor("cosine").scores(rows, hidden.pairs)
    return area_under_curve(Scored(scores, hidden.labels == 1))


def main() -> dict[str, float]:
    graph = cb.datasets.load("csbm", nodes=800, classes=4, average_degree=30.0, homophily=0.8, signal=2.0, seed=2)
    hidden = hide_edges(graph, Streams(0), share=0.2)
    scores = {}
    for epsilon in (1.0, 8.0, float("inf")):
        budget = cb.Budget(epsilon, 1e-5, "edge")
        method = "caribou-edp" if budget.is_private else "caribou-inf"
        model = cb.Model(method, budget, hidden=[16], hops=1, beta=0.3, degree_floor=30).fit(hidden.graph)
        scores[f"{epsilon:g}"] = auc(model.embeddings, hidden)
    scores["features"] = auc(np.asarray(graph.features), hidden)
    return scores


if __name__ == "__main__":
    for name, value in main().items():
        print(f"AUC {value:.3f}  {'features alone' if name == 'features' else f'embeddings at epsilon = {name}'}")
