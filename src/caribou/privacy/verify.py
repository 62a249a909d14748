"""Verification: everything that a certificate claims, recomputed from its own figures.

What no program can know (whether the release was really made this way, words, versions, times) is listed as declared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from caribou.errors import CaribouError
from caribou.privacy.accounting import epsilon_of, pld_epsilon, rdp_epsilon_of
from caribou.privacy.assumptions import STANDING, AssumptionName
from caribou.privacy.budget import Budget
from caribou.privacy.certificate import NO_PRIVACY, Certificate
from caribou.privacy.events import Event, NonPrivate, event_to_dict
from caribou.privacy.mechanism_records import (
    PARTS,
    Group,
    Mechanism,
    MechanismRecord,
    composed,
    everyone,
    groups_of,
    rebuild,
    unit_of,
)
from caribou.privacy.plan import attack_rates, exact_mu, group_epsilons
from caribou.privacy.scope import Scope


@dataclass(frozen=True)
class Check:
    """One line of a verification. ``declared``: a statement that no program can check, only repeat."""

    name: str
    passed: bool
    detail: str
    declared: bool = False


@dataclass(frozen=True)
class Verification:
    """The outcome of `verify`: every check, and the epsilons that were recomputed."""

    checks: tuple[Check, ...]
    epsilon_pld: float
    epsilon_rdp: float | None

    @property
    def passed(self) -> bool:
        """True if every check passed."""
        return all(check.passed for check in self.checks)


class _Report:
    """The checks so far."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def check(self, name: str, passed: bool, detail: str) -> None:
        self.checks.append(Check(name, bool(passed), detail))

    def declare(self, name: str, detail: str, holds: bool = True) -> None:
        self.checks.append(Check(name, holds, detail, declared=True))


def verify(certificate: Certificate) -> Verification:
    """Recompute everything a certificate claims, from its own events, records and public parameters.

    Fails if a record's cost, noise or theorem does not follow from its figures; if a mechanism has no theorem at the unit; if the
    scope, the groups, epsilon, mu or an attack rate is another than the records give; if a public parameter contradicts a
    record; if an assumption is missing, does not belong there or does not hold; or if there is no privacy at all. What it cannot
    see: whether the release was really made this way. A consistent forgery passes; only a signature can tell.
    """
    c, report = certificate, _Report()
    report.check("private", c.is_private, f"epsilon = {c.epsilon:g}" if c.is_private else NO_PRIVACY)
    report.check("mechanisms", len(c.mechanisms) > 0, f"{len(c.mechanisms)} mechanism(s)")
    try:
        rebuilt = tuple(_rebuilt(record, c, report) for record in c.mechanisms)
        _check_payers(rebuilt, c, report)
        _check_assumptions(rebuilt, c, report)
        pld, rdp = _check_cost(rebuilt, c, report)
    except (CaribouError, OverflowError, ZeroDivisionError) as error:
        report.check("figures", False, str(error))
        return Verification(tuple(report.checks), math.nan, None)
    _declare(rebuilt, c, report)
    return Verification(tuple(report.checks), pld, rdp)


# -- one mechanism ----------------------------------------------------------------------------------------------------


def _rebuilt(record: MechanismRecord, c: Certificate, report: _Report) -> MechanismRecord:
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
    stated = "; ".join(f"{g.value} {_short(events)}" for g, events in record.costs.items())
    needed = "; ".join(f"{g.value} {_short(events)}" for g, events in made.costs.items())
    report.check(f"{name}: noise", costs, f"stated {stated}; recomputed {needed}")
    if any(isinstance(event, NonPrivate) for events in made.costs.values() for event in events):
        report.check(f"{name}: noise", False, "there is none")
    wrong = [key for key, value in made.public.items() if key not in c.public_parameters]
    wrong += [
        key
        for key, value in made.public.items()
        if key in c.public_parameters and not _same(c.public_parameters[key], value)
    ]
    report.check(f"{name}: public parameters", not wrong, f"differ in {wrong}" if wrong else "as used")
    return made


def _pays(stated: tuple[Event, ...], needed: tuple[Event, ...]) -> bool:
    """Whether the stated events are the needed ones, never cheaper than a hair allows."""
    if len(stated) != len(needed):
        return False
    for one, two in zip(stated, needed, strict=True):
        a, b = event_to_dict(one), event_to_dict(two)
        if a.keys() != b.keys() or _differences(a, b):
            return False
        # more noise, or less epsilon, than the figures give would be a smaller cost
        for key, sign in (("noise_multiplier", 1), ("epsilon", -1), ("delta", -1)):
            if key in a and sign * a[key] > sign * b[key] + 1e-9 * abs(b[key]):
                return False
    return True


def _short(events: tuple[Event, ...]) -> str:
    from caribou.privacy.events import event_words

    words = [event_words(event) for event in events[:4]]
    return ", ".join(words) + (f" and {len(events) - 4} more" if len(events) > 4 else "")


# -- all mechanisms together --------------------------------------------------------------------------------------------


