"""Worst-case neighbours: pairs of small graphs on which a mechanism must hide as much as it ever has to.

At edge level the pairs are the graph that the sensitivity attack finds, two nodes with leaves of their own sign, joined or not
(docs/privacy.md, Theorem 2: such stars attain the bound, or nearly so), and one edge of every kind that a method could treat
differently: between any two parts of the split, or closing a triangle. At node level a pair differs in one node that alone has
its class and its direction of features: a training, a validation or a test node with few neighbours, a hub, or a node whose
leaving frees a place in neighbourhoods that were cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from caribou.audit.transcripts import Scores, Transcript
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.mechanism_records import Group

NODES = 12


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring graphs: ``without`` and ``joined`` (with the edge or the node).

    ``name``: of the pair. ``unit``: in which the two differ. ``scores``: what the adversary, who knows both graphs, computes from
    a transcript. ``hidden``: the node that is there or not, at node level. ``group``:
    the group of nodes it belongs to, where groups pay differently.

    >>> pair = worst_pairs("edge")[0]
    >>> pair.name, pair.joined.num_edges - pair.without.num_edges
    ('two labelled nodes', 1)
    """

    name: str
    without: Graph
    joined: Graph
    unit: PrivacyUnit
    scores: Scores | None = None
    hidden: int | None = None
    group: Group | None = None

    @property
    def degree(self) -> int | None:
        """Of the node that is there or not; None at edge level."""
        return None if self.hidden is None else int(self.joined.degrees[self.hidden])

    @property
    def worlds(self) -> tuple[Graph, Graph]:
        """Both graphs, the one without first."""
        return self.without, self.joined


def worst_pairs(unit: PrivacyUnit | str) -> tuple[Pair, ...]:
    """The pairs on which a method of this ``unit`` is audited by default; all have 12 nodes.

    At edge level: an edge of each of the six kinds that a split makes, because a method may treat the parts differently; the
    stars of the sensitivity attack; and an edge that closes triangles. At node level: a node of each part of the split, hubs, and
    a node of a complete graph.

    Returns:
        The pairs, each with a name.

    >>> [pair.name for pair in worst_pairs("edge")][-3:]
    ['two test nodes', 'two stars', 'two nodes with common neighbours']
    """
    protected = PrivacyUnit.parse(unit)
    if protected is PrivacyUnit.EDGE:
        return (
            edge_pair("two labelled nodes", 0, 1),
            edge_pair("a labelled node and a test node", 0, 11),
            edge_pair("a labelled node and a validation node", 0, 7),
            edge_pair("two validation nodes", 6, 7),
            edge_pair("a validation node and a test node", 6, 11),
            edge_pair("two test nodes", 10, 11),
            edge_pair("two stars", 0, 1, leaves=2),
            edge_pair("two nodes with common neighbours", 0, 1, common=2),
        )
    if protected is PrivacyUnit.NODE:
        everybody = tuple(range(NODES))
        return (
            member_pair(),
            member_pair("a validation node with everything of its own", 5, (0, 11)),
            member_pair("a test node with everything of its own", 11, (0, 4)),
            member_pair("a training node with every other node as a neighbour", 0, everybody),
            member_pair("a test node with every other node as a neighbour", 11, everybody),
            member_pair("a test node where every two nodes are joined", 11, everybody, complete=True),
        )
    raise InputError(f"unit must be edge or node, got {unit!r}")


# -- edge level ----------------------------------------------------------------------------------------------------


def edge_pair(name: str, u: int, v: int, leaves: int = 0, common: int = 0) -> Pair:
    """Nodes u and v, joined or not, each with ``leaves`` neighbours of its own class, both with ``common`` ones of any class."""
    free = [w for w in range(NODES) if w not in (u, v)]
    own = [(end, w) for end in (u, v) for w in [w for w in free if w % 2 == end % 2][:leaves]]
    shared = [(end, w) for end in (u, v) for w in free[:common]]
    without = two_class_graph(own + shared)
    return Pair(name, without, without.with_edge(u, v), PrivacyUnit.EDGE, end_scores(u, v, without))


