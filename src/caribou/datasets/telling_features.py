"""Two generated graphs in which a neighbour's features tell the class, and its class does not.

Grid game: cells of a board, joined with the cells around them. A fifth of them hide a mine, which is the class. The features of
a cell say how many mines lie around it, or that it is still covered. Reference: Platonov, Kuznedelev, Diskin, Babenko,
Prokhorenkova, "A critical look at the evaluation of GNNs under heterophily", ICLR 2023 (minesweeper).

Neighbour features: a node's class decides which groups its neighbours come from. Its features show its own group, which does not
depend on its class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from caribou._validate import integer
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.randomness import Streams

_AROUND = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]


@dataclass(frozen=True)
class GridGame:
    """A square board. ``side``: cells per side; ``mines``: their share; ``covered``: the share of cells that show nothing."""

    side: int = 60
    mines: float = 0.2
    covered: float = 0.5

    def __post_init__(self) -> None:
        integer(at_least=4, side=self.side)

    @property
    def nodes(self) -> int:
        """Cells."""
        return self.side**2

    @property
    def edges(self) -> int:
        """Undirected: rows, columns and both diagonals."""
        return 2 * (self.side - 1) * (2 * self.side - 1)

    @classmethod
    def of(cls, nodes: int) -> GridGame:
        """A board of so many cells.

        >>> GridGame.of(400).side
        20
        """
        side = math.isqrt(nodes)
        if side**2 != nodes:
            raise InputError(f"nodes of grid-game must be a square number, such as {side**2}, got {nodes}")
        return cls(side)

    features = 10
    classes = 2
    source = "mines on a board, a neighbour's features tell"


def grid_game(game: GridGame, seed: int, name: str = "grid-game") -> Graph:
    """Draw a board. Columns 0 .. 8: the number of mines around, one-hot; column 9: covered."""
    rng = Streams(seed).generator("grid-game")
    side, cells = game.side, np.arange(game.nodes).reshape(game.side, game.side)
    mine = (rng.random((side, side)) < game.mines).astype(np.int64)
    padded = np.pad(mine, 1)
    around = sum(padded[1 + i : side + 1 + i, 1 + j : side + 1 + j] for i, j in _AROUND)
    shown = np.where(rng.random((side, side)) < game.covered, 9, around).ravel()
    joined = [
        (cells[:, :-1], cells[:, 1:]),
        (cells[:-1], cells[1:]),
        (cells[:-1, :-1], cells[1:, 1:]),
        (cells[:-1, 1:], cells[1:, :-1]),
    ]
    edges = np.concatenate([np.stack([a.ravel(), b.ravel()]) for a, b in joined], axis=1)
    features = np.eye(game.features, dtype=np.float32)[shown]
    graph = Graph.from_edges(features, edges, labels=mine.ravel(), name=name, num_classes=game.classes)
    return graph.random_split(seed)


@dataclass(frozen=True)
class NeighbourFeatures:
    """Nodes of some classes and as many groups.

    preference: an edge is so many times as likely for every end whose class asks for the group of the other end.
    signal: distance between any two means of groups, in standard deviations of a feature inside its group.
    """

    nodes: int = 3000
    classes: int = 4
    average_degree: float = 12.0
    preference: float = 6.0
    signal: float = 6.0
    features: int = 16

    def __post_init__(self) -> None:
        integer(at_least=100, nodes=self.nodes)

    @classmethod
    def of(cls, nodes: int) -> NeighbourFeatures:
        """A graph of so many nodes."""
        return cls(nodes)

    @property
    def source(self) -> str:
        """How it is made."""
        return "groups that classes ask for, a neighbour's features tell"

    @property
    def edges(self) -> int:
        """Undirected."""
        return round(self.nodes * self.average_degree / 2)


def neighbour_features(model: NeighbourFeatures, seed: int, name: str = "neighbour-features") -> Graph:
    """Draw a graph. Class and group are independent; group g has its features around one of orthogonal means."""
    rng = Streams(seed).generator("neighbour-features")
    n, kinds = model.nodes, model.classes
    labels, group = rng.integers(kinds, size=n), rng.integers(kinds, size=n)
    chosen = np.zeros((0,), dtype=np.int64)
    while len(chosen) < model.edges:
        u, v = rng.integers(n, size=(2, 4 * kinds * model.edges))
        asked = (labels[u] == group[v]).astype(float) + (labels[v] == group[u])
        kept = (u < v) & (rng.random(len(u)) < model.preference ** (asked - 2))
        chosen = np.unique(np.concatenate([chosen, u[kept] * n + v[kept]]))
    chosen = rng.permutation(chosen)[: model.edges]
    means = model.signal / np.sqrt(2) * np.linalg.qr(rng.standard_normal((model.features, kinds)))[0].T
    features = (rng.standard_normal((n, model.features)) + means[group]).astype(np.float32)
    edges = np.stack([chosen // n, chosen % n])
    graph = Graph.from_edges(features, edges, labels=labels, name=name, num_classes=kinds)
    return graph.random_split(seed)
