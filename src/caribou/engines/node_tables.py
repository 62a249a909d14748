"""A node table of any kind for training: ids, labels and split in memory, features streamed into a mapped file.

Nodes are in the order of their ids, as they are when tables are read into memory: one graph has one fingerprint, one split per
seed and one result, wherever it is read. Features follow the rules of tables (`caribou.tables.rules`), some rows at a time:
what rules leave open is learned in a pass of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from caribou.datasets.arrays import FEATURES
from caribou.engines.ids import NodeIds
from caribou.engines.sources import FeatureTable, fixed_table
from caribou.errors import DataError
from caribou.graph import MAX_NODES, Graph
from caribou.graph.classes import Classes
from caribou.tables import cells as columns
from caribou.tables.inspect import Findings, raise_problems
from caribou.tables.numerals import PLAIN
from caribou.tables.read import IDS, LABELS, SPLITS, Titles, build, check_roles, check_rules, check_titles, chosen
from caribou.tables.rules import ColumnRules
from caribou.tables.sources import Piece, Rows, Source, Table, open_table

_ROWS = 1 << 16
"""Rows of a node table that are read together."""
_PLAIN_NUMBER = r"^-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
"""What a number looks like that Arrow and Python spell in the same way."""


@dataclass(frozen=True, eq=False)
class NodeTable:
    """A table with one row per node.

    Args:
        table: where rows come from, in one order for good.
        count: of rows.
        id, label, split: titles of the columns that are not features.
        features: titles of all others, but for ignored ones.
        ignored: titles of the ignored columns that are there.
        rules: how features are read.
        titles: as they were asked for.
    """

    table: Table
    count: int
    id: str | None
    label: str | None
    split: str | None
    features: tuple[str, ...]
    ignored: tuple[str, ...]
    rules: ColumnRules
    titles: Titles

    @classmethod
    def open(cls, source: Source, titles: Titles, rules: ColumnRules, folder: Path) -> NodeTable:
        """Find the columns and count the rows. What may come in another order next time is copied to the private folder."""
        if not isinstance(source, str | Path) or Path(source).suffix.lower() != ".npy":
            table = open_table(source, rules.separator)
        else:
            raise DataError(
                f"{source}: nodes must be a table, or a folder with {FEATURES} and labels.npy, got an array (--nodes)"
            )
        check_titles(table.name, table.titles)
        # pandas stores an unnamed index as a column of this name; it says nothing about the node
        there = [title for title in table.titles if not title.startswith("__index_level_")]
        kept = [title for title in there if title not in rules.ignore]
        id_title = chosen(kept, titles.id, IDS, table.name, "id")
        rest = [title for title in kept if title != id_title]
        label = chosen(rest, titles.label, LABELS, table.name, "label")
        split = chosen(rest, titles.split, SPLITS, table.name, "split")
        findings = Findings()
        check_rules(rules, [title for title in there if title != id_title], id_title, table.name, findings)
        check_roles(rules, {"label": label, "split": split}, table.name, findings)
        if findings.problems:
            raise_problems(findings.problems)
        count = table.count()
        if not 1 <= count <= MAX_NODES:
            raise DataError(f"{table.name}: must hold 1 to {MAX_NODES} nodes, got {count}")
        return cls(
            fixed_table(table, kept, count, folder),
            count,
            id_title,
            label,
            split,
            tuple(title for title in rest if title not in (label, split)),
            tuple(title for title in there if title in rules.ignore),
            rules,
            titles,
        )

    def ids(self, folder: Path) -> NodeIds | None:
        """The ids as text, in a file of the private folder; None if no column holds them."""
        return NodeIds.stored(self.rows, folder)

    @property
    def rows(self) -> FeatureTable:
        """The table as edges need it, to map ids to row numbers."""
        return FeatureTable(self.table, self.count, len(self.features), self.features, self.id)

    def graph(
        self, ids: NodeIds | None, name: str, classes: Classes | None, folder: Path
    ) -> tuple[Graph, np.ndarray | None]:
        """The graph without its edges, and the place of every row in it; None: rows are where they were."""
        node_ids = np.arange(self.count) if ids is None else ids.array()
        place = _places(node_ids)
        frame, at = self._roles()
        words = ColumnRules(unknown=self.rules.unknown, aliases=self.rules.aliases)
        none = np.empty((2, 0), dtype=np.int64)
        bare = build(
            frame,
            self.titles,
            at,
            self.table.name,
            none,
            node_ids,
            name,
            id_title=None if self.id is None else self.id.strip() or None,
            classes=classes,
            rules=words,
        ).require()
        made = self._features(folder / FEATURES, place)
        graph = replace(
            bare,
            features=made.values,
            feature_names=made.names,
            column_rules=made.rules(self.rules, self.ignored),
            node_ids=None if ids is None else bare.node_ids,  # row numbers that nobody wrote down may change
        )
        return graph, place

    def _roles(self) -> tuple[Any, Callable[[int], str]]:
        """The few columns that are not features, whole, and where their rows stand."""
        import pandas as pd

        titles = [title for title in (self.label, self.split) if title is not None]
        if not titles:
            return pd.DataFrame(index=pd.RangeIndex(self.count)), Rows()
        at, parts = Rows(), []
        for piece in self.table.pieces(_ROWS, titles):
            at.note(piece)
            parts.append(piece.batch.to_pandas(ignore_metadata=True, integer_object_nulls=True)[titles])
        return pd.concat(parts, ignore_index=True), at

    def _features(self, path: Path, place: np.ndarray | None) -> columns.Features:
        """The features as an array of single precision on disk, written while the table is read. The same as in memory."""
        rules = self._learned()
        roles = {"id": self.id, "label": self.label, "split": self.split}
        free = [role for role, title in roles.items() if title is None]
        made, out, first = None, np.empty((self.count, 0), np.float32), 0
        for piece, frame in self._frames(self.features):
            found = Findings()
            made = columns.features(frame, self.features, piece.row, found, rules, free)
            if found.problems:
                raise_problems(found.problems)
            if not first and made.names:
                shape = (self.count, len(made.names))
                out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
            rows = slice(first, first + len(frame))
            out[rows if place is None else place[rows]] = made.values
            first += len(frame)
        if made is None or first != self.count:
            raise DataError(f"{self.table.name}: must give the same rows twice, got {self.count} and then {first}")
        if isinstance(out, np.memmap):
            out.flush()
            out = np.load(path, mmap_mode="r")
        return replace(made, values=out)

    def _learned(self) -> ColumnRules:
        """The rules with what must be learned from the whole table before the first row is read by them."""
        lesson = columns.Lesson(self.features, self.rules)
        if lesson.titles:
            for _, frame in self._frames(tuple(lesson.titles)):
                lesson.read(frame)
        return lesson.rules()

    def _frames(self, titles: tuple[str, ...]) -> Iterator[tuple[Piece, Any]]:
        """Some columns as pandas frames; one without rows is left out."""
        import pandas as pd

        if not titles:
            yield Piece(self.table.name, 0, None), pd.DataFrame(index=pd.RangeIndex(self.count))
            return
        for piece in self.table.pieces(_ROWS, titles):
            if len(piece.batch):
                cells = (self._cells(column, title) for column, title in zip(piece.batch.columns, titles, strict=True))
                yield piece, pd.DataFrame(dict(zip(titles, cells, strict=True)))

    def _cells(self, column: Any, title: str) -> Any:
        """A column in pandas. Text that spells plain numbers becomes numbers at once, not cell by cell."""
        import pyarrow as pa
        import pyarrow.compute as pc

        spelled = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        if spelled and title not in self.rules.categories and self.rules.notation_of(title) == PLAIN:
            trimmed = pc.utf8_trim_whitespace(column)
            if pc.all(pc.match_substring_regex(trimmed, _PLAIN_NUMBER)).as_py():
                column = trimmed.cast(pa.float64())
        return column.to_pandas(integer_object_nulls=True)


def _places(ids: np.ndarray) -> np.ndarray | None:
    """The place of every row in the order of ids; None if rows are in that order."""
    if (ids[1:] >= ids[:-1]).all():
        return None
    order = np.argsort(ids, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place