def two_class_graph(edges: list[tuple[int, int]]) -> Graph:
    """12 nodes of two classes with opposite features: 6 for training, 2 for validation, 4 for testing."""
    labels = np.arange(NODES) % 2
    side = np.where(labels == 0, 1.0, -1.0)
    tilt = 0.3 * np.cos(np.arange(NODES))
    pairs = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    split = Split(np.arange(6), np.arange(6, 8), np.arange(8, NODES))
    return Graph.from_edges(np.stack([side, tilt], axis=1), pairs, labels=labels, split=split, name="pair")


def end_scores(u: int, v: int, graph: Graph) -> Scores:
    """Of every released row table: how much the rows of u and v lean to the other end's class, and how alike they are."""
    labels, n = graph.labels, graph.num_nodes

    def scores(transcript: Transcript) -> dict[str, float]:
        out: dict[str, float] = {}
        for name, array in transcript.items():
            values = np.asarray(array)
            if values.ndim != 2:
                continue
            if values.dtype.kind in "iu" and values.shape[0] == 2:  # a list of pairs
                listed = ((values == u).any(axis=0) & (values == v).any(axis=0)).any()
                out[f"{name} lists the pair"] = float(listed)
            elif len(values) == n and np.isfinite(values[[u, v]]).all():
                out[f"{name}, likeness of the ends"] = float(values[u] @ values[v])
                if labels is not None and values.shape[1] > max(labels[u], labels[v]):
                    out[f"{name}, other end"] = float(values[u, labels[v]] + values[v, labels[u]])
                    out[f"{name}, one end"] = float(values[v, labels[u]])
        return out

    return scores


# -- node level ----------------------------------------------------------------------------------------------------


def member_pair(
    name: str = "a training node with everything of its own",
    member: int = 0,
    neighbours: tuple[int, ...] = (10, 11),
    complete: bool = False,
) -> Pair:
    """A node that alone has class 2 and its direction of features, joined to ``neighbours``; or zeroed out.

    ``complete``: all other nodes are joined to each other, too, so that every neighbourhood is longer than a cap.
    """
    x = np.array([[1.0, 0.05]] * NODES)
    x[member] = [0.0, 1.0]
    labels = 1 - np.arange(NODES) % 2
    labels[member] = 2
    edges = [(member, node) for node in neighbours if node != member]
    edges += [(u, v) for v in range(NODES) for u in range(v)] if complete else [(1, 2)]
    split = Split(np.arange(5), np.arange(5, 8), np.arange(8, NODES))
    graph = Graph.from_edges(x, np.array(edges).T, labels=labels, split=split, num_classes=3, name="pair")
    groups = {Group.TRAINING: split.train, Group.VALIDATION: split.val}
    group = next((each for each, part in groups.items() if member in part), Group.OTHERS)
    return Pair(name, graph.without_node(member), graph, PrivacyUnit.NODE, hidden=member, group=group)


# -- the sensitivity attack ----------------------------------------------------------------------------------------


def worst_rows(difference: np.ndarray, rng: np.random.Generator, starts: int = 24, steps: int = 60) -> np.ndarray:
    """Rows in the unit ball that (nearly) maximise ||D X||_F, D = W - W' or some of its rows. [m, n] -> [n, min(n, 4)]

    The ascent X_i <- (D'D X)_i / ||(D'D X)_i|| of a convex function, from many starts: rank one with random signs, and random
    directions.
    """
    n = difference.shape[1]
    gram = difference.T @ difference
    x = rng.uniform(-1, 1, (starts, n, min(n, 4)))
    x[: starts // 2, :, 1:] = 0
    x[0, :, 0] = np.linalg.eigh(gram)[1][:, -1]
    x[1, :, 0] = 1.0
    x /= np.maximum(np.linalg.norm(x, axis=2, keepdims=True), 1e-12)
    for _ in range(steps):
        x = gram @ x
        x /= np.maximum(np.linalg.norm(x, axis=2, keepdims=True), 1e-12)
    reached = np.linalg.norm((difference @ x).reshape(starts, -1), axis=1)
    return np.asarray(x[int(reached.argmax())])


def star_graphs(leaves: int) -> tuple[Graph, Graph]:
    """Hubs 0 and 1 with ``leaves`` leaves each, apart and joined: at floor F = leaves the worst pair of the edge sensitivity."""
    edges = [(0, 2 + i) for i in range(leaves)] + [(1, 2 + leaves + i) for i in range(leaves)]
    pairs = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    without = Graph.from_edges(np.zeros((2 + 2 * leaves, 1)), pairs, name="stars")
    return without, without.with_edge(0, 1)
