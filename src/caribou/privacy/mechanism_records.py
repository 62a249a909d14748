"""What each mechanism writes into a certificate: a frozen record of its inputs, from which everything else follows.

To make a record, to read one from a certificate and to verify one are the same: inputs go in, and figures, theorem, costs, scope
and assumptions come out. A document states them too, and `MechanismRecord.contradictions` says where it states anything else.

A further mechanism is one class: its fields are its inputs, and its ``__post_init__`` says what follows from them.

>>> record = MeanRecord(name="mean of the training rows", noise_std=3.0)
>>> record.costs
{<Group.TRAINING: 'training nodes'>: (Gaussian(noise_multiplier=3.0, count=1),)}
>>> MechanismRecord.from_dict(record.to_dict()) == record
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, ClassVar, Self

from caribou._validate import integer, member
from caribou.errors import CertificateError
from caribou.privacy.accounting import epsilon_of, randomized_response_epsilon
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
)
from caribou.privacy.documents import (
    Count,
    Delta,
    Epsilon,
    Natural,
    NonNegative,
    Positive,
    Probability,
    Words,
    close,
    differences,
    read_fields,
    schema_of,
    schema_of_fields,
    stated_fields,
    write,
)
from caribou.privacy.events import (
    EpsilonDelta,
    Event,
    Gaussian,
    Laplace,
    NonPrivate,
    Parallel,
    choices,
)
from caribou.privacy.pair_response import asymmetric_response, laplace_threshold_response
from caribou.privacy.scope import Scope, ScopeKind
from caribou.privacy.selection import RandomTrials, selection_epsilon, selection_theorem
from caribou.privacy.sensitivity import (
    LAYER_THEOREMS,
    Bounds,
    adjacency_gradient_edge_sensitivity,
    adjacency_gradient_node_sensitivity,
    confusion_sensitivity,
    neighbour_count_sensitivity,
    neighbourhood_gradient_sensitivity,
)

Costs = Mapping["Group", tuple[Event, ...]]
"""The events that each group pays."""


class Group(Enum):
    """Who pays: every protected unit, or the nodes of one part of the public split."""

    EVERY_EDGE = "every edge"
    EVERY_NODE = "every node"
    TRAINING = "training nodes"
    VALIDATION = "validation nodes"
    OTHERS = "test nodes and the rest"


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


EVERY_GRAPH = Scope()
CALIBRATED = "calibrated"
"""The field that holds the calibrated record which the mechanism takes, where there is one."""
UNSTATED = {"stated": False}
_SAMPLERS: Mapping[type, Sampler] = {Gaussian: Sampler.GAUSSIAN, Laplace: Sampler.LAPLACE}
"""How the noise of an event is sampled, where its kind says so."""


@dataclass(frozen=True, kw_only=True)
class MechanismRecord:
    """One mechanism of a release. Subclasses hold their inputs as fields; the rest follows from them, see `_follow`.

    Args:
        name: what it is for, in words.
        contradictions: where the document that this record was read from states something else than follows from its inputs.

    What follows: ``theorem``, why it costs what it costs. ``costs``, the events that each group pays, a node up to the
    declared degree; `costs_at` for any other, where ``by_degree``. ``figures``, what a document states besides the inputs.
    ``scope``, where the costs hold. ``needs``, the assumptions of the theorem. ``public``, the public parameters that it fixes.
    ``reads_edges``, whether it looks at an edge. ``samplers``, how its noise is sampled. ``declared``, paths of fields that the
    cost does not follow from: a verifier can only repeat them.
    """

    mechanism: ClassVar[Mechanism]
    drawn: ClassVar[tuple[str, ...]] = ()
    """Fields that exist only after a draw; a plan leaves them open."""
    everybody: ClassVar[bool] = False
    """Whether every node is in it, so that who pays is not a figure of its own."""

    name: Words
    contradictions: tuple[str, ...] = field(default=(), compare=False, repr=False, metadata=UNSTATED)
    theorem: str = field(init=False, compare=False, repr=False, metadata=UNSTATED)
    costs: Costs = field(init=False, compare=False, repr=False, metadata=UNSTATED)
    by_degree: bool = field(init=False, compare=False, repr=False, metadata=UNSTATED)
    figures: Mapping[str, Any] = field(init=False, compare=False, repr=False, metadata=UNSTATED)
    scope: Scope = field(init=False, compare=False, repr=False, metadata=UNSTATED)
    needs: tuple[Assumption, ...] = field(init=False, compare=False, repr=False, metadata=UNSTATED)
    public: Mapping[str, Any] = field(init=False, compare=False, repr=False, metadata=UNSTATED)
    reads_edges: bool = field(init=False, compare=False, repr=False, metadata=UNSTATED)
    samplers: frozenset[Sampler] = field(init=False, compare=False, repr=False, metadata=UNSTATED)
    declared: tuple[str, ...] = field(init=False, compare=False, repr=False, metadata=UNSTATED)
    _costs_of: Callable[[int | None], Costs] = field(init=False, compare=False, repr=False, metadata=UNSTATED)

    def _follow(
        self,
        theorem: str,
        costs: Callable[[int | None], Costs],
        *,
        by_degree: bool = False,
        figures: Mapping[str, Any] = MappingProxyType({}),
        scope: Scope = EVERY_GRAPH,
        needs: Sequence[Assumption] = (),
        public: Mapping[str, Any] = MappingProxyType({}),
        reads_edges: bool = True,
        pure: Sampler | None = None,
        samplers: Iterable[Sampler] | None = None,
        declared: Sequence[str] = (),
    ) -> None:
        """What follows from the inputs, to be called by ``__post_init__``.

        ``costs``: of a node of a degree; None: of the declared one. ``pure``: how the noise of a pure event is sampled.
        ``samplers``: all of them, where the events do not say.
        """
        paid = costs(None)
        events = {type(event) for each in paid.values() for event in each}
        drawn = {_SAMPLERS[kind] for kind in events if kind in _SAMPLERS}
        drawn |= {pure} if pure is not None and EpsilonDelta in events else set()
        found = {
            "theorem": theorem,
            "costs": paid,
            "by_degree": by_degree,
            "figures": figures,
            "scope": scope,
            "needs": tuple(needs),
            "public": public,
            "reads_edges": reads_edges,
            "samplers": frozenset(drawn if samplers is None else samplers),
            "declared": tuple(declared),
            "_costs_of": costs,
        }
        for key, value in found.items():
            object.__setattr__(self, key, value)

    def costs_at(self, degree: int) -> Costs:
        """What each group pays for a node of this degree."""
        return self._costs_of(degree) if self.by_degree else self.costs

    @property
    def level(self) -> PrivacyUnit:
        """The privacy unit at which it has a theorem: that of who pays."""
        return PrivacyUnit.EDGE if Group.EVERY_EDGE in self.costs else PrivacyUnit.NODE

    @property
    def event(self) -> Event:
        """The one event of a mechanism that costs every payer the same; an error for any other."""
        different = {events for events in self.costs.values()}
        if len(different) != 1 or len(events := different.pop()) != 1:
            raise CertificateError(f"mechanism {self.name!r} must cost one event, got {len(different) + 1} or more")
        return events[0]

    def disagreement(self, public: Mapping[str, Any], delta: float) -> str | None:
        """What contradicts the public parameters or the delta of a claim besides ``public``, in words; None if nothing does."""
        return None

    # -- as a document ------------------------------------------------------------------------------------------------

    @classmethod
    def inputs(cls) -> dict[str, Any]:
        """The fields that stand among the details, with their types; those of a calibrated record stand there one by one."""
        outside = ("name", "payers", CALIBRATED)
        fields = {key: kind for key, kind in stated_fields(cls).items() if key not in outside}
        return fields | (stated_fields(calibrated) if (calibrated := stated_fields(cls).get(CALIBRATED)) else {})

    @property
    def details(self) -> dict[str, Any]:
        """Inputs and figures as plain JSON values."""
        source = getattr(self, CALIBRATED, self)
        return {key: write(getattr(source, key)) for key in self.inputs()} | write(self.figures)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "mechanism": self.mechanism.value,
            "name": self.name,
            "theorem": self.theorem,
            "details": self.details,
            "costs": write(self.costs),
        }

    @classmethod
    def from_dict(cls, record: Any) -> MechanismRecord:
        """The record that the inputs of a document give. Whatever else it states is compared, see ``contradictions``."""
        if not isinstance(record, Mapping) or set(record) != {"mechanism", "name", "theorem", "details", "costs"}:
            raise CertificateError(f"mechanism must have mechanism, name, theorem, details and costs, got {record!r}")
        kind = RECORDS[member(Mechanism, record["mechanism"], "mechanism", CertificateError)]
        try:
            made = kind._read(record)
            return replace(made, contradictions=tuple(differences(record, made.to_dict())))
        except (TypeError, AttributeError, KeyError, ValueError, OverflowError, ZeroDivisionError) as error:
            raise CertificateError(f"{record['name']}: details are malformed: {error}") from error

    @classmethod
    def _read(cls, record: Mapping[str, Any]) -> Self:
        outside = {"name": record["name"], "payers": list(record["costs"])}
        inputs = {key: record["details"][key] for key in cls.inputs()}
        stated = {**outside, CALIBRATED: inputs, **inputs}
        return cls(**read_fields(cls, {key: stated[key] for key in stated_fields(cls)}, ""))

    def __reduce__(self) -> tuple[Any, ...]:
        # a record holds functions of the degree, which no pickle takes
        return MechanismRecord.from_dict, (self.to_dict(),)

    def filled(self, values: Mapping[str, Any]) -> MechanismRecord:
        """The record with figures that exist only after a draw, in the place of those that it left open (None)."""
        fixed = [key for key in values if self.details.get(key, 0) is not None]
        if fixed:
            raise CertificateError(f"details must be open in {self.name!r}, got {', '.join(fixed)}")
        made = replace(self, **{key: value for key, value in values.items() if key in self.inputs()})
        wrong = differences(values, {key: made.details[key] for key in values})
        if wrong:
            raise CertificateError(f"details must be those of {self.name!r}, got {'; '.join(wrong)}")
        return made

    @classmethod
    def schema(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """The JSON Schema of this kind; of all kinds, for the class itself. Figures are numbers or words: they are recomputed."""
        if cls is MechanismRecord:
            return {"anyOf": [schema_of(kind, parts) for kind in RECORDS.values()]}
        details = schema_of_fields({key: schema_of(kind, parts) for key, kind in cls.inputs().items()})
        return schema_of_fields(
            {
                "mechanism": {"const": cls.mechanism.value},
                "name": schema_of(Words, parts),
                "theorem": schema_of(Words, parts),
                "details": details | {"additionalProperties": {"type": ["number", "string", "null"]}},
                "costs": schema_of(Mapping[Group, tuple[Event, ...]], parts),
            }
        )


def _each(groups: Sequence[Group], *events: Event) -> Costs:
    return dict.fromkeys(groups, tuple(events))


def everyone(unit: PrivacyUnit) -> tuple[Group, ...]:
    """The group of all protected units."""
    return EDGES if unit is PrivacyUnit.EDGE else NODES


def _reach(bounds: Bounds) -> Scope:
    """Every node, or those up to the degree for which the noise was calibrated."""
    if bounds.nodes is not None and bounds.covered_degree >= bounds.largest_degree:
        return Scope()
    return Scope(ScopeKind.NODES_UP_TO_DEGREE, bounds.covered_degree)


def _of_the_cut(bounds: Bounds) -> tuple[Assumption, ...]:
    return (Assumption(AssumptionName.ORDER_OF_PAIRS),) if bounds.cuts else ()


def _public_bounds(bounds: Bounds) -> dict[str, Any]:
    return {"degree_cap": bounds.degree_cap, "declared_degree": bounds.declared_degree, "nodes": bounds.nodes}


def _require_no_floor(bounds: Bounds) -> None:
    """Bounds of a mechanism that normalises nothing: its degree floor is the default, so that no figure is free."""
    if bounds.degree_floor != Bounds(degree_cap=bounds.degree_cap).degree_floor:
        raise CertificateError(f"degree_floor must be left out where nothing is normalised, got {bounds.degree_floor}")


def _require_nodes(bounds: Bounds, nodes: int) -> None:
    """A bound for graphs of another size would be a bound of something else."""
    if bounds.nodes != nodes:
        raise CertificateError(f"nodes must be the same in bounds and state, {nodes}, got {bounds.nodes}")


def _payers(payers: tuple[Group, ...], unit: PrivacyUnit) -> tuple[Group, ...]:
    """Everybody at the unit, which is what none means, or parts of the split at node level."""
    of_a_split = unit is PrivacyUnit.NODE and set(payers) <= set(PARTS)
    if payers and payers != everyone(unit) and not of_a_split:
        raise CertificateError(f"groups must be {everyone(unit)[0].value} or parts of the split, got {_listed(payers)}")
    return payers or everyone(unit)


# -- message passing and sums -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MessagePassingRecord(MechanismRecord):
    """Perturbed message passing. ``payers``: all protected units unless a split is part of the release."""

    mechanism = Mechanism.MESSAGE_PASSING
    everybody = True

    name: Words = Mechanism.MESSAGE_PASSING.value
    calibrated: CalibratedPropagation
    payers: tuple[Group, ...] = ()

    def __post_init__(self) -> None:
        c = self.calibrated.recomputed()
        s = c.sensitivity
        _require_nodes(s.bounds, c.arithmetic.nodes)
        parameters = dict(s.parameters)
        if parameters.pop("columns", c.arithmetic.columns) != c.arithmetic.columns:
            raise CertificateError(f"columns must be the same in layer and state, got {c.arithmetic.columns}")
        _follow_rounds(
            self,
            c,
            f"{s.theorem}; the last of K states is mu-GDP (docs/privacy.md, Theorem 1)",
            figures={"noise_multiplier": c.noise_multiplier},
            needs=(Assumption(LAYER_ASSUMPTIONS[s.layer]),) if s.layer in LAYER_ASSUMPTIONS else (),
            public={
                "layer": s.layer,
                **parameters,
                "degree_floor": s.bounds.degree_floor,
                "columns": c.arithmetic.columns,
            },
            declared=("details.sensitivity.parameters",),
        )


@dataclass(frozen=True, kw_only=True)
class SumsRecord(MechanismRecord):
    """Noisy sums over neighbours, every hop released. ``payers``: as in message passing."""

    mechanism = Mechanism.NEIGHBOUR_SUMS
    everybody = True

    name: Words = Mechanism.NEIGHBOUR_SUMS.value
    calibrated: CalibratedSums
    payers: tuple[Group, ...] = ()

    def __post_init__(self) -> None:
        c = self.calibrated.recomputed()
        s, node = c.sensitivity, c.sensitivity.unit is PrivacyUnit.NODE
        if node:
            _require_no_floor(s.bounds)
            _require_nodes(s.bounds, c.arithmetic.nodes)
        # at node level the public columns are those of the features
        columns = {} if node else {"columns": c.arithmetic.columns}
        declared = ("details.arithmetic.nodes", "details.arithmetic.columns")
        _follow_rounds(self, c, s.theorem, public={"radius": s.radius, **columns}, declared=declared)


def _follow_rounds(
    record: MessagePassingRecord | SumsRecord,
    calibrated: CalibratedPropagation | CalibratedSums,
    theorem: str,
    *,
    public: Mapping[str, Any],
    declared: Sequence[str],
    figures: Mapping[str, Any] = MappingProxyType({}),
    needs: Sequence[Assumption] = (),
) -> None:
    """What follows for every mechanism that reads all neighbours in rounds; at node level a node pays for its own degree."""
    bounds, unit, error = calibrated.sensitivity.bounds, calibrated.sensitivity.unit, calibrated.arithmetic.error
    node, payers = unit is PrivacyUnit.NODE, _payers(record.payers, unit)
    object.__setattr__(record, "calibrated", calibrated)
    object.__setattr__(record, "payers", payers)
    record._follow(
        theorem,
        lambda degree: _each(payers, calibrated.event if degree is None else calibrated.event_at(degree)),
        by_degree=node,
        figures={**figures, "error": error(calibrated.noise_std)},
        scope=_reach(bounds) if node else EVERY_GRAPH,
        needs=(initial_state(unit), *needs, *(_of_the_cut(bounds) if node else ())),
        public={"hops": calibrated.hops, **public, **_public_bounds(bounds), "nodes": calibrated.arithmetic.nodes},
        declared=declared,
    )


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


@dataclass(frozen=True, kw_only=True)
class DescentRecord(MechanismRecord):
    """Full-batch noisy gradient descent. ``noise_multiplier``: noise per step and per unit of sensitivity; 0 without noise.

    ``schedule``: further figures of the training, which do not enter the cost.
    """

    mechanism = Mechanism.NOISY_DESCENT

    unit: PrivacyUnit
    examples: Examples = Examples.OWN_ROWS
    bounds: Bounds | None = None
    own_share: Positive | None = None
    message_scale: Count | None = None
    clip: Positive
    steps: Count
    noise_multiplier: NonNegative
    schedule: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        moved = partial(
            descent_sensitivity,
            self.examples,
            self.unit,
            bounds=self.bounds,
            own_share=self.own_share,
            message_scale=self.message_scale,
        )
        with_own, _ = moved()
        if self.bounds is not None:
            _require_no_floor(self.bounds)

        def event(sensitivity: float) -> Event:
            if self.noise_multiplier == 0:
                return NonPrivate()
            return Gaussian(self.noise_multiplier * (with_own / sensitivity), self.steps)

        def costs(degree: int | None) -> Costs:
            own, without = moved(degree=degree)
            if self.unit is PrivacyUnit.EDGE:
                return _each(EDGES, event(own))
            others = (Group.VALIDATION, Group.OTHERS) if without > 0 else ()
            return {Group.TRAINING: (event(own),), **{group: (event(without),) for group in others}}

        weights = (Assumption(AssumptionName.RELEASED_WEIGHTS),) if self.examples is Examples.ROWS_OF_A else ()
        self._follow(
            DESCENT_THEOREMS[self.examples],
            costs,
            by_degree=self.bounds is not None,
            figures={"sensitivity_in_clips": with_own, "noise_std": self.noise_multiplier * with_own * self.clip},
            scope=EVERY_GRAPH if self.bounds is None else _reach(self.bounds),
            needs=(*(() if self.bounds is None else _of_the_cut(self.bounds)), *weights),
            public={} if self.bounds is None else _public_bounds(self.bounds),
            reads_edges=self.examples is not Examples.OWN_ROWS,
            declared=("details.schedule",),
        )


@dataclass(frozen=True, kw_only=True)
class MeanRecord(MechanismRecord):
    """A noisy sum of the training rows, each of norm at most 1, divided by a public number."""

    mechanism = Mechanism.NOISY_MEAN

    noise_std: NonNegative

    def __post_init__(self) -> None:
        event = Gaussian(self.noise_std) if self.noise_std > 0 else NonPrivate()
        self._follow(
            "rows of norm at most 1: one row moves the sum by at most 1 in L2",
            lambda _: _each((Group.TRAINING,), event),
            figures={"sensitivity": 1.0},
            reads_edges=False,
        )


# -- counts and votes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CountsRecord(MechanismRecord):
    """Counts of classes over all neighbours of every node, every stage released."""

    mechanism = Mechanism.NEIGHBOUR_COUNTS

    name: Words = Mechanism.NEIGHBOUR_COUNTS.value
    calibrated: CalibratedCounts

    def __post_init__(self) -> None:
        c = self.calibrated
        self._follow(
            "an edge adds 1 to one count of either end: each stage moves by 2 in L1, and stages add up "
            "(docs/privacy.md, Theorem 12)",
            lambda _: _each(EDGES, c.event),
            figures={"sensitivity": neighbour_count_sensitivity(), "noise_epsilon": c.noise_epsilon},
            public={"stages": c.stages},
            pure=Sampler.DISCRETE_LAPLACE,
        )


@dataclass(frozen=True, kw_only=True)
class EdgeVotesRecord(MechanismRecord):
    """Counts of classes over neighbours, every pair asked once: ``mu``-GDP with Gaussian noise, or else ``epsilon``-DP.

    Infinity for what they are not; without noise they are neither.
    """

    mechanism = Mechanism.EDGE_VOTES

    name: Words = "votes"
    epsilon: Epsilon
    mu: Epsilon

    def __post_init__(self) -> None:
        event: Event = NonPrivate()
        if math.isfinite(self.mu):
            object.__setattr__(self, "epsilon", math.inf)
            event = Gaussian(1 / self.mu)
        elif math.isfinite(self.epsilon):
            event = EpsilonDelta(self.epsilon)
        noise = {Gaussian: "Gaussian on every released count", EpsilonDelta: "discrete Laplace on every released count"}
        self._follow(
            "every pair is asked once (docs/privacy.md, Theorem 4): one edge adds 1 to one entry of the transcript",
            lambda _: _each(EDGES, event),
            figures={"sensitivity": 1.0, "noise": noise.get(type(event), "none")},
            pure=Sampler.DISCRETE_LAPLACE,
        )


@dataclass(frozen=True, kw_only=True)
class NodeVotesRecord(MechanismRecord):
    """Votes of training nodes for their other neighbours, rows clipped, Gaussian noise on every entry.

    A training node moves the rows of its receivers; any other node its own row, and those that its senders give more when it is
    gone. What each pays depends on its degree.
    """

    mechanism = Mechanism.NODE_VOTES

    name: Words = "votes"
    calibrated: CalibratedVotes

    def __post_init__(self) -> None:
        votes = self.calibrated.recomputed()

        def costs(degree: int | None) -> Costs:
            events = {
                Group.TRAINING: votes.sender_event(degree),
                Group.VALIDATION: votes.receiver_event(votes.validation_row_clip, degree),
                Group.OTHERS: votes.receiver_event(votes.row_clip, degree),
            }
            return {group: () if event is None else (event,) for group, event in events.items()}

        nodes, declared = votes.arithmetic.nodes, votes.declared_degree
        object.__setattr__(self, "calibrated", votes)
        self._follow(
            "a training node of degree d moves rows by at most sqrt(min(d, M)) in L2; any other node its own clipped row, and d "
            "rows that its senders give more to (docs/privacy.md, Theorem 9)",
            costs,
            by_degree=True,
            figures={"error": votes.arithmetic.error(votes.noise_std)},
            scope=EVERY_GRAPH if declared >= nodes - 1 else Scope(ScopeKind.NODES_UP_TO_DEGREE, declared),
            public={"nodes": nodes},
            declared=("details.arithmetic.columns",),
        )

    def disagreement(self, public: Mapping[str, Any], delta: float) -> str | None:
        """The declared degree is that of the public parameters, or the largest that there can be."""
        declared, largest = self.calibrated.declared_degree, max(1, self.calibrated.arithmetic.nodes - 1)
        stated = integer(at_least=1, declared_degree=public.get("declared_degree", declared))
        return None if min(stated, largest) == declared else f"declared_degree must be {declared}, got {stated}"


# -- counts of everything, and perturbed graphs -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class EdgeCountRecord(MechanismRecord):
    """The number of edges with discrete Laplace noise."""

    mechanism = Mechanism.EDGE_COUNT

    name: Words = "edge count"
    epsilon: Positive

    def __post_init__(self) -> None:
        self._follow(
            "one undirected edge moves the edge count by 1; discrete Laplace noise; clamped to [0, n (n - 1) / 2]",
            lambda _: _each(EDGES, EpsilonDelta(self.epsilon)),
            figures={"sensitivity": 1.0},
            pure=Sampler.DISCRETE_LAPLACE,
        )


@dataclass(frozen=True, kw_only=True)
class ConfusionRecord(MechanismRecord):
    """How many test nodes of each class were predicted as which, with discrete Laplace noise on every count.

    Test nodes pay. Training and validation nodes are not counted.
    """

    mechanism = Mechanism.CONFUSION_MATRIX

    name: Words = Mechanism.CONFUSION_MATRIX.value
    epsilon: Positive
    classes: Count

    def __post_init__(self) -> None:
        integer(at_least=2, classes=self.classes)
        self._follow(
            "a test node is counted once: it moves one count by 1; discrete Laplace noise (docs/privacy.md, Theorem 14)",
            lambda _: _each((Group.OTHERS,), EpsilonDelta(self.epsilon)),
            figures={"sensitivity": confusion_sensitivity()},
            needs=(Assumption(AssumptionName.COUNTED_PREDICTIONS),),
            public={"classes": self.classes},
            reads_edges=False,
            pure=Sampler.DISCRETE_LAPLACE,
        )


@dataclass(frozen=True, kw_only=True)
class ResponseRecord(MechanismRecord):
    """Every pair answered once, at most ``epsilon``. The other figures follow from the released count: None before the draw."""

    mechanism = Mechanism.RANDOMIZED_RESPONSE
    drawn = ("released_edge_count", "keep_one", "make_one")

    name: Words = "randomized response on pairs"
    epsilon: Positive
    released_edge_count: Natural | None = None
    keep_one: Probability | None = None
    make_one: Probability | None = None

    def __post_init__(self) -> None:
        used = None
        if self.keep_one is not None and self.make_one is not None:
            used = randomized_response_epsilon(keep_one=self.keep_one, make_one=self.make_one)
            if used > self.epsilon * (1 + 1e-9):
                raise CertificateError(f"probabilities must keep epsilon = {self.epsilon:g}, got {used:g}")
        self._follow(
            "every unordered pair is answered once and by itself, so one undirected edge changes one answer: "
            "epsilon = max |log| of the likelihood ratios of its two values (docs/methods/sage.md, Theorem E)",
            lambda _: _each(EDGES, EpsilonDelta(self.epsilon)),
            figures={"epsilon_of_answers": used},
            pure=Sampler.BERNOULLI,
        )

    def disagreement(self, public: Mapping[str, Any], delta: float) -> str | None:
        """The probabilities must be those that one of the two rules gives for the released count and the public size."""
        if self.released_edge_count is None or self.keep_one is None or self.make_one is None:
            return "must state the released count and the probabilities after the draw, got nothing"
        nodes = integer(at_least=1, nodes=public.get("nodes"))
        for rule in (asymmetric_response, laplace_threshold_response):
            made = rule(epsilon=self.epsilon, edges=self.released_edge_count, nodes=nodes)
            if close(self.keep_one, made.keep_one, 1e-9) and close(self.make_one, made.make_one, 1e-9):
                return None
        return f"no rule gives these probabilities for {self.released_edge_count} edges among {nodes} nodes"


# -- choices ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ChoiceRecord(MechanismRecord):
    """A choice among candidates by their number of correct validation nodes. None: their number was not written down."""

    mechanism = Mechanism.EXPONENTIAL

    epsilon: Epsilon
    candidates: Count | None

    def __post_init__(self) -> None:
        event = EpsilonDelta(self.epsilon) if math.isfinite(self.epsilon) else NonPrivate()
        self._follow(
            "exponential mechanism: a validation node adds 0 or 1 to every candidate's count, all in one direction "
            "(McSherry and Talwar 2007, monotone scores)",
            lambda _: _each((Group.VALIDATION,), event),
            figures={"sensitivity": 1.0},
            reads_edges=False,
            pure=Sampler.EXPONENTIAL_CHOICE,
            declared=("details.candidates",),
        )


@dataclass(frozen=True)
class Trial:
    """One setting of a search, and the mechanisms that it would run."""

    settings: Mapping[str, Any]
    mechanisms: tuple[MechanismRecord, ...]


@dataclass(frozen=True, kw_only=True)
class SelectionRecord(MechanismRecord):
    """The best of several ``trials``, one per setting.

    ``order``: the settings of a fixed number of trials, which compose. ``random``: the distribution of a hidden number of trials
    instead. ``score_noise``: scale of the Laplace noise on each trial's score, None where scores are public (edge level). The
    scope is the weakest, and the assumptions are those of all settings that could have been tried, whichever was chosen.
    """

    mechanism = Mechanism.PRIVATE_SELECTION

    name: Words = Mechanism.PRIVATE_SELECTION.value
    unit: PrivacyUnit
    epsilon_of_a_trial: Positive
    expected_trials: Count
    order: tuple[Natural, ...]
    random: RandomTrials | None
    score_noise: Positive | None
    delta: Delta
    trials: tuple[Trial, ...]

    def __post_init__(self) -> None:
        if (self.score_noise is None) != (self.unit is PrivacyUnit.EDGE):
            raise CertificateError(f"score_noise must be given at node level and only there, got {self.score_noise!r}")
        self._require_order()
        for trial in self.trials:
            require_one_unit(trial.mechanisms, self.unit)  # a trial is judged like a release of its own
        every = [record for trial in self.trials for record in trial.mechanisms]
        determined = [a for trial in self.trials for a in determined_assumptions(trial.mechanisms, self.unit)]
        # whether *no* edge is read, and how noise is sampled, are questions to all trials together
        together = (AssumptionName.NO_EDGE_READ, AssumptionName.FLOATING_POINT)
        samplers = {sampler for record in every for sampler in record.samplers}
        samplers |= set() if self.score_noise is None else {Sampler.LAPLACE}
        samplers |= set() if self.random is None else {Sampler.BERNOULLI, Sampler.TRIAL_NUMBER}
        self._follow(
            selection_theorem(self.expected_trials, self.random),
            self._cost,
            by_degree=any(record.by_degree for record in every),
            scope=Scope.weakest(record.scope for record in every),
            needs=tuple({a.name: a for a in determined if a.name not in together}.values()),
            reads_edges=any(record.reads_edges for record in every),
            samplers=samplers,
            declared=("details.epsilon_of_a_trial", "details.order", "details.trials"),
        )

    def _require_order(self) -> None:
        number = self.expected_trials
        if self.random is None:
            if len(self.order) != number or max(self.order) >= len(self.trials):
                raise CertificateError(f"order must name a setting for each of {number} trials, got {self.order!r}")
        elif self.order:
            raise CertificateError(f"order must be empty where the number of trials is random, got {self.order!r}")
        elif abs(self.random.mean - number) > 1e-6 * number:
            raise CertificateError(
                f"expected_trials must be the mean {self.random.mean:g} of their number, got {number}"
            )

    def _each_trial(self, degree: int | None = None) -> tuple[tuple[Event, ...], ...]:
        score = () if self.score_noise is None else (Laplace(self.score_noise),)
        return tuple((*composed(trial.mechanisms, degree), *score) for trial in self.trials)

    def _cost(self, degree: int | None) -> Costs:
        whole = self._each_trial(degree)
        if self.random is None:
            return _each(everyone(self.unit), *(event for place in self.order for event in whole[place]))
        epsilon = _selection_epsilon(whole, self.random, self.delta)
        return _each(everyone(self.unit), EpsilonDelta(epsilon, self.delta))

    def disagreement(self, public: Mapping[str, Any], delta: float) -> str | None:
        """The search must be judged at the delta of the claim, and no trial may cost more than stated."""
        if self.delta != delta:
            return f"delta must be that of the claim, {delta:g}, got {self.delta:g}"
        spent, most = max(epsilon_of(cost, delta) for cost in {*self._each_trial()}), self.epsilon_of_a_trial
        # PLD rounds up where a score is composed with a trial
        return None if spent <= most + 1e-3 * max(1.0, most) else f"a trial costs {spent:.6g}, stated {most:.6g}"


@lru_cache(maxsize=256)
def _selection_epsilon(costs: tuple[tuple[Event, ...], ...], random: RandomTrials, delta: float) -> float:
    """Cached: at most degrees of a curve a trial costs the same, and a verifier asks again."""
    return selection_epsilon(costs, random, delta)


# -- a user's own -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OwnRecord(MechanismRecord):
    """A mechanism that this library does not know: its cost is declared with its theorem, and a verifier can only repeat it.

    ``reads``: whether it looks at edges. ``declared_degree`` (node level): the costs are those of nodes up to this degree, and
    nothing is promised beyond it. ``notes``: further figures, for people.
    """

    mechanism = Mechanism.OWN

    unit: PrivacyUnit
    why: Words
    paid: Mapping[Group, tuple[Event, ...]]
    reads: bool = True
    declared_degree: Count | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        paid = {group: tuple(events) for group, events in self.paid.items()}
        _payers(tuple(paid), self.unit)
        if not paid or not all(paid.values()):
            raise CertificateError(f"costs of {self.name!r} must say who pays which events, got {paid!r}")
        limit = self.declared_degree
        if limit is not None and self.unit is PrivacyUnit.EDGE:
            raise CertificateError(f"declared_degree must be None at edge level, got {limit!r}")
        object.__setattr__(self, "paid", paid)
        self._follow(
            self.why,
            lambda degree: paid if (degree or 0) <= (limit or math.inf) else _each(tuple(paid), NonPrivate()),
            by_degree=limit is not None,
            scope=EVERY_GRAPH if limit is None else Scope(ScopeKind.NODES_UP_TO_DEGREE, limit),
            reads_edges=self.reads,
            samplers=(Sampler.OWN,),
            declared=("theorem", "details", "costs"),
        )

    def filled(self, values: Mapping[str, Any]) -> MechanismRecord:
        """The record with notes that were left open."""
        wrong = [key for key in values if self.notes.get(key, 0) is not None]
        if wrong:
            raise CertificateError(f"details must be open in {self.name!r}, got {', '.join(wrong)}")
        return replace(self, notes={**self.notes, **values})


def message_passing_record(calibrated: CalibratedPropagation, payers: tuple[Group, ...] = ()) -> MechanismRecord:
    """The record of perturbed message passing. ``payers``: all protected units unless a split is part of the release.

    The bound of a layer that has no theorem here is declared, and a verifier can only repeat it.
    """
    s = calibrated.sensitivity
    if s.layer in LAYER_THEOREMS:
        return MessagePassingRecord(calibrated=calibrated, payers=payers)
    if s.unit is not PrivacyUnit.EDGE:
        raise CertificateError(f"unit must be edge for the layer {s.layer}, which is the owner's, got {s.unit.value}")
    bounds = {"degree_floor": s.bounds.degree_floor, "step_moves_by": s.value, "contraction": s.contraction}
    figures = {"layer": s.layer, "parameters": dict(s.parameters), **bounds, "hops": calibrated.hops}
    return OwnRecord(
        name=f"{Mechanism.MESSAGE_PASSING.value}, layer {s.layer}",
        why=f"{s.theorem}; then the last of K states is mu-GDP (docs/privacy.md, Theorem 1). {initial_state(s.unit).statement}",
        unit=s.unit,
        paid=_each(payers or everyone(s.unit), calibrated.event),
        notes=figures | {"noise_std": calibrated.noise_std},
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
    return OwnRecord(name=name, unit=parsed, why=theorem, paid=_each(everyone(parsed), *events))


# -- nothing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class NoReleaseRecord(MechanismRecord):
    """A step that reads nothing protected. ``why``: in words."""

    mechanism = Mechanism.NO_RELEASE

    name: Words = Mechanism.NO_RELEASE.value
    unit: PrivacyUnit
    why: Words

    def __post_init__(self) -> None:
        self._follow(
            "nothing that is protected is read",
            lambda _: _each(everyone(self.unit), EpsilonDelta(0.0)),
            reads_edges=False,
            declared=("details.why",),
        )


@dataclass(frozen=True, kw_only=True)
class NoNoiseRecord(MechanismRecord):
    """A step that protects nothing."""

    mechanism = Mechanism.NO_NOISE

    unit: PrivacyUnit

    def __post_init__(self) -> None:
        self._follow("none: no noise", lambda _: _each(everyone(self.unit), NonPrivate()))


RECORDS: Mapping[Mechanism, type[MechanismRecord]] = {kind.mechanism: kind for kind in MechanismRecord.__subclasses__()}
"""The class of every kind of mechanism."""


# -- all of them ------------------------------------------------------------------------------------------------------


def determined_assumptions(records: Sequence[MechanismRecord], unit: PrivacyUnit) -> tuple[Assumption, ...]:
    """The assumptions that follow from the mechanisms and from how they are paid.

    Of those that are `determined`, a certificate states these and no others.
    """
    found = [assumption for record in records for assumption in record.needs]
    found.append(floating_point(sampler for record in records for sampler in record.samplers))
    if len(groups_of(records)) > 1:
        found.append(Assumption(AssumptionName.PARALLEL_COMPOSITION))
    if unit is PrivacyUnit.NODE:
        found.append(Assumption(AssumptionName.OWN_PREDICTIONS))
    if not any(record.reads_edges for record in records):
        found.append(Assumption(AssumptionName.NO_EDGE_READ))
    return tuple({assumption.name: assumption for assumption in found}.values())


def require_one_unit(records: Sequence[MechanismRecord], unit: PrivacyUnit) -> None:
    """What one edge costs is no promise to a person: a ledger would count it, and no verifier would accept it."""
    if not records:
        raise CertificateError.of("mechanisms", "be listed", "none")
    for record in records:
        if record.level is not unit:
            words = f"have a theorem at {unit.value} level"
            raise CertificateError.of(record.name, words, f"one at {record.level.value} level")
    problem = wrong_payers(records, unit)
    if problem is not None:
        raise CertificateError(f"mechanisms must be paid by whom they touch: {problem}")


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
        if split and missing and record.everybody:
            return f"{record.name} must be paid by every part of the split, got nothing from {_listed(missing)}"
    if len(records) > 1 and any(isinstance(record, NoReleaseRecord) for record in records):
        return "no release must stand alone, got other mechanisms beside it"
    return None


def _listed(groups: Iterable[Group]) -> str:
    return ", ".join(sorted(group.value for group in groups)) or "nobody"


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
