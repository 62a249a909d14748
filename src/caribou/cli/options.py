"""Options that several commands take, in one wording, and the graph that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from caribou.cli.command import option, record, repeated, switch
from caribou.errors import InputError

if TYPE_CHECKING:
    from caribou.graph import Graph
    from caribou.privacy.budget import PrivacyUnit
    from caribou.release import NotedLedger
    from caribou.tables.read import Reading, Titles
    from caribou.tables.rules import ColumnRules
    from caribou.tables.sources import Source

EPSILON = option("Epsilon of one release (default: 4; inf for methods without privacy).")
DELTA = option("Delta of one release (default: 1e-05).")
METHOD_UNIT = option("What is protected, of a family such as votes: edge (default) or node. A full name decides it.")
SETTINGS = repeated("A setting of the method, key=value; may be repeated.", "--set", metavar="KEY=VALUE")
NAME = option("The name that a ledger charges (default: the data set, or the file without ending).")
DATA_DIR = option("Folder with <name>.npz files, used before any download.", envvar="CARIBOU_DATA")
PRIOR = option(
    "Edge level: public class probabilities in the place of the fitted encoder, out of fold for labelled nodes: .csv or "
    ".parquet with id and a column per class.",
    metavar="FILE",
)
PAGE = switch("Write the release page, certificate.html, for whoever signs.", needs="--out")
SPEND = switch("Charge a release of its own, although one was made already that costs nothing.")


@record
class LayerOptions:
    """The contractive layer, and what is declared of degrees."""

    contraction: float = option("C_L in (0, 1]: the Lipschitz constant of a layer.", default=0.9)
    alpha1: float = option("Weight of the neighbours; 1 - alpha1 goes to the mean.", default=1.0)
    degree_floor: int | None = option(
        "Public floor F of the normalisation (default: the cap; else 0 at edge level, by n at node level)."
    )
    degree_cap: int | None = option("Cut degrees to M (node level); without it every edge is read.")
    declared_degree: int | None = option(
        "Node level: the headline epsilon is for nodes up to this degree (default: the cap, else all)."
    )


@record
class EntryOptions:
    """The ledger that is charged, and what its next entry says."""

    path: Path | None = option(
        "Charge the cost here before anything is drawn, or refuse.", "--ledger", envvar="CARIBOU_LEDGER"
    )
    purpose: str | None = option("What the release is for, a line in its entry.", needs="--ledger")
    person: str | None = option("Who makes the release, a line in its entry.", needs="--ledger")
    period: str | None = option(
        "The time that the data is about, e.g. 2026-11, for entry and certificate. The date decides which budget pays.",
        needs="--ledger",
    )

    def noted(self, reason: str | None = None) -> NotedLedger | None:
        """The ledger with the words of its next entry."""
        from caribou.release import NotedLedger

        words = {"purpose": self.purpose, "person": self.person, "period": self.period, "reason": reason}
        return None if self.path is None else NotedLedger(self.path, **words)


@record
class LedgerOptions(EntryOptions):
    """The ledger of a release whose graph may have changed since the last one."""

    replace_fingerprint: bool = switch("The graph has changed but is about the same people.", needs="--ledger")
    reason: str | None = option(
        "Why the graph has changed, a line in the history of the ledger.", needs="--replace-fingerprint"
    )

    def noted(self, reason: str | None = None) -> NotedLedger | None:
        """The ledger with the words of its next entry."""
        return super().noted(self.reason)


@record
class QueryOptions:
    """How tables are read whether they fit into memory or not, and the queries that they come from, if not from files."""

    column: tuple[str, ...] = repeated(
        "A column with another title than the default: id, label, split, source or target.", metavar="ROLE=TITLE"
    )
    drop_unknown_ids: bool = switch("Tables: leave out edges with an end that is in no row of nodes.")
    ignore: tuple[str, ...] = repeated("Tables: a column of nodes that is not read.", metavar="COLUMN")
    separator: str | None = option("CSV: the sign between cells, or tab (default: a comma).", metavar="SIGN")
    sql_edges: str | None = option("The edge table as a query, instead of a file.", metavar="SELECT")
    sql_nodes: str | None = option("The node table as a query, with --sql-edges.", metavar="SELECT")
    db: str | None = option(
        "Where queries run: a file of DuckDB or SQLite, or postgresql://... (default: DuckDB on files that they name).",
        envvar="CARIBOU_DB",
        show_envvar=True,
        metavar="DATABASE",
    )

    @property
    def is_sql(self) -> bool:
        """Whether tables come from queries."""
        return self.sql_edges is not None or self.sql_nodes is not None

    @property
    def titles(self) -> Titles:
        """The titles that ``--column`` gives."""
        return column_titles(self.column)

    def rules(self) -> ColumnRules:
        """The rules that the flags declare."""
        from caribou.tables.rules import ColumnRules

        return ColumnRules(ignore=self.ignore, separator=self.separator, drop_unknown_ids=self.drop_unknown_ids)

    def sources(self, edges: str | None, nodes: str | None, flag: str, memory: int | None) -> tuple[Source, Source]:
        """Edges and nodes, each a place or a query. ``flag``: what gives the place of the nodes.

        ``memory``: of the whole process; a database may use a quarter of it.
        """
        from caribou.tables.queries import Query

        found: list[Source] = []
        for word, typed, place, query in (
            ("edges", "--edges", edges, self.sql_edges),
            ("nodes", flag, nodes, self.sql_nodes),
        ):
            if (place is None) == (query is None):
                got = "neither" if place is None else "both"
                raise InputError(f"give either {typed} FILE or --sql-{word} SELECT, got {got}")
            if query is not None:
                found.append(Query(query, self.db, word, None if memory is None else memory // 4))
            elif place is not None:
                found.append(place if "://" in place else Path(place))
        return found[0], found[1]


@record
class TableOptions(QueryOptions):
    """How tables of a graph with attributes are read."""

    unknown: tuple[str, ...] = repeated(
        "Tables: a word that means an empty cell or no label; may be repeated.", metavar="WORD"
    )
    alias: tuple[str, ...] = repeated(
        "Tables: a word of labels or categories that is read as another one: FRAUD=fraud; may be repeated.",
        metavar="WORD=CLASS",
    )
    category: tuple[str, ...] = repeated(
        "Tables: a column of words; each becomes a column of 0 and 1. Node level asks for the words.",
        metavar="COLUMN[=a,b,c]",
    )
    fill: tuple[str, ...] = repeated(
        "Tables: what stands for an empty cell; * is every numeric column.", metavar="COLUMN=VALUE|indicator"
    )
    value_range: tuple[str, ...] = repeated(
        "Tables: clip a numeric column and scale it to [0, 1]; * is every other one. Node level asks for it.",
        "--range",
        metavar="COLUMN=LOW:HIGH",
    )
    log_range: tuple[str, ...] = repeated(
        "Tables: the same on a logarithmic scale, for amounts.", "--log", metavar="COLUMN=LOW:HIGH"
    )
    percent: tuple[str, ...] = repeated(
        "Tables: a column of percentages: 12 and 12 % are 0.12; may be repeated.", metavar="COLUMN"
    )
    decimal: str | None = option(
        "Tables: the decimal mark of numbers in text, a comma or a point; with a comma 1.234,5 is 1234.5.",
        metavar="MARK",
    )
    encoding: str | None = option("CSV: the encoding of files that are not UTF-8, such as latin-1.", metavar="NAME")

    def rules(self) -> ColumnRules:
        """The rules that the flags declare."""
        from caribou.tables.rules import ColumnRules

        categories = dict(_category(text) for text in self.category)
        return ColumnRules(
            unknown=self.unknown,
            aliases=_pairs("alias", "WORD=CLASS", self.alias, "FRAUD=fraud"),
            drop_unknown_ids=self.drop_unknown_ids,
            ignore=self.ignore,
            categories=categories,
            fills={
                title: value if title in categories else _number_or_word(value)
                for title, value in _pairs(
                    "fill", "COLUMN=VALUE or COLUMN=indicator", self.fill, "income=indicator"
                ).items()
            },
            ranges=_ranges("range", self.value_range),
            logs=_ranges("log", self.log_range),
            percent=self.percent,
            decimal=self.decimal,
            separator=self.separator,
            encoding=self.encoding,
        )


def _pairs(flag: str, form: str, texts: Sequence[str], example: str) -> dict[str, str]:
    """Texts with an equals sign, as the option ``flag`` takes them; the last sign counts, for a title may have one, too."""
    found: dict[str, str] = {}
    for text in texts:
        title, _, value = text.rpartition("=")
        if not title.strip() or not value.strip():
            raise InputError(f"{flag} must be {form}, got {text!r} (--{flag} {example})")
        if title in found:
            what = "word" if flag == "alias" else "column"
            raise InputError(f"{flag} must be given once for a {what}, got {title!r} twice (--{flag})")
        found[title] = value.strip()
    return found


def _category(text: str) -> tuple[str, list[str] | None]:
    title, equals, words = text.partition("=")
    if not title.strip():
        raise InputError(f"category must be COLUMN or COLUMN=a,b,c, got {text!r} (--category segment=private,business)")
    return title, [word.strip() for word in words.split(",")] if equals else None


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _ranges(flag: str, texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    form, example = "COLUMN=LOW:HIGH", "amount=0:10000"
    found = {}
    for title, pair in _pairs(flag, form, texts, example).items():
        low, _, high = map(_number_or_word, pair.partition(":"))
        if isinstance(low, str) or isinstance(high, str):
            raise InputError(f"{flag} must be {form}, got {f'{title}={pair}'!r} (--{flag} {example})")
        found[title] = (low, high)
    return found


def column_titles(pairs: Sequence[str]) -> Titles:
    """Titles of columns from pairs ``role=title``."""
    from caribou.tables.read import Titles

    roles = Titles.__dataclass_fields__
    titles: dict[str, str] = {}
    for pair in pairs:
        role, _, title = pair.partition("=")
        if role not in roles or not title:
            raise InputError(f"column must be ROLE=TITLE with a role of {', '.join(roles)}, got {pair!r} (--column)")
        if role in titles:
            raise InputError(f"column must name a role once, got {role} twice")
        titles[role] = title
    return Titles(**titles)


# -- a graph ------------------------------------------------------------------------------------------------------------


@record
class FileOptions:
    """The file of a user's own graph, and how it is read: its node table, its classes, and the rules of tables."""

    graph: Path | None = option("Your own graph: .npz, or an edge table.")
    nodes: str | None = option(
        "The node table that belongs to an edge table; with --edges: of any of its kinds, or s3://..., gs://...",
        metavar="<path>",
    )
    classes: str | None = option(
        "The classes of your own graph, which node level asks for: a,b,c, or their number, or @FILE with one per line."
    )
    tables: TableOptions = TableOptions()

    @property
    def says_how(self) -> bool:
        """Whether there is a word about how a file is read; a database that only the environment names does not count."""
        return self.nodes is not None or self.classes is not None or self.tables != TableOptions(db=self.tables.db)

    @property
    def is_given(self) -> bool:
        """Whether a graph is named."""
        return self.graph is not None or self.tables.is_sql


