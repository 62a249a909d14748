"""How the columns of a node table become features: a record that a run keeps, so that the next table is read in the same way.

At node level every cell is private, so nothing may be learned from the table: categories, ranges and fills are declared. At edge
level features are public; categories and fills may be learned, and the values that were learned are kept with the rules.
"""

from __future__ import annotations

import codecs
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from caribou.errors import InputError
from caribou.tables.numerals import MARKS, Notation

EVERY = "*"
"""Stands for every numeric column that has no rule of its own."""
INDICATOR = "indicator"
"""A fill: the middle of the range, and a column that is 1 where the cell is empty."""
MAX_CATEGORIES = 100
"""More different words than this are not learned as categories: they are names, not kinds."""
NO_VALUE = frozenset(
    {
        *(
            "",
            "unknown",
            "unk",
            "undefined",
            "unlabelled",
            "unlabeled",
            "missing",
            "not available",
            "tbd",
            "?",
            "-",
            "--",
        ),
        *("-1", "na", "n/a", "n.a.", "#n/a", "<na>", "nan", "none", "null", "nil", "\\n"),
        *("unbekannt", "k.a.", "k. a.", "inconnu", "n.d.", "desconocido", "sconosciuto"),  # tables of other countries
    }
)
"""Words that look like "no label" or "no value", in lower case."""

_FROM_EDGES = re.compile(
    r"(^|_)(n|num|nr|cnt|count|counts|degree|deg|in_degree|out_degree|partners?|neighbou?rs?|avg|mean|sum|total|pagerank|"
    r"betweenness|centrality|clustering|triangles|transfers|transactions|links|edges)(_|$)"
)
"""Parts of names that columns have if they were computed from edges."""

UNDECLARED = {
    "range": (
        "numeric columns must have a declared range at node level, because one person's value must not decide about a scale, "
        "got {} without",
        "LOW:HIGH",
    ),
    "category": (
        "categories must be declared at node level, because one person's word must not add a column, got {} without values",
        "a,b,c",
    ),
    "fill": (
        "fills must be declared at node level, because one person's value must not decide about a fill, got {} with a fill that "
        "was learned",
        "0",
    ),
}
"""By flag: what node level refuses, with a place for the columns, and what stands after a column in the flag that mends it."""

_APART = (
    (("--range", "--log"), "a column must have a range or a log range"),
    (("--category", "--range"), "a category must have no range"),
    (("--category", "--log"), "a category must have no range"),
    (("--category", "--percent"), "a category must have no percentages"),
    *(
        (("--ignore", flag), "an ignored column must have no other rule")
        for flag in ("--category", "--fill", "--range", "--log", "--percent")
    ),
)
"""Rules that no column may have together."""

Pair = tuple[float, float]


