"""Certificates of format 1 (version 0.1.0), brought to format 2.

Format 1 named mechanisms in words, kept what other groups of nodes pay among the public parameters, and said in sentences what
is now an enum. Every mechanism is made again from its figures. What the document states is carried over, not corrected: a
certificate that did not verify does not verify afterwards. Where format 1 does not hold what format 2 needs, the certificate is
refused. No cost is ever guessed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from caribou.errors import CaribouError, CertificateError
from caribou.privacy.assumptions import (
    SIDE_CHANNELS,
    STANDING,
    TRUST_MODEL,
    Assumption,
    AssumptionName,
    Sampler,
    floating_point,
    in_order,
    randomness,
)
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.certificate import FORMAT, json_number
from caribou.privacy.events import (
    EpsilonDelta,
    Event,
    Gaussian,
    NonPrivate,
    event_from_dict,
    event_to_dict,
)
from caribou.privacy.mechanism_records import (
    EDGES,
    NODES,
    PARTS,
    Examples,
    Group,
    Mechanism,
    MechanismRecord,
    composed,
    descent_record,
    determined_assumptions,
    edge_count_record,
    edge_votes_record,
    exponential_record,
    groups_of,
    mean_record,
    no_noise_record,
    no_release_record,
    randomized_response_record,
    rebuild,
)
from caribou.privacy.plan import attack_success, epsilon_by_degree, group_epsilons
from caribou.privacy.scope import Scope
from caribou.privacy.sensitivity import Bounds

FIELDS_1 = (
    *("format", "certificate_id", "created", "status", "scope", "unit", "adjacency", "epsilon", "delta"),
    *("epsilon_spent", "mu", "released", "events", "public_parameters", "assumptions", "attack_success"),
    *("trust_model", "side_channels", "versions"),
)


def from_format_1(record: Mapping[str, Any]) -> dict[str, Any]:
    """A certificate of format 1 as one of format 2, in JSON values.

    Its number and its time stay. Raises `CertificateError` for anything that format 1 could not have held, and for a certificate
    that cannot be migrated faithfully: a private search, of which format 1 does not hold the trials, and a node-level release
    that read edges, which format 1 promised for graphs within a degree cap only.
    """
    try:
        return _migrated(record)
    except CaribouError as error:
        raise CertificateError(f"certificate of format 1 cannot be migrated: {error}") from error
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, ZeroDivisionError) as error:
        raise CertificateError(f"certificate of format 1 cannot be migrated: it is malformed: {error!r}") from error


def _migrated(record: Mapping[str, Any]) -> dict[str, Any]:
    differing = sorted(map(str, set(record) ^ set(FIELDS_1)))
    if differing:
        raise CertificateError(f"fields must be those of format 1, got {', '.join(differing)} missing or unknown")
    old = _Old.of(record)
    if old.unit is PrivacyUnit.NODE and any(line.name in _READ_EDGES for line in old.lines):
        raise CertificateError(
            "at node level its promise ended at a degree cap, which graphs exceed; make the release again"
        )
    records = _mechanisms(old)
    scope = Scope.weakest(rebuild(made).scope for made in records)
    assumptions = _assumptions(old, records)
    _check_words(record, old.unit, all(assumption.holds for assumption in assumptions))
    holds = all(assumption.holds for assumption in assumptions)
    private = record["epsilon"] != "inf"
    cost, delta = composed(records), record["delta"]
    rates = {"presence": record["attack_success"]["largest_true_positive_rate_at"]}
    curve = epsilon_by_degree(tuple(map(rebuild, records)), old.unit, delta, old.public.get("nodes"))
    return {
        "format": FORMAT,
        **{key: record[key] for key in ("certificate_id", "created")},
        "status": "no privacy" if not private else "private" if holds else "void",
        "scope": scope.to_dict(),
        **{key: record[key] for key in ("unit", "adjacency", "epsilon", "delta", "epsilon_spent")},
        "epsilon_by_degree": [[degree, json_number(epsilon)] for degree, epsilon in curve],
        **{key: record[key] for key in ("mu", "released")},
        "mechanisms": [made.to_dict() for made in records],
        "groups": {g: json_number(epsilon) for g, epsilon in group_epsilons(records, record["delta"]).items()},
        "public_parameters": _public_parameters(old, records),
        "assumptions": [assumption.to_dict() for assumption in assumptions],
        "attack_success": {**attack_success(cost, delta), **rates},
        **{key: record[key] for key in ("trust_model", "side_channels", "versions")},
    }


# -- what format 1 held -----------------------------------------------------------------------------------------------

_GROUPS: Mapping[str, tuple[Group, ...]] = {
    "training nodes": (Group.TRAINING,),
    "validation nodes": (Group.VALIDATION,),
    "test nodes and the rest": (Group.OTHERS,),
    "validation and test nodes": (Group.VALIDATION, Group.OTHERS),
    "all other nodes": (Group.VALIDATION, Group.OTHERS),
    "every node": (Group.EVERY_NODE,),
}
_Events = tuple[Event, ...]


@dataclass(frozen=True)
class _Line:
    """One mechanism of format 1: a name, one event, and figures."""

    name: str
    event: Event
    figures: Mapping[str, Any]

    @property
    def multiplier(self) -> float:
        """Of the noise of a Gaussian; 0 without noise."""
        if isinstance(self.event, NonPrivate):
            return 0.0
        if not isinstance(self.event, Gaussian):
            raise CertificateError(f"{self.name} must cost Gaussian mechanisms, got {event_to_dict(self.event)}")
        return self.event.noise_multiplier

    @property
    def epsilon(self) -> float:
        """Of a pure mechanism; inf without noise."""
        if isinstance(self.event, NonPrivate):
            return math.inf
        if not isinstance(self.event, EpsilonDelta) or self.event.delta != 0:
            raise CertificateError(f"{self.name} must cost a pure epsilon, got {event_to_dict(self.event)}")
        return self.event.epsilon

    def rest(self, *used: str) -> dict[str, Any]:
        """The figures beside the used ones and the sentence on the theorem, which format 2 generates."""
        return {key: value for key, value in self.figures.items() if key not in (*used, "theorem")}

    def require(self, *keys: str) -> None:
        """Exactly these figures, and a theorem."""
        if set(self.figures) != {*keys, "theorem"}:
            raise CertificateError(f"{self.name} must have the figures {', '.join(keys)}, got {sorted(self.figures)}")


@dataclass(frozen=True)
class _Old:
    """A certificate of format 1, parsed as far as a migration needs it."""

    unit: PrivacyUnit
    lines: tuple[_Line, ...]
    groups: Mapping[Group, _Events]
    public: Mapping[str, Any]
    assumptions: Mapping[str, tuple[str, bool]]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> _Old:
        """Read the fields whose form differs."""
        public = dict(record["public_parameters"])
        lines = tuple(_line(entry) for entry in record["events"])
        groups = {
            group: tuple(map(event_from_dict, events))
            for name, events in (public.pop("groups", None) or {}).items()
            for group in _GROUPS[name]
        }
        assumptions = {a["name"]: (a["statement"], a["holds"]) for a in record["assumptions"]}
        if len(assumptions) != len(record["assumptions"]):
            raise CertificateError("assumptions must be stated once, got one twice")
        return cls(PrivacyUnit.parse(record["unit"]), lines, groups, public, assumptions)

    @property
    def payers(self) -> tuple[Group, ...]:
        """Who pays for what every unit is in."""
        if self.unit is PrivacyUnit.EDGE:
            return EDGES
        return PARTS if any(group in PARTS for group in self.groups) else NODES


def _line(entry: Any) -> _Line:
    if set(entry) != {"name", "event", "details"}:
        raise CertificateError(f"event must have name, event and details, got {sorted(entry)}")
    theorem = entry["details"].get("theorem")
    if entry["name"] not in _SHAPES and (not isinstance(theorem, str) or not theorem):
        raise CertificateError(f"{entry['name']} must name its theorem, got {theorem!r}")
    return _Line(entry["name"], event_from_dict(entry["event"]), dict(entry["details"]))


# -- mechanisms -------------------------------------------------------------------------------------------------------


def _mechanisms(old: _Old) -> tuple[MechanismRecord, ...]:
    """The records, the exponential mechanism among them, which format 1 knew as an event of the validation nodes only."""
    records = []
    for line in old.lines:
        if line.name not in _MECHANISMS:
            raise CertificateError(f"mechanism must be one of format 1, got {line.name!r}")
        records.append(_MECHANISMS[line.name](line, old))
    left = list(old.groups.get(Group.VALIDATION, ()))
    for event in groups_of(records).get(Group.VALIDATION, ()):
        left = _without(left, event)
    if len(left) == 1:
        choice = _Line("choice on validation nodes", left[0], {})
        records.append(exponential_record(choice.name, epsilon=choice.epsilon, candidates=None))
    _check_groups(records, old)
    return tuple(records)


def _check_groups(records: Sequence[MechanismRecord], old: _Old) -> None:
    """Every group must pay what it paid, and the events that stood first must be those of a group."""
    made = groups_of(records)
    for group in {**made, **old.groups} if old.groups else ():
        stated, needed = old.groups.get(group, ()), made.get(group, ())
        # without noise format 1 listed one group
        unlisted = group not in old.groups and all(isinstance(event, NonPrivate) for event in needed)
        if not unlisted and not _same_events(stated, needed):
            raise CertificateError(f"events of the {group.value} must follow from the mechanisms, got others")
    first = tuple(line.event for line in old.lines)
    if not any(_same_events(first, events) for events in made.values()):
        raise CertificateError("events must be those that a group pays, got others")


def _same_events(stated: Sequence[Event], needed: Sequence[Event]) -> bool:
    left = list(needed)
    for event in stated:
        if not any(_same_event(event, other) for other in left):
            return False
        left = _without(left, event)
    return not left


def _without(events: list[Event], event: Event) -> list[Event]:
    for place, other in enumerate(events):
        if _same_event(event, other):
            return events[:place] + events[place + 1 :]
    return events


def _same_event(one: Event, two: Event) -> bool:
    a, b = event_to_dict(one), event_to_dict(two)
    return a.keys() == b.keys() and all(
        math.isclose(a[key], b[key], rel_tol=1e-9) if key != "kind" else a[key] == b[key] for key in a
    )


_Shape = Mapping[str, Any]
_SHAPES: Mapping[str, _Shape] = {
    "perturbed message passing": {
        "sensitivity": {
            **dict.fromkeys(("value", "unit", "contraction", "alpha1", "beta", "theorem")),
            "bounds": dict.fromkeys(("degree_floor", "degree_cap", "nodes")),
        },
        **dict.fromkeys(("hops", "kappa", "mu", "noise_std", "noise_multiplier")),
        "arithmetic": dict.fromkeys(("error", "nodes", "columns", "storage")),
    },
    "noisy sums over neighbours": {
        "sensitivity": dict.fromkeys(("value", "unit", "degree_cap", "radius", "theorem")),
        **dict.fromkeys(("theorem", "hops", "mu", "noise_std")),
        "arithmetic": dict.fromkeys(("error", "nodes", "columns")),
    },
}
"""The figures of format 1, by mechanism."""


def _calibrated(mechanism: Mechanism) -> Callable[[_Line, _Old], MechanismRecord]:
    """Message passing and sums: figures and event are those that were stated."""

    def make(line: _Line, old: _Old) -> MechanismRecord:
        _require_shape(line.figures, _SHAPES[line.name], line.name)
        stated = dict.fromkeys(old.payers, (line.event,))
        figures = {**line.figures, "sensitivity": _with_bounds(line.figures["sensitivity"])}
        made = rebuild(MechanismRecord(mechanism, line.name, "", figures, stated))
        return replace(made, details=_overlaid(made.details, figures), costs=stated)

    return make


def _with_bounds(sensitivity: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds of an edge-level release, which declares no degree."""
    rest = {key: value for key, value in sensitivity.items() if key != "degree_cap"}
    return {**rest, "bounds": asdict(Bounds(**sensitivity.get("bounds", {})))}


