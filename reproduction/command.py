"""``caribou reproduce``: one table or figure of the paper, from the cells that are missing to the page.

The command of the package finds this file and hands its words over: `caribou.cli.reproduce`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from caribou._validate import integer
from caribou.cli.run import EXIT_CELLS_FAILED, measure_missing
from caribou.errors import InputError

if TYPE_CHECKING:
    from caribou.experiments.grid import Experiment
    from caribou.experiments.report.blocks import Table
    from caribou.experiments.report.page import Item, Section
    from caribou.experiments.reproduction import Reproduction

ALL = "all"
DEFAULT_OUT = Path("reproduce-output")
WIDE = 160
"""Letters of a line that is not printed to a terminal."""
TITLE_WIDTH = 24
"""Letters of the title of a row, at least; longer ones are folded."""


def reproduce(
    item: Annotated[
        str | None,
        typer.Argument(help="A table or figure of the paper, e.g. pu-1 (see --list); all: one after the other."),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="Only this data set, by its own or the paper's name; may be repeated."),
    ] = None,
    scale: Annotated[str, typer.Option(help="smoke (minutes), laptop (a night) or full.")] = "laptop",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of page, CSV and pictures (default: reproduce-output/ITEM). New records then go to OUT/results, "
            "otherwise to reproduction/results.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(help="How many cells at a time, one thread each.")] = 2,
    run: Annotated[
        bool, typer.Option("--run/--no-run", help="Measure the missing cells first, or show only what is there.")
    ] = True,
    listing: Annotated[
        bool, typer.Option("--list", help="List the items with their cells and records, and stop.")
    ] = False,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with <name>.npz files, used before any download.", envvar="CARIBOU_DATA")
    ] = None,
) -> None:
    """Reproduce one table or figure of the paper: run the missing cells, print it beside the paper's, write the page.

    Says first how many cells are missing and how long they will take. You can stop it at any time; the same command goes on
    from there. Exit code 4: some cells failed. They are recorded, and the rest is shown.

    Example: caribou reproduce noise
    """
    from caribou.experiments.grid import SCALES, available
    from caribou.experiments.reproduction import require

    integer(at_least=1, jobs=jobs)
    if scale not in SCALES:
        raise InputError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    paper = require()
    items: Mapping[str, Item] = {i.name: i for i in paper.module("items").ITEMS}
    known = {experiment.name: experiment for experiment in available(paper.experiments)}
    if listing:
        _list(items, known, paper, scale)
        return
    if item not in (*items, ALL):
        raise InputError(f"item must be one of {', '.join(items)} or {ALL} (see --list), got {item or 'nothing'!r}")
    wanted = list(items.values()) if item == ALL else [items[item]]
    failed = 0
    for one in wanted:
        folder = (out or DEFAULT_OUT) / one.name if item == ALL or out is None else out
        results = paper.results if out is None else out / "results"
        cells = _cells(one, known, scale, dataset or [], paper, required=item != ALL)
        if not any(cells.values()):
            typer.echo(f"{one.name}: nothing to do for these data sets")
            continue
        if run:
            failed += _run_missing(one, cells, known, paper, results, jobs, data_dir)
        elif not results.is_dir():
            results = paper.results
        _show(one, cells, known, paper, results, scale, folder)
    if failed:
        raise typer.Exit(EXIT_CELLS_FAILED)


Cells = Mapping[str, Sequence[Mapping[str, Any]]]


def _cells(
    item: Item,
    known: Mapping[str, Experiment],
    scale: str,
    datasets: Sequence[str],
    paper: Reproduction,
    *,
    required: bool,
) -> Cells:
    """The cells of an item at a scale, those of some data sets only if any are named."""
    cells = item.cells(known, scale)
    if not datasets:
        return cells
    of_paper = paper.module("paper").paper_dataset
    names = list(dict.fromkeys(str(cell["dataset"]) for some in cells.values() for cell in some if "dataset" in cell))
    for given in datasets:
        if required and not any(given in (name, of_paper(name)) for name in names):
            those = (
                f"one of {', '.join(names)} for {item.name} at scale {scale}" if names else f"left out for {item.name}"
            )
            raise InputError(f"dataset must be {those}, got {given!r}")
    kept = {name for name in names if name in datasets or of_paper(name) in datasets}
    return {name: [cell for cell in some if cell.get("dataset") in kept] for name, some in cells.items()}


def _run_missing(
    item: Item,
    cells: Cells,
    known: Mapping[str, Experiment],
    paper: Reproduction,
    results: Path,
    jobs: int,
    data_dir: Path | None,
) -> int:
    """Measure what has no record yet; says before how much that is."""
    from caribou.experiments.records import read
    from caribou.experiments.runner import pending
    from reproduction.durations import Duration, expected

    todo = {name: pending(some, results, name) for name, some in cells.items()}
    missing = sum(map(len, todo.values()))
    total = sum(map(len, cells.values()))
    if not missing:
        typer.echo(f"{item.name}: all {total} cells have records in {results}")
        return 0
    times = [
        expected(some, [*read(paper.results, name)[0], *read(results, name)[0]]) for name, some in todo.items() if some
    ]
    time = Duration(sum(t.seconds for t in times), sum(t.known for t in times), missing)
    typer.echo(f"{item.name}: {missing} of {total} cells are missing; {time.words(jobs)}, {jobs} at a time")
    return sum(
        measure_missing(known[name], cells[name], results, jobs=jobs, data_dir=data_dir)
        for name, some in todo.items()
        if some
    )


def _show(
    item: Item,
    cells: Cells,
    known: Mapping[str, Experiment],
    paper: Reproduction,
    results: Path,
    scale: str,
    folder: Path,
) -> None:
    """Print the tables beside the paper's figures, and write page, CSV and pictures."""
    from caribou.experiments.records import read
    from caribou.experiments.report.blocks import Table
    from caribou.experiments.report.page import section, write_report

    read_files = {name: read(results, name) for name in cells}
    records = {name: found for name, (found, _) in read_files.items()}
    problems = [problem for _, some in read_files.values() for problem in some]
    part = section(item, records, cells, known, scale, results)
    for block in part.blocks:
        if isinstance(block, Table):
            _print(block)
    introduction = paper.module("items").INTRODUCTION
    written = write_report(folder, [part], problems, scale, introduction, beside_others=True)
    typer.echo(_summary(part, results))
    for problem in problems:
        typer.echo(f"warning: skipped {problem}", err=True)
    others = ", ".join(path.name for path in written[1:]) or "nothing besides"
    typer.echo(f"page: {written[0]}; beside it: {others}")


