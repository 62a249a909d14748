"""G-MIA: which nodes was the model trained on? In the TSTF setting: trained on a subgraph, tested on the full graph.

Olatunji, Nejdl and Khosla, "Membership inference attack on graph neural networks", IEEE TPS-ISA 2021. The adversary trains a
shadow model of the same kind on other nodes, learns from its posteriors how members look, and judges the target's.

Not all that it finds is membership, and two controls say how much is not. TSTF queries members in the subgraph of the training
nodes and others in the full graph: ``details["same_query_auc"]`` is the same attack with all nodes queried in the full graph.
Members are drawn evenly by class, others from what is left: ``details["class_auc"]`` is what a node's class alone tells, without
any model.

The AUC is computed once, from the member score. (The published one is the mean over batches of balanced accuracies.)
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from caribou._validate import integer
from caribou.audit.attack import Findings, MeasuringAttack, Terms
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.metrics import allowed_rates, summarise
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.metrics import Scored, area_under_curve
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.events import Event
from caribou.randomness import Streams

HIDDEN = (100, 50)
EPOCHS = 100
BATCH = 32
LEARNING_RATE = 0.01
TSTF = "TSTF: members queried in their subgraph, others in the full graph"
TRANSDUCTIVE = "transductive: one graph"

Rows = tuple[np.ndarray, np.ndarray]
"""Posteriors [m, C], and who is a member [m]."""


@dataclass(frozen=True)
class Sizes:
    """``per_class``: q, members of each class; ``others``: t, nodes that are no members. Target and shadow have as many each."""

    per_class: int
    others: int

    def __post_init__(self) -> None:
        integer(at_least=1, per_class=self.per_class)
        integer(at_least=1, others=self.others)


PUBLISHED = {"cora": Sizes(90, 630), "citeseer": Sizes(100, 600), "pubmed": Sizes(1500, 4500)}


def default_sizes(graph: Graph) -> Sizes:
    """The published sizes; else q = half the smallest class and as many others as members, if there are so many.

    Where classes are of one size, half of them would leave nobody: q is at most n / 3C, so that a third of the nodes is left.
    """
    if graph.name in PUBLISHED:
        return PUBLISHED[graph.name]
    labels = graph.labels
    if labels is None:
        raise InputError(f"graph must have labels for a membership attack, got {graph!r} without")
    counts = np.bincount(labels[labels >= 0], minlength=graph.num_classes)
    per_class = min(int(counts.min()) // 2, graph.num_nodes // (3 * graph.num_classes))
    left = graph.num_nodes - 2 * per_class * graph.num_classes
    return Sizes(per_class, min(per_class * graph.num_classes, left // 2))


@dataclass(frozen=True, eq=False)
class Half:
    """The nodes of the target or of the shadow model: its members (training nodes), and others."""

    members: np.ndarray
    others: np.ndarray


def draw_halves(graph: Graph, sizes: Sizes, rng: np.random.Generator) -> tuple[Half, Half]:
    """Target and shadow, disjoint: of every class the first q and the next q nodes at random, then t and t of all the rest."""
    if graph.labels is None:
        raise InputError(f"graph must have labels for a membership attack, got {graph!r} without")
    q = sizes.per_class
    members: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for label in range(graph.num_classes):
        order = rng.permutation(np.flatnonzero(graph.labels == label))
        if len(order) < 2 * q:
            raise InputError(
                f"per_class must be at most half of every class, got {q} with {len(order)} in class {label}"
            )
        members[0].append(order[:q])
        members[1].append(order[q : 2 * q])
    target, shadow = (np.sort(np.concatenate(part)) for part in members)
    present = np.setdiff1d(np.arange(graph.num_nodes), graph.absent)
    pool = rng.permutation(np.setdiff1d(present, np.concatenate([target, shadow])))
    if len(pool) < 2 * sizes.others:
        raise InputError(f"others must be at most half of the nodes that are left ({len(pool)}), got {sizes.others}")
    t = sizes.others
    return Half(target, pool[:t]), Half(shadow, pool[t : 2 * t])


# -- the attack ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gmia(MeasuringAttack):
    """The attack; ``sizes``: how many nodes are members and others, None = the published or default ones of the graph."""

    name: ClassVar[str] = "gmia"
    fits_per_run: ClassVar[int] = 2
    """A target and a shadow model."""

    sizes: Sizes | None = None

    def run(self, audited: AuditedMethod, terms: Terms) -> Findings:
        """In every run: draw the nodes, fit target and shadow, learn from the shadow's posteriors, judge the target's.

        The attack fits a method that predicts no other graph on the full graph, where members are the training nodes;
        ``details["mode"]`` says so.
        """
        graph, streams = audited.own_graph, audited.streams
        sizes = self.sizes or default_sizes(graph)
        found: list[Scored] = []
        controls: list[dict[str, float]] = []
        for run in self.each_run(terms):
            own = streams.child(f"gmia run {run}")
            halves = draw_halves(graph, sizes, own.attack)
            target, shadow = (
                observe(audited, half, own.child(who), streams.child(f"gmia noise {run} {who}"))
                for who, half in zip(("target", "shadow"), halves, strict=True)
            )
            found.append(judged(target.rows(), shadow.rows(), own.child("attack")))
            same = judged(target.rows(same_query=True), shadow.rows(same_query=True), own.child("fair attack"))
            controls.append({"same_query_auc": area_under_curve(same), "class_auc": class_area(graph, *halves)})
        result = summarise(
            self.name,
            found,
            allowed=allowed_rates(target.events, audited.budget, PrivacyUnit.NODE),
            details={
                "mode": TRANSDUCTIVE if audited.refusal else TSTF,
                "members": len(target.members),
                "others": len(target.others),
                **{name: float(np.mean([control[name] for control in controls])) for name in controls[0]},
                "bound_applies": False,
            },
            note="G-MIA from posteriors; the fit and each query of the full graph drew noise of their own, once.",
        )
        return Findings({self.name: result})


def judged(target: Rows, shadow: Rows, streams: Streams) -> Scored:
    """The member scores of the target's rows, by what the shadow's rows teach."""
    model = train_attack(*shadow, streams.attack)
    return Scored(model.predict_proba(target[0])[:, 1], target[1])


@dataclass(frozen=True, eq=False)
class Posteriors:
    """Posteriors of a model for members in training, members in the full graph and others there; and the cost of the fit."""

    members: np.ndarray
    members_again: np.ndarray
    others: np.ndarray
    events: tuple[Event, ...]

    def rows(self, *, same_query: bool = False) -> Rows:
        """Posteriors and who is a member."""
        members = self.members_again if same_query else self.members
        return np.concatenate([members, self.others]), np.arange(len(members) + len(self.others)) < len(members)


def observe(audited: AuditedMethod, half: Half, streams: Streams, secret: Streams) -> Posteriors:
    """Fit on the members alone and query; training nodes of the full graph are the members, too."""
    full = audited.own_graph.with_split(all_in_training(half.members))
    if audited.refusal:
        fitted = audited.fit(full, streams, secret)
        inside, rows = fitted.probabilities[half.members], fitted.probabilities
    else:
        fitted = audited.fit(induced(full, half.members), streams, secret)
        inside, rows = fitted.probabilities, audited.predict(fitted, full, streams, secret.child("query")).probabilities
    return Posteriors(inside, rows[half.members], rows[half.others], fitted.certificate.cost)


def induced(graph: Graph, nodes: np.ndarray) -> Graph:
    """The subgraph on ``nodes``, numbered in their order; all of them are training nodes."""
    place = np.full(graph.num_nodes, -1)
    place[nodes] = np.arange(len(nodes))
    made = graph.with_split(None).placed(place, len(nodes)).renamed(f"{graph.name}, training nodes")
    return made.with_split(all_in_training(np.arange(len(nodes))))


def all_in_training(nodes: np.ndarray) -> Split:
    """A split without validation and test nodes."""
    nobody = np.empty(0, np.int64)
    return Split(nodes, nobody, nobody)


def class_area(graph: Graph, target: Half, shadow: Half) -> float:
    """AUC of the share of members among the shadow's nodes of a class: what sampling by class gives away by itself."""
    labels = np.asarray(graph.labels) + 1  # unknown = 0
    inside, outside = (
        np.bincount(labels[part], minlength=graph.num_classes + 1) for part in (shadow.members, shadow.others)
    )
    share = (inside + 0.5) / (inside + outside + 1)
    nodes = np.concatenate([target.members, target.others])
    return area_under_curve(Scored(share[labels[nodes]], np.arange(len(nodes)) < len(target.members)))


# -- the attack model ----------------------------------------------------------------------------------------------


def train_attack(posteriors: np.ndarray, members: np.ndarray, rng: np.random.Generator) -> MLPClassifier:
    """An MLP C - 100 - 50 on the posteriors, as published: Adam, batches of 32, 100 epochs, the last one is used."""
    model = MLPClassifier(
        HIDDEN,
        batch_size=min(BATCH, len(members)),
        learning_rate_init=LEARNING_RATE,
        max_iter=EPOCHS,
        n_iter_no_change=EPOCHS,
        random_state=int(rng.integers(2**31)),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it stops after its epochs, as published
        return model.fit(posteriors, members)
