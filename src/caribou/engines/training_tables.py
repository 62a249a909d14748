"""A graph for training from an edge table and a node table of any size: edges in blocks, features in a mapped file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from caribou.datasets.arrays import FEATURES, read_node_arrays
from caribou.engines.edge_blocks import PlacedEdges, StoredEdges
from caribou.engines.local import MemoryBlocks
from caribou.engines.pipeline import check_engine
from caribou.engines.preparation import Memory, require_space
from caribou.engines.ray import RayBlocks
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.blocked import BlockedGraph, EdgeStore
from caribou.graph.classes import Classes
from caribou.machine.files import private_folder
from caribou.machine.memory import memory_limit
from caribou.tables.edges import EdgeArray, EdgeSource, EdgeTable, open_edges, with_row_numbers
from caribou.tables.nodes import NodeTable
from caribou.tables.read import Titles
from caribou.tables.rules import ColumnRules
from caribou.tables.sources import Source


@dataclass(frozen=True)
class TrainingTables:
    """Where a graph lies, and who is to hold its edges.

    Args:
        edges: pairs of ids of the node table, or of its row numbers; any source of `caribou.tables.sources`.
        nodes: a table of any kind, or a folder of arrays (`caribou.datasets.arrays`).
        engine: local (blocks in memory), outofcore (on disk) or ray (with the workers of a cluster).
        memory: bytes for the whole process (out of core).
        workers: threads, or tasks of ray at a time.
        address: of a Ray cluster.
        name: of the graph, which a ledger charges.
        titles: of the columns that are not features.
        rules: how tables are read; those of an earlier run for its next table.
        classes: as in `caribou.read_graph`.
        work: where the private folder of blocks is made.
    """

    edges: Source
    nodes: Source
    engine: str = "local"
    memory: int | None = None
    workers: int = 1
    address: str | None = None
    name: str = "graph"
    titles: Titles = field(default_factory=Titles)
    rules: ColumnRules = field(default_factory=ColumnRules)
    classes: Classes | None = None
    work: Path | None = None

    def __post_init__(self) -> None:
        check_engine(self.engine, self.memory, self.workers, self.address)
        Memory(self.memory)


@contextmanager
def training_graph(tables: TrainingTables) -> Iterator[Graph]:
    """The graph of the tables while the context lasts; blocks and copies of features are removed with it.

    Its nodes are in the order of their ids, as when the tables are read into memory; without ids they are in that of rows. Blocks
    lie in a folder of mode 0700, which is as secret as the graph. What would need more than ``tables.memory`` is refused.
    """
    table, memory = open_edges(tables.edges, tables.titles, tables.rules), Memory(tables.memory)
    with (
        memory_limit(tables.memory),
        private_folder(tables.work, prefix=".caribou-blocks-") as folder,
        ExitStack() as opened,
    ):
        nodes, edges = _parts(tables, table, folder, memory)
        memory = memory.without(_held(nodes))
        stored = StoredEdges.prepare(edges, nodes.num_nodes, folder, memory)
        for copy in ("nodes.parquet", "node.ids"):
            (folder / copy).unlink(missing_ok=True)

        def move(rows: np.ndarray, place: np.ndarray, total: int) -> tuple[np.ndarray, EdgeStore]:
            there = Path(tempfile.mkdtemp(dir=folder))
            require_space(folder, stored.count)
            again = StoredEdges.prepare(PlacedEdges(stored, place), total, there, memory)
            return _moved_rows(rows, place, total, there / FEATURES), opened.enter_context(_store(tables, again))

        yield BlockedGraph.of(nodes, opened.enter_context(_store(tables, stored)), move)


@contextmanager
def _store(tables: TrainingTables, stored: StoredEdges) -> Iterator[EdgeStore]:
    if tables.engine == "local":
        yield MemoryBlocks(stored, tables.workers)
    elif tables.engine == "outofcore":
        yield stored
    elif tables.engine == "ray":
        store = RayBlocks(stored, tables.workers, tables.address)
        try:
            yield store
        finally:
            store.close()
    else:
        raise InputError(f"engine must be local, outofcore or ray, got {tables.engine!r}")


def _parts(
    tables: TrainingTables, table: EdgeArray | EdgeTable, folder: Path, memory: Memory
) -> tuple[Graph, EdgeSource]:
    """The graph without edges, and its edges as row numbers of that graph."""
    if isinstance(tables.nodes, Path) and (tables.nodes / FEATURES).exists():
        require_space(folder, table.count)
        return _node_arrays(tables, tables.nodes), table
    nodes = NodeTable.open(tables.nodes, tables.titles, tables.rules).fixed(folder)
    ids = nodes.ids(folder, memory.for_ids)
    letters = 0 if ids is None else ids.letters
    memory = memory.without(4 * letters + (24 + 4 * nodes.columns) * nodes.nodes)  # as `_held` will find, and places
    require_space(folder, table.count, 0 if ids is None else ids.space(table.count, memory.for_ids))
    edges = with_row_numbers(table, ids, tables.rules, folder=folder, room=memory.for_ids)
    graph, place = nodes.graph(ids, tables.name, tables.classes, folder)
    return graph, edges if place is None else PlacedEdges(edges, place)


def _held(nodes: Graph) -> int:
    """Bytes of the arrays that are there while edges stream past, mapped ones included."""
    arrays = (nodes.node_ids, nodes.labels, nodes.indptr, nodes.features)
    return sum(array.nbytes for array in arrays if array is not None)


def _node_arrays(tables: TrainingTables, folder: Path) -> Graph:
    roles = (tables.titles.id, tables.titles.label, tables.titles.split)
    if any(title is not None for title in roles) or tables.rules.titles:
        raise InputError(f"column and rules of columns must go with a node table, got a folder of arrays: {folder}")
    return read_node_arrays(folder, tables.name, tables.classes)


def _moved_rows(rows: np.ndarray, place: np.ndarray, total: int, path: Path) -> np.ndarray:
    """Rows of features in other places of a mapped file; those that nobody has are zero."""
    if not rows.shape[1]:
        return np.empty((total, 0), rows.dtype)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=rows.dtype, shape=(total, rows.shape[1]))
    for first in range(0, len(rows), 1 << 16):
        out[place[first : first + (1 << 16)]] = rows[first : first + (1 << 16)]
    out.flush()
    return np.load(path, mmap_mode="r")
