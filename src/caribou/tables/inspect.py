"""What is wrong with tables, all of it at once: problems with the flag that mends each, and notes on what is dropped or unused.

Counts and examples are **private**: they are exact and quote cells, for the owner's eyes only.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from caribou.errors import DataError
from caribou.graph.checks import Cleaning, listed
from caribou.tables.rules import computed_from_edges

if TYPE_CHECKING:
    from caribou.graph.graph import Graph

EXAMPLES = 3
"""How many cells a problem quotes."""


class Finding(Enum):
    """What tables can have."""

    UNKNOWN_IDS = "unknown ids"
    REPEATED_IDS = "repeated ids"
    EMPTY_IDS = "empty ids"
    ID_CELLS = "cells that are no id"
    EMPTY_CELLS = "empty cells"
    TEXT = "text column"
    DATES = "date column"
    WORDS = "words among numbers"
    NOT_FINITE = "numbers that are not finite"
    NUMERALS = "numbers in another notation"
    NO_MATCH = "edges of other ids"
    SPELLINGS = "one class in two spellings"
    OTHER_LABELS = "labels outside the declared classes"
    NO_LABEL_WORDS = "words that look like no label"
    LABEL_CELLS = "cells that are no class"
    NO_LABELS = "no labels"
    ONE_CLASS = "one class"
    SPLIT_WORDS = "split words"
    UNKNOWN_RULES = "rules without a column"
    TOO_MANY_CATEGORIES = "too many categories"
    UNDECLARED = "undeclared at node level"
    CONSTANT = "constant column"
    OUTSIDE = "outside the range"
    UNSEEN = "other words"
    NEW_COLUMN_NAMES = "names in use"
    FILLED = "filled cells"
    DROPPED_EDGES = "edges that are dropped"
    DUPLICATES = "repeated edges"
    SELF_LOOPS = "self loops"
    DIRECTIONS = "directions"
    UNUSED_COLUMNS = "columns of edges that are not used"
    UNLABELLED = "nodes without a label"
    NO_FEATURES = "nodes without features"
    FROM_EDGES = "names of edge features"


_OF_TITLES = (Finding.NEW_COLUMN_NAMES, Finding.TOO_MANY_CATEGORIES)
"""What is wrong with a whole column, and not with some of its cells."""


@dataclass(frozen=True)
class Problem:
    """Something that must be mended before the tables can be read; or, without a place, something that is good to know.

    Args:
        kind: what it is.
        place: where it was first found: ``nodes.csv: row 3``. Empty for a note.
        rule: what must hold and what was found instead, in words.
        count: how many cells, rows or columns.
        examples: up to three of the cells.
        flags: alternatives on the command line that mend or change it, the usual one first.
        column: which one, if it is one.

    >>> Problem(Finding.EMPTY_CELLS, "nodes.csv: row 3", "column 'age' must hold numbers, got an empty cell", 2,
    ...         flags=("--fill age=indicator", "--ignore age")).words
    "nodes.csv: row 3: column 'age' must hold numbers, got an empty cell (2 in all); give --fill age=indicator or --ignore age"
    """

    kind: Finding
    place: str
    rule: str
    count: int = 1
    examples: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    column: str | None = None

    @property
    def words(self) -> str:
        """In one line."""
        if not self.place:
            return self.rule
        many = f" ({self.count} in all)" if self.count > 1 else ""
        mend = f"; give {' or '.join(self.flags)}" if self.flags else ""
        return f"{self.place}: {self.rule}{many}{mend}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "problem" if self.place else "note": self.kind.value,
            "column": self.column,
            "count": self.count,
            "examples": list(self.examples),
            "flags": list(self.flags),
            "words": self.words,
        }


class Findings:
    """Problems and notes as a reader finds them. Without a list to collect them, the first problem is the error.

    >>> findings = Findings()
    >>> findings.add(Problem(Finding.TEXT, "nodes.csv", "column 'city' must hold numbers, got 'Bern'"))
    >>> len(findings.problems)
    1
    """

    def __init__(self, *, collect: bool = True) -> None:
        self._collect = collect
        self.problems: list[Problem] = []
        self.notes: list[Problem] = []

    def add(self, problem: Problem) -> None:
        """Keep a problem, or raise it."""
        self.problems.append(problem)
        if not self._collect:
            raise_problems([problem])

    def cells(
        self,
        kind: Finding,
        title: str,
        place: Callable[[int], str],
        rows: Sequence[int] | np.ndarray,
        rule: str,
        cells: Sequence[Any] | np.ndarray = (),
        flags: tuple[str, ...] = (),
    ) -> None:
        """A problem of some rows of a column: where the first one stands, how many there are, and what cells they have."""
        found = examples_of(cells[int(k)] for k in rows if int(k) < len(cells))
        self.add(Problem(kind, place(int(rows[0])), f"column {title!r} {rule}", len(rows), found, flags, title))

    def first(self, problem: Problem) -> None:
        """Keep a problem before all others, because they may follow from it; or raise it."""
        self.add(problem)
        self.problems.insert(0, self.problems.pop())

    def of_pieces(self) -> tuple[Problem, ...]:
        """The problems of a table that came in pieces: one of each kind for a column, with the counts of all its pieces."""
        found: dict[tuple[Finding, str | None], Problem] = {}
        for more in self.problems:
            one = found.setdefault((more.kind, more.column), more)
            if one is not more and more.kind not in _OF_TITLES:
                examples = tuple(dict.fromkeys((*one.examples, *more.examples)))[:EXAMPLES]
                found[more.kind, more.column] = replace(one, count=one.count + more.count, examples=examples)
        return tuple(found.values())

    def note(
        self, kind: Finding, words: str, count: int = 1, flags: Sequence[str] = (), column: str | None = None
    ) -> None:
        """Keep a note; a count of 0 is none."""
        if count:
            self.notes.append(Problem(kind, "", words, count, flags=tuple(flags), column=column))


def raise_problems(problems: Sequence[Problem]) -> NoReturn:
    """One error for all problems, in one line."""
    if len(problems) == 1:
        raise DataError(problems[0].words)
    listed = "; ".join(f"({k}) {problem.words}" for k, problem in enumerate(problems, 1))
    raise DataError(f"tables must be mended in {len(problems)} places: {listed}")


@dataclass(frozen=True)
class Inspection:
    """All that was found in tables.

    Args:
        problems: what must be mended; empty if the tables can be read as flagged.
        notes: what is dropped, clipped, filled or not used.
        class_counts: how many nodes each class has.
        unlabelled: nodes without a label.
        nodes, edges, features: sizes of the graph that comes out, as far as they are known.
    """

    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...]
    class_counts: Mapping[str, int] = field(default_factory=dict)
    unlabelled: int = 0
    nodes: int = 0
    edges: int | None = None
    features: tuple[str, ...] = ()

    @property
    def readable(self) -> bool:
        """Whether the tables can be read as flagged."""
        return not self.problems

    @property
    def flags(self) -> tuple[str, ...]:
        """The usual flags of all problems, each once: a line to copy, and to think about."""
        # a flag with a condition is for the owner to think about
        usual = [flag for problem in self.problems for flag in problem.flags[:1] if " if " not in flag]
        return tuple(dict.fromkeys(f"--{words}" for flag in usual for words in flag.removeprefix("--").split(" --")))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        listed = {name: [each.to_dict() for each in getattr(self, name)] for name in ("problems", "notes")}
        rest = {"features": list(self.features), "class_counts": dict(self.class_counts)}
        return {"readable": self.readable, "flags": list(self.flags), **vars(self), **listed, **rest}


def inspection_of(graph: Graph) -> Inspection:
    """What an owner should know about a graph that was read or built: what was dropped or mirrored, and what says nothing."""
    findings = Findings()
    note_cleaning(graph.cleaning, findings)
    names = graph.feature_names or tuple(str(k) for k in range(graph.num_features))
    for k in constant_columns(graph):
        words = f"column {names[k]!r} is constant: it says nothing"
        findings.note(Finding.CONSTANT, words, column=names[k])
    unlabelled = 0 if graph.labels is None else int((graph.labels < 0).sum())
    note_unlabelled(unlabelled, findings)
    bare = int(graph.without_features.sum()) if graph.num_features else 0
    findings.note(Finding.NO_FEATURES, f"{bare} nodes have no features: their row is zero", bare)
    note_edge_features(graph.feature_names or (), findings)
    return Inspection(
        (), tuple(findings.notes), graph.class_counts, unlabelled, graph.num_nodes, graph.num_edges, tuple(names)
    )


def note_cleaning(cleaning: Cleaning, findings: Findings) -> None:
    """What became of the rows of an edge table."""
    findings.note(
        Finding.DUPLICATES,
        f"{cleaning.duplicates} rows repeat an edge: one edge stands for all rows between two nodes",
        cleaning.duplicates,
    )
    loops = f"{cleaning.self_loops} rows join a node to itself and are dropped"
    findings.note(Finding.SELF_LOOPS, loops, cleaning.self_loops)
    findings.note(
        Finding.DIRECTIONS,
        f"{cleaning.one_way} edges go one way only: directions are not used, an edge joins two nodes",
        cleaning.one_way,
    )


def note_unlabelled(count: int, findings: Findings) -> None:
    """Nodes that are predicted and not learned from."""
    findings.note(Finding.UNLABELLED, f"{count} nodes have no label: they are predicted and not learned from", count)


def note_edge_features(names: Sequence[str], findings: Findings) -> None:
    """Features whose names speak of edges."""
    suspects = computed_from_edges(names)
    flags = tuple(f"--ignore {shlex.quote(name)}" for name in suspects)
    findings.note(Finding.FROM_EDGES, edge_feature_words(suspects), len(suspects), flags)


def edge_feature_words(names: Sequence[str]) -> str:
    """What an owner must know about features whose names speak of edges."""
    return (
        f"features {listed(names)} may be computed from edges: the guarantee at edge level is about edges that no feature was "
        "computed from"
    )


def constant_columns(graph: Graph) -> list[int]:
    """The feature columns that are the same for all nodes with features."""
    there = graph.features[~graph.without_features]
    if there.shape[0] < 2:
        return []
    low, high = there.min(axis=0), there.max(axis=0)
    low, high = (end.toarray().ravel() if hasattr(end, "toarray") else np.asarray(end).ravel() for end in (low, high))
    return [int(k) for k in np.flatnonzero(low == high)]


def examples_of(cells: Iterable[Any]) -> tuple[str, ...]:
    """The first few different cells, as they stand."""
    found: dict[str, None] = {}
    for cell in cells:
        found[shown(cell)] = None
        if len(found) == EXAMPLES:
            break
    return tuple(found)


def shown(cell: Any) -> str:
    """A cell in a message, shortened: a message is one line."""
    # the repr of a NumPy scalar names its type, which is no part of the cell
    text = "an empty cell" if cell is None else repr(cell.item() if isinstance(cell, np.generic) else cell)
    return text if len(text) <= 60 else text[:57] + "..."
