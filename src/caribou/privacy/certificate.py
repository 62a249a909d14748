"""The certificate: what was released, what it cost, and under which assumptions that is true.

Structured after NIST SP 800-226 (unit, neighbouring relation, parameters, what is released, trust model, side channels,
assumptions). It holds public values only: no count of the private graph, no hash of it (anybody could test guesses against an
unkeyed hash), no key and no seed. Everything needed to recompute epsilon is inside, so `verify` needs nothing else.
"""

from __future__ import annotations

import json
import math
import os
import platform
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from caribou.errors import CaribouError, CertificateError
from caribou.privacy.accounting import (
    epsilon_of,
    largest_true_positive_rate,
    pld_epsilon,
    rdp_epsilon_of,
)
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedPropagation, CalibratedSums, propagation_mu, sums_mu
from caribou.privacy.events import (
    Event,
    Gaussian,
    NonPrivate,
    Parallel,
    choices,
    event_from_dict,
    event_to_dict,
    gaussian_mu,
)
from caribou.privacy.sensitivity import (
    LAYER_ASSUMPTIONS,
    convergence_factor,
    recomputed_sensitivity,
    sum_arithmetic,
    sum_sensitivity,
)

FORMAT = 1
FIELDS = (
    *(
        "format",
        "certificate_id",
        "created",
        "status",
        "scope",
        "unit",
        "adjacency",
        "epsilon",
        "delta",
        "epsilon_spent",
    ),
    *("mu", "released", "events", "public_parameters", "assumptions", "attack_success", "trust_model", "side_channels"),
    "versions",
)
"""Of a certificate in JSON; all must be there."""
FALSE_POSITIVE_RATES = (0.001, 0.01)
PROPAGATION = "perturbed message passing"
SUMS = "noisy sums over neighbours"
EVERY_GRAPH = "every graph"
NOTHING_CUT = "Nothing is truncated"
"""How the truncation assumption of a node-level method begins if it reads no edge."""
VOTERS_CHOOSE = "Each training node votes for at most M neighbours"
"""How it begins if nothing is cut but the number of neighbours that a node votes for."""
NO_PRIVACY = "NO PRIVACY: epsilon is infinite; this document certifies nothing"
TRUST_MODEL = (
    "Central model: one trusted curator holds the graph, runs the mechanism and publishes the release; the adversary sees "
    "the whole release, knows the algorithm, every public parameter and everything about the graph except the protected unit."
)
SIDE_CHANNELS = (
    "Run time and memory depend on the number of edges and are not protected; do not publish them.",
    "Logs, caches and crash dumps of the curator's machine are not protected.",
)


_Reporter = Callable[[str, bool, str], None]


@dataclass(frozen=True)
class MechanismRecord:
    """One mechanism of the release: its name, its cost as an event, and the figures that the cost follows from."""

    name: str
    event: Event
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Assumption:
    """Something the guarantee rests on. ``holds=False`` makes the certificate void."""

    name: str
    statement: str
    holds: bool = True


