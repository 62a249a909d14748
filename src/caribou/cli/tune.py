"""``caribou tune``: search for settings, with the search accounted for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from caribou.cli.certificate import write_release_page
from caribou.cli.command import argument, as_json, command, option, record, switch
from caribou.cli.options import DELTA, METHOD_UNIT, NAME, PAGE, SETTINGS, GraphOptions, GraphSource, LedgerOptions
from caribou.cli.output import print_facts, print_json
from caribou.cli.progress import fit_progress
from caribou.cli.spool import place_taken, save_or_spool
from caribou.cli.train import parse_settings, promise_rows
from caribou.errors import InputError


@record
class TuneOptions:
    """What caribou tune takes."""

    method: str = argument("The method, as in caribou train.")
    unit: str | None = METHOD_UNIT
    trials: int = option("How many settings to try (on private data: how many on average).", default=...)
    public: bool = switch("The data is public: the search is free, and no model is released.")
    graph: GraphOptions
    name: str | None = NAME
    epsilon: float = option("Epsilon of the whole search (with --public: of each trial).", default=4.0)
    delta: float | None = DELTA
    space: Path | None = option("A TOML file, a list of values per setting. Default: the method's own space.")
    settings: tuple[str, ...] = SETTINGS
    metric: str = option(
        "What is best on validation nodes: accuracy, balanced_accuracy, macro_f1, f1, roc_auc or ap; at node level accuracy.",
        default="accuracy",
    )
    seed: int = option("The public seed (split, models).", default=0)
    out: Path | None = option("Save the best model to this new folder.")
    ledger: LedgerOptions
    page: bool = PAGE
    as_json: bool = as_json()


@command
def tune(given: TuneOptions) -> None:
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

    method, public, out, ledger = resolve(given.method, given.unit), given.public, given.out, given.ledger.path
    budget = Budget(given.epsilon, given.delta, METHODS[method].unit)
    if public and (out is not None or ledger is not None):
        raise InputError("out and ledger must not be given with --public, which releases no model")
    if out is not None:
        check_target(out)
    noted = given.ledger.noted()
    source = GraphSource(given.graph, given.name)
    data = source.load(given.seed, unit=budget.unit)
    if not public and out is None:
        typer.echo("warning: without --out the model that the search pays for is thrown away", err=True)
    # on private data the number of trials may be secret: no counter is shown
    with place_taken(out), fit_progress(f"{method}, trials", given.trials if public else 1, stages=public) as advance:
        found = tuning.tune(
            method,
            data,
            budget,
            trials=given.trials,
            public=public,
            space=None if given.space is None else read_toml(given.space, "space"),
            fixed=parse_settings(given.settings),
            seed=given.seed,
            ledger=noted,
            replace_fingerprint=given.ledger.replace_fingerprint,
            progress=advance if public else lambda: None,
            metric=given.metric,
        )
        if found.fitted is not None and out is not None:
            model = Model.of(method, budget, found.settings, found.fitted, data, charged=ledger is not None)
            save_or_spool(model, out)
    if found.fitted is not None and out is not None and given.page:
        write_release_page(out, ledger)
    document: dict[str, Any] = {
        "method": method,
        "dataset": str(source),
        "settings": dict(found.settings),
        "public": public,
        "metric": metric_name(given.metric),
        "val_score": found.score,
        "val_accuracy": found.score if given.metric == "accuracy" else None,
        "epsilon_of_a_trial": given.epsilon if found.plan is None else found.plan.epsilon,
        "certificate": None if found.fitted is None else found.fitted.certificate.to_dict(),
    }
    if given.as_json:
        print_json(document)
        return
    promised = [] if found.fitted is None else promise_rows(found.fitted.certificate)
    saved = [] if out is None else [("saved", str(out))]
    print_facts([*_rows(document, str(budget), found.plan.theorem if found.plan else None), *promised, *saved])


def _rows(document: dict[str, Any], budget: str, theorem: str | None) -> Iterator[tuple[str, str]]:
    yield "method", document["method"]
    yield "best settings", ", ".join(f"{k}={json.dumps(v)}" for k, v in document["settings"].items())
    if document["val_score"] is not None:
        yield f"validation {document['metric'].replace('_', ' ')}", f"{document['val_score']:.1%}"
    if document["public"]:
        yield "cost", "free: you declared graph, features and labels public"
    else:
        yield "cost of the search", f"{budget}, the released model included"
        yield "one trial", f"epsilon = {document['epsilon_of_a_trial']:.4g}; {theorem}"
