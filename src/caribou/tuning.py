"""Tuning: try settings, keep the best, and account for having looked.

A search space maps settings to the values worth trying. On public data a search is free. On private data its cost is planned
first (`caribou.privacy.selection`), trials are fitted with what that leaves, and the certificate of the chosen model covers the
whole search.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from caribou._validate import integer
from caribou.errors import InputError
from caribou.estimators import booked
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Fitted, Method, method_info
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Assumption, Certificate, MechanismRecord, certify
from caribou.privacy.events import EpsilonDelta, Event, Laplace
from caribou.privacy.ledger import Ledger
from caribou.privacy.selection import SelectionPlan, plan_selection
from caribou.randomness import Streams

Space = Mapping[str, Sequence[Any]]
SPACES: Mapping[str, Space] = {
    "caribou-edp": {"hops": [1, 2, 4], "contraction": [0.7, 0.9], "votes": [0.0, 0.5], "calibration": [0.1, 0.3]},
    "caribou-inf": {"hops": [1, 2, 4], "beta": [0.0, 0.3], "degree_floor": [2, 10], "calibration": [0.1, 0.3]},
    "caribou-ndp": {"graph_share": [0.0, 0.5, 0.85], "degree_cap": [10, 20, 50], "hops": [1, 2]},
    "votes-edp": {"voter_confidence": [0.9, 0.97], "round_confidence": [0.3, 0.5], "calibration": [0.3, 0.5]},
    "votes-ndp": {"declared_average_degree": [4, 20, 60]},
    "mlp-dp": {"clip": [0.2, 0.3, 0.5], "shrinkage": [0.2, 0.4, 0.8], "mean_share": [0.1, 0.2]},
    "mlp": {"hidden": [[], [32], [64, 16], [128, 32]]},
}
"""Search spaces by method. Public: written before any data is seen."""
DEFAULT = "default"
"""In a space: the method's own default, which may be a rule of the budget that no value stands for."""
SCORE_SHARE = 0.1
"""What a trial's validation score gets of its epsilon at node level, where validation labels are private."""


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
    ledger: Ledger | str | os.PathLike[str] | None = None,
    replace_fingerprint: bool = False,
    progress: Callable[[], None] = lambda: None,
) -> Tuned:
    """Search ``space`` for the settings with the best validation accuracy.

    ``public=True`` declares graph, features and labels public: every trial has the whole budget and nothing is accounted.
    Otherwise the whole search keeps ``budget``.

    Formal guarantee (not public): the returned model with its settings is (epsilon, delta)-DP at budget.unit. At edge level the
    score of a trial is computed from its release and public labels. At node level it is the number of correct validation
    nodes plus Laplace noise, which every node is charged for.
    """
    info = method_info(name)
    info.check(name, budget)
    integer(at_least=1, trials=trials)
    noise = noise or NoiseSource.secure()
    settings = combinations(name, space or SPACES.get(name, {}), fixed or {})
    recipes = [info.create(**values) for values in settings]
    order = Streams(seed).generator("tune").permutation(len(recipes))
    listed = [recipes[i] for i in np.resize(order, trials)]  # without repetition until all have been drawn once
    if public:
        return _search(listed, graph, budget, None, seed, noise, progress)

    def all_events(epsilon: float) -> list[Event]:
        return [
            event for recipe in listed for events in _trial_costs([recipe], graph, budget, epsilon) for event in events
        ]

    plan = plan_selection(
        lambda e: _trial_costs(recipes, graph, budget, e), trials=trials, budget=budget, listed=all_events
    )
    records = selection_records(plan, budget, all_events(plan.epsilon))  # before the list is drawn anew
    if plan.random is not None:
        # The theorem is about independent trials of one distribution: how many, and which settings, are secret coins.
        coins = noise.stream("trials")
        number = plan.random.number(_uniforms(coins, 1)[0])
        listed = [recipes[int(u * len(recipes))] for u in _uniforms(coins, number)]
    found: list[Tuned] = []

    def search(source: NoiseSource) -> Fitted:
        found.append(_search(listed, graph, budget, (plan, records), seed, source, progress))
        return found[0].fitted  # type: ignore[return-value]

    booked(
        search,
        tuple(record.event for record in records),
        graph,
        budget,
        description=f"{name}, tuned",
        ledger=ledger,
        noise=noise,
        replace_fingerprint=replace_fingerprint,
    )
    return found[0]


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


