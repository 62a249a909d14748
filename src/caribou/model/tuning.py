"""Tuning: try settings, keep the best, and account for having looked.

A search space maps settings to the values worth trying. On public data a search is free. On private data its cost is planned
first (`caribou.privacy.selection`), trials are fitted with what that leaves, and the certificate of the chosen model covers the
whole search.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from caribou._validate import MAX_ROUNDS, integer
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Fitted, Method, Outputs, declared_plan, fit, prepared
from caribou.methods.catalogue import METHODS, Space, resolve
from caribou.methods.search import plan_search, score_noise
from caribou.metrics import Metrics, selecting_name
from caribou.models.encoder import kept_fits
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.selection import SelectionPlan
from caribou.randomness import Streams
from caribou.release import Drawn, LedgerLike, execute, require_left

DEFAULT = "default"
"""In a space: the method's own default, which may be a rule of the budget that no value stands for."""


@dataclass(frozen=True, eq=False)
class Tuned:
    """The best settings and, unless the data was public, the model that was fitted with them and its certificate."""

    settings: Mapping[str, Any]
    fitted: Fitted | None
    plan: SelectionPlan | None
    score: float | None


def tune(
    name: str,
    graph: Graph,
    budget: Budget,
    *,
    trials: int,
    public: bool = False,
    space: Space | None = None,
    fixed: Mapping[str, Any] | None = None,
    seed: int = 0,
    noise: NoiseSource | None = None,
    ledger: LedgerLike | None = None,
    replace_fingerprint: bool = False,
    progress: Callable[[], None] = lambda: None,
    metric: str = "accuracy",
) -> Tuned:
    """Search ``space`` for the settings that are best on validation nodes.

    Args:
        name: of the method, or of a family, of which the budget decides the unit.
        graph: with labels and a split.
        budget: of the whole search.
        trials: how many settings to try; on private data how many on average, if their number is random.
        public: declares graph, features and labels public: every trial has the whole budget and nothing is accounted.
        space: values by setting; None = that of its entry in `caribou.methods.METHODS`.
        fixed: settings that are not searched.
        seed: the public seed.
        noise: private randomness (default: a fresh key from the operating system).
        ledger: charge the cost of the search under ``graph.name`` before any noise is drawn, or refuse.
        replace_fingerprint: declares that changed content is still about the same people.
        progress: called after every trial.
        metric: what is best, of `caribou.metrics.SELECTING`; at node level accuracy alone, whose count has a bounded sensitivity.

    Returns:
        The best settings and, unless the data was public, the model that was fitted with them and its certificate.

    Formal guarantee (not public): the returned model with its settings is (epsilon, delta)-DP at budget.unit. At edge level the
    score of a trial is computed from its release and public labels. At node level it is the number of correct validation
    nodes plus Laplace noise, which every node is charged for.

    >>> from caribou.datasets import load
    >>> space = {"clip": [0.2, 0.4]}
    >>> tuned = tune("mlp-dp", load("csbm:nodes=80"), Budget(8, 1e-5, "node"), trials=1, public=True, space=space)
    >>> tuned.settings["clip"] in space["clip"], tuned.fitted is None
    (True, True)
    """
    name = resolve(name, budget.unit)
    info = METHODS[name]
    info.check(name, budget)
    integer(at_least=1, at_most=MAX_ROUNDS, trials=trials)
    metric = _selecting(metric, private_labels=budget.unit is PrivacyUnit.NODE and not public)
    noise = noise or NoiseSource.secure()
    recipes = [info.create(**values) for values in combinations(name, space or info.space, fixed or {})]
    # without repetition until all have been drawn once
    order = np.resize(Streams(seed).generator("tune").permutation(len(recipes)), trials)
    if public and ledger is not None:
        raise InputError("ledger must not be given for public data, of which nothing is charged")
    if public:
        return _public_search([recipes[i] for i in order], graph, budget, seed, noise, progress, metric)
    graph.for_learning(public=budget.unit is PrivacyUnit.EDGE)
    planned = plan_search(recipes, [int(i) for i in order], graph.sizes(budget.unit), budget, method=name)
    search = declared_plan(recipes[0], planned, budget, graph)

    selected, listed = search.parts["selection"], [int(i) for i in order]
    require_left(search, graph, ledger)
    with kept_fits():  # trials whose encoders have the same settings share one
        ready = {
            place: prepared(recipes[place], search.parts["trials"][place], graph, Streams(seed))
            for place in (dict.fromkeys(listed) if selected.random is None else range(len(recipes)))
        }

    def run(source: NoiseSource) -> Drawn[tuple[Method, Outputs, float]]:
        places = listed
        if selected.random is not None:
            # The theorem is about independent trials of one distribution: how many, and which settings, are private randomness.
            randomness = source.stream("trials")
            number = randomness.trial_number(shape=selected.random.shape, stop=selected.random.stop)
            places = [int(place) for place in randomness.integers(number, below=len(recipes))]
        # by place: two settings that look the same in a record need not have the same plan
        tried = [(ready[place], search.parts["trials"][place]) for place in places]
        # what a draw of the best trial adds has no place in the certificate, which is about all trials
        return Drawn(_best_trial(tried, search, graph, seed, source, progress, metric))

    released = execute(search, graph, run, noise=noise, ledger=ledger, replace_fingerprint=replace_fingerprint)
    recipe, outputs, score = released.value
    fitted = Fitted.of(outputs, released.certificate)
    edge = budget.unit is PrivacyUnit.EDGE
    return Tuned(recipe.settings(), fitted, search.parts["selection"], score if edge else None)