def _require_shape(stated: Any, shape: _Shape, name: str) -> None:
    if not isinstance(stated, Mapping) or set(stated) != set(shape):
        raise CertificateError(f"{name} must have the figures {', '.join(shape)}, got {stated!r}")
    for key, inner in shape.items():
        if inner is not None:
            _require_shape(stated[key], inner, f"{name}: {key}")


def _overlaid(made: Any, stated: Any) -> Any:
    """The figures as `rebuild` orders them, each as it was stated; those that format 1 did not have, as recomputed."""
    if not isinstance(made, Mapping) or not isinstance(stated, Mapping):
        return stated
    return {key: _overlaid(value, stated[key]) if key in stated else value for key, value in made.items()}


def _votes(line: _Line, old: _Old) -> MechanismRecord:
    line.require("sensitivity", "noise")
    if isinstance(line.event, Gaussian):
        if line.event.count != 1:
            raise CertificateError(f"votes must cost one event, got {line.event.count}")
        return edge_votes_record(epsilon=math.inf, mu=1 / line.multiplier)
    return edge_votes_record(epsilon=line.epsilon, mu=math.inf)


def _edge_count(line: _Line, old: _Old) -> MechanismRecord:
    line.require()
    return edge_count_record(epsilon=line.epsilon)


def _response(line: _Line, old: _Old) -> MechanismRecord:
    line.require("released_edge_count", "keep_one", "make_one", "epsilon_of_these")
    drawn = line.rest("epsilon_of_these") | {"epsilon_of_answers": line.figures["epsilon_of_these"]}
    return randomized_response_record(epsilon=line.epsilon, after=drawn)