@dataclass(frozen=True)
class ColumnRules:
    """How node tables are read.

    Args:
        unknown: words that mean an empty cell, in labels and in features.
        aliases: words that stand for another one, in labels and categories: ``{"FRAUD": "fraud"}``.
        drop_unknown_ids: leave out edges with an end that is in no row of the node table.
        ignore: columns that are not read.
        categories: columns of words, each with its declared values, or None: learned from the table, which node level refuses. A
            category becomes a column of 0 and 1; a word that is none of them, and an empty cell, is 0 everywhere.
        fills: what stands for an empty cell: a number (a word, for categories), or "indicator".
        ranges: LOW and HIGH of numeric columns: values are clipped to them and scaled to [0, 1].
        logs: the same on a logarithmic scale, log(1 + x - LOW) / log(1 + HIGH - LOW), for amounts.
        percent: columns of percentages: 12 and 12 % are 0.12. Fills and ranges are those of 0.12.
        decimal: the decimal mark of numbers in text, ``,`` or ``.``; thousands may then be set apart. None: plain numbers alone.
        separator: between the cells of a CSV file, ``tab`` for a tab. None: a comma.
        encoding: of CSV files that are not UTF-8, such as ``latin-1``.
        learned_categories, learned_fills: what the reader learned from the table, for the next one.
        unscaled: numeric columns that were read as they are.
        ignored: ignored columns that were there; the next table may lack them.

    The column ``*`` in fills, ranges and logs stands for every numeric column that has no rule of its own.

    >>> rules = ColumnRules(ranges={"age": (18, 95)}, fills={"*": "indicator"})
    >>> rules.scaled("age", np.array([18.0, 200.0])).tolist(), rules.fill_of("income")
    ([0.0, 1.0], 'indicator')
    >>> ColumnRules.from_dict(rules.to_dict()) == rules
    True
    """

    unknown: Sequence[str] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    drop_unknown_ids: bool = False
    ignore: Sequence[str] = ()
    categories: Mapping[str, Sequence[str] | None] = field(default_factory=dict)
    fills: Mapping[str, float | str] = field(default_factory=dict)
    ranges: Mapping[str, Pair] = field(default_factory=dict)
    logs: Mapping[str, Pair] = field(default_factory=dict)
    percent: Sequence[str] = ()
    decimal: str | None = None
    separator: str | None = None
    encoding: str | None = None
    learned_categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    learned_fills: Mapping[str, float] = field(default_factory=dict)
    unscaled: Sequence[str] = ()
    ignored: Sequence[str] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.drop_unknown_ids, bool):
            raise InputError(f"drop_unknown_ids must be true or false, got {self.drop_unknown_ids!r}")
        checked: dict[str, Any] = {
            "aliases": _aliases(_mapping(aliases=self.aliases)),
            "decimal": _decimal(self.decimal),
            "separator": self.separator if self.separator is None else _separator(self.separator),
            "encoding": self.encoding if self.encoding is None else _encoding(self.encoding),
        }
        for name in ("unknown", "ignore", "unscaled", "ignored", "percent"):
            checked[name] = _words(**{name: getattr(self, name)})
        for name, (flag, check) in _OF_COLUMNS.items():
            given = _mapping(**{name: getattr(self, name)})
            checked[name] = {_title(flag, title): check(flag, title, value) for title, value in given.items()}
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        self._check_conflicts()

    def _check_conflicts(self) -> None:
        """A column has one meaning: ignored, a category or a number, with one scale."""
        for flags, what in _APART:
            for title in self._of_flag[flags[0]]:
                if title in self._of_flag[flags[1]]:
                    raise InputError(f"{what}, got {title!r} in {flags[0]} and {flags[1]}")
        for title, value in self.fills.items():
            if isinstance(value, str) and value != INDICATOR and title not in self.categories:
                raise InputError(
                    f"fill of a numeric column must be a number or {INDICATOR}, got {value!r} for {title!r} (--fill {title}=0; "
                    f"if it holds words, declare it with --category {title})"
                )
            words = self.categories.get(title)
            if title in self.categories and words is not None and value != INDICATOR and str(value) not in words:
                raise InputError(
                    f"fill of {title!r} must be one of its categories, got {value!r} (--fill {title}=WORD)"
                )

    @property
    def _of_flag(self) -> dict[str, Iterable[str]]:
        """The columns that rules are about, by the flags that declare them."""
        return {
            "--ignore": self.ignore,
            "--category": self.categories,
            "--fill": self.fills,
            "--range": self.ranges,
            "--log": self.logs,
            "--percent": self.percent,
        }

    # -- what a rule says about a column ---------------------------------------------------------------------------

    def range_of(self, title: str) -> tuple[Pair, bool] | None:
        """LOW and HIGH of a numeric column, and whether its scale is logarithmic; None: it is read as it is."""
        for name in (title, EVERY):
            if name in self.ranges:
                return self.ranges[name], False
            if name in self.logs:
                return self.logs[name], True
        return None

    def fill_of(self, title: str) -> float | str | None:
        """What stands for an empty cell of a column; None: nothing is declared."""
        if title in self.categories:
            return self.fills.get(title)
        return self.fills.get(title, self.fills.get(EVERY))

    def scaled(self, title: str, values: np.ndarray) -> np.ndarray:
        """Numbers clipped to their range and scaled to [0, 1]; as they are where no range is declared. Cell by cell."""
        found = self.range_of(title)
        if found is None:
            return values
        (low, high), logarithmic = found
        inside = np.clip(values, low, high)
        if logarithmic:
            return np.log1p(inside - low) / math.log1p(high - low)
        return (inside - low) / (high - low)

    def notation_of(self, title: str) -> Notation:
        """How the numbers of a column are written where they are text."""
        return Notation(self.decimal, title in self.percent)

    def words_of(self, title: str) -> Sequence[str] | None:
        """The categories of a column, declared or learned before; None: to be learned."""
        declared = self.categories.get(title)
        return self.learned_categories.get(title) if declared is None else declared

    @property
    def titles(self) -> tuple[str, ...]:
        """The columns that the rules name, each once."""
        named = [title for titles in self._of_flag.values() for title in titles]
        return tuple(dict.fromkeys(title for title in named if title != EVERY))

    def flags_of(self, title: str) -> list[str]:
        """The flags whose rules name a column."""
        return [flag for flag, titles in self._of_flag.items() if title in titles]

    def undeclared(self) -> dict[str, tuple[str, ...]]:
        """What node level asks for and was not declared: by flag, the columns."""
        return {
            "range": tuple(self.unscaled),
            "category": tuple(title for title, words in self.categories.items() if words is None),
            "fill": tuple(title for title in self.learned_fills if title not in self.unscaled),
        }

    def require_declared(self) -> None:
        """Refuse rules that node level must not have: one person's cell would decide about a scale or a category."""
        found = [
            f"{undeclared_rule(flag, titles)}: give --{flag} {titles[0]}={UNDECLARED[flag][1]}"
            for flag, titles in self.undeclared().items()
            if titles
        ]
        if found:
            raise InputError("; ".join(found))

    # -- reading in the same way again ------------------------------------------------------------------------------

    def joined(self, more: ColumnRules) -> ColumnRules:
        """These rules and more of them, such as those of a run and those on the command line. A contradiction is an error.

        How a file is written (decimal mark, separator, encoding) is a matter of that file: there the new rules have their way.

        >>> ColumnRules(unknown=["NA"]).joined(ColumnRules(unknown=["?"])).unknown
        ('NA', '?')
        """
        merged: dict[str, Any] = {"drop_unknown_ids": self.drop_unknown_ids or more.drop_unknown_ids}
        for name in ("decimal", "separator", "encoding"):
            merged[name] = getattr(more, name) or getattr(self, name)
        for name in ("unknown", "ignore", "unscaled", "ignored", "percent"):
            merged[name] = tuple(dict.fromkeys((*getattr(self, name), *getattr(more, name))))
        for name in ("aliases", "categories", "fills", "ranges", "logs", "learned_categories", "learned_fills"):
            own, other = getattr(self, name), getattr(more, name)
            for title in own.keys() & other.keys():
                if own[title] != other[title]:
                    what, flag = (
                        ("alias of", "alias") if name == "aliases" else ("rules of column", _OF_COLUMNS[name][0])
                    )
                    raise InputError(
                        f"{what} {title!r} must be those of the run, {own[title]!r}, got {other[title]!r} "
                        f"(leave out --{flag} {title}=...)"
                    )
            merged[name] = {**own, **other}
        return ColumnRules(**merged)

    def same_features(self, other: ColumnRules) -> bool:
        """Whether the same cell becomes the same features under both."""
        return self._encoding() == other._encoding()

    def _encoding(self) -> tuple[Any, ...]:
        words = {title: tuple(self.words_of(title) or ()) for title in self.categories}
        numbers = dict(self.fills), dict(self.learned_fills), dict(self.ranges), dict(self.logs)
        return words, *numbers, frozenset(self.percent)

    # -- JSON -----------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; what is empty is left out."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {name: _plain(value) for name, value in found.items()}
        return {name: value for name, value in plain.items() if value}

    @classmethod
    def from_dict(cls, record: Any) -> ColumnRules:
        """The inverse of `to_dict`; an unknown name is an error."""
        known = {f.name for f in fields(cls)}
        if not isinstance(record, Mapping) or not set(record) <= known:
            raise InputError(f"column rules must have names of {', '.join(sorted(known))}, got {record!r}")
        return cls(**record)


