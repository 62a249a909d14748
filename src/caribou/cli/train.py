"""``caribou train``: fit a method privately, and say how good it is, what it cost and what is not protected."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from caribou._validate import MAX_ROUNDS, integer, positive, positive_or_inf
from caribou.cli.certificate import write_release_page
from caribou.cli.command import argument, as_json, command, option, record, switch
from caribou.cli.engine_options import EngineOptions, graph_of
from caribou.cli.options import (
    DELTA,
    EPSILON,
    METHOD_UNIT,
    NAME,
    PAGE,
    PRIOR,
    SETTINGS,
    GraphOptions,
    LedgerOptions,
    class_words,
    require_takes_prior,
)
from caribou.cli.output import print_facts, print_json
from caribou.cli.progress import fit_progress
from caribou.cli.spool import place_taken, save_or_spool
from caribou.errors import InputError
from caribou.machine.memory import peak_mb

if TYPE_CHECKING:
    from caribou.graph import Graph
    from caribou.metrics import Metrics, Threshold
    from caribou.model.estimator import Model
    from caribou.models.published_metrics import PublishedMetrics
    from caribou.privacy.budget import Budget
    from caribou.privacy.certificate import Certificate

FLAGGING = {"precision": "precision", "recall": "recall", "F1": "f1"}
"""What is printed of the nodes that a threshold flags, and its key in JSON."""


@record
class TrainOptions:
    """What caribou train takes."""

    method: str = argument("A family such as votes, or a method: caribou methods lists them.")
    unit: str | None = METHOD_UNIT
    graph: GraphOptions
    engine: EngineOptions
    name: str | None = NAME
    epsilon: float | None = EPSILON
    delta: float | None = DELTA
    seeds: int = option(
        "How many fits, each with its own split and public seed; 3 or more to measure a method.", default=1
    )
    settings: tuple[str, ...] = SETTINGS
    out: Path | None = option("Save the run to this new folder (with several seeds: OUT/0, OUT/1, ...).")
    ledger: LedgerOptions
    prior: Path | None = PRIOR
    metric: str | None = option(
        "Edge level: choose checkpoints and heads by accuracy, balanced_accuracy, macro_f1, f1, roc_auc or ap (average "
        "precision) of nodes that they were not fitted on. Of two classes f1 and ap are those of the rarer one."
    )
    positive: str | None = option(
        "The class that rankings, F1 and the threshold are about (default: of two classes the rarer)."
    )
    publish_metrics: float | None = option(
        "Node level: metrics of the test nodes with noise, for publication; test nodes pay this epsilon more."
    )
    no_ids: bool = switch("Keep the names of the nodes out of the saved run.")
    no_rows: bool = switch(
        "Keep digests of rows of features out of the saved run, to give it away: it then knows no row of this graph again."
    )
    page: bool = PAGE
    as_json: bool = as_json()

    @property
    def folders(self) -> list[Path]:
        """Where each fit is saved."""
        from caribou.model.state import check_target

        if self.out is None:
            return []
        out = check_target(self.out)
        return [out] if self.seeds == 1 else [out / str(number) for number in range(self.seeds)]


@dataclass(frozen=True)
class _Run:
    """One fit. Accuracies are not a number where no node of that part has a label."""

    model: Model
    test: Metrics
    val_accuracy: float
    seconds: float
    cpu_seconds: float
    published: PublishedMetrics | None = None


@command
def train(given: TrainOptions) -> None:
    """Fit a method privately and report metrics, cost, time and memory.

    Every fit is a release of its own: on a private graph several seeds cost more than one, and the total is printed.

    Example: caribou train votes-edp --dataset csbm --epsilon 4 --out run
    """
    from caribou.methods import METHODS, resolve
    from caribou.model.estimator import Model
    from caribou.model.state import keep_metrics, keep_published

    method = resolve(given.method, given.unit)
    info = METHODS[method]
    budget = budget_of(method, given.epsilon, given.delta)
    options = parse_settings(given.settings) | chosen_metric(given.metric, budget)
    integer(at_least=1, at_most=MAX_ROUNDS, seeds=given.seeds)
    extra = None if given.publish_metrics is None else published_budget(given.publish_metrics, budget, given.seeds)
    noted, ledger = given.ledger.noted(), given.ledger.path
    work = None if given.out is None else given.out.absolute().parent
    source = graph_of(given.engine, given.graph, given.name, given.prior, work, method)
    source.check()
    folders = given.folders
    # the first line that loads torch: bad flags are found before it, and bad settings before any data is read
    require_takes_prior(method, Model(method, budget, **options).takes_prior, given.prior)
    runs: list[_Run] = []
    with source, place_taken(given.out), fit_progress(method, given.seeds) as advance:
        for seed in range(given.seeds):
            data = source.load(seed, again=seed > 0, unit=info.unit)
            model = Model(method, budget, seed=seed, **options)
            if seed == 0:
                _require_positive(data, given.positive)
                _require_all(ledger, model, data, given.seeds, extra)
            wall, cpu = time.perf_counter(), time.process_time()
            model.fit(data, ledger=noted, replace_fingerprint=given.ledger.replace_fingerprint)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            _choose_threshold(model, given.positive)
            if folders:
                folders[seed].parent.mkdir(exist_ok=True)
                # at once: what has been paid for is not lost if a later fit fails
                save_or_spool(model, folders[seed], ids=not given.no_ids, rows=not given.no_rows)
            published = None if extra is None else model.publish_metrics(extra.epsilon, ledger=noted)
            if published is not None and folders:
                keep_published(folders[seed], published)
            test, val = (model.metrics(part, positive=given.positive) for part in ("test", "val"))
            runs.append(_Run(model, test, val.value("accuracy"), wall, cpu, published))
            if folders:
                keep_metrics(folders[seed], model.certificate, test.to_dict(model.classes))
                if given.page:
                    write_release_page(folders[seed], ledger)
            advance()
    document = _document(method, str(source), budget, runs, data)
    if given.as_json:
        print_json(document)
        return
    spent = runs[0].model.certificate.epsilon_spent
    where = f"under {data.name!r} in {ledger}" if ledger else "nowhere: no ledger was given (--ledger)"
    charged = [("charged", where)] if ledger or 0 < spent < math.inf else []
    print_facts([*_rows(document, runs[0].model), *charged, *_saved_rows(folders, runs[0].model, given.no_rows)])


def budget_of(method: str, epsilon: float | None, delta: float | None) -> Budget:
    """The budget of a method that is known; one without privacy takes any epsilon and says that it is not used."""
    from caribou.methods import METHODS
    from caribou.privacy.budget import Budget

    info = METHODS[method]
    if not info.private and epsilon is not None:
        positive_or_inf(epsilon=epsilon)
        typer.echo(f"note: epsilon is not used by {method}, which has no privacy", err=True)
        epsilon = None
    return Budget((4.0 if info.private else math.inf) if epsilon is None else epsilon, delta, info.unit)


def _require_positive(data: Graph, positive: str | None) -> None:
    from caribou.graph import listed
    from caribou.model.estimator import class_names

    if positive is not None and positive not in class_names(data):
        raise InputError(
            f"positive must be one of the classes {listed(class_names(data))}, got {positive!r} (--positive)"
        )


def _require_all(ledger: Path | None, model: Model, data: Graph, fits: int, extra: Budget | None) -> None:
    """Refuse before the first fit if the ledger cannot pay for all that is planned; a new one has no budget to exceed."""
    from caribou.models.published_metrics import metrics_plan
    from caribou.privacy.ledger import Ledger

    if (fits > 1 or extra is not None) and ledger is not None and os.path.lexists(ledger):
        more = () if extra is None else metrics_plan(data.sizes(extra.unit), extra).cost
        cost = (*model.plan(data).cost, *more)
        Ledger(ledger, create=False).require(data.name, model.budget.unit, cost, releases=fits)


def _choose_threshold(model: Model, positive: str | None) -> None:
    """For the declared class. What has been paid for is not lost where there is nothing to choose by."""
    from caribou.privacy.budget import PrivacyUnit

    if positive is None or model.budget.unit is PrivacyUnit.NODE:
        return
    try:
        model.choose_threshold(positive)
    except InputError as error:
        typer.echo(f"warning: no threshold: {error}", err=True)


def chosen_metric(metric: str | None, budget: Budget) -> dict[str, Any]:
    """The setting of --metric. At node level only what is already charged for may choose: the number of correct nodes."""
    from caribou.metrics import selecting_name
    from caribou.privacy.budget import PrivacyUnit

    if metric is None:
        return {}
    name = selecting_name(metric)
    if budget.unit is PrivacyUnit.EDGE:
        return {"metric": name}
    if name != "accuracy":
        raise InputError(
            "metric must be accuracy at node level, where validation labels are private: methods there choose by a noisy count "
            f"of correct nodes, which is charged; any other metric would read labels without noise, got {metric!r}"
        )
    return {}


def published_budget(epsilon: float, budget: Budget, fits: int) -> Budget:
    """What test nodes pay for metrics that may be published."""
    from caribou.privacy.budget import Budget, PrivacyUnit

    if budget.unit is not PrivacyUnit.NODE:
        raise InputError(
            "publish_metrics must go with a method at node level (--publish-metrics): at edge level labels are public and "
            f"metrics may be published as they are, got {epsilon!r}"
        )
    if fits > 1:
        raise InputError(f"publish_metrics must go with one fit (--seeds 1), got {fits} fits")
    return Budget(positive(publish_metrics=epsilon), budget.delta, budget.unit)


def _document(method: str, dataset: str, budget: Budget, runs: list[_Run], data: Graph) -> dict[str, Any]:
    from caribou.metrics import mean_interval
    from caribou.privacy.accounting import epsilon_of
    from caribou.privacy.budget import PrivacyUnit
    from caribou.privacy.documents import json_number

    certificate = runs[0].model.certificate
    released = [run.model.certificate for run in runs] + [run.published.certificate for run in runs if run.published]
    events = [event for each in released for event in each.cost]
    scores = [run.test.value("accuracy") for run in runs]
    low, high = mean_interval(scores)
    return {
        "method": method,
        "dataset": dataset,
        "epsilon": json_number(budget.epsilon),
        "delta": budget.delta,
        "unit": budget.unit.value,
        "class_counts": data.class_counts,
        # at node level they are counted from private labels, without noise
        "class_counts_may_be_published": budget.unit is not PrivacyUnit.NODE,
        "unlabelled": 0 if data.labels is None else int((data.labels < 0).sum()),
        "test_accuracy": {
            "mean": json_number((low + high) / 2),
            "ci95": json_number((high - low) / 2) if len(runs) > 1 else None,
            "runs": [json_number(score) for score in scores],
        },
        "test_metrics": mean_metrics([run.test.to_dict(run.model.classes) for run in runs]),
        "threshold": _threshold(runs),
        "published_metrics": _published(runs[0].published),
        "not_protected": budget.unit.unprotected,
        "val_accuracy": json_number(sum(run.val_accuracy for run in runs) / len(runs)),
        # at node level labels are private, and accuracies are computed from them without noise
        "accuracies_may_be_published": budget.unit is not PrivacyUnit.NODE,
        "epsilon_spent": json_number(certificate.epsilon_spent),
        "epsilon_of_all_fits": json_number(epsilon_of(events, budget.delta)),
        "seconds_per_fit": sum(run.seconds for run in runs) / len(runs),
        "cpu_seconds_per_fit": sum(run.cpu_seconds for run in runs) / len(runs),
        "peak_rss_mb": peak_mb(),
        "certificate": certificate.to_dict(),
    }


def mean_metrics(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Metrics of several fits as their means; what a fit could not measure is left out.

    >>> mean_metrics([{"a": 1.0, "b": {"c": None}}, {"a": 2.0, "b": {"c": 4.0}}])
    {'a': 1.5, 'b': {'c': 4.0}}
    """
    return runs[0] if len(runs) == 1 else {key: _mean([run[key] for run in runs]) for key in runs[0]}


