"""``caribou methods``: which methods there are, and what can be set."""

from __future__ import annotations

import inspect
import json
import re
from typing import TYPE_CHECKING, Any

import typer

from caribou.cli.command import argument, as_json, command, record
from caribou.cli.output import print_json, print_table

if TYPE_CHECKING:
    from caribou.methods import MethodInfo


@record
class MethodsOptions:
    """What caribou methods takes."""

    name: str | None = argument("One method, with its settings.", None)
    as_json: bool = as_json()


@command
def methods(given: MethodsOptions) -> None:
    """List the methods; of one method, its settings with their defaults and what tune would try.

    Example: caribou methods votes-edp
    """
    from caribou.methods import METHODS, load_own_methods, method_info

    load_own_methods()
    if given.name is None:
        rows = [{"method": name, "unit": info.unit.value, "summary": info.summary} for name, info in METHODS.items()]
        if given.as_json:
            print_json({"methods": rows})
        else:
            print_table(("method", "unit", "what it is"), [list(row.values()) for row in rows])
        return
    document = describe(given.name, method_info(given.name))
    document["text"] = re.sub(r"`+([^`]*)`+", r"\1", document["text"])  # plain words
    if given.as_json:
        print_json(document)
        return
    typer.echo(
        f"{given.name} ({document['unit']} level): {document['summary']}\n\n{document['text']}\n\nSettings (--set):"
    )
    for key, value in document["settings"].items():
        typer.echo(f"  {key} = {json.dumps(value)}")
    if document["space"]:
        typer.echo("\nTried by caribou tune:")
        for key, values in document["space"].items():
            typer.echo(f"  {key}: {', '.join(json.dumps(value) for value in values)}")


def describe(name: str, info: MethodInfo) -> dict[str, Any]:
    """A method in plain values. ``text`` is the statement of its class, without examples."""
    method = info.recipe()
    text = (inspect.getdoc(type(method)) or "").split("\n\n>>>")[0].strip()
    return {
        "method": name,
        "unit": info.unit.value,
        "summary": info.summary,
        "text": text,
        "settings": dict(method.settings()),
        "space": {key: list(values) for key, values in info.space.items()},
    }