@record
class GraphOptions:
    """Which graph a command is about: a data set, or the user's own."""

    dataset: str | None = option("A data set by name (see caribou datasets).")
    files: FileOptions = FileOptions()
    data_dir: Path | None = DATA_DIR

    @property
    def is_given(self) -> bool:
        """Whether any graph is named."""
        return self.dataset is not None or self.files.is_given


@dataclass
class GraphSource:
    """The graph that the options name: a data set, a file with its node table and its column titles, or two queries.

    name: what a ledger charges. prior: a file of class probabilities.
    """

    options: GraphOptions
    name: str | None = None
    prior: Path | None = None

    def __enter__(self) -> GraphSource:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def __str__(self) -> str:
        from caribou.tables.queries import shown_database

        tables = self.options.files.tables
        if tables.is_sql:
            return f"queries on {shown_database(tables.db)}"
        return self.options.dataset or str(self.options.files.graph)

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
        from caribou.datasets.prior_table import with_prior_of

        self.check()
        data = self._read(seed, otherwise, unit, saved)
        if self.options.dataset is None and not again:
            warn_of_no_edges(data.num_edges, str(self))
            declared = self.options.files.classes is not None or otherwise is not None
            if declared and data.labels is not None and not (data.labels >= 0).any():
                # mistyped classes would otherwise show in a bad model only
                _warn_owner(f"no label in {self} is one of the declared classes", "private labels")
        if self.prior is not None:
            data = with_prior_of(data, self.prior)
        return data if self.name is None else data.renamed(self.name)

    def inspect(self, unit: PrivacyUnit | None = None) -> Reading:
        """All that is found in the user's own graph, and the graph if there is no problem."""
        from caribou.datasets.files import inspect_tables
        from caribou.tables.inspect import inspection_of
        from caribou.tables.read import Reading

        self.check()
        files = self.options.files
        tables, classes = files.tables, self._classes()
        if tables.is_sql:
            return self._queries(classes, tables.rules(), unit)
        if files.graph is None:
            raise InputError("give --graph FILE, or --sql-edges and --sql-nodes, got neither")
        if not _is_table(files.graph):
            data = self._read(0, None, None, None)
            return Reading(inspection_of(data), data)
        nodes = None if files.nodes is None else Path(files.nodes)
        return inspect_tables(files.graph, nodes, tables.titles, files.graph.stem, classes, tables.rules(), unit)

    def check(self) -> None:
        """What can be said about the options before anything is read: one graph is named, and its files are there."""
        from caribou.datasets import require_name

        files, dataset = self.options.files, self.options.dataset
        tables = files.tables
        if tables.is_sql and (tables.sql_edges is None or tables.sql_nodes is None):
            missing = "sql-edges" if tables.sql_edges is None else "sql-nodes"
            raise InputError(f'{missing} must be given, too, got one query (--{missing} "SELECT ...")')
        if sum((dataset is not None, files.graph is not None, tables.is_sql)) != 1:
            raise InputError("give either --dataset NAME or --graph FILE, or --sql-edges with --sql-nodes")
        if dataset is not None:
            if files.says_how:
                raise InputError("nodes, column, classes and rules of tables must go with --graph, got --dataset")
            require_name(dataset)
        if tables.is_sql and files.nodes is not None:
            raise InputError("nodes must not go with --sql-nodes, got both (--nodes)")
        if files.nodes is not None and "://" in files.nodes:
            raise InputError(
                f"nodes must be a file of this machine without --edges, got {files.nodes!r} (--edges EDGES --nodes NODES)"
            )
        column_titles(tables.column)
        given = [None if file is None else Path(file) for file in (files.graph, files.nodes, self.prior)]
        for name in ("separator", "encoding"):
            value = getattr(tables, name)
            if value is not None and not any(file and file.suffix.lower() == ".csv" for file in given[:2]):
                raise InputError(f"{name} must go with tables in .csv files, got {value!r} without (--{name})")
        for flag, file in zip(("graph", "nodes", "prior"), given, strict=True):
            if file is not None and not file.exists():
                raise InputError(f"{file}: file not found (--{flag})")

    def _classes(self) -> int | list[str] | None:
        given = self.options.files.classes
        return None if given is None else parse_classes(given)

    def _read(
        self, seed: int, otherwise: Sequence[str] | None, unit: PrivacyUnit | None, saved: ColumnRules | None
    ) -> Graph:
        from caribou.datasets import load, read_graph
        from caribou.tables.read import divided

        files = self.options.files
        if self.options.dataset is not None:
            return load(self.options.dataset, data_dir=self.options.data_dir, seed=seed)
        classes = otherwise if files.classes is None else self._classes()
        own = files.tables.rules()
        if files.graph is None:
            rules = own if saved is None else saved.joined(own)
            return divided(self._queries(classes, rules, unit).require(), seed, "nodes")
        titles = files.tables.titles
        return read_graph(
            files.graph,
            files.nodes,
            seed=seed,
            id_column=titles.id,
            label_column=titles.label,
            split_column=titles.split,
            source_column=titles.source,
            target_column=titles.target,
            classes=classes,
            rules=saved.joined(own) if saved is not None and _is_table(files.graph) else own,
            unit=unit,
        )

    def _queries(self, classes: Any, rules: ColumnRules, unit: PrivacyUnit | None) -> Reading:
        from caribou.tables.nodes import read_tables
        from caribou.tables.sources import name_of

        tables = self.options.files.tables
        edges, nodes = tables.sources(None, None, "--nodes", None)
        return read_tables(edges, nodes, tables.titles, self.name or name_of(edges), classes, rules, unit)


