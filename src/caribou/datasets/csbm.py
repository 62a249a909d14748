"""The contextual stochastic block model: a generated graph whose difficulty is known.

Reference: Deshpande, Sen, Montanari, Mossel, "Contextual stochastic block models", NeurIPS 2018, with more than two
classes and with fixed numbers of edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from caribou._validate import integer, non_negative, positive, unit_interval
from caribou.errors import InputError
from caribou.graph import MAX_NODES, Graph
from caribou.randomness import Streams


@dataclass(frozen=True)
class BlockModel:
    """Parameters of the model.

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

    def __post_init__(self) -> None:
        integer(at_least=2, classes=self.classes)
        integer(at_least=max(10, self.classes), nodes=self.nodes)
        if self.nodes > MAX_NODES:
            raise InputError(f"nodes must be at most {MAX_NODES}, got {self.nodes}")
        # Class means at equal distances are orthogonal: they need a dimension each.
        integer(at_least=self.classes, features=self.features)
        positive(average_degree=self.average_degree)
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


Model = TypeVar("Model")


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
        except ValueError as error:
            rule = "a whole number" if kinds[key] is int else "a number"
            raise InputError(f"{of} option {key} must be {rule}, got {value!r}") from error
    unknown = sorted(set(chosen) - set(kinds))
    if unknown:
        raise InputError(f"{of} options must be of {', '.join(kinds)}, got {unknown[0]!r}")
    made: Model = replace(default, **chosen)  # type: ignore[type-var]
    return made


def csbm_graph(model: BlockModel, seed: int, name: str = "csbm") -> Graph:
    """Draw a graph: balanced random classes, Gaussian features, edges uniform inside and across classes.

    The number of edges inside classes is binomial(edges, homophily); given the number, the edges are a uniform draw
    without replacement from the pairs of that kind. Memory is linear in nodes * features + edges.
    """
    rng = Streams(seed).generator("csbm")
    order = rng.permutation(model.nodes)  # order[start_c : start_c + size_c] are the nodes of class c
    labels = np.empty(model.nodes, np.int64)
    labels[order] = np.repeat(np.arange(model.classes), model.sizes)
    possible_inside, possible_across = model.possible
    drawn = int(rng.binomial(model.edges, model.homophily))
    inside = min(max(drawn, model.edges - possible_across), possible_inside)
    edges = np.concatenate(
        [
            order[_pairs_inside(rng.choice(possible_inside, inside, replace=False, shuffle=False), model.sizes)],
            order[_pairs_across(rng.choice(possible_across, model.edges - inside, replace=False), model.sizes)],
        ],
        axis=1,
    )
    # Orthonormal directions are sqrt(2) apart.
    directions = np.linalg.qr(rng.standard_normal((model.features, model.classes)))[0].T
    means = model.signal / np.sqrt(2) * directions
    features = rng.standard_normal((model.nodes, model.features), dtype=np.float32)
    features += means.astype(np.float32)[labels]
    graph = Graph.from_edges(features, edges, labels=labels, name=name, num_classes=model.classes)
    return graph.random_split(seed)


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
