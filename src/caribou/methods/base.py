"""Methods: complete recipes from a graph and a budget to predictions with a certificate. They contain no formula."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from caribou.errors import InputError, needs_training
from caribou.graph import Graph
from caribou.graph.arrivals import Grown
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.accounting import event_words
from caribou.privacy.assumptions import LASTING, own_code
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate
from caribou.privacy.events import Event
from caribou.privacy.mechanism_records import Mechanism
from caribou.privacy.plan import Link, ReleasePlan
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams
from caribou.release import Drawn, Journal, LedgerLike, Private, execute, require_left, with_declarations

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
    released: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    weights: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
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
    >>> fitted = fit(method_info("mlp-dp").create(), load("csbm:nodes=80"), Budget(4, 1e-5, "node"), Streams(0))
    >>> sorted(fitted.weights), fitted.certificate.unit.value
    (['mean', 'weights'], 'node')
    """

    probabilities: np.ndarray = field(repr=False)  # a repr ends up in logs
    certificate: Certificate
    released: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    weights: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)

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

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        """What `predict_graph` will release about another graph, and cost: ``sizes`` of that graph, ``budget``, ``weights``."""
        ...

    def predict_graph(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        graph: Graph,
        streams: Streams,
        noise: NoiseSource,
    ) -> Outputs:
        """Predict another ``graph`` with fitted ``weights``, by the ``plan``; ``streams`` and ``noise`` as in `fit`."""
        ...

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of the nodes that ``released`` is about, without spending anything. [n, C]

        ``weights``: of the fit. ``graph``: public at edge level but for its edges, which must not be read.
        """
        ...

    def settings(self) -> Mapping[str, Any]:
        """The public settings, for records and certificates: plain JSON values that `MethodInfo.create` takes back."""
        ...


@runtime_checkable
class PreparedMethod(Method, Protocol):
    """A method whose encoder reads public values alone, and can be fitted before anything is charged."""

    def prepare(self, graph: Graph, streams: Streams) -> object:
        """Fit the encoder; `fit` with the same ``graph`` and ``streams`` finds it (`caribou.models.encoder.kept_encoders`)."""
        ...


@runtime_checkable
class GrowingMethod(Method, Protocol):
    """A method that can ask the pairs of arrivals under the release that the first batch was."""

    def plan_batch(
        self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray], link: Link | None, batch: int
    ) -> ReleasePlan:
        """What `extend` will release about batch number ``batch``; ``link``: the release that pays for it, if one does."""
        ...

    def extend(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        released: Mapping[str, np.ndarray],
        grown: Grown,
        noise: NoiseSource,
    ) -> Outputs:
        """Ask the arrivals of ``grown`` by the ``plan``; ``weights`` and ``released`` are those of all earlier batches."""
        ...


def require_unit(budget: Budget, unit: PrivacyUnit, method: str) -> None:
    """One clear error for a budget of the wrong unit."""
    if budget.unit is not unit:
        raise InputError(f"unit must be {unit.value} for {method}, got {budget.unit.value}")


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
    >>> fitted = fit(method_info("mlp-dp").create(), load("csbm:nodes=200"), Budget(4, 1e-5, "node"), Streams(0))
    >>> fitted.probabilities.shape, fitted.certificate.status
    ((200, 4), 'private')
    """
    # a graph that cannot be fitted is refused before anything is charged
    graph.for_learning(public=budget.unit is PrivacyUnit.EDGE)
    plan = declared_plan(method, method.plan(graph.sizes(budget.unit), budget), budget, graph)
    with _prepared(method, plan, graph, streams, ledger):
        released = execute(
            plan,
            graph,
            lambda source: _drawn(method.fit(plan, graph, streams, source)),
            noise=noise or NoiseSource.secure(),
            ledger=ledger,
            replace_fingerprint=replace_fingerprint,
        )
    return Fitted.of(released.value, released.certificate)


