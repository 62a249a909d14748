"""``caribou train``: fit a method privately, several times, and say how good it is and what it cost."""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from caribou._validate import integer
from caribou.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from caribou.graph import Graph
    from caribou.privacy.certificate import Certificate


@dataclass(frozen=True)
class _Run:
    """One fit. Accuracies are not a number where no node of that part has a label."""

    certificate: Certificate
    test_accuracy: float
    val_accuracy: float
    seconds: float
    cpu_seconds: float


def train(
    method: Annotated[str, typer.Argument(help="votes-edp, votes-ndp or mlp-dp.")],
    dataset: Annotated[str | None, typer.Option(help="A data set by name (see caribou datasets).")] = None,
    graph: Annotated[Path | None, typer.Option(help="Your own graph: .npz, .pt, .graphml, or an edge table.")] = None,
    nodes: Annotated[Path | None, typer.Option(help="The node table that belongs to an edge table.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with <name>.npz files, used before any download.", envvar="CARIBOU_DATA")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Epsilon of one fit; inf means no privacy.")] = 4.0,
    delta: Annotated[float | None, typer.Option(help="Delta of one fit (default: 1e-05).", show_default=False)] = None,
    seeds: Annotated[int, typer.Option(help="How many fits, each with its own split and public coins.")] = 3,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the method, key=value; may be repeated.")
    ] = None,
    public_features: Annotated[
        Path | None,
        typer.Option(help="Node level: a public, unlabelled sample of feature rows (.npy, .npz, .csv, .parquet)."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout, everything else on stderr.")
    ] = False,
) -> None:
    """Fit a method privately and report accuracy, cost, time and memory.

    Every fit is a release of its own: on a private graph several seeds cost more than one, and the total is printed.

    Example: caribou train votes-edp --dataset csbm --epsilon 4 --seeds 1
    """
    from rich.console import Console

    from caribou.mechanisms.noise import NoiseSource
    from caribou.methods import method_info
    from caribou.privacy.accounting import epsilon_of
    from caribou.privacy.budget import Budget
    from caribou.privacy.certificate import json_number
    from caribou.randomness import Streams

    info = method_info(method)
    budget = Budget(epsilon, delta, info.unit)
    recipe = info.create(**with_public_features(parse_settings(settings or []), method, public_features))
    integer(at_least=1, seeds=seeds)
    if (dataset is None) == (graph is None):
        raise InputError("give either --dataset NAME or --graph FILE")
    console = Console(stderr=True)
    runs: list[_Run] = []
    with console.status("") as status:
        for seed in range(seeds):
            status.update(f"{method}: fit {seed + 1} of {seeds}")
            data = _load(dataset, graph, nodes, data_dir, seed)
            wall, cpu = time.perf_counter(), time.process_time()
            fitted = recipe.fit(data, budget, Streams(seed), NoiseSource.secure())
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            test, val = (_accuracy(fitted.probabilities, data, part) for part in ("test", "val"))
            runs.append(_Run(fitted.certificate, test, val, wall, cpu))
    certificate = runs[0].certificate
    events = [event for run in runs for event in run.certificate.events]
    scores = [run.test_accuracy for run in runs]
    document = {
        "method": method,
        "dataset": dataset or str(graph),
        "epsilon": json_number(budget.epsilon),
        "delta": budget.delta,
        "unit": budget.unit.value,
        "test_accuracy": {
            "mean": json_number(_mean(scores)),
            "ci95": json_number(_half_width(scores)),
            "runs": [json_number(score) for score in scores],
        },
        "val_accuracy": json_number(_mean([run.val_accuracy for run in runs])),
        "epsilon_spent": json_number(certificate.epsilon_spent),
        "epsilon_of_all_fits": json_number(epsilon_of(events, budget.delta)),
        "seconds_per_fit": _mean([run.seconds for run in runs]),
        "cpu_seconds_per_fit": _mean([run.cpu_seconds for run in runs]),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        / (1024 if sys.platform != "darwin" else 1024**2),
        "certificate": certificate.to_dict(),
    }
    if as_json:
        typer.echo(json.dumps(document, indent=2))
        return
    _print(document, str(budget))


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


def with_public_features(settings: dict[str, Any], method: str, file: Path | None) -> dict[str, Any]:
    """The settings with --public-features in its place: a setting of the model, which votes-ndp holds under ``base``."""
    if file is None:
        return settings
    if method == "mlp-dp":
        return {**settings, "public_features": str(file)}
    if method == "votes-ndp":
        return {**settings, "base": {**settings.get("base", {}), "public_features": str(file)}}
    raise InputError(f"public_features must go with mlp-dp or votes-ndp, got {method}")


def _load(dataset: str | None, graph: Path | None, nodes: Path | None, data_dir: Path | None, seed: int) -> Graph:
    from caribou.datasets import load, read_graph

    if dataset is not None:
        if nodes is not None:
            raise InputError("nodes must go with --graph, got --dataset")
        return load(dataset, data_dir=data_dir, seed=seed)
    return read_graph(graph, nodes, seed=seed)  # type: ignore[arg-type]


def _accuracy(probabilities: np.ndarray, graph: Graph, part: str) -> float:
    import numpy as np

    split, labels = graph.for_learning()
    index = getattr(split, part)
    index = index[labels[index] >= 0]
    if len(index) == 0:
        return math.nan
    return float(np.mean(probabilities[index].argmax(axis=1) == labels[index]))


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _half_width(values: list[float]) -> float:
    """Half of the 95 % interval of the mean over the seeds (Student's t); not a number for one run."""
    if len(values) < 2:
        return math.nan
    from scipy.stats import t

    mean = _mean(values)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
    return float(t.ppf(0.975, len(values) - 1)) * deviation / math.sqrt(len(values))


def _percent(share: float | None) -> str:
    return "no labels" if share is None else f"{share:.1%}"


def _print(document: dict[str, Any], budget: str) -> None:
    from rich.console import Console
    from rich.table import Table

    accuracy = document["test_accuracy"]
    interval = (
        ""
        if accuracy["ci95"] is None
        else f" ± {accuracy['ci95']:.1%} (95 % interval over {len(accuracy['runs'])} fits)"
    )
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("method", document["method"])
    table.add_row("graph", document["dataset"])
    table.add_row("guarantee of one fit", budget)
    table.add_row("test accuracy", f"{_percent(accuracy['mean'])}{interval}")
    table.add_row("validation accuracy", _percent(document["val_accuracy"]))
    if len(accuracy["runs"]) > 1:
        total = document["epsilon_of_all_fits"]
        table.add_row(
            "all fits together", f"epsilon = {total if isinstance(total, str) else f'{total:.4g}'} on a private graph"
        )
    if document["unit"] == "node":
        # At edge level labels are public; here an accuracy is a function of private labels, and no noise is added to it.
        table.add_row("do not publish", "the accuracies: they read private labels without noise")
    table.add_row("seconds per fit", f"{document['seconds_per_fit']:.1f} ({document['cpu_seconds_per_fit']:.1f} CPU)")
    table.add_row("peak memory", f"{document['peak_rss_mb']:.0f} MB")
    table.add_row("certificate", document["certificate"]["status"])
    Console().print(table)
