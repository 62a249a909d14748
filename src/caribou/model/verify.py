"""Verification of a release by its method: the plan is made again from settings and sizes, and the whole certificate compared.

Making a plan takes public numbers alone, so it needs no graph and no torch. A certificate of somebody's own code cannot be
planned again: its figures are recomputed, and what it says besides is listed as declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from caribou._validate import integer
from caribou.errors import CertificateError
from caribou.methods.base import AFTER, GrowingMethod, released_since
from caribou.methods.catalogue import METHODS, MethodInfo
from caribou.methods.mlp import StatedSample
from caribou.methods.search import plan_selected
from caribou.models.published_metrics import metrics_plan
from caribou.privacy import verify as figures
from caribou.privacy.assumptions import LASTING, AssumptionName
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu, calibrate_propagation
from caribou.privacy.certificate import Certificate
from caribou.privacy.mechanism_records import MessagePassingRecord, OwnRecord, SelectionRecord
from caribou.privacy.plan import Link, ReleaseKind, ReleasePlan
from caribou.privacy.selection import SelectionPlan
from caribou.privacy.sizes import Sizes
from caribou.privacy.verify import Remade, Verification
from caribou.release import embeddings_plan

SIZES = ("nodes", "columns", "classes", "train_nodes", "val_nodes", "test_nodes")
"""Public parameters that are sizes of the graph."""


def verify(certificate: Certificate) -> Verification:
    """Recompute everything a certificate claims, from its own events, records, settings and public sizes.

    Fails if a figure does not follow from its inputs; if the method, with the stated settings and sizes, would release anything
    else, by other mechanisms, with other noise or under other assumptions; if an assumption does not hold; or if there is no
    privacy at all. What it cannot see is listed as declared (`Verification.declared`): above all, whether the release was really
    made this way. A consistent forgery passes; only a signature can tell.

    Args:
        certificate: as it was read (`Certificate.load`).

    Returns:
        Every check with its outcome, what is only declared, and epsilon by two more accountants.

    >>> import caribou as cb
    >>> graph, layer = cb.datasets.load("chain-s"), cb.ContractiveGraphLayer(0.8)
    >>> release = cb.release(graph, layer, hops=4, budget=cb.Budget(2), bounds=cb.Bounds(degree_floor=2))
    >>> verify(release.certificate).passed
    True
    """
    return figures.verify(certificate, remade)


def remade(c: Certificate) -> Remade | None:
    """The plan of a release, made again from what its certificate says; None of a method that is not the library's."""
    own = _states(c, AssumptionName.OWN_CODE) or any(isinstance(record, OwnRecord) for record in c.mechanisms)
    if own and c.kind is not ReleaseKind.METRICS:  # these are the library's whatever the model is
        return None
    budget = Budget(c.epsilon, c.delta, c.unit)
    match c.kind:
        case ReleaseKind.METRICS:
            return _metrics(c, budget)
        case ReleaseKind.EMBEDDINGS:
            return _embeddings(c, budget)
        case ReleaseKind.SEARCH:
            return _search(c, budget)
        case ReleaseKind.FIT | ReleaseKind.PREDICTION | ReleaseKind.BATCH:
            return _of_method(c, budget)
    raise CertificateError.of("kind", "be one of the library, or the certificate must state own code", c.kind.value)


def _of_method(c: Certificate, budget: Budget) -> Remade:
    """A fit, a prediction of another graph or a batch of a growing one."""
    info = _info(c)
    settings = _settings(info, c.public_parameters, c)
    recipe, sizes = info.recipe(**settings), _sizes(c)
    if c.kind is ReleaseKind.FIT:
        plan = recipe.plan(sizes, budget)
    elif c.kind is ReleaseKind.PREDICTION:
        plan = recipe.plan_graph(sizes, budget, None)
    elif isinstance(recipe, GrowingMethod):
        stated = [a.parameters for a in _stated(c, AssumptionName.ARRIVALS)]
        if not stated and AFTER not in c.public_parameters:
            raise CertificateError.of(AFTER, "be stated of a batch that no other release pays for", None)
        link = Link(stated[0]["release"], stated[0]["extends"]) if stated else None
        plan = recipe.plan_batch(sizes, budget, link, c.public_parameters["batch"])
        plan = released_since(_words(c, AFTER), plan) if AFTER in c.public_parameters else plan
    else:
        raise CertificateError.of("kind", f"be one that {_words(c, 'method')} can make", c.kind.value)
    taken = _taken(plan, "batch", *SIZES, *settings)
    # at edge level a prediction of another graph releases about it what a fit does
    return Remade(plan, ("kind", *taken) if c.unit is PrivacyUnit.EDGE else taken)


