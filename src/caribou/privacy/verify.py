"""Verification: everything that a certificate claims, recomputed from its own figures.

What no program can know (whether the release was really made this way, words, versions, times) is listed as declared, with the
fields that it stands in. docs/certificates.md has the list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from caribou._validate import integer
from caribou.errors import CaribouError, InputError
from caribou.privacy.accounting import epsilon_of, event_words, pld_epsilon, rdp_epsilon_of
from caribou.privacy.assumptions import STANDING, Assumption, AssumptionName
from caribou.privacy.budget import Budget
from caribou.privacy.certificate import NO_PRIVACY, Certificate
from caribou.privacy.events import Event, Laplace, NonPrivate, event_to_dict
from caribou.privacy.mechanism_records import (
    DECLARED_FIELDS,
    DETERMINED,
    RESPONSE_DETAILS,
    Mechanism,
    MechanismRecord,
    composed,
    determined_assumptions,
    groups_of,
    rebuild,
    unit_of,
    wrong_payers,
)
from caribou.privacy.pair_response import PairResponse, asymmetric_response, laplace_threshold_response
from caribou.privacy.plan import attack_success, epsilon_by_degree, exact_mu, group_epsilons
from caribou.privacy.scope import Scope

FORGERY = "without a signature nobody can tell a forgery whose figures agree"
"""What a verification cannot do: figures that were all recomputed for other numbers follow from each other, too."""


@dataclass(frozen=True)
class Check:
    """One line of a verification.

    ``declared``: a statement that no program can check, only repeat; ``fields`` says where it stands, as paths of the JSON
    ("mechanisms.0.details.schedule"), and "path: order" where only the order of a list is meant.
    """

    name: str
    passed: bool
    detail: str
    declared: bool = False
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verification:
    """The outcome of `verify`: every check, and the epsilons that were recomputed (nan where they could not be)."""

    checks: tuple[Check, ...]
    epsilon_pld: float
    epsilon_rdp: float | None

    @property
    def passed(self) -> bool:
        """True if every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def declared(self) -> tuple[str, ...]:
        """The fields that were repeated and not checked, as paths of the JSON."""
        return tuple(field for check in self.checks if check.declared for field in check.fields)


class _Report:
    """The checks so far."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def check(self, name: str, passed: bool, detail: str) -> None:
        self.checks.append(Check(name, bool(passed), detail))

    def declare(self, name: str, detail: str, fields: Iterable[str], holds: bool = True) -> None:
        self.checks.append(Check(name, holds, detail, declared=True, fields=tuple(fields)))

    @property
    def sound(self) -> bool:
        return all(check.passed for check in self.checks)


def verify(certificate: Certificate) -> Verification:
    """Recompute everything a certificate claims, from its own events, records and public parameters.

    Fails if a record's cost, noise or theorem does not follow from its figures; if a mechanism has no theorem at the unit; if the
    scope, the groups, epsilon, mu or an attack rate is another than the records give; if a public parameter contradicts a
    record; if an assumption is missing, does not belong there or does not hold; or if there is no privacy at all. What it cannot
    see: whether the release was really made this way. A consistent forgery passes; only a signature can tell.

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
    if not isinstance(certificate, Certificate):
        got = type(certificate).__name__
        raise InputError(f"certificate must be a Certificate (Certificate.load reads a file), got {got}")
    c, report = certificate, _Report()
    pld, rdp = math.nan, None
    rebuilt: tuple[MechanismRecord, ...] = ()
    try:
        rebuilt = tuple(_check_record(record, c, report) for record in c.mechanisms)
        _check_together(rebuilt, c, report)
        # events that do not follow from their own figures cost nothing that could be compared with the claim
        comparable = report.sound
        report.check("private", c.is_private, f"epsilon = {c.epsilon:g}" if c.is_private else NO_PRIVACY)
        _check_noise(rebuilt, report)
        _check_assumptions(rebuilt, c, report)
        if comparable:
            pld, rdp = _check_cost(rebuilt, c, report)
        else:
            report.check("cost", False, "not recomputed: the mechanisms contradict their own figures")
    except (CaribouError, OverflowError, ZeroDivisionError, RecursionError) as error:
        report.check("figures", False, str(error))
    _declare(rebuilt, c, report)
    return Verification(tuple(report.checks), pld, rdp)


# -- one mechanism ----------------------------------------------------------------------------------------------------


