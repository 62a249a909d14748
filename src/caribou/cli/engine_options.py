"""Options of engines: tables of any size, and who holds the edges."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from caribou.cli.command import option, record
from caribou.cli.options import FileOptions, GraphOptions, GraphSource, parse_classes
from caribou.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from caribou.engines.training_tables import TrainingTables
    from caribou.graph import Graph
    from caribou.model.estimator import Model
    from caribou.privacy.budget import PrivacyUnit
    from caribou.tables.rules import ColumnRules
    from caribou.tables.sources import Source

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@record
class EngineOptions:
    """Tables that need not fit into memory, and the engine that holds their edges."""

    edges: str | None = option(
        "Large graphs: pairs of ids of the node table, or of its row numbers: .npy, .parquet, .csv, a folder of them; a path "
        "or s3://..., gs://..."
    )
    engine: str | None = option(
        "Large graphs: local (in memory), outofcore (edges on disk) or ray (edges with workers); to train, for votes-edp, "
        "caribou-edp, caribou-inf and mlp (default with --edges: local)."
    )
    memory: str | None = option(
        "With outofcore: memory of the whole process, e.g. 4GB, from 512MiB on (default: no limit)."
    )
    workers: int | None = option("With local or ray: blocks that are worked on at a time (default: one per processor).")
    address: str | None = option("With ray: auto or ray://HOST:PORT (default: this machine).")

    @property
    def is_given(self) -> bool:
        """Whether any of the options was given."""
        return self != EngineOptions()

    @property
    def name(self) -> str:
        """The engine."""
        return self.engine or "local"

    @property
    def bytes(self) -> int | None:
        """Of memory for the whole process; None: no limit."""
        return None if self.memory is None else parse_size(self.memory)

    @property
    def count(self) -> int:
        """Of workers."""
        return os.cpu_count() or 1 if self.workers is None else self.workers


NO_ENGINE = EngineOptions()
"""No option of an engine is given: the graph is read into memory."""


def graph_of(
    engine: EngineOptions, graph: GraphOptions, name: str | None, prior: Path | None, work: Path | None, method: str
) -> GraphSource:
    """Where the graph comes from: the tables of an engine, if one is asked for. ``work``: where blocks may lie on disk."""
    if not engine.is_given:
        return GraphSource(graph, name, prior)
    return EngineSource(graph, name, prior, engine, work, method)


@contextmanager
def graph_like(
    model: Model,
    engine: EngineOptions,
    files: FileOptions,
    name: str | None,
    prior: Path | None,
    out: Path,
    *,
    own_classes: bool = False,
) -> Iterator[Graph]:
    """Another graph than a model's own, read by its column rules; with a prior, or if asked for, with its classes."""
    with graph_of(engine, GraphOptions(files=files), name, prior, out.absolute().parent, model.method) as source:
        source.check()
        classes = model.classes if own_classes or prior is not None else None
        yield source.load(otherwise=classes, unit=model.budget.unit, saved=model.column_rules)


@dataclass
class EngineSource(GraphSource):
    """A graph on an engine. It holds its blocks until the context ends; tables are read once."""

    engine: EngineOptions = NO_ENGINE
    work: Path | None = None
    method: str = ""
    _opened: ExitStack = field(default_factory=ExitStack)
    _graph: Graph | None = None

    def __str__(self) -> str:
        return self.engine.edges or super().__str__()

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def check(self) -> None:
        """What can be said about the options before anything is read."""
        tables = self._tables()
        given = {"edges": tables.edges, "nodes": tables.nodes, "prior": self.prior}
        for flag, file in given.items():
            if isinstance(file, Path) and not file.exists():
                raise InputError(f"{file}: file not found (--{flag})")

    def _read(
        self, seed: int, otherwise: Sequence[str] | None, unit: PrivacyUnit | None, saved: ColumnRules | None
    ) -> Graph:
        from caribou.engines.training_tables import training_graph
        from caribou.tables.read import divided

        if self._graph is None:
            tables = self._tables()
            classes = otherwise if tables.classes is None else tables.classes
            rules = tables.rules if saved is None else saved.joined(tables.rules)
            tables = replace(tables, rules=rules, classes=classes)
            self._graph = self._opened.enter_context(training_graph(tables))
        return divided(self._graph, seed, str(self))

    def _tables(self) -> TrainingTables:
        from caribou.engines.training_tables import TrainingTables
        from caribou.methods import method_info
        from caribou.tables.sources import name_of

        given, files = self.engine, self.options.files
        method_info(self.method).check_engine(self.method, given.name)
        if given.name == "outofcore" and given.workers is not None:
            raise InputError(
                f"workers must go with the engine local or ray, got outofcore with {given.workers} (--workers): it works on one "
                "block at a time"
            )
        edges, nodes = self._sources()
        return TrainingTables(
            edges,
            nodes,
            given.name,
            given.bytes,
            given.count,
            given.address,
            name=self.name or (name_of(edges) if files.graph is None else files.graph.resolve().name),
            titles=files.tables.titles,
            rules=files.tables.rules(),
            classes=None if files.classes is None else parse_classes(files.classes),
            work=self.work,
        )

    def _sources(self) -> tuple[Source, Source]:
        """Edges and nodes: tables, queries, or a folder of arrays."""
        from caribou.datasets.arrays import EDGES, is_array_folder

        files, edges, folder = self.options.files, self.engine.edges, self.options.files.graph
        if self.options.dataset is None and folder is None:
            return files.tables.sources(edges, files.nodes, "--nodes", self.engine.bytes)
        others = self.options.dataset or edges or files.nodes or files.tables.is_sql
        if folder is not None and not others and is_array_folder(folder):
            return folder / EDGES, folder
        raise InputError(
            "engine must go with --edges and --nodes, with --sql-edges and --sql-nodes, or with --graph FOLDER of arrays "
            f"(edges.npy), got {'another graph, or more than one' if others else f'--graph {folder}'}"
        )


def parse_size(text: str) -> int:
    """Bytes of a size such as 4GB, 1.5GiB or 800M; a bare number is bytes.

    >>> parse_size("4GB"), parse_size("512MiB")
    (4000000000, 536870912)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", text.strip(), flags=re.IGNORECASE)
    if match is None:
        raise InputError(f"memory must be a size such as 4GB or 512MiB, got {text!r}")
    number, prefix, binary = match.groups()
    unit = _UNITS[prefix.upper()]
    return int(float(number) * (1024 ** list(_UNITS).index(prefix.upper()) if binary else unit))
