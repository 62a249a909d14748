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
    from caribou.release import NotedLedger

Dataset = Annotated[str | None, typer.Option(help="A data set by name (see caribou datasets).")]
GraphFile = Annotated[Path | None, typer.Option(help="Your own graph: .npz, .pt, .graphml, or an edge table.")]
NodeTable = Annotated[Path | None, typer.Option(help="The node table that belongs to an edge table.")]
Column = Annotated[
    list[str] | None,
    typer.Option(help="A column with another title than the default, ROLE=TITLE: id, label, split, source or target."),
]
ClassNames = Annotated[
    str | None,
    typer.Option(
        "--classes",
        help="The classes of your own graph, which node level asks for: a,b,c, or their number, or @FILE with one per line.",
        show_default=False,
    ),
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
Purpose = Annotated[str | None, typer.Option(help="With --ledger: what the release is for, a line in its entry.")]
Person = Annotated[str | None, typer.Option(help="With --ledger: who makes the release, a line in its entry.")]
PeriodOfData = Annotated[
    str | None,
    typer.Option(
        "--period",
        help="With --ledger: the time that the data is about, e.g. 2026-11, for entry and certificate. The date decides which "
        "budget pays.",
    ),
]
Reason = Annotated[
    str | None,
    typer.Option(help="With --replace-fingerprint: why the graph has changed, a line in the history of the ledger."),
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
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, everything else on stderr.")]


def noted_ledger(
    ledger: Path | None,
    *,
    purpose: str | None,
    person: str | None,
    period: str | None,
    reason: str | None = None,
    replace_fingerprint: bool = False,
) -> NotedLedger | None:
    """The ledger with the words of its next entry; words without a ledger are an error."""
    from caribou.release import NotedLedger

    given = {"purpose": purpose, "person": person, "period": period, "reason": reason}
    if ledger is None:
        lost = [f"--{word}" for word, value in given.items() if value is not None]
        if lost:
            raise InputError(f"{', '.join(lost)} must go with --ledger, got none")
        return None
    if reason is not None and not replace_fingerprint:
        raise InputError(f"reason must go with --replace-fingerprint, got {reason!r} without")
    return NotedLedger(ledger, purpose, person, period, reason)


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
    classes: str | None = None

    def __str__(self) -> str:
        return self.dataset or str(self.graph)

    def check(self) -> None:
        """What can be said about the options before anything is read: one graph is named, and its files are there."""
        if (self.dataset is None) == (self.graph is None):
            raise InputError("give either --dataset NAME or --graph FILE")
        if self.graph is None and (self.nodes is not None or self.columns or self.classes is not None):
            raise InputError("nodes, column and classes must go with --graph, got --dataset")
        column_titles(self.columns)
        for file in (self.graph, self.nodes):
            if file is not None and not file.exists():
                raise InputError(f"{file}: file not found")

    def load(self, seed: int = 0, *, again: bool = False, otherwise: Sequence[str] | None = None) -> Graph:
        """Read it; ``seed`` draws the split where the file has none. ``again``: what was warned of before is not said twice.

        ``otherwise``: the classes of a file for which none are given, as a model knows them.
        """
        from caribou.datasets import load, read_graph

        self.check()
        if self.graph is not None:
            classes = otherwise if self.classes is None else parse_classes(self.classes)
            data = read_graph(self.graph, self.nodes, seed=seed, classes=classes, **column_titles(self.columns))
            if not again:
                warn_of_no_edges(data.num_edges, self.graph)
                if classes is not None and data.labels is not None:
                    _warn_of_no_labels(bool((data.labels >= 0).any()), self.graph)
        else:
            data = load(str(self.dataset), data_dir=self.data_dir, seed=seed)
        return data if self.name is None else data.renamed(self.name)


def warn_of_no_edges(edges: int, file: Path) -> None:
    """On stderr, for the owner alone: that there are none is a fact about the private graph, for no log and no certificate."""
    if edges == 0:
        typer.echo(
            f"warning: {file} holds no edges (do not publish this line: it is about the private graph)", err=True
        )


def _warn_of_no_labels(known: bool, file: Path) -> None:
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
        return [line.strip() for line in lines if line.strip()]
    number = text.strip()
    if number.isascii() and number.isdigit():
        return int(number)
    return [word.strip() for word in text.split(",")]


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
