"""An edge table and a node table in memory: pandas, polars, Arrow, DuckDB, anything that narwhals knows.

A table is read in two steps. First everything that is wrong with it is found (`Findings`); then, if nothing is, a graph is built.
Nodes are put in the order of their ids, so that the order of rows decides about nothing: not about the split that a seed draws,
not about what a run predicts, and not about the fingerprint in a ledger.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from caribou.errors import CaribouError, DataError, InputError
from caribou.graph import columns
from caribou.graph.checks import listed, simple_rows
from caribou.graph.classes import Classes, declared_names, places_of_names
from caribou.graph.column_rules import ColumnRules, undeclared_words
from caribou.graph.graph import Graph
from caribou.graph.inspection import (
    Finding,
    Findings,
    Inspection,
    Problem,
    note_cleaning,
    note_edge_features,
    note_unlabelled,
    raise_problems,
)
from caribou.graph.split import Split
from caribou.privacy.budget import PrivacyUnit

_IDS = ("id", "node", "node_id")
_LABELS = ("label", "class", "y")
_SPLITS = ("split",)


@dataclass(frozen=True)
class Titles:
    """Names of the columns that are not features; None = the default names."""

    id: str | None = None
    label: str | None = None
    split: str | None = None
    source: str | None = None
    target: str | None = None


class Table(Protocol):
    """A table with titles that is read as a pandas frame. Its text is what messages call it."""

    def titles(self) -> list[str]:
        """Titles of the columns, each once."""
        ...

    def frame(self, as_text: set[str], only: list[str] | None = None) -> Any:
        """The cells. ``as_text``: columns in which a number type would lose leading zeros. ``only``: just these columns."""
        ...


@dataclass(frozen=True, eq=False)
class FrameTable:
    """A frame of any library, under a name for messages."""

    name: str
    native: Any

    def __str__(self) -> str:
        return self.name

    def titles(self) -> list[str]:
        """Titles of the columns, each once."""
        found = [str(title) for title in _narwhals(self.name, self.native).collect_schema().names()]
        check_titles(self.name, found)
        return found

    def frame(self, as_text: set[str], only: list[str] | None = None) -> Any:
        """The cells as a pandas frame."""
        import narwhals as nw

        table = _narwhals(self.name, self.native)
        if only is not None:
            table = table.select(*only)
        eager = table.collect("pyarrow") if isinstance(table, nw.LazyFrame) else table
        frame = eager.to_pandas().reset_index(drop=True)
        for title, kind in eager.schema.items():
            if kind.is_integer() and eager[title].null_count():
                # pandas would make them floats, and one empty cell would round the large numbers of all other rows
                frame[title] = np.array(eager[title].to_list(), dtype=object)
        return frame.set_axis([str(title) for title in frame.columns], axis=1)


def _narwhals(name: str, native: Any) -> Any:
    import narwhals as nw

    try:
        return nw.from_native(native)
    except TypeError as error:
        # The type only: what was passed may be a table of private data.
        raise InputError(
            f"{name} must be a frame of pandas, polars, Arrow or DuckDB, got {type(native).__module__}.{type(native).__name__}"
        ) from error


def check_titles(name: object, titles: Sequence[str]) -> None:
    """A table has columns, and no two of one title."""
    if not titles:
        raise DataError(f"{name}: has no columns")
    if len(set(titles)) < len(titles):
        repeated = sorted({title for title in titles if titles.count(title) > 1})
        raise DataError(f"{name}: column titles must differ, got {listed(repeated)} more than once")


@dataclass(frozen=True, eq=False)
class Reading:
    """What came out of tables: what was found in them, and the graph, unless something must be mended."""

    inspection: Inspection
    graph: Graph | None

    def require(self) -> Graph:
        """The graph; if there are problems, one error that lists them all."""
        if self.graph is None:
            raise_problems(self.inspection.problems)
        return self.graph


def read_frames(
    edges: Table,
    nodes: Table,
    titles: Titles,
    name: str,
    classes: Classes | None = None,
    rules: ColumnRules | None = None,
    unit: PrivacyUnit | None = None,
) -> Reading:
    """Read a graph from an edge table and a node table.

    Args:
        edges, nodes: the tables.
        titles: of the columns that are not features.
        name: of the graph.
        classes: declared ones.
        rules: how the columns of nodes are read.
        unit: what will be protected; at node level what is not declared is a problem.

    Returns:
        All findings, and the graph if there is no problem.
    """
    rules, findings = rules or ColumnRules(), Findings()
    header = [title for title in nodes.titles() if title not in rules.ignore]
    id_title = chosen(header, titles.id, _IDS, nodes, "id", needed=True)
    known = (
        chosen(header, titles.label, _LABELS, nodes, "label"),
        chosen(header, titles.split, _SPLITS, nodes, "split"),
    )
    text = {title for title in (id_title, *known, *rules.categories) if title is not None}
    frame = nodes.frame(text)
    _check_rules(rules, list(frame.columns), nodes, findings)
    frame = frame.drop(columns=[title for title in rules.ignore if title in frame.columns])
    if len(frame) == 0:
        raise DataError(f"{nodes}: must hold at least one node, got a table without rows")
    at = rows_of(nodes)
    ids = columns.texts(frame[id_title], str(id_title), at, findings)
    node_ids = columns.unique_ids(ids, str(id_title), at, findings)
    pairs = _pairs(edges, titles, ids, rules, findings)
    rest = frame.drop(columns=[id_title])
    return build(
        rest,
        titles,
        at,
        nodes,
        pairs,
        node_ids,
        name,
        id_title=str(id_title).strip() or None,
        classes=classes,
        rules=rules,
        unit=unit,
        findings=findings,
    )


def build(
    frame: Any,
    titles: Titles,
    place: columns.Place,
    source: object,
    pairs: np.ndarray,
    node_ids: np.ndarray,
    name: str,
    *,
    id_title: str | None = None,
    classes: Classes | None = None,
    rules: ColumnRules | None = None,
    unit: PrivacyUnit | None = None,
    findings: Findings | None = None,
) -> Reading:
    """A graph from a frame of node attributes (without ids) and pairs of row numbers; nodes in the order of their ids."""
    rules, found = rules or ColumnRules(), findings or Findings()
    there = list(frame.columns)
    label = chosen(there, titles.label, _LABELS, source, "label")
    split = chosen(there, titles.split, _SPLITS, source, "split")
    labels, names = _labels(frame, label, place, source, classes, rules, found)
    division = None
    if split is not None:
        cells = columns.texts(frame[split], split, place, found, unknown=rules.unknown, kind=Finding.SPLIT_WORDS)
        division = columns.parts(cells, split, place, found)
        if label is None:
            raise DataError(f"{source}: column {split!r} needs a label column, found {listed(there)}")
    rest = [title for title in there if title not in (label, split)]
    features = columns.features(frame, rest, place, found, rules, naming_hint(label, split))
    read = replace(
        rules,
        learned_categories={**rules.learned_categories, **features.learned_categories},
        learned_fills={**rules.learned_fills, **features.learned_fills},
        unscaled=features.unscaled,
    )
    if unit is PrivacyUnit.NODE:
        _require_declared(read, label is not None and classes is None, source, found)
    counts = {} if labels is None or names is None else _counts(labels, names)
    unlabelled = 0 if labels is None else int((labels < 0).sum())
    note_unlabelled(unlabelled, found)
    note_edge_features(features.names, found)
    note_cleaning(simple_rows(pairs, len(frame))[2], found)
    graph = None
    if not found.problems:
        try:
            graph = _graph(features, pairs, labels, division, name, names, node_ids, id_title, read)
        except CaribouError as error:
            raise DataError(f"{source}: {error}") from error
        if label is not None and classes is None:
            graph = replace(graph, classes_declared=False)
    inspection = Inspection(
        tuple(found.problems),
        tuple(found.notes),
        counts,
        unlabelled,
        len(frame),
        None if graph is None else graph.num_edges,
        features.names,
    )
    return Reading(inspection, graph)


def _graph(
    features: columns.Features,
    pairs: np.ndarray,
    labels: np.ndarray | None,
    split: Split | None,
    name: str,
    names: tuple[str, ...] | None,
    node_ids: np.ndarray,
    id_title: str | None,
    rules: ColumnRules,
) -> Graph:
    """The graph, its nodes in the order of their ids: numbers by size, text by its letters."""
    order = np.argsort(node_ids, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    parts = None if split is None else Split(*(np.sort(place[part]) for part in (split.train, split.val, split.test)))
    graph = Graph.from_edges(
        features.values[order],
        place[pairs],
        labels=None if labels is None else labels[order],
        split=parts,
        name=name,
        class_names=names,
        node_ids=node_ids[order],
        feature_names=features.names,
        id_title=id_title,
    )
    return replace(graph, column_rules=rules)


def _labels(
    frame: Any,
    title: str | None,
    place: columns.Place,
    source: object,
    classes: Classes | None,
    rules: ColumnRules,
    findings: Findings,
) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    if title is None:
        return None, None
    if classes is not None:
        names = declared_names(classes)
        return places_of_names(columns.label_texts(frame[title], rules.unknown), names), names
    cells = columns.texts(frame[title], title, place, findings, unknown=rules.unknown, kind=Finding.LABEL_CELLS)
    columns.no_label_words(cells, title, place, findings)
    _note_spellings(frame[title], cells, title, findings)
    labels, names = columns.classes(cells, title, place, findings)
    if not names:
        rule = f"column {title!r} must hold at least one label, got empty cells only"
        flags = (f"--ignore {columns.quoted(title)}",)
        findings.add(Problem(Finding.NO_LABELS, str(source), rule, len(cells), flags=flags, column=title))
    return labels, names or None


def _note_spellings(column: Any, cells: np.ndarray, title: str, findings: Findings) -> None:
    """Labels such as 0 and 0.0 are one class."""
    spelled: dict[str, set[str]] = {}
    for raw, cell in zip(column.astype(object), cells, strict=True):
        if cell is not None and isinstance(raw, str):
            spelled.setdefault(cell, set()).add(raw.strip())
    for several in (sorted(words) for words in spelled.values() if len(words) > 1):
        findings.note(
            Finding.SAME_LABEL,
            f"column {title!r}: {' and '.join(several)} are one class",
            len(several),
            column=title,
        )


def _counts(labels: np.ndarray, names: tuple[str, ...]) -> dict[str, int]:
    counted = np.bincount(labels[labels >= 0], minlength=len(names))
    return {name: int(count) for name, count in zip(names, counted, strict=True)}


def _require_declared(rules: ColumnRules, labels_read: bool, source: object, findings: Findings) -> None:
    """At node level nothing may be learned: what was not declared is a problem, with a flag for each column."""
    # a word that would be learned at edge level must be declared here
    findings.problems[:] = [
        replace(
            problem,
            flags=tuple(
                f"{flag}=a,b,c" if flag == f"--category {columns.quoted(problem.column or '')}" else flag
                for flag in problem.flags
            ),
        )
        for problem in findings.problems
    ]
    endings = {"range": "=LOW:HIGH", "category": "=a,b,c", "fill": "=0"}
    for flag, titles in rules.undeclared().items():
        if titles:
            flags = (" ".join(f"--{flag} {columns.quoted(title)}{endings[flag]}" for title in titles),)
            words = undeclared_words(flag, titles)
            rule, _, _ = words.partition(": give ")
            example = ", for example --range amount=0:10000" if flag == "range" else ""
            findings.add(
                Problem(
                    Finding.UNDECLARED, str(source), rule + example, len(titles), tuple(map(repr, titles[:3])), flags
                )
            )
    if labels_read:
        rule = (
            "classes must be declared at node level, because one person's label must not decide about a class, got none"
        )
        findings.add(Problem(Finding.UNDECLARED, str(source), rule, 1, (), ("--classes a,b,c",)))


def _check_rules(rules: ColumnRules, there: list[str], table: object, findings: Findings) -> None:
    """A rule about a column that is not there is a slip. One that is to be ignored may be gone from next month's table, unless
    another title is so close that it must be meant."""
    others = [title for title in there if title not in rules.ignore]
    for title in (title for title in rules.titles if title not in there):
        if title in rules.ignore and not difflib.get_close_matches(title, others, n=1, cutoff=0.8):
            findings.note(Finding.UNKNOWN_RULES, f"column {title!r} is to be ignored, and is not there", column=title)
            continue
        flags = " and ".join(rules.flags_of(title))
        rule = f"rules must name columns of the table, got {title!r} ({flags}), found {listed(there)}"
        findings.add(Problem(Finding.UNKNOWN_RULES, str(table), rule, column=title))


def naming_hint(label: str | None, split: str | None) -> str:
    """The end of a message about a column that is no feature: the roles that no column plays yet."""
    free = [role for role, title in (("label", label), ("split", split)) if title is None]
    return f"; if it is not a feature, declare it the {' or '.join(free)} column" if free else ""


def rows_of(table: object) -> columns.Place:
    """Says where a cell of a table stands, rows counted from 1."""
    return lambda k: f"{table}: row {k + 1}"


def _pairs(table: Table, titles: Titles, ids: np.ndarray, rules: ColumnRules, findings: Findings) -> np.ndarray:
    header = table.titles()
    # A target that is named alone may be the first column: the source is then the next one.
    free = [title for title in header if title != titles.target] or header
    source = chosen(header, titles.source, free[:1], table, "source", needed=True)
    rest = [title for title in header if title != source]
    if not rest:
        raise DataError(f"{table}: must hold two columns, source and target, found only {listed(header)}")
    target = chosen(header, titles.target, tuple(rest[:1]), table, "target", needed=True)
    if source == target:
        raise DataError(f"{table}: source and target must be two columns, got {source!r} twice")
    if titles.source is None and titles.target is None:
        _check_edge_titles(table, str(source), str(target), ids)
    others = [title for title in header if title not in (source, target)]
    if others:
        words = (
            f"{table}: columns {listed(others)} are not used: one edge stands for all rows between two nodes, both ways"
        )
        findings.note(Finding.UNUSED_COLUMNS, words, len(others))
    frame = table.frame({str(source), str(target)}, only=[str(source), str(target)])
    ends = []
    for title in (str(source), str(target)):
        cells = columns.texts(frame[title], title, rows_of(table), findings)
        ends.append(columns.positions(cells, ids, title, rows_of(table), findings, drop=rules.drop_unknown_ids))
    pairs = np.stack(ends)
    known = (pairs >= 0).all(axis=0)
    dropped = int((~known).sum())
    words = f"{dropped} rows of {table} name an id that is in no row of the node table, and are dropped"
    findings.note(Finding.DROPPED_EDGES, words, dropped if rules.drop_unknown_ids else 0)
    return pairs[:, known]


def _check_edge_titles(table: object, source: str, target: str, ids: np.ndarray) -> None:
    """Refuse an edge table whose first edge would be taken for its titles, and be lost."""
    if {source.strip(), target.strip()} <= set(ids):
        raise DataError(
            f"{table}: column titles must not be ids of the node table, got {source!r}, {target!r}: is the line of titles "
            "missing? If they are titles, declare them the source column and the target column"
        )


def chosen(
    header: list[str], wanted: str | None, defaults: Any, table: object, role: str, needed: bool = False
) -> str | None:
    """The column that plays a role: the wanted one, or the first default that is there."""
    if wanted is not None:
        if wanted not in header:
            raise DataError(
                f"{table}: {role} column {wanted!r} is missing, found {listed(header)} (--column {role}=TITLE)"
            )
        return wanted
    # The user's spelling of a default title may be Id, LABEL, ...
    for default in defaults:
        for title in header:
            if title == default or str(title).strip().lower() == default:
                return title
    if needed:
        words = " or ".join(map(repr, defaults))
        raise DataError(f"{table}: needs a column {words}, found {listed(header)} (--column {role}=TITLE)")
    return None


def warn_of_unused(reading: Reading) -> None:
    """Say what a reader leaves out without being asked: columns of edges that are not used."""
    for note in reading.inspection.notes:
        if note.kind is Finding.UNUSED_COLUMNS:
            warnings.warn(note.words, UserWarning, stacklevel=4)


def graph_from_tables(
    edges: Any,
    nodes: Any,
    titles: Titles,
    name: str,
    seed: int,
    classes: Classes | None,
    rules: ColumnRules | None,
    unit: PrivacyUnit | str | None,
) -> Graph:
    """See `Graph.from_tables`."""
    protected = None if unit is None else PrivacyUnit.parse(unit)
    read = read_frames(FrameTable("edges", edges), FrameTable("nodes", nodes), titles, name, classes, rules, protected)
    warn_of_unused(read)
    return divided(read.require(), seed, "nodes")


def divided(graph: Graph, seed: int, source: object) -> Graph:
    """The graph with its split, or with a random one; no part is empty."""
    if graph.split is not None:
        for part, size in zip(("train", "val", "test"), graph.split.declared, strict=True):
            if size == 0:
                raise DataError(f"{source}: split part {part} must hold at least one node, got none")
        return graph
    if graph.labels is None:
        return graph
    try:
        return graph.random_split(seed)
    except InputError as error:
        raise DataError(f"{source}: too few labelled nodes for a random split ({error})") from error
