"""Methods: complete recipes from a graph and a budget to predictions with a certificate. They contain no formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast, runtime_checkable

from caribou.errors import InputError
from caribou.machine.deferred import deferred_imports, load_deferred
from caribou.methods.catalogue import METHODS, names_of
from caribou.privacy.accounting import event_words
from caribou.privacy.assumptions import LASTING, Assumption, AssumptionName
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate
from caribou.privacy.events import Event
from caribou.privacy.mechanism_records import Mechanism
from caribou.privacy.plan import Link, ReleasePlan
from caribou.privacy.sizes import Sizes
from caribou.release import Drawn, Journal, LedgerLike, Private, execute, require_left, with_declarations

with deferred_imports():
    import numpy as np

    from caribou.graph import Graph
    from caribou.graph.arrivals import Grown
    from caribou.mechanisms.noise_source import NoiseSource, RunKey
    from caribou.randomness import Streams

Arrays = Mapping[str, "np.ndarray"]
"""Arrays by name: what was released, or the weights of a model."""
Weights = Arrays | None
"""Fitted weights that are to be applied, or None: they are to be fitted."""
AFTER = "after_certificate"
"""The public parameter of a batch that pays for itself: the certificate that covers what is older."""


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a method hands back; a release adds the certificate and makes it a `Fitted`.

    Args:
        probabilities: [n, C], one row per node.
        released: the arrays that mechanisms released, by name.
        weights: parameters of the models that were trained on public data or privately, by name.
        details: figures of the certificate that exist only after a draw, by mechanism.

    >>> Outputs(np.full((3, 2), 0.5), weights={"bias": np.zeros(2)}).probabilities.shape
    (3, 2)
    """

    probabilities: np.ndarray = field(repr=False)  # a repr ends up in logs
    released: Arrays = field(default_factory=dict, repr=False)
    weights: Arrays = field(default_factory=dict, repr=False)
    details: Mapping[Mechanism, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit with its certificate. ``released`` and ``weights`` are covered by it and may be stored or published.

    Args:
        probabilities: [n, C], one row per node of the training graph. At edge level they may be published, too. At node level
            a node's own row is computed from its own features: it is for that node, and not covered for anybody else.
        certificate: what the fit costs, and what the promise rests on.
        released: the arrays that mechanisms released (a state, a transcript), at edge level with the probabilities.
        weights: parameters of the models that were trained on public data or privately.

    >>> from caribou.datasets import load
    >>> from caribou.methods import method_info
    >>> fitted = fit(method_info("mlp-dp").create(), load("csbm:nodes=80"), Budget(4, 1e-5, "node"), Streams(0))
    >>> sorted(fitted.weights), fitted.certificate.unit.value
    (['mean', 'weights'], 'node')
    """

    probabilities: np.ndarray = field(repr=False)  # a repr ends up in logs
    certificate: Certificate
    released: Arrays = field(default_factory=dict, repr=False)
    weights: Arrays = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """What leaves the process is covered: at node level a node's own row of probabilities is not, and stays."""
        covered = self.certificate.unit is PrivacyUnit.EDGE
        own = self.probabilities if covered else np.empty((0, 0))
        return Fitted, (own, self.certificate, self.released, self.weights)

    @classmethod
    def of(cls, outputs: Outputs, certificate: Certificate) -> Fitted:
        """What a method handed back, certified."""
        return cls(outputs.probabilities, certificate, outputs.released, outputs.weights)


class Method(Protocol):
    """A frozen record of public settings that can be planned and fitted. No call changes the graph.

    A plan is made from public numbers alone; whoever runs it hands it back. A method writes no certificate and opens no ledger:
    call it through `caribou.methods.fit` and `caribou.methods.predict_graph`.
    """

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """What `fit` will release and cost, from public ``sizes`` and a ``budget`` alone."""
        ...

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Train on ``graph`` by the plan; the public seed gives ``streams``, privacy noise comes from ``noise``."""
        ...

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Weights) -> ReleasePlan:
        """What `predict_graph` will release about another graph, and cost: ``sizes`` of that graph, ``budget``, ``weights``.

        A model may release less than its settings allow. Without weights all that they allow is planned.
        """
        ...

    def predict_graph(
        self, plan: ReleasePlan, weights: Arrays, graph: Graph, streams: Streams, noise: NoiseSource
    ) -> Outputs:
        """Predict another ``graph`` with fitted ``weights``, by the ``plan``; ``streams`` and ``noise`` as in `fit`."""
        ...

    def predict(self, weights: Arrays, released: Arrays, graph: Graph) -> np.ndarray:
        """Class probabilities of the nodes that ``released`` is about, without spending anything. [n, C]

        ``weights``: of the fit. ``graph``: public at edge level but for its edges, which must not be read.
        """
        ...

    def settings(self) -> Mapping[str, Any]:
        """The public settings, for records and certificates: plain JSON values that `MethodInfo.create` takes back."""
        ...


@runtime_checkable
class PreparedMethod(Protocol):
    """A method that has work to do on public values alone, which is done before anything is charged.

    It asks for nothing else: a transductive method has no `predict_graph`, but public work to do.
    """

    def prepare(self, plan: ReleasePlan, graph: Graph, streams: Streams, weights: Weights = None) -> Any:
        """The method with this work done for the graph: for `fit`, or for `predict_graph` with fitted ``weights``."""
        ...


@runtime_checkable
class GrowingMethod(Method, Protocol):
    """A method that can ask the pairs of arrivals under the release that the first batch was."""

    def plan_batch(self, sizes: Sizes, budget: Budget, link: Link | None, batch: int) -> ReleasePlan:
        """What `extend` will release about batch number ``batch``; ``link``: the release that pays for it, if one does."""
        ...

    def prepare_batch(self, weights: Arrays, grown: Grown) -> GrowingMethod:
        """The method with its work on public values done for `extend`, before anything is charged."""
        ...

    def extend(self, plan: ReleasePlan, weights: Arrays, released: Arrays, grown: Grown, noise: NoiseSource) -> Outputs:
        """Ask the arrivals of ``grown`` by the ``plan``; ``weights`` and ``released`` are those of all earlier batches."""
        ...


class BatchJournal(Journal, Protocol):
    """The journal of a batch."""

    @property
    def resumable(self) -> bool:
        """Whether it keeps the key of the noise until the batch is made."""
        ...

    def noise(self, source: Any) -> NoiseSource:
        """The noise of the batch, from what `extend` was given as its noise."""
        ...


def fit(
    method: Method,
    graph: Graph,
    budget: Budget,
    streams: Streams,
    noise: NoiseSource | None = None,
    *,
    ledger: LedgerLike | None = None,
    replace_fingerprint: bool = False,
) -> Fitted:
    """Fit a method on a graph within a budget: plan, certificate, ledger, run.

    Args:
        method: the settings.
        graph: the private graph, with labels and a split.
        budget: epsilon, delta and the privacy unit of the method.
        streams: public randomness (split roles, initial weights).
        noise: private randomness (default: a fresh key from the operating system).
        ledger: charge the cost under ``graph.name`` before any noise is drawn, or refuse.
        replace_fingerprint: declares that changed content is still about the same people.

    Returns:
        Class probabilities [n, C], weights and released arrays, with the certificate that covers them.

    >>> from caribou.datasets import load
    >>> from caribou.methods import method_info
    >>> fitted = fit(method_info("mlp-dp").create(), load("csbm:nodes=200"), Budget(4, 1e-5, "node"), Streams(0))
    >>> fitted.probabilities.shape, fitted.certificate.status
    ((200, 4), 'private')
    """
    _require_learnable(graph, budget.unit)
    plan = declared_plan(method, method.plan(graph.sizes(budget.unit), budget), budget, graph)
    require_left(plan, graph, ledger)
    ready = prepared(method, plan, graph, streams)
    released = execute(
        plan,
        graph,
        lambda source: _drawn(ready.fit(plan, graph, streams, source)),
        noise=noise or NoiseSource.secure(),
        ledger=ledger,
        replace_fingerprint=replace_fingerprint,
    )
    return Fitted.of(released.value, released.certificate)


def predict_graph(
    method: Method,
    weights: Arrays,
    graph: Graph,
    budget: Budget,
    streams: Streams,
    noise: NoiseSource | None = None,
    *,
    ledger: LedgerLike | None = None,
    replace_fingerprint: bool = False,
    private: Private | None = None,
) -> Fitted:
    """Predict another graph with fitted weights: one release about that graph.

    Args:
        method: the settings that the weights were fitted with.
        weights: of the fit (`Fitted.weights`).
        graph: another private graph, in the columns and classes of the model.
        budget: of this release.
        streams, noise, ledger, replace_fingerprint: as in `fit`.
        private: the graph as its owner has it, if ``graph`` was brought into the columns and classes of the model; its content
            is what a ledger knows.

    Returns:
        Class probabilities [n, C] of the other graph, with the certificate of this release.

    >>> from caribou.datasets import load
    >>> from caribou.methods import method_info
    >>> method, budget, streams = method_info("mlp-dp").create(), Budget(4, 1e-5, "node"), Streams(0)
    >>> fitted = fit(method, load("csbm:nodes=80"), budget, streams)
    >>> predict_graph(method, fitted.weights, load("csbm:nodes=60"), budget, streams).probabilities.shape
    (60, 4)
    """
    if not hasattr(method, "plan_graph"):
        raise InputError(f"graph must be the training graph: {type(method).__name__} is transductive, got another one")
    plan = declared_plan(method, method.plan_graph(graph.sizes(budget.unit), budget, weights), budget, graph)
    require_left(plan, private or graph, ledger)
    ready = prepared(method, plan, graph, streams, weights)
    released = execute(
        plan,
        private or graph,
        lambda source: _drawn(ready.predict_graph(plan, weights, graph, streams, source)),
        noise=noise or NoiseSource.secure(),
        ledger=ledger,
        replace_fingerprint=replace_fingerprint,
    )
    return Fitted.of(released.value, released.certificate)


def extend(
    method: Method,
    fitted: Fitted,
    grown: Grown,
    budget: Budget,
    noise: NoiseSource | RunKey | None = None,
    *,
    link: Link | None,
    ledger: LedgerLike | None = None,
    private: Private | None = None,
    journal: BatchJournal | None = None,
) -> Fitted:
    """Ask the arrivals of a grown graph: a batch of the release that ``link`` names, or a release of its own.

    Args:
        method: the settings of the fit; it must be one that can ask arrivals.
        fitted: weights and released arrays of all earlier batches.
        grown: the graph in the order of arrival.
        budget: of the first batch.
        noise: private randomness (default: a fresh key from the operating system), or the key of a ``journal`` that can resume.
        link: the release that pays, and the batch just before; None: this batch is charged by itself.
        ledger: enter the batch under the release that pays, or charge it, before any noise is drawn.
        private: the graph as its owner has it; its content is what a ledger knows.
        journal: where the certificate is noted before it is charged.

    Returns:
        Class probabilities of everybody who was ever there, [n, C], with the certificate of this batch.
    """
    if not isinstance(method, GrowingMethod):
        able = ", ".join(names_of(lambda info: info.grows))
        raise InputError(
            f"method must ask every pair of nodes once to be extended ({able}), got {type(method).__name__}"
        )
    made = method.plan_batch(grown.graph.sizes(budget.unit), budget, link, grown.batch)
    before = fitted.certificate
    if link is not None and made.cost != before.cost:
        raise InputError(
            f"noise of a batch must be that of the batch before ({_cost_words(before.cost)}), because all of them cost one "
            f"epsilon, got {_cost_words(made.cost)}: budget or settings of the model were changed"
        )
    resumable = journal is not None and journal.resumable
    plan = declared_plan(method, replace(_after(before, made, link), resumable=resumable), budget, grown.graph)
    ready = method.prepare_batch(fitted.weights, grown)

    def run(source: Any) -> Drawn[Outputs]:
        noise = source if journal is None else journal.noise(source)
        return _drawn(ready.extend(plan, fitted.weights, fitted.released, grown, noise))

    released = execute(
        plan,
        private or grown.graph,
        run,
        noise=noise or NoiseSource.secure(),
        ledger=ledger,
        journal=journal,
        link=link,
    )
    return Fitted.of(released.value, released.certificate)


def _after(before: Certificate, plan: ReleasePlan, link: Link | None) -> ReleasePlan:
    """The plan of a batch with what the rows before it rest on: the new model shows them, too."""
    plan = replace(plan, assumptions=(*plan.assumptions, *(a for a in before.assumptions if a.name in LASTING)))
    older = before.certificate_id if link is None else before.public_parameters.get(AFTER)
    return plan if older is None else released_since(older, plan)


def released_since(older: str, plan: ReleasePlan) -> ReleasePlan:
    """The plan of a batch that pays for itself, or extends one that does: it does not pay for what is ``older``."""
    released = (
        f"counts and class probabilities since certificate {older}, and everything computed from them; what is older costs what "
        "that certificate says"
    )
    return replace(plan, released=(released,), public_parameters={**plan.public_parameters, AFTER: older})


def _cost_words(cost: Sequence[Event]) -> str:
    return "; ".join(map(event_words, cost)) or "nothing"


def declared_plan(method: Method, plan: ReleasePlan, budget: Budget, graph: Graph) -> ReleasePlan:
    """The plan with what the owner and the user declare. A registered method must plan with the budget that was asked for.

    The library's own methods are held to that by tests. A certificate always says what its plan says.
    """
    load_deferred()  # now: a library that cannot be loaded must not be found out after the charge
    plan = with_declarations(plan, graph)
    made_by = [info for info in METHODS.values() if info.is_made_by(type(method))]
    if any(info.own is None for info in made_by):
        return plan
    if made_by and plan.budget != budget:
        raise InputError(
            f"plan of {type(method).__name__} must have the budget that it is given, {budget}, got {plan.budget}"
        )
    # a class that nobody registered, such as a subclass of one of the library, is the user's code, too
    return replace(plan, assumptions=(*plan.assumptions, Assumption(AssumptionName.OWN_CODE)))


def _require_learnable(graph: Graph, unit: PrivacyUnit) -> None:
    """Refuse a graph that cannot be fitted, before anything is charged. At node level only what is declared decides."""
    public = unit is PrivacyUnit.EDGE
    split, labels = graph.for_learning(public=public)
    if public and len(found := np.unique(np.array(labels)[split.train])) < 2:
        named = [str(k) if graph.class_names is None else graph.class_names[k] for k in found]
        raise InputError.of("split.train", "hold labels of at least 2 classes", f"all of class {named[0]!r}")


def prepared(method: Method, plan: ReleasePlan, graph: Graph, streams: Streams, weights: Weights = None) -> Method:
    """Public work first: an encoder that fails, or a process that is killed during it, then costs nothing."""
    if not isinstance(method, PreparedMethod):
        return method
    return cast(Method, method.prepare(plan, graph, streams, weights))


def _drawn(outputs: Outputs) -> Drawn[Outputs]:
    return Drawn(outputs, outputs.details)
