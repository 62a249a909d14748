"""``caribou extend``: score nodes that arrived since a run was made, for nothing more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from caribou.cli.certificate import write_release_page
from caribou.cli.command import argument, command, option, record, switch
from caribou.cli.engine_options import EngineOptions, graph_like
from caribou.cli.options import NAME, PAGE, PRIOR, SPEND, EntryOptions, FileOptions, require_takes_prior
from caribou.cli.spool import place_spooled, place_taken, spooled
from caribou.cli.train import flagging, metric_rows

if TYPE_CHECKING:
    from caribou.model.estimator import Model


@record
class ExtendOptions:
    """What caribou extend takes."""

    run: Path = argument("The run of the month before: what caribou train or extend wrote.")
    out: Path = option("Save the new run, of old and new nodes, to this new folder.", default=...)
    files: FileOptions
    engine: EngineOptions
    name: str | None = NAME
    ledger: EntryOptions
    spend: bool = SPEND
    prior: Path | None = PRIOR
    page: bool = PAGE
    left: bool = switch("Declare that known nodes which are not in the graph have left.")
    same_order: bool = switch("Without ids: declare that the first rows are the nodes of the run, in its order.")


@command
def extend(given: ExtendOptions) -> None:
    """Score nodes that arrived since: every pair with an arrival is asked once, old pairs never again. It costs nothing more.

    For runs of votes-edp. The graph is the grown one, old nodes included. All batches of a release cost its epsilon once. Nodes
    are known by their ids, which must not change. Predictions of old nodes stay as they were: an edge that appeared between two
    of them since is never read. A run can be extended once; extend the new one next month. Tables are read by the rules of the
    run. The ledger must be the one that the run was charged in. The name is that of the run. Predictions mark the arrivals in the
    column new.

    Example: caribou extend run --graph nov-edges.csv --nodes nov-nodes.csv --out run-nov
    """
    from caribou.model.estimator import load
    from caribou.model.state import check_target

    out, prior = given.out, given.prior
    check_target(out)
    model = load(given.run)
    require_takes_prior(model.method, model.takes_prior, prior)
    kept: list[Path | None] = []

    def keep(later: Model) -> None:
        """In the spool folder first: the key of the noise is removed before OUT is there, so the same command can end it."""
        kept.append(spooled(later, out))
        if kept == [None]:
            later.save(out)

    with place_taken(out), graph_like(model, given.engine, given.files, None, prior, out) as data:
        later = model.extend(
            data,
            ledger=given.ledger.noted(),
            spend=given.spend,
            left=given.left,
            same_order=given.same_order,
            name=given.name,
            keep=keep,
        )
        if kept != [None]:
            place_spooled(later, kept[0], out)
    if given.page:
        write_release_page(out, given.ledger.path)
    cost = f"a release of its own: {later.budget}" if given.spend else "at no further cost: a batch of the same release"
    where = "" if given.ledger.path is None else f", entered in {given.ledger.path}"
    typer.echo(f"{model.arrivals.found(data)} of {model.state.nodes} known nodes are in the graph")
    typer.echo(f"{later.state.nodes - model.state.nodes} new nodes, {cost}{where}")
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
