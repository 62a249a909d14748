"""What methods at node level share: the frame of their plans, a private model below and a private head on top, and calibrated
sums.

Every part of such a method is private, and a node's prediction is computed from its own features and from what was released.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Self

from caribou._validate import open_unit_interval, positive
from caribou.errors import InputError
from caribou.machine.deferred import deferred_imports
from caribou.mechanisms.noisy_descent import Descent, noisy_gradient_descent
from caribou.methods.catalogue import require_unit
from caribou.methods.mlp import (
    MlpDp,
    base_model,
    centred,
    full_batch,
    node_assumptions,
    public_parameters,
    train_network,
)
from caribou.models.linear import path_length_schedule
from caribou.privacy.allocation import AllocatedPart
from caribou.privacy.assumptions import Assumption
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedSums, budget_mu, calibrate_sums
from caribou.privacy.mechanism_records import (
    NODES,
    DescentRecord,
    Examples,
    MechanismRecord,
    SumsRecord,
    descent_sensitivity,
)
from caribou.privacy.plan import ReleaseKind, ReleasePlan
from caribou.privacy.sensitivity import Bounds, sum_sensitivity
from caribou.privacy.sizes import Sizes

with deferred_imports():
    import numpy as np

    from caribou.graph import Graph
    from caribou.mechanisms.bounded_rows import unit_length
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.methods.base import Arrays, Outputs, Weights
    from caribou.models.features import require_row_memory
    from caribou.models.linear import selu_network
    from caribou.randomness import Streams


@dataclass(frozen=True)
class NodeMethod:
    """A method at node level: a frozen dataclass with a name, `plan`, `fit`, `plan_graph`, `predict_graph` and `predict`."""

    name: ClassVar[str]

    @property
    def model_below(self) -> MlpDp | None:
        """The private model that it starts from, if there is one."""
        return getattr(self, "base", None)

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    def mu_of(self, budget: Budget) -> float:
        """The mu-GDP of a budget of the right unit."""
        require_unit(budget, PrivacyUnit.NODE, self.name)
        return budget_mu(budget)

    def planned(
        self,
        sizes: Sizes,
        budget: Budget,
        kind: ReleaseKind,
        mechanisms: tuple[MechanismRecord, ...],
        released: tuple[str, ...],
        parts: Mapping[str, Any],
    ) -> ReleasePlan:
        """A plan in the frame of all node-level methods. The arguments are those of `ReleasePlan`."""
        return ReleasePlan(
            budget,
            mechanisms,
            released=released,
            method=self.name,
            kind=kind,
            public_parameters=self.public(sizes),
            assumptions=self.assumptions(),
            parts=parts,
        )

    def public(self, sizes: Sizes) -> dict[str, Any]:
        """Sizes that are public by declaration, and the settings."""
        return public_parameters(sizes, self.settings())

    def assumptions(self) -> tuple[Assumption, ...]:
        """What the guarantee rests on beside the mechanisms."""
        return node_assumptions(self.model_below)

    def require_memory_for(self, sizes: Sizes) -> None:
        """Refuse a fit that does not fit into memory."""

    def prepare(self, plan: ReleasePlan, graph: Graph, streams: Streams, weights: Weights = None) -> Self:
        """What would not fit into memory is refused before anything is charged."""
        if weights is None:
            self.require_memory_for(graph.sizes(PrivacyUnit.NODE))
        require_row_memory(graph.features, getattr(plan.parts.get("base"), "random_features", 0))
        return self

    def outputs(self, graph: Graph, released: Arrays, weights: Arrays) -> Outputs:
        """What a release gives: predictions follow from it, and from each node's own features."""
        return Outputs(self.predict(weights, released, graph), released, weights)

    def predict(self, weights: Arrays, released: Arrays, graph: Graph) -> np.ndarray:
        """Class probabilities of every node from its own features and its rows of what was released. [n, C]"""
        raise NotImplementedError