def _check_payers(rebuilt: tuple[MechanismRecord, ...], c: Certificate, report: _Report) -> None:
    """Every protected unit pays everything, or each part of the split pays its own; what everybody is in, everybody pays."""
    payers = set(groups_of(rebuilt))
    allowed = payers == set(everyone(c.unit)) or (c.unit.value == "node" and payers <= set(PARTS))
    report.check("who pays", allowed, ", ".join(sorted(g.value for g in payers)))
    shared = (Mechanism.MESSAGE_PASSING, Mechanism.NEIGHBOUR_SUMS)
    for record in rebuilt:
        if record.mechanism in shared and not set(record.costs) >= set(everyone(c.unit)):
            missing = [g.value for g in PARTS if g not in record.costs]
            report.check(f"{record.name}: who pays", not missing, f"must be paid by {', '.join(missing) or 'all'}")
    scope = Scope.weakest(record.scope for record in rebuilt)
    report.check("scope", c.scope == scope, f"stated {c.scope.words}; the mechanisms give {scope.words}")


def _check_assumptions(rebuilt: tuple[MechanismRecord, ...], c: Certificate, report: _Report) -> None:
    stated = {assumption.name: assumption for assumption in c.assumptions}
    needed = {assumption.name: assumption for record in rebuilt for assumption in record.needs}
    required = [*STANDING, *needed]
    if len(groups_of(rebuilt)) > 1:
        required.append(AssumptionName.PARALLEL_COMPOSITION)
    for name in required:
        if name not in stated:
            report.check(f"assumption: {name.value}", False, "must be stated, got nothing")
        elif name in needed and dict(stated[name].parameters) != dict(needed[name].parameters):
            report.check(f"assumption: {name.value}", False, f"must say {needed[name].statement!r}")
    readers = [record.name for record in rebuilt if record.reads_edges]
    if (AssumptionName.NO_EDGE_READ in stated) is bool(readers):
        report.check("assumption: no edge is read", False, f"edges are read by {', '.join(readers) or 'no mechanism'}")
    search = stated.get(AssumptionName.HYPER_PARAMETERS)
    theorems = [r.theorem for r in rebuilt if r.mechanism is Mechanism.PRIVATE_SELECTION]
    if search is not None and search.parameters["search"] != (theorems[0] if theorems else None):
        report.check("assumption: hyper-parameters", False, f"must name the search {theorems}")
    for assumption in c.assumptions:
        report.declare(f"assumption: {assumption.name.value}", assumption.statement, assumption.holds)


def _check_cost(rebuilt: tuple[MechanismRecord, ...], c: Certificate, report: _Report) -> tuple[float, float | None]:
    """Epsilon by three accountants, mu, groups and attack rates from the stated events, which were found to be the right ones."""
    budget = Budget(c.epsilon, c.delta, c.unit)
    cost = composed(c.mechanisms)
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
        report.check("mu", _close(c.mu, mu, 1e-9), f"stated {c.mu}, recomputed {mu}")
    groups = group_epsilons(c.mechanisms, budget.delta)
    same = groups.keys() == c.groups.keys() and all(_close(c.groups[g], groups[g], 1e-6) for g in groups)
    report.check("groups", same, f"stated {dict(c.groups)}, recomputed {groups}")
    rates = attack_rates(cost, budget.delta)
    same = rates.keys() == c.largest_true_positive_rates.keys()
    report.check("attack success", same, f"stated for {', '.join(c.largest_true_positive_rates)}")
    for fpr, true in rates.items():
        stated = c.largest_true_positive_rates.get(fpr)
        report.check(
            f"attack success at {float(fpr):.1%}", _close(stated, true, 1e-6), f"stated {stated}, recomputed {true:.6g}"
        )
    return pld, rdp


def _declare(rebuilt: tuple[MechanismRecord, ...], c: Certificate, report: _Report) -> None:
    """What the figures do not determine."""
    fixed = {key for record in rebuilt for key in record.public}
    free = [key for key in c.public_parameters if key not in fixed]
    if free:
        report.declare("declared: public parameters", ", ".join(free))
    for record in rebuilt:
        if record.mechanism is Mechanism.OWN:
            report.declare(f"declared: cost of {record.name}", record.theorem)
    report.declare("declared: released", "; ".join(c.released))
    report.declare("declared: names of mechanisms", "; ".join(record.name for record in c.mechanisms))
    report.declare("declared: versions, time and number", f"{c.certificate_id}, {c.created}")


# -- comparing --------------------------------------------------------------------------------------------------------


def _differences(stated: Any, true: Any, path: str = "", tolerance: float = 1e-6) -> list[str]:
    """Where two JSON values differ by more than rounding."""
    if isinstance(stated, Mapping) and isinstance(true, Mapping):
        keys = dict.fromkeys([*stated, *true])
        found: list[str] = []
        for key in keys:
            if (key in stated) != (key in true):
                found.append(f"{path}{key} ({'unknown' if key in stated else 'missing'})")
            else:
                found += _differences(stated[key], true[key], f"{path}{key}.", tolerance)
        return found
    if isinstance(stated, list | tuple) and isinstance(true, list | tuple):
        if len(stated) != len(true):
            return [f"{path}length"]
        return [d for k, (a, b) in enumerate(zip(stated, true, strict=True)) for d in _differences(a, b, f"{path}{k}.")]
    return [] if _same(stated, true, tolerance) else [f"{path.rstrip('.')} (stated {stated!r}, recomputed {true!r})"]


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


__all__ = ["Check", "Group", "Verification", "verify"]
