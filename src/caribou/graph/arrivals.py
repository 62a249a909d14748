"""Arrivals: who has been asked, batch by batch, and a grown graph in that order. Names of nodes, never an edge.

A growing graph is released in batches. Who is there when is public; the edges are private. The list of all nodes that were ever
there, in the order of their arrival, is what keeps a pair from being asked twice (docs/privacy.md, Theorem 10). It is public at
edge level, where the node set is, and is saved with a model.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from caribou._validate import integer
from caribou.errors import InputError
from caribou.graph.fingerprint import row_digests
from caribou.graph.graph import Graph
from caribou.machine.owner import owner_key


@dataclass(frozen=True)
class Arrivals:
    """Who has been asked.

    Args:
        batches: how many nodes came with each batch, in order.
        ids: their names, in the order of arrival; None if the graph has no names, and its rows are that order.
        rows: digests of their features (`named_rows`), by which rows without names are known again; None: not known.

    >>> Arrivals((2, 1), ("ann", "bob", "cem")).nodes
    3
    """

    batches: tuple[int, ...]
    ids: tuple[str, ...] | None = None
    rows: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for size in self.batches:
            integer(at_least=1, batch=size)
        if self.ids is not None and (len(self.ids) != self.nodes or len(set(self.ids)) != self.nodes):
            raise InputError(
                f"ids must be {self.nodes} different names, one for each node of the batches, got {len(self.ids)}"
            )

    @property
    def nodes(self) -> int:
        """How many nodes were ever there."""
        return sum(self.batches)

    def found(self, graph: Graph) -> int:
        """How many of them are in the graph.

        >>> Arrivals((2,), ("bob", "dan")).found(Graph.from_edges(np.eye(2), [[0], [1]], node_ids=["ann", "bob"]))
        1
        """
        if self.ids is None or graph.node_ids is None:
            return min(self.nodes, graph.num_nodes)
        return len(set(self.ids) & {str(name) for name in graph.node_ids})

    def require_same_people(self, graph: Graph, *, left: bool = False, same_order: bool = False) -> None:
        """Refuse a graph whose ids or rows seem to have been written anew: everybody who was asked would be asked again.

        An arrival must not be a known node in another spelling, and half of the known nodes must be in the graph. ``left``
        declares that the others have left. Without names half of the rows that are like no other must have the features that
        they had, and none may be found in another place. ``same_order`` declares that no row was moved.
        """
        if self.ids is None and graph.node_ids is None and not same_order:
            self._require_same_rows(graph)
        if self.ids is None or graph.node_ids is None:
            return
        known = set(self.ids)
        spelled = {_folded(name): name for name in self.ids}
        for name in sorted({str(name) for name in graph.node_ids} - known):
            if _folded(name) in spelled:
                raise InputError(
                    f"ids must be spelled as in the model, {spelled[_folded(name)]!r}, got the arrival {name!r}, which differs "
                    "in leading zeros, case, blanks, quotes, dashes or Unicode form alone: its pairs may have been asked; write "
                    "the id as before, or charge this batch as a release of its own (spend=True, --spend)"
                )
        found = self.found(graph)
        if 2 * found < self.nodes and not left:
            raise InputError(
                f"graph must hold at least half of the {self.nodes} known nodes, got {found}: with new ids everybody would be "
                "asked again; give the ids of the model, or declare that these people have left (left=True, --left)"
            )

    def _require_same_rows(self, graph: Graph) -> None:
        before, now = self.rows or (), named_rows(graph)
        if len(now) < self.nodes:
            return  # `grown` says what is missing
        times = Counter(before)
        place = {row: k for k, row in enumerate(before) if times[row] == 1}
        stay = sum(now[k] == row for row, k in place.items())
        moved = [k for k, row in enumerate(now) if place.get(row, k) != k and now[place[row]] != row]
        if moved or stay == 0 or 2 * stay < len(place):
            found = f"{stay} of {len(place)} rows that are like no other with the features that they had"
            if moved:
                found = f"row {moved[0]} with the features that row {place[now[moved[0]]]} had"
            raise InputError(
                f"rows without ids must be where they were in the model, got {found}: a row that was moved is asked again; give "
                "ids to the graphs (node_ids), or declare that the first rows are the nodes of the model in its order "
                "(same_order=True, --same-order). A run that another owner saved, or that was saved without rows, knows no row"
            )

    def grown(self, graph: Graph) -> Grown:
        """The graph with the nodes of earlier batches first, in their order, and its arrivals after them, by name.

        A node of an earlier batch that is not in the graph any more keeps its place, without edges, features and label. Arrivals
        are put in the order of their names, so that the order of a file decides about nothing. Without names the first rows
        must be the nodes of earlier batches, all of them, and the others arrive in the order of the graph.

        >>> graph = Graph.from_edges(np.eye(3), [[0, 1], [1, 2]], node_ids=["cem", "bob", "ann"])
        >>> grown = Arrivals((2,), ("bob", "dan")).grown(graph)
        >>> grown.arrivals.ids, grown.present.tolist(), grown.graph.has_edge(0, 2)
        (('bob', 'dan', 'ann', 'cem'), [True, True, False, False], True)
        """
        place, ids = self._places(graph)
        total = self.nodes if not len(place) else max(self.nodes, int(place.max()) + 1)
        if total == self.nodes:
            raise InputError(
                f"graph must hold a node that has not been there before, got {graph.num_nodes} known ones: their pairs were "
                "asked, and an edge that appeared between them since is not read"
            )
        present = np.arange(total) < self.nodes
        after = Arrivals((*self.batches, total - self.nodes), ids)
        if total != graph.num_nodes or (place != np.arange(total)).any():
            graph = graph.placed(place, total)._changed(node_ids=None if ids is None else np.array(ids))
        return Grown(graph, present, after, place)

    def _places(self, graph: Graph) -> tuple[np.ndarray, tuple[str, ...] | None]:
        """The place of every node of the graph, and the names of all places."""
        if (self.ids is None) != (graph.node_ids is None):
            has, lacks = ("graph", "model") if self.ids is None else ("model", "graph")
            raise InputError(
                f"nodes must have names (ids) in the model and in the graph, or in neither, got names in the {has} and none "
                f"in the {lacks}"
            )
        if self.ids is None or graph.node_ids is None:
            if graph.num_nodes < self.nodes:
                raise InputError(
                    f"graph must begin with the {self.nodes} nodes of the model, because they have no names, got "
                    f"{graph.num_nodes} nodes"
                )
            return np.arange(graph.num_nodes), None
        known = {name: k for k, name in enumerate(self.ids)}
        names = [str(name) for name in graph.node_ids]
        for name in in_order(set(names) - set(known)):
            known[name] = len(known)
        return np.array([known[name] for name in names], dtype=np.int64), tuple(known)


def in_order(names: Iterable[str]) -> list[str]:
    """Names as the nodes of a table are ordered: numbers by size, text by its letters.

    >>> in_order({"10", "9"}), in_order({"b", "10", "9"})
    (['9', '10'], ['10', '9', 'b'])
    """
    found = sorted(names)
    numbers = all(name.isascii() and name.isdigit() for name in found)
    return sorted(found, key=int) if numbers else found


@dataclass(frozen=True, eq=False)
class Grown:
    """A graph in the order of arrival.

    Args:
        graph: all nodes that were ever there.
        present: [n], bool: who was there before this batch.
        arrivals: who has been asked once this batch has been.
        place: the place of every row of the graph as it was given.
    """

    graph: Graph
    present: np.ndarray
    arrivals: Arrivals
    place: np.ndarray

    @property
    def batch(self) -> int:
        """The number of this batch; the first is 1."""
        return len(self.arrivals.batches)


def named_rows(graph: Graph) -> tuple[str, ...]:
    """The digest of every node's features under the owner's key, as a word. For edge level, where features are public.

    >>> a, b, c = named_rows(Graph.from_edges([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [[0], [1]]))
    >>> a == c, a == b
    (True, False)
    """
    return tuple(map(str, row_digests(graph.features, owner_key()).tolist()))


def _folded(name: str) -> str:
    """A name without what a table program changes on its way, or the eye does not see.

    Leading zeros, case, blanks, quotes, the kind of dash, Unicode form, signs that are not shown, and a plus or .0 of a number.
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    if not plain.isascii():
        plain = "".join(map(_plain_sign, plain))
    plain = " ".join(plain.split()).strip("'\"` ")
    number = _NUMBER.fullmatch(plain)
    plain = number[1] if number else plain
    return plain.lstrip("0") or plain[:1]


_NUMBER = re.compile(r"\+?([0-9]+)(?:\.0*)?")


def _plain_sign(sign: str) -> str:
    """A dash, a quote or a digit of any script as that of ASCII; nothing for a sign that is not shown."""
    kind = unicodedata.category(sign)
    if kind == "Nd":
        return str(unicodedata.decimal(sign))
    return {"Cf": "", "Pd": "-", "Pi": "'", "Pf": "'"}.get(kind, "-" if sign == "\u2212" else sign)
