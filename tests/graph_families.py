"""The graphs on which sensitivities are attacked: all small ones, and stars, double stars, bicliques, cliques, random ones."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
from hypothesis import strategies as st

from caribou.graph import Graph


def graph_of(nxg: nx.Graph) -> Graph:
    nxg = nx.convert_node_labels_to_integers(nxg)
    edges = np.array(list(nxg.edges), dtype=np.int64).reshape(-1, 2).T
    return Graph.from_edges(np.zeros((nxg.number_of_nodes(), 1), dtype=np.float32), edges)


def small_graphs() -> list[nx.Graph]:
    """All graphs with 1 to 5 nodes, up to isomorphism."""
    return [g for g in nx.graph_atlas_g() if 1 <= g.number_of_nodes() <= 5]


def double_star(a: int, b: int, joined: bool = False) -> nx.Graph:
    g = nx.Graph()
    g.add_nodes_from([0, 1])
    g.add_edges_from((0, 2 + i) for i in range(a))
    g.add_edges_from((1, 2 + a + i) for i in range(b))
    if joined:
        g.add_edge(0, 1)
    return g


def two_hubs(common: int, own: int = 0) -> nx.Graph:
    """Hubs 0 and 1 with common neighbours (a biclique 2 x common) and own leaves each."""
    g = nx.Graph()
    g.add_nodes_from([0, 1])
    nxt = 2
    for _ in range(common):
        g.add_edges_from([(0, nxt), (1, nxt)])
        nxt += 1
    for hub in (0, 1):
        for _ in range(own):
            g.add_edge(hub, nxt)
            nxt += 1
    return g


def structured_edge_cases() -> list[tuple[nx.Graph, tuple[int, int]]]:
    cases: list[tuple[nx.Graph, tuple[int, int]]] = []
    sizes = (0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 20, 28)
    cases += [(double_star(a, b), (0, 1)) for a, b in itertools.combinations_with_replacement(sizes, 2) if a + b <= 56]
    cases += [(two_hubs(c, o), (0, 1)) for c in sizes for o in (0, 1, 2, 3, 10) if c + 2 * o <= 58]
    cases += [(nx.star_graph(k), (1, 2)) for k in (2, 3, 5, 10, 20, 58)]
    cases += [(nx.disjoint_union(nx.star_graph(k), nx.empty_graph(1)), (0, k + 1)) for k in (1, 3, 5, 10, 20, 57)]
    cases += [(nx.complete_bipartite_graph(a, b), (0, 1)) for a in (2, 3, 5) for b in (2, 3, 5, 10, 30)]
    for k in (3, 4, 6, 11, 12, 20):
        clique = nx.complete_graph(k)
        clique.remove_edge(0, 1)
        cases.append((clique, (0, 1)))
    rng = np.random.default_rng(5)
    for n in (8, 20, 40, 60):
        for p in (0.05, 0.15, 0.4):
            g = nx.gnp_random_graph(n, p, seed=int(rng.integers(1 << 30)))
            missing = [(u, v) for u, v in itertools.combinations(range(n), 2) if not g.has_edge(u, v)]
            cases += [(g, missing[int(rng.integers(len(missing)))]) for _ in range(4)]
    return cases


def star_of_stars(arms: int, leaves: int) -> nx.Graph:
    """A centre 0 with `arms` neighbours that have `leaves` leaves each."""
    g = nx.star_graph(arms)
    nxt = arms + 1
    for u in range(1, arms + 1):
        g.add_edges_from((u, nxt + i) for i in range(leaves))
        nxt += leaves
    return g


def structured_node_cases(cap: int) -> list[tuple[nx.Graph, int]]:
    cases: list[tuple[nx.Graph, int]] = [(nx.star_graph(cap), 0), (nx.star_graph(cap), 1)]
    cases += [(nx.complete_graph(k), 0) for k in (2, 3, min(cap + 1, 21))]
    cases += [(nx.complete_bipartite_graph(a, cap), 0) for a in (1, 2, min(3, cap)) if a <= cap]
    # every neighbour of the centre at every degree up to the cap, its other neighbours being leaves
    for degree in {1, 2, (cap + 1) // 2, cap}:
        g = nx.star_graph(cap)
        nxt = cap + 1
        for u in range(1, cap + 1):
            for _ in range(degree - 1):
                if nxt < 60:
                    g.add_edge(u, nxt)
                    nxt += 1
        cases.append((g, 0))
    for seed in range(6):
        g = nx.random_regular_graph(min(cap, 5), 24, seed=seed)
        cases.append((g, 0))
    return cases


@st.composite
def any_graphs(draw: st.DrawFn) -> Graph:
    """Any graph with up to 12 nodes."""
    n = draw(st.integers(1, 12))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40))
    return Graph.from_edges(np.zeros((n, 1)), np.array(pairs, dtype=np.int64).reshape(-1, 2).T)