def predict_graph(
    method: Method,
    weights: Mapping[str, np.ndarray],
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
    >>> method, budget, streams = method_info("mlp-dp").create(), Budget(4, 1e-5, "node"), Streams(0)
    >>> fitted = fit(method, load("csbm:nodes=80"), budget, streams)
    >>> predict_graph(method, fitted.weights, load("csbm:nodes=60"), budget, streams).probabilities.shape
    (60, 4)
    """
    if not hasattr(method, "plan_graph"):
        raise InputError(f"graph must be the training graph: {type(method).__name__} is transductive, got another one")
    plan = declared_plan(method, method.plan_graph(graph.sizes(budget.unit), budget, weights), budget, graph)
    released = execute(
        plan,
        private or graph,
        lambda source: _drawn(method.predict_graph(plan, weights, graph, streams, source)),
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
    noise: NoiseSource | None = None,
    *,
    link: Link | None,
    ledger: LedgerLike | None = None,
    private: Private | None = None,
    journal: Journal | None = None,
) -> Fitted:
    """Ask the arrivals of a grown graph: a batch of the release that ``link`` names, or a release of its own.

    Args:
        method: the settings of the fit; it must be one that can ask arrivals.
        fitted: weights and released arrays of all earlier batches.
        grown: the graph in the order of arrival.
        budget: of the first batch.
        noise: private randomness (default: a fresh key from the operating system).
        link: the release that pays, and the batch just before; None: this batch is charged by itself.
        ledger: enter the batch under the release that pays, or charge it, before any noise is drawn.
        private: the graph as its owner has it; its content is what a ledger knows.
        journal: where the certificate is noted before it is charged.

    Returns:
        Class probabilities of everybody who was ever there, [n, C], with the certificate of this batch.
    """
    if not isinstance(method, GrowingMethod):
        raise InputError(
            f"method must ask every pair of nodes once to be extended (votes-edp), got {type(method).__name__}"
        )
    made = method.plan_batch(grown.graph.sizes(budget.unit), budget, fitted.weights, link, grown.batch)
    before = fitted.certificate
    if link is not None and made.cost != before.cost:
        raise InputError(
            f"noise of a batch must be that of the batch before ({_cost_words(before.cost)}), because all of them cost one "
            f"epsilon, got {_cost_words(made.cost)}: budget or settings of the model were changed"
        )
    plan = declared_plan(method, _after(before, made, link), budget, grown.graph)
    released = execute(
        plan,
        private or grown.graph,
        lambda source: _drawn(method.extend(plan, fitted.weights, fitted.released, grown, source)),
        noise=noise or NoiseSource.secure(),
        ledger=ledger,
        journal=journal,
        link=link,
    )
    return Fitted.of(released.value, released.certificate)


def _after(before: Certificate, plan: ReleasePlan, link: Link | None) -> ReleasePlan:
    """The plan of a batch with what the rows before it rest on: the new model shows them, too.

    A batch that pays for itself, and those that extend it, do not pay for what is older.
    """
    plan = replace(plan, assumptions=(*plan.assumptions, *(a for a in before.assumptions if a.name in LASTING)))
    older = before.certificate_id if link is None else before.public_parameters.get(AFTER)
    if older is None:
        return plan
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
    plan = with_declarations(plan, graph)
    if not any(info.own is type(method) for info in METHODS.values()):
        return plan
    if plan.budget != budget:
        raise InputError(
            f"plan of {type(method).__name__} must have the budget that it is given, {budget}, got {plan.budget}"
        )
    return replace(plan, assumptions=(*plan.assumptions, own_code()))


@contextmanager
def _prepared(
    method: Method, plan: ReleasePlan, graph: Graph, streams: Streams, ledger: LedgerLike | None
) -> Iterator[None]:
    """Public work first: an encoder that fails, or a process that is killed during it, then costs nothing."""
    if not isinstance(method, PreparedMethod):
        yield
        return
    from caribou.models.encoder import encoders_once

    require_left(plan, graph, ledger)
    with encoders_once():
        method.prepare(graph, streams)
        yield


def _drawn(outputs: Outputs) -> Drawn[Outputs]:
    return Drawn(outputs, outputs.details)


@dataclass(frozen=True)
class MethodInfo:
    """A method by name: its privacy unit, where its class lives, and what it is in words.

    ``private`` = False: it protects nothing and takes an infinite epsilon only. ``transductive``: it predicts no other graph.
    ``data_independent``: it reads nothing that is protected at its unit, so it spends nothing and is the same at every epsilon.
    ``engines``: those that it can be trained on from files; none: it needs its edges in memory. ``own``: the class itself, of a
    method that was registered.
    """

    unit: PrivacyUnit
    home: str
    summary: str
    private: bool = True
    transductive: bool = False
    data_independent: bool = False
    own: type | None = None
    engines: tuple[str, ...] = ()

    def check(self, name: str, budget: Budget) -> None:
        """The budget must be of this method's unit, and infinite if it has no privacy."""
        require_unit(budget, self.unit, name)
        if not self.private and budget.is_private:
            raise InputError(f"epsilon must be inf for {name}, which is not private, got {budget.epsilon:g}")

    def check_engine(self, name: str, engine: str) -> None:
        """The engine must be one that the method can be trained on."""
        if engine in self.engines:
            return
        if self.engines:
            raise InputError(f"engine must be one of {', '.join(self.engines)} for {name}, got {engine!r} (--engine)")
        able = [other for other, info in METHODS.items() if engine in info.engines]
        raise InputError(
            f"method must read edges block by block to be trained on an engine ({', '.join(able)}), got {name}, which holds its "
            "graph in memory: give --graph EDGES --nodes NODES without --engine"
        )

    def create(self, **settings: Any) -> Method:
        """The method with these settings; an unknown one is an error that lists the known ones."""
        cls = self.own
        if cls is None:
            module, name = self.home.split(":")
            with needs_training("training"):
                cls = getattr(importlib.import_module(module), name)
        known = [f.name for f in fields(cls)]
        unknown = sorted(set(settings) - set(known))
        if unknown:
            raise InputError(f"setting must be one of {', '.join(known)}, got {', '.join(unknown)}")
        method: Method = cls(**settings)
        return method


BLOCK_ENGINES = ("local", "outofcore", "ray")
"""For methods that read edges block by block alone (`Graph.map_rows`)."""
METHODS = {
    "caribou-edp": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.caribou:Caribou",
        "the paper's CARIBOU: encoder, perturbed contractive message passing, classification module",
        engines=BLOCK_ENGINES,
    ),
    "caribou-inf": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.caribou:Caribou",
        "the same without noise: a yardstick",
        private=False,
        engines=BLOCK_ENGINES,
    ),
    "caribou-ndp": MethodInfo(
        PrivacyUnit.NODE,
        "caribou.methods.node.caribou:CaribouNdp",
        "the paper's CARIBOU with every part private; it always reads the graph",
    ),
    "votes-edp": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.votes:VotesEdge",
        "votes in rounds, every pair of nodes asked once",
        engines=BLOCK_ENGINES,
    ),
    "votes-ndp": MethodInfo(
        PrivacyUnit.NODE, "caribou.methods.node.votes:VotesNdp", "a private linear model, with votes where they pay"
    ),
    "sage-edp": MethodInfo(
        PrivacyUnit.EDGE, "caribou.methods.edge.sage:SageEdge", "GraphSAGE on a graph perturbed by randomized response"
    ),
    "sage-inf": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.sage:SageEdge",
        "GraphSAGE on the graph itself: a yardstick",
        private=False,
    ),
    "sage-ndp": MethodInfo(
        PrivacyUnit.NODE, "caribou.methods.node.sage:SageNdp", "one SAGE layer, trained and applied privately"
    ),
    "lapgraph-edp": MethodInfo(
        PrivacyUnit.EDGE, "caribou.methods.edge.lapgraph:LapGraph", "GraphSAGE on a graph perturbed by LapGraph"
    ),
    "gap-edp": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.gap:Gap",
        "GAP: noisy sums of embeddings over neighbours, K hops, all released",
    ),
    "gap-inf": MethodInfo(
        PrivacyUnit.EDGE, "caribou.methods.edge.gap:Gap", "the same without noise: a yardstick", private=False
    ),
    "gap-ndp": MethodInfo(
        PrivacyUnit.NODE, "caribou.methods.node.gap:GapNdp", "GAP with a private encoder and a private classifier"
    ),
    "progap-edp": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.progap:Progap",
        "ProGAP: trained in stages, each on noisy sums of what the stage before learned",
    ),
    "progap-inf": MethodInfo(
        PrivacyUnit.EDGE, "caribou.methods.edge.progap:Progap", "the same without noise: a yardstick", private=False
    ),
    "progap-ndp": MethodInfo(
        PrivacyUnit.NODE, "caribou.methods.node.progap:ProgapNdp", "ProGAP with every stage trained privately"
    ),
    "lpgnet-edp": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.lpgnet:LpgNet",
        "LPGNet: noisy counts of predicted classes over neighbours, in stages",
    ),
    "dpdgc-edp": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.dpdgc:Dpdgc",
        "DPDGC: noisy products of A with privately trained weights",
        transductive=True,
    ),
    "dpdgc-inf": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.dpdgc:Dpdgc",
        "the same without noise: a yardstick",
        private=False,
        transductive=True,
    ),
    "dpdgc-ndp": MethodInfo(
        PrivacyUnit.NODE,
        "caribou.methods.node.dpdgc:DpdgcNdp",
        "DPDGC with every part trained privately",
        transductive=True,
    ),
    "mlp-dp": MethodInfo(
        PrivacyUnit.NODE,
        "caribou.methods.node.mlp:MlpDp",
        "a private model that never sees an edge, linear unless told otherwise",
    ),
    "mlp": MethodInfo(
        PrivacyUnit.EDGE,
        "caribou.methods.edge.mlp:Mlp",
        "the encoder alone: no edge is read, no noise is needed",
        data_independent=True,
        engines=BLOCK_ENGINES,
    ),
}
"""The methods of ``caribou train``. Classes are imported when one is created."""


