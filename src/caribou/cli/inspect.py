"""``caribou inspect``: everything that is wrong with a user's own tables, at once, with the flag that mends each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from caribou.cli.options import AsJson, FileOptions, GraphFile, class_words, with_option_groups
from caribou.privacy.budget import PrivacyUnit

if TYPE_CHECKING:
    from caribou.tables.inspect import Inspection

EXIT_UNREADABLE = 1


@with_option_groups
def inspect(
    *,
    graph: GraphFile = None,
    files: FileOptions,
    unit: Annotated[
        PrivacyUnit, typer.Option(help="What will be protected; node level asks for more declarations.")
    ] = PrivacyUnit.EDGE,
    as_json: AsJson = False,
) -> None:
    """List all problems of your own tables with the flag that mends each, and what is dropped or not used.

    Nothing is released and nothing is spent. Counts are exact and examples quote cells: they are for the owner's eyes only.
    Exit code 1: the tables cannot be read with these flags.

    Example: caribou inspect --graph transfers.csv --nodes accounts.csv --unknown unknown --drop-unknown-ids
    """
    found = files.source(graph).inspect(unit)
    if as_json:
        typer.echo(json.dumps(found.inspection.to_dict(), indent=2))
    else:
        _print(found.inspection)
    if not found.inspection.readable:
        raise typer.Exit(EXIT_UNREADABLE)


def _print(found: Inspection) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if found.problems:
        table = Table("problem", "count", "examples", "give", title="to mend", title_justify="left")
        for problem in found.problems:
            words = f"{problem.place}: {problem.rule}"
            examples = ", ".join(problem.examples)
            table.add_row(*map(Text, (words, f"{problem.count:,}", examples, "\nor ".join(problem.flags))))
        console.print(table)
    if found.notes:
        table = Table("good to know", "to change it", title_justify="left")
        for note in found.notes:
            table.add_row(*map(Text, (note.words, " ".join(note.flags))))
        console.print(table)
    facts = Table(show_header=False, box=None, pad_edge=False)
    edges = "" if found.edges is None else f", {found.edges:,} edges"
    facts.add_row("graph", f"{found.nodes:,} nodes{edges}, {len(found.features)} features")
    if found.class_counts:
        facts.add_row("classes", Text(class_words(found.class_counts, found.unlabelled)))
    facts.add_row("features", Text(", ".join(found.features)))
    facts.add_row("do not publish", "any of this: counts and examples are private")
    if found.flags:
        facts.add_row("these flags together", Text(" ".join(found.flags)))
    facts.add_row("readable", "yes" if found.readable else "no")
    console.print(facts)
