"""The plan of a search on private data: what all trials cost together, and what the chosen model rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from caribou.privacy.assumptions import STANDING, Assumption
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.events import Event, Laplace
from caribou.privacy.mechanism_records import SelectionRecord, Trial
from caribou.privacy.plan import ReleaseKind, ReleasePlan
from caribou.privacy.selection import SelectionPlan, plan_selection
from caribou.privacy.sizes import Sizes

if TYPE_CHECKING:
    from caribou.methods.base import Method

SCORE_SHARE = 0.1
"""What a trial's validation score gets of its epsilon at node level, where validation labels are private."""


def plan_search(
    recipes: Sequence[Method], order: Sequence[int], sizes: Sizes, budget: Budget, *, method: str
) -> ReleasePlan:
    """The plan that leaves the most for one trial. ``order``: the settings of a fixed number of trials, by place."""

    def costs(epsilon: float) -> list[tuple[Event, ...]]:
        noise = score_noise(budget, epsilon)
        score = () if noise is None else (Laplace(noise),)
        return [(*plan.cost, *score) for plan in _trials(recipes, sizes, budget, epsilon)]

    def all_events(epsilon: float) -> list[Event]:
        each = costs(epsilon)
        return [event for place in order for event in each[place]]

    selection = plan_selection(
        lambda e: list(dict.fromkeys(costs(e))), trials=len(order), budget=budget, listed=all_events
    )
    return plan_selected(recipes, order, selection, sizes, budget, method=method)


def plan_selected(
    recipes: Sequence[Method],
    order: Sequence[int],
    selection: SelectionPlan,
    sizes: Sizes,
    budget: Budget,
    *,
    method: str,
) -> ReleasePlan:
    """The plan of a whole search: what it costs, and what it rests on, over every setting that could be tried.

    Scope and assumptions are never those of the winner: the scope is the weakest, the assumptions are those of all settings.
    """
    trials = _trials(recipes, sizes, budget, selection.epsilon)
    record = SelectionRecord(
        unit=budget.unit,
        trials=tuple(
            Trial(_public_settings(recipe.settings()), plan.mechanisms)
            for recipe, plan in zip(recipes, trials, strict=True)
        ),
        epsilon_of_a_trial=selection.epsilon,
        expected_trials=selection.trials,
        order=tuple(order) if selection.random is None else (),
        random=selection.random,
        score_noise=score_noise(budget, selection.epsilon),
        delta=budget.delta,
    )
    return ReleasePlan(
        budget,
        (record,),
        released=(*dict.fromkeys(word for plan in trials for word in plan.released), "the chosen settings"),
        method=method,
        kind=ReleaseKind.SEARCH,
        public_parameters={
            "nodes": sizes.nodes,
            "columns": sizes.columns,
            "classes": sizes.classes,
            "train_nodes": sizes.train,
            "val_nodes": sizes.val,
            "test_nodes": sizes.test,
        },
        assumptions=_all_assumptions(trials),
        search=record.theorem,
        parts={"selection": selection, "trials": tuple(trials)},
    )


def _trials(recipes: Sequence[Method], sizes: Sizes, budget: Budget, epsilon: float) -> list[ReleasePlan]:
    """The plan of every setting, with what is left for the fit: at node level the score has its share."""
    share = 1.0 if budget.unit is PrivacyUnit.EDGE else 1 - SCORE_SHARE
    trial = Budget(share * epsilon, budget.delta, budget.unit)
    return [recipe.plan(sizes, trial) for recipe in recipes]


def score_noise(budget: Budget, epsilon: float) -> float | None:
    """Scale of the Laplace noise on a trial's score; None at edge level, where labels are public."""
    return None if budget.unit is PrivacyUnit.EDGE else 1 / (SCORE_SHARE * epsilon)


def _public_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as a certificate may hold them: that a public sample was used, and not where its file lies."""
    shown = dict(settings)
    if isinstance(shown.get("base"), Mapping):
        shown["base"] = _public_settings(shown["base"])
    if shown.get("public_features") is not None:
        shown["public_features"] = "a sample"
    return shown


def _all_assumptions(trials: Sequence[ReleasePlan]) -> tuple[Assumption, ...]:
    """Those of every setting, each once. One that fails for a setting fails for the search. Standing ones are stated anyway."""
    found = [a for plan in trials for a in plan.assumptions if a.name not in STANDING]
    return tuple({a.name: a for a in sorted(found, key=lambda a: not a.holds)}.values())