@dataclass(frozen=True)
class SummingMethod(NodeMethod):
    """One whose release about another graph is noisy sums over neighbours, calibrated up to a declared degree.

    ``declared_degree``: the degree up to which a node gets the headline epsilon; None = the cap, else `DECLARED_DEGREE`.
    ``degree_cap``: degrees are cut to it; None = every edge is read. ``radius``: rows of the sums are clipped to it; None = the
    root of the declared degree. ``sums_in_words``: what a certificate calls the sums.
    """

    declared_degree: int | None = None
    degree_cap: int | None = None
    radius: float | None = None
    sums_in_words: ClassVar[str]

    def __post_init__(self) -> None:
        check_degrees(self.degree_cap, self.declared_degree)
        if self.radius is not None:
            positive(radius=self.radius)

    @property
    def times(self) -> int:
        """How often it sums."""
        return 1

    def bounds(self, sizes: Sizes) -> Bounds:
        """What is declared about degrees."""
        return node_bounds(sizes, self.degree_cap, self.declared_degree)

    def calibrate(self, sizes: Sizes, mu: float) -> CalibratedSums:
        """All K sums, mu-GDP together for nodes up to the declared degree."""
        return calibrate_node_sums(sizes, mu, bounds=self.bounds(sizes), radius=self.radius, hops=self.times)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Weights) -> ReleasePlan:
        """The sums over another graph's edges, within the whole budget."""
        sums = self.calibrate(sizes, self.mu_of(budget))
        return self.planned(
            sizes,
            budget,
            ReleaseKind.PREDICTION,
            (SumsRecord(calibrated=sums, payers=NODES),),
            (self.sums_in_words,),
            {"sums": sums},
        )


@dataclass(frozen=True)
class StackedMethod(SummingMethod):
    """Private linear heads on the sums and on a private model, whose validation nodes choose nothing.

    ``sums_share``, ``classifier_share``: shares of mu^2; the rest is for ``base``, the model below, or its settings by name.
    """

    sums_share: float = 0.1
    classifier_share: float = 0.1
    base: MlpDp = field(default_factory=MlpDp)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radius is not None and self.radius < 1:
            raise InputError(f"radius must be >= 1, the length of one message, got {self.radius!r}")
        object.__setattr__(self, "base", base_model(self.base))
        check_shares(**{f.name: getattr(self, f.name) for f in fields(self) if f.name.endswith("_share")})


def messages(logits: np.ndarray) -> np.ndarray:
    """Centred logits at length 1. Acts on each row alone. [n, C]"""
    return unit_length(centred(logits))


def side_by_side(parts: list[np.ndarray]) -> np.ndarray:
    """Parts at length 1 / sqrt(number of parts) each: rows of length at most 1. [n, sum of columns]"""
    return np.concatenate([unit_length(part) / math.sqrt(len(parts)) for part in parts], axis=1)


CLIP = 0.3
"""Bound on one example's gradient."""
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Candidates for the weight of released sums beside a node's own logits; 0 ignores the graph."""
DEFAULT_WEIGHT = 3
DECLARED_DEGREE = 100
"""The degree up to which baselines calibrate their headline if none is declared: the bound that GAP and DPDGC publish."""


def check_degrees(degree_cap: int | None, declared_degree: int | None) -> None:
    """The settings on degrees must make sense for some graph."""
    Bounds(degree_cap=degree_cap, declared_degree=declared_degree)


def node_bounds(sizes: Sizes, degree_cap: int | None, declared_degree: int | None) -> Bounds:
    """What is declared about degrees: without a cap every edge is read, and a node pays for its own degree.

    >>> node_bounds(Sizes(nodes=1000, columns=8, classes=4, train=700, val=100, test=200), None, None).covered_degree
    100
    """
    if declared_degree is None and degree_cap is None:
        declared_degree = DECLARED_DEGREE
    return Bounds(degree_cap=degree_cap, nodes=sizes.nodes, declared_degree=declared_degree)