def _mean(values: list[Any]) -> Any:
    if isinstance(values[0], dict):
        return mean_metrics(values)
    if isinstance(values[0], list):
        return [_mean(list(column)) for column in zip(*values, strict=True)]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _threshold(runs: list[_Run]) -> dict[str, Any] | None:
    """Where nodes are flagged, and what flagging reaches on the test nodes; of several fits the means."""
    found = [(run.model.threshold, run.test) for run in runs if run.model.threshold is not None]
    if not found:
        return None
    positive = found[0][0].positive
    rows = [flagging(cut, test) for cut, test in found if cut.positive == positive]
    return {"class": runs[0].model.classes[positive], **mean_metrics(rows)}


def flagging(cut: Threshold, test: Metrics) -> dict[str, Any]:
    """A threshold with precision, recall and F1 of the test nodes that it flags; None where no test node has a label."""
    matrix = cut.confusion(test.probabilities, test.labels)
    reached = matrix.per_class(("others", "members"))["members"] if matrix.total else {}
    on_test = {word: reached.get(word) for word in ("precision", "recall", "f1")}
    flagged = int(matrix.counts[:, 1].sum())
    return {"value": cut.value, "validation_f1": cut.f1, "test": {**on_test, "flagged": flagged}}


def _published(published: PublishedMetrics | None) -> dict[str, Any] | None:
    return None if published is None else {**published.to_dict(), "certificate": published.certificate.to_dict()}


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """``key=value`` pairs; values are read as JSON where they can be, else as words."""
    out: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InputError(f"set must be key=value, got {pair!r}")
        try:
            out[key] = json.loads(value)
        except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, or brackets without end
            out[key] = value
    return out