def _check_record(record: MechanismRecord, c: Certificate, report: _Report) -> MechanismRecord:
    """The record made again from its figures, and every difference between the two."""
    name = record.name
    made = rebuild(record)
    units = unit_of(made)
    report.check(
        f"{name}: unit",
        c.unit in units,
        f"bound at {', '.join(u.value for u in units)} level, claim at {c.unit.value} level",
    )
    differing = _differences(dict(record.details), dict(made.details))
    report.check(
        f"{name}: figures", not differing, f"differ in {'; '.join(differing)}" if differing else "as recomputed"
    )
    report.check(f"{name}: theorem", record.theorem == made.theorem, made.theorem)
    same_payers = set(record.costs) == set(made.costs)
    costs = same_payers and all(_pays(record.costs[g], made.costs[g]) for g in record.costs)
    stated = "; ".join(f"{g.value}: {_short(events)}" for g, events in record.costs.items())
    needed = "; ".join(f"{g.value}: {_short(events)}" for g, events in made.costs.items())
    report.check(f"{name}: noise", costs, needed if costs else f"stated {stated}; recomputed {needed}")
    public = {key: value for key, value in made.public.items() if not _public_is(c, key, value)}
    report.check(f"{name}: public parameters", not public, f"must be {public}" if public else "as used")
    if record.mechanism in _FURTHER:
        problem = _FURTHER[record.mechanism](made, c)
        report.check(f"{name}: agreement", problem is None, problem or "with the rest of the certificate")
    return made


def _public_is(c: Certificate, key: str, value: Any) -> bool:
    return key in c.public_parameters and _same(c.public_parameters[key], value)


def _response_problem(record: MechanismRecord, c: Certificate) -> str | None:
    """The probabilities must be those that one of the two rules gives for the released count and the public size."""
    d = record.details
    if any(d[key] is None for key in RESPONSE_DETAILS):
        return f"must state {', '.join(RESPONSE_DETAILS)} after the draw, got nothing"
    nodes = integer(at_least=1, nodes=c.public_parameters.get("nodes"))
    rules: tuple[Callable[..., PairResponse], ...] = (asymmetric_response, laplace_threshold_response)
    for rule in rules:
        made = rule(epsilon=d["epsilon"], edges=d["released_edge_count"], nodes=nodes)
        if _close(d["keep_one"], made.keep_one, 1e-9) and _close(d["make_one"], made.make_one, 1e-9):
            return None
    return f"no rule gives these probabilities for {d['released_edge_count']} edges among {nodes} nodes"


def _selection_problem(record: MechanismRecord, c: Certificate) -> str | None:
    """The search must be judged at the delta of the claim, on the declared graph, and no trial may cost more than stated."""
    d = record.details
    if d["delta"] != c.delta:
        return f"delta must be that of the claim, {c.delta:g}, got {d['delta']:g}"
    score: tuple[Event, ...] = () if d["score_noise"] is None else (Laplace(d["score_noise"]),)
    most = d["epsilon_of_a_trial"]
    costs = set()
    for trial in d["trials"]:
        records = [rebuild(MechanismRecord.from_dict(mechanism)) for mechanism in trial["mechanisms"]]
        for inner in records:
            if "nodes" in inner.public and not _public_is(c, "nodes", inner.public["nodes"]):
                return f"nodes of every trial must be the public ones, got {inner.public['nodes']}"
            settings = {key: value for key, value in trial["settings"].items() if value is not None}
            wrong = [key for key in inner.public if key in settings and not _same(settings[key], inner.public[key])]
            if wrong:
                return f"settings of a trial must be those of its mechanisms, got another {', '.join(wrong)}"
        costs.add((*composed(records), *score))
    spent = max(epsilon_of(cost, c.delta) for cost in costs)
    # PLD rounds up where a score is composed with a trial
    return None if spent <= most + 1e-3 * max(1.0, most) else f"a trial costs {spent:.6g}, stated {most:.6g}"


_FURTHER: Mapping[Mechanism, Callable[[MechanismRecord, Certificate], str | None]] = {
    Mechanism.RANDOMIZED_RESPONSE: _response_problem,
    Mechanism.PRIVATE_SELECTION: _selection_problem,
}


def _pays(stated: tuple[Event, ...], needed: tuple[Event, ...]) -> bool:
    """Whether the stated events are the needed ones, never cheaper than a hair allows."""
    if len(stated) != len(needed):
        return False
    return all(_dear(event_to_dict(a), event_to_dict(b)) for a, b in zip(stated, needed, strict=True))


