"""Randomized response on a graph: every unordered pair of nodes is answered once, in time and memory O(edges + flipped pairs).

Nobody looks at all n (n - 1) / 2 pairs: the number of non-edges that become edges is drawn first, then which they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.machine.memory import require_memory
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.mechanism_records import Mechanism
from caribou.privacy.pair_response import PairBudget, PairResponse, pair_count

MOST_PAIRS = 20_000_000
BYTES_PER_PAIR = 120
"""Peak memory per edge of a perturbed graph: drawn, sorted, and twice in compressed rows with its value."""


@dataclass(frozen=True, eq=False)
class PerturbedGraph:
    """A released graph: the noisy edge count, the edges u < v, and the probabilities that were used (None: no noise)."""

    count: int
    pairs: np.ndarray  # [2, E']
    response: PairResponse | None

    @property
    def details(self) -> dict[Mechanism, dict[str, Any]]:
        """What the certificate learns after the count is drawn."""
        if self.response is None:
            return {}
        return {Mechanism.RANDOMIZED_RESPONSE: {"released_edge_count": self.count, **self.response.to_dict()}}


def perturb(
    graph: Graph,
    budget: PairBudget,
    noise: NoiseSource,
    response_of: Callable[..., PairResponse],
    *,
    max_edges: int | None,
) -> PerturbedGraph:
    """Release the edge count, turn it into probabilities by ``response_of``, and answer every pair with them.

    Formal guarantee: (budget.count + budget.pairs)-DP at edge level; an infinite budget gives the graph itself.
    """
    if not budget.is_private:
        require_memory(BYTES_PER_PAIR * graph.num_edges, f"GraphSAGE on {graph.num_edges:,} edges")
        return PerturbedGraph(graph.num_edges, pairs_of_numbers(pair_numbers(graph)), None)
    count = noisy_edge_count(graph, epsilon=budget.count, noise=noise.stream("edge count"))
    count = count if max_edges is None else min(count, max_edges)
    response = response_of(epsilon=budget.pairs, edges=count, nodes=graph.num_nodes)
    require_room(response, edges=count, nodes=graph.num_nodes)
    return PerturbedGraph(count, perturbed_pairs(graph, response, noise.stream("pairs")), response)


def noisy_edge_count(graph: Graph, *, epsilon: float, noise: NoiseSource) -> int:
    """The number of undirected edges plus discrete Laplace noise, clamped to what n nodes can have.

    Formal guarantee: epsilon-DP at edge level (one edge moves the count by 1); the clamp is post-processing.
    """
    noisy = graph.num_edges + int(noise.discrete_laplace((1,), epsilon=epsilon)[0])
    return min(max(noisy, 0), pair_count(graph.num_nodes))


def require_room(response: PairResponse, *, edges: int, nodes: int) -> None:
    """An error with numbers if the perturbed graph would be too large to be worked with. ``edges`` is a released count."""
    expected = response.expected_pairs(edges=edges, nodes=nodes)
    if expected > MOST_PAIRS:
        raise InputError(
            f"the perturbed graph must have at most {MOST_PAIRS:,} edges, got {expected:,.0f} expected among "
            f"{pair_count(nodes):,} pairs (about {expected * BYTES_PER_PAIR / 2**30:.1f} GiB); set max_edges to a declared bound"
        )


def perturbed_pairs(graph: Graph, response: PairResponse, noise: NoiseSource) -> np.ndarray:
    """The edges of the perturbed graph, u < v, sorted by (v, u). [2, E'], int64

    Every edge is kept with probability a, every other pair becomes an edge with probability b, all independently: a boolean per
    edge, a binomial number of new pairs, and that many different non-edges, all equally likely (draws that hit an edge or a pair
    twice are repeated). Formal guarantee: response.epsilon-DP at edge level (`PairResponse`).
    """
    N = pair_count(graph.num_nodes)
    edges = pair_numbers(graph)
    kept = edges[noise.bernoulli(len(edges), probability=response.keep_one)]
    flips = noise.binomial(N - len(edges), probability=response.make_one)
    made = np.empty(0, dtype=np.int64)
    while len(made) < flips:
        # As many as are missing, never more: which pairs come first plays no role, so the set is uniform.
        drawn = np.unique(noise.integers(flips - len(made), below=N))
        drawn = drawn[~_is_in(drawn, edges) & ~_is_in(drawn, made)]
        made = np.sort(np.concatenate([made, drawn]))
    return pairs_of_numbers(np.sort(np.concatenate([kept, made])))


def pair_numbers(graph: Graph) -> np.ndarray:
    """Number v (v - 1) / 2 + u of every edge u < v, sorted. [E], int64"""
    v, u = graph.edge_index
    upper = u < v
    return v[upper] * (v[upper] - 1) // 2 + u[upper]


def pairs_of_numbers(numbers: np.ndarray) -> np.ndarray:
    """The inverse: the ends u < v of the pair with each number. [m] -> [2, m]

    >>> pairs_of_numbers(np.arange(6)).T.tolist()
    [[0, 1], [0, 2], [1, 2], [0, 3], [1, 3], [2, 3]]
    """
    v = ((1 + np.sqrt(1 + 8 * numbers.astype(np.float64))) / 2).astype(np.int64)
    v -= v * (v - 1) // 2 > numbers  # the square root may round up or down at the border
    v += (v + 1) * v // 2 <= numbers
    return np.stack([numbers - v * (v - 1) // 2, v])


def _is_in(values: np.ndarray, sorted_set: np.ndarray) -> np.ndarray:
    """Which values are in a sorted array of distinct numbers. [m], bool"""
    if len(sorted_set) == 0:
        return np.zeros(len(values), dtype=bool)
    at = np.minimum(np.searchsorted(sorted_set, values), len(sorted_set) - 1)
    return sorted_set[at] == values
