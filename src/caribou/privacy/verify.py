"""Verification: everything that a certificate claims, recomputed from its own figures.

What no program can know (whether the release was really made this way, words, versions, times) is listed as declared, with the
fields that it stands in. docs/certificates.md has the list. Figures alone leave more open than a method does: whoever knows the
methods hands in the plan of the release, made again (`caribou.model.verify`), and then the whole certificate must be that of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from caribou.errors import CaribouError, InputError
from caribou.privacy.accounting import event_words, pld_epsilon, rdp_epsilon_of
from caribou.privacy.assumptions import DECLARED, DETERMINED, STANDING, AssumptionName
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.certificate import NO_PRIVACY, WORDS, Certificate, versions
from caribou.privacy.documents import differences, same, write
from caribou.privacy.events import EpsilonDelta
from caribou.privacy.mechanism_records import (
    Mechanism,
    MechanismRecord,
    determined_assumptions,
    groups_of,
    wrong_payers,
)
from caribou.privacy.plan import ReleasePlan, figures
from caribou.privacy.scope import Scope

OWNERS = (*WORDS, "column_rules")
"""Public parameters that the owner adds to those of a plan. No figure follows from them."""
START = "features"
"""How a release of embeddings says that it starts from the features of the graph."""
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


@dataclass(frozen=True)
class Remade:
    """The ``plan`` of a release, made again from what its certificate says; ``taken``: the fields that it was made from."""

    plan: ReleasePlan
    taken: tuple[str, ...]


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


def verify(certificate: Certificate, remake: Callable[[Certificate], Remade | None] | None = None) -> Verification:
    """Recompute everything a certificate claims, from its own events, records and public parameters.

    Fails if a record's cost, noise or theorem does not follow from its figures; if a mechanism has no theorem at the unit; if the
    scope, the groups, epsilon, mu or an attack rate is another than the records give; if a public parameter contradicts a
    record; if an assumption is missing, does not belong there or does not hold; or if there is no privacy at all. What it cannot
    see: whether the release was really made this way. A consistent forgery passes; only a signature can tell.

    Args:
        certificate: as it was read (`Certificate.load`).
        remake: makes its plan again, from settings and sizes; None of somebody's own method. Without it figures alone count.

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
    pld, rdp, remade = math.nan, None, None
    try:
        for record in c.mechanisms:
            _check_record(record, c, report)
        payers = wrong_payers(c.mechanisms, c.unit)
        report.check("who pays", payers is None, payers or ", ".join(group.value for group in groups_of(c.mechanisms)))
        # events that do not follow from their own figures cost nothing that could be compared with the claim
        comparable = report.sound
        report.check("private", c.is_private, f"epsilon = {c.epsilon:g}" if c.is_private else NO_PRIVACY)
        _check_assumptions(c, report)
        if comparable:
            pld, rdp = _check_cost(c, report)
        else:
            report.check("cost", False, "not recomputed: the mechanisms contradict their own figures")
        if remake is not None and comparable:
            remade = _check_plan(c, remake, report)
    except (CaribouError, OverflowError, ZeroDivisionError, RecursionError) as error:
        report.check("figures", False, str(error))
    _declare(c, report, remade)
    return Verification(tuple(report.checks), pld, rdp)


def _check_record(record: MechanismRecord, c: Certificate, report: _Report) -> None:
    """Whether the document states what follows from the inputs of the record, and fits the claim."""
    wrong = record.contradictions
    paid = "; ".join(f"{group.value}: {', '.join(map(event_words, each[:4]))}" for group, each in record.costs.items())
    report.check(f"{record.name}: figures", not wrong, f"differ in {'; '.join(wrong)}" if wrong else paid)
    words = f"bound at {record.level.value} level, claim at {c.unit.value} level"
    report.check(f"{record.name}: unit", record.level is c.unit, words)
    public = {key: value for key, value in record.public.items() if not _public_is(c, key, value)}
    report.check(f"{record.name}: public parameters", not public, f"must be {public}" if public else "as used")
    problem = record.disagreement(c.public_parameters, c.delta)
    report.check(f"{record.name}: agreement", problem is None, problem or "with the rest of the certificate")


def _public_is(c: Certificate, key: str, value: Any) -> bool:
    return key in c.public_parameters and same(c.public_parameters[key], value)


# -- all mechanisms together --------------------------------------------------------------------------------------------


