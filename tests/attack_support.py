"""Shared by attacks on mechanisms: graphs one edge apart, copies side by side, and what a test between two worlds proves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import networkx as nx
import numpy as np
from scipy import stats

from caribou.graph import Graph
from graph_families import graph_of, small_graphs


def one_edge_apart(graph: Graph) -> Iterator[tuple[int, int, Graph]]:
    """For every pair of nodes: the pair, and the graph with it if it is not joined, without it if it is."""
    for u, v in itertools.combinations(range(graph.num_nodes), 2):
        yield u, v, graph.without_edge(u, v) if graph.has_edge(u, v) else graph.with_edge(u, v)


def small_graphs_one_edge_apart() -> Iterator[tuple[int, int, Graph, Graph]]:
    """Every pair of nodes in every graph with 2 to 5 nodes: the pair, and the graphs with and without its edge, in any order."""
    for nxg in small_graphs():
        graph = graph_of(nxg)
        yield from ((u, v, graph, other) for u, v, other in one_edge_apart(graph))


def side_by_side(graph: Graph, copies: int) -> Graph:
    """Disjoint copies of a graph: where nothing flows between them, one run is many independent ones."""
    n = graph.num_nodes
    edges = graph.edge_index[:, None, :] + n * np.arange(copies)[None, :, None]
    return Graph.from_edges(np.zeros((n * copies, 1)), edges.reshape(2, -1))


def disjoint_pairs(pairs: int, joined: bool) -> Graph:
    """Nodes 2 i and 2 i + 1, joined or not."""
    return side_by_side(graph_of(nx.path_graph(2) if joined else nx.empty_graph(2)), pairs)


def rates(hits: tuple[int, int], trials: int, level: float = 1e-6) -> tuple[float, float]:
    """Of an event with so many hits in two worlds: the rate in the first one at most, and in the second one at least."""
    most = stats.beta.ppf(1 - level, hits[0] + 1, trials - hits[0]) if hits[0] < trials else 1.0
    least = stats.beta.ppf(level, hits[1], trials - hits[1] + 1) if hits[1] else 0.0
    return float(most), float(least)


def proven_epsilon(hits: tuple[int, int], trials: int, level: float = 1e-6) -> float:
    """How much likelier the event is in the second world, at least: log(TPR / FPR)."""
    most, least = rates(hits, trials, level)
    return math.log(least / most) if least else -math.inf


def proven_mu(hits: tuple[int, int], trials: int, level: float = 1e-6) -> float:
    """The mu that the event proves: Phi^-1(TPR) - Phi^-1(FPR)."""
    most, least = rates(hits, trials, level)
    return float(stats.norm.ppf(least) - stats.norm.ppf(most))


def p_value(observed: np.ndarray, expected: np.ndarray) -> float:
    """Chi-square over cells with enough expected draws; the rest is one cell."""
    large = expected >= 10
    o, e = observed[large], expected[large]
    if not large.all():
        o, e = np.append(o, observed[~large].sum()), np.append(e, expected[~large].sum())
    keep = e > 0
    return float(stats.chi2.sf(((o[keep] - e[keep]) ** 2 / e[keep]).sum(), keep.sum() - 1))


def best_mu(one: np.ndarray, two: np.ndarray) -> float:
    """A lower bound on mu at 99.99 % from thresholds on a linear score: fitted on one half, judged on the other. [runs, numbers]

    For mu-GDP, Phi^-1(TPR) - Phi^-1(FPR) <= mu at every threshold; rates get Clopper-Pearson limits, corrected for the
    number of thresholds.
    """
    half = len(one) // 2
    pooled = (np.cov(one[:half].T) + np.cov(two[:half].T)) / 2
    weights = np.linalg.pinv(pooled) @ (two[:half].mean(axis=0) - one[:half].mean(axis=0))
    first, second = one[half:] @ weights, two[half:] @ weights
    thresholds = np.quantile(np.concatenate([first, second]), np.linspace(0.02, 0.98, 25))
    level = 1e-4 / len(thresholds) / 2
    events = [(int((first > t).sum()), int((second > t).sum())) for t in thresholds]
    return max(0.0, *(proven_mu(hits, len(first), level) for hits in events if hits[0] < len(first) and hits[1]))


def std_is_rejected(sample: np.ndarray, claimed: float, level: float = 1e-6) -> bool:
    """Two-sided chi-square test of the standard deviation."""
    statistic = float((sample**2).sum()) / claimed**2
    tail = stats.chi2.cdf(statistic, sample.size)
    return min(tail, 1 - tail) < level / 2


def require_std(sample: np.ndarray, claimed: float) -> None:
    """Two-sided: the sample has the claimed standard deviation, and is precise enough to tell 5 % more or less."""
    assert [std_is_rejected(sample, factor * claimed) for factor in (0.95, 1.0, 1.05)] == [True, False, True]


def require_discrete_laplace(noise: np.ndarray, epsilon: float) -> None:
    """The share of zeros is that of the discrete Laplace distribution, and is precise enough to tell 5 % more or less."""

    def zeros(epsilon: float) -> float:
        return math.tanh(epsilon / 2)

    share, deviation = float((noise == 0).mean()), math.sqrt(zeros(epsilon) * (1 - zeros(epsilon)) / noise.size)
    found = [abs(share - zeros(factor * epsilon)) < 6 * deviation for factor in (0.95, 1.0, 1.05)]
    assert found == [False, True, False]
