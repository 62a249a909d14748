"""What each mechanism writes into a certificate: figures from which its cost follows, who pays it, and where the theorem holds.

One function per mechanism makes the record from numbers. `rebuild` makes it again from the figures of a stored record, so a
verifier recomputes exactly what a plan computed. A record also says which assumptions it needs and which public parameters it
fixes; these follow from its figures and are not stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import Any

from caribou._validate import integer, member, non_negative, open_unit_interval, positive, unit_interval
from caribou.errors import CertificateError
from caribou.privacy.accounting import randomized_response_epsilon
from caribou.privacy.arithmetic import sum_arithmetic, vote_arithmetic
from caribou.privacy.assumptions import (
    LAYER_ASSUMPTIONS,
    Assumption,
    AssumptionName,
    Sampler,
    floating_point,
    initial_state,
)
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.calibration import (
    CalibratedCounts,
    CalibratedPropagation,
    CalibratedSums,
    CalibratedVotes,
    propagation_mu,
    sums_mu,
)
from caribou.privacy.events import (
    EpsilonDelta,
    Event,
    Gaussian,
    Laplace,
    NonPrivate,
    Parallel,
    SubsampledGaussian,
    choices,
    event_from_dict,
    event_to_dict,
)
from caribou.privacy.scope import Scope, ScopeKind
from caribou.privacy.selection import RandomTrials, selection_epsilon
from caribou.privacy.sensitivity import (
    LAYER_THEOREMS,
    Bounds,
    adjacency_gradient_edge_sensitivity,
    adjacency_gradient_node_sensitivity,
    confusion_sensitivity,
    convergence_factor,
    neighbourhood_gradient_sensitivity,
    recomputed_sensitivity,
    sum_sensitivity,
)


class Group(Enum):
    """Who pays: every protected unit, or the nodes of one part of the public split."""

    EVERY_EDGE = "every edge"
    EVERY_NODE = "every node"
    TRAINING = "training nodes"
    VALIDATION = "validation nodes"
    OTHERS = "test nodes and the rest"

    @classmethod
    def parse(cls, word: Any) -> Group:
        """The group by its word; everything else is an error."""
        return member(cls, word, "group", CertificateError)


PARTS = (Group.TRAINING, Group.VALIDATION, Group.OTHERS)
EDGES = (Group.EVERY_EDGE,)
NODES = (Group.EVERY_NODE,)


class Mechanism(Enum):
    """The mechanisms that a certificate can hold."""

    MESSAGE_PASSING = "perturbed message passing"
    NEIGHBOUR_SUMS = "noisy sums over neighbours"
    NOISY_DESCENT = "noisy gradient descent"
    NOISY_MEAN = "noisy mean"
    NEIGHBOUR_COUNTS = "noisy counts over neighbours"
    EDGE_VOTES = "votes at edge level"
    NODE_VOTES = "votes at node level"
    EDGE_COUNT = "noisy edge count"
    CONFUSION_MATRIX = "noisy confusion matrix"
    RANDOMIZED_RESPONSE = "randomized response on pairs"
    EXPONENTIAL = "exponential mechanism"
    PRIVATE_SELECTION = "private selection"
    OWN = "own mechanism"
    NO_RELEASE = "no release"
    NO_NOISE = "no noise"

    @classmethod
    def parse(cls, word: Any) -> Mechanism:
        """The mechanism by its word; everything else is an error."""
        return member(cls, word, "mechanism", CertificateError)


@dataclass(frozen=True)
class MechanismRecord:
    """One mechanism of a release.

    ``name``: what it is for, in words. ``details``: the figures. ``costs``: the events that each group pays, a node up to the
    declared degree. ``scope``, ``needs``, ``public``, ``reads_edges`` and ``by_degree`` follow from the figures: where the
    headline holds, the assumptions it needs, the public parameters that it fixes, whether it looks at edges, and what a node of
    any degree pays (None: the same for all).
    """

    mechanism: Mechanism
    name: str
    theorem: str
    details: Mapping[str, Any]
    costs: Mapping[Group, tuple[Event, ...]]
    scope: Scope = field(default_factory=Scope, compare=False)
    needs: tuple[Assumption, ...] = field(default=(), compare=False)
    public: Mapping[str, Any] = field(default_factory=dict, compare=False)
    reads_edges: bool = field(default=True, compare=False)
    by_degree: Callable[[int], Mapping[Group, tuple[Event, ...]]] | None = field(
        default=None, compare=False, repr=False
    )

    def costs_at(self, degree: int) -> Mapping[Group, tuple[Event, ...]]:
        """What each group pays for a node of this degree."""
        return self.costs if self.by_degree is None else self.by_degree(degree)

    @property
    def event(self) -> Event:
        """The one event of a mechanism that costs every payer the same; an error for any other."""
        different = {events for events in self.costs.values()}
        if len(different) != 1 or len(events := different.pop()) != 1:
            raise CertificateError(f"mechanism {self.name!r} must cost one event, got {len(different) + 1} or more")
        return events[0]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "mechanism": self.mechanism.value,
            "name": self.name,
            "theorem": self.theorem,
            "details": dict(self.details),
            "costs": {group.value: [event_to_dict(e) for e in events] for group, events in self.costs.items()},
        }

    @classmethod
    def from_dict(cls, record: Any) -> MechanismRecord:
        """The inverse of `to_dict`. What follows from the figures is left to `rebuild`."""
        if not isinstance(record, Mapping) or set(record) != {"mechanism", "name", "theorem", "details", "costs"}:
            raise CertificateError(f"mechanism must have mechanism, name, theorem, details and costs, got {record!r}")
        for key, kind in (("name", str), ("theorem", str), ("details", Mapping), ("costs", Mapping)):
            if not isinstance(record[key], kind):
                raise CertificateError(f"mechanism field {key!r} must be of another type, got {record[key]!r}")
        if not record["costs"] or not all(isinstance(e, list) and e for e in record["costs"].values()):
            raise CertificateError(
                f"mechanism {record['name']!r} must say who pays which events, got {record['costs']!r}"
            )
        costs = {Group.parse(g): tuple(map(_stated_event, events)) for g, events in record["costs"].items()}
        return cls(
            Mechanism.parse(record["mechanism"]), record["name"], record["theorem"], dict(record["details"]), costs
        )


def _stated_event(record: Any) -> Event:
    """The event of a stored record, which must state every field: nothing is filled in by a default."""
    event = event_from_dict(record)
    if _keys(record) != _keys(event_to_dict(event)):
        raise CertificateError(f"event must state each of its fields, got {record!r}")
    return event


def _keys(value: Any) -> Any:
    """The shape of a JSON value: its keys, and those of everything inside."""
    if isinstance(value, Mapping):
        return {key: _keys(inner) for key, inner in value.items()}
    return [_keys(inner) for inner in value] if isinstance(value, list) else None


def _each(groups: Sequence[Group], *events: Event) -> dict[Group, tuple[Event, ...]]:
    return dict.fromkeys(groups, tuple(events))


def _reach(bounds: Bounds) -> Scope:
    """Every node, or those up to the degree for which the noise was calibrated."""
    if bounds.nodes is not None and bounds.covered_degree >= bounds.largest_degree:
        return Scope()
    return Scope(ScopeKind.NODES_UP_TO_DEGREE, bounds.covered_degree)


def _of_the_cut(bounds: Bounds) -> tuple[Assumption, ...]:
    return (Assumption(AssumptionName.ORDER_OF_PAIRS),) if bounds.cuts else ()


def _public_bounds(bounds: Bounds) -> dict[str, Any]:
    return {"degree_cap": bounds.degree_cap, "declared_degree": bounds.declared_degree, "nodes": bounds.nodes}


def _without_floor(bounds: Bounds) -> Bounds:
    """Bounds of a mechanism that normalises nothing: its degree floor is the default, so that no figure is free."""
    if bounds.degree_floor != Bounds(degree_cap=bounds.degree_cap).degree_floor:
        raise CertificateError(f"degree_floor must be left out where nothing is normalised, got {bounds.degree_floor}")
    return bounds


def everyone(unit: PrivacyUnit) -> tuple[Group, ...]:
    """The group of all protected units."""
    return EDGES if unit is PrivacyUnit.EDGE else NODES


# -- message passing and sums -----------------------------------------------------------------------------------------


def message_passing_record(calibrated: CalibratedPropagation, groups: Sequence[Group] | None = None) -> MechanismRecord:
    """Perturbed message passing. ``groups``: who pays, all protected units unless a split is part of the release."""
    s = calibrated.sensitivity
    arithmetic = calibrated.arithmetic
    node = s.unit is PrivacyUnit.NODE
    payers = groups or everyone(s.unit)
    if s.layer not in LAYER_THEOREMS:
        return _of_own_layer(calibrated, payers)
    layer_inputs = (Assumption(LAYER_ASSUMPTIONS[s.layer]),) if s.layer in LAYER_ASSUMPTIONS else ()
    return MechanismRecord(
        Mechanism.MESSAGE_PASSING,
        Mechanism.MESSAGE_PASSING.value,
        f"{s.theorem}; the last of K states is mu-GDP (docs/privacy.md, Theorem 1)",
        calibrated.to_dict(),
        _each(payers, calibrated.event),
        scope=_reach(s.bounds) if node else Scope(),
        needs=(initial_state(s.unit), *layer_inputs, *(_of_the_cut(s.bounds) if node else ())),
        public={
            "hops": calibrated.hops,
            "layer": s.layer,
            **{key: value for key, value in s.parameters if key != "columns"},
            "degree_floor": s.bounds.degree_floor,
            "degree_cap": s.bounds.degree_cap,
            "declared_degree": s.bounds.declared_degree,
            "nodes": arithmetic.nodes,
            "columns": arithmetic.columns,
        },
        by_degree=(lambda degree: _each(payers, calibrated.event_at(degree))) if node else None,
    )


def _of_own_layer(calibrated: CalibratedPropagation, payers: Sequence[Group]) -> MechanismRecord:
    """Message passing of a layer that has no theorem here: its bound is declared, and a verifier can only repeat it."""
    s = calibrated.sensitivity
    bounds = {"degree_floor": s.bounds.degree_floor, "step_moves_by": s.value, "contraction": s.contraction}
    figures = {"layer": s.layer, "parameters": dict(s.parameters), **bounds, "hops": calibrated.hops}
    theorem = f"{s.theorem}; then the last of K states is mu-GDP (docs/privacy.md, Theorem 1). {initial_state(s.unit).statement}"
    name, details = f"{Mechanism.MESSAGE_PASSING.value}, layer {s.layer}", figures | {"noise_std": calibrated.noise_std}
    return own_record(name, theorem, s.unit, _each(payers, calibrated.event), details=details)


def _rebuilt_message_passing(d: Mapping[str, Any], groups: Sequence[Group]) -> MechanismRecord:
    s, a = d["sensitivity"], d["arithmetic"]
    if s["bounds"]["nodes"] != a["nodes"]:
        raise CertificateError(f"nodes must be the same in bounds and arithmetic, got {s['bounds']['nodes']!r}")
    theorem = recomputed_sensitivity(s)
    if dict(theorem.parameters).get("columns", a["columns"]) != a["columns"]:
        raise CertificateError(f"columns must be the same in layer and arithmetic, got {a['columns']!r}")
    kappa = convergence_factor(hops=d["hops"], contraction=theorem.contraction)
    arithmetic = theorem.arithmetic(nodes=a["nodes"], columns=a["columns"], storage=a["storage"])
    noise_std = _noise(d["noise_std"])
    mu = math.inf
    if noise_std > 0:
        error = arithmetic.error(noise_std)
        mu = propagation_mu(sensitivity=theorem.value, kappa=kappa, noise_std=noise_std, arithmetic_error=error)
    return message_passing_record(CalibratedPropagation(theorem, d["hops"], kappa, mu, noise_std, arithmetic), groups)


def sums_record(calibrated: CalibratedSums, groups: Sequence[Group] | None = None) -> MechanismRecord:
    """Noisy sums over neighbours, every hop released."""
    s = calibrated.sensitivity
    node = s.unit is PrivacyUnit.NODE
    payers = groups or everyone(s.unit)
    return MechanismRecord(
        Mechanism.NEIGHBOUR_SUMS,
        Mechanism.NEIGHBOUR_SUMS.value,
        s.theorem,
        calibrated.to_dict(),
        _each(payers, calibrated.event),
        scope=_reach(_without_floor(s.bounds)) if node else Scope(),
        needs=(initial_state(s.unit), *(_of_the_cut(s.bounds) if node else ())),
        public={
            "hops": calibrated.hops,
            "radius": s.radius,
            # at node level the public columns are those of the features
            **({} if node else {"columns": calibrated.arithmetic.columns}),
            **_public_bounds(s.bounds),
            "nodes": calibrated.arithmetic.nodes,
        },
        by_degree=(lambda degree: _each(payers, calibrated.event_at(degree))) if node else None,
    )


def _rebuilt_sums(d: Mapping[str, Any], groups: Sequence[Group]) -> MechanismRecord:
    s, a = d["sensitivity"], d["arithmetic"]
    bounds = Bounds(**s["bounds"])
    if PrivacyUnit.parse(s["unit"]) is PrivacyUnit.NODE and bounds.nodes != a["nodes"]:
        raise CertificateError(f"nodes must be the same in bounds and arithmetic, got {bounds.nodes!r}")
    theorem = sum_sensitivity(s["unit"], bounds=bounds, radius=s["radius"])
    arithmetic = sum_arithmetic(nodes=a["nodes"], columns=a["columns"], radius=theorem.radius)
    noise_std, mu = _noise(d["noise_std"]), math.inf
    if noise_std > 0:
        error = arithmetic.error(noise_std)
        mu = sums_mu(sensitivity=theorem.value, hops=d["hops"], noise_std=noise_std, arithmetic_error=error)
    return sums_record(CalibratedSums(theorem, d["hops"], mu, noise_std, arithmetic), groups)


# -- training and means -----------------------------------------------------------------------------------------------


class Examples(Enum):
    """What the examples of a descent are made of, which decides how far one unit moves a sum of clipped gradients."""

    OWN_ROWS = "own rows"
    ROWS_OF_A = "rows of A"
    NEIGHBOURHOODS = "neighbourhoods"


DESCENT_THEOREMS = {
    Examples.OWN_ROWS: (
        "gradients clipped one by one: one example moves each sum by at most the clip in L2; T steps are "
        "(sqrt(T) / multiplier)-GDP (Dong, Roth and Su 2022, Corollary 2)"
    ),
    Examples.ROWS_OF_A: (
        "an edge is in two examples of softmax(a_i W) and moves the sum of clipped gradients by at most 2.0425 clips "
        "(docs/privacy.md, Theorem 7), a node of degree d in those of its neighbours by 1 + 1.137 d clips (Theorem 8; with a cut "
        "to D, Theorem 9: min(d, D) + 2 d in place of d); T steps are (sqrt(T) / multiplier)-GDP"
    ),
    Examples.NEIGHBOURHOODS: (
        "clipped gradients of target nodes: a node of degree d moves each sum by at most 1 + d sqrt(2 - k) clips (with a cut to "
        "D, min(d, D) + 2 d in place of d); T steps are (sqrt(T) / multiplier)-GDP (docs/methods/sage.md, Theorem N1)"
    ),
}


def descent_sensitivity(
    examples: Examples,
    unit: PrivacyUnit,
    *,
    bounds: Bounds | None = None,
    own_share: float | None = None,
    message_scale: int | None = None,
    degree: int | None = None,
) -> tuple[float, float]:
    """By how many clips a unit moves a sum of gradients: one with an example of its own, and one without.

    ``degree``: of the node (None: the declared one).

    >>> descent_sensitivity(Examples.OWN_ROWS, PrivacyUnit.NODE)
    (1.0, 0.0)
    """
    plain = own_share is None and message_scale is None
    if examples is Examples.OWN_ROWS and unit is PrivacyUnit.NODE and bounds is None and plain:
        return 1.0, 0.0
    if examples is Examples.ROWS_OF_A and plain:
        if unit is PrivacyUnit.EDGE and bounds is None:
            value = adjacency_gradient_edge_sensitivity()
            return value, value
        if unit is PrivacyUnit.NODE and bounds is not None:
            value = adjacency_gradient_node_sensitivity(bounds=bounds, degree=degree)
            return value, value
    if examples is Examples.NEIGHBOURHOODS and unit is PrivacyUnit.NODE and bounds is not None and message_scale:
        share = float("nan") if own_share is None else own_share
        with_own, without = (
            neighbourhood_gradient_sensitivity(
                message_scale=message_scale, own_share=share, bounds=bounds, own_example=own, degree=degree
            )
            for own in (True, False)
        )
        return with_own, without
    raise CertificateError(
        f"examples must be bounded at {unit.value} level by what is declared, got {examples.value} with bounds = {bounds}, "
        f"own_share = {own_share} and message_scale = {message_scale}"
    )


def descent_record(
    name: str,
    *,
    unit: PrivacyUnit,
    steps: int,
    noise_multiplier: float,
    clip: float,
    examples: Examples = Examples.OWN_ROWS,
    bounds: Bounds | None = None,
    own_share: float | None = None,
    message_scale: int | None = None,
    schedule: Mapping[str, Any] | None = None,
) -> MechanismRecord:
    """Full-batch noisy gradient descent. ``noise_multiplier``: noise per step and per unit of sensitivity; 0 without noise.

    ``schedule``: further figures of the training, which do not enter the cost.
    """

    def moved(degree: int | None = None) -> tuple[float, float]:
        return descent_sensitivity(
            examples, unit, bounds=bounds, own_share=own_share, message_scale=message_scale, degree=degree
        )

    with_own, _ = moved()
    steps, clip = integer(at_least=1, steps=steps), positive(clip=clip)

    def event(sensitivity: float) -> Event:
        if noise_multiplier == 0:
            return NonPrivate()
        return Gaussian(noise_multiplier * (with_own / sensitivity), steps)

    def costs(degree: int | None = None) -> dict[Group, tuple[Event, ...]]:
        own, without = moved(degree)
        if unit is PrivacyUnit.EDGE:
            return _each(EDGES, event(own))
        paid = _each((Group.TRAINING,), event(own))
        return paid | _each((Group.VALIDATION, Group.OTHERS), event(without)) if without > 0 else paid

    return MechanismRecord(
        Mechanism.NOISY_DESCENT,
        name,
        DESCENT_THEOREMS[examples],
        {
            "unit": unit.value,
            "examples": examples.value,
            "bounds": None if bounds is None else asdict(bounds),
            "own_share": own_share,
            "message_scale": message_scale,
            "sensitivity_in_clips": with_own,
            "clip": clip,
            "steps": steps,
            "noise_multiplier": noise_multiplier,
            "noise_std": noise_multiplier * with_own * clip,
            "schedule": dict(schedule or {}),
        },
        costs(),
        scope=Scope() if bounds is None else _reach(_without_floor(bounds)),
        needs=(
            *(() if bounds is None else _of_the_cut(bounds)),
            *((Assumption(AssumptionName.RELEASED_WEIGHTS),) if examples is Examples.ROWS_OF_A else ()),
        ),
        public={} if bounds is None else _public_bounds(bounds),
        reads_edges=examples is not Examples.OWN_ROWS,
        by_degree=None if bounds is None else costs,
    )


def _rebuilt_descent(d: Mapping[str, Any], _: Sequence[Group]) -> MechanismRecord:
    unit, examples = PrivacyUnit.parse(d["unit"]), member(Examples, d["examples"], "examples", CertificateError)
    figures = {
        "examples": examples,
        "bounds": None if d["bounds"] is None else Bounds(**d["bounds"]),
        "own_share": d["own_share"],
        "message_scale": d["message_scale"],
    }
    with_own, _without = descent_sensitivity(unit=unit, **figures)
    multiplier = _noise(d["noise_std"]) / (with_own * positive(clip=d["clip"]))
    return descent_record(
        "",
        unit=unit,
        steps=d["steps"],
        noise_multiplier=multiplier,
        clip=d["clip"],
        **figures,
        schedule=d["schedule"],
    )


def mean_record(name: str, *, noise_std: float) -> MechanismRecord:
    """A noisy sum of the training rows, each of norm at most 1, divided by a public number."""
    event: Event = Gaussian(noise_std) if noise_std > 0 else NonPrivate()
    return MechanismRecord(
        Mechanism.NOISY_MEAN,
        name,
        "rows of norm at most 1: one row moves the sum by at most 1 in L2",
        {"sensitivity": 1.0, "noise_std": noise_std},
        _each((Group.TRAINING,), event),
        reads_edges=False,
    )


# -- counts and votes -------------------------------------------------------------------------------------------------


def counts_record(calibrated: CalibratedCounts) -> MechanismRecord:
    """Counts of classes over all neighbours of every node, every stage released."""
    return MechanismRecord(
        Mechanism.NEIGHBOUR_COUNTS,
        Mechanism.NEIGHBOUR_COUNTS.value,
        "an edge adds 1 to one count of either end: each stage moves by 2 in L1, and stages add up (docs/privacy.md, Theorem 12)",
        calibrated.to_dict(),
        _each(EDGES, calibrated.event),
        public={"stages": calibrated.stages},
    )


def _rebuilt_counts(d: Mapping[str, Any], _: Sequence[Group]) -> MechanismRecord:
    epsilon = math.inf if d["epsilon"] is None else positive(epsilon=d["epsilon"])
    return counts_record(CalibratedCounts(d["stages"], epsilon))


def edge_votes_record(*, epsilon: float, mu: float) -> MechanismRecord:
    """Counts of classes over neighbours, every pair asked once: pure epsilon, or mu-GDP with Gaussian noise."""
    event: Event = NonPrivate()
    noise, noise_std = "none", 0.0
    if math.isfinite(mu):
        event, noise, noise_std = Gaussian(1 / mu), "Gaussian on every released count", 1 / mu
    elif math.isfinite(epsilon):
        event, noise = EpsilonDelta(epsilon), "discrete Laplace on every released count"
    return MechanismRecord(
        Mechanism.EDGE_VOTES,
        "votes",
        "every pair is asked once (docs/privacy.md, Theorem 4): one edge adds 1 to one entry of the transcript",
        {"sensitivity": 1.0, "noise": noise, "epsilon": epsilon if isinstance(event, EpsilonDelta) else None}
        | {"noise_std": noise_std if isinstance(event, Gaussian) else None},
        _each(EDGES, event),
    )


def _rebuilt_edge_votes(d: Mapping[str, Any], _: Sequence[Group]) -> MechanismRecord:
    epsilon = math.inf if d["epsilon"] is None else positive(epsilon=d["epsilon"])
    mu = math.inf if d["noise_std"] is None else 1 / positive(noise_std=d["noise_std"])
    if math.isfinite(epsilon) and math.isfinite(mu):
        raise CertificateError("votes must have one kind of noise, got an epsilon and a standard deviation")
    return edge_votes_record(epsilon=epsilon, mu=mu)


def node_votes_record(votes: CalibratedVotes) -> MechanismRecord:
    """Votes of training nodes for their other neighbours, rows clipped, Gaussian noise on every entry.

    A training node moves the rows of its receivers; any other node its own row, and those that its senders give more when it is
    gone. What each pays depends on its degree.
    """

    def costs(degree: int | None = None) -> dict[Group, tuple[Event, ...]]:
        events = {
            Group.TRAINING: votes.sender_event(degree),
            Group.VALIDATION: votes.receiver_event(votes.validation_row_clip, degree),
            Group.OTHERS: votes.receiver_event(votes.row_clip, degree),
        }
        return {group: () if event is None else (event,) for group, event in events.items()}

    nodes = votes.arithmetic.nodes
    everybody = votes.declared_degree >= nodes - 1
    return MechanismRecord(
        Mechanism.NODE_VOTES,
        "votes",
        "a training node of degree d moves rows by at most sqrt(min(d, M)) in L2; any other node its own clipped row, and d rows "
        "that its senders give more to (docs/privacy.md, Theorem 9)",
        {
            "receivers_per_sender": votes.receivers_per_sender,
            "declared_degree": votes.declared_degree,
            "row_clip": votes.row_clip,
            "validation_row_clip": votes.validation_row_clip,
            "noise_std": votes.noise_std,
            "arithmetic": {
                "error": votes.arithmetic.error(votes.noise_std),
                "nodes": nodes,
                "columns": votes.arithmetic.columns,
            },
        },
        costs(),
        scope=Scope() if everybody else Scope(ScopeKind.NODES_UP_TO_DEGREE, votes.declared_degree),
        public={"declared_degree": votes.declared_degree, "nodes": nodes},
        by_degree=costs,
    )


def _rebuilt_node_votes(d: Mapping[str, Any], _: Sequence[Group]) -> MechanismRecord:
    receivers = d["receivers_per_sender"]
    if receivers is not None:
        receivers = integer(at_least=1, receivers_per_sender=receivers)
    declared, a = integer(at_least=1, declared_degree=d["declared_degree"]), d["arithmetic"]
    if max(d["row_clip"], d["validation_row_clip"]) > declared:
        raise CertificateError(f"row_clip must be at most declared_degree = {declared}, for which rounding is bounded")
    return node_votes_record(
        CalibratedVotes(
            receivers_per_sender=receivers,
            declared_degree=declared,
            row_clip=positive(row_clip=d["row_clip"]),
            validation_row_clip=positive(validation_row_clip=d["validation_row_clip"]),
            noise_std=_noise(d["noise_std"]),
            arithmetic=vote_arithmetic(
                nodes=a["nodes"], columns=a["columns"], radius=float(declared), fractions=receivers is not None
            ),
        )
    )


# -- perturbed graphs -------------------------------------------------------------------------------------------------


def edge_count_record(*, epsilon: float) -> MechanismRecord:
    """The number of edges with discrete Laplace noise."""
    return MechanismRecord(
        Mechanism.EDGE_COUNT,
        "edge count",
        "one undirected edge moves the edge count by 1; discrete Laplace noise; clamped to [0, n (n - 1) / 2]",
        {"sensitivity": 1.0, "epsilon": epsilon},
        _each(EDGES, EpsilonDelta(positive(epsilon=epsilon))),
    )


def confusion_record(*, epsilon: float, classes: int) -> MechanismRecord:
    """How many test nodes of each class were predicted as which, with discrete Laplace noise on every count.

    Test nodes pay. Training and validation nodes are not counted.
    """
    return MechanismRecord(
        Mechanism.CONFUSION_MATRIX,
        Mechanism.CONFUSION_MATRIX.value,
        "a test node is counted once: it moves one count by 1; discrete Laplace noise (docs/privacy.md, Theorem 14)",
        {
            "sensitivity": confusion_sensitivity(),
            "epsilon": positive(epsilon=epsilon),
            "classes": integer(at_least=2, classes=classes),
        },
        _each((Group.OTHERS,), EpsilonDelta(positive(epsilon=epsilon))),
        needs=(Assumption(AssumptionName.COUNTED_PREDICTIONS),),
        public={"classes": classes},
        reads_edges=False,
    )


RESPONSE_DETAILS = ("released_edge_count", "keep_one", "make_one", "epsilon_of_answers")
"""What randomized response adds to its record after the noisy count is drawn."""


def randomized_response_record(*, epsilon: float, after: Mapping[str, Any] | None = None) -> MechanismRecord:
    """Every pair answered once, at most ``epsilon``. ``after``: the probabilities that followed from the released count."""
    drawn = dict.fromkeys(RESPONSE_DETAILS) if after is None else dict(after)
    return MechanismRecord(
        Mechanism.RANDOMIZED_RESPONSE,
        "randomized response on pairs",
        "every unordered pair is answered once and by itself, so one undirected edge changes one answer: "
        "epsilon = max |log| of the likelihood ratios of its two values (docs/methods/sage.md, Theorem E)",
        {"epsilon": epsilon, **drawn},
        _each(EDGES, EpsilonDelta(positive(epsilon=epsilon))),
    )


def _rebuilt_response(d: Mapping[str, Any], _: Sequence[Group]) -> MechanismRecord:
    still_open = [key for key in RESPONSE_DETAILS if d[key] is None]
    if len(still_open) == len(RESPONSE_DETAILS):
        return randomized_response_record(epsilon=d["epsilon"])
    if still_open:
        raise CertificateError(f"randomized response must state {', '.join(still_open)}, got nothing")
    keep, make = unit_interval(keep_one=d["keep_one"]), unit_interval(make_one=d["make_one"])
    used = randomized_response_epsilon(keep_one=keep, make_one=make)
    if used > d["epsilon"] * (1 + 1e-9):
        raise CertificateError(f"probabilities must keep epsilon = {d['epsilon']:g}, got {used:g}")
    integer(at_least=0, released_edge_count=d["released_edge_count"])
    after = {key: d[key] for key in RESPONSE_DETAILS} | {"epsilon_of_answers": used}
    return randomized_response_record(epsilon=d["epsilon"], after=after)


# -- choices ----------------------------------------------------------------------------------------------------------


def exponential_record(name: str, *, epsilon: float, candidates: int | None) -> MechanismRecord:
    """A choice among candidates by their number of correct validation nodes. None: their number was not written down."""
    event: Event = EpsilonDelta(epsilon) if math.isfinite(epsilon) else NonPrivate()
    return MechanismRecord(
        Mechanism.EXPONENTIAL,
        name,
        "exponential mechanism: a validation node adds 0 or 1 to every candidate's count, all in one direction "
        "(McSherry and Talwar 2007, monotone scores)",
        {"epsilon": epsilon if math.isfinite(epsilon) else None, "candidates": candidates, "sensitivity": 1.0},
        _each((Group.VALIDATION,), event),
        reads_edges=False,
    )


def selection_record(
    unit: PrivacyUnit,
    trials: Sequence[Mapping[str, Any]],
    *,
    epsilon_of_a_trial: float,
    expected_trials: int,
    order: Sequence[int],
    random: RandomTrials | None,
    score_noise: float | None,
    delta: float,
) -> MechanismRecord:
    """The best of several trials. ``trials``: per setting its ``settings`` and its ``mechanisms`` as stored records.

    ``order``: the settings of a fixed number of trials, which compose. ``random``: the distribution of a hidden number of trials
    instead. ``score_noise``: scale of the Laplace noise on each trial's score, None where scores are public (edge level). The
    scope is the weakest, and the assumptions are those of all settings that could have been tried, whichever was chosen.
    """
    if (score_noise is None) != (unit is PrivacyUnit.EDGE):
        raise CertificateError(f"score_noise must be given at node level and only there, got {score_noise!r}")
    rebuilt = [_rebuilt_trial(trial, unit) for trial in trials]

    def cost(degree: int | None = None) -> tuple[tuple[Event, ...], str]:
        return _selection_cost(
            [composed(records, degree) for records in rebuilt],
            expected_trials=expected_trials,
            order=order,
            random=random,
            score_noise=score_noise,
            delta=delta,
        )

    paid, theorem = cost()
    every = [record for records in rebuilt for record in records]
    determined = [a for records in rebuilt for a in determined_assumptions(records, unit)]
    return MechanismRecord(
        Mechanism.PRIVATE_SELECTION,
        Mechanism.PRIVATE_SELECTION.value,
        theorem,
        {
            "unit": unit.value,
            "epsilon_of_a_trial": positive(epsilon_of_a_trial=epsilon_of_a_trial),
            "expected_trials": expected_trials,
            "order": list(order),
            "random": None if random is None else {"shape": random.shape, "stop": random.stop},
            "score_noise": score_noise,
            "delta": delta,
            "trials": [
                {"settings": dict(trial["settings"]), "mechanisms": [record.to_dict() for record in records]}
                for trial, records in zip(trials, rebuilt, strict=True)
            ],
        },
        _each(everyone(unit), *paid),
        scope=Scope.weakest(record.scope for record in every),
        # whether *no* edge is read, and how noise is sampled, are questions to all trials together
        needs=tuple({a.name: a for a in determined if a.name not in _OF_ALL_RECORDS}.values()),
        reads_edges=any(record.reads_edges for record in every),
        by_degree=(lambda degree: _each(everyone(unit), *cost(degree)[0]))
        if any(record.by_degree is not None for record in every)
        else None,
    )


def _rebuilt_trial(trial: Mapping[str, Any], unit: PrivacyUnit) -> tuple[MechanismRecord, ...]:
    """The mechanisms of one setting, made again from their figures."""
    if not isinstance(trial, Mapping) or set(trial) != {"settings", "mechanisms"} or not trial["mechanisms"]:
        raise CertificateError(f"trial must have settings and mechanisms, got {sorted(map(str, trial))}")
    records = tuple(rebuild(MechanismRecord.from_dict(record)) for record in trial["mechanisms"])
    for record in records:
        if unit not in unit_of(record):
            raise CertificateError(f"{record.name} of a trial must have a theorem at {unit.value} level, got none")
    problem = wrong_payers(records, unit)
    if problem is not None:
        raise CertificateError(f"trial must be paid by whom it touches: {problem}")
    return records


def _selection_cost(
    costs: Sequence[tuple[Event, ...]],
    *,
    expected_trials: int,
    order: Sequence[int],
    random: RandomTrials | None,
    score_noise: float | None,
    delta: float,
) -> tuple[tuple[Event, ...], str]:
    """What everybody pays for a search over trials of these costs, and by which theorem."""
    score: tuple[Event, ...] = () if score_noise is None else (Laplace(score_noise),)
    number = integer(at_least=1, expected_trials=expected_trials)
    if random is None:
        places = [integer(at_least=0, order=place) for place in order]
        if len(places) != number or max(places, default=len(costs)) >= len(costs):
            raise CertificateError(f"order must name a setting for each of {number} trials, got {list(order)!r}")
        paid = tuple(event for place in places for event in (*costs[place], *score))
        return paid, f"composition of {number} trials"
    if len(order) > 0:
        raise CertificateError(f"order must be empty where the number of trials is random, got {list(order)!r}")
    if abs(random.mean - number) > 1e-6 * number:
        raise CertificateError(f"expected_trials must be the mean {random.mean:g} of their number, got {number}")
    whole = [(*cost, *score) for cost in costs]
    return (EpsilonDelta(_selection_epsilon(tuple(whole), random, delta), delta),), (
        "best of a hidden random number of trials (Papernot and Steinke 2022, Theorem 2, "
        f"eta = {random.shape:g}, gamma = {random.stop:.6g})"
    )


@lru_cache(maxsize=256)
def _selection_epsilon(costs: tuple[tuple[Event, ...], ...], random: RandomTrials, delta: float) -> float:
    """Cached: at most degrees of a curve a trial costs the same, and a verifier asks again."""
    return selection_epsilon(costs, random, delta)


def _rebuilt_selection(d: Mapping[str, Any], _: Sequence[Group]) -> MechanismRecord:
    random = None
    if d["random"] is not None:
        if set(d["random"]) != {"shape", "stop"}:
            raise CertificateError(f"random must have shape and stop, got {d['random']!r}")
        random = RandomTrials(non_negative(shape=d["random"]["shape"]), d["random"]["stop"])
    return selection_record(
        PrivacyUnit.parse(d["unit"]),
        d["trials"],
        epsilon_of_a_trial=d["epsilon_of_a_trial"],
        expected_trials=d["expected_trials"],
        order=d["order"],
        random=random,
        score_noise=d["score_noise"],
        delta=open_unit_interval(delta=d["delta"]),
    )


# -- a user's own -------------------------------------------------------------------------------------------------------


def own_record(
    name: str,
    theorem: str,
    unit: PrivacyUnit,
    costs: Mapping[Group, Sequence[Event]],
    *,
    details: Mapping[str, Any] | None = None,
    reads_edges: bool = True,
    declared_degree: int | None = None,
) -> MechanismRecord:
    """A mechanism that this library does not know: its cost is declared with its theorem, and a verifier can only repeat it.

    ``declared_degree`` (node level): the costs are those of nodes up to this degree, and nothing is promised beyond it.
    """
    paid = {group: tuple(events) for group, events in costs.items()}
    figures = {**(details or {}), "unit": unit.value, "theorem": theorem, "reads_edges": reads_edges}
    scope, by_degree = Scope(), None
    if declared_degree is not None:
        if unit is not PrivacyUnit.NODE:
            raise CertificateError(f"declared_degree must be None at edge level, got {declared_degree!r}")
        limit = integer(at_least=1, declared_degree=declared_degree)
        figures["declared_degree"] = limit
        scope = Scope(ScopeKind.NODES_UP_TO_DEGREE, limit)

        def by_degree(degree: int) -> Mapping[Group, tuple[Event, ...]]:
            return paid if degree <= limit else _each(tuple(paid), NonPrivate())

    return MechanismRecord(
        Mechanism.OWN, name, theorem, figures, paid, scope=scope, reads_edges=reads_edges, by_degree=by_degree
    )


def own_mechanism(name: str, theorem: str, unit: PrivacyUnit | str, *events: Event) -> MechanismRecord:
    """A mechanism of your own that every protected unit pays for, with its theorem in words.

    Args:
        name: what it releases.
        theorem: why it costs what it costs: the sensitivity and the noise. A verifier can only repeat it.
        unit: "edge" or "node".
        events: what it costs, e.g. ``Laplace(noise_multiplier)`` or ``Gaussian(noise_multiplier)``.

    Returns:
        A record for a `ReleasePlan`.

    >>> own_mechanism("an edge count", "one edge moves it by 1", "edge", Laplace(2.0)).event
    Laplace(noise_multiplier=2.0, count=1)
    """
    parsed = PrivacyUnit.parse(unit)
    if not events:
        raise CertificateError(f"events must say what {name!r} costs, got none")
    return own_record(name, theorem, parsed, _each(everyone(parsed), *events))


# -- nothing ----------------------------------------------------------------------------------------------------------


def no_release_record(unit: PrivacyUnit, why: str) -> MechanismRecord:
    """A step that reads nothing protected."""
    return MechanismRecord(
        Mechanism.NO_RELEASE,
        Mechanism.NO_RELEASE.value,
        "nothing that is protected is read",
        {"unit": unit.value, "why": why},
        _each(everyone(unit), EpsilonDelta(0.0)),
        reads_edges=False,
    )


def no_noise_record(unit: PrivacyUnit, what: str) -> MechanismRecord:
    """A step that protects nothing."""
    return MechanismRecord(
        Mechanism.NO_NOISE,
        what,
        "none: no noise",
        {"unit": unit.value},
        _each(everyone(unit), NonPrivate()),
    )


# -- all of them ------------------------------------------------------------------------------------------------------

_Rebuild = Callable[[Mapping[str, Any], Sequence[Group]], MechanismRecord]
_REBUILDS: Mapping[Mechanism, _Rebuild] = {
    Mechanism.MESSAGE_PASSING: _rebuilt_message_passing,
    Mechanism.NEIGHBOUR_SUMS: _rebuilt_sums,
    Mechanism.NOISY_DESCENT: _rebuilt_descent,
    Mechanism.NOISY_MEAN: lambda d, _: mean_record("", noise_std=_noise(d["noise_std"])),
    Mechanism.NEIGHBOUR_COUNTS: _rebuilt_counts,
    Mechanism.EDGE_VOTES: _rebuilt_edge_votes,
    Mechanism.NODE_VOTES: _rebuilt_node_votes,
    Mechanism.EDGE_COUNT: lambda d, _: edge_count_record(epsilon=d["epsilon"]),
    Mechanism.CONFUSION_MATRIX: lambda d, _: confusion_record(epsilon=d["epsilon"], classes=d["classes"]),
    Mechanism.RANDOMIZED_RESPONSE: _rebuilt_response,
    Mechanism.EXPONENTIAL: lambda d, _: exponential_record(
        "",
        epsilon=math.inf if d["epsilon"] is None else positive(epsilon=d["epsilon"]),
        candidates=None if d["candidates"] is None else integer(at_least=1, candidates=d["candidates"]),
    ),
    Mechanism.PRIVATE_SELECTION: _rebuilt_selection,
    Mechanism.NO_RELEASE: lambda d, _: no_release_record(PrivacyUnit.parse(d["unit"]), _words(d["why"])),
    Mechanism.NO_NOISE: lambda d, _: no_noise_record(PrivacyUnit.parse(d["unit"]), ""),
}
UNITS: Mapping[Mechanism, tuple[PrivacyUnit, ...]] = {
    Mechanism.NOISY_MEAN: (PrivacyUnit.NODE,),
    Mechanism.NEIGHBOUR_COUNTS: (PrivacyUnit.EDGE,),
    Mechanism.EDGE_VOTES: (PrivacyUnit.EDGE,),
    Mechanism.NODE_VOTES: (PrivacyUnit.NODE,),
    Mechanism.EDGE_COUNT: (PrivacyUnit.EDGE,),
    Mechanism.CONFUSION_MATRIX: (PrivacyUnit.NODE,),
    Mechanism.RANDOMIZED_RESPONSE: (PrivacyUnit.EDGE,),
    Mechanism.EXPONENTIAL: (PrivacyUnit.NODE,),
}
"""The privacy units of mechanisms that do not state one in their figures."""


def rebuild(record: MechanismRecord) -> MechanismRecord:
    """The record that its own figures give, under the same name. Malformed figures are a `CaribouError`."""
    try:
        if record.mechanism is Mechanism.OWN:
            d = dict(record.details)
            unit, theorem, reads = PrivacyUnit.parse(d.pop("unit")), _words(d.pop("theorem")), d.pop("reads_edges")
            limit = d.pop("declared_degree", None)
            figures = {"details": d, "reads_edges": reads is True, "declared_degree": limit}
            return own_record(record.name, theorem, unit, record.costs, **figures)
        made = _REBUILDS[record.mechanism](record.details, tuple(record.costs))
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, ZeroDivisionError) as error:
        raise CertificateError(f"{record.name}: details are missing or malformed: {error!r}") from error
    return replace(made, name=record.name)


def unit_of(record: MechanismRecord) -> tuple[PrivacyUnit, ...]:
    """The privacy units at which the mechanism has a theorem, from its figures."""
    if record.mechanism in UNITS:
        return UNITS[record.mechanism]
    figures = record.details.get("sensitivity", record.details)
    return (PrivacyUnit.parse(figures["unit"] if isinstance(figures, Mapping) else record.details["unit"]),)


def determined_assumptions(records: Sequence[MechanismRecord], unit: PrivacyUnit) -> tuple[Assumption, ...]:
    """The assumptions that follow from the mechanisms and from how they are paid.

    Of those in `DETERMINED`, a certificate states these and no others.
    """
    found = [assumption for record in records for assumption in record.needs]
    found.append(floating_point(sampler for record in records for sampler in samplers_of(record)))
    if len(groups_of(records)) > 1:
        found.append(Assumption(AssumptionName.PARALLEL_COMPOSITION))
    if unit is PrivacyUnit.NODE:
        found.append(Assumption(AssumptionName.OWN_PREDICTIONS))
    if not any(record.reads_edges for record in records):
        found.append(Assumption(AssumptionName.NO_EDGE_READ))
    return tuple({assumption.name: assumption for assumption in found}.values())


def samplers_of(record: MechanismRecord) -> set[Sampler]:
    """How the noise of a mechanism is sampled, from its kind and its events."""
    if record.mechanism is Mechanism.PRIVATE_SELECTION:
        trials = [MechanismRecord.from_dict(m) for trial in record.details["trials"] for m in trial["mechanisms"]]
        found = {sampler for trial in trials for sampler in samplers_of(trial)}
        found |= set() if record.details["score_noise"] is None else {Sampler.LAPLACE}
        return found if record.details["random"] is None else found | {Sampler.BERNOULLI, Sampler.TRIAL_NUMBER}
    if record.mechanism is Mechanism.OWN:
        return {Sampler.OWN}
    events = {event for paid in record.costs.values() for event in paid}
    found = {sampler for event in events for sampler in _SAMPLERS_OF_EVENTS.get(type(event), ())}
    if any(isinstance(event, EpsilonDelta) for event in events):
        found |= _SAMPLERS_OF_PURE.get(record.mechanism, set())
    return found


_SAMPLERS_OF_EVENTS: Mapping[type, tuple[Sampler, ...]] = {
    Gaussian: (Sampler.GAUSSIAN,),
    SubsampledGaussian: (Sampler.GAUSSIAN, Sampler.BERNOULLI),
    Laplace: (Sampler.LAPLACE,),
}
_SAMPLERS_OF_PURE: Mapping[Mechanism, set[Sampler]] = {
    Mechanism.NEIGHBOUR_COUNTS: {Sampler.DISCRETE_LAPLACE},
    Mechanism.EDGE_VOTES: {Sampler.DISCRETE_LAPLACE},
    Mechanism.EDGE_COUNT: {Sampler.DISCRETE_LAPLACE},
    Mechanism.CONFUSION_MATRIX: {Sampler.DISCRETE_LAPLACE},
    Mechanism.RANDOMIZED_RESPONSE: {Sampler.BERNOULLI},
    Mechanism.EXPONENTIAL: {Sampler.EXPONENTIAL_CHOICE},
}
_OF_ALL_RECORDS = (AssumptionName.NO_EDGE_READ, AssumptionName.FLOATING_POINT)
DETERMINED = frozenset(
    (
        AssumptionName.FLOATING_POINT,
        AssumptionName.ORDER_OF_PAIRS,
        AssumptionName.NO_EDGE_READ,
        AssumptionName.INITIAL_STATE,
        AssumptionName.OWN_PREDICTIONS,
        AssumptionName.PUBLIC_ROWS,
        AssumptionName.PUBLIC_MATRIX,
        AssumptionName.PARALLEL_COMPOSITION,
        AssumptionName.RELEASED_WEIGHTS,
        AssumptionName.COUNTED_PREDICTIONS,
    )
)
"""Assumptions that a certificate states exactly if its mechanisms call for them."""


def wrong_payers(records: Sequence[MechanismRecord], unit: PrivacyUnit) -> str | None:
    """What is wrong with who pays, in words; None if nothing is.

    Either every protected unit pays everything, or (node level) each part of the split pays its own. What every node is in must
    be paid by every part. A step that reads nothing protected stands alone.
    """
    payers = set(groups_of(records))
    split = unit is PrivacyUnit.NODE and payers <= set(PARTS)
    if payers != set(everyone(unit)) and not split:
        return f"groups must be {everyone(unit)[0].value} or parts of the split, got {_listed(payers)}"
    for record in records:
        missing = set(PARTS) - set(record.costs)
        if split and missing and record.mechanism in _OF_EVERYBODY:
            return f"{record.name} must be paid by every part of the split, got nothing from {_listed(missing)}"
    if len(records) > 1 and any(record.mechanism is Mechanism.NO_RELEASE for record in records):
        return "no release must stand alone, got other mechanisms beside it"
    return None


_OF_EVERYBODY = (Mechanism.MESSAGE_PASSING, Mechanism.NEIGHBOUR_SUMS)
"""Mechanisms that every node is in, so that who pays is not a figure of their own."""


def _listed(groups: Iterable[Group]) -> str:
    return ", ".join(sorted(group.value for group in groups)) or "nobody"


DECLARED_FIELDS: Mapping[Mechanism, tuple[str, ...]] = {
    Mechanism.MESSAGE_PASSING: ("details.sensitivity.parameters",),
    Mechanism.NEIGHBOUR_SUMS: ("details.arithmetic.nodes", "details.arithmetic.columns"),
    Mechanism.NOISY_DESCENT: ("details.schedule",),
    Mechanism.NODE_VOTES: ("details.arithmetic.columns",),
    Mechanism.EXPONENTIAL: ("details.candidates",),
    Mechanism.PRIVATE_SELECTION: (
        "details.epsilon_of_a_trial",
        "details.order",
        "details.trials: order",
        "details.trials: complete",
    ),
    Mechanism.OWN: ("theorem", "details", "costs"),
    Mechanism.NO_RELEASE: ("details.why",),
}
"""Fields of a record that its cost does not follow from, by mechanism: a verifier can only repeat them. Those of a search's
trials come on top. Some are checked as far as they go: a number of a layer that enters the bound, nodes that are public."""


def groups_of(records: Sequence[MechanismRecord], degree: int | None = None) -> dict[Group, tuple[Event, ...]]:
    """The events of every group that pays anything, in the order of `Group`; those of a node of ``degree``, if one is given."""
    paid = [record.costs if degree is None else record.costs_at(degree) for record in records]
    payers = {group for costs in paid for group in costs}
    return {
        group: tuple(event for costs in paid for event in costs.get(group, ())) for group in Group if group in payers
    }


def composed(records: Sequence[MechanismRecord], degree: int | None = None) -> tuple[Event, ...]:
    """What to compose with other releases: the events, or all groups side by side where there are several.

    ``degree``: of the node that pays; None = up to the declared degree.
    """
    # the trials of a search may have groups of their own, so a group's events may hold further choices
    each = tuple(choice for events in groups_of(records, degree).values() for choice in choices(events))
    lists = choices([Parallel(each)])
    return lists[0] if len(lists) == 1 else (Parallel(tuple(lists)),)


def _noise(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise CertificateError(f"noise must be a finite number >= 0, got {value!r}")
    return float(value)


def _words(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise CertificateError(f"words must be given, got {value!r}")
    return value
