"""Columns of a node table: what a cell means. Shared by the readers of files, frames, databases and NetworkX.

Ids and labels are compared as text after one normalisation, so that the number 1 of a Parquet file and the cell ``1`` of
a CSV file are the same node: whole numbers are written in decimal without a fraction (``1.0`` is ``1``), text loses the blanks
around it and nothing else (``01`` is not ``1``), an empty cell is missing.

A cell is read by itself: what stands in other rows, and the type that a reader gave the whole column because of them, says
nothing about it. At node level another person's cell would otherwise change this person's features.

What is wrong goes to `Findings`: a reader that collects tells everything at once, another one raises the first problem.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from caribou.graph.split import Split
from caribou.tables.inspect import Finding, Findings, Problem, examples_of, shown
from caribou.tables.numerals import MARKS, PLAIN, Notation
from caribou.tables.rules import INDICATOR, MAX_CATEGORIES, ColumnRules, looks_like_no_value, quoted

#: Says where entry k of a column stands, for messages: ``nodes.csv: row 3``.
Place = Callable[[int], str]

_PARTS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}
_WHOLE = re.compile(r"(-?[0-9]{1,18})\.0+")
_DATE = re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ]\d{1,2}:\d{2}.*)?\s*")
_TRUTH = {
    word: float(truth) for truth in (True, False) for word in (str(truth), str(truth).lower(), str(truth).upper())
}
_PLAIN_NUMBER = r"^-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
"""What a number looks like that Arrow and Python spell in the same way: a column of them is read at once, not cell by cell."""
_FEW_WORDS = 20
"""So many words at most are offered as categories or classes."""
_FLAGGED_WORDS = 10
"""So many words at most are offered as unknown ones."""
_NO_ALIASES: Mapping[str, str] = {}
_ROLE_FLAGS = {
    Finding.ID_CELLS: ("--column id=TITLE, source=TITLE or target=TITLE if ids are in another column",),
    Finding.SPLIT_WORDS: ("--column split=TITLE if the split is another column",),
}


def _strict(findings: Findings | None) -> Findings:
    return Findings(collect=False) if findings is None else findings


def texts(
    column: Any, title: str, place: Place, findings: Findings | None = None, kind: Finding | None = Finding.ID_CELLS
) -> Any:
    """Cells of an Arrow column as normalised text, null where one is empty.

    ``kind``: what a cell is that is neither text nor a whole number; None: it counts as empty.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if pa.types.is_integer(column.type):
        return column.cast(pa.large_string())
    if _is_text(column):
        text = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
        # the number 1 and the texts 1 and 1.0 are one id; 01 is another
        whole = pc.replace_substring_regex(text, r"^(0|-?[1-9][0-9]{0,17})\.0+$", r"\1")
        return pc.if_else(pc.equal(whole, ""), pa.scalar(None, pa.large_string()), whole)
    cells = [None if is_missing(cell) else cell for cell in column.to_pylist()]
    found = [None if cell is None else _text(cell) for cell in cells]
    wrong = [k for k, cell in enumerate(cells) if cell is not None and found[k] is None]
    if wrong and kind is not None:
        rule = f"must hold text or whole numbers, got {shown(cells[wrong[0]])}"
        flags = (f"--ignore {quoted(title)}",) if kind is Finding.LABEL_CELLS else _ROLE_FLAGS.get(kind, ())
        _strict(findings).cells(kind, title, place, wrong, rule, cells, flags)
    return pa.array([cell or None for cell in found], pa.large_string())


def words(texts: Any, unknown: Collection[str] = (), aliases: Mapping[str, str] = _NO_ALIASES) -> np.ndarray:
    """Texts by rules: those that stand for others are the others. None where one is empty or one of the ``unknown`` words."""
    empty = {word_of(word) for word in unknown}
    meant = (aliases.get(text, text) for text in texts.to_pylist())
    return np.array([None if text in empty else text for text in meant], dtype=object)


def is_missing(cell: Any) -> bool:
    """Whether there is nothing in a cell: not a number is nothing, too."""
    return cell is None or cell != cell


