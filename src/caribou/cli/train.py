"""``caribou train``: fit a method privately, several times, and say how good it is and what it cost."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from caribou._validate import integer, positive_or_inf
from caribou.cli.options import (
    NO_TABLE_OPTIONS,
    AsJson,
    ClassNames,
    Column,
    DataDir,
    Dataset,
    GraphFile,
    GraphSource,
    LedgerOption,
    Name,
    NodeTable,
    ReplaceFingerprint,
    TableOptions,
    class_words,
    with_table_options,
)
from caribou.errors import InputError
from caribou.memory import peak_mb

if TYPE_CHECKING:
    from caribou.estimators import Model
    from caribou.graph import Graph
    from caribou.privacy.budget import Budget


GRAPH_OPTIONAL = {"votes-ndp": "votes", "caribou-ndp": "state"}
"""Methods that leave the edges alone where a public rule says that they would not help; what they release if they do not."""


@dataclass(frozen=True)
class _Run:
    """One fit. Accuracies are not a number where no node of that part has a label."""

    model: Model
    test_accuracy: float
    val_accuracy: float
    seconds: float
    cpu_seconds: float


@with_table_options
def train(
    method: Annotated[str, typer.Argument(help="The method: see the table in the documentation, Training.")],
    dataset: Dataset = None,
    graph: GraphFile = None,
    nodes: NodeTable = None,
    column: Column = None,
    classes: ClassNames = None,
    tables: TableOptions = NO_TABLE_OPTIONS,
    name: Name = None,
    data_dir: DataDir = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Epsilon of one fit (default: 4; inf for methods without privacy).", show_default=False),
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Delta of one fit (default: 1e-05).", show_default=False)] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="How many fits, each with its own split and public seed (default: 3; 1 with --out or --ledger).",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the method, key=value; may be repeated.")
    ] = None,
    settings_file: Annotated[
        Path | None,
        typer.Option(
            "--settings",
            help="Use the settings that this file of caribou choose has for method, data set and epsilon; --set comes on top.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Save the run to this new folder (with several seeds: OUT/0, OUT/1, ...).")
    ] = None,
    ledger: LedgerOption = None,
    replace_fingerprint: ReplaceFingerprint = False,
    public_features: Annotated[
        Path | None,
        typer.Option(help="Node level: a public, unlabelled sample of feature rows (.npy, .npz, .csv, .parquet)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a method privately and report accuracy, cost, time and memory.

    Every fit is a release of its own: on a private graph several seeds cost more than one, and the total is printed.

    Example: caribou train votes-edp --dataset csbm --epsilon 4 --out run
    """
    from caribou.estimators import Model, accuracy
    from caribou.methods import method_info
    from caribou.privacy.budget import Budget
    from caribou.saved_model import check_target

    info = method_info(method)
    if not info.private and epsilon is not None:
        positive_or_inf(epsilon=epsilon)
        typer.echo(f"note: epsilon is not used by {method}, which has no privacy", err=True)
        epsilon = None
    budget = Budget((4.0 if info.private else math.inf) if epsilon is None else epsilon, delta, info.unit)
    stored = {} if settings_file is None else chosen_settings(method, dataset, budget.epsilon, settings_file)
    options = with_public_features(stored | parse_settings(settings or []), method, public_features)
    fits = (1 if out is not None or ledger is not None else 3) if seeds is None else integer(at_least=1, seeds=seeds)
    Model(method, budget, **options)  # bad settings are found before any data is read
    source = GraphSource(dataset, graph, nodes, column or (), name, data_dir, classes, tables)
    folders = [] if out is None else _folders(check_target(out), fits)
    runs: list[_Run] = []
    with fit_progress(method, fits) as advance:
        for seed in range(fits):
            data = source.load(seed, again=seed > 0, unit=info.unit)
            model = Model(method, budget, seed=seed, **options)
            if seed == 0 and ledger is not None:
                _require_all(ledger, model, data, fits)
            wall, cpu = time.perf_counter(), time.process_time()
            model.fit(data, ledger=ledger, replace_fingerprint=replace_fingerprint)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if folders:
                folders[seed].parent.mkdir(exist_ok=True)
                model.save(folders[seed])  # at once: what has been paid for is not lost if a later fit fails
            test, val = (accuracy(model.predict_proba(), data, part) for part in ("test", "val"))
            runs.append(_Run(model, test, val, wall, cpu))
            advance()
    document = _document(method, str(source), budget, runs, data)
    if as_json:
        typer.echo(json.dumps(document, indent=2))
        return
    charged = "" if ledger is None else f"under {data.name!r} in {ledger}"
    _print(document, str(budget), runs[0].model, folders, charged)


