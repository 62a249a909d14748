"""A node table of any kind: ids, labels and split in memory, features whole or streamed into a mapped file.

Nodes are in the order of their ids, so that the order of rows decides about nothing: not about the split that a seed draws, not
about what a run predicts, and not about the fingerprint in a ledger. A table that is read into memory is the case of one piece:
one graph has one fingerprint and one result, wherever it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from caribou.errors import DataError
from caribou.graph.checks import MAX_NODES
from caribou.graph.classes import Classes
from caribou.graph.graph import Graph
from caribou.machine.memory import require_memory
from caribou.privacy.budget import PrivacyUnit
from caribou.tables.cells import Features, Lesson, features, joined
from caribou.tables.edges import ArrayFile, open_edges, with_row_numbers
from caribou.tables.ids import NodeIds
from caribou.tables.inspect import Findings, raise_problems
from caribou.tables.read import LABELS, Reading, Roles, Titles, build, divided, warn_of_notes
from caribou.tables.rules import ColumnRules
from caribou.tables.sources import FrameTable, HeldTable, Piece, Rows, Source, Table, copied, open_table

FEATURES = "features.npy"
_ROWS = 1 << 16
"""Rows of a node table that are read together where they stream past."""


def read_tables(
    edges: Source,
    nodes: Source,
    titles: Titles,
    name: str,
    classes: Classes | None = None,
    rules: ColumnRules | None = None,
    unit: PrivacyUnit | None = None,
) -> Reading:
    """Read a graph into memory from an edge table and a node table.

    Args:
        edges, nodes: the tables: files, folders, addresses, queries, frames.
        titles: of the columns that are not features.
        name: of the graph.
        classes: declared ones.
        rules: how the tables are read.
        unit: what will be protected; at node level what is not declared is a problem.

    Returns:
        All findings, and the graph if there is no problem.
    """
    rules, findings = rules or ColumnRules(), Findings()
    opened = open_table(nodes, rules)
    roles = Roles.of(opened.titles, titles, rules, opened.name, id_needed=True)
    table = HeldTable.of(opened, [title for title in opened.titles if title not in roles.ignored])
    if not table.count():
        raise DataError(f"{table.name}: must hold at least one node, got a table without rows")
    ids = NodeIds.read(table, str(roles.id), findings)
    where = _rows(table)
    pairs = _pairs(edges, titles, ids, rules, findings)
    node_ids = np.arange(ids.count) if findings.problems else ids.array()
    roles.check(rules, table.name, findings)
    return build(
        _whole(table, table.titles), roles, where, table.name, pairs, node_ids, name, classes, rules, unit, findings
    )


def _pairs(edges: Source, titles: Titles, ids: NodeIds, rules: ColumnRules, findings: Findings) -> np.ndarray:
    source = open_edges(edges, titles, rules, findings)
    found = []
    for chunk in with_row_numbers(source, ids, rules, findings).chunks(1 << 22, ids.count):
        found.append(np.stack(chunk))
        require_memory(8 * sum(part.nbytes for part in found), f"the edges of {ids.count} nodes")
    return np.concatenate(found, axis=1) if found else np.empty((2, 0), dtype=np.int64)


def _rows(table: Table) -> Rows:
    rows = Rows(table.name)
    for piece in table.pieces(_ROWS, table.titles[:1]):
        rows.note(piece)
    return rows


def _whole(table: Table, titles: Sequence[str]) -> Any:
    """Some columns as one batch."""
    import pyarrow as pa

    batches = [piece.batch for piece in _pieces(table, titles)]
    titles = batches[0].schema.names
    return pa.record_batch([joined([batch.column(title) for batch in batches]) for title in titles], titles)


def _pieces(table: Table, titles: Sequence[str], size: int = 1 << 20) -> Iterator[Piece]:
    """Some columns in pieces that have rows. A column at least, for rows without any could not be counted."""
    return (piece for piece in table.pieces(size, titles or table.titles[:1]) if len(piece.batch))


def graph_from_tables(
    edges: Any,
    nodes: Any,
    titles: Titles,
    name: str,
    seed: int,
    classes: Classes | None,
    rules: ColumnRules | None,
    unit: PrivacyUnit | str | None,
    source: str = "nodes",
) -> Graph:
    """See `Graph.from_tables`. ``source``: what messages call the nodes."""
    protected = None if unit is None else PrivacyUnit.parse(unit)
    frames = FrameTable("edges", edges), FrameTable(source, nodes)
    reading = read_tables(*frames, titles, name, classes, rules, protected)
    warn_of_notes(reading)
    return divided(reading.require(), seed, source)


# -- rows that stream past ------------------------------------------------------------------------------------------------


def open_nodes(source: Source, titles: Titles, rules: ColumnRules) -> NodeArray | NodeTable:
    """Features alone, of an array or of a table; only a CSV file must be read to be counted.

    Labels are not read, so ``y`` is a feature, unless ``titles`` say that it is the label. What is titled ``label``, ``class`` or
    ``split`` is left out.
    """
    array = ArrayFile.at(source)
    found = NodeTable.open(source, titles, rules, LABELS[:2]) if array is None else NodeArray.of(array, titles)
    if not 1 <= found.nodes <= MAX_NODES or found.columns < 1:
        raise DataError(
            f"{found.name}: features must have 1 to {MAX_NODES} rows and a column, got {found.nodes} x {found.columns}"
        )
    return found


@dataclass(frozen=True, eq=False)
class NodeArray:
    """A matrix of features in a plain array; its rows are the nodes."""

    array: ArrayFile
    nodes: int
    columns: int

    @classmethod
    def of(cls, array: ArrayFile, titles: Titles) -> NodeArray:
        """Look at the shape."""
        if len(array.shape) != 2 or array.dtype.kind not in "fiub":
            raise DataError(
                f"{array.name}: features must be numbers of shape [n, d], got {array.dtype} {list(array.shape)}"
            )
        if titles.id is not None:
            raise DataError(f"{array.name}: must be a table to have an id column, got a plain array (--column id)")
        return cls(array, *array.shape)

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.array.name

    def fixed(self, folder: Path) -> NodeArray:
        """Itself: its rows are in one order for good."""
        return self

    def ids(self, folder: Path, room: int | None) -> None:
        """There are none."""

    def chunks(self, size: int) -> Iterator[np.ndarray]:
        """``size`` rows at a time (the last: fewer), float64 and finite."""
        for first in range(0, self.nodes, size):
            count = min(self.nodes, first + size) - first
            rows = self.array.read(first * self.columns, count * self.columns)
            found = rows.astype(np.float64).reshape(-1, self.columns)
            if not np.isfinite(found).all():
                row = first + int(np.argwhere(~np.isfinite(found))[0][0])
                raise DataError(f"{self.name}: features must be finite, got NaN or infinity in row {row} (from 0)")
            yield found


@dataclass(frozen=True, eq=False)
class NodeTable:
    """A table with one row per node, which may be larger than memory.

    Args:
        table: where rows come from.
        nodes: how many there are.
        roles: of its columns.
        rules: how features are read.
    """

    table: Table
    nodes: int
    roles: Roles
    rules: ColumnRules

    @classmethod
    def open(cls, source: Source, titles: Titles, rules: ColumnRules, labels: Sequence[str] = LABELS) -> NodeTable:
        """Find the columns and count the rows. ``labels``: the usual titles of the label."""
        if not isinstance(source, Table) and Path(source).suffix.lower() == ".npy":
            raise DataError(
                f"{source}: nodes must be a table, or a folder with {FEATURES} and labels.npy, got an array (--nodes)"
            )
        table, findings = open_table(source, rules), Findings()
        roles = Roles.of(table.titles, titles, rules, table.name, labels=labels)
        roles.check(rules, table.name, findings)
        if findings.problems:
            raise_problems(findings.problems)
        count = table.count()
        if not 1 <= count <= MAX_NODES:
            raise DataError(f"{table.name}: must hold 1 to {MAX_NODES} nodes, got {count}")
        return cls(table, count, roles, rules)

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.table.name

    @property
    def columns(self) -> int:
        """Features, where rules make one column of each."""
        return len(self.roles.features)

    def fixed(self, folder: Path) -> NodeTable:
        """The rows in one order for good: as they are, or copied to the private folder."""
        kept = [title for title in self.table.titles if title not in self.roles.ignored]
        table = copied(self.table, kept, folder / "nodes.parquet")
        if (count := table.count()) != self.nodes:
            raise DataError(f"{self.name}: must give the same rows twice, got {self.nodes} and then {count}")
        return replace(self, table=table)

    def ids(self, folder: Path, room: int | None) -> NodeIds | None:
        """The ids as text, in a file of the private folder; None if no column holds them."""
        if self.roles.id is None:
            return None
        findings = Findings()
        found = NodeIds.read(self.table, self.roles.id, findings, folder, room)
        if findings.problems:
            raise_problems(findings.problems)
        return found

    def chunks(self, size: int) -> Iterator[np.ndarray]:
        """About ``size`` rows of features at a time, float64 and finite."""
        for made in self._made(self.rules, size, np.float64):
            yield made.values

    def graph(
        self, ids: NodeIds | None, name: str, classes: Classes | None, folder: Path
    ) -> tuple[Graph, np.ndarray | None]:
        """The graph without its edges, and the place of every row in it; None: rows are where they were."""
        node_ids = np.arange(self.nodes) if ids is None else ids.array()
        place = _places(node_ids)
        known = [title for title in (self.roles.label, self.roles.split) if title is not None]
        bare = build(
            _whole(self.table, known),
            replace(self.roles, features=(), ignored=()),
            _rows(self.table),
            self.name,
            np.empty((2, 0), dtype=np.int64),
            node_ids,
            name,
            classes,
            ColumnRules(unknown=self.rules.unknown, aliases=self.rules.aliases),
            PrivacyUnit.EDGE,  # methods on engines protect edges
        ).require()
        made = self._stored(folder / FEATURES, place)
        graph = replace(
            bare,
            features=made.values,
            feature_names=made.names,
            column_rules=replace(made.rules, ignored=tuple(dict.fromkeys((*self.rules.ignored, *self.roles.ignored)))),
            node_ids=None if ids is None else bare.node_ids,  # row numbers that nobody wrote down may change
        )
        return graph, place

    def _stored(self, path: Path, place: np.ndarray | None) -> Features:
        """The features as an array of single precision on disk, written while the table is read. The same as in memory."""
        made, out, first = None, np.empty((self.nodes, 0), np.float32), 0
        for made in self._made(self._learned(), _ROWS, np.float32):
            if not first and made.names:
                shape = (self.nodes, len(made.names))
                out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
            rows = slice(first, first + len(made.values))
            out[rows if place is None else place[rows]] = made.values
            first = rows.stop
        if made is None or first != self.nodes:
            raise DataError(f"{self.name}: must give the same rows twice, got {self.nodes} and then {first}")
        if isinstance(out, np.memmap):
            out.flush()
            out = np.load(path, mmap_mode="r")
        return replace(made, values=out)

    def _made(self, rules: ColumnRules, size: int, precision: type[np.floating[Any]]) -> Iterator[Features]:
        """The features of some rows at a time, up to the first that have a problem. The others are read for theirs."""
        findings = Findings()
        for piece in _pieces(self.table, self.roles.features, size):
            made = features(piece.batch, self.roles.features, piece.row, findings, rules, precision)
            if not findings.problems:
                yield made
        if findings.problems:
            raise_problems(findings.of_pieces())

    def _learned(self) -> ColumnRules:
        """The rules with what must be learned from the whole table before the first row is read by them."""
        lesson = Lesson(self.roles.features, self.rules)
        if lesson.titles:
            for piece in _pieces(self.table, lesson.titles, _ROWS):
                lesson.read(piece.batch)
        return lesson.rules()


def _places(ids: np.ndarray) -> np.ndarray | None:
    """The place of every row in the order of ids; None if rows are in that order."""
    if (ids[1:] >= ids[:-1]).all():
        return None
    order = np.argsort(ids, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place
