"""Options that several commands take, in one wording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Dataset = Annotated[str | None, typer.Option(help="A data set by name (see caribou datasets).")]
GraphFile = Annotated[Path | None, typer.Option(help="Your own graph: .npz, .pt, .graphml, or an edge table.")]
NodeTable = Annotated[Path | None, typer.Option(help="The node table that belongs to an edge table.")]
DataDir = Annotated[
    Path | None, typer.Option(help="Folder with <name>.npz files, used before any download.", envvar="CARIBOU_DATA")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, everything else on stderr.")]
