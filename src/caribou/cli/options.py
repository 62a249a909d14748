"""Options that several commands take, in one wording, and the graph that they name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from caribou.errors import InputError

if TYPE_CHECKING:
    from caribou.engines.sources import SourceRules
    from caribou.graph import Graph
    from caribou.privacy.budget import PrivacyUnit
    from caribou.release import NotedLedger
    from caribou.tables.read import Reading
    from caribou.tables.rules import ColumnRules
    from caribou.tables.sources import Source

GraphFile = Annotated[Path | None, typer.Option(help="Your own graph: .npz, .pt, .graphml, or an edge table.")]
Name = Annotated[
    str | None,
    typer.Option(help="The name that a ledger charges (default: the data set, or the file without ending)."),
]
DataDir = Annotated[
    Path | None, typer.Option(help="Folder with <name>.npz files, used before any download.", envvar="CARIBOU_DATA")
]
PriorFile = Annotated[
    Path | None,
    typer.Option(
        "--prior",
        metavar="FILE",
        help="Edge level: public class probabilities in the place of the fitted encoder, out of fold for labelled nodes: .csv, "
        ".parquet or .npz with id and a column per class.",
        show_default=False,
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        help="What is protected, of a family such as votes: edge (default) or node. A full name decides it.",
        show_default=False,
    ),
]
Page = Annotated[
    bool, typer.Option("--page", help="With --out: write the release page, certificate.html, for whoever signs.")
]
Spend = Annotated[
    bool, typer.Option("--spend", help="Charge a release of its own, although one was made already that costs nothing.")
]
DegreeFloor = Annotated[
    int | None,
    typer.Option(
        help="Public floor F of the normalisation (default: the cap; else 0 at edge level, by n at node level).",
        show_default=False,
    ),
]
DegreeCap = Annotated[int | None, typer.Option(help="Cut degrees to M (node level); without it every edge is read.")]
DeclaredDegree = Annotated[
    int | None,
    typer.Option(help="Node level: the headline epsilon is for nodes up to this degree (default: the cap, else all)."),
]
DropUnknownIds = Annotated[
    bool, typer.Option("--drop-unknown-ids", help="Tables: leave out edges with an end that is in no row of nodes.")
]
Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="COLUMN", help="Tables: a column of nodes that is not read.")
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--separator",
        metavar="SIGN",
        help="CSV: the sign between cells, or tab (default: as the line of titles shows).",
    ),
]
SqlEdges = Annotated[
    str | None, typer.Option("--sql-edges", metavar="SELECT", help="The edge table as a query, instead of a file.")
]
SqlNodes = Annotated[
    str | None, typer.Option("--sql-nodes", metavar="SELECT", help="The node table as a query, with --sql-edges.")
]
Database = Annotated[
    str | None,
    typer.Option(
        "--db",
        envvar="CARIBOU_DB",
        show_envvar=True,
        metavar="DATABASE",
        help="Where queries run: a file of DuckDB or SQLite, or postgresql://... (default: DuckDB on files that they name).",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, everything else on stderr.")]


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with options in the place of each argument that is a record of options (a dataclass, whose fields are options
    or records again): an option that several commands take is written once, in its record.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        parameters += _options(groups[name]) if name in groups else [parameter.replace(annotation=hints[name])]
    ordered = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        records = {name: _record(group, given) for name, group in groups.items()}
        command(**given, **records)

    wrapper.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in ordered} | {"return": None}
    return wrapper


def _options(group: Any) -> list[inspect.Parameter]:
    """The options of a record, those of records in it in their place."""
    hints = get_type_hints(group, include_extras=True)
    found = []
    for f in fields(group):
        if is_dataclass(hints[f.name]):
            found += _options(hints[f.name])
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            found.append(inspect.Parameter(f.name, kind, default=f.default, annotation=hints[f.name]))
    return found


def _record(group: Any, given: dict[str, Any]) -> Any:
    """The record with the values of its options, which are taken out of ``given``."""
    hints = get_type_hints(group, include_extras=True)
    nested = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    return group(
        **{f.name: _record(nested[f.name], given) if f.name in nested else given.pop(f.name) for f in fields(group)}
    )


@dataclass(frozen=True)
class EntryOptions:
    """The ledger that is charged, and what its next entry says."""

    path: Annotated[
        Path | None,
        typer.Option(
            "--ledger", envvar="CARIBOU_LEDGER", help="Charge the cost here before anything is drawn, or refuse."
        ),
    ] = None
    purpose: Annotated[
        str | None, typer.Option(help="With --ledger: what the release is for, a line in its entry.")
    ] = None
    person: Annotated[str | None, typer.Option(help="With --ledger: who makes the release, a line in its entry.")] = (
        None
    )
    period: Annotated[
        str | None,
        typer.Option(
            help="With --ledger: the time that the data is about, e.g. 2026-11, for entry and certificate. The date decides "
            "which budget pays.",
        ),
    ] = None

    def noted(self, reason: str | None = None) -> NotedLedger | None:
        """The ledger with the words of its next entry; words without a ledger are an error."""
        from caribou.release import NotedLedger

        if self.path is not None:
            return NotedLedger(self.path, self.purpose, self.person, self.period, reason)
        words = {"purpose": self.purpose, "person": self.person, "period": self.period, "reason": reason}
        lost = [f"--{word}" for word, value in words.items() if value is not None]
        if lost:
            raise InputError(f"{', '.join(lost)} must go with --ledger, got none")
        return None


@dataclass(frozen=True)
class LedgerOptions:
    """The ledger of a release whose graph may have changed since the last one."""

    entry: EntryOptions = field(default_factory=EntryOptions)
    replace_fingerprint: Annotated[
        bool,
        typer.Option(
            "--replace-fingerprint", help="With --ledger: the graph has changed but is about the same people."
        ),
    ] = False
    reason: Annotated[
        str | None,
        typer.Option(
            help="With --replace-fingerprint: why the graph has changed, a line in the history of the ledger."
        ),
    ] = None

    @property
    def path(self) -> Path | None:
        """Where the ledger lies."""
        return self.entry.path

    def noted(self) -> NotedLedger | None:
        """The ledger with the words of its next entry; a reason goes with a graph that has changed."""
        found = self.entry.noted(self.reason)
        if self.reason is not None and not self.replace_fingerprint:
            raise InputError(f"reason must go with --replace-fingerprint, got {self.reason!r} without")
        return found


ROLES = ("id", "label", "split", "source", "target")


@dataclass(frozen=True)
class TableOptions:
    """How tables are read, and the queries that they come from, if not from files. The fields are the options of a command."""

    unknown: Annotated[
        list[str] | None,
        typer.Option(
            "--unknown", metavar="WORD", help="Tables: a word that means an empty cell or no label; may be repeated."
        ),
    ] = None
    alias: Annotated[
        list[str] | None,
        typer.Option(
            "--alias",
            metavar="WORD=CLASS",
            help="Tables: a word of labels or categories that is read as another one: FRAUD=fraud; may be repeated.",
        ),
    ] = None
    drop_unknown_ids: DropUnknownIds = False
    ignore: Ignore = None
    category: Annotated[
        list[str] | None,
        typer.Option(
            "--category",
            metavar="COLUMN[=a,b,c]",
            help="Tables: a column of words; each becomes a column of 0 and 1. Node level asks for the words.",
        ),
    ] = None
    fill: Annotated[
        list[str] | None,
        typer.Option(
            "--fill",
            metavar="COLUMN=VALUE|indicator",
            help="Tables: what stands for an empty cell; * is every numeric column.",
        ),
    ] = None
    value_range: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="COLUMN=LOW:HIGH",
            help="Tables: clip a numeric column and scale it to [0, 1]; * is every other one. Node level asks for it.",
        ),
    ] = None
    log_range: Annotated[
        list[str] | None,
        typer.Option("--log", metavar="COLUMN=LOW:HIGH", help="Tables: the same on a logarithmic scale, for amounts."),
    ] = None
    percent: Annotated[
        list[str] | None,
        typer.Option(
            "--percent",
            metavar="COLUMN",
            help="Tables: a column of percentages: 12 and 12 % are 0.12; may be repeated.",
        ),
    ] = None
    decimal: Annotated[
        str | None,
        typer.Option(
            "--decimal",
            metavar="MARK",
            help="Tables: the decimal mark of numbers in text, a comma or a point; with a comma 1.234,5 is 1234.5.",
        ),
    ] = None
    separator: Separator = None
    encoding: Annotated[
        str | None,
        typer.Option(
            "--encoding", metavar="NAME", help="CSV: the encoding of files that are not UTF-8, such as latin-1."
        ),
    ] = None
    sql_edges: SqlEdges = None
    sql_nodes: SqlNodes = None
    db: Database = None

    @property
    def is_sql(self) -> bool:
        """Whether tables come from queries."""
        return self.sql_edges is not None or self.sql_nodes is not None

    @property
    def is_given(self) -> bool:
        """Whether any of the options was given; a database that only the environment names does not count."""
        return self.is_sql or any(getattr(self, f.name) for f in fields(self) if f.name != "db")

    def rules(self) -> ColumnRules:
        """The rules that the flags declare."""
        from caribou.tables.rules import ColumnRules

        categories = dict(_category(text) for text in self.category or ())
        return ColumnRules(
            unknown=self.unknown or (),
            aliases=_once("alias", [_alias(text) for text in self.alias or ()]),
            drop_unknown_ids=self.drop_unknown_ids,
            ignore=self.ignore or (),
            categories=categories,
            fills=_once("fill", [_fill(text, categories) for text in self.fill or ()]),
            ranges=_once("range", [_range("range", text) for text in self.value_range or ()]),
            logs=_once("log", [_range("log", text) for text in self.log_range or ()]),
            percent=self.percent or (),
            decimal=self.decimal,
            separator=self.separator,
            encoding=self.encoding,
        )


@dataclass(frozen=True)
class SourceOptions:
    """Tables that are read in pieces: where they are, or the queries that they come from, and how they are read."""

    edges: Annotated[
        str | None,
        typer.Option(
            help="Pairs of ids or of row numbers: .npy, .parquet, .csv, a folder of them, a Delta table; a path or s3://..., "
            "gs://...",
            show_default=False,
        ),
    ] = None
    features: Annotated[
        str | None,
        typer.Option(help="One row per node, of the same kinds; with a column of ids, or without.", show_default=False),
    ] = None
    column: Annotated[
        list[str] | None,
        typer.Option(help="A column with another title than the default, ROLE=TITLE: id, source or target."),
    ] = None
    drop_unknown_ids: DropUnknownIds = False
    ignore: Ignore = None
    separator: Separator = None
    sql_edges: SqlEdges = None
    sql_nodes: SqlNodes = None
    db: Database = None

    def sources(self, memory: int | None = None) -> tuple[Source, Source]:
        """Edges and nodes. ``memory``: of the whole process; a database may use a quarter of it."""
        return given_sources(
            {"edges": (self.edges, self.sql_edges), "features": (self.features, self.sql_nodes)}, self.db, memory
        )

    def rules(self) -> SourceRules:
        """How the tables are read."""
        from caribou.engines.sources import SourceRules
        from caribou.tables.rules import ColumnRules

        titles = column_titles(self.column or ())
        other = sorted(set(titles) - {"id_column", "source_column", "target_column"})
        if other:
            role = other[0].removesuffix("_column")
            raise InputError(f"column must name the id, the source or the target here, got {role!r} (--column)")
        return SourceRules(
            id=titles.get("id_column"),
            source=titles.get("source_column"),
            target=titles.get("target_column"),
            ignore=tuple(self.ignore or ()),
            separator=ColumnRules(separator=self.separator).separator,
            drop_unknown_ids=self.drop_unknown_ids,
        )


def given_sources(
    given: Mapping[str, tuple[str | None, str | None]], database: str | None, memory: int | None
) -> tuple[Source, Source]:
    """Edges and nodes, each a place by its flag or a query. ``memory``: of the whole process; a database may use a quarter."""
    from caribou.tables.queries import StreamedQuery

    found: list[Source] = []
    for word, (flag, (place, query)) in zip(("edges", "nodes"), given.items(), strict=True):
        if (place is None) == (query is None):
            got = "neither" if place is None else "both"
            raise InputError(f"give either --{flag} FILE or --sql-{word} SELECT, got {got}")
        if query is not None:
            found.append(StreamedQuery(query, database, word, None if memory is None else memory // 4))
        elif place is not None:
            found.append(place if "://" in place else Path(place))
    return found[0], found[1]


@dataclass(frozen=True)
class FileOptions:
    """How the file of a graph is read: its node table, the titles of its columns, its classes, and the rules of tables."""

    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="<path>",
            help="The node table that belongs to an edge table; with --edges: of any of its kinds, or s3://..., gs://...",
        ),
    ] = None
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="A column with another title than the default, ROLE=TITLE: id, label, split, source or target."
        ),
    ] = None
    classes: Annotated[
        str | None,
        typer.Option(
            help="The classes of your own graph, which node level asks for: a,b,c, or their number, or @FILE with one per "
            "line.",
            show_default=False,
        ),
    ] = None
    tables: TableOptions = field(default_factory=TableOptions)

    @property
    def is_given(self) -> bool:
        """Whether any of the options was given."""
        return self.nodes is not None or bool(self.column) or self.classes is not None or self.tables.is_given

    def source(self, graph: Path | None, **others: Any) -> GraphSource:
        """The graph in this file, read so; ``others`` as in `GraphSource`."""
        if self.nodes is not None and "://" in self.nodes:
            raise InputError(
                f"nodes must be a file of this machine without --edges, got {self.nodes!r} (--edges EDGES --nodes NODES)"
            )
        nodes = None if self.nodes is None else Path(self.nodes)
        own: dict[str, Any] = {"nodes": nodes, "columns": self.column or (), "classes": self.classes}
        return GraphSource(graph=graph, tables=self.tables, **own, **others)


@dataclass(frozen=True)
class GraphOptions:
    """Which graph a command is about: a data set, or the user's own."""

    dataset: Annotated[str | None, typer.Option(help="A data set by name (see caribou datasets).")] = None
    graph: GraphFile = None
    files: FileOptions = field(default_factory=FileOptions)
    data_dir: DataDir = None

    def source(self, name: str | None = None) -> GraphSource:
        """The graph; ``name``: what a ledger charges."""
        return self.files.source(self.graph, dataset=self.dataset, data_dir=self.data_dir, name=name)