def _summary(part: Section, results: Path) -> str:
    missing = f", {part.missing} missing" if part.missing else ""
    others = (
        f"; {part.others} records are of cells that this scale does not have, and are left out" if part.others else ""
    )
    return f"{part.item.name}: {part.measured} cells measured{missing} (records: {results}){others}"


def _print(table: Table) -> None:
    """A table for the terminal: a part per group, the paper's figure under ours, the best in bold.

    Columns that do not fit side by side follow below, with the titles of the rows again.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as Shown
    from rich.text import Text

    from caribou.experiments.report.blocks import BEST

    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE)  # a file has no edge at which to fold
    console.print(Text(table.title, style="bold"))
    for group, rows in table.groups:
        for columns in _side_by_side(table, console.width):
            shown = Shown(box=SIMPLE_HEAD, pad_edge=False, title=group or None, title_justify="left")
            for column in columns:
                titles = min(TITLE_WIDTH, max((len(row[0].text) for row in rows), default=0))
                least = _width(table, column) if column else titles
                justify: Literal["left", "right"] = "right" if column else "left"
                widest = least if column else None
                shown.add_column(
                    table.head[column], justify=justify, min_width=least, max_width=widest, overflow="fold"
                )
            for row in rows:
                cells = []
                for entry in (row[column] for column in columns):
                    few = f" ({note})" if (note := table.note(entry)) else ""
                    text = Text(entry.text + few, style="bold" if entry.mark == BEST else "")
                    cells.append(text.append(f"\npaper {entry.paper}" if entry.paper else "", style="dim"))
                shown.add_row(*cells)
            console.print(shown)
    console.print(Text(table.caption, style="dim"))


def _side_by_side(table: Table, width: int) -> list[list[int]]:
    """The columns of a table in parts that fit into a width, each with the titles of the rows."""
    parts, used = [[0]], TITLE_WIDTH + 3
    for column in range(1, len(table.head)):
        needed = 3 + _width(table, column)
        if len(parts[-1]) > 1 and used + needed > width:
            parts.append([0])
            used = TITLE_WIDTH + 3
        parts[-1].append(column)
        used += needed
    return parts


def _width(table: Table, column: int) -> int:
    """Letters that a column needs: its longest entry, folded if it is longer than a title, and every word of its head."""
    words = [row[column] for _, rows in table.groups for row in rows]
    longest = max((len(e.text) + len(table.note(e)) + 3 * bool(table.note(e)) for e in words), default=0)
    papers = max((len(f"paper {e.paper}") for e in words if e.paper), default=0)
    return max(min(longest, TITLE_WIDTH), papers, *map(len, table.head[column].split()))


def _list(items: Mapping[str, Item], known: Mapping[str, Experiment], paper: Reproduction, scale: str) -> None:
    from rich.console import Console
    from rich.table import Table as Shown

    from caribou.experiments.runner import pending

    table = Shown(
        box=None, pad_edge=False, caption=f"cells at scale {scale}, in all and without a record", caption_justify="left"
    )
    for title in ("item", "what it is", "in the paper"):
        table.add_column(title, overflow="fold", no_wrap=title == "item")
    for title in ("cells", "missing"):
        table.add_column(title, justify="right")
    for item in items.values():
        cells = item.cells(known, scale)
        missing = sum(len(pending(some, paper.results, name)) for name, some in cells.items())
        table.add_row(item.name, item.title, item.paper, f"{sum(map(len, cells.values())):,}", f"{missing:,}")
    Console().print(table)
