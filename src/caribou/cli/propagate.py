"""``caribou propagate``: the release without the learning, from files of any size."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from caribou.cli.options import (
    AsJson,
    DeclaredDegree,
    DegreeCap,
    DegreeFloor,
    LedgerOptions,
    SourceOptions,
    warn_of_no_edges,
    with_option_groups,
)
from caribou.errors import InputError

if TYPE_CHECKING:
    from caribou.engines.pipeline import ReleasedFile, Request

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@with_option_groups
def propagate(
    *,
    sources: SourceOptions,
    out: Annotated[Path, typer.Option(help="Write X^(K) to this new file: .parquet or .npy.")],
    unit: Annotated[str, typer.Option(help="What is protected: edge or node.")] = "edge",
    epsilon: Annotated[float, typer.Option(help="Epsilon of the release.")] = 4.0,
    delta: Annotated[
        float | None, typer.Option(help="Delta of the release (default: 1e-05).", show_default=False)
    ] = None,
    hops: Annotated[int, typer.Option(help="Depth K.")] = 4,
    contraction: Annotated[float, typer.Option(help="C_L in (0, 1]: the Lipschitz constant of a layer.")] = 0.9,
    alpha1: Annotated[float, typer.Option(help="Weight of the neighbours; 1 - alpha1 goes to the mean.")] = 1.0,
    beta: Annotated[float, typer.Option(help="Weight of X^(0) in every round.")] = 0.0,
    degree_floor: DegreeFloor = None,
    degree_cap: DegreeCap = None,
    declared_degree: DeclaredDegree = None,
    seed: Annotated[int, typer.Option(help="The public seed: which edges survive the cap.")] = 0,
    engine: Annotated[str, typer.Option(help="local (in memory), outofcore (on disk) or ray (a cluster).")] = "local",
    memory: Annotated[str | None, typer.Option(help="With outofcore: memory of the whole process, e.g. 4GB.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Threads, or with ray workers (default: one per processor).", show_default=False),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="With ray: auto or ray://HOST:PORT (default: this machine).")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the data set in the ledger (default: that of the edge file or the database).",
            show_default=False,
        ),
    ] = None,
    ledger: LedgerOptions,
    discard: Annotated[
        bool, typer.Option("--discard", help="Remove what an interrupted run left, instead of finishing it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Release private embeddings of a graph in files or tables, in memory, out of core or on a cluster.

    The certificate is written beside OUT. An interrupted run is finished by the same command, with the same noise and charged
    once; until then its private folder lies beside OUT.

    Example: caribou propagate --edges edges.parquet --features x.npy --epsilon 4 --degree-floor 20 --out embeddings.parquet
    """
    from caribou.engines.pipeline import Request, release_files
    from caribou.engines.sources import EdgeTable
    from caribou.privacy.budget import Budget
    from caribou.tables.sources import name_of

    size = None if memory is None else parse_size(memory)
    edges, features = sources.sources(size)
    request = Request(
        edges=edges,
        features=features,
        out=out,
        budget=Budget(epsilon, delta, unit),
        hops=hops,
        contraction=contraction,
        alpha1=alpha1,
        beta=beta,
        degree_floor=degree_floor,
        degree_cap=degree_cap,
        declared_degree=declared_degree,
        seed=seed,
        engine=engine,
        memory=size,
        workers=os.cpu_count() or 1 if workers is None else workers,
        address=address,
        name=name or name_of(edges),
        rules=sources.rules(),
    )
    if discard:
        _discard(request)
        return
    noted = ledger.noted()
    warn_of_no_edges(EdgeTable.has_rows(edges, request.rules), str(edges))
    try:
        with _round_progress(request.hops) as report:
            replaced = ledger.replace_fingerprint
            result = release_files(request, ledger=noted, replace_fingerprint=replaced, progress=report)
    except KeyboardInterrupt:
        if request.work.exists():
            typer.echo(
                f"{request.work} holds what is needed to finish, and is as secret as the graph: the same command finishes it, "
                "--discard removes it",
                err=True,
            )
        raise
    _print(request, result, as_json)


def parse_size(text: str) -> int:
    """Bytes of a size such as 4GB, 1.5GiB or 800M; a bare number is bytes.

    >>> parse_size("4GB"), parse_size("512MiB")
    (4000000000, 536870912)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", text.strip(), flags=re.IGNORECASE)
    if match is None:
        raise InputError(f"memory must be a size such as 4GB or 512MiB, got {text!r}")
    number, prefix, binary = match.groups()
    unit = _UNITS[prefix.upper()]
    return int(float(number) * (1024 ** list(_UNITS).index(prefix.upper()) if binary else unit))


def _discard(request: Request) -> None:
    from caribou.engines.folder import discard

    removed = discard(request.work)
    typer.echo(f"removed {request.work}; what is charged stays charged" if removed else "nothing to remove")


@contextmanager
def _round_progress(hops: int) -> Iterator[Callable[[int, int, int], None]]:
    """A bar per round on a terminal, with edges per second: numbers about private data go to the owner's screen and to no log."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[speed]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("preparing", total=None, speed="")
        begun: dict[int, float] = {}

        def report(number: int, blocks: int, entries: int) -> None:
            now = time.perf_counter()
            seconds = now - begun.setdefault(number, now)
            speed = f"{entries / seconds / 1e6:.1f} M edges/s" if seconds > 0 else ""
            progress.update(task, description=f"round {number} of {hops}, block {blocks}", speed=speed)

        yield report


def _print(request: Request, result: ReleasedFile, as_json: bool) -> None:
    certificate = result.certificate
    details: dict[str, Any] = dict(certificate.mechanisms[0].details)
    if as_json:
        document = {
            "out": str(request.out),
            "certificate_file": str(request.certificate_path),
            "resumed_at_round": result.resumed_at,
            "certificate": certificate.to_dict(),
        }
        typer.echo(json.dumps(document, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("guarantee", str(request.budget))
    parameters = certificate.public_parameters
    table.add_row("released", f"{parameters['nodes']} x {parameters['columns']} embeddings, {request.out}")
    if certificate.is_private:
        share = 2 * details["arithmetic"]["error"] / details["sensitivity"]["value"]
        table.add_row("noise", f"{details['noise_std']:.4g} per entry; rounding adds {share:.2%} to the sensitivity")
    if result.resumed_at is not None:
        table.add_row("resumed", f"after round {result.resumed_at}, with the same noise")
    table.add_row("certificate", f"{certificate.status}, {request.certificate_path}")
    Console().print(table)
