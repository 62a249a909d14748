"""Collections of graphs with a class each, as one graph: what graph classification is measured on.

    chain-s, ...      each chain is a graph, and its class is that of its nodes
    hubs              separate block models; the class of a graph is that of its hubs
    partners          groups of nodes in one network; the class of a group is that of the nodes its members prefer as neighbours
    dense-partners    the same with the degrees of a school of Facebook100

In all but the chains the nodes of every graph are of all classes, equally often. Features tell the class of a node, so they say
nothing about the class of a graph: it is in the edges alone.

Reference: Karrer and Newman, "Stochastic blockmodels and community structure in networks", Phys. Rev. E 83, 2011 (block
models with hubs).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from caribou._validate import integer, non_negative, positive
from caribou.datasets.generated import GENERATED, Chains, generator, with_options
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.randomness import Streams

HUBS, PARTNERS, DENSE_PARTNERS = "hubs", "partners", "dense-partners"
_MEANS_SEED = 0
"""One seed for the class means of all collections: a model of one collection then means something for another."""


@dataclass(frozen=True, eq=False)
class GraphCollection:
    """Several graphs as one graph, or groups of nodes of one graph.

    Args:
        graph: all of them.
        groups: [n], the graph that each node belongs to, 0 .. g - 1.
        labels: [g], the class of each graph.

    >>> load_collection("chain-s", seed=1).labels.tolist()
    [0, 0, 0, 1, 1, 1]
    """

    graph: Graph
    groups: np.ndarray
    labels: np.ndarray

    def with_training_graphs(self, train: np.ndarray) -> GraphCollection:
        """The same collection, whose nodes train and choose only where their graph is one of ``train`` [k]; 7 to 1.

        So no label of a node in another graph reaches an encoder.
        """
        inside = np.flatnonzero(np.isin(self.groups, train))
        val = inside[::8]
        test = np.setdiff1d(np.arange(len(self.groups)), inside)
        return GraphCollection(
            self.graph.with_split(Split(np.setdiff1d(inside, val), val, test)), self.groups, self.labels
        )


@dataclass(frozen=True)
class BlockCollection:
    """Parameters of ``hubs``, ``partners`` and ``dense-partners``.

    graphs: how many. nodes: of each. classes: of nodes, equally many of each in every graph; also the classes of graphs.
    average_degree: of the nodes, before loops and repetitions are dropped. activity: how many times as often a node of the
    graph's class is chosen as an end of an edge as another node. features: number of columns. signal: distance between any two
    class means, in standard deviations of a feature.
    """

    graphs: int = 120
    nodes: int = 40
    classes: int = 4
    average_degree: float = 8.0
    activity: float = 4.0
    features: int = 32
    signal: float = 2.0

    def __post_init__(self) -> None:
        integer(at_least=2, classes=self.classes)
        integer(at_least=2 * self.classes, graphs=self.graphs)
        integer(at_least=2 * self.classes, nodes=self.nodes)
        integer(at_least=self.classes, features=self.features)
        positive(average_degree=self.average_degree)
        positive(activity=self.activity)
        non_negative(signal=self.signal)

    @property
    def edges(self) -> int:
        """Edges that are drawn for each graph."""
        return round(self.nodes * self.average_degree / 2)


DEFAULTS = {
    HUBS: BlockCollection(),
    PARTNERS: BlockCollection(),
    DENSE_PARTNERS: BlockCollection(graphs=60, nodes=100, average_degree=70.0),
}


def load_collection(name: str, *, seed: int = 0) -> GraphCollection:
    """A collection by name: chains (``chain-s:75``), or a generated one with options (``hubs:graphs=60,nodes=100``).

    Args:
        name: of the collection, with its options after a colon; see `BlockCollection`.
        seed: of what is generated; class means are the same for every seed.

    Returns:
        The collection.

    >>> load_collection("hubs:graphs=8,nodes=20").groups.shape
    (160,)
    """
    base, _, options = name.partition(":")
    chains = generator(name) if base in GENERATED else None
    if isinstance(chains, Chains):
        graph = chains.draw(seed, name)
        groups = np.arange(chains.nodes) // chains.length
        return GraphCollection(graph, groups, np.asarray(graph.labels)[:: chains.length])
    if base in DEFAULTS:
        return block_collection(with_options(DEFAULTS[base], options, {}, of=base), seed, name)
    names = [each for each, made in GENERATED.items() if isinstance(made, Chains)] + list(DEFAULTS)
    raise InputError(f"dataset must be one of {', '.join(names)} to be a collection of graphs, got {name!r}")


def block_collection(model: BlockCollection, seed: int, name: str) -> GraphCollection:
    """Draw a collection; ``name`` begins with one of `DEFAULTS`. Loops and repeated edges are dropped.

    hubs: both ends of an edge are drawn by activity, from one graph. partners: one end is a node of the graph, each in turn; the
    other is drawn by activity from all nodes.
    """
    rng = Streams(seed).generator("collection of graphs")
    C, g, s = model.classes, model.graphs, model.nodes
    kinds = np.concatenate([rng.permutation(np.arange(s) % C) for _ in range(g)])
    labels = rng.permutation(np.arange(g) % C)
    groups = np.repeat(np.arange(g), s)
    pairs = []
    for number, label in enumerate(labels):
        weight = np.where(kinds == label, model.activity, 1.0)
        if name.partition(":")[0] == HUBS:
            weight = np.where(groups == number, weight, 0.0)
            pairs.append(rng.choice(g * s, size=(2, model.edges), p=weight / weight.sum()))
        else:
            own = number * s + np.arange(model.edges) % s
            pairs.append(np.stack([own, rng.choice(g * s, size=model.edges, p=weight / weight.sum())]))
    means = Streams(_MEANS_SEED).generator("class means").standard_normal((model.features, C))
    directions = np.linalg.qr(means)[0].T  # orthonormal: sqrt(2) apart
    features = rng.standard_normal((g * s, model.features)) + model.signal / np.sqrt(2) * directions[kinds]
    graph = Graph.from_edges(
        features.astype(np.float32), np.concatenate(pairs, axis=1), labels=kinds, name=name, num_classes=C
    )
    return GraphCollection(graph.random_split(seed), groups, labels)
