"""Hyper-parameter search on public data sets, over declared spaces of equal size: ``python -m reproduction.choose``."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from caribou.errors import InputError
from reproduction.tuned import FILE, TunedSettings, read_settings, write_settings

if TYPE_CHECKING:
    from caribou.model.tuning import Space
    from reproduction.search import HeldOut, Study


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def choose(
    dataset: Annotated[list[str], typer.Option(help="A public data set by name; may be repeated.")],
    methods: Annotated[list[str] | None, typer.Argument(help="Methods; default: all that have a search space.")] = None,
    unit: Annotated[str | None, typer.Option(help="Of families such as votes: edge (default) or node.")] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(help="Epsilon, may be repeated (default: 4). Without privacy: inf.", show_default=False),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many random splits to average over.", min=1)] = 2,
    spaces: Annotated[
        Path | None, typer.Option(help="Folder of search spaces, <method>.toml (default: the paper's).")
    ] = None,
    trials: Annotated[
        Path | None,
        typer.Option(
            help="Folder of trials, <data set>.jsonl; finished ones are not run again (default: the paper's)."
        ),
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(help="The file of tuned settings to update (default: the paper's).")
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            help="What is best: accuracy, balanced_accuracy, macro_f1, f1, roc_auc or ap (average precision)."
        ),
    ] = "accuracy",
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with <name>.npz files, used before any download.", envvar="CARIBOU_DATA")
    ] = None,
) -> None:
    """Search hyper-parameters on public data, and store the best settings for experiments.

    A trial fits one setting of the search space with one seed and scores it on validation nodes that the fit did not see. Labels
    of test nodes are removed first. The data must be public: the search is not accounted for. On your own graph use caribou tune.
    A search that was stopped continues where it was.

    Example: python -m reproduction.choose gap-edp mlp --dataset cora --epsilon 4 --seeds 2
    """
    from caribou.datasets import load
    from caribou.methods import resolve
    from caribou.metrics import SELECTING, metric_name
    from caribou.models.encoder import kept_fits
    from reproduction.search import held_out, read_spaces

    spaces = FILE.parent / "spaces" if spaces is None else spaces
    trials = FILE.parent / "trials" if trials is None else trials
    settings = FILE if settings is None else settings
    metric = metric_name(metric, SELECTING)
    known = read_spaces(spaces)
    methods = [resolve(name, unit) for name in methods or known]
    unknown = [name for name in methods if name not in known]
    if unknown:
        raise InputError(f"methods must have a search space in {spaces}, got {', '.join(unknown)}")
    entries = {entry.key: entry for entry in read_settings(settings)} if settings.exists() else {}

    @functools.cache
    def data(name: str, seed: int) -> HeldOut:
        return held_out(load(name, data_dir=data_dir, seed=seed), seed)

    for name in dataset:
        with kept_fits():
            for study in _studies(methods, name, epsilon or [4.0], seeds, metric):
                file = trials / trials_name(name)
                best = _search(study, known[study.method], data, file)
                typer.echo(_line(best))
                entries[best.key] = best
                write_settings(settings, entries.values())
        data.cache_clear()


def trials_name(dataset: str) -> str:
    """The file of a data set's trials; its options go into the name as words that every file system takes."""
    return "".join(c if c.isalnum() or c in "-.=," else "_" for c in dataset) + ".jsonl"


def _studies(
    methods: list[str], dataset: str, epsilons: list[float], seeds: int, metric: str = "accuracy"
) -> Iterator[Study]:
    """Epsilon by epsilon; methods without privacy, and those that spend nothing, once, at infinity."""
    from caribou.methods import method_info
    from reproduction.search import Study

    infos = {name: method_info(name) for name in methods}
    spending = [name for name, info in infos.items() if info.private and not info.data_independent]
    for epsilon in epsilons:
        for name in spending:
            yield Study(name, dataset, epsilon, tuple(range(seeds)), metric)
    for name in methods:
        if name not in spending:
            yield Study(name, dataset, math.inf, tuple(range(seeds)), metric)


def _search(study: Study, space: Space, data: Callable[[str, int], HeldOut], file: Path) -> TunedSettings:
    from reproduction.search import append_trial, best_settings, read_trials, run_trials

    done = read_trials(file)
    return best_settings(study, run_trials(study, space, data, done, functools.partial(append_trial, file)))


def _line(best: TunedSettings) -> str:
    of_defaults = "refused" if best.default_accuracy is None else f"{best.default_accuracy:.1%}"
    settings = ", ".join(f"{k}={json.dumps(v)}" for k, v in best.settings.items()) or "the defaults"
    where = f"{best.method} on {best.dataset} at epsilon = {best.epsilon:g}"
    score = best.metric.replace("_", " ")
    return f"{where}: validation {score} {best.validation_accuracy:.1%} (defaults {of_defaults}) with {settings}"


if __name__ == "__main__":
    app()