def _percent(share: float | None) -> str:
    return "no labels" if share is None else f"{share:.1%}"


def _rows(document: dict[str, Any], model: Model) -> Iterator[tuple[str, str]]:
    """What is printed of the document."""
    from caribou.methods import METHODS

    used = METHODS[model.method].edge_release
    accuracy = document["test_accuracy"]
    fits = len(accuracy["runs"])
    interval = "" if accuracy["ci95"] is None else f" ± {accuracy['ci95']:.1%} (95 % interval over {fits} fits)"
    majority = document["test_metrics"]["majority"]
    always = "" if majority is None else f" (always the most frequent class: {majority:.1%})"
    yield "method", document["method"]
    yield "graph", document["dataset"]
    yield "classes", class_words(document["class_counts"], document["unlabelled"])
    if used is not None and used not in model.released:
        yield "edges", _unused_edges(model)
    yield "test accuracy", f"{_percent(accuracy['mean'])}{interval}{always}"
    yield from metric_rows(document)
    yield "validation accuracy", _percent(document["val_accuracy"])
    if fits > 1:
        yield "all fits together", f"epsilon = {float(document['epsilon_of_all_fits']):.4g} on a private graph"
    if not document["accuracies_may_be_published"]:
        words = (
            "these metrics and the counts of classes: they read private labels without noise (see --publish-metrics)"
        )
        yield "do not publish", words
    yield from _published_rows(document["published_metrics"])
    yield from promise_rows(model.certificate)
    yield "seconds per fit", f"{document['seconds_per_fit']:.1f} ({document['cpu_seconds_per_fit']:.1f} CPU)"
    if document["peak_rss_mb"] is not None:
        yield "peak memory", f"{document['peak_rss_mb']:.0f} MB"


