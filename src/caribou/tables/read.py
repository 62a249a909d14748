"""From columns and pairs to a graph: which column plays which role, what is wrong with the rest, and the graph if nothing is.

A table is read in two steps. First everything that is wrong with it is found (`Findings`); then, if nothing is, a graph is built.
Nodes are put in the order of their ids.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

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
)
from caribou.tables.rules import UNDECLARED, ColumnRules, quoted, undeclared_rule

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


@dataclass(frozen=True)
class Roles:
    """The columns of a node table, each in its role. ``ignored``: those that are there and are not read."""

    id: str | None
    label: str | None
    split: str | None
    features: tuple[str, ...]
    ignored: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        there: Sequence[str],
        titles: Titles,
        rules: ColumnRules,
        source: object,
        id_needed: bool = False,
        labels: Sequence[str] = LABELS,
    ) -> Roles:
        """Find them by the titles that were asked for, or by the usual ones."""
        kept = [title for title in there if title not in rules.ignore]
        id_title = chosen(kept, titles.id, IDS, source, "id", needed=id_needed)
        rest = [title for title in kept if title != id_title]
        places = {title.strip().lower() for title in rest}
        # y beside x is a place, and would be missing among the features
        usual = [word for word in labels if not (word == "y" and "x" in places)]
        label = chosen(rest, titles.label, usual, source, "label")
        split = chosen(rest, titles.split, SPLITS, source, "split")
        features = tuple(title for title in rest if title not in (label, split))
        return cls(id_title, label, split, features, tuple(title for title in there if title in rules.ignore))

    def check(self, rules: ColumnRules, table: object, findings: Findings) -> None:
        """A rule about a column that is not there, or that is no feature, is a slip.

        A column that an earlier table had and that was ignored may be gone.
        """
        known = [title for title in (self.id, self.label, self.split) if title is not None]
        for title in rules.titles:
            named = " and ".join(rules.flags_of(title))
            if title in known:
                role = ("id", "label", "split")[(self.id, self.label, self.split).index(title)]
                rule = f"rules must name columns of features, got the {role} column {title!r} ({named})"
                flags = (f"--column {role}=TITLE if it is another column",)
                findings.add(Problem(Finding.UNKNOWN_RULES, str(table), rule, flags=flags, column=title))
            elif title not in (*self.features, *self.ignored) and title in rules.ignored:
                findings.note(
                    Finding.UNKNOWN_RULES, f"column {title!r} is to be ignored, and is not there", column=title
                )
            elif title not in (*self.features, *self.ignored):
                found = listed([*known, *self.features, *self.ignored])
                rule = f"rules must name columns of the table, got {title!r} ({named}), found {found}"
                findings.add(Problem(Finding.UNKNOWN_RULES, str(table), rule, column=title))


def chosen(
    header: Sequence[str], wanted: str | None, defaults: Sequence[str], table: object, role: str, needed: bool = False
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
            if title == default or title.strip().lower() == default:
                return title
    if needed:
        words = " or ".join(map(repr, defaults))
        raise DataError(f"{table}: needs a column {words}, found {listed(header)} (--column {role}=TITLE)")
    return None


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


def build(
    table: Any,
    roles: Roles,
    place: columns.Place,
    source: object,
    pairs: np.ndarray,
    node_ids: np.ndarray,
    name: str,
    classes: Classes | None = None,
    rules: ColumnRules | None = None,
    unit: PrivacyUnit | None = None,
    findings: Findings | None = None,
) -> Reading:
    """A graph from a batch of node attributes and pairs of row numbers; nodes in the order of their ids."""
    rules, found = rules or ColumnRules(), findings or Findings()
    labels, names = _labels(table, roles.label, place, source, classes, rules, unit, found)
    division = None
    if roles.split is not None:
        split = roles.split
        cells = columns.texts(table.column(split), split, place, found, Finding.SPLIT_WORDS)
        division = columns.parts(columns.words(cells, rules.unknown), split, place, found)
        if roles.label is None:
            raise DataError(f"{source}: column {split!r} needs a label column, found {listed(table.schema.names)}")
    features = columns.features(table, roles.features, place, found, rules)
    read = replace(features.rules, ignored=tuple(dict.fromkeys((*rules.ignored, *roles.ignored))))
    if unit is PrivacyUnit.NODE:
        _require_declared(read, roles.label is not None and classes is None, source, found)
    counts = {} if labels is None or names is None else _counts(labels, names)
    unlabelled = 0 if labels is None else int((labels < 0).sum())
    note_unlabelled(unlabelled, found)
    if roles.label is None:
        words = "no column is the label: methods that learn classes refuse such a table"
        found.note(Finding.NO_LABELS, words, flags=("--column label=TITLE",))
    elif len(counts) == 1:
        found.note(
            Finding.ONE_CLASS, f"all labels are {next(iter(counts))!r}: there is nothing to learn", column=roles.label
        )
    note_edge_features(features.names, found)
    note_cleaning(simple_rows(pairs, len(node_ids))[2], found)
    graph = None
    if not found.problems:
        try:
            graph = _graph(features, pairs, labels, division, name, names, node_ids, roles.id, read)
        except CaribouError as error:
            raise DataError(f"{source}: {error}") from error
        if roles.label is not None and classes is None:
            graph = replace(graph, classes_declared=False)
    inspection = Inspection(
        tuple(found.problems),
        tuple(found.notes),
        counts,
        unlabelled,
        len(node_ids),
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
        id_title=None if id_title is None else id_title.strip() or None,
    )
    return replace(graph, column_rules=rules)


def _labels(
    table: Any,
    title: str | None,
    place: columns.Place,
    source: object,
    classes: Classes | None,
    rules: ColumnRules,
    unit: PrivacyUnit | None,
    findings: Findings,
) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    if title is None:
        return None, None
    if classes is not None:
        names = declared_names(classes)
        known = columns.words(columns.texts(table.column(title), title, place, kind=None), rules.unknown, rules.aliases)
        other = [cell for cell in known if cell is not None and cell not in names]
        if other and unit is PrivacyUnit.EDGE:
            # labels are public there; at node level one person's label must not decide whether a table is read
            word = quoted(other[0])
            rule = (
                f"column {title!r} must hold the declared classes {listed(names)}, got {', '.join(examples_of(other))}"
            )
            mends = ("--classes a,b,c", f"--alias {word}=CLASS", f"--unknown {word} if it is no label")
            findings.add(Problem(Finding.OTHER_LABELS, str(source), rule, len(other), flags=mends, column=title))
        else:
            findings.note(
                Finding.OTHER_LABELS,
                f"column {title!r}: {len(other)} labels are none of the declared classes, such as "
                f"{', '.join(examples_of(other))}: they count as no label (for the owner's eyes, where labels are private)",
                len(other),
                ("--classes a,b,c", "--alias WORD=CLASS"),
                title,
            )
        return places_of_names(list(known), names), names
    texts = columns.texts(table.column(title), title, place, findings, Finding.LABEL_CELLS)
    cells = columns.words(texts, rules.unknown, rules.aliases)
    columns.doubtful_labels(cells, title, place, findings)
    labels, names = columns.classes(cells, title, place, findings)
    if not names:
        rule = f"column {title!r} must hold at least one label, got empty cells only"
        flags = (f"--ignore {quoted(title)}",)
        findings.add(Problem(Finding.NO_LABELS, str(source), rule, len(cells), flags=flags, column=title))
    return labels, names or None


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
                f"{flag}=a,b,c" if flag == f"--category {quoted(problem.column or '')}" else flag
                for flag in problem.flags
            ),
        )
        for problem in findings.problems
    ]
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
            flags = (" ".join(f"--{flag} {quoted(title)}={UNDECLARED[flag][1]}" for title in titles),)
            rule, some = undeclared_rule(flag, titles), tuple(map(repr, titles[:3]))
            findings.add(Problem(Finding.UNDECLARED, str(source), rule, len(titles), some, flags))
    if labels_read:
        rule = (
            "classes must be declared at node level, because one person's label must not decide about a class, got none"
        )
        findings.add(Problem(Finding.UNDECLARED, str(source), rule, 1, (), ("--classes a,b,c",)))


def warn_of_notes(reading: Reading) -> None:
    """Say what a reader does without being asked: columns that it leaves out, and labels that a misspelt class would lose."""
    for note in reading.inspection.notes:
        if note.kind in (Finding.UNUSED_COLUMNS, Finding.OTHER_LABELS):
            warnings.warn(note.words, UserWarning, stacklevel=4)


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