def _dear(stated: Any, needed: Any) -> bool:
    """Whether a stated event, as JSON values, is the needed one: the same kind and counts, and no more noise or less epsilon."""
    if isinstance(stated, list) and isinstance(needed, list):
        return len(stated) == len(needed) and all(_dear(a, b) for a, b in zip(stated, needed, strict=True))
    if not isinstance(stated, Mapping):
        return False
    if stated.keys() != needed.keys() or stated["kind"] != needed["kind"]:
        return False
    for key in stated.keys() - {"kind"}:
        sign = _CHEAPER.get(key)
        if sign is None:
            same = _dear(stated[key], needed[key]) if isinstance(stated[key], list) else stated[key] == needed[key]
            if not same:
                return False
        elif not _close(stated[key], needed[key], 1e-6) or _above(sign * stated[key], sign * needed[key]):
            return False
    return True


def _above(stated: float, needed: float) -> bool:
    return stated > needed + 1e-9 * abs(needed)


_CHEAPER = {"noise_multiplier": 1, "epsilon": -1, "delta": -1}
"""Which way a number of an event must be moved to cost less."""


def _short(events: tuple[Event, ...]) -> str:
    words = [event_words(event) for event in events[:4]]
    return ", ".join(words) + (f" and {len(events) - 4} more" if len(events) > 4 else "")


# -- all mechanisms together --------------------------------------------------------------------------------------------


def _check_together(rebuilt: tuple[MechanismRecord, ...], c: Certificate, report: _Report) -> None:
    """Who pays, and for which graphs all theorems hold."""
    problem = wrong_payers(rebuilt, c.unit)
    report.check("who pays", problem is None, problem or ", ".join(group.value for group in groups_of(rebuilt)))
    scope = Scope.weakest(record.scope for record in rebuilt)
    same = c.scope == scope
    report.check("scope", same, scope.words if same else f"stated {c.scope.words}; the mechanisms give {scope.words}")


def _check_noise(rebuilt: tuple[MechanismRecord, ...], report: _Report) -> None:
    """There must be some."""
    for record in rebuilt:
        if any(isinstance(event, NonPrivate) for events in record.costs.values() for event in events):
            report.check(f"{record.name}: noise", False, "there is none")


def _check_assumptions(rebuilt: tuple[MechanismRecord, ...], c: Certificate, report: _Report) -> None:
    """What follows from the mechanisms must be stated, and nothing that only seems to."""
    stated = {assumption.name: assumption for assumption in c.assumptions}
    needed = {assumption.name: assumption for assumption in determined_assumptions(rebuilt, c.unit)}
    required = [*STANDING, *needed, *_of_public_sample(rebuilt, c)]
    for name in required:
        if name not in stated:
            report.check(f"assumption: {name.value}", False, "must be stated, got nothing")
        elif name in needed and stated[name].parameters != needed[name].parameters:
            report.check(f"assumption: {name.value}", False, f"must say {needed[name].statement!r}")
    for name in stated:
        if name in DETERMINED and name not in needed:
            report.check(f"assumption: {name.value}", False, "must not be stated: the mechanisms say otherwise")
    batch = stated.get(AssumptionName.ARRIVALS)
    if batch is not None:
        votes = [record.mechanism for record in rebuilt] == [Mechanism.EDGE_VOTES]
        if not votes or not _public_is(c, "batch", batch.parameters["batch"]):
            report.check(
                "assumption: arrivals", False, "must be stated of votes alone, with the batch of the parameters"
            )
    searches = [record.theorem for record in rebuilt if record.mechanism is Mechanism.PRIVATE_SELECTION]
    search = stated.get(AssumptionName.HYPER_PARAMETERS)
    if search is not None and _stated_searches(search) != searches:
        report.check(f"assumption: {search.name.value}", False, f"must name the search {searches or 'nothing'}")
    kept = {
        stated[name].parameters["resumable"]
        for name in (AssumptionName.RANDOMNESS, AssumptionName.HIDDEN_STATES)
        if name in stated
    }
    if len(kept) > 1:
        report.check("assumption: hidden states", False, "must be kept where the key is, got another place")


def _stated_searches(hyper_parameters: Assumption) -> list[str]:
    search = hyper_parameters.parameters["search"]
    return [] if search is None else [search]