def undeclared_rule(flag: str, titles: Sequence[str]) -> str:
    """What node level asks of these columns, and that they lack it."""
    return UNDECLARED[flag][0].format(", ".join(map(repr, titles)))


def looks_like_no_value(word: str) -> bool:
    """Whether a word looks like "no label": unknown, NA, N/A, ?, None, null, -1.

    >>> [looks_like_no_value(word) for word in ("NA", " n/a", "k.A.", "ok")]
    [True, True, True, False]
    """
    return word.strip().lower() in NO_VALUE


def computed_from_edges(names: Iterable[str]) -> list[str]:
    """Names of features that look as if they had been computed from edges, which the guarantee at edge level excludes.

    >>> computed_from_edges(["age", "degree", "n_transfers", "avg_amount", "partners", "income", "discount"])
    ['degree', 'n_transfers', 'avg_amount', 'partners']
    """
    return [name for name in names if _FROM_EDGES.search(re.sub(r"[\s.-]+", "_", name.strip().lower()))]


# -- checks -------------------------------------------------------------------------------------------------------------


def _mapping(**given: Any) -> Mapping[str, Any]:
    ((name, value),) = given.items()
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must have a value for each column, got {value!r}")
    return value


def _words(**given: Any) -> tuple[str, ...]:
    ((name, words),) = given.items()
    if isinstance(words, str) or not isinstance(words, Iterable):
        raise InputError(f"{name} must be a list of words, got {words!r}")
    found = tuple(words)
    for word in found:
        if not isinstance(word, str) or not word.strip():
            raise InputError(f"{name} must be words that are not empty, got {word!r} (--{name} WORD)")
    return tuple(dict.fromkeys(word.strip() for word in found))


