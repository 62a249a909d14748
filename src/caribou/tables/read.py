"""An edge table and a node table in memory: pandas, polars, Arrow, DuckDB, anything that narwhals knows.

A table is read in two steps. First everything that is wrong with it is found (`Findings`); then, if nothing is, a graph is built.
Nodes are put in the order of their ids, so that the order of rows decides about nothing: not about the split that a seed draws,
not about what a run predicts, and not about the fingerprint in a ledger.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from caribou.errors import CaribouError, DataError, InputError
from caribou.graph.checks import listed, simple_rows
from caribou.graph.classes import Classes, declared_names, places_of_names
from caribou.graph.graph import Graph
from caribou.graph.split import Split
from caribou.privacy.budget import PrivacyUnit
from caribou.tables import cells as columns
from caribou.tables.inspect import (
    Finding,
    Findings,
    Inspection,
    Problem,
    examples_of,
    note_cleaning,
    note_edge_features,
    note_unlabelled,
    raise_problems,
    shown,
)
from caribou.tables.rules import ColumnRules, undeclared_words

IDS = ("id", "node", "node_id")
LABELS = ("label", "class", "y")
SPLITS = ("split",)


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
    findings: Findings | None = None,
) -> Reading:
    """Read a graph from an edge table and a node table.

    Args:
        edges, nodes: the tables.
        titles: of the columns that are not features.
        name: of the graph.
        classes: declared ones.
        rules: how the columns of nodes are read.
        unit: what will be protected; at node level what is not declared is a problem.
        findings: what was found before the tables were opened.

    Returns:
        All findings, and the graph if there is no problem.
    """
    rules, findings = rules or ColumnRules(), findings or Findings()
    header = [title for title in nodes.titles() if title not in rules.ignore]
    id_title = chosen(header, titles.id, IDS, nodes, "id", needed=True)
    known = (
        chosen(header, titles.label, LABELS, nodes, "label"),
        chosen(header, titles.split, SPLITS, nodes, "split"),
    )
    text = {title for title in (id_title, *known, *rules.categories) if title is not None}
    frame = nodes.frame(text)
    if len(frame) == 0:
        raise DataError(f"{nodes}: must hold at least one node, got a table without rows")
    at = rows_of(nodes)
    ids = columns.texts(frame[id_title], str(id_title), at, findings)
    node_ids = columns.unique_ids(ids, str(id_title), at, findings)
    rest = frame.drop(columns=[id_title])
    pairs = _pairs(edges, titles, ids, rules, findings, _Others(nodes, rest))
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
    ignored = [title for title in rules.ignore if title in frame.columns]
    check_rules(rules, list(frame.columns), id_title, source, found)
    frame = frame.drop(columns=ignored)
    there = list(frame.columns)
    label = chosen(there, titles.label, LABELS, source, "label")
    split = chosen(there, titles.split, SPLITS, source, "split")
    labels, names = _labels(frame, label, place, source, classes, rules, found)
    division = None
    if split is not None:
        cells = columns.texts(frame[split], split, place, found, unknown=rules.unknown, kind=Finding.SPLIT_WORDS)
        division = columns.parts(cells, split, place, found)
        if label is None:
            raise DataError(f"{source}: column {split!r} needs a label column, found {listed(there)}")
    rest = [title for title in there if title not in (label, split)]
    free_roles = [role for role, title in (("label", label), ("split", split)) if title is None]
    features = columns.features(frame, rest, place, found, rules, free_roles)
    read = features.rules(rules, ignored)
    check_roles(rules, {"label": label, "split": split}, source, found)
    if unit is PrivacyUnit.NODE:
        _require_declared(read, label is not None and classes is None, source, found)
    counts = {} if labels is None or names is None else _counts(labels, names)
    unlabelled = 0 if labels is None else int((labels < 0).sum())
    note_unlabelled(unlabelled, found)
    if label is None:
        words = "no column is the label: methods that learn classes refuse such a table"
        found.note(Finding.NO_LABELS, words, flags=("--column label=TITLE",))
    elif len(counts) == 1:
        found.note(Finding.ONE_CLASS, f"all labels are {next(iter(counts))!r}: there is nothing to learn", column=label)
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
        known = columns.label_texts(frame[title], rules.unknown, rules.aliases)
        _note_other_labels(known, names, title, findings)
        return places_of_names(known, names), names
    cells = columns.texts(
        frame[title], title, place, findings, unknown=rules.unknown, aliases=rules.aliases, kind=Finding.LABEL_CELLS
    )
    columns.no_label_words(cells, title, place, findings)
    columns.spellings(cells, title, place, findings)
    _note_spellings(frame[title], cells, title, findings)
    labels, names = columns.classes(cells, title, place, findings)
    if not names:
        rule = f"column {title!r} must hold at least one label, got empty cells only"
        flags = (f"--ignore {columns.quoted(title)}",)
        findings.add(Problem(Finding.NO_LABELS, str(source), rule, len(cells), flags=flags, column=title))
    return labels, names or None


def _note_other_labels(cells: Sequence[str | None], names: tuple[str, ...], title: str, findings: Findings) -> None:
    """Labels that are none of the declared classes are unknown; one that is spelled like a class may be a slip."""
    other = [cell for cell in cells if cell is not None and cell not in names]
    found = dict.fromkeys(other)
    alike = columns.spelled_alike((*names, *found), dict.fromkeys(names, len(cells) + 1))
    slips = {word: meant for word, meant in alike.items() if word in found}
    if slips:
        words = ", ".join(f"{shown(word)} for {shown(meant)}" for word, meant in slips.items())
        count = sum(cell in slips for cell in other)
        findings.note(
            Finding.SPELLINGS,
            f"column {title!r}: {count} labels are spelled like a declared class and are none, {words}: they count as no label",
            count,
            (columns.alias_flags(slips),),
            title,
        )
    rest = [cell for cell in other if cell not in slips]
    findings.note(
        Finding.OTHER_LABELS,
        f"column {title!r}: {len(rest)} labels are none of the declared classes, such as {', '.join(examples_of(rest))}: they "
        "count as no label",
        len(rest),
        ("--classes a,b,c", "--alias WORD=CLASS"),
        title,
    )


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
    # a column that is to be ignored, or is a category, needs no range
    elsewhere = {
        problem.column
        for problem in findings.problems
        for flag in ("--ignore", "--category")
        if any(words.startswith(f"{flag} ") for words in problem.flags[:1])
    }
    for flag, undeclared in rules.undeclared().items():
        titles = [title for title in undeclared if title not in elsewhere]
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


def check_rules(rules: ColumnRules, there: list[str], id_title: str | None, table: object, findings: Findings) -> None:
    """A rule about a column that is not there is a slip. A column that an earlier table had and that was ignored may be gone."""
    known = [*([] if id_title is None else [id_title]), *there]
    for title in (title for title in rules.titles if title not in known):
        if title in rules.ignored:
            findings.note(Finding.UNKNOWN_RULES, f"column {title!r} is to be ignored, and is not there", column=title)
            continue
        named = " and ".join(rules.flags_of(title))
        rule = (
            f"rules must name columns of the table, got {title!r} ({named}), found {listed(known)}{_near(title, there)}"
        )
        findings.add(Problem(Finding.UNKNOWN_RULES, str(table), rule, column=title))
    if id_title in rules.titles:
        _no_feature(rules, str(id_title), "id", table, findings)


def check_roles(rules: ColumnRules, roles: dict[str, str | None], table: object, findings: Findings) -> None:
    """A rule of features about the labels or the split would have no effect."""
    for role, title in roles.items():
        if title is not None and title in rules.titles:
            _no_feature(rules, title, role, table, findings)


def _no_feature(rules: ColumnRules, title: str, role: str, table: object, findings: Findings) -> None:
    named = " and ".join(rules.flags_of(title))
    rule = f"rules must name columns of features, got the {role} column {title!r} ({named})"
    flags = (f"--column {role}=TITLE if it is another column",)
    findings.add(Problem(Finding.UNKNOWN_RULES, str(table), rule, flags=flags, column=title))


def _near(title: str, there: Sequence[str]) -> str:
    """The end of a message about a title that is not there: those that are spelled like it."""
    same = [known for known in there if known.strip().casefold() == title.strip().casefold()]
    near = same or difflib.get_close_matches(title, there, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def rows_of(table: object) -> columns.Place:
    """Says where a cell of a table stands, rows counted from 1."""
    return lambda k: f"{table}: row {k + 1}"


@dataclass(frozen=True, eq=False)
class _Others:
    """The columns of a node table beside the ids: ids may be in one of them."""

    table: object
    frame: Any

    def texts(self) -> dict[str, np.ndarray]:
        """Their cells as ids would be read."""
        return {title: columns.texts(self.frame[title], title, rows_of(self.table), Findings()) for title in self.frame}


def _pairs(
    table: Table, titles: Titles, ids: np.ndarray, rules: ColumnRules, findings: Findings, others: _Others
) -> np.ndarray:
    header = table.titles()
    # A target that is named alone may be the first column: the source is then the next one.
    free = [title for title in header if title != titles.target] or header
    source = chosen(header, titles.source, free[:1], table, "source", needed=True)
    rest = [title for title in header if title != source]
    if not rest:
        raise DataError(
            f"{table}: must hold two columns, source and target, found only {listed(header)} (--column source=TITLE "
            "--column target=TITLE; --separator SIGN if the line holds more)"
        )
    target = chosen(header, titles.target, tuple(rest[:1]), table, "target", needed=True)
    if source == target:
        raise DataError(
            f"{table}: source and target must be two columns, got {source!r} twice (--column source=TITLE --column target=TITLE)"
        )
    if titles.source is None and titles.target is None:
        _check_edge_titles(table, str(source), str(target), ids)
    unused = [title for title in header if title not in (source, target)]
    if unused:
        words = (
            f"{table}: columns {listed(unused)} are not used: one edge stands for all rows between two nodes, both ways"
        )
        findings.note(Finding.UNUSED_COLUMNS, words, len(unused))
    frame = table.frame({str(source), str(target)}, only=[str(source), str(target)])
    cells = {
        title: columns.texts(frame[title], title, rows_of(table), findings) for title in (str(source), str(target))
    }
    at = rows_of(table)
    places = {title: columns.positions(ends, ids, title, at, drop=True) for title, ends in cells.items()}
    pairs = np.stack(list(places.values()))
    known = (pairs >= 0).all(axis=0)
    if len(frame) and not known.any():
        findings.first(_no_match(table, cells, places, ids, others))
        return pairs[:, known]
    for title, ends in cells.items():
        unknown = ends[places[title] < 0]
        hint = id_difference_words(unknown, ids) if len(unknown) >= _MANY * len(ends) else ""
        if not rules.drop_unknown_ids:
            columns.positions(ends, ids, title, at, findings, hint=hint)
        elif hint:
            words = f"column {title!r} of {table}: {len(unknown)} ids are in no row of the node table{hint}"
            findings.note(Finding.UNKNOWN_IDS, words, len(unknown), column=title)
    dropped = int((~known).sum())
    words = f"{dropped} rows of {table} name an id that is in no row of the node table, and are dropped"
    findings.note(Finding.DROPPED_EDGES, words, dropped if rules.drop_unknown_ids else 0)
    return pairs[:, known]


def _no_match(
    table: Table, cells: dict[str, np.ndarray], places: dict[str, np.ndarray], ids: np.ndarray, others: _Others
) -> Problem:
    """No row joins two nodes: the columns are other ones, or ids are written in two ways."""
    strange = [title for title, found in places.items() if (found < 0).all()]
    title = (strange or list(cells))[0]
    ends = cells[title]
    given = next((end for end in ends if end is not None), None)
    rule = (
        f"edges must join ids of the node table, got none that does: column {title!r} holds {shown(given)}, the ids are such as "
        f"{shown(ids[0])}{id_difference_words(ends, ids)}"
    )
    flags = _better_columns(table, cells, ids, others) or (
        "--column id=TITLE, source=TITLE or target=TITLE if ids are in another column",
    )
    return Problem(Finding.NO_MATCH, f"{table}: row 1", rule, len(ends), examples_of(ends), flags=flags, column=title)


def _better_columns(table: Table, cells: dict[str, np.ndarray], ids: np.ndarray, others: _Others) -> tuple[str, ...]:
    """Flags that name columns in which ids of both tables are the same."""
    ends = np.concatenate(list(cells.values()))
    for title, texts in others.texts().items():
        if _share_known(ends, texts) >= _MOST and len(set(texts)) == len(texts):
            return (f"--column id={columns.quoted(title)}",)
    header = table.titles()
    frame = table.frame(set(header))
    fitting = [
        title
        for title in header
        if _share_known(columns.texts(frame[title], title, rows_of(table), Findings()), ids) >= _MOST
    ]
    if len(fitting) < 2:
        return ()
    source, target = map(columns.quoted, fitting[:2])
    return (f"--column source={source} --column target={target}",)


_MANY = 0.1
"""From this share of unknown ids on a cause is looked for."""
_MOST = 0.5
"""From this share on ids that are alike under a change of writing are taken for the same."""
_WRITINGS: dict[str, Callable[[str], str]] = {
    "leading zeros": lambda text: text.lstrip("0") or "0",
    "a fraction such as .0": lambda text: re.sub(r"[.,]0+$", "", text),
    "capitals": str.casefold,
    "blanks or signs inside": lambda text: re.sub(r"[\s._/-]", "", text),
    "letters before the number": lambda text: re.sub(r"^\D+(?=\d)", "", text),
    "letters and zeros before the number": lambda text: re.sub(r"^\D*0*(?=\d)", "", text),
}
"""Ways in which two tables write one id differently."""


def id_difference_words(ends: np.ndarray, ids: np.ndarray) -> str:
    """The end of a message about ids that are in no row of the node table: the likely cause, if there is one.

    >>> id_difference_words(np.array(["007", "008"]), np.array(["7", "8", "9"]))
    ': they differ in leading zeros; write ids in the same way in both tables'
    """
    unknown = [str(end) for end in dict.fromkeys(ends) if end is not None]
    known = [str(one) for one in ids if one is not None]
    for words, change in _WRITINGS.items():
        if _share_known(map(change, unknown), map(change, known)) >= _MOST:
            return f": they differ in {words}; write ids in the same way in both tables"
    return ""


def _share_known(ends: Iterable[str | None], ids: Iterable[str | None]) -> float:
    known = set(ids) - {None, ""}  # what is left of a word without its letters is no id
    there = [end for end in ends if end is not None]
    return sum(end in known for end in there) / len(there) if there else 0.0


def _check_edge_titles(table: object, source: str, target: str, ids: np.ndarray) -> None:
    """Refuse an edge table whose first edge would be taken for its titles, and be lost."""
    if {source.strip(), target.strip()} <= set(ids):
        raise DataError(
            f"{table}: column titles must not be ids of the node table, got {source!r}, {target!r}: is the line of titles "
            "missing? If they are titles, declare them the source column and the target column "
            f"(--column source={columns.quoted(source)} --column target={columns.quoted(target)})"
        )


def chosen(
    header: list[str], wanted: str | None, defaults: Any, table: object, role: str, needed: bool = False
) -> str | None:
    """The column that plays a role: the wanted one, or the first default that is there."""
    if wanted is not None:
        if wanted not in header:
            raise DataError(
                f"{table}: {role} column {wanted!r} is missing, found {listed(header)}{_near(wanted, header)} "
                f"(--column {role}=TITLE)"
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


PUBLIC = {Finding.UNUSED_COLUMNS, Finding.SEPARATOR}
"""Notes about titles alone."""
_SAID = {Finding.UNUSED_COLUMNS, Finding.SEPARATOR, Finding.SPELLINGS, Finding.UNKNOWN_IDS}


def warn_of_notes(reading: Reading) -> None:
    """Say what a reader does without being asked, and what may be a slip: the notes that a model could suffer from."""
    for note in reading.inspection.notes:
        if note.kind in _SAID:
            mend = f" ({' or '.join(note.flags)})" if note.flags else ""
            private = "" if note.kind in PUBLIC else "; do not publish this line: it is about private cells"
            warnings.warn(f"{note.words}{mend}{private}", UserWarning, stacklevel=4)


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
    warn_of_notes(read)
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