def _folders(out: Path, fits: int) -> list[Path]:
    return [out] if fits == 1 else [out / str(number) for number in range(fits)]


def _require_all(ledger: Path, model: Model, data: Graph, fits: int) -> None:
    """Refuse several fits before the first one if the ledger cannot pay for all of them; a new one has no budget to exceed."""
    from caribou.privacy.ledger import Ledger

    if fits > 1 and os.path.lexists(ledger):
        Ledger(ledger, create=False).require(data.name, model.budget.unit, model.plan(data).cost, releases=fits)


def _document(method: str, dataset: str, budget: Budget, runs: list[_Run], data: Graph) -> dict[str, Any]:
    from caribou.experiments.report.summary import mean_of
    from caribou.privacy.accounting import epsilon_of
    from caribou.privacy.budget import PrivacyUnit
    from caribou.privacy.certificate import json_number

    certificate = runs[0].model.certificate
    events = [event for run in runs for event in run.model.certificate.cost]
    scores = [run.test_accuracy for run in runs]
    return {
        "method": method,
        "dataset": dataset,
        "epsilon": json_number(budget.epsilon),
        "delta": budget.delta,
        "unit": budget.unit.value,
        "class_counts": data.class_counts,
        "unlabelled": 0 if data.labels is None else int((data.labels < 0).sum()),
        "test_accuracy": {
            "mean": json_number(mean_of(scores).value),
            "ci95": json_number(mean_of(scores).half_width),
            "runs": [json_number(score) for score in scores],
        },
        "val_accuracy": json_number(mean_of([run.val_accuracy for run in runs]).value),
        # at node level labels are private, and accuracies are computed from them without noise
        "accuracies_may_be_published": budget.unit is not PrivacyUnit.NODE,
        "epsilon_spent": json_number(certificate.epsilon_spent),
        "epsilon_of_all_fits": json_number(epsilon_of(events, budget.delta)),
        "seconds_per_fit": mean_of([run.seconds for run in runs]).value,
        "cpu_seconds_per_fit": mean_of([run.cpu_seconds for run in runs]).value,
        "peak_rss_mb": peak_mb(),
        "certificate": certificate.to_dict(),
    }


@contextmanager
def fit_progress(title: str, fits: int) -> Iterator[Callable[[], None]]:
    """A progress bar over fits on stderr; yields what is to be called after each."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    # without a terminal the bar would leave an empty line before the one line of an error
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=fits)
        yield lambda: progress.advance(task)


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """``key=value`` pairs; values are read as JSON where they can be, else as words."""
    out: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InputError(f"set must be key=value, got {pair!r}")
        try:
            out[key] = json.loads(value)
        except json.JSONDecodeError:
            out[key] = value
    return out


def chosen_settings(method: str, dataset: str | None, epsilon: float, file: Path) -> dict[str, Any]:
    """The entry of the file for this fit; settings are chosen per data set, so there is none for a user's own graph."""
    from caribou.experiments.hyperparameters import tuned_settings

    if dataset is None:
        raise InputError("settings must go with --dataset, got --graph")
    return dict(tuned_settings(method, dataset, epsilon, file).settings)


def with_public_features(settings: dict[str, Any], method: str, file: Path | None) -> dict[str, Any]:
    """The settings with --public-features in its place: a setting of the model, which votes-ndp holds under ``base``."""
    if file is None:
        return settings
    if method == "mlp-dp":
        return {**settings, "public_features": str(file)}
    if method == "votes-ndp":
        base = settings.get("base", {})
        if not isinstance(base, dict):
            raise InputError(f"base must have settings of mlp-dp, got {base!r}")
        return {**settings, "base": {**base, "public_features": str(file)}}
    raise InputError(f"public_features must go with mlp-dp or votes-ndp, got {method}")


def _percent(share: float | None) -> str:
    return "no labels" if share is None else f"{share:.1%}"


