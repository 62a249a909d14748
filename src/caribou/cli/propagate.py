"""``caribou propagate``: the release without the learning, from files of any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from caribou.cli.command import as_json, command, option, record, switch
from caribou.cli.engine_options import EngineOptions
from caribou.cli.options import DELTA, NAME, LayerOptions, LedgerOptions, QueryOptions, warn_of_no_edges
from caribou.cli.output import print_facts, print_json
from caribou.cli.progress import ProgressLine

if TYPE_CHECKING:
    from caribou.engines.pipeline import ReleasedFile, Request


@record
class PropagateOptions:
    """What caribou propagate takes."""

    engine: EngineOptions
    features: str | None = option("One row per node, of the same kinds as --edges; with a column of ids, or without.")
    tables: QueryOptions
    out: Path = option("Write X^(K) to this new file: .parquet or .npy.", default=...)
    unit: str = option("What is protected: edge or node.", default="edge")
    epsilon: float = option("Epsilon of the release.", default=4.0)
    delta: float | None = DELTA
    hops: int = option("Depth K.", default=4)
    layer: LayerOptions
    beta: float = option("Weight of X^(0) in every round.", default=0.0)
    seed: int = option("The public seed: which edges survive the cap.", default=0)
    name: str | None = NAME
    ledger: LedgerOptions
    discard: bool = switch("Remove what an interrupted run left, instead of finishing it.")
    as_json: bool = as_json()

    def request(self) -> Request:
        """What is to be released."""
        from caribou.engines.pipeline import Request
        from caribou.privacy.budget import Budget
        from caribou.tables.sources import name_of

        size = self.engine.bytes
        edges, features = self.tables.sources(self.engine.edges, self.features, "--features", size)
        return Request(
            edges=edges,
            features=features,
            out=self.out,
            budget=Budget(self.epsilon, self.delta, self.unit),
            hops=self.hops,
            **asdict(self.layer),
            beta=self.beta,
            seed=self.seed,
            engine=self.engine.name,
            memory=size,
            workers=self.engine.count,
            address=self.engine.address,
            name=self.name or name_of(edges),
            titles=self.tables.titles,
            rules=self.tables.rules(),
        )


@command
def propagate(given: PropagateOptions) -> None:
    """Release private embeddings of a graph in files or tables, in memory, out of core or on a cluster.

    The certificate is written beside OUT. An interrupted run is finished by the same command, with the same noise and charged
    once; until then its private folder lies beside OUT.

    Example: caribou propagate --edges edges.parquet --features x.npy --epsilon 4 --degree-floor 20 --out embeddings.parquet
    """
    from caribou.engines.folder import discard
    from caribou.engines.pipeline import release_files
    from caribou.tables.edges import has_edges

    request = given.request()
    if given.discard:
        removed = discard(request.work)
        typer.echo(f"removed {request.work}; what is charged stays charged" if removed else "nothing to remove")
        return
    noted, replaced = given.ledger.noted(), given.ledger.replace_fingerprint
    warn_of_no_edges(has_edges(request.edges, request.titles, request.rules), str(request.edges))
    try:
        with ProgressLine("propagate", 1) as line:

            def report(number: int, blocks: int, entries: int) -> None:
                line.step(f"round {number} of {request.hops}, block", blocks, None, f"{entries / 1e6:.1f} M edges")

            result = release_files(request, ledger=noted, replace_fingerprint=replaced, progress=report)
    except KeyboardInterrupt:
        if request.work.exists():
            typer.echo(
                f"{request.work} holds what is needed to finish, and is as secret as the graph: the same command finishes it, "
                "--discard removes it",
                err=True,
            )
        raise
    if given.as_json:
        print_json(
            {
                "out": str(request.out),
                "certificate_file": str(request.certificate_path),
                "resumed_at_round": result.resumed_at,
                "certificate": result.certificate.to_dict(),
            }
        )
    else:
        print_facts(_rows(request, result))


def _rows(request: Request, result: ReleasedFile) -> Iterator[tuple[str, str]]:
    certificate = result.certificate
    details: dict[str, Any] = dict(certificate.mechanisms[0].details)
    parameters = certificate.public_parameters
    yield "guarantee", str(request.budget)
    yield "released", f"{parameters['nodes']} x {parameters['columns']} embeddings, {request.out}"
    if certificate.is_private:
        share = 2 * details["error"] / details["sensitivity"]["value"]
        yield "noise", f"{details['noise_std']:.4g} per entry; rounding adds {share:.2%} to the sensitivity"
    if result.resumed_at is not None:
        yield "resumed", f"after round {result.resumed_at}, with the same noise"
    yield "certificate", f"{certificate.status}, {request.certificate_path}"