def _check_assumptions(c: Certificate, report: _Report) -> None:
    """What follows from the mechanisms must be stated, and nothing that only seems to."""

    def fails(name: AssumptionName, why: str) -> None:
        report.check(f"assumption: {name.value}", False, why)

    stated = {assumption.name: assumption for assumption in c.assumptions}
    needed = {assumption.name: assumption for assumption in determined_assumptions(c.mechanisms, c.unit)}
    for name in (*STANDING, *needed, *_of_features(c)):
        if name not in stated:
            fails(name, "must be stated, got nothing")
        elif name in needed and stated[name].parameters != needed[name].parameters:
            fails(name, f"must say {needed[name].statement!r}")
    for name in stated.keys() & DETERMINED - needed.keys():
        fails(name, "must not be stated: the mechanisms say otherwise")
    searches = [record.theorem for record in c.mechanisms if record.mechanism is Mechanism.PRIVATE_SELECTION]
    if AssumptionName.HYPER_PARAMETERS in stated:
        search = stated[AssumptionName.HYPER_PARAMETERS].parameters["search"]
        if searches != ([] if search is None else [search]):
            fails(AssumptionName.HYPER_PARAMETERS, f"must name the search {searches or 'nothing'}")
    places = [stated[name] for name in (AssumptionName.RANDOMNESS, AssumptionName.HIDDEN_STATES) if name in stated]
    if len({place.parameters["resumable"] for place in places}) > 1:
        fails(AssumptionName.HIDDEN_STATES, "must be kept where the key is, got another place")


def _of_features(c: Certificate) -> tuple[AssumptionName, ...]:
    """At edge level features are public, so each release says of them that no edge was read for them, or starts from others."""
    alone = all(record.mechanism in (Mechanism.MESSAGE_PASSING, Mechanism.OWN) for record in c.mechanisms)
    other_start = alone and c.public_parameters.get("start") not in (None, START)
    return (AssumptionName.FEATURES_WITHOUT_EDGES,) if c.unit is PrivacyUnit.EDGE and not other_start else ()


def _check_cost(c: Certificate, report: _Report) -> tuple[float, float | None]:
    """Epsilon by three accountants, and all that follows from the mechanisms together."""
    spent, pld, rdp = c.epsilon_spent, pld_epsilon(c.cost, c.delta), rdp_epsilon_of(c.cost, c.delta)
    for name, true in figures(c.mechanisms, c.unit, c.delta, c.public_parameters.get("nodes")).items():
        wrong = differences(write(getattr(c, name)), write(true), tolerance=1e-6)
        report.check(name.replace("_", " "), not wrong, "; ".join(wrong) if wrong else _short(true))
    report.check("within the claim", spent <= c.epsilon * (1 + 1e-9), f"{spent:.6g} <= {c.epsilon:g}")
    if c.is_private:
        # PLD rounds up by its discretisation, so it may be above the exact value, but only by a hair.
        report.check("PLD agrees", pld <= spent + 1e-3 * max(1.0, spent), f"PLD gives {pld:.6g}")
        if rdp is not None:
            loose = rdp >= spent - 1e-3 * max(1.0, spent)
            report.check("RDP does not contradict", loose, f"RDP gives {rdp:.6g} (looser)")
    return pld, rdp


def _short(figure: Any) -> str:
    if isinstance(figure, Scope):
        return figure.words
    if isinstance(figure, float):
        return f"{figure:.6g}"
    pairs = figure.items() if isinstance(figure, Mapping) else figure or ()
    return ", ".join(f"{key}: {_short(each)}" for key, each in pairs) or "none"


# -- the plan, made again -----------------------------------------------------------------------------------------------


