"""``caribou inspect``: everything that is wrong with a user's own tables, at once, with the flag that mends each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from caribou.cli.command import as_json, command, option, record
from caribou.cli.options import FileOptions, GraphOptions, GraphSource, class_words
from caribou.cli.output import print_facts, print_json, print_table
from caribou.privacy.budget import PrivacyUnit

if TYPE_CHECKING:
    from caribou.tables.inspect import Inspection

EXIT_UNREADABLE = 1


@record
class InspectOptions:
    """What caribou inspect takes."""

    files: FileOptions
    unit: PrivacyUnit = option(
        "What will be protected; node level asks for more declarations.", default=PrivacyUnit.EDGE
    )
    as_json: bool = as_json()


@command
def inspect(given: InspectOptions) -> None:
    """List all problems of your own tables with the flag that mends each, and what is dropped or not used.

    Nothing is released and nothing is spent. Counts are exact and examples quote cells: they are for the owner's eyes only.
    Exit code 1: the tables cannot be read with these flags.

    Example: caribou inspect --graph transfers.csv --nodes accounts.csv --unknown unknown --drop-unknown-ids
    """
    found = GraphSource(GraphOptions(files=given.files)).inspect(given.unit).inspection
    if given.as_json:
        print_json(found.to_dict())
    else:
        _print(found)
    if not found.readable:
        raise typer.Exit(EXIT_UNREADABLE)


def _print(found: Inspection) -> None:
    if found.problems:
        problems = [
            (f"{p.place}: {p.rule}", f"{p.count:,}", ", ".join(p.examples), "\nor ".join(p.flags))
            for p in found.problems
        ]
        print_table(("problem", "count", "examples", "give"), problems)
    if found.notes:
        print_table(("good to know", "to change it"), [(note.words, " ".join(note.flags)) for note in found.notes])
    edges = "" if found.edges is None else f", {found.edges:,} edges"
    facts = {
        "graph": f"{found.nodes:,} nodes{edges}, {len(found.features)} features",
        "classes": class_words(found.class_counts, found.unlabelled) if found.class_counts else "",
        "features": ", ".join(found.features),
        "do not publish": "any of this: counts and examples are private",
        "these flags together": " ".join(found.flags),
        "readable": "yes" if found.readable else "no",
    }
    print_facts((word, fact) for word, fact in facts.items() if fact)