def _alias(text: str) -> tuple[str, str]:
    word, equals, meant = text.partition("=")
    if not equals or not word.strip() or not meant.strip():
        raise InputError(f"alias must be WORD=CLASS, got {text!r} (--alias FRAUD=fraud)")
    return word.strip(), meant.strip()


def _category(text: str) -> tuple[str, list[str] | None]:
    title, equals, words = text.partition("=")
    if not title.strip():
        raise InputError(f"category must be COLUMN or COLUMN=a,b,c, got {text!r} (--category segment=private,business)")
    return title, [word.strip() for word in words.split(",")] if equals else None


def _fill(text: str, categories: dict[str, list[str] | None]) -> tuple[str, float | str]:
    title, equals, value = text.rpartition("=")
    if not equals or not title.strip() or not value.strip():
        raise InputError(f"fill must be COLUMN=VALUE or COLUMN=indicator, got {text!r} (--fill income=indicator)")
    try:
        return title, value.strip() if title in categories else float(value)
    except ValueError:
        return title, value.strip()


def _range(flag: str, text: str) -> tuple[str, tuple[float, float]]:
    title, equals, pair = text.rpartition("=")
    low, colon, high = pair.partition(":")
    try:
        if not equals or not title.strip() or not colon:
            raise ValueError
        return title, (float(low), float(high))
    except ValueError:
        raise InputError(f"{flag} must be COLUMN=LOW:HIGH, got {text!r} (--{flag} amount=0:10000)") from None