def _mean(line: _Line, old: _Old) -> MechanismRecord:
    line.require("sensitivity")
    made = mean_record(line.name, noise_std=line.multiplier)
    return replace(made, details={**made.details, "sensitivity": line.figures["sensitivity"]})


def _descent(examples: Examples) -> Callable[[_Line, _Old], MechanismRecord]:
    def make(line: _Line, old: _Old) -> MechanismRecord:
        made = descent_record(
            line.name,
            unit=old.unit,
            steps=line.figures["steps"],
            noise_multiplier=line.multiplier,
            clip=line.figures["clip"],
            examples=examples,
            schedule=line.rest("steps", "clip", "sensitivity_in_clips"),
        )
        stated = line.figures.get("sensitivity_in_clips", made.details["sensitivity_in_clips"])
        return replace(made, details={**made.details, "sensitivity_in_clips": stated})

    return make


def _no_release(line: _Line, old: _Old) -> MechanismRecord:
    line.require()
    if isinstance(line.event, NonPrivate):
        return no_noise_record(old.unit, line.name)
    if line.epsilon != 0:
        raise CertificateError(f"no release must cost nothing, got epsilon = {line.epsilon:g}")
    return no_release_record(old.unit, line.figures["theorem"])


def _no_noise(line: _Line, old: _Old) -> MechanismRecord:
    if not isinstance(line.event, NonPrivate):
        raise CertificateError(f"{line.name} must have no noise, got {event_to_dict(line.event)}")
    return no_noise_record(old.unit, line.name)


