"""``caribou extend``: score nodes that arrived since a run was made, for nothing more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from caribou.cli.certificate import write_release_page
from caribou.cli.engine_options import EngineOptions, graph_of
from caribou.cli.options import (
    EntryOptions,
    FileOptions,
    GraphOptions,
    Page,
    PriorFile,
    Spend,
    require_takes_prior,
    with_option_groups,
)
from caribou.cli.spool import save_or_spool
from caribou.cli.train import flagging, metric_rows

if TYPE_CHECKING:
    from caribou.model.estimator import Model


@with_option_groups
def extend(
    run: Annotated[Path, typer.Argument(help="The run of the month before: what caribou train or extend wrote.")],
    *,
    out: Annotated[Path, typer.Option(help="Save the new run, of old and new nodes, to this new folder.")],
    graph: Annotated[
        Path | None,
        typer.Option(
            help="The grown graph, old nodes included: .npz, .pt, .graphml, or an edge table.", show_default=False
        ),
    ] = None,
    files: FileOptions,
    engine: EngineOptions,
    name: Annotated[
        str | None, typer.Option(help="The name that a ledger charges, which must be that of the run (default).")
    ] = None,
    ledger: EntryOptions,
    spend: Spend = False,
    prior: PriorFile = None,
    page: Page = False,
    left: Annotated[
        bool, typer.Option("--left", help="Declare that known nodes which are not in the graph have left.")
    ] = False,
    same_order: Annotated[
        bool,
        typer.Option(
            "--same-order", help="Without ids: declare that the first rows are the nodes of the run, in its order."
        ),
    ] = False,
) -> None:
    """Score nodes that arrived since: every pair with an arrival is asked once, old pairs never again. It costs nothing more.

    For runs of votes-edp. All batches of a release cost its epsilon once. Nodes are known by their ids, which must not change.
    Predictions of old nodes stay as they were: an edge that appeared between two of them since is never read. A run can be
    extended once; extend the new one next month. Tables are read by the rules of the run. The ledger must be the one that the run
    was charged in. The name is that of the run. Predictions mark the arrivals in the column new.

    Example: caribou extend run --graph nov-edges.csv --nodes nov-nodes.csv --out run-nov
    """
    from caribou.model.estimator import load
    from caribou.model.state import check_target

    check_target(out)
    model = load(run)
    require_takes_prior(model.method, model.takes_prior, prior)
    own = None if prior is None else model.classes
    with graph_of(
        engine, GraphOptions(graph=graph, files=files), None, prior, out.absolute().parent, model.method
    ) as source:
        source.check()
        data = source.load(otherwise=own, unit=model.budget.unit, saved=model.column_rules)
        later = model.extend(data, ledger=ledger.noted(), spend=spend, left=left, same_order=same_order, name=name)
        save_or_spool(later, out)
    if page:
        write_release_page(out, ledger.path)
    cost = f"a release of its own: {later.budget}" if spend else "at no further cost: a batch of the same release"
    where = "" if ledger.path is None else f", entered in {ledger.path}"
    typer.echo(f"{model.arrivals.found(data)} of {model.num_nodes} known nodes are in the graph")
    typer.echo(f"{later.num_nodes - model.num_nodes} new nodes, {cost}{where}")
    _print_metrics(later)
    typer.echo(f"saved {out} (caribou predict {out} --out predictions.csv; next time: caribou extend {out})")


def _print_metrics(later: Model) -> None:
    """How good the predictions of the arrivals are, as far as these have labels; at edge level labels are public."""
    found = later.arrival_metrics()
    if found is None:
        typer.echo("no arrival is a test node with a label: their predictions are not measured")
        return
    cut = later.threshold
    threshold = None if cut is None else {"class": later.classes[cut.positive], **flagging(cut, found)}
    document = {"test_metrics": found.to_dict(later.classes), "threshold": threshold}
    accuracy, majority = found.value("accuracy"), found.value("majority")
    typer.echo(
        f"arrivals, on {found.confusion.total:g} test nodes with a label: accuracy {accuracy:.1%} (always the most frequent "
        f"class: {majority:.1%})"
    )
    for title, words in metric_rows(document):
        typer.echo(f"  {title}: {words}")
