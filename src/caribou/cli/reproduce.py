"""``caribou reproduce``: the door to the paper's evaluation, whose command lies beside the package in ``reproduction/``."""

from __future__ import annotations

import typer


def reproduce(context: typer.Context) -> None:
    """Reproduce one table or figure of the paper: run the missing cells, print it beside the paper's, write the page.

    It comes with the source tree, not with the package. caribou reproduce --help, inside the source tree, has its options.

    Example: caribou reproduce noise
    """
    from caribou.experiments.reproduction import require

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(require().module("command").reproduce)
    code = app(args=list(context.args), prog_name="caribou reproduce", standalone_mode=False)
    if code:
        raise typer.Exit(code)