def _saved_rows(folders: list[Path], model: Model, no_rows: bool) -> Iterator[tuple[str, str]]:
    """Where the runs are, as the user would type it from here, what they are good for, and what they hold of rows."""
    if folders:
        first, here = folders[0], Path.cwd()
        shown = first.relative_to(here) if first.is_relative_to(here) else first
        uses = "predict, embed, certificate" if "state" in model.released else "predict, certificate"
        last = f" ... {folders[-1].name}" if len(folders) > 1 else ""
        yield "saved", f"{shown}{last} (caribou {uses} {shown})"
        digests = max(len(model.state.rows or ()), len(model.state.weights.get("prior.known.digests", ())))
        if digests and no_rows:
            yield "rows", "none are kept: in another graph, labelled nodes of this one count as new"
        elif digests:
            yield "rows", f"digests of {digests:,} rows are kept, under your own key (--no-rows leaves them out)"


def metric_rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Metrics beside accuracy, and the rarest class where one class has most of the nodes."""
    from caribou.metrics import IMBALANCED

    found = document["test_metrics"]
    if found["majority"] is None:
        return []
    named = {
        "balanced accuracy": found["balanced_accuracy"],
        "macro F1": found["macro_f1"],
        "ROC AUC": found["roc_auc"],
        "average precision": found["average_precision"],
        "Brier": found["brier"],
        "calibration error": found["calibration_error"],
    }
    rows = [("test metrics", ", ".join(f"{name} {value:.3f}" for name, value in named.items() if value is not None))]
    seen = {name: each for name, each in found["per_class"].items() if each["support"]}
    if found["majority"] >= IMBALANCED and len(seen) > 1:
        name = min(seen, key=lambda word: seen[word]["support"])
        each = seen[name]
        figures = ", ".join(f"{word} {each[key]:.3f}" for word, key in FLAGGING.items())
        rows.append(("rare class", f"{name}: {figures}, {each['support']:g} of the test nodes"))
    if document["threshold"] is not None:
        cut = document["threshold"]
        words = f"p_{cut['class']} >= {cut['value']:.3g}: F1 {cut['validation_f1']:.3f} on validation nodes"
        rows.append(("threshold", words))
        reached = [f"{name} {cut['test'][key]:.3f}" for name, key in FLAGGING.items() if cut["test"][key] is not None]
        if reached:
            rows.append(("flagged test nodes", f"{cut['test']['flagged']:g}: {', '.join(reached)}"))
    return rows


def _published_rows(published: dict[str, Any] | None) -> list[tuple[str, str]]:
    if published is None:
        return []
    words = []
    for name in ("accuracy", "balanced_accuracy", "macro_f1"):
        low, high = published[name]["interval95"]
        words.append(f"{name.replace('_', ' ')} {published[name]['value']:.3f} ({low:.3f} to {high:.3f})")
    return [("may be published", f"{', '.join(words)}; test nodes pay epsilon = {published['epsilon']:g} more")]


def _unused_edges(model: Model) -> str:
    """Why a method that may leave the edges alone did so."""
    from caribou.methods import METHODS

    settings = model.settings
    missing = [name for name in METHODS[model.method].declared if settings.get(name) is None]
    if missing:
        return f"not used: no degree is declared ({' '.join(f'--set {name}=...' for name in missing)})"
    return "not used: at this epsilon and with these declared degrees they would not help"


def promise_rows(certificate: Certificate) -> Iterator[tuple[str, str]]:
    """What a certificate promises, also by degree where that differs (degree: epsilon, in every graph)."""
    for title, words in certificate.promise():
        yield title.lower(), words
    curve, declared = certificate.epsilon_by_degree, certificate.scope.limit
    if len({epsilon for _, epsilon in curve}) > 1:
        points = (f"{d}{' (declared)' if d == declared else ''}: {epsilon:.4g}" for d, epsilon in curve)
        yield "epsilon by degree", f"{', '.join(points)} (degree: epsilon, in every graph)"
    yield "certificate", certificate.status
