"""The method under audit: what it claims, one fit that says so, and the graph that attacks may use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from caribou import methods
from caribou.audit.claims import Claim
from caribou.audit.noise_replay import Replay, replay_fits
from caribou.audit.pairs import worst_pairs
from caribou.audit.targets import without_edges
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Fitted, Method
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate
from caribou.randomness import Streams


@dataclass(frozen=True, eq=False)
class AuditedMethod:
    """A method, the budget that it is given, and what an attack may use.

    Args:
        name: the method's name; reports show it.
        method: what is audited.
        budget: what a fit may spend, and at which privacy unit.
        graph: public data for attacks that need a graph; None if there is none.
        seed: every draw of every attack follows from it.
        transductive: the method predicts no other graph.

    >>> from caribou.methods import METHODS
    >>> audited = AuditedMethod("mlp", METHODS["mlp"].create(), Budget(2.0, 1e-5))
    >>> audited.predicts_graphs, audited.streams.seed
    (True, 0)
    """

    name: str
    method: Method
    budget: Budget
    graph: Graph | None = None
    seed: int = 0
    transductive: bool = False

    def __post_init__(self) -> None:
        if self.graph is not None:
            self.graph.sizes(self.budget.unit)  # at node level attacks rebuild graphs of the declared classes

    @property
    def streams(self) -> Streams:
        """The public randomness of all attacks."""
        return Streams(self.seed)

    @property
    def predicts_graphs(self) -> bool:
        """Whether predictions with public weights can be played: at edge level, if the method predicts other graphs."""
        return self.budget.unit is PrivacyUnit.EDGE and not self.transductive

    @property
    def own_graph(self) -> Graph:
        """The graph that attacks are made on; an error if there is none."""
        if self.graph is None:
            raise InputError("dataset must be given for this attack, got none")
        return self.graph

    @cached_property
    def refusal(self) -> str:
        """Why the method predicts no other graph, in its own words; empty if it does. Assumes: `own_graph`."""
        try:
            self.method.plan_graph(self.own_graph.sizes(self.budget.unit), self.budget, {})
        except InputError as error:
            return str(error)
        return ""

    def fit(self, graph: Graph, streams: Streams, secret: Streams) -> Fitted:
        """A fit on ``graph``; ``secret`` seeds its privacy noise."""
        return methods.fit(self.method, graph, self.budget, streams, NoiseSource.seeded(secret.seed))

    def predict(self, fitted: Fitted, graph: Graph, streams: Streams, secret: Streams) -> Fitted:
        """A prediction of ``graph`` by the weights of a fit; ``secret`` seeds its privacy noise."""
        noise = NoiseSource.seeded(secret.seed)
        return methods.predict_graph(self.method, fitted.weights, graph, self.budget, streams, noise)

    @cached_property
    def replay(self) -> Replay:
        """The noise replay of the method. Assumes: `predicts_graphs`."""
        return replay_fits(self.method, self.budget, self.streams, self.seed)

    @cached_property
    def fitted(self) -> Fitted:
        """A fit on a worst-case graph, for its certificate; at edge level without any edge, so that its weights are public."""
        if self.predicts_graphs:
            return self.replay.fitted
        graph = worst_pairs(self.budget.unit)[0].joined
        if self.budget.unit is PrivacyUnit.EDGE:
            graph = without_edges(graph)
        return self.fit(graph, self.streams, self.streams)

    @property
    def claim_fits(self) -> int:
        """How many fits the claim is read from; all attacks share them."""
        return 2 if self.predicts_graphs else 1

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The certificates of all fits and predictions made so far; each must keep to the budget."""
        return self.replay.certificates if self.predicts_graphs else (self.fitted.certificate,)

    @cached_property
    def claim(self) -> Claim:
        """What the certificate of a fit claims."""
        return Claim.of_certificate(self.fitted.certificate)