def calibrate_node_sums(
    sizes: Sizes, mu: float, *, bounds: Bounds, radius: float | None, hops: int = 1
) -> CalibratedSums:
    """K noisy sums of messages in class space over neighbours that are mu-GDP together for nodes up to the declared degree.

    ``radius`` None: sqrt(d*), at which a node's own row costs as much as all rows of its neighbours.
    """
    length = math.sqrt(bounds.covered_degree) if radius is None else float(radius)
    bound = sum_sensitivity(PrivacyUnit.NODE, bounds=bounds, radius=length)
    return calibrate_sums(bound, hops=hops, mu=mu, nodes=sizes.nodes, columns=sizes.classes)


@dataclass(frozen=True)
class DescentPlan:
    """Full-batch noisy descent within its share of a budget. ``sensitivity``: clips that one unit moves a sum of gradients by."""

    schedule: Descent
    descent: AllocatedPart
    sensitivity: float
    record: MechanismRecord
    train_size: int


def plan_descent(
    name: str,
    *,
    mu: float,
    train_size: int,
    unit: PrivacyUnit = PrivacyUnit.NODE,
    examples: Examples = Examples.OWN_ROWS,
    clip: float = CLIP,
    further: Mapping[str, Any] | None = None,
    **declared: Any,
) -> DescentPlan:
    """Descent that is mu-GDP. ``name``: in the certificate; ``further``: of the schedule; ``declared``: as in `DescentRecord`."""
    sensitivity, _ = descent_sensitivity(examples, unit, **declared)
    schedule = path_length_schedule(mu=mu / sensitivity, train_size=train_size, clip=clip)
    descent = full_batch(name, schedule.steps, mu)
    record = DescentRecord(
        name=name,
        unit=unit,
        steps=schedule.steps,
        noise_multiplier=descent.noise_multiplier,
        clip=schedule.clip,
        examples=examples,
        schedule={"step_size": schedule.step_size, "momentum": schedule.momentum, **(further or {})},
        **declared,
    )
    return DescentPlan(schedule, descent, sensitivity, record, train_size)


def plan_head(
    sizes: Sizes, mu: float, train_size: int | None, name: str = "training of the classifier", hidden: int = 0
) -> DescentPlan:
    """A head on rows of length at most 1. ``name``: in the certificate; ``hidden``: units, 0 for a linear one."""
    size = sizes.train if train_size is None else train_size
    return plan_descent(name, mu=mu, train_size=size, further={"hidden": hidden} if hidden else {})


def fit_linear_head(plan: DescentPlan, rows: np.ndarray, graph: Graph, noise: NoiseSource) -> np.ndarray:
    """The head by its plan, on the training nodes' rows. [d, C]"""
    split, labels = graph.for_learning()
    return noisy_gradient_descent(
        rows[split.train],
        labels[split.train],
        classes=graph.num_classes,
        schedule=plan.schedule,
        calibrated=plan.descent,
        noise=noise,
        max_rows=graph.num_nodes,
    )


def fit_network_head(
    plan: DescentPlan, rows: np.ndarray, hidden: int, graph: Graph, streams: Streams, noise: NoiseSource
) -> dict[str, np.ndarray]:
    """The same with one hidden layer, by noisy Adam for as many steps: the arrays of `network_from_arrays`."""
    initial = selu_network(rows.shape[1], hidden, graph.num_classes, streams.generator("classifier"))
    module = train_network(initial, rows, graph, plan.schedule, plan.descent, plan.train_size, noise)
    return {name: p.detach().numpy() for name, p in module.named_parameters()}


def check_shares(**shares: float) -> None:
    """Shares of mu^2 in (0, 1) that leave something for the encoder."""
    for name, share in shares.items():
        open_unit_interval(**{name: share})
    if not sum(shares.values()) < 1:
        raise InputError(f"{' + '.join(shares)} must be < 1 (the rest is the encoder's), got {sum(shares.values()):g}")