def _of_public_sample(rebuilt: tuple[MechanismRecord, ...], c: Certificate) -> tuple[AssumptionName, ...]:
    """The assumption on a public sample of features, if the declared settings, or those of a trial, name one."""
    settings: list[Mapping[str, Any]] = [c.public_parameters]
    for record in rebuilt:
        if record.mechanism is Mechanism.PRIVATE_SELECTION:
            settings += [trial["settings"] for trial in record.details["trials"]]
    models = [value.get("base", value) for value in settings]
    used = any(isinstance(model, Mapping) and model.get("public_features") is not None for model in models)
    return (AssumptionName.PUBLIC_FEATURES,) if used else ()


def _check_cost(rebuilt: tuple[MechanismRecord, ...], c: Certificate, report: _Report) -> tuple[float, float | None]:
    """Epsilon by three accountants, mu, groups and attack rates from the stated events, which were found to be the right ones."""
    budget = Budget(c.epsilon, c.delta, c.unit)
    cost = c.cost
    spent, pld = epsilon_of(cost, budget.delta), pld_epsilon(cost, budget.delta)
    rdp = rdp_epsilon_of(cost, budget.delta)
    report.check(
        "epsilon spent", _close(c.epsilon_spent, spent, 1e-6), f"stated {c.epsilon_spent:.6g}, recomputed {spent:.6g}"
    )
    report.check("within the claim", spent <= c.epsilon * (1 + 1e-9), f"{spent:.6g} <= {c.epsilon:g}")
    if c.is_private:
        # PLD rounds up by its discretisation, so it may be above the exact value, but only by a hair.
        report.check("PLD agrees", pld <= c.epsilon_spent + 1e-3 * max(1.0, c.epsilon_spent), f"PLD gives {pld:.6g}")
        if rdp is not None:
            report.check(
                "RDP does not contradict", rdp >= spent - 1e-3 * max(1.0, spent), f"RDP gives {rdp:.6g} (looser)"
            )
    mu = exact_mu(cost)
    if c.mu is not None or mu is not None:
        report.check("mu", _close(c.mu, mu, 1e-9), f"stated {_number(c.mu)}, recomputed {_number(mu)}")
    groups = group_epsilons(c.mechanisms, budget.delta)
    same = groups.keys() == c.groups.keys() and all(_close(c.groups[g], groups[g], 1e-6) for g in groups)
    report.check(
        "groups", same, _figures(groups) if same else f"stated {_figures(c.groups)}; recomputed {_figures(groups)}"
    )
    _check_curve(rebuilt, c, report)
    _check_attacks(c, report)
    return pld, rdp


def _check_curve(rebuilt: tuple[MechanismRecord, ...], c: Certificate, report: _Report) -> None:
    """What a node of each degree is promised, from the figures of the mechanisms."""
    curve = epsilon_by_degree(rebuilt, c.unit, c.delta, c.public_parameters.get("nodes"))
    stated = dict(c.epsilon_by_degree)
    same = [d for d, _ in curve] == [d for d, _ in c.epsilon_by_degree]
    same = same and all(_close(stated[d], epsilon, 1e-6) for d, epsilon in curve)
    shown = ", ".join(f"{d}: {epsilon:.4g}" for d, epsilon in curve) or "none at edge level"
    report.check("epsilon by degree", same, shown if same else f"recomputed {shown}")


def _check_attacks(c: Certificate, report: _Report) -> None:
    true = attack_success(c.cost, c.delta)
    shape = {question: list(rates) for question, rates in true.items()}
    same = shape == {question: list(rates) for question, rates in c.attack_success.items()}
    report.check("attack success", same, f"stated for {', '.join(c.attack_success)}")
    for question, rates in true.items():
        for fpr, rate in rates.items():
            stated = c.attack_success.get(question, {}).get(fpr)
            report.check(
                f"attack success, {question}, at {float(fpr):.1%}",
                _close(stated, rate, 1e-6),
                f"stated {_number(stated)}, recomputed {_number(rate)}",
            )


def _number(x: float | None) -> str:
    return "nothing" if x is None else f"{x:.6g}"


def _figures(groups: Mapping[str, float]) -> str:
    return ", ".join(f"{group} {epsilon:.6g}" for group, epsilon in groups.items())


# -- what is declared -------------------------------------------------------------------------------------------------


