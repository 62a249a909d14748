"""``caribou datasets``: what can be loaded by name and where it would come from, and generated tables to try things on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from caribou.cli.output import print_json, print_table
from caribou.errors import InputError

datasets_app = typer.Typer(
    name="datasets",
    help="List the data sets that can be loaded by name, or write generated tables.",
    add_completion=False,
)


@datasets_app.callback(invoke_without_command=True)
def datasets(
    context: typer.Context,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with <name>.npz files, used before any download.", envvar="CARIBOU_DATA")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """List the data sets that can be loaded by name, with their statistics and where they come from.

    Example: caribou datasets --data-dir ~/graphs
    """
    if context.invoked_subcommand is not None:
        return
    from caribou.datasets import available

    infos = available(data_dir=data_dir)
    if as_json:
        print_json({"datasets": [asdict(info) for info in infos]})
        return
    rows = [
        (i.name, *(f"{count:,}" for count in (i.nodes, i.edges, i.features, i.classes)), Path(i.where).name)
        for i in infos
    ]
    titles = ("name", "nodes", "edges", "features", "classes", "where")
    print_table(titles, rows, "edges are counted in both directions")


@datasets_app.command()
def write(
    name: Annotated[str, typer.Argument(help="The tables: fraud, accounts and transfers of a generated bank.")],
    folder: Annotated[Path, typer.Argument(help="Where accounts.csv and transfers.csv are written.")],
    month: Annotated[int, typer.Option(help="The tables up to this month; the first one is 0.")] = 0,
    seed: Annotated[int, typer.Option(help="The public seed of the tables.")] = 0,
) -> None:
    """Write generated tables that are as dirty as real ones: gaps, text, dates, repeated transfers, unknown ids and labels.

    Example: caribou datasets write fraud bank
    """
    from caribou.datasets.fraud import write_tables

    if name != "fraud":
        raise InputError(f"tables must be fraud, got {name!r}")
    transfers, accounts = write_tables(folder, month=month, seed=seed)
    typer.echo(f"wrote {transfers} and {accounts}")
