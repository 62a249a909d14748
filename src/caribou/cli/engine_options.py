"""Options of training on an engine: tables of any size, and who holds the edges."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from caribou.cli.options import (
    ROLES,
    GraphOptions,
    GraphSource,
    column_titles,
    given_sources,
    parse_classes,
    warn_of_no_edges,
)
from caribou.errors import InputError

if TYPE_CHECKING:
    from caribou.engines.training_tables import TrainingTables
    from caribou.graph import Graph
    from caribou.privacy.budget import PrivacyUnit
    from caribou.tables.rules import ColumnRules
    from caribou.tables.sources import Source


@dataclass(frozen=True)
class EngineOptions:
    """Tables that need not fit into memory, and the engine that holds their edges. The fields are the options of a command."""

    edges: Annotated[
        str | None,
        typer.Option(
            help="Large graphs, with --nodes: pairs of ids of the node table, or of its row numbers: .npy, .parquet, .csv, a "
            "folder of them, a Delta table; a path or s3://..., gs://...",
            show_default=False,
        ),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(
            help="Large graphs: local (edges in memory), outofcore (edges on disk) or ray (edges with workers); for votes-edp, "
            "caribou-edp, caribou-inf and mlp (default with --edges: local).",
            show_default=False,
        ),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(help="With outofcore: memory of the whole process, e.g. 4GB, from 512MiB on (default: no limit)."),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            help="With local or ray: blocks that are worked on at a time (default: one per processor).",
            show_default=False,
        ),
    ] = None
    address: Annotated[str | None, typer.Option(help="With ray: auto or ray://HOST:PORT (default: this machine).")] = (
        None
    )

    @property
    def is_given(self) -> bool:
        """Whether any of the options was given."""
        return any(getattr(self, f.name) is not None for f in fields(self))


NO_ENGINE = EngineOptions()
"""No option of an engine is given: the graph is read into memory."""


def graph_of(
    engine: EngineOptions, graph: GraphOptions, name: str | None, prior: Path | None, work: Path | None, method: str
) -> GraphSource | EngineSource:
    """Where the graph comes from: the tables of an engine, if one is asked for. ``work``: where blocks may lie on disk."""
    if not engine.is_given:
        return replace(graph.source(name), prior=prior)
    return EngineSource(engine, graph, name, prior, work, method)


@dataclass
class EngineSource:
    """A graph on an engine; what `GraphSource` is to a graph in memory. It holds its blocks until the context ends."""

    engine: EngineOptions
    options: GraphOptions
    name: str | None
    prior: Path | None
    work: Path | None
    method: str
    _opened: ExitStack = field(default_factory=ExitStack)
    _graph: Graph | None = None

    def __str__(self) -> str:
        from caribou.tables.queries import shown_database

        tables = self.options.files.tables
        queries = f"queries on {shown_database(tables.db)}" if tables.is_sql else None
        return str(self.engine.edges or queries or self.options.graph)

    def __enter__(self) -> EngineSource:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def check(self) -> None:
        """What can be said about the options before anything is read."""
        tables = self._tables()
        given = {"edges": tables.edges, "nodes": tables.nodes, "prior": self.prior}
        for flag, file in given.items():
            if isinstance(file, Path) and not file.exists():
                raise InputError(f"{file}: file not found (--{flag})")

    def load(
        self,
        seed: int = 0,
        *,
        again: bool = False,
        otherwise: Sequence[str] | None = None,
        unit: PrivacyUnit | None = None,
        saved: ColumnRules | None = None,
    ) -> Graph:
        """The graph with the split of its table, or the one that ``seed`` draws, as `GraphSource.load`. Tables are read once.

        ``saved``: the column rules of a run, to which flags may add.
        """
        from caribou.engines.training_tables import training_graph
        from caribou.tables.read import divided

        if self._graph is None:
            tables = self._tables()
            classes = otherwise if tables.classes is None else tables.classes
            rules = tables.rules if saved is None else saved.joined(tables.rules)
            tables = replace(tables, rules=rules, classes=classes)
            self._graph = self._opened.enter_context(training_graph(tables))
        if not again:
            warn_of_no_edges(self._graph.num_edges, str(self))
        data = divided(self._graph, seed, str(self))
        if self.prior is not None:
            from caribou.datasets.prior_table import with_prior_of

            data = with_prior_of(data, self.prior)
        return data

    def _tables(self) -> TrainingTables:
        from caribou.cli.propagate import parse_size
        from caribou.engines.training_tables import TrainingTables
        from caribou.methods import method_info
        from caribou.tables.read import Titles
        from caribou.tables.sources import name_of

        engine = self.engine.engine or "local"
        method_info(self.method).check_engine(self.method, engine)
        if engine == "outofcore" and self.engine.workers is not None:
            raise InputError(
                f"workers must go with the engine local or ray, got outofcore with {self.engine.workers} (--workers): it works "
                "on one block at a time"
            )
        memory = None if self.engine.memory is None else parse_size(self.engine.memory)
        edges, nodes = self._sources(memory)
        titles = column_titles(self.options.files.column or ())
        rules = self.options.files.tables.rules()
        if rules.encoding is not None:
            raise InputError(
                f"encoding must be UTF-8 where tables are read in pieces, got {rules.encoding!r}: write UTF-8 or Parquet, "
                "or read them in memory (--graph EDGES --nodes NODES without --engine)"
            )
        classes = self.options.files.classes
        return TrainingTables(
            edges,
            nodes,
            engine,
            memory,
            os.cpu_count() or 1 if self.engine.workers is None else self.engine.workers,
            self.engine.address,
            name=self.name or (name_of(edges) if self.options.graph is None else self.options.graph.resolve().name),
            titles=Titles(**{role: titles.get(f"{role}_column") for role in ROLES}),
            rules=rules,
            classes=None if classes is None else parse_classes(classes),
            work=self.work,
        )

    def _sources(self, memory: int | None) -> tuple[Source, Source]:
        """Edges and nodes: tables, queries, or a folder of arrays."""
        files, folder = self.options.files, self.options.graph
        if self.options.dataset is None and folder is None:
            tables = files.tables
            return given_sources(
                {"edges": (self.engine.edges, tables.sql_edges), "nodes": (files.nodes, tables.sql_nodes)},
                tables.db,
                memory,
            )
        from caribou.datasets.arrays import EDGES, is_array_folder

        others = (self.options.dataset, self.engine.edges, files.nodes)
        if folder is not None and others == (None, None, None) and not files.tables.is_sql and is_array_folder(folder):
            return folder / EDGES, folder
        raise InputError(
            "engine must go with --edges and --nodes, with --sql-edges and --sql-nodes, or with --graph FOLDER of arrays, got "
            f"{self._other_source()}"
        )

    def _other_source(self) -> str:
        """What was given in the place of tables, and what to give."""
        folder, edges = self.options.graph, self.engine.edges
        if self.options.dataset is not None:
            return f"--dataset {self.options.dataset}"
        if edges is not None:
            return f"both --graph {folder} and --edges {edges}: leave one out"
        if folder is not None and folder.is_file():
            return f"--graph {folder}, which is a file: give --edges {folder}"
        if self.options.files.nodes is not None or self.options.files.tables.is_sql:
            return f"--graph {folder} and another table: leave one out"
        return f"--graph {folder}, where no edges.npy lies"
