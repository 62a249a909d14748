"""Generated data sets: chains, block models, and graphs in which a neighbour's features tell the class."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from caribou._validate import integer, non_negative, positive, unit_interval
from caribou.errors import InputError
from caribou.graph import MAX_NODES, Graph
from caribou.machine.memory import require_memory
from caribou.randomness import Streams

#: Training and validation are one sixth each: 8/8/32 of the 48 nodes of chain-s.
_FRACTIONS = (1 / 6, 1 / 6, 4 / 6)

_PER_EDGE = 100
"""Bytes that an edge takes while it is drawn and put in its place."""

Model = TypeVar("Model")


@dataclass(frozen=True)
class Chains:
    """Disjoint chains of two classes: ``chains`` per class, ``length`` nodes each.

    The label of a whole chain is known at its first node only, so it takes as many hops as the chain is long.
    """

    chains: int
    length: int
    features: int = 5
    classes: int = 2

    source: ClassVar[str] = "chains, two classes"
    number: ClassVar[str] = "chains"

    def __post_init__(self) -> None:
        integer(at_least=1, chains=self.chains)
        integer(at_least=1, length=self.length)
        integer(at_least=2, classes=self.classes)
        integer(at_least=self.classes, features=self.features)

    @property
    def nodes(self) -> int:
        """Of all chains."""
        return self.classes * self.chains * self.length

    @property
    def edges(self) -> int:
        """Undirected."""
        return self.classes * self.chains * (self.length - 1)

    def draw(self, seed: int, name: str) -> Graph:
        """The first node of each chain carries the one-hot class in the first columns, all else is zero.

        Every node has the class of its chain as its label; all nodes are divided at random by ``seed`` into 1/6 training,
        1/6 validation and 4/6 test nodes.
        """
        chains = self.classes * self.chains
        heads = np.arange(chains) * self.length
        label_of_chain = np.repeat(np.arange(self.classes), self.chains)
        features = np.zeros((self.nodes, self.features), np.float32)
        features[heads, label_of_chain] = 1
        # Every node but the last of its chain is joined to the next one.
        first = np.delete(np.arange(self.nodes), heads + self.length - 1)
        graph = Graph.from_edges(
            features,
            np.stack([first, first + 1]),
            labels=np.repeat(label_of_chain, self.length),
            name=name,
            num_classes=self.classes,
        )
        return graph.random_split(seed, _FRACTIONS)


@dataclass(frozen=True)
class BlockModel:
    """The contextual stochastic block model: a graph whose difficulty is known.

    Deshpande, Sen, Montanari, Mossel, "Contextual stochastic block models", NeurIPS 2018, with more than two classes and with
    fixed numbers of edges.

    average_degree: exact up to rounding of the number of edges, nodes * average_degree / 2.
    homophily: expected share of edges inside a class.
    signal: distance between any two class means, in units of the standard deviation of a feature inside its class.
    """

    nodes: int = 2000
    classes: int = 4
    features: int = 32
    average_degree: float = 10.0
    homophily: float = 0.8
    signal: float = 1.0

    source: ClassVar[str] = "contextual stochastic block model, sizes by options"
    number: ClassVar[str] = "nodes"

    def __post_init__(self) -> None:
        integer(at_least=2, classes=self.classes)
        integer(at_least=max(10, self.classes), at_most=MAX_NODES, nodes=self.nodes)
        # Class means at equal distances are orthogonal: they need a dimension each.
        integer(at_least=self.classes, features=self.features)
        _require_degree(self.average_degree, self.nodes - 1)
        unit_interval(homophily=self.homophily)
        non_negative(signal=self.signal)
        inside, across = self.possible
        for what, share, pairs in (("inside", self.homophily, inside), ("across", 1 - self.homophily, across)):
            if share * self.edges > pairs:
                raise InputError(
                    f"average_degree must leave room for {share * self.edges:.0f} edges {what} classes "
                    f"(of {pairs} pairs), got {self.average_degree!r}"
                )

    @property
    def edges(self) -> int:
        """Number of undirected edges."""
        return round(self.nodes * self.average_degree / 2)

    @property
    def sizes(self) -> np.ndarray:
        """Nodes per class: as equal as possible."""
        return np.array([(self.nodes + self.classes - 1 - c) // self.classes for c in range(self.classes)], np.int64)

    @property
    def possible(self) -> tuple[int, int]:
        """Number of node pairs inside classes and across classes."""
        inside = sum(int(s) * (int(s) - 1) // 2 for s in self.sizes)
        return inside, self.nodes * (self.nodes - 1) // 2 - inside

    def draw(self, seed: int, name: str = "csbm") -> Graph:
        """Draw a graph: balanced random classes, Gaussian features, edges uniform inside and across classes.

        The number of edges inside classes is binomial(edges, homophily); given the number, the edges are a uniform draw
        without replacement from the pairs of that kind. Memory is linear in nodes * features + edges.
        """
        rng = Streams(seed).generator("csbm")
        order = rng.permutation(self.nodes)  # order[start_c : start_c + size_c] are the nodes of class c
        labels = np.empty(self.nodes, np.int64)
        labels[order] = np.repeat(np.arange(self.classes), self.sizes)
        possible_inside, possible_across = self.possible
        drawn = int(rng.binomial(self.edges, self.homophily))
        inside = min(max(drawn, self.edges - possible_across), possible_inside)
        edges = np.concatenate(
            [
                order[_pairs_inside(rng.choice(possible_inside, inside, replace=False, shuffle=False), self.sizes)],
                order[_pairs_across(rng.choice(possible_across, self.edges - inside, replace=False), self.sizes)],
            ],
            axis=1,
        )
        # Orthonormal directions are sqrt(2) apart.
        directions = np.linalg.qr(rng.standard_normal((self.features, self.classes)))[0].T
        means = self.signal / np.sqrt(2) * directions
        features = rng.standard_normal((self.nodes, self.features), dtype=np.float32)
        features += means.astype(np.float32)[labels]
        graph = Graph.from_edges(features, edges, labels=labels, name=name, num_classes=self.classes)
        return graph.random_split(seed)


def _require_degree(average_degree: float, most: float) -> None:
    if positive(average_degree=average_degree) > most:
        raise InputError.of("average_degree", f"be at most {most:g}, for there are no more nodes", average_degree)


def _pairs_inside(flat: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Pair number k of all pairs inside classes, classes one after the other, as two positions."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    ends = np.cumsum(sizes * (sizes - 1) // 2)
    block = np.searchsorted(ends, flat, side="right")
    k = flat - np.concatenate([[0], ends])[block]
    # Row u of the triangle below the diagonal starts at u (u - 1) / 2; the square root may be off by one.
    u = ((1 + np.sqrt(1 + 8 * k.astype(np.float64))) / 2).astype(np.int64)
    u -= u * (u - 1) // 2 > k
    u += u * (u + 1) // 2 <= k
    return np.stack([u, k - u * (u - 1) // 2]) + starts[block]


def _pairs_across(flat: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Pair number k of all pairs across classes as two positions: class of the first end, first end, second end."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    later = starts[-1] - starts[1:]  # nodes in the classes after c
    ends = np.cumsum(sizes * later)
    block = np.searchsorted(ends, flat, side="right")
    k = flat - np.concatenate([[0], ends])[block]
    width = later[block]
    return np.stack([starts[block] + k // width, starts[block + 1] + k % width])


@dataclass(frozen=True)
class NeighbourFeatures:
    """Nodes of some classes and as many groups: a neighbour's features tell the class, and its class does not.

    A node's class decides which groups its neighbours come from. Its features show its own group, which does not depend on its
    class.

    preference: an edge is so many times as likely for every end whose class asks for the group of the other end.
    signal: distance between any two means of groups, in standard deviations of a feature inside its group.
    """

    nodes: int = 3000
    classes: int = 4
    average_degree: float = 12.0
    preference: float = 6.0
    signal: float = 6.0
    features: int = 16

    source: ClassVar[str] = "groups that classes ask for, a neighbour's features tell"
    number: ClassVar[str] = "nodes"

    def __post_init__(self) -> None:
        integer(at_least=100, at_most=MAX_NODES, nodes=self.nodes)
        integer(at_least=2, classes=self.classes)
        integer(at_least=self.classes, features=self.features)
        _require_degree(self.average_degree, self.nodes / 8)  # else drawing would not end
        if not 1 <= positive(preference=self.preference) <= 20:
            raise InputError.of("preference", "be in [1, 20]", self.preference)
        non_negative(signal=self.signal)

    @property
    def edges(self) -> int:
        """Undirected."""
        return round(self.nodes * self.average_degree / 2)

    def draw(self, seed: int, name: str) -> Graph:
        """Draw a graph. Class and group are independent; group g has its features around one of orthogonal means."""
        rng = Streams(seed).generator("neighbour-features")
        n, kinds = self.nodes, self.classes
        labels, group = rng.integers(kinds, size=n), rng.integers(kinds, size=n)
        chosen = np.zeros((0,), dtype=np.int64)
        while len(chosen) < self.edges:
            u, v = rng.integers(n, size=(2, 4 * kinds * self.edges))
            asked = (labels[u] == group[v]).astype(float) + (labels[v] == group[u])
            kept = (u < v) & (rng.random(len(u)) < self.preference ** (asked - 2))
            chosen = np.unique(np.concatenate([chosen, u[kept] * n + v[kept]]))
        chosen = rng.permutation(chosen)[: self.edges]
        means = self.signal / np.sqrt(2) * np.linalg.qr(rng.standard_normal((self.features, kinds)))[0].T
        features = (rng.standard_normal((n, self.features)) + means[group]).astype(np.float32)
        edges = np.stack([chosen // n, chosen % n])
        graph = Graph.from_edges(features, edges, labels=labels, name=name, num_classes=kinds)
        return graph.random_split(seed)


# -- by name -------------------------------------------------------------------------------------------------------

Generator = Chains | BlockModel | NeighbourFeatures
GENERATED: Mapping[str, Generator] = {
    "chain-s": Chains(3, 8),
    "chain-m": Chains(3, 10),
    "chain-l": Chains(3, 15),
    "chain-x": Chains(5, 15),
    "csbm": BlockModel(),
    "neighbour-features": NeighbourFeatures(),
}


def generator(name: str, given: Mapping[str, Any] | None = None) -> Generator:
    """The record behind a name like ``csbm:nodes=500``, ``chain-s:75`` (75 chains per class) or ``neighbour-features:500``.

    One that would not fit into memory is refused, and nothing is drawn.

    >>> generator("chain-s:75").nodes, generator("chain-s:length=5").nodes
    (1200, 30)
    """
    base, colon, options = name.partition(":")
    default = GENERATED[base]
    if colon and not options:
        raise InputError(f"{base} options must follow the colon, got {name!r}")
    alone = re.fullmatch(r"[0-9]+", options, re.ASCII)
    made = with_options(default, f"{default.number}={options}" if alone else options, given or {}, of=base)
    require_memory(8 * made.nodes * (made.features + 8) + _PER_EDGE * made.edges, f"{name} of {made.nodes} nodes")
    return made


def with_options(default: Model, text: str, given: Mapping[str, Any], of: str) -> Model:
    """The record ``default`` of a generator ``of`` some name with the options ``given``, and those of a text.

    >>> with_options(BlockModel(), "nodes=500,homophily=0.9", {"features": 8}, of="csbm")
    BlockModel(nodes=500, classes=4, features=8, average_degree=10.0, homophily=0.9, signal=1.0)
    """
    kinds: dict[str, type] = {entry.name: type(getattr(default, entry.name)) for entry in fields(default)}  # type: ignore[arg-type]
    chosen = dict(given)
    for item in text.split(",") if text else []:
        key, equals, value = item.partition("=")
        key = key.strip()
        if not equals or key not in kinds:
            raise InputError(f"{of} options must be <name>=<value> with a name of {', '.join(kinds)}, got {item!r}")
        if key in chosen:
            raise InputError(f"{of} option {key} must be given once, got it again as {item!r}")
        try:
            chosen[key] = kinds[key](value.strip())
        except (ValueError, OverflowError) as error:
            rule = "a whole number" if kinds[key] is int else "a number"
            raise InputError(f"{of} option {key} must be {rule}, got {value!r}") from error
    unknown = sorted(set(chosen) - set(kinds))
    if unknown:
        raise InputError(f"{of} options must be of {', '.join(kinds)}, got {unknown[0]!r}")
    made: Model = replace(default, **chosen)  # type: ignore[type-var]
    return made