def _print(document: dict[str, Any], budget: str, model: Model, folders: list[Path], charged: str) -> None:
    from rich.console import Console
    from rich.table import Table

    accuracy = document["test_accuracy"]
    interval = (
        ""
        if accuracy["ci95"] is None
        else f" ± {accuracy['ci95']:.1%} (95 % interval over {len(accuracy['runs'])} fits)"
    )
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # a path must not be cut off
    table.add_row("method", document["method"])
    table.add_row("graph", document["dataset"])
    table.add_row("guarantee of one fit", budget)
    table.add_row("classes", class_words(document["class_counts"], document["unlabelled"]))
    if document["epsilon_spent"] == 0:
        table.add_row("spent", "nothing: no private data is read")
    if model.method in GRAPH_OPTIONAL and GRAPH_OPTIONAL[model.method] not in model.released:
        table.add_row("edges", _unused_edges(model))
    table.add_row("test accuracy", f"{_percent(accuracy['mean'])}{interval}")
    table.add_row("validation accuracy", _percent(document["val_accuracy"]))
    if len(accuracy["runs"]) > 1:
        total = document["epsilon_of_all_fits"]
        table.add_row(
            "all fits together",
            f"epsilon = {total if isinstance(total, str) else f'{total:.4g}'} on a private graph",
        )
    if document["unit"] == "node":
        # At edge level labels are public; here an accuracy is a function of private labels, and no noise is added to it.
        table.add_row(
            "do not publish", "the accuracies and the counts of classes: they read private labels without noise"
        )
    for question, words in attack_words(document["certificate"]):
        table.add_row(question, words)
    curve = curve_words(document["certificate"])
    if curve:
        table.add_row("epsilon by degree", curve)
    table.add_row("seconds per fit", f"{document['seconds_per_fit']:.1f} ({document['cpu_seconds_per_fit']:.1f} CPU)")
    if document["peak_rss_mb"] is not None:
        table.add_row("peak memory", f"{document['peak_rss_mb']:.0f} MB")
    table.add_row("certificate", document["certificate"]["status"])
    if charged:
        table.add_row("charged", charged)
    if folders:
        uses = ("predict", "embed", "certificate") if "state" in model.released else ("predict", "certificate")
        last = f" ... {folders[-1].name}" if len(folders) > 1 else ""
        table.add_row("saved", f"{_shown(folders[0])}{last} (caribou {', '.join(uses)} {_shown(folders[0])})")
    Console().print(table)


def _unused_edges(model: Model) -> str:
    """Why a method that may leave the edges alone did so."""
    settings = model.settings
    needed = (
        ("declared_degree", "declared_average_degree") if model.method == "votes-ndp" else ("declared_average_degree",)
    )
    missing = [name for name in needed if settings.get(name) is None]
    if missing:
        return f"not used: no degree is declared ({' '.join(f'--set {name}=...' for name in missing)})"
    return "not used: at this epsilon and with these declared degrees they would not help"


def attack_words(certificate: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """What the promise means for an attacker: a line for each question."""
    unit, limit = certificate["unit"], certificate["scope"]["limit"]
    rates = {question: rate["0.01"] for question, rate in certificate["attack_success"].items()}
    whom = f"every {unit}" if limit is None else f"{unit}s of degree up to {limit}"
    secret = "does it have label A or B?" if unit == "node" else "this edge or that one?"
    return (
        (
            "attack on presence",
            f"is it there? At 1 % false positives at most {rates['presence']:.1%} true positives, for {whom}",
        ),
        (
            "attack on replacement",
            f"{secret} At 1 % false positives at most {rates['replacement']:.1%} true positives, for {whom}",
        ),
    )


def curve_words(certificate: dict[str, Any]) -> str:
    """What a node of each degree is promised, where that differs: degree and epsilon."""
    curve, declared = certificate["epsilon_by_degree"], certificate["scope"]["limit"]
    if len({epsilon for _, epsilon in curve}) < 2:
        return ""
    points = [f"{d}{' (declared)' if d == declared else ''}: {_epsilon_words(epsilon)}" for d, epsilon in curve]
    return f"{', '.join(points)} (degree: epsilon, in every graph)"


def _epsilon_words(epsilon: float | str) -> str:
    if isinstance(epsilon, str):
        return epsilon
    return f"{epsilon:.3g}" if epsilon < 1000 else f"{epsilon:.0f}"


def _shown(path: Path) -> str:
    """The path as the user would type it from here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
