"""``caribou datasets``: what can be loaded by name, and where it would come from."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def datasets(
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with <name>.npz files, used before any download.", envvar="CARIBOU_DATA")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """List the data sets that can be loaded by name, with their statistics and where they come from.

    Example: caribou datasets --data-dir ~/graphs
    """
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
