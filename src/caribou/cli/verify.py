"""``caribou verify``: recompute what a certificate claims."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from caribou.privacy.certificate import Certificate, json_number
from caribou.privacy.verify import verify as verify_certificate

EXIT_CLAIM_FAILS = 3


def _of_run(folder: Path) -> Certificate:
    """The certificate of a run whose files are all what was saved."""
    from caribou.saved_model import read_model

    return read_model(folder).certificate


def verify(
    file: Annotated[
        Path, typer.Argument(help="A certificate in JSON, or a run's folder, whose files are checked, too.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Recompute a certificate's epsilon from its events with PLD and RDP, and check its assumptions.

    Exit code 3: a figure does not follow from the events, an assumption does not hold, or there is no privacy.

    Example: caribou verify demo-output/votes-edp
    """
    certificate = _of_run(file) if file.is_dir() else Certificate.load(file)
    result = verify_certificate(certificate)
    if as_json:
        document = {
            "file": str(file),
            "verified": result.passed,
            "epsilon": json_number(certificate.epsilon),
            "epsilon_pld": json_number(result.epsilon_pld),
            "epsilon_rdp": None if result.epsilon_rdp is None else json_number(result.epsilon_rdp),
            "checks": [asdict(check) for check in result.checks],
        }
        typer.echo(json.dumps(document, indent=2))
    else:
        from rich.console import Console
        from rich.table import Table

        table = Table(show_header=False, box=None, pad_edge=False)
        for check in result.checks:
            right = "declared" if check.declared else "[green]ok[/green]"
            mark = right if check.passed else "[bold red]FAILS[/bold red]"
            # what is merely declared is in the certificate; here its name will do unless it fails
            table.add_row(mark, check.name, "" if check.declared and check.passed else check.detail)
        console = Console()
        console.print(table)
        if result.passed:
            console.print(f"[green]verified[/green]: epsilon = {certificate.epsilon:g}, delta = {certificate.delta:g}")
        else:
            console.print("[bold red]NOT VERIFIED[/bold red]: this certificate guarantees nothing")
    if not result.passed:
        raise typer.Exit(EXIT_CLAIM_FAILS)