@dataclass(frozen=True)
class Certificate:
    """A published claim of privacy. Make it with `certify`, store it with `save`, check it with `verify`."""

    unit: PrivacyUnit
    epsilon: float
    delta: float
    epsilon_spent: float
    mu: float | None
    released: tuple[str, ...]
    mechanisms: tuple[MechanismRecord, ...]
    public_parameters: Mapping[str, Any]
    assumptions: tuple[Assumption, ...]
    largest_true_positive_rates: Mapping[str, float]
    versions: Mapping[str, str]
    created: str
    certificate_id: str

    @property
    def events(self) -> tuple[Event, ...]:
        """The cost of every mechanism, in order."""
        return tuple(mechanism.event for mechanism in self.mechanisms)

    @property
    def cost(self) -> tuple[Event, ...]:
        """What to compose with other releases: the events, or all groups of nodes side by side where there are several."""
        return _cost(self.events, self.public_parameters)

    @property
    def is_private(self) -> bool:
        """False for epsilon = inf."""
        return math.isfinite(self.epsilon)

    @property
    def void_reasons(self) -> tuple[str, ...]:
        """The assumptions that do not hold; a certificate with any is void as a guarantee."""
        return tuple(a.statement for a in self.assumptions if not a.holds)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; infinite numbers as the word "inf"."""
        return {
            "format": FORMAT,
            "certificate_id": self.certificate_id,
            "created": self.created,
            "status": self.status,
            "scope": self.scope,
            "unit": self.unit.value,
            "adjacency": self.unit.adjacency,
            "epsilon": json_number(self.epsilon),
            "delta": self.delta,
            "epsilon_spent": json_number(self.epsilon_spent),
            "mu": None if self.mu is None else json_number(self.mu),
            "released": list(self.released),
            "events": [
                {"name": m.name, "event": event_to_dict(m.event), "details": dict(m.details)} for m in self.mechanisms
            ],
            "public_parameters": dict(self.public_parameters),
            "assumptions": [asdict(a) for a in self.assumptions],
            "attack_success": {"largest_true_positive_rate_at": dict(self.largest_true_positive_rates)},
            "trust_model": TRUST_MODEL,
            "side_channels": list(SIDE_CHANNELS),
            "versions": dict(self.versions),
        }

    @property
    def status(self) -> str:
        """``private``, ``private in scope`` (not for every graph, see `scope`), ``void`` or ``no privacy``."""
        if not self.is_private:
            return "no privacy"
        if self.void_reasons:
            return "void"
        return "private" if self.scope == EVERY_GRAPH else "private in scope"

    @property
    def scope(self) -> str:
        """For which graphs the promise holds."""
        cuts = [a for a in self.assumptions if a.name == "truncation" and not a.statement.startswith(NOTHING_CUT)]
        if not cuts:
            return EVERY_GRAPH
        if all(a.statement.startswith(VOTERS_CHOOSE) for a in cuts):
            return (
                "training nodes of every graph; validation and test nodes of graphs in which no training node has more "
                "neighbours than it votes for"
            )
        return (
            "graphs whose degrees are all at most the degree cap; where a larger degree had to be cut, a node can cost more, "
            "and this certificate promises nothing"
        )

    def to_json(self) -> str:
        """The certificate as an indented JSON document."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write JSON (``.json``) or Markdown (``.md``), whole or not at all."""
        target = Path(path)
        if target.suffix not in (".json", ".md"):
            raise CertificateError(f"certificate must be saved as .json or .md, got {str(target)!r}")
        if not target.parent.is_dir() or target.is_dir():
            raise CertificateError(f"certificate must be a file in a folder that exists, got {str(target)!r}")
        text = self.to_markdown() if target.suffix == ".md" else self.to_json()
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(target)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise CertificateError(f"certificate cannot be written to {target}: {error}") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a JSON certificate; anything missing, unknown or of the wrong type is an error naming the field."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CertificateError(f"certificate {path} cannot be read: {getattr(error, 'strerror', error)}") from error
        try:
            record = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constants)
        except (json.JSONDecodeError, RecursionError) as error:
            hint = " (this is the Markdown; give the .json)" if text.startswith("# Privacy certificate") else ""
            raise CertificateError(f"certificate {path} cannot be read: not JSON{hint}: {error}") from error
        try:
            return cls.from_dict(record)
        except CertificateError as error:
            raise CertificateError(f"{path}: {error}") from error

    @classmethod
    def from_dict(cls, record: Any) -> Certificate:
        """The inverse of `to_dict`."""
        if not isinstance(record, dict):
            raise CertificateError(f"not a certificate of CARIBOU: must be a JSON object, got {type(record).__name__}")
        missing = [name for name in FIELDS if name not in record]
        if missing:
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise CertificateError(f"not a certificate of CARIBOU: it has no {', '.join(missing[:5])}{more}")
        if record["format"] != FORMAT:
            raise CertificateError(
                f"format must be {FORMAT}, that of this version of caribou, got {record['format']!r}"
            )
        try:
            certificate = cls(
                unit=PrivacyUnit.parse(record["unit"]),
                epsilon=_from_json(record["epsilon"], "epsilon"),
                delta=_from_json(record["delta"], "delta"),
                epsilon_spent=_from_json(record["epsilon_spent"], "epsilon_spent"),
                mu=None if record["mu"] is None else _from_json(record["mu"], "mu"),
                released=tuple(str(item) for item in record["released"]),
                mechanisms=tuple(
                    MechanismRecord(str(m["name"]), event_from_dict(m["event"]), dict(m["details"]))
                    for m in record["events"]
                ),
                public_parameters=dict(record["public_parameters"]),
                assumptions=tuple(
                    Assumption(str(a["name"]), str(a["statement"]), a["holds"] is True) for a in record["assumptions"]
                ),
                largest_true_positive_rates={
                    str(k): _from_json(v, f"attack_success[{k}]")
                    for k, v in record["attack_success"]["largest_true_positive_rate_at"].items()
                },
                versions={str(k): str(v) for k, v in record["versions"].items()},
                created=str(record["created"]),
                certificate_id=str(record["certificate_id"]),
            )
        except KeyError as error:
            raise CertificateError(f"certificate field {error.args[0]!r} must be present, got nothing") from error
        except (TypeError, AttributeError, ValueError, OverflowError) as error:
            raise CertificateError(f"certificate is malformed: {error}") from error
        expected = certificate.to_dict()
        unknown = sorted(set(record) - set(expected))
        if unknown:
            raise CertificateError(f"certificate must have known fields only, got {', '.join(map(str, unknown))}")
        # These fields are words that follow from the others; a reader must not find anything else there.
        for name in ("status", "scope", "adjacency", "trust_model", "side_channels"):
            if record.get(name) != expected[name]:
                raise CertificateError(
                    f"certificate field {name!r} must be {expected[name]!r}, got {record.get(name)!r}"
                )
        return certificate

    def to_markdown(self) -> str:
        """The certificate for people."""
        lines = ["# Privacy certificate", ""]
        if not self.is_private:
            lines += [f"> **{NO_PRIVACY}**", ""]
        elif self.scope != EVERY_GRAPH:
            lines += [f"> **Scope.** This promise is for {self.scope}.", ""]
        for reason in self.void_reasons:
            lines += [f"> **VOID as a guarantee.** {reason}", ""]
        rates = ", ".join(
            f"at {float(fpr):.1%} false alarms a test finds at most {rate:.2%} of the {self.unit.value}s that are there"
            for fpr, rate in self.largest_true_positive_rates.items()
        )
        mu = "" if self.mu is None or math.isinf(self.mu) else f" (mu-GDP with mu = {self.mu:.5g})"
        lines += [
            "| what | promise |",
            "|---|---|",
            f"| Privacy unit | {self.unit.value} |",
            f"| Neighbouring graphs | {self.unit.adjacency} |",
            f"| Guarantee | epsilon = {self.epsilon:g}, delta = {self.delta:g} |",
            f"| Spent | epsilon = {self.epsilon_spent:.6g}{mu} |",
            f"| In terms of attacks | {rates} |",
            f"| Released | {'; '.join(self.released)} |",
            f"| Certificate | {self.certificate_id}, {self.created} |",
            "",
            "## Mechanisms",
            "",
        ]
        for m in self.mechanisms:
            event = event_to_dict(m.event)
            kind = event.pop("kind")
            figures = ", ".join(f"{k} = {v:.6g}" if isinstance(v, float) else f"{k} = {v}" for k, v in event.items())
            lines.append(f"- **{m.name}**: {kind.replace('_', ' ')}{', ' + figures if figures else ''}")
            lines += [f"    - {key}: {value}" for key, value in _flat(m.details)]
        lines += ["", "## Public parameters", ""]
        lines += [f"- {key}: {value}" for key, value in _flat(self.public_parameters)]
        lines += ["", "## Assumptions", ""]
        lines += [f"- {'' if a.holds else '**does not hold** '}{a.name}: {a.statement}" for a in self.assumptions]
        lines += ["", "## Trust model and side channels", "", TRUST_MODEL, ""]
        lines += [f"- {channel}" for channel in SIDE_CHANNELS]
        lines += ["", "## Versions", "", ", ".join(f"{k} {v}" for k, v in self.versions.items()), ""]
        return "\n".join(lines)