def _search(c: Certificate, budget: Budget) -> Remade:
    """A search, with its trials as they are listed."""
    (record,) = c.mechanisms
    if not isinstance(record, SelectionRecord):
        raise CertificateError.of("mechanism", "be a private selection", record.mechanism.value)
    info = _info(c)
    recipes = [info.recipe(**_settings(info, trial.settings, c)) for trial in record.trials]
    selection = SelectionPlan(record.epsilon_of_a_trial, record.expected_trials, record.random, c.epsilon_spent)
    plan = plan_selected(recipes, record.order, selection, _sizes(c), budget, method=_words(c, "method"))
    trials = [f"details.trials.{place}.settings" for place in range(len(recipes))]
    listed = ("details.order", *trials, "details.trials: order", "details.trials: complete")
    return Remade(plan, (*(f"mechanisms.0.{path}" for path in listed), *_taken(plan, *SIZES)))


def _embeddings(c: Certificate, budget: Budget) -> Remade:
    """A release of X^(K): of which layer, on which bounds and from which start is the curator's choice."""
    (record,) = c.mechanisms
    if not isinstance(record, MessagePassingRecord):
        raise CertificateError.of("mechanism", "be perturbed message passing", record.mechanism.value)
    bound, size = record.calibrated.sensitivity, record.calibrated.arithmetic
    calibrated = calibrate_propagation(bound, hops=record.calibrated.hops, mu=budget_mu(budget), arithmetic=size)
    plan = embeddings_plan(budget, calibrated, start=_words(c, "start"))
    return Remade(plan, ("mechanisms.0.details.sensitivity.parameters", *_taken(plan, "start")))


def _metrics(c: Certificate, budget: Budget) -> Remade:
    """Metrics of test nodes; they rest on whatever the model rests on."""
    plan = replace(metrics_plan(_sizes(c), budget), assumptions=tuple(a for a in c.assumptions if a.name in LASTING))
    return Remade(plan, _taken(plan, *SIZES))


def _taken(plan: ReleasePlan, *keys: str) -> tuple[str, ...]:
    """Where these public parameters stand, but for those that a mechanism fixes."""
    fixed = {key for record in plan.mechanisms for key in record.public}
    return tuple(f"public_parameters.{key}" for key in keys if key in plan.public_parameters and key not in fixed)


# -- what a certificate says ----------------------------------------------------------------------------------------------


def _info(c: Certificate) -> MethodInfo:
    """The method of the library that the certificate names."""
    name = _words(c, "method")
    info = METHODS.get(name)
    if info is None or info.own is not None:
        raise CertificateError.of("method", "be one of the library, or the certificate must state own code", name)
    return info


def _settings(info: MethodInfo, stated: Mapping[str, Any], c: Certificate) -> dict[str, Any]:
    """The settings of the method among the public parameters; a public sample of features stands there as words."""
    sample = StatedSample("a sample") if _states(c, AssumptionName.PUBLIC_FEATURES) else None

    def with_sample(settings: Mapping[str, Any]) -> dict[str, Any]:
        used = settings.get("public_features", sample)
        return {**settings, "public_features": None if used is None else StatedSample(used)}

    settings = {key: stated[key] for key in info.settings() if key in stated}
    if isinstance(settings.get("base"), Mapping):
        settings["base"] = with_sample(settings["base"])
    return with_sample(settings) if "public_features" in info.settings() else settings


def _sizes(c: Certificate) -> Sizes:
    """The public sizes. At edge level the features have their columns, and most plans ask only if some are labelled."""
    edge = c.unit is PrivacyUnit.EDGE
    stated = {"train_nodes": 1 if edge else 0, **c.public_parameters}
    checked = (integer(at_least=0, **{key: stated.get(key, 0)}) for key in SIZES)
    features = [a.parameters["columns"] for a in _stated(c, AssumptionName.FEATURES_WITHOUT_EDGES)]
    nodes, columns, classes, train, val, test = checked
    if val + test > nodes:  # the training nodes may be those of the model, and not of this graph
        raise CertificateError.of("nodes", f"be at least those of the split, {val + test}", nodes)
    columns = features[0] if edge and features else columns
    return Sizes(nodes, columns, classes, train, val, test, given=_states(c, AssumptionName.GIVEN_PRIOR))


def _words(c: Certificate, key: str) -> str:
    words = c.public_parameters.get(key)
    if not isinstance(words, str):
        raise CertificateError.of(key, "be stated in words", words)
    return words


def _stated(c: Certificate, name: AssumptionName) -> list[Any]:
    return [assumption for assumption in c.assumptions if assumption.name is name]


def _states(c: Certificate, name: AssumptionName) -> bool:
    return bool(_stated(c, name))