def _trial_costs(recipes: Sequence[Method], graph: Graph, budget: Budget, epsilon: float) -> list[tuple[Event, ...]]:
    """The events of one trial with this epsilon for every setting, its score included."""
    trial = _trial_budget(budget, epsilon)
    score: tuple[Event, ...] = () if budget.unit is PrivacyUnit.EDGE else (Laplace(1 / (SCORE_SHARE * epsilon)),)
    return [(*cost, *score) for cost in dict.fromkeys(recipe.cost(graph, trial) for recipe in recipes)]


def _trial_budget(budget: Budget, epsilon: float) -> Budget:
    """What is left for the fit; at node level the score has its share."""
    share = 1.0 if budget.unit is PrivacyUnit.EDGE else 1 - SCORE_SHARE
    return Budget(share * epsilon, budget.delta, budget.unit)


def _search(
    recipes: Sequence[Method],
    graph: Graph,
    budget: Budget,
    accounted: tuple[SelectionPlan, Sequence[MechanismRecord]] | None,
    seed: int,
    noise: NoiseSource,
    progress: Callable[[], None],
) -> Tuned:
    plan = None if accounted is None else accounted[0]
    trial_budget = budget if plan is None else _trial_budget(budget, plan.epsilon)
    best: tuple[tuple[float, str], Method, Fitted] | None = None
    for number, recipe in enumerate(recipes):
        coins = noise.stream(f"trial {number}")
        fitted = recipe.fit(graph, trial_budget, Streams(seed), coins)
        rank = (_score(fitted, graph, plan, budget, coins), _digest(recipe, fitted))
        progress()
        if best is None or rank > best[0]:
            best = (rank, recipe, fitted)
    (score, _), recipe, fitted = best  # type: ignore[misc]
    if accounted is None or plan is None:
        return Tuned(recipe.settings(), None, None, score)
    certificate = _certificate(fitted.certificate, plan, budget, accounted[1])
    model = Fitted(fitted.probabilities, certificate, fitted.released, fitted.weights)
    return Tuned(recipe.settings(), model, plan, score if budget.unit is PrivacyUnit.EDGE else None)


def _score(fitted: Fitted, graph: Graph, plan: SelectionPlan | None, budget: Budget, noise: NoiseSource) -> float:
    """Validation accuracy; at node level the noisy number of correct validation nodes."""
    split, labels = graph.for_learning()
    known = split.val[labels[split.val] >= 0]
    correct = float((fitted.probabilities[known].argmax(axis=1) == labels[known]).sum())
    if plan is None or budget.unit is PrivacyUnit.EDGE:
        return correct / max(1, len(known))
    noisy = noise.stream("score").add_laplace(np.array([correct]), scale=1 / (SCORE_SHARE * plan.epsilon))
    return float(noisy[0])


def _digest(recipe: Method, fitted: Fitted) -> str:
    """Breaks ties of the score by what a trial shows: the best must be taken by a total order, not by who came first."""
    sha = hashlib.sha256(json.dumps(recipe.settings(), sort_keys=True, default=str).encode())
    for arrays in (fitted.released, fitted.weights):
        for name in sorted(arrays):
            sha.update(name.encode() + np.asarray(arrays[name]).tobytes())
    return sha.hexdigest()


def _uniforms(noise: NoiseSource, count: int) -> np.ndarray:
    """Uniform on (0, 1), from secret coins: P(Gumbel <= x) = exp(-exp(-x)). [count]"""
    return np.clip(np.exp(-np.exp(-noise.gumbel((count,)))), 1e-12, 1 - 1e-12)


def selection_records(plan: SelectionPlan, budget: Budget, events: Sequence[Event]) -> tuple[MechanismRecord, ...]:
    """The cost of the whole search as lines of a certificate. ``events``: of all trials, if they are composed."""
    details = {"theorem": plan.theorem, "epsilon_of_a_trial": plan.epsilon, "expected_trials": plan.trials}
    if plan.random is None:
        return tuple(MechanismRecord("private selection", e, details) for e in events)
    return (MechanismRecord("private selection", EpsilonDelta(plan.spent, budget.delta), details),)


def _certificate(
    trial: Certificate, plan: SelectionPlan, budget: Budget, records: Sequence[MechanismRecord]
) -> Certificate:
    """The certificate of the chosen trial, with the cost of the whole search in the place of its own."""
    searched = Assumption(
        "hyper-parameters",
        f"Chosen on the private graph; the search is accounted for here: {plan.theorem}. Neither the other trials nor their "
        "number are published.",
    )
    return certify(
        budget,
        records,
        released=(*trial.released, "the chosen settings"),
        # the groups of one trial are inside the events of the search
        public_parameters={k: v for k, v in trial.public_parameters.items() if k != "groups"},
        assumptions=[searched if a.name == "hyper-parameters" else a for a in trial.assumptions],
    )