def certify(
    budget: Budget,
    mechanisms: Sequence[MechanismRecord],
    *,
    released: Sequence[str],
    public_parameters: Mapping[str, Any],
    assumptions: Sequence[Assumption],
    now: datetime | None = None,
) -> Certificate:
    """Account the mechanisms and write the claim down. Refuses a claim that the events do not keep."""
    events = _cost([m.event for m in mechanisms], public_parameters)
    spent = epsilon_of(events, budget.delta)
    if spent > budget.epsilon:
        raise CertificateError(f"epsilon_spent must be <= epsilon = {budget.epsilon:g}, got {spent!r}")
    mu = None if any(isinstance(e, NonPrivate) for e in events) else gaussian_mu(events)
    rates = {
        str(fpr): largest_true_positive_rate(events, delta=budget.delta, false_positive_rate=fpr)
        for fpr in FALSE_POSITIVE_RATES
    }
    return Certificate(
        unit=budget.unit,
        epsilon=budget.epsilon,
        delta=budget.delta,
        epsilon_spent=spent,
        mu=mu,
        released=tuple(released),
        mechanisms=tuple(mechanisms),
        public_parameters=dict(public_parameters),
        assumptions=tuple(assumptions),
        largest_true_positive_rates=rates,
        versions=_versions(),
        created=(now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        certificate_id=uuid.uuid4().hex,
    )


def _cost(events: Sequence[Event], public_parameters: Mapping[str, Any]) -> tuple[Event, ...]:
    """The events as they are, or, if the parameters list ``groups`` of nodes with their own events, all of them in parallel."""
    groups = public_parameters.get("groups")
    if not groups:
        return tuple(events)
    if not isinstance(groups, Mapping) or not all(isinstance(group, list | tuple) for group in groups.values()):
        raise CertificateError("groups must be lists of events by name")
    listed = [tuple(event_from_dict(event) for event in group) for group in groups.values()]
    lists = choices([Parallel((tuple(events), *listed))])
    return tuple(events) if len(lists) == 1 and Counter(lists[0]) == Counter(events) else (Parallel(tuple(lists)),)


def propagation_record(calibrated: CalibratedPropagation) -> MechanismRecord:
    """Perturbed message passing as a line of a certificate."""
    return MechanismRecord(PROPAGATION, calibrated.event, calibrated.to_dict())


def sums_record(calibrated: CalibratedSums) -> MechanismRecord:
    """Noisy sums over neighbours as a line of a certificate."""
    return MechanismRecord(SUMS, calibrated.event, calibrated.to_dict())


def standing_assumptions(
    unit: PrivacyUnit,
    *,
    noise_is_secret: bool,
    noise_origin: str,
    selection: str = "fixed before the data was seen",
    resumable: bool = False,
) -> tuple[Assumption, ...]:
    """The assumptions of every release. All are stated always: whether one of them bites may itself be private.

    ``resumable``: key and hidden states lie in a private folder until the release is made.
    """
    kept = "only in a private folder that is removed with the release" if resumable else "in no file"
    stored = "stored elsewhere than in a private folder that is removed with the release" if resumable else "stored"
    randomness = (
        f"The key of the privacy noise came from {noise_origin}, is as secret as the graph and is kept {kept}."
        if noise_is_secret
        else f"The privacy noise was drawn from {noise_origin}: whoever knows it can subtract the noise. "
        "Such a run is for experiments only."
    )
    assumptions = [
        Assumption("randomness", randomness, holds=noise_is_secret),
        Assumption(
            "floating point",
            "Steps are computed in double precision; their rounding error, and that of stored states, is bounded and added to "
            "the sensitivity; value and noise are rounded to a common power-of-two grid, so their sum is exact. The Gaussian "
            "itself is sampled with 128-bit uniforms; the probability of a grid cell differs from the exact one by about 1e-7, "
            "outside the proof.",
        ),
        Assumption(
            "hidden states",
            f"Only what is listed as released leaves the curator; intermediate states are not {stored}, logged or shown.",
        ),
        Assumption(
            "hyper-parameters", f"Declared by the curator: {selection}. A search on the private graph costs more."
        ),
        Assumption(
            "public values", "The public parameters listed here were declared, not computed from the private graph."
        ),
    ]
    if unit is PrivacyUnit.NODE:
        assumptions.append(
            Assumption(
                "truncation",
                "The guarantee is for the graph after its degrees were cut to the degree cap. If the cut removed an edge, how "
                "the cut itself reacts to one node is not covered: a freed place goes to another edge. Whether it did is "
                "private and therefore not stated. It did not if no degree exceeds the declared cap.",
            )
        )
    return tuple(assumptions)


def initial_state_assumption(unit: PrivacyUnit) -> Assumption:
    """What message passing assumes about X^(0)."""
    if unit is PrivacyUnit.EDGE:
        return Assumption("initial state", "X^(0) is public: it was computed without looking at any edge.")
    return Assumption(
        "initial state",
        "Row i of X^(0) is a function of the data of node i alone, and of what was released privately before.",
    )


# -- verification --------------------------------------------------------------------------------------------------


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


def verify(certificate: Certificate) -> Verification:
    """Recompute everything a certificate claims, from its own events and parameters.

    Fails if epsilon_spent differs from what the events cost, exceeds the claim, or is contradicted by PLD or RDP; if the cost
    of message passing does not follow from its sensitivity, hops, size and noise by the theorems, or those differ from the
    public parameters; if another mechanism names no theorem; if an attack rate is misstated; if an assumption is missing or
    does not hold; or if there is no privacy at all. What it cannot see: whether the release was really made this way.
    """
    checks: list[Check] = []

    def check(name: str, passed: bool, detail: str) -> None:
        checks.append(Check(name, bool(passed), detail))

    c = certificate
    check("private", c.is_private, f"epsilon = {c.epsilon:g}" if c.is_private else NO_PRIVACY)
    check("events", len(c.mechanisms) > 0, f"{len(c.mechanisms)} mechanism(s)")
    for a in c.assumptions:
        checks.append(Check(f"assumption: {a.name}", a.holds, a.statement, declared=True))
    required = {a.name for a in standing_assumptions(c.unit, noise_is_secret=True, noise_origin="")}
    if any(m.name == PROPAGATION for m in c.mechanisms):
        required.add("initial state")
    for missing in sorted(required - {a.name for a in c.assumptions}):
        check(f"assumption: {missing}", False, "must be stated, got nothing")
    try:
        budget = Budget(c.epsilon, c.delta, c.unit)
        cost = c.cost
        spent = epsilon_of(cost, budget.delta)
        pld = pld_epsilon(cost, budget.delta)
        rdp = rdp_epsilon_of(cost, budget.delta)
        for m in c.mechanisms:
            _check_mechanism(m, c, check)
    except (CaribouError, OverflowError, ZeroDivisionError) as error:
        check("figures", False, str(error))
        return Verification(tuple(checks), math.nan, None)
    check(
        "epsilon spent",
        _close(c.epsilon_spent, spent, 1e-6),
        f"stated {c.epsilon_spent:.6g}, recomputed {spent:.6g}",
    )
    check("within the claim", spent <= c.epsilon * (1 + 1e-9), f"{spent:.6g} <= {c.epsilon:g}")
    if c.is_private:
        # PLD rounds up by its discretisation, so it may be above the exact value, but only by a hair.
        check("PLD agrees", pld <= c.epsilon_spent + 1e-3 * max(1.0, c.epsilon_spent), f"PLD gives {pld:.6g}")
        if rdp is not None:
            check("RDP does not contradict", rdp >= spent - 1e-3 * max(1.0, spent), f"RDP gives {rdp:.6g} (looser)")
    mu = None if any(isinstance(e, NonPrivate) for e in cost) else gaussian_mu(cost)
    if c.mu is not None or mu is not None:
        check("mu", _close(c.mu, mu, 1e-9), f"stated {c.mu}, recomputed {mu}")
    for fpr in FALSE_POSITIVE_RATES:
        stated = c.largest_true_positive_rates.get(str(fpr))
        true = largest_true_positive_rate(cost, delta=budget.delta, false_positive_rate=fpr)
        check(f"attack success at {fpr:.1%}", _close(stated, true, 1e-6), f"stated {stated}, recomputed {true:.6g}")
    return Verification(tuple(checks), pld, rdp)


def _check_mechanism(m: MechanismRecord, certificate: Certificate, check: _Reporter) -> None:
    """The cost must follow from the details: for messages it is recomputed, for anything else a source is required."""
    if m.name in (PROPAGATION, SUMS):
        try:
            (_check_propagation if m.name == PROPAGATION else _check_sums)(m, certificate, check)
        except (KeyError, TypeError, ValueError, OverflowError) as problem:
            check(f"{m.name}: details", False, f"missing or malformed: {problem}")
    elif isinstance(m.event, NonPrivate):
        check(f"{m.name}: noise", False, "there is none")
    else:
        theorem = m.details.get("theorem")
        check(f"{m.name}: theorem", isinstance(theorem, str) and bool(theorem), str(theorem or "must be stated"))


def _check_propagation(m: MechanismRecord, certificate: Certificate, check: _Reporter) -> None:
    """Sensitivity, kappa, arithmetic error and mu must follow from the parameters, which must be the public ones."""
    s, arithmetic = m.details["sensitivity"], m.details["arithmetic"]
    theorem = recomputed_sensitivity(s)
    bounds = theorem.bounds
    kappa = convergence_factor(hops=m.details["hops"], contraction=theorem.contraction)
    noise_std = m.details["noise_std"]
    if isinstance(noise_std, bool) or not isinstance(noise_std, int | float):
        raise ValueError(f"noise_std must be a number, got {noise_std!r}")
    used = (
        ("hops", m.details["hops"]),
        *theorem.parameters,
        ("degree_floor", bounds.degree_floor),
        ("degree_cap", bounds.degree_cap),
        ("nodes", arithmetic["nodes"]),
        ("columns", arithmetic["columns"]),
    )
    public = {"layer": "contractive", **certificate.public_parameters}
    differing = [key for key, value in (("layer", theorem.layer), *used) if public.get(key) != value]
    check(f"{m.name}: public parameters", not differing, f"differ in {differing}" if differing else "as used")
    check(
        f"{m.name}: unit",
        theorem.unit is certificate.unit,
        f"bound at {theorem.unit.value} level, claim at {certificate.unit.value} level",
    )
    check(
        f"{m.name}: sensitivity",
        _close(s["value"], theorem.value, 1e-9) and _same_record(s, theorem.to_dict()),
        f"stated {s['value']}, theorem gives {theorem.value:.9g}",
    )
    if theorem.layer in LAYER_ASSUMPTIONS and not any(a.name == "layer" for a in certificate.assumptions):
        check("assumption: layer", False, "must be stated, got nothing")
    stated_kappa = m.details["kappa"]
    for name, value in (("mu", m.details["mu"]), ("noise_multiplier", m.details["noise_multiplier"])):
        true = noise_std / theorem.value if name == "noise_multiplier" else _stated_mu(m.event)
        check(f"{m.name}: {name}", _close(value, true, 1e-6), f"stated {value}, recomputed {true}")
    check(f"{m.name}: kappa", _close(stated_kappa, kappa, 1e-9), f"stated {stated_kappa}, theorem gives {kappa:.9g}")
    if not isinstance(m.event, Gaussian) or not 0 < noise_std < math.inf:
        check(f"{m.name}: noise", False, f"noise_std must be a number > 0 with a Gaussian event, got {noise_std!r}")
        return
    size = {"nodes": arithmetic["nodes"], "columns": arithmetic["columns"]}
    error = theorem.arithmetic(**size, storage=arithmetic.get("storage", "double")).error(noise_std)
    check(
        f"{m.name}: arithmetic",
        _close(arithmetic["error"], error, 1e-9),
        f"stated {arithmetic['error']}, bound gives {error:.3g}",
    )
    mu = propagation_mu(sensitivity=theorem.value, kappa=kappa, noise_std=noise_std, arithmetic_error=error)
    claimed = math.sqrt(m.event.count) / m.event.noise_multiplier
    check(
        f"{m.name}: noise",
        mu <= claimed * (1 + 1e-9),
        f"noise_std {noise_std:.6g} gives mu = {mu:.6g}, the event claims {claimed:.6g}",
    )


def _check_sums(m: MechanismRecord, certificate: Certificate, check: _Reporter) -> None:
    """Sensitivity, arithmetic error and mu must follow from the parameters, which must be the public ones."""
    s, arithmetic, noise_std, hops = (m.details[key] for key in ("sensitivity", "arithmetic", "noise_std", "hops"))
    theorem = sum_sensitivity(s["unit"], degree_cap=s["degree_cap"], radius=s["radius"])
    used = {"nodes": arithmetic["nodes"], "degree_cap": theorem.degree_cap, "radius": theorem.radius}
    differing = [key for key, value in used.items() if certificate.public_parameters.get(key) != value]
    check(f"{m.name}: public parameters", not differing, f"differ in {differing}" if differing else "as used")
    check(f"{m.name}: unit", theorem.unit is certificate.unit, f"bound at {theorem.unit.value} level")
    check(
        f"{m.name}: sensitivity",
        _close(s["value"], theorem.value, 1e-9),
        f"stated {s['value']}, theorem gives {theorem.value:.9g}",
    )
    if not isinstance(m.event, Gaussian) or isinstance(noise_std, bool) or not 0 < noise_std < math.inf:
        check(f"{m.name}: noise", False, f"noise_std must be a number > 0 with a Gaussian event, got {noise_std!r}")
        return
    size = {"nodes": arithmetic["nodes"], "columns": arithmetic["columns"]}
    error = sum_arithmetic(**size, radius=theorem.radius).error(noise_std)
    check(f"{m.name}: arithmetic", _close(arithmetic["error"], error, 1e-9), f"bound gives {error:.3g}")
    mu = sums_mu(sensitivity=theorem.value, hops=hops, noise_std=noise_std, arithmetic_error=error)
    claimed = _stated_mu(m.event)
    check(
        f"{m.name}: noise",
        mu <= claimed * (1 + 1e-9) and m.event.count == hops,
        f"noise_std {noise_std:.6g} gives mu = {mu:.6g}, the event claims {claimed:.6g}",
    )


def _same_record(stated: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Whether the record of a sensitivity says what the theorem says, but for value and words. Without a layer: version 0.1.0."""
    if "layer" not in stated:
        return True
    return {**stated, "value": 0, "theorem": ""} == {**expected, "value": 0, "theorem": ""}


def _stated_mu(event: Event) -> float:
    return math.sqrt(event.count) / event.noise_multiplier if isinstance(event, Gaussian) else math.inf


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise CertificateError(f"certificate must not name a field twice, got {[key for key, _ in pairs]}")
    return record


def _no_constants(word: str) -> NoReturn:
    raise CertificateError(f"certificate must hold finite numbers, got {word}")


def _close(stated: Any, true: float | None, tolerance: float) -> bool:
    if true is None or stated is None:
        return stated is None and true is None
    if isinstance(stated, bool) or not isinstance(stated, int | float):
        return False
    if math.isinf(true) or math.isinf(stated):
        return stated == true
    return abs(stated - true) <= tolerance * max(1e-300, abs(true)) + 1e-15


def json_number(x: float) -> float | str | None:
    """A number as JSON can hold it: infinity as the word "inf", what is not a number as null."""
    if math.isnan(x):
        return None
    return "inf" if math.isinf(x) else x


def _from_json(x: Any, name: str) -> float:
    if x == "inf":
        return math.inf
    if isinstance(x, bool) or not isinstance(x, int | float) or not math.isfinite(x):
        raise CertificateError(f"certificate field {name!r} must be a finite number or 'inf', got {x!r}")
    return float(x)


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{key}.")
        else:
            rows.append((f"{prefix}{key}", f"{value:.9g}" if isinstance(value, float) else value))
    return rows


@cache
def package_version(package: str) -> str:
    """The installed version, or the words "not installed". Read once: finding it takes milliseconds."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _versions() -> dict[str, str]:
    packages = ("caribou-gnn", "torch", "numpy", "dp-accounting", "cryptography")
    return {"python": platform.python_version()} | {package: package_version(package) for package in packages}