def _is_table(file: Path) -> bool:
    from caribou.tables.sources import ENDINGS

    return file.suffix.lower() in ENDINGS


def require_takes_prior(method: str, takes_prior: bool, prior: Path | None) -> None:
    """A file of class probabilities that the method would not read is an error."""
    if prior is not None and not takes_prior:
        raise InputError(
            f"prior must go with a method at edge level that starts from class probabilities, got {method} (--prior)"
        )


def warn_of_no_edges(edges: int, file: str | Path) -> None:
    """That there are none is a fact about the private graph, for no log and no certificate."""
    if edges == 0:
        _warn_owner(f"{file} holds no edges", "the private graph")


def _warn_owner(words: str, about: str) -> None:
    """On stderr, for the owner alone."""
    typer.echo(f"warning: {words} (do not publish this line: it is about {about})", err=True)


def parse_classes(text: str) -> int | list[str]:
    """``a,b,c``, a number of classes, or ``@file`` with a class per line, as an argument of `caribou.read_graph`.

    >>> parse_classes("7"), parse_classes("ill, well")
    (7, ['ill', 'well'])
    """
    from caribou.graph.classes import declared_names

    number = text.strip()
    classes: int | list[str]
    if text.startswith("@"):
        try:
            lines = Path(text[1:]).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, ValueError) as error:
            raise InputError(f"classes must name a file of one class per line, got {text!r}: {error}") from error
        classes = [line.strip() for line in lines if line.strip()]
    elif number.isascii() and number.isdigit():
        classes = int(number)
    else:
        classes = [word.strip() for word in text.split(",")]
    try:
        declared_names(classes)  # here, so that the message names the flag
    except InputError as error:
        raise InputError(f"{error} (--classes a,b,c)") from error
    return classes


def class_words(counts: Mapping[str, int], unlabelled: int) -> str:
    """The classes with how many nodes each has.

    >>> class_words({"fraud": 162, "ok": 4032}, 806)
    'fraud 162, ok 4,032, without a label 806'
    """
    parts = [f"{name} {count:,}" for name, count in counts.items()]
    return ", ".join([*parts, f"without a label {unlabelled:,}"] if unlabelled else parts)