def _selection(line: _Line, old: _Old) -> MechanismRecord:
    raise CertificateError("a private search of format 1 does not hold its trials, so its cost cannot be recomputed")


_MECHANISMS: Mapping[str, Callable[[_Line, _Old], MechanismRecord]] = {
    "perturbed message passing": _calibrated(Mechanism.MESSAGE_PASSING),
    "noisy sums over neighbours": _calibrated(Mechanism.NEIGHBOUR_SUMS),
    "votes": _votes,
    "edge count": _edge_count,
    "randomized response on pairs": _response,
    "mean of the training rows": _mean,
    "noisy gradient descent": _descent(Examples.OWN_ROWS),
    "training of the classifier": _descent(Examples.OWN_ROWS),
    "training of W on rows of A": _descent(Examples.ROWS_OF_A),
    "private selection": _selection,
    "no release": _no_release,
    "the graph itself": _no_noise,
}
"""The mechanisms of format 1 by name, but for training on neighbourhoods, which was of node level only."""
_READ_EDGES = (
    "perturbed message passing",
    "noisy sums over neighbours",
    "votes",
    "training of W on rows of A",
    "training on neighbourhoods",
)


def _public_parameters(old: _Old, records: Sequence[MechanismRecord]) -> dict[str, Any]:
    """The declared values, with those that format 1 left out: None, the one layer, and what sums did not have to declare."""
    public = dict(old.public)
    for made in map(rebuild, records):
        for key, value in made.public.items():
            of_sums = made.mechanism is Mechanism.NEIGHBOUR_SUMS and key in ("hops", "columns")
            if key not in public and (value is None or of_sums or key == "layer"):
                public[key] = value
    return public