def joined(parts: Sequence[Any]) -> Any:
    """Arrow arrays as one. Where they are of different types, cells become text, each by itself."""
    import pyarrow as pa

    kinds = {part.type for part in parts if not pa.types.is_null(part.type)}
    if len(kinds) > 1:
        cells = (cell for part in parts for cell in part.to_pylist())
        return pa.array([None if is_missing(cell) else word_of(cell) for cell in cells], pa.large_string())
    return pa.concat_arrays([part.cast(kind) for part in parts for kind in kinds or {part.type}])


def _is_text(column: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _text(cell: Any) -> str | None:
    """A cell as normalised text; None for one that is neither text nor a whole number."""
    if isinstance(cell, str):
        text = cell.strip()
        whole = _WHOLE.fullmatch(text)
        return str(int(whole[1])) if whole and str(int(whole[1])) == whole[1] else text
    if isinstance(cell, bool | int | np.bool_ | np.integer | uuid.UUID):
        return str(cell)
    if isinstance(cell, decimal.Decimal):
        return str(int(cell)) if cell.is_finite() and cell == cell.to_integral_value() else None
    if isinstance(cell, float | np.floating) and math.isfinite(cell) and float(cell).is_integer():
        return str(int(cell))
    return None


def word_of(cell: Any) -> str:
    """A cell that is there as text, whatever it holds: as `_text`, and any other value as it is written."""
    text = _text(cell)
    if text is not None:
        return text
    return str(float(cell) if isinstance(cell, float | np.floating) else cell)


def _value(cell: Any, notation: Notation = PLAIN) -> float | None:
    """The number that a cell holds or spells; None if it is none. True and False are 1 and 0, as a CSV reader has them."""
    if isinstance(cell, str):
        text = cell.strip()
        if text in _TRUTH:
            return _TRUTH[text]
        spelled = notation.spelled(text)
        if spelled is None:
            return None
        value = spelled
    elif isinstance(cell, bool | int | float | np.bool_ | np.integer | np.floating | decimal.Decimal):
        try:
            value = float(cell)
        except OverflowError:
            value = math.inf if cell > 0 else -math.inf
    else:
        return None
    return None if math.isnan(value) else value


def classes(
    cells: np.ndarray, title: str, place: Place, findings: Findings | None = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels 0..C-1 in sorted order (-1 = empty cell) and the names of the classes.

    The order is numerical when every label is a number, else that of the text.
    """
    known = {cell for cell in cells if cell is not None}
    numbers = {cell: number for cell in known if (number := _number(cell)) is not None}
    names = tuple(sorted(known))
    if len(numbers) == len(known):
        fractions = [k for k, cell in enumerate(cells) if cell is not None and not numbers[cell].is_integer()]
        if fractions:
            rule = f"must hold classes, got {shown(cells[fractions[0]])}"
            flags = ("--column label=TITLE", "--classes a,b,c")
            _strict(findings).cells(Finding.LABEL_CELLS, title, place, fractions, rule, cells, flags)
        names = tuple(sorted(known, key=lambda cell: (numbers[cell], cell)))
    code = {cell: k for k, cell in enumerate(names)}
    return np.array([-1 if cell is None else code[cell] for cell in cells], dtype=np.int64), names


def doubtful_labels(cells: np.ndarray, title: str, place: Place, findings: Findings) -> None:
    """Words that are a problem until the owner says what they are.

    They look like "no label", or differ from others in capitals or blanks alone.
    """
    counts = Counter(cell for cell in cells if cell is not None)

    def problem(kind: Finding, words: Collection[str], rule: str, flag: str, meaning: str) -> None:
        rows = [k for k, cell in enumerate(cells) if cell in words]
        findings.cells(kind, title, place, rows, rule, cells, (flag, f"--classes {_offered(counts)} if {meaning}"))

    if words := [word for word in counts if looks_like_no_value(word)]:
        several = len(words) > 1
        rule = (
            f"must hold classes, got {', '.join(map(shown, words))}, which look{'' if several else 's'} like no label"
        )
        flag = " ".join(f"--unknown {quoted(word)}" for word in words)
        problem(Finding.NO_LABEL_WORDS, words, rule, flag, "they are classes" if several else "it is a class")
    usual: dict[str, str] = {}
    for word in sorted(counts, key=lambda word: (-counts[word], word)):
        usual.setdefault("".join(word.casefold().split()), word)
    if alike := {word: other for word in counts if (other := usual["".join(word.casefold().split())]) != word}:
        word, other = next(iter(alike.items()))
        rule = f"must spell a class in one way, got {shown(word)} beside {shown(other)}"
        flag = " ".join(f"--alias {quoted(f'{word}={other}')}" for word, other in alike.items())
        problem(Finding.SPELLINGS, alike, rule, flag, "they are different classes")


def _offered(words: Collection[str]) -> str:
    """Words as classes that the owner may declare."""
    return quoted(",".join(sorted(words))) if len(words) <= _FEW_WORDS else "a,b,c"


def _number(text: str) -> float | None:
    value = PLAIN.spelled(text)
    return value if value is not None and math.isfinite(value) else None


def parts(cells: np.ndarray, title: str, place: Place, findings: Findings | None = None) -> Split:
    """The split: words train, val (valid, validation), test; an empty cell puts the node in no part."""
    code = np.full(len(cells), -1)
    wrong = []
    for k, cell in enumerate(cells):
        if cell is None:
            continue
        part = _PARTS.get(cell.lower())
        if part is None:
            wrong.append(k)
        else:
            code[k] = part
    if wrong:
        rule = f"must be train, val or test, got {shown(cells[wrong[0]])}"
        flags = (f"--ignore {quoted(title)}",)
        _strict(findings).cells(Finding.SPLIT_WORDS, title, place, wrong, rule, cells, flags)
    return Split(*(np.flatnonzero(code == part) for part in range(3)))


# -- features -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Features:
    """Feature columns as they come out of a table.

    Args:
        values: [n, d], float32 for a graph.
        names: of the d columns.
        rules: those that were given, with what was learned: what the next table is read by.
    """

    values: np.ndarray
    names: tuple[str, ...]
    rules: ColumnRules


def features(
    table: Any,
    titles: Sequence[str],
    place: Place,
    findings: Findings | None = None,
    rules: ColumnRules | None = None,
    precision: type[np.floating[Any]] = np.float32,
) -> Features:
    """The feature columns of a table of Arrow by its rules, as one array. A row of empty cells alone is zero."""
    rules, found = rules or ColumnRules(), _strict(findings)
    columns = {title: _Column.of(table, title, rules) for title in titles}
    lesson = Lesson(titles, rules)
    for title in lesson.titles:
        lesson.take(title, columns[title])
    rules = lesson.rules()
    blank = np.ones(table.num_rows, dtype=bool)
    for column in columns.values():
        blank &= column.missing
    found.note(
        Finding.NO_FEATURES,
        f"{int(blank.sum())} nodes have no features: every cell is empty, and their row is zero",
        int(blank.sum()) if len(titles) else 0,
    )
    arrays: list[np.ndarray] = []
    names: list[str] = []
    for title, column in columns.items():
        reader = _Reader(title, column, blank, place, found, rules)
        made = reader.category() if title in rules.categories else reader.number()
        for name, values in (made or {}).items():  # nothing: a problem was found
            if name in names:
                rule = f"feature names must differ, got {name!r} twice: once from column {title!r}"
                flags = (f"--ignore {quoted(name)}",)
                found.add(Problem(Finding.NEW_COLUMN_NAMES, place(0), rule, flags=flags, column=title))
            names.append(name)
            arrays.append(np.where(blank, 0.0, values).astype(precision))
    values = np.stack(arrays, axis=1) if arrays else np.empty((table.num_rows, 0), precision)
    unscaled = tuple(title for title in titles if title not in rules.categories and rules.range_of(title) is None)
    return Features(values, tuple(names), replace(rules, unscaled=unscaled))


class Lesson:
    """What a table teaches where rules leave it open: the words of categories, and the means that stand for empty cells.

    The table may come in pieces. At node level what was learned is refused (`ColumnRules.undeclared`).

    >>> import pyarrow as pa
    >>> lesson = Lesson(["kind", "age"], ColumnRules(categories={"kind": None}, fills={"age": "indicator"}))
    >>> lesson.read(pa.record_batch({"kind": ["b", "a"], "age": [30.0, None]}))
    >>> lesson.rules().learned_categories, lesson.rules().learned_fills
    ({'kind': ('a', 'b')}, {'age': 30.0})
    """

    def __init__(self, titles: Sequence[str], rules: ColumnRules) -> None:
        self._rules = rules
        self._words: dict[str, set[str]] = {
            title: set() for title in titles if title in rules.categories and rules.words_of(title) is None
        }
        self._sums: dict[str, list[float]] = {
            title: []
            for title in titles
            if title not in rules.categories
            and rules.fill_of(title) == INDICATOR
            and rules.range_of(title) is None
            and title not in rules.learned_fills
        }
        self._counts = dict.fromkeys(self._sums, 0)

    @property
    def titles(self) -> list[str]:
        """The columns that must be looked at; none if all is declared."""
        return [*self._words, *self._sums]

    def read(self, table: Any) -> None:
        """Some rows of all columns that must be looked at."""
        for title in self.titles:
            self.take(title, _Column.of(table, title, self._rules))

    def take(self, title: str, column: _Column) -> None:
        """Some rows of one of them. What is no number is refused where features are read."""
        if title in self._words:
            if len(self._words[title]) <= MAX_CATEGORIES:  # more are refused, and need not be held
                self._words[title].update(word for word in column.words(self._rules) if word is not None)
            return
        values = column.values[~column.missing]
        with np.errstate(over="ignore"):
            known = values[np.isfinite(values.astype(np.float32))]
        self._sums[title].append(math.fsum(known.tolist()))
        self._counts[title] += len(known)

    def rules(self) -> ColumnRules:
        """The rules with what was learned."""
        means = {
            title: float(np.float32(math.fsum(sums) / count)) if (count := self._counts[title]) else 0.0
            for title, sums in self._sums.items()
        }
        words = {title: tuple(sorted(found)) for title, found in self._words.items()}
        return replace(
            self._rules,
            learned_categories={**self._rules.learned_categories, **words},
            learned_fills={**self._rules.learned_fills, **means},
        )


@dataclass(frozen=True, eq=False)
class _Column:
    """A feature column of Arrow.

    ``missing``: empty or blank, or an unknown word; in a column of numbers also the number that such a word spells. ``values``:
    the numbers that cells hold or spell, not a number where they hold none, nor in a column of categories, where ``01`` is not
    ``1``.
    """

    column: Any
    missing: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, table: Any, title: str, rules: ColumnRules) -> _Column:
        import pyarrow as pa
        import pyarrow.compute as pc

        column, category, notation = table.column(title), title in rules.categories, rules.notation_of(title)
        column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        if _is_text(column) and not category and notation == PLAIN:
            trimmed = pc.utf8_trim_whitespace(column)
            if pc.all(pc.match_substring_regex(trimmed, _PLAIN_NUMBER)).as_py():
                column = trimmed.cast(pa.float64())
        missing = np.array(column.is_null(nan_is_null=True))
        unknown = [number for word in rules.unknown if (number := _value(word)) is not None]
        whole = 100.0 if notation.percent else 1.0
        is_number = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating)
        if not category and any(kind(column.type) for kind in is_number):
            # what the loop below gives, without a step for each cell
            values = column.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
            return cls(column, missing | np.isin(values, unknown), values / whole)
        words, cells = {word_of(word) for word in rules.unknown} | {""}, column.to_pylist()
        values = np.full(len(cells), np.nan)
        for k in np.flatnonzero(~missing):
            missing[k] = word_of(cells[k]) in words
            if not category and (value := _value(cells[k], notation)) is not None:
                values[k] = value + 0.0  # -0 is 0, as it is in a column of whole numbers
        return cls(column, missing | np.isin(values, unknown), values / whole)

    def words(self, rules: ColumnRules) -> np.ndarray:
        """Cells as words of categories; None where they are missing."""
        texts = [
            None if gone else word_of(cell) for gone, cell in zip(self.missing, self.column.to_pylist(), strict=True)
        ]
        return np.array([None if text is None else rules.aliases.get(text, text) for text in texts], dtype=object)

    @property
    def is_floating(self) -> bool:
        """Whether an empty cell may have been not a number."""
        import pyarrow as pa

        return bool(pa.types.is_floating(self.column.type))


@dataclass(frozen=True, eq=False)
class _Reader:
    """One feature column on its way to numbers."""

    title: str
    column: _Column
    blank: np.ndarray
    place: Place
    findings: Findings
    rules: ColumnRules

    def number(self) -> dict[str, np.ndarray] | None:
        """The numbers of a column, filled, clipped and scaled; None if there is a problem."""
        title, missing = self.title, self.column.missing & ~self.blank
        values = self._parsed()
        if values is None:
            return None
        found = self.rules.range_of(title)
        if found is None:
            with np.errstate(over="ignore"):  # reported just below, with its place
                unfit = np.flatnonzero(~np.isfinite(values.astype(np.float32)) & ~self.column.missing)
            if len(unfit):
                k = int(unfit[0])
                mends = (f"--range {quoted(title)}=LOW:HIGH", f"--ignore {quoted(title)}")
                self._problem(Finding.NOT_FINITE, unfit, f"must hold {_unfit(values[k])}", mends, values)
                return None
        fill = self.rules.fill_of(title)
        if missing.any() and fill is None:
            flags = (f"--fill {quoted(title)}=indicator", f"--fill {quoted(title)}=VALUE", f"--ignore {quoted(title)}")
            words = "must hold numbers, got an empty cell" + (" (nan)" if self.column.is_floating else "")
            self._problem(Finding.EMPTY_CELLS, np.flatnonzero(missing), words, flags)
            return None
        scaled = self.rules.scaled(title, np.where(self.column.missing, 0.0, values))
        if fill == INDICATOR and found is not None:
            filled = np.where(self.column.missing, 0.5, scaled)
        elif fill == INDICATOR:
            filled = np.where(self.column.missing, self.rules.learned_fills[title], scaled)
        elif fill is not None:
            filled = np.where(self.column.missing, self.rules.scaled(title, np.array([float(fill)])), scaled)
        else:
            filled = scaled
        self._notes(values, missing, filled)
        columns = {title: filled}
        if fill == INDICATOR:
            columns[f"{title}=empty"] = self.column.missing.astype(np.float64)
        return columns

    def category(self) -> dict[str, np.ndarray] | None:
        """A column of 0 and 1 for each category; None if there is a problem."""
        title, missing = self.title, self.column.missing
        words, fill = self.column.words(self.rules), self.rules.fill_of(title)
        known = tuple(self.rules.words_of(title) or ())
        if self.rules.categories[title] is None and len(known) > MAX_CATEGORIES:
            rule = f"must hold at most {MAX_CATEGORIES} categories, got {len(known)}"
            flags = (f"--ignore {quoted(title)}", f"--category {quoted(title)}=a,b,c")
            self.findings.cells(Finding.TOO_MANY_CATEGORIES, title, self.place, [0], rule, known, flags)
            return None
        if fill is not None and fill != INDICATOR:
            word = fill if isinstance(fill, str) else f"{fill:g}"
            words = np.where(missing & ~self.blank, word, words)
        others = [word for word in words if word is not None and word not in known]
        self.findings.note(
            Finding.UNSEEN,
            f"column {title!r}: {len(others)} cells hold none of its categories, such as "
            f"{', '.join(examples_of(others))}: they are 0 everywhere",
            len(others),
            (f"--category {quoted(title)}={','.join(map(str, known))},...",),
            title,
        )
        columns = {f"{title}={word}": (words == word).astype(np.float64) for word in known}
        if fill == INDICATOR:
            columns[f"{title}=empty"] = missing.astype(np.float64)
        elif fill is None:
            empty = int((missing & ~self.blank).sum())
            self.findings.note(
                Finding.FILLED,
                f"column {title!r}: {empty} empty cells belong to no category: they are 0 everywhere",
                empty,
                (f"--fill {quoted(title)}=indicator",),
                title,
            )
        return columns

    def _parsed(self) -> np.ndarray | None:
        title, values = self.title, self.column.values
        wrong = np.flatnonzero(np.isnan(values) & ~self.column.missing)
        if len(wrong) == 0:
            return values
        cells = self.column.column.to_pylist()
        found = [cells[k] for k in wrong]
        if all(_is_date(cell) for cell in found):
            rule = f"must hold numbers, got the date {shown(str(found[0]))}"
            self._problem(Finding.DATES, wrong, rule, (f"--ignore {quoted(title)}",), cells)
            return None
        words = sorted({str(cell).strip() for cell in found})
        empty = [word for word in words if looks_like_no_value(word)]
        # several unknown words need a flag each, and all of them are one line to copy
        unknown = " ".join(f"--unknown {quoted(word)}" for word in (empty or words)[:_FLAGGED_WORDS])
        known = np.count_nonzero(~self.column.missing)
        ways = self._notations([word for word in words if word not in empty])
        flags: tuple[str, ...] = (f"--category {quoted(title)}",) if len(words) <= _FEW_WORDS else ()
        if ways:
            flags = tuple(" ".join([way, unknown] if empty else [way]) for way in ways)
        elif len(empty) == len(words) or (len(wrong) < known / 2 and len(words) <= _FLAGGED_WORDS):
            flags = (unknown,)
        kind = Finding.NUMERALS if ways else Finding.TEXT if len(wrong) == known else Finding.WORDS
        mends = (*flags, f"--ignore {quoted(title)}")
        self._problem(kind, wrong, f"must hold numbers, got {shown(found[0])}", mends, cells)
        return None

    def _notations(self, words: Sequence[str]) -> list[str]:
        """The flags under which all these words are numbers: as other countries write them, or percentages; few flags first.

        Two of them: 1,234 is 1.234 or 1234, and the owner must say which.
        """
        ways = [Notation(mark, percent) for percent in (False, True) for mark in (self.rules.decimal, *MARKS)]
        fit = [way for way in ways if words and all(way.spelled(word) is not None for word in words)]
        flags = [self._notation_flags(way) for way in fit]
        return list(dict.fromkeys(" ".join(some) for some in flags if len(some) == min(map(len, flags))))

    def _notation_flags(self, way: Notation) -> list[str]:
        decimal = [f"--decimal {way.decimal}"] if way.decimal != self.rules.decimal else []
        return decimal + ([f"--percent {quoted(self.title)}"] if way.percent else [])

    def _problem(self, kind: Finding, rows: np.ndarray, rule: str, flags: tuple[str, ...], cells: Any = ()) -> None:
        self.findings.cells(kind, self.title, self.place, rows, rule, cells, flags)

    def _notes(self, values: np.ndarray, missing: np.ndarray, filled: np.ndarray) -> None:
        title, found = self.title, self.rules.range_of(self.title)
        there = values[~self.column.missing]
        if found is not None:
            (low, high), _ = found
            outside = int(((there < low) | (there > high)).sum())
            self.findings.note(
                Finding.OUTSIDE,
                f"column {title!r}: {outside} values are outside {low:g}:{high:g} and are clipped",
                outside,
                column=title,
            )
        self.findings.note(
            Finding.FILLED,
            f"column {title!r}: {int(missing.sum())} empty cells are filled",
            int(missing.sum()),
            column=title,
        )
        known = filled[~self.blank]
        constant = len(known) > 1 and bool((known == known[0]).all())
        self.findings.note(
            Finding.CONSTANT,
            f"column {title!r} is constant: it says nothing",
            int(constant),
            (f"--ignore {quoted(title)}",),
            title,
        )


def _is_date(cell: Any) -> bool:
    return isinstance(cell, datetime.date | np.datetime64) or (
        isinstance(cell, str) and _DATE.fullmatch(cell) is not None
    )


def _unfit(value: float) -> str:
    """The rule that a number breaks, and the number."""
    if math.isinf(value):
        return f"finite numbers, got {value}"
    return f"numbers of at most {np.finfo(np.float32).max:.2g} in size, got {value}"
