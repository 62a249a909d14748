"""``caribou tune``: search for settings, with the search accounted for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from caribou.cli.certificate import write_release_page
from caribou.cli.options import AsJson, GraphOptions, LedgerOptions, Name, Page, Unit, with_option_groups
from caribou.cli.progress import fit_progress
from caribou.cli.spool import save_or_spool
from caribou.cli.train import attack_words, parse_settings
from caribou.errors import InputError


@with_option_groups
def tune(
    method: Annotated[str, typer.Argument(help="The method, as in caribou train.")],
    *,
    unit: Unit = None,
    trials: Annotated[int, typer.Option(help="How many settings to try (on private data: how many on average).")],
    public: Annotated[
        bool, typer.Option("--public", help="The data is public: the search is free, and no model is released.")
    ] = False,
    graph: GraphOptions,
    name: Name = None,
    epsilon: Annotated[float, typer.Option(help="Epsilon of the whole search (with --public: of each trial).")] = 4.0,
    delta: Annotated[float | None, typer.Option(help="Delta (default: 1e-05).", show_default=False)] = None,
    space: Annotated[
        Path | None, typer.Option(help="A TOML file, a list of values per setting. Default: the method's own space.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting that is not searched, key=value; may be repeated.")
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            help="What is best on validation nodes: accuracy, balanced_accuracy, macro_f1, f1, roc_auc or ap; at node level "
            "accuracy."
        ),
    ] = "accuracy",
    seed: Annotated[int, typer.Option(help="The public seed (split, models).")] = 0,
    out: Annotated[Path | None, typer.Option(help="Save the best model to this new folder.")] = None,
    ledger: LedgerOptions,
    page: Page = False,
    as_json: AsJson = False,
) -> None:
    """Try several settings and keep the best, within one budget.

    On private data looking costs: either all trials compose, or their number is random and hidden and only the best is shown
    (Papernot and Steinke 2022), whichever leaves more for each trial. The certificate covers the whole search. With --public
    nothing is accounted and only the settings are printed.

    Example: caribou tune mlp-dp --dataset csbm:nodes=400 --epsilon 8 --trials 5 --out tuned
    """
    from caribou.experiments.grid import read_toml
    from caribou.methods import METHODS, resolve
    from caribou.metrics import metric_name
    from caribou.model import tuning
    from caribou.model.estimator import Model
    from caribou.model.state import check_target
    from caribou.privacy.budget import Budget

    method = resolve(method, unit)
    budget = Budget(epsilon, delta, METHODS[method].unit)
    if public and (out is not None or ledger.path is not None):
        raise InputError("out and ledger must not be given with --public, which releases no model")
    if out is not None:
        check_target(out)
    noted = ledger.noted()
    source = graph.source(name)
    data = source.load(seed, unit=budget.unit)
    if not public and out is None:
        typer.echo("warning: without --out the model that the search pays for is thrown away", err=True)
    # on private data the number of trials may be secret: no counter is shown
    with fit_progress(f"{method}, trials", trials if public else 1, stages=public) as advance:
        found = tuning.tune(
            method,
            data,
            budget,
            trials=trials,
            public=public,
            space=None if space is None else read_toml(space, "space"),
            fixed=parse_settings(settings or []),
            seed=seed,
            ledger=noted,
            replace_fingerprint=ledger.replace_fingerprint,
            progress=advance if public else lambda: None,
            metric=metric,
        )
    if found.fitted is not None and out is not None:
        model = Model.of(method, budget, found.settings, found.fitted, data, charged=ledger.path is not None)
        save_or_spool(model, out)
        if page:
            write_release_page(out, ledger.path)
    document: dict[str, Any] = {
        "method": method,
        "dataset": str(source),
        "settings": dict(found.settings),
        "public": public,
        "metric": metric_name(metric),
        "val_score": found.score,
        "val_accuracy": found.score if metric == "accuracy" else None,
        "epsilon_of_a_trial": epsilon if found.plan is None else found.plan.epsilon,
        "certificate": None if found.fitted is None else found.fitted.certificate.to_dict(),
    }
    if as_json:
        typer.echo(json.dumps(document, indent=2))
        return
    _print(document, str(budget), out, found.plan.theorem if found.plan else None)


def _print(document: dict[str, Any], budget: str, out: Path | None, theorem: str | None) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("method", document["method"])
    table.add_row("best settings", ", ".join(f"{k}={json.dumps(v)}" for k, v in document["settings"].items()))
    if document["val_score"] is not None:
        table.add_row(f"validation {document['metric'].replace('_', ' ')}", f"{document['val_score']:.1%}")
    if document["public"]:
        table.add_row("cost", "free: you declared graph, features and labels public")
    else:
        table.add_row("cost of the search", f"{budget}, the released model included")
        table.add_row("one trial", f"epsilon = {document['epsilon_of_a_trial']:.4g}; {theorem}")
        for question, words in attack_words(document["certificate"]):
            table.add_row(question, words)
        table.add_row("certificate", document["certificate"]["status"])
    if out is not None:
        table.add_row("saved", str(out))
    Console().print(table)