def combinations(name: str, space: Space, fixed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the space's values, with the fixed settings. The value "default" leaves a setting out.

    >>> combinations("gap-edp", {"hops": ["default", 2], "classifier_hidden": [64]}, {})
    [{'classifier_hidden': 64}, {'hops': 2, 'classifier_hidden': 64}]
    """
    for key, values in space.items():
        if not isinstance(values, list | tuple) or not values:
            raise InputError(f"space[{key!r}] must be a list of values, got {values!r}")
    left = {key: values for key, values in space.items() if key not in fixed}
    if not left:
        if not space:
            raise InputError(
                f"space must be given for {name}, which has none built in, e.g. reproduction/experiments/spaces/{name}.toml"
            )
        raise InputError(f"space must leave something to choose for {name}, got {dict(space)!r}")
    drawn = [dict(zip(left, values, strict=True)) for values in itertools.product(*left.values())]
    return [dict(fixed) | {k: v for k, v in values.items() if v != DEFAULT} for values in drawn]


def _key(recipe: Method) -> str:
    return json.dumps(recipe.settings(), sort_keys=True, default=str)


def _best_trial(
    tried: Sequence[tuple[Method, ReleasePlan]],
    search: ReleasePlan,
    graph: Graph,
    seed: int,
    noise: NoiseSource,
    progress: Callable[[], None],
    metric: str,
) -> tuple[Method, Outputs, float]:
    """The best of the trials by a total order of what each shows."""
    scale = score_noise(search.budget, search.parts["selection"].epsilon)
    best: tuple[tuple[float, str], Method, Outputs] | None = None
    for number, (recipe, plan) in enumerate(tried):
        source = noise.stream(f"trial {number}")
        outputs = recipe.fit(plan, graph, Streams(seed), source)
        score = _score(outputs.probabilities, graph, metric)
        if scale is not None:
            correct = _correct(outputs.probabilities, graph)
            score = float(source.stream("score").add_laplace(np.array([correct]), scale=scale)[0])
        rank = (score, _digest(recipe, outputs))
        progress()
        if best is None or rank > best[0]:
            best = (rank, recipe, outputs)
    if best is None:
        raise InputError("trials must be at least 1, got 0")
    return best[1], best[2], best[0][0]


def _public_search(
    tried: Sequence[Method],
    graph: Graph,
    budget: Budget,
    seed: int,
    noise: NoiseSource,
    progress: Callable[[], None],
    metric: str,
) -> Tuned:
    """On public data every trial has the whole budget, and nothing is accounted."""
    ranked = []
    for number, recipe in enumerate(tried):
        fitted = fit(recipe, graph, budget, Streams(seed), noise.stream(f"trial {number}"))
        ranked.append(((_score(fitted.probabilities, graph, metric), _digest(recipe, fitted)), recipe))
        progress()
    (score, _), recipe = max(ranked, key=lambda trial: trial[0])
    return Tuned(recipe.settings(), None, None, score)


def _selecting(metric: str, *, private_labels: bool) -> str:
    """The whole name of a metric that may choose."""
    name = selecting_name(metric)
    if private_labels and name != "accuracy":
        raise InputError(
            "metric must be accuracy at node level, where validation labels are private: noise is added to the number of correct "
            f"nodes, which one node moves by 1, and no such bound is known here for {name} (--metric), got {metric!r}"
        )
    return name


def _score(probabilities: np.ndarray, graph: Graph, metric: str) -> float:
    """The metric of the validation nodes; 0 where there is nothing to measure."""
    split, labels = graph.for_learning()
    value = Metrics(probabilities[split.val], np.array(labels)[split.val]).value(metric)
    return 0.0 if np.isnan(value) else value


def _correct(probabilities: np.ndarray, graph: Graph) -> float:
    """How many validation nodes are right."""
    split, labels = graph.for_learning()
    known = split.val[labels[split.val] >= 0]
    return float((probabilities[known].argmax(axis=1) == labels[known]).sum())


def _digest(recipe: Method, fitted: Outputs | Fitted) -> str:
    """Breaks ties of the score by what a trial shows: the best must be taken by a total order, not by who came first."""
    sha = hashlib.sha256(_key(recipe).encode())
    for arrays in (fitted.released, fitted.weights):
        for name in sorted(arrays):
            sha.update(name.encode() + np.asarray(arrays[name]).tobytes())
    return sha.hexdigest()