# -- sentences --------------------------------------------------------------------------------------------------------

_SECRET = re.compile(
    r"The key of the privacy noise came from (?P<origin>.+), is as secret as the graph and is kept (?P<kept>.+)\."
)
_KNOWN = re.compile(
    r"The privacy noise was drawn from (?P<origin>.+): whoever knows it can subtract the noise\. "
    r"Such a run is for experiments only\."
)
_IN_A_FOLDER = "only in a private folder that is removed with the release"
_PARALLEL = re.compile(
    "The split is public and its parts are disjoint: a node pays for the mechanisms of its own group only, and the events listed "
    "are those of the costliest group. Groups: [a-z ]+(, [a-z ]+)*."
)
_SENTENCES_1: Mapping[str, tuple[str, ...]] = {
    "floating point": (
        "Steps are computed in double precision; their rounding error, and that of stored states, is bounded and added to the "
        "sensitivity; value and noise are rounded to a common power-of-two grid, so their sum is exact. The Gaussian itself is "
        "sampled with 128-bit uniforms; the probability of a grid cell differs from the exact one by about 1e-7, outside the "
        "proof.",
    ),
    "hidden states": (
        "Only what is listed as released leaves the curator; intermediate states are not stored, logged or shown.",
        "Only what is listed as released leaves the curator; intermediate states are not stored elsewhere than in a private "
        "folder that is removed with the release, logged or shown.",
    ),
    "hyper-parameters": (
        "Declared by the curator: fixed before the data was seen. A search on the private graph costs more.",
    ),
    "public values": ("The public parameters listed here were declared, not computed from the private graph.",),
    "truncation": ("Nothing is truncated: no edge is read.",),
    "initial state": (
        "X^(0) is public: it was computed without looking at any edge.",
        "Row i of X^(0) is a function of the data of node i alone, and of what was released privately before.",
    ),
    "own predictions": (
        "Covered is what is listed as released. The prediction for a node is computed from it and from the node's own features, "
        "for whoever already holds those features; publishing a node's own prediction discloses what the model sees of that "
        "node.",
    ),
    "public features": (
        "Centre and projection are computed from a sample of feature rows that the curator declares public: it contains no row "
        "of this graph and was chosen without looking at it. The program cannot check that.",
    ),
    "weights": ("W was released before A W was computed, and its rows were brought to length 1 in place.",),
}
"""The sentences of format 1 that hold no figure, as they stood."""