def _check_plan(c: Certificate, remake: Callable[[Certificate], Remade | None], report: _Report) -> Remade | None:
    """The certificate must be that of the plan which its own words, settings and sizes make: all of it, and nothing else."""
    try:
        remade = remake(c)
    except (CaribouError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        report.check("plan", False, f"cannot be made from these settings: {error}{_other_version(c)}")
        return None
    if remade is None:
        return None
    plan = remade.plan
    stated, true = (
        {
            "kind": of.kind.value,
            "released": write(of.released),
            "mechanisms": write(records),
            "public_parameters": write(public),
        }
        for of, records, public in (
            (c, c.mechanisms, {key: value for key, value in c.public_parameters.items() if key not in OWNERS}),
            (plan, _with_draws(plan.mechanisms, c.mechanisms), plan.public_parameters),
        )
    )
    wrong = differences(stated, true, tolerance=1e-6)
    wrong += [f"assumption {name.value}" for name in DECLARED if not _may_be_as_stated(name, c, plan)]
    words = (
        f"differs in {'; '.join(wrong)}{_other_version(c)}"
        if wrong
        else f"{plan.description}: as these settings make it"
    )
    report.check("plan", not wrong, words)
    return remade


def _with_draws(planned: Sequence[MechanismRecord], made: Sequence[MechanismRecord]) -> list[MechanismRecord]:
    """The records of a plan with the figures that were open in it."""
    pairs = zip_longest(planned, made[: len(planned)])
    return [
        replace(plan, **{key: getattr(after, key) for key in plan.drawn}) if type(after) is type(plan) else plan
        for plan, after in pairs
    ]


def _may_be_as_stated(name: AssumptionName, c: Certificate, plan: ReleasePlan) -> bool:
    """An owner may say that a prior was given, and says of the features at edge level; all else is the plan's to say."""
    stated, planned = ([each for each in of.assumptions if each.name is name] for of in (c, plan))
    if name is AssumptionName.FEATURES_WITHOUT_EDGES:
        return not stated or c.unit is PrivacyUnit.EDGE
    return stated == planned or (name is AssumptionName.GIVEN_PRIOR and bool(stated))


def _other_version(c: Certificate) -> str:
    made, here = c.versions.get("caribou-gnn"), versions()["caribou-gnn"]
    return "" if made == here else f" (made by caribou-gnn {made}, and this is {here})"


# -- what is declared -------------------------------------------------------------------------------------------------


def _declare(c: Certificate, report: _Report, remade: Remade | None) -> None:
    """What neither figures nor plan determine, with the fields that it stands in."""
    for place, assumption in enumerate(c.assumptions):
        report.declare(
            f"assumption: {assumption.name.value}", assumption.statement, [f"assumptions.{place}"], assumption.holds
        )
    optional = [n.value for n in AssumptionName if n not in DETERMINED and n not in STANDING]
    if remade is not None:
        optional = [AssumptionName.GIVEN_PRIOR.value]
    report.declare(
        "declared: that no other assumption is needed", f"such as {', '.join(optional)}", ["assumptions: complete"]
    )
    asked = f"epsilon = {c.epsilon:g}, delta = {c.delta:g}; it may be less than what holds"
    report.declare("declared: claim", asked, _free_claim(c, remade))
    if remade is None:
        _declare_mechanisms(c, report)
        report.declare("declared: released", f"{c.kind.value}: {'; '.join(c.released)}", ["kind", "released"])
        report.declare("declared: public parameters", ", ".join(c.public_parameters) or "none", ["public_parameters"])
    else:
        taken = [path.rpartition(".")[2] for path in remade.taken]
        report.declare("declared: sizes and settings", ", ".join(taken) or "none", remade.taken)
        report.declare(
            "declared: words of the owner",
            ", ".join(key for key in OWNERS if key in c.public_parameters) or "none",
            [f"public_parameters.{key}" for key in OWNERS],
        )
    report.declare(
        "declared: number, time and versions",
        f"{c.certificate_id}, {c.created}, {', '.join(f'{k} {v}' for k, v in c.versions.items())}",
        ["certificate_id", "created", "versions"],
    )


def _free_claim(c: Certificate, remade: Remade | None) -> list[str]:
    """What of the claim does not fix the noise: a search may leave some epsilon, and pure noise asks for no delta."""
    searched = any(record.mechanism is Mechanism.PRIVATE_SELECTION for record in c.mechanisms)
    costs = [events for record in c.mechanisms for events in record.costs.values()]
    pure = all(isinstance(event, EpsilonDelta) for events in costs for event in events)
    free = {"epsilon": remade is None or searched or not c.epsilon_spent, "delta": remade is None or pure}
    return [name for name, open_ in free.items() if open_]


def _declare_mechanisms(c: Certificate, report: _Report) -> None:
    """Of a method that nobody can plan again: that these are its mechanisms, and what does not enter their cost."""
    names = [f"mechanisms.{place}.name" for place in range(len(c.mechanisms))]
    report.declare(
        "declared: names and order of the mechanisms, and that there is no other",
        "; ".join(record.name for record in c.mechanisms),
        [*names, "mechanisms: order", "mechanisms: complete"],
    )
    for place, record in enumerate(c.mechanisms):
        own = record.mechanism is Mechanism.OWN
        for path in record.declared:
            report.declare(
                f"declared: {record.name}: {path.removeprefix('details.')}",
                record.theorem if own else "the cost does not follow from it",
                [f"mechanisms.{place}.{path}"],
            )


__all__ = ["FORGERY", "Check", "Remade", "Verification", "verify"]
