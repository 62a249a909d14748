"""``caribou methods``: which methods there are, and what can be set."""

from __future__ import annotations

import inspect
import json
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from caribou.cli.options import AsJson

if TYPE_CHECKING:
    from caribou.methods import MethodInfo


def methods(
    name: Annotated[str | None, typer.Argument(help="One method, with its settings.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods; of one method, its settings with their defaults and what tune would try.

    Example: caribou methods votes-edp
    """
    from caribou.methods import METHODS, load_own_methods, method_info

    load_own_methods()
    if name is None:
        _list(METHODS, as_json)
        return
    document = describe(name, method_info(name))
    document["text"] = re.sub(r"`+([^`]*)`+", r"\1", document["text"])  # plain words
    if as_json:
        typer.echo(json.dumps(document, indent=2))
        return
    typer.echo(f"{name} ({document['unit']} level): {document['summary']}\n\n{document['text']}\n\nSettings (--set):")
    for key, value in document["settings"].items():
        typer.echo(f"  {key} = {json.dumps(value)}")
    if document["space"]:
        typer.echo("\nTried by caribou tune:")
        for key, values in document["space"].items():
            typer.echo(f"  {key}: {', '.join(json.dumps(value) for value in values)}")


def describe(name: str, info: MethodInfo) -> dict[str, Any]:
    """A method in plain values. ``text`` is the statement of its class, without examples."""
    method = info.create()
    text = (inspect.getdoc(type(method)) or "").split("\n\n>>>")[0].strip()
    return {
        "method": name,
        "unit": info.unit.value,
        "summary": info.summary,
        "text": text,
        "settings": dict(method.settings()),
        "space": {key: list(values) for key, values in info.space.items()},
    }


def _list(table: dict[str, MethodInfo], as_json: bool) -> None:
    if as_json:
        rows = [{"method": name, "unit": info.unit.value, "summary": info.summary} for name, info in table.items()]
        typer.echo(json.dumps({"methods": rows}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    for heading in ("method", "unit", "what it is"):
        shown.add_column(heading, no_wrap=heading != "what it is", justify="left")
    for name, info in table.items():
        shown.add_row(name, info.unit.value, info.summary)
    Console().print(shown)
