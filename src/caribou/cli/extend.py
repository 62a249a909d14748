"""``caribou extend``: score nodes that arrived since a run was made, for nothing more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from caribou.cli.options import (
    NO_TABLE_OPTIONS,
    ClassNames,
    Column,
    GraphSource,
    LedgerOption,
    Name,
    NodeTable,
    PeriodOfData,
    Person,
    PriorFile,
    Purpose,
    Spend,
    TableOptions,
    noted_ledger,
    require_takes_prior,
    with_table_options,
)
from caribou.cli.spool import save_or_spool


@with_table_options
def extend(
    run: Annotated[Path, typer.Argument(help="The run of the month before: what caribou train or extend wrote.")],
    out: Annotated[Path, typer.Option(help="Save the new run, of old and new nodes, to this new folder.")],
    graph: Annotated[
        Path | None,
        typer.Option(
            help="The grown graph, old nodes included: .npz, .pt, .graphml, or an edge table.", show_default=False
        ),
    ] = None,
    nodes: NodeTable = None,
    column: Column = None,
    classes: ClassNames = None,
    tables: TableOptions = NO_TABLE_OPTIONS,
    name: Name = None,
    ledger: LedgerOption = None,
    purpose: Purpose = None,
    person: Person = None,
    period: PeriodOfData = None,
    spend: Spend = False,
    prior: PriorFile = None,
    left: Annotated[
        bool, typer.Option("--left", help="Declare that known nodes which are not in the graph have left.")
    ] = False,
) -> None:
    """Score nodes that arrived since: every pair with an arrival is asked once, old pairs never again. It costs nothing more.

    For runs of votes-edp. All batches of a release cost its epsilon once. Nodes are known by their ids, which must not change.
    Predictions of old nodes stay as they were: an edge that appeared between two of them since is never read. A run can be
    extended once; extend the new one next month. Tables are read by the rules of the run. The ledger must be the one that the run
    was charged in. The name is that of the run.

    Example: caribou extend run --graph nov-edges.csv --nodes nov-nodes.csv --out run-nov
    """
    from caribou.estimators import load
    from caribou.saved_model import check_target

    check_target(out)
    model = load(run)
    require_takes_prior(model.method, model.takes_prior, prior)
    source = GraphSource(graph=graph, nodes=nodes, columns=column or (), classes=classes, tables=tables, prior=prior)
    own = None if prior is None else model.classes
    data = source.load(otherwise=own, unit=model.budget.unit, saved=model.column_rules)
    noted = noted_ledger(ledger, purpose=purpose, person=person, period=period)
    later = model.extend(data, ledger=noted, spend=spend, left=left, name=name)
    save_or_spool(later, out)
    cost = f"a release of its own: {later.budget}" if spend else "at no further cost: a batch of the same release"
    where = "" if ledger is None else f", entered in {ledger}"
    typer.echo(f"{model.arrivals.found(data)} of {model.num_nodes} known nodes are in the graph")
    typer.echo(f"{later.num_nodes - model.num_nodes} new nodes, {cost}{where}")
    typer.echo(f"saved {out} (caribou predict {out} --out predictions.csv; next time: caribou extend {out})")