def method_info(name: str) -> MethodInfo:
    """The entry of METHODS; an unknown name is an error that lists the known ones."""
    if name not in METHODS:
        load_own_methods()
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {name!r}{meant}")
    return METHODS[name]


OWN_METHODS = "CARIBOU_METHODS"
"""The environment variable that names Python files with methods of one's own, as a list of paths; child processes inherit it."""
_NEEDED = ("settings", "plan", "fit", "predict")
_OTHER_GRAPHS = ("plan_graph", "predict_graph")


def register(name: str, method: type, *, unit: PrivacyUnit | str, summary: str = "a method of your own") -> None:
    """Give a method of your own a name, by which `Model`, ``train``, ``run`` and ``audit`` know it.

    The class is a frozen dataclass of public settings with the functions of `Method`. Without ``plan_graph`` and
    ``predict_graph`` it predicts no other graph. Commands find it in the files that ``caribou --methods FILE`` names, or the
    environment variable CARIBOU_METHODS. What it promises is declared with `own_mechanism`; an audit can attack it.

    Args:
        name: a new one, such as "my-method".
        method: the class.
        unit: "edge" or "node".
        summary: one line for ``caribou methods``.

    Returns:
        Nothing.

    >>> import caribou as cb
    >>> from caribou.methods.edge.mlp import Mlp
    >>> cb.register("own-mlp", Mlp, unit="edge")
    >>> cb.Model("own-mlp", cb.Budget(4), hidden=[8])
    Model('own-mlp', epsilon = 4, delta = 1e-05 at edge level, hidden=[8])
    >>> _ = METHODS.pop("own-mlp")                                                    # the table is as it was
    """
    if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum():
        raise InputError(f"name must be letters, digits and hyphens, got {name!r}")
    known = METHODS.get(name)
    if known is not None and known.own is None:
        raise InputError(f"name must be new, got {name!r}, which is a method of the library")
    missing = [part for part in _NEEDED if not callable(getattr(method, part, None))]
    if missing or not isinstance(method, type) or not is_dataclass(method):
        raise InputError(f"method must be a dataclass with {', '.join(_NEEDED)}, got one without {missing or 'fields'}")
    transductive = not all(callable(getattr(method, part, None)) for part in _OTHER_GRAPHS)
    METHODS[name] = MethodInfo(
        PrivacyUnit.parse(unit),
        f"{method.__module__}:{method.__qualname__}",
        summary,
        transductive=transductive,
        own=method,
    )


def load_own_methods() -> None:
    """Import the files that CARIBOU_METHODS names, each once; they call `register`."""
    for entry in filter(None, os.environ.get(OWN_METHODS, "").split(os.pathsep)):
        file = Path(entry).absolute()
        if not file.is_file() or file.suffix != ".py" or not file.stem.isidentifier():
            raise InputError(f"methods must name Python files (--methods), got {entry!r}")
        if str(file.parent) not in sys.path:
            sys.path.insert(0, str(file.parent))  # by its own name, so that worker processes can import it, too
        try:
            importlib.import_module(file.stem)
        except Exception as error:
            raise InputError(f"{entry} cannot be imported: {type(error).__name__}: {error}") from error