def _aliases(pairs: Mapping[Any, Any]) -> dict[str, str]:
    """Words and what they stand for, in one step: an alias of an alias would depend on an order."""
    for pair in pairs.items():
        for word in pair:
            if not isinstance(word, str) or not word.strip():
                raise InputError(f"alias must be two words that are not empty, got {pair!r} (--alias WORD=CLASS)")
    found = {word.strip(): meant.strip() for word, meant in pairs.items()}
    for word, meant in found.items():
        if meant in found:
            raise InputError(
                f"alias must stand for a word that is no alias itself, got {word!r} for {meant!r} (--alias {word}={found[meant]})"
            )
    return found


def _decimal(mark: Any) -> str | None:
    if mark is not None and mark not in MARKS:
        raise InputError(f"decimal must be a comma or a point, got {mark!r} (--decimal ,)")
    return None if mark is None else str(mark)


def separator_word(separator: str) -> str:
    """A separator as it is typed on the command line.

    >>> separator_word(";"), separator_word("\\t")
    (';', 'tab')
    """
    return "tab" if separator == "\t" else separator


def quoted(word: str) -> str:
    """A word as it is typed on the command line."""
    return shlex.quote(word)


def _separator(sign: Any) -> str:
    if sign in ("tab", "\\t"):
        return "\t"
    if not isinstance(sign, str) or len(sign) != 1 or sign.isalnum() or sign in "\"'\r\n.":
        raise InputError(f"separator must be one sign such as ; or the word tab, got {sign!r} (--separator ';')")
    return sign


def _encoding(name: Any) -> str:
    try:
        codecs.lookup(name)
        "".encode(name)  # an encoding of bytes, such as base64, is none of text
    except (LookupError, TypeError):
        raise InputError(
            f"encoding must be one that Python knows, got {name!r} (--encoding latin-1, cp1252 or utf-16)"
        ) from None
    return str(name)


def _title(flag: str, title: Any) -> str:
    if not isinstance(title, str) or not title.strip():
        raise InputError(f"{flag} must name a column, got {title!r}")
    if title == EVERY and flag == "category":
        raise InputError(f"category must name one column, got {title!r}")
    return title


def _category_words(flag: str, title: str, words: Any) -> tuple[str, ...] | None:
    found = None if words is None else _words(category=words)
    if found == ():
        raise InputError(f"category {title!r} must have values, got none (--category {title}=a,b,c)")
    return found


def _number(flag: str, title: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{flag} of {title!r} must be a number, got {value!r} (--{flag})")
    if not math.isfinite(value):
        raise InputError(f"{flag} of {title!r} must be a finite number, got {value!r} (--{flag})")
    return float(value)


def _fill(flag: str, title: str, value: Any) -> float | str:
    if isinstance(value, str):
        if not value.strip():
            raise InputError(f"fill of {title!r} must be a number, a word or {INDICATOR}, got an empty one")
        return value.strip()
    return _number(flag, title, value)


def _range(flag: str, title: str, pair: Any) -> Pair:
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise InputError(f"{flag} of {title!r} must be LOW and HIGH, got {pair!r} (--{flag} {title}=0:10000)")
    low, high = (_number(flag, title, end) for end in pair)
    if not low < high:
        raise InputError(f"{flag} of {title!r} must have LOW < HIGH, got {low:g}:{high:g} (--{flag} {title}=0:10000)")
    if not math.isfinite(high - low):
        raise InputError(f"{flag} of {title!r} must have a finite width, got {low:g}:{high:g}")
    return low, high


_OF_COLUMNS: Mapping[str, tuple[str, Callable[[str, str, Any], Any]]] = {
    "categories": ("category", _category_words),
    "fills": ("fill", _fill),
    "ranges": ("range", _range),
    "logs": ("log", _range),
    "learned_categories": ("category", lambda flag, title, words: _words(learned=words)),
    "learned_fills": ("fill", _number),
}
"""The rules with a value for each column: the flag, and the check of a value."""


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return list(value) if isinstance(value, tuple) else value