def _declare(rebuilt: tuple[MechanismRecord, ...], c: Certificate, report: _Report) -> None:
    """What the figures do not determine, with the fields that it stands in."""
    for place, assumption in enumerate(c.assumptions):
        report.declare(
            f"assumption: {assumption.name.value}", assumption.statement, [f"assumptions.{place}"], assumption.holds
        )
    optional = [n.value for n in AssumptionName if n not in DETERMINED and n not in STANDING]
    report.declare(
        "declared: that no other assumption is needed", f"such as {', '.join(optional)}", ["assumptions: complete"]
    )
    report.declare(
        "declared: claim",
        f"epsilon = {c.epsilon:g}, delta = {c.delta:g}; it may be less than what holds",
        ["epsilon", "delta"],
    )
    names = [f"mechanisms.{place}.name" for place in range(len(c.mechanisms))]
    report.declare(
        "declared: names and order of the mechanisms, and that there is no other",
        "; ".join(record.name for record in c.mechanisms),
        [*names, "mechanisms: order", "mechanisms: complete"],
    )
    for place, record in enumerate(rebuilt):
        if record.mechanism is Mechanism.OWN:
            fields = [f"mechanisms.{place}.{path}" for path in DECLARED_FIELDS[record.mechanism]]
            report.declare(f"declared: cost of {record.name}", record.theorem, fields)
            continue
        for path in _declared_fields(record):
            report.declare(
                f"declared: {record.name}: {path.removeprefix('details.')}",
                "the cost does not follow from it",
                [f"mechanisms.{place}.{path}"],
            )
    report.declare("declared: released", "; ".join(c.released), ["released"])
    report.declare("declared: public parameters", ", ".join(c.public_parameters) or "none", ["public_parameters"])
    report.declare(
        "declared: number, time and versions",
        f"{c.certificate_id}, {c.created}, {', '.join(f'{k} {v}' for k, v in c.versions.items())}",
        ["certificate_id", "created", "versions"],
    )


def _declared_fields(record: MechanismRecord) -> list[str]:
    """Paths of fields that the cost does not follow from, those of a search's trials included."""
    found = list(DECLARED_FIELDS.get(record.mechanism, ()))
    if record.mechanism is Mechanism.PRIVATE_SELECTION:
        for number, trial in enumerate(record.details["trials"]):
            here = f"details.trials.{number}.mechanisms"
            found += [f"details.trials.{number}.settings", f"{here}: order", f"{here}: complete"]
            for place, stored in enumerate(trial["mechanisms"]):
                inner = MechanismRecord.from_dict(stored)
                paths = ["name", *_declared_fields(inner)]
                if inner.mechanism is Mechanism.RANDOMIZED_RESPONSE:
                    paths += [f"details.{key}" for key in RESPONSE_DETAILS]
                found += [f"{here}.{place}.{path}" for path in paths]
    return found


# -- comparing --------------------------------------------------------------------------------------------------------


def _differences(stated: Any, true: Any, path: str = "") -> list[str]:
    """Where two JSON values differ by more than rounding."""
    if isinstance(stated, Mapping) and isinstance(true, Mapping):
        keys = dict.fromkeys([*stated, *true])
        found: list[str] = []
        for key in keys:
            if (key in stated) != (key in true):
                found.append(f"{path}{key} ({'unknown' if key in stated else 'missing'})")
            else:
                found += _differences(stated[key], true[key], f"{path}{key}.")
        return found
    if isinstance(stated, list | tuple) and isinstance(true, list | tuple):
        if len(stated) != len(true):
            return [f"{path}length"]
        return [d for k, (a, b) in enumerate(zip(stated, true, strict=True)) for d in _differences(a, b, f"{path}{k}.")]
    return [] if _same(stated, true) else [f"{path.rstrip('.')} (stated {stated!r}, recomputed {true!r})"]


def _same(stated: Any, true: Any, tolerance: float = 1e-9) -> bool:
    numbers = isinstance(stated, int | float) and isinstance(true, int | float)
    if numbers and not isinstance(stated, bool) and not isinstance(true, bool):
        return _close(stated, true, tolerance)
    return type(stated) is type(true) and stated == true


def _close(stated: Any, true: float | None, tolerance: float) -> bool:
    if true is None or stated is None:
        return stated is None and true is None
    if isinstance(stated, bool) or not isinstance(stated, int | float):
        return False
    if math.isinf(true) or math.isinf(stated):
        return stated == true
    return abs(stated - true) <= tolerance * max(1e-300, abs(true)) + 1e-15


__all__ = ["FORGERY", "Check", "Verification", "verify"]
