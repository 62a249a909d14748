"""``caribou datasets``: what can be loaded by name and where it would come from, and generated tables to try things on."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

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
        typer.echo(json.dumps({"datasets": [asdict(info) for info in infos]}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(caption="edges are counted in both directions", caption_justify="left")
    for heading in ("name", "nodes", "edges", "features", "classes"):
        table.add_column(heading, justify="left" if heading == "name" else "right", no_wrap=True)
    table.add_column("where", overflow="fold")
    for info in infos:
        counts = (f"{value:,}" for value in (info.nodes, info.edges, info.features, info.classes))
        table.add_row(info.name, *counts, Path(info.where).name)
    Console().print(table)


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
