"""``caribou choose``: settings of methods for public data sets, by validation, from declared spaces of equal size."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from caribou.cli.options import DataDir
from caribou.errors import InputError
from caribou.experiments.hyperparameters import Choice, read_choices, write_choices

if TYPE_CHECKING:
    from caribou.experiments.search import HeldOut, Question
    from caribou.tuning import Space


def choose(
    dataset: Annotated[list[str], typer.Option(help="A public data set by name; may be repeated.")],
    methods: Annotated[list[str] | None, typer.Argument(help="Methods; default: all that have a space.")] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(help="Epsilon, may be repeated (default: 4). Without privacy: inf.", show_default=False),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many splits to average over.", min=1)] = 2,
    spaces: Annotated[
        Path | None, typer.Option(help="Folder with a search space per method, <method>.toml (default: the paper's).")
    ] = None,
    trials: Annotated[
        Path | None,
        typer.Option(help="Folder for the trials, <data set>.jsonl; done ones are skipped (default: the paper's)."),
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(help="The file of chosen settings to update (default: the paper's).")
    ] = None,
    no_fits: Annotated[
        bool,
        typer.Option("--no-fits", help="Fit nothing: choose where all trials are there, elsewhere write the defaults."),
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Choose settings on validation nodes of public data, and store them for caribou train --settings.

    Every setting of a method's space is fitted for every seed and scored on validation nodes that the fit did not see. Labels of
    test nodes are taken away first. The data must be public: nothing is accounted for. A search that was stopped goes on
    where it was.

    Example: caribou choose gap-edp mlp --dataset cora --epsilon 4 --seeds 2
    """
    from caribou.datasets import load
    from caribou.experiments.reproduction import require
    from caribou.experiments.search import held_out, read_spaces
    from caribou.models.encoder import kept_encoders

    spaces = require().spaces if spaces is None else spaces
    trials = require().trials if trials is None else trials
    settings = require().settings if settings is None else settings
    known = read_spaces(spaces)
    unknown = [name for name in methods or [] if name not in known]
    if unknown:
        raise InputError(f"methods must have a space in {spaces}, got {', '.join(unknown)}")
    entries = {entry.key: entry for entry in read_choices(settings)} if settings.exists() else {}

    @functools.cache
    def data(name: str, seed: int) -> HeldOut:
        return held_out(load(name, data_dir=data_dir, seed=seed), seed)

    for name in dataset:
        with kept_encoders():
            for question in _questions(methods or list(known), name, epsilon or [4.0], seeds):
                file = trials / trials_name(name)
                if no_fits:
                    choice = _known(question, known[question.method], file)
                else:
                    choice = _search(question, known[question.method], data, file)
                    typer.echo(_line(choice))
                entries[choice.key] = choice
                write_choices(settings, entries.values())
        data.cache_clear()


def trials_name(dataset: str) -> str:
    """The file of a data set's trials; its options go into the name as words that every file system takes."""
    return "".join(c if c.isalnum() or c in "-.=," else "_" for c in dataset) + ".jsonl"


def _questions(methods: list[str], dataset: str, epsilons: list[float], seeds: int) -> Iterator[Question]:
    """Epsilon by epsilon; methods without privacy, and those that spend nothing, once, at infinity."""
    from caribou.experiments.search import Question
    from caribou.methods import METHODS

    spending = [name for name in methods if METHODS[name].private and not METHODS[name].data_independent]
    for epsilon in epsilons:
        for name in spending:
            yield Question(name, dataset, epsilon, tuple(range(seeds)))
    for name in methods:
        if name not in spending:
            yield Question(name, dataset, math.inf, tuple(range(seeds)))


def _search(question: Question, space: Space, data: Callable[[str, int], HeldOut], file: Path) -> Choice:
    from caribou.experiments.search import append_trial, best_choice, read_trials, run_trials

    done = read_trials(file)
    return best_choice(question, run_trials(question, space, data, done, functools.partial(append_trial, file)))


def _known(question: Question, space: Space, file: Path) -> Choice:
    """From trials that were made; an entry that says so where they are not complete."""
    from caribou.experiments.search import best_choice, complete_trials, read_trials

    made = complete_trials(question, space, read_trials(file))
    return Choice(question.method, question.dataset, question.epsilon) if made is None else best_choice(question, made)


def _line(choice: Choice) -> str:
    of_defaults = "refused" if choice.default_accuracy is None else f"{choice.default_accuracy:.1%}"
    settings = ", ".join(f"{k}={json.dumps(v)}" for k, v in choice.settings.items()) or "the defaults"
    where = f"{choice.method} on {choice.dataset} at epsilon = {choice.epsilon:g}"
    return f"{where}: {choice.validation_accuracy:.1%} (defaults {of_defaults}) with {settings}"