def _assumptions(old: _Old, records: Sequence[MechanismRecord]) -> tuple[Assumption, ...]:
    """The assumptions by name. Those that format 1 asked for are there if they were stated; what format 2 adds is added."""
    _check_sentences(old)
    if old.unit is PrivacyUnit.NODE and "truncation" not in old.assumptions:
        raise CertificateError("assumption 'truncation' must be stated at node level, got nothing")
    found = {assumption.name.value: assumption for assumption in _standing(old)}
    passes = any(record.mechanism is Mechanism.MESSAGE_PASSING for record in records)
    for assumption in determined_assumptions(tuple(map(rebuild, records)), old.unit):
        name = "truncation" if assumption.name is AssumptionName.NO_EDGE_READ else assumption.name.value
        if assumption.name is AssumptionName.FLOATING_POINT:
            continue  # its noise was sampled by that version: see `_standing`
        if name in old.assumptions:
            found[name] = replace(assumption, holds=old.assumptions[name][1])
        elif name != "initial state" or not passes:
            found[name] = assumption
    if "public features" in old.assumptions:
        holds = old.assumptions["public features"][1]
        found["public features"] = Assumption(AssumptionName.PUBLIC_FEATURES, holds=holds)
    for name, (_, holds) in old.assumptions.items():
        if name not in found and not holds:
            raise CertificateError(
                f"assumption {name!r} must hold, for it has no place in format 2, got that it does not"
            )
    return in_order(found.values())


def _standing(old: _Old) -> list[Assumption]:
    found = []
    stated = {name: old.assumptions[name.value] for name in STANDING if name.value in old.assumptions}
    for name, (sentence, holds) in stated.items():
        if name is AssumptionName.RANDOMNESS:
            secret = _SECRET.fullmatch(sentence)
            match = secret or _KNOWN.fullmatch(sentence)
            if match is None or holds is not (secret is not None):
                raise CertificateError(f"assumption 'randomness' must be one of format 1, got {sentence!r}")
            resumable = secret is not None and secret["kept"] == _IN_A_FOLDER
            found.append(randomness(secret=secret is not None, origin=match["origin"], resumable=resumable))
        elif name is AssumptionName.HIDDEN_STATES:
            resumable = sentence == _SENTENCES_1["hidden states"][1]
            found.append(Assumption(name, {"resumable": resumable}, holds))
        elif name is AssumptionName.HYPER_PARAMETERS:
            found.append(Assumption(name, {"search": None}, holds))
        elif name is AssumptionName.FLOATING_POINT:
            found.append(replace(floating_point([Sampler.DOUBLE_PRECISION]), holds=holds))
        else:
            found.append(Assumption(name, {}, holds))
    return found


def _check_sentences(old: _Old) -> None:
    """Every sentence must be one that format 1 wrote: a reader has relied on it."""
    for name, (sentence, holds) in old.assumptions.items():
        if not isinstance(holds, bool) or not isinstance(sentence, str):
            raise CertificateError(f"assumption {name!r} must have a sentence and a truth value, got {sentence!r}")
        if name == "randomness":
            known = True  # it holds figures, see `_standing`
        elif name == "parallel composition":
            known = _PARALLEL.fullmatch(sentence) is not None
        else:
            known = sentence in _SENTENCES_1.get(name, ())
        if not known:
            raise CertificateError(f"assumption {name!r} must be one of format 1, got {sentence!r}")


def _check_words(record: Mapping[str, Any], unit: PrivacyUnit, holds: bool) -> None:
    """The words that followed from other fields in format 1."""
    status = "private" if holds else "void"
    if record["epsilon"] == "inf":
        status = "no privacy"
    expected = {
        "scope": "every graph",
        "status": status,
        "adjacency": unit.adjacency,
        "trust_model": TRUST_MODEL,
        "side_channels": list(SIDE_CHANNELS),
    }
    for name, words in expected.items():
        if record[name] != words:
            raise CertificateError(f"{name} must be {words!r}, got {record[name]!r}")


__all__ = ["from_format_1"]