def _once(flag: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for title, value in pairs:
        if title in found:
            what = "word" if flag == "alias" else "column"
            raise InputError(f"{flag} must be given once for a {what}, got {title!r} twice (--{flag})")
        found[title] = value
    return found


@dataclass(frozen=True)
class GraphSource:
    """Which graph the options name: a data set, a file with its node table and its column titles, or two queries."""

    dataset: str | None = None
    graph: Path | None = None
    nodes: Path | None = None
    columns: Sequence[str] = ()
    name: str | None = None
    data_dir: Path | None = None
    classes: str | None = None
    tables: TableOptions = field(default_factory=TableOptions)
    prior: Path | None = None

    def __enter__(self) -> GraphSource:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def __str__(self) -> str:
        if self.tables.is_sql:
            from caribou.tables.queries import shown_database

            return f"queries on {shown_database(self.tables.db)}"
        return self.dataset or str(self.graph)

    @property
    def is_given(self) -> bool:
        """Whether any graph is named."""
        return self.dataset is not None or self.graph is not None or self.tables.is_sql

    def load(
        self,
        seed: int = 0,
        *,
        again: bool = False,
        otherwise: Sequence[str] | None = None,
        unit: PrivacyUnit | None = None,
        saved: ColumnRules | None = None,
    ) -> Graph:
        """Read it; ``seed`` draws the split where the file has none. ``again``: what was warned of before is not said twice.

        ``otherwise``: the classes of a file for which none are given, as a model knows them. ``unit``: what will be protected.
        ``saved``: the column rules of a run, to which flags may add.
        """
        from caribou.datasets import load

        self.check()
        if self.dataset is not None:
            data = load(self.dataset, data_dir=self.data_dir, seed=seed)
        else:
            data = self._own_graph(seed, otherwise, unit, saved)
            if not again:
                warn_of_no_edges(data.num_edges, str(self))
                if (self.classes is not None or otherwise is not None) and data.labels is not None:
                    _warn_of_no_labels(bool((data.labels >= 0).any()), str(self))
        if self.prior is not None:
            from caribou.datasets.prior_table import with_prior_of

            data = with_prior_of(data, self.prior)
        return data if self.name is None else data.renamed(self.name)

    def inspect(self, unit: PrivacyUnit | None = None) -> Reading:
        """All that is found in the user's own graph, and the graph if there is no problem."""
        from caribou.datasets import read_graph
        from caribou.datasets.files import inspect_tables
        from caribou.tables.files import ENDINGS
        from caribou.tables.inspect import inspection_of
        from caribou.tables.read import Reading, Titles

        self.check()
        titles = column_titles(self.columns)
        classes = None if self.classes is None else parse_classes(self.classes)
        roles = Titles(**{role: titles.get(f"{role}_column") for role in ROLES})
        if self.tables.is_sql:
            return self._queries(roles, classes, self.tables.rules(), unit)
        if self.graph is None:
            raise InputError("give --graph FILE, or --sql-edges and --sql-nodes, got neither")
        if self.graph.suffix.lower() not in (*ENDINGS, ".graphml"):
            rules = self.tables.rules() if self.tables.is_given else None
            data = read_graph(self.graph, self.nodes, classes=classes, rules=rules, **titles)  # type: ignore[arg-type]
            return Reading(inspection_of(data), data)
        return inspect_tables(self.graph, self.nodes, roles, self.graph.stem, classes, self.tables.rules(), unit)

    def check(self) -> None:
        """What can be said about the options before anything is read: one graph is named, and its files are there."""
        if self.tables.is_sql and (self.tables.sql_edges is None or self.tables.sql_nodes is None):
            missing = "sql-edges" if self.tables.sql_edges is None else "sql-nodes"
            raise InputError(f'{missing} must be given, too, got one query (--{missing} "SELECT ...")')
        if sum((self.dataset is not None, self.graph is not None, self.tables.is_sql)) != 1:
            raise InputError("give either --dataset NAME or --graph FILE, or --sql-edges with --sql-nodes")
        own = self.nodes is not None or self.columns or self.classes is not None or self.tables.is_given
        if self.dataset is not None and own:
            raise InputError("nodes, column, classes and rules of tables must go with --graph, got --dataset")
        if self.dataset is not None:
            from caribou.datasets import require_name

            require_name(self.dataset)
        if self.tables.is_sql and self.nodes is not None:
            raise InputError("nodes must not go with --sql-nodes, got both (--nodes)")
        column_titles(self.columns)
        self._check_csv()
        for flag, file in (("graph", self.graph), ("nodes", self.nodes), ("prior", self.prior)):
            if file is not None and not file.exists():
                raise InputError(f"{file}: file not found (--{flag})")

    def _check_csv(self) -> None:
        """How a CSV file is written says nothing about other sources."""
        given = {"separator": self.tables.separator, "encoding": self.tables.encoding}
        for name, value in given.items():
            if value is not None and not any(
                file is not None and file.suffix.lower() == ".csv" for file in (self.graph, self.nodes)
            ):
                raise InputError(f"{name} must go with tables in .csv files, got {value!r} without (--{name})")

    def _own_graph(
        self, seed: int, otherwise: Sequence[str] | None, unit: PrivacyUnit | None, saved: ColumnRules | None
    ) -> Graph:
        from caribou.datasets import read_graph
        from caribou.tables.read import Titles, divided

        classes = otherwise if self.classes is None else parse_classes(self.classes)
        rules = self.tables.rules() if saved is None else saved.joined(self.tables.rules())
        titles = column_titles(self.columns)
        if self.graph is not None:
            from caribou.tables.files import ENDINGS

            keywords: dict[str, Any] = {**titles}
            of_table = self.graph.suffix.lower() in (*ENDINGS, ".graphml")
            if self.tables.is_given or (saved is not None and of_table):
                keywords["rules"] = rules
            return read_graph(self.graph, self.nodes, seed=seed, classes=classes, unit=unit, **keywords)
        roles = Titles(**{role: titles.get(f"{role}_column") for role in ROLES})
        reading = self._queries(roles, classes, rules, unit)
        return divided(reading.require(), seed, "nodes")

    def _queries(self, titles: Any, classes: Any, rules: ColumnRules, unit: PrivacyUnit | None) -> Reading:
        from caribou.tables.queries import read_queries

        edges, nodes = str(self.tables.sql_edges), str(self.tables.sql_nodes)
        return read_queries(edges, nodes, self.tables.db, titles, self.name, classes, rules, unit)


def require_takes_prior(method: str, takes_prior: bool, prior: Path | None) -> None:
    """A file of class probabilities that the method would not read is an error."""
    if prior is not None and not takes_prior:
        raise InputError(
            f"prior must go with a method at edge level that starts from class probabilities, got {method} (--prior)"
        )


def warn_of_no_edges(edges: int, file: str | Path) -> None:
    """On stderr, for the owner alone: that there are none is a fact about the private graph, for no log and no certificate."""
    if edges == 0:
        typer.echo(
            f"warning: {file} holds no edges (do not publish this line: it is about the private graph)", err=True
        )


def _warn_of_no_labels(known: bool, file: str) -> None:
    """On stderr, for the owner alone: mistyped classes would otherwise show in a bad model only."""
    if not known:
        typer.echo(
            f"warning: no label in {file} is one of the declared classes (do not publish this line: it is about private labels)",
            err=True,
        )


def parse_classes(text: str) -> int | list[str]:
    """``a,b,c``, a number of classes, or ``@file`` with a class per line, as an argument of `caribou.read_graph`.

    >>> parse_classes("7"), parse_classes("ill, well")
    (7, ['ill', 'well'])
    """
    if text.startswith("@"):
        try:
            lines = Path(text[1:]).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, ValueError) as error:
            raise InputError(f"classes must name a file of one class per line, got {text!r}: {error}") from error
        return _checked_classes([line.strip() for line in lines if line.strip()])
    number = text.strip()
    found = int(number) if number.isascii() and number.isdigit() else [word.strip() for word in text.split(",")]
    return _checked_classes(found)


def _checked_classes(classes: int | list[str]) -> int | list[str]:
    """The classes, checked here so that the message names the flag."""
    from caribou.graph.classes import declared_names

    try:
        declared_names(classes)
    except InputError as error:
        raise InputError(f"{error} (--classes a,b,c)") from error
    return classes


def column_titles(pairs: Sequence[str]) -> dict[str, str]:
    """``role=title`` pairs as arguments of `caribou.read_graph`."""
    titles: dict[str, str] = {}
    for pair in pairs:
        role, _, title = pair.partition("=")
        if role not in ROLES or not title:
            raise InputError(f"column must be ROLE=TITLE with a role of {', '.join(ROLES)}, got {pair!r} (--column)")
        if f"{role}_column" in titles:
            raise InputError(f"column must name a role once, got {role} twice")
        titles[f"{role}_column"] = title
    return titles


def class_words(counts: Mapping[str, int], unlabelled: int) -> str:
    """The classes with how many nodes each has.

    >>> class_words({"fraud": 162, "ok": 4032}, 806)
    'fraud 162, ok 4,032, without a label 806'
    """
    parts = [f"{name} {count:,}" for name, count in counts.items()]
    return ", ".join([*parts, f"without a label {unlabelled:,}"] if unlabelled else parts)
