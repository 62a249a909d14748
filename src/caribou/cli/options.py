"""Options that several commands take, in one wording, and the graph that they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from caribou.errors import InputError

if TYPE_CHECKING:
    from caribou.graph import Graph

Dataset = Annotated[str | None, typer.Option(help="A data set by name (see caribou datasets).")]
GraphFile = Annotated[Path | None, typer.Option(help="Your own graph: .npz, .pt, .graphml, or an edge table.")]
NodeTable = Annotated[Path | None, typer.Option(help="The node table that belongs to an edge table.")]
Column = Annotated[
    list[str] | None,
    typer.Option(help="A column with another title than the default, ROLE=TITLE: id, label, split, source or target."),
]
Name = Annotated[
    str | None,
    typer.Option(help="The name that a ledger charges (default: the data set, or the file without ending)."),
]
DataDir = Annotated[
    Path | None, typer.Option(help="Folder with <name>.npz files, used before any download.", envvar="CARIBOU_DATA")
]
LedgerOption = Annotated[
    Path | None,
    typer.Option("--ledger", envvar="CARIBOU_LEDGER", help="Charge the cost here before anything is drawn, or refuse."),
]
ReplaceFingerprint = Annotated[
    bool,
    typer.Option("--replace-fingerprint", help="With --ledger: the graph has changed but is about the same people."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, everything else on stderr.")]

ROLES = ("id", "label", "split", "source", "target")


@dataclass(frozen=True)
class GraphSource:
    """Which graph the options name: a data set, or a file with its node table and its column titles."""

    dataset: str | None = None
    graph: Path | None = None
    nodes: Path | None = None
    columns: Sequence[str] = ()
    name: str | None = None
    data_dir: Path | None = None

    def __str__(self) -> str:
        return self.dataset or str(self.graph)

    def load(self, seed: int = 0, *, again: bool = False) -> Graph:
        """Read it; ``seed`` draws the split where the file has none. ``again``: what was warned of before is not said twice."""
        from caribou.datasets import load, read_graph

        if (self.dataset is None) == (self.graph is None):
            raise InputError("give either --dataset NAME or --graph FILE")
        if self.graph is not None:
            data = read_graph(self.graph, self.nodes, seed=seed, **column_titles(self.columns))
            if not again:
                warn_of_no_edges(data.num_edges, self.graph)
        else:
            if self.nodes is not None or self.columns:
                raise InputError("nodes and column must go with --graph, got --dataset")
            data = load(str(self.dataset), data_dir=self.data_dir, seed=seed)
        return data if self.name is None else data.renamed(self.name)


def warn_of_no_edges(edges: int, file: Path) -> None:
    """On stderr, for the owner alone: that there are none is a fact about the private graph, for no log and no certificate."""
    if edges == 0:
        typer.echo(
            f"warning: {file} holds no edges (do not publish this line: it is about the private graph)", err=True
        )


def column_titles(pairs: Sequence[str]) -> dict[str, str]:
    """``role=title`` pairs as arguments of `caribou.read_graph`."""
    titles: dict[str, str] = {}
    for pair in pairs:
        role, _, title = pair.partition("=")
        if role not in ROLES or not title:
            raise InputError(f"column must be ROLE=TITLE with a role of {', '.join(ROLES)}, got {pair!r}")
        if f"{role}_column" in titles:
            raise InputError(f"column must name a role once, got {role} twice")
        titles[f"{role}_column"] = title
    return titles
