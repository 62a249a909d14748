"""Estimators: a method with its budget, fitted on a graph, asked for predictions, saved and loaded.

>>> import caribou as cb
>>> graph = cb.datasets.load("csbm", nodes=300, seed=1)
>>> model = cb.Caribou(hops=2, contraction=0.8, budget=cb.Budget(epsilon=4, delta=1e-5, unit="edge")).fit(graph)
>>> model.predict().shape, model.certificate.status
((300,), 'private')
"""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from caribou.errors import CaribouError, InputError, RunError
from caribou.graph import Graph, listed
from caribou.graph.arrivals import Arrivals, named_rows
from caribou.graph.checks import reading_call
from caribou.machine.notebook import html_table
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Fitted, GrowingMethod, declared_plan, extend, fit, predict_graph
from caribou.methods.catalogue import METHODS, method_info, names_of, resolve
from caribou.metrics import Metrics, Scored, Threshold, best_threshold, metric_name, rarest
from caribou.model.frames import class_array, predictions_tables
from caribou.model.growth import link_to, notes_of_extension, require_extendable, resumable_notes, was_extended
from caribou.model.state import (
    ModelState,
    add_release,
    check_target,
    graph_fingerprint,
    is_run_of,
    read_state,
    write_state,
)
from caribou.models.published_metrics import PublishedMetrics, publish_metrics
from caribou.privacy.assumptions import LASTING, Assumption, AssumptionName
from caribou.privacy.budget import Budget, PrivacyUnit, warn_of_large_delta
from caribou.privacy.certificate import Certificate
from caribou.privacy.ledger import Ledger
from caribou.privacy.plan import ReleasePlan
from caribou.randomness import Streams
from caribou.release import LedgerLike, require_left
from caribou.tables.inspect import edge_feature_words
from caribou.tables.rules import ColumnRules, computed_from_edges

if TYPE_CHECKING:
    import pandas as pd

    from caribou.models.own_encoder import FittedEncoder

PARTS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class _Origin:
    """What a model holds beside its state in the process that fitted it, and no copy does.

    Args:
        given: what `fit` or `extend` was given.
        graph: the same as a graph, in the order of the caller.
        rows: the rows of its nodes in the model; None: the same order.
        trained: the graph in the order of the model, for metrics.
        probabilities: of its nodes, in the order of the model; at node level they are for the nodes alone. [n, C]
        ledger: where the fit was charged.
        encoder: what was fitted on the features in the place of a prior.
    """

    given: Any = None
    graph: Graph | None = None
    rows: np.ndarray | None = None
    trained: Graph | None = None
    probabilities: np.ndarray = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    ledger: Ledger | Path | None = None
    encoder: FittedEncoder | None = None


class Model:
    """A method of `caribou.methods.METHODS` with its settings and a budget.

    ``fit`` trains on a graph (a `Graph` or a PyG ``Data``, which is not changed) and makes one release. At node level the
    graph must declare its classes: ``Graph.from_pyg(data, classes=...)``. Predictions for that graph then cost nothing. Another
    graph costs a release about it, which `release` makes; predictions never spend. ``seed`` is the public seed (split roles,
    initial weights); the privacy noise comes from the operating system. A model that leaves the process, by `save`, ``pickle``,
    ``joblib`` or ``copy``, holds what `save` holds: never the graph.

    Args:
        method: a family such as "votes", of which the budget decides the unit, or a full name of `caribou.methods.METHODS`.
        budget: epsilon, delta and the privacy unit of the method.
        seed: the public seed.
        encoder: edge level, but for sage and lapgraph: what gives class probabilities from features in the place of the fitted
            encoder; they are X^(0) where a method sends embeddings. Class probabilities [n, C], out of fold for labelled nodes;
            a scikit-learn classifier or a function (columns, classes) -> torch module, which are cross-fitted; or the folder of
            a saved run. It must be public: no edge may have been read.
        settings: of the method; `caribou methods` and docs/settings.md list them.

    >>> import caribou as cb
    >>> cb.Model("gap-edp", cb.Budget(4, 1e-5, "edge"), hops=2)
    Model('gap-edp', epsilon = 4, delta = 1e-05 at edge level, hops=2)
    """

    def __init__(self, method: str, budget: Budget, *, seed: int = 0, encoder: Any = None, **settings: Any) -> None:
        if not isinstance(budget, Budget):
            raise InputError(f"budget must be a Budget, as cb.Budget(epsilon=4), got {type(budget).__name__}")
        method = resolve(method, budget.unit)
        info = METHODS[method]
        info.check(method, budget)
        self.method, self.budget = method, budget
        self._recipe = info.create(**settings)
        if encoder is not None and not self.takes_prior:
            why = (
                "features are private at node level"
                if info.unit is PrivacyUnit.NODE
                else "it trains on the graph as a whole"
            )
            raise InputError(
                f"encoder must go with a method that starts from public class probabilities, got {method}: {why}"
            )
        own = {"method": method, "budget": budget, "seed": seed, "encoder": encoder}
        self._given: dict[str, Any] = {**own, **self.settings, **settings}
        self._encoder = encoder
        self._streams = Streams(seed)
        self._fitted: ModelState | None = None
        self._origin = _Origin()
        self._folders: tuple[Path, ...] = ()  # where the model lies; each must know that it is extended

    def __repr__(self) -> str:
        usual = method_info(self.method).recipe().settings()
        changed = "" if self._encoder is None else f", encoder={type(self._encoder).__name__}"
        changed += "".join(f", {k}={v!r}" for k, v in self.settings.items() if v != usual[k])
        state = "" if self._fitted is None else ", fitted"
        return f"{type(self).__name__}({self.method!r}, {self.budget}{changed}{state})"

    def _repr_html_(self) -> str:
        usual = method_info(self.method).recipe().settings()
        rows = [("method", self.method), ("budget", self.budget)]
        rows += [(key, value) for key, value in self.settings.items() if value != usual[key]]
        if self._fitted is None:
            rows.append(("state", "not fitted"))
        else:
            rows += [
                (
                    "fitted on",
                    f"{self._fitted.nodes} nodes, {self._fitted.columns} features, classes {listed(self.classes)}",
                ),
                ("certificate", self._fitted.certificate.status),
                ("not protected", self.budget.unit.unprotected),
            ]
        return html_table(type(self).__name__, rows)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The public settings of the method."""
        return self._recipe.settings()

    @property
    def takes_prior(self) -> bool:
        """Whether the method starts from class probabilities, which an ``encoder`` or `Graph.with_prior` may give."""
        return bool(getattr(self._recipe, "takes_prior", False))

    # -- scikit-learn's habits -------------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the constructor takes, by name, as given or by default. ``deep``: nothing is nested, so it changes nothing."""
        return dict(self._given)

    def set_params(self, **params: Any) -> Self:
        """Other ``params`` of the constructor. The model must be fitted again: what was released had other settings."""
        known = self.get_params()
        unknown = sorted(set(params) - set(known))
        if unknown:
            raise InputError(f"parameter must be one of {', '.join(known)}, got {', '.join(unknown)}")
        unit = getattr(params.get("budget", self.budget), "unit", None)
        if params.get("method", self.method) != self.method or unit is not self.budget.unit:
            # settings of another method have other names
            known = {name: known[name] for name in ("method", "budget", "seed", "encoder") if name in known}
        self.__init__(**{**known, **params})  # type: ignore[misc]
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The classes in the user's own words, or numbers where all of them are whole numbers. [C]"""
        return class_array(self.state.classes)

    @property
    def n_features_in_(self) -> int:
        """Number of feature columns of the training graph."""
        return self.state.columns

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the feature columns of the training graph, where it had any. [d]"""
        names = self.state.feature_names
        if names is None:
            raise AttributeError("feature_names_in_: the training graph had no names of columns")
        return np.array(names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=False),
            transformer_tags=None,
            classifier_tags=ClassifierTags(),
            regressor_tags=None,
        )

    # -- fitting ---------------------------------------------------------------------------------------------------

    def fit(
        self,
        data: Any,
        y: None = None,
        *,
        ledger: LedgerLike | None = None,
        noise: NoiseSource | None = None,
        replace_fingerprint: bool = False,
    ) -> Self:
        """Train and release within the budget.

        Args:
            data: a `Graph`, or a ``torch_geometric.data.Data``, with labels and a split; a ``Data`` without masks gets one.
            y: None; labels are part of the graph. It is here because pipelines hand it over.
            ledger: charge the cost, or refuse, before any noise is drawn.
            noise: private randomness (default: a fresh key from the operating system).
            replace_fingerprint: declares that changed content is still about the same people.

        Returns:
            The model itself.
        """
        if y is not None:
            raise InputError(f"y must be None: labels are part of the graph (Graph.labels), got {type(y).__name__}")
        given = graph = _learnable(data)
        warn_of_large_delta(self.budget, graph.num_nodes)
        suspects = computed_from_edges(graph.feature_names or ())
        if suspects and self.budget.unit is PrivacyUnit.EDGE:
            leave_out = f"ColumnRules(ignore={list(suspects)!r})"
            warnings.warn(f"{edge_feature_words(suspects)}; leave them out, {leave_out}, or be sure", stacklevel=2)
        encoder = None
        if self._encoder is not None:
            # public work first: what fails in it costs nothing
            require_left(self.plan(graph), graph, ledger)
            from caribou.models.own_encoder import with_encoder

            graph, encoder = with_encoder(graph, _opened(self._encoder), self._streams)
        rows = self._named_rows(graph)
        fitted = fit(
            self._recipe,
            graph,
            self.budget,
            self._streams,
            noise,
            ledger=ledger,
            replace_fingerprint=replace_fingerprint,
        )
        self._take(fitted, graph, charged=ledger is not None, rows=rows)
        self._origin = replace(self._origin, given=data, graph=given, ledger=_lasting(ledger), encoder=encoder)
        self._warn_of_another_charge(graph.name)
        return self

    def _warn_of_another_charge(self, dataset: str) -> None:
        """A cell of a notebook that is run again pays again, and nothing else would show it."""
        ledger = self._open_ledger()
        if ledger is None or self.certificate.epsilon_spent == 0:
            return
        entries = {entry.certificate_id: entry for entry in ledger.entries(dataset)}
        own = entries[self.certificate.certificate_id]
        before = [e.id for e in entries.values() if e.id < own.id and e.description == own.description]
        if before:
            total = ledger.total(dataset, self.budget.unit)
            warnings.warn(
                f"this fit was charged once more: release {own.id} of {dataset!r} in {ledger.path}, after release {before[-1]} "
                f"of the same kind; all releases together spent epsilon = {total.epsilon_spent:.4g} at delta = {total.delta:g}, "
                f"{total.unit.value} level. Predictions of a fitted or loaded model cost nothing",
                stacklevel=3,
            )

    def plan(self, data: Any) -> ReleasePlan:
        """What `fit` will release about ``data`` and cost, from public numbers alone: nothing is drawn and nothing is spent."""
        graph = as_graph(data)
        plan = self._recipe.plan(graph.sizes(self.budget.unit), self.budget)
        if self._encoder is not None and graph.prior is None:
            plan = replace(plan, assumptions=(*plan.assumptions, Assumption(AssumptionName.GIVEN_PRIOR)))
        return declared_plan(self._recipe, plan, self.budget, graph)

    @classmethod
    def of(
        cls,
        method: str,
        budget: Budget,
        settings: Mapping[str, Any],
        fitted: Fitted,
        graph: Graph,
        *,
        charged: bool = False,
    ) -> Model:
        """A model that was fitted elsewhere, e.g. by a search for its settings.

        Args:
            method, budget, settings: as in `Model`.
            fitted: what came out.
            graph: what it was fitted on.
            charged: in a ledger.

        Returns:
            The model.
        """
        model = Model(method, budget, **settings)
        model._take(fitted, graph, charged=charged, rows=model._named_rows(graph))
        model._origin = replace(model._origin, given=graph, graph=graph)
        return model

    def _named_rows(self, graph: Graph) -> tuple[str, ...] | None:
        """By which nodes without names are known again when the graph grows. Its key is asked for, which may be refused."""
        at_edge_level = self.budget.unit is PrivacyUnit.EDGE
        grows = at_edge_level and graph.node_ids is None and isinstance(self._recipe, GrowingMethod)
        return named_rows(graph) if grows else None

    def _take(
        self,
        fitted: Fitted,
        graph: Graph,
        *,
        charged: bool,
        rows: tuple[str, ...] | None,
        batches: tuple[int, ...] = (),
    ) -> None:
        """The state of a fit on ``graph``; whatever an earlier fit left is gone."""
        at_edge_level = self.budget.unit is PrivacyUnit.EDGE
        ids = None if graph.node_ids is None or not at_edge_level else tuple(str(i) for i in graph.node_ids)
        state = ModelState(
            method=self.method,
            settings=self.settings,
            budget=self.budget,
            certificate=fitted.certificate,
            weights=fitted.weights,
            released=fitted.released,
            nodes=graph.num_nodes,
            columns=graph.num_features,
            classes=class_names(graph),
            node_ids=ids,
            feature_names=graph.feature_names,
            id_title=None if ids is None else graph.id_title,
            charged=charged,
            dataset=graph.name,
            batches=batches,
            column_rules=graph.column_rules,
            rows=rows,
        )
        self._fitted, self._folders = state, ()
        self._origin = _Origin(trained=graph, probabilities=fitted.probabilities)
        if self._chooses_thresholds(graph):
            self._fitted = replace(state, threshold=self._best_threshold(graph, None))

    # -- what came out ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> ModelState:
        """What was fitted, as it is saved: public sizes and names, what was released, and its certificate."""
        if self._fitted is None:
            raise _not_fitted()
        return self._fitted

    @property
    def certificate(self) -> Certificate:
        """What was released, and what it cost."""
        return self.state.certificate

    @property
    def embeddings(self) -> np.ndarray:
        """X^(K), the released state. [n, d]"""
        if "state" not in self.state.released:
            raise InputError(
                f"method must release embeddings ({', '.join(names_of(lambda info: info.embeddings))}), got {self.method}"
            )
        return self.state.released["state"]

    @property
    def released(self) -> Mapping[str, np.ndarray]:
        """Everything that the mechanisms released."""
        return self.state.released

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the columns of `predict_proba`."""
        return () if self._fitted is None else self._fitted.classes

    def predict_proba(self, data: Any = None, *, training_graph: bool = False) -> np.ndarray:
        """Class probabilities, a row per node in the order of `predictions_frame`: for tables that of their ids. [n, C]

        Without ``data``, or with the graph that `fit` was given, these are the nodes of the training graph. With other ``data``
        these are the nodes of a graph that `release` was called for; any other one is refused. Nothing is ever spent.

        ``training_graph=True`` declares that ``data`` is the training graph again. This is needed at node level after loading,
        because a saved model holds no features. The nodes must be in the order of training; of a model that was extended they may
        be in any order. At edge level their names are compared; at node level a saved model holds none.
        """
        state = self.state  # an unfitted model says so first, whatever it is given
        if data is None:
            return self._own_probabilities()
        if training_graph:
            graph = self._aligned(as_graph(data, state.classes))
            rows = self._check_nodes(graph)
            found = self._recipe.predict(state.weights, state.released, graph)
            return found if rows is None else found[rows]
        return self.release_of(data).probabilities

    def predict(self, data: Any = None, *, training_graph: bool = False) -> np.ndarray:
        """The most likely class of every node, as in `classes_`. [n]

        ``data``, ``training_graph``: as in `predict_proba`.
        """
        best = self.predict_proba(data, training_graph=training_graph).argmax(axis=1)
        return self.classes_[best]

    def predictions_frame(self, data: Any = None, *, training_graph: bool = False) -> pd.DataFrame:
        """Predictions with the id of every node: what ``caribou predict`` writes, as a pandas frame.

        A graph of tables has its nodes in the order of their ids, not of the rows: join by the first column, never by place. It
        is called as in the user's table, or ``node`` where it numbers nodes without ids. ``class``,
        ``probability``, ``flagged`` where there is a `threshold`, and ``p_`` with each class follow.

        ``data``, ``training_graph``: as in `predict_proba`.

        >>> import caribou as cb
        >>> model = cb.Model("mlp-dp", cb.Budget(4, 1e-5, "node")).fit(cb.datasets.load("chain-s"))
        >>> model.predictions_frame().columns.tolist()
        ['node', 'class', 'probability', 'p_0', 'p_1']
        """
        probabilities = self.predict_proba(data, training_graph=training_graph)
        graph = self._origin.trained if data is None else as_graph(data, self.classes)
        if graph is None or graph.node_ids is None:
            ids, title = self.node_ids if data is None else None, self.state.id_title
        else:
            ids, title = tuple(str(i) for i in graph.node_ids), graph.id_title
        new = self.is_new if data is None and self.is_new.any() else None
        (frame,) = predictions_tables(probabilities, self.classes, ids, title, self.threshold, new, rows=None)
        return frame

    def embed(self, data: Any = None) -> np.ndarray:
        """X^(K) of the training graph, or of another graph, ``data``, that `release` was called for. [n, d]"""
        own = self.embeddings  # a method without embeddings is refused, whatever it is given
        return own if data is None else self.release_of(data).released["state"]

    # -- another graph ---------------------------------------------------------------------------------------------

    def release(
        self,
        data: Any,
        *,
        epsilon: float | None = None,
        ledger: LedgerLike | None = None,
        noise: NoiseSource | None = None,
        replace_fingerprint: bool = False,
        spend: bool = False,
    ) -> Fitted:
        """Release predictions of another graph, which costs epsilon; `predict` and `embed` of that graph are free from then on.

        A graph is released once. What was released is kept by the model, in every folder that it was saved to, too; asking again
        gives the same answer and costs nothing.

        Args:
            data: the other graph.
            epsilon: of this release (default: that of the fit).
            ledger: charge the cost there (default: in the ledger of the fit, if it was charged in one).
            noise, replace_fingerprint: as in `fit`.
            spend: make another release about a graph that one was made about already.

        Returns:
            Class probabilities [n, C], what was released about the graph, and the certificate of that release.

        >>> import caribou as cb
        >>> model = cb.Votes(cb.Budget(4), max_rounds=2).fit(cb.datasets.load("csbm", nodes=200, seed=1))
        >>> other = cb.datasets.load("csbm", nodes=90, seed=2)
        >>> made = model.release(other)
        >>> made.certificate.epsilon, model.predict(other).shape
        (4.0, (90,))
        """
        private = as_graph(data, self.state.classes)
        before = None if spend else self.known_release(data)
        if before is not None:
            if epsilon not in (None, before.certificate.epsilon):
                raise InputError.of(
                    "epsilon",
                    f"be that of the release that was made about {private.name!r}, {before.certificate.epsilon:g}",
                    epsilon,
                    "spend=True makes another one",
                )
            return before
        budget = self.budget if epsilon is None else Budget(epsilon, self.budget.delta, self.budget.unit)
        method_info(self.method).check(self.method, budget)
        graph = self._aligned(private)
        self._require_inductive(graph)
        self._require_public_prior(graph)
        graph = self._encoded(graph)
        warn_of_large_delta(budget, graph.num_nodes)
        made = predict_graph(
            self._recipe,
            self.state.weights,
            graph,
            budget,
            self._streams,
            noise,
            ledger=self._open_ledger() if ledger is None else ledger,
            replace_fingerprint=replace_fingerprint,
            private=private,
        )
        self._keep(private, made)
        return made

    def known_release(self, data: Any) -> Fitted | None:
        """What was released about the graph ``data``, the training graph or another one; None if nothing was."""
        origin, state = self._origin, self.state
        if data is not None and (data is origin.given or data is origin.graph):
            return self._own_release()
        graph = as_graph(data, state.classes)
        fingerprint = graph_fingerprint(graph)
        own = origin.graph
        if own is not None and own.num_nodes == graph.num_nodes and graph_fingerprint(own) == fingerprint:
            return self._own_release()
        found = state.releases.get(fingerprint)
        if found is None:
            return None
        probabilities = found.released.get("probabilities")
        if probabilities is None:
            probabilities = self._recipe.predict(found.weights, found.released, self._aligned(graph))
        return Fitted(probabilities, found.certificate, found.released, found.weights)

    def _own_release(self) -> Fitted:
        """The release of the fit, with the rows in the order of the graph that was given."""
        state, own = self.state, self._own_probabilities()
        rows = self._origin.rows
        return Fitted(own if rows is None else own[rows], state.certificate, state.released, state.weights)

    def release_of(self, data: Any) -> Fitted:
        """What was released about the graph ``data``; refused if nothing was. Nothing is ever spent here."""
        found = self.known_release(data)
        if found is not None:
            return found
        graph = self._aligned(as_graph(data, self.state.classes))
        self._require_inductive(graph)
        raise InputError(
            f"graph must be the training graph or one that was released, got {graph.name!r}; predictions never spend: "
            f"model.release(graph, ledger=...) makes a release about it ({self.budget}), and its predictions are free from then "
            "on; if it is the training graph again, give training_graph=True"
        )

    def _require_inductive(self, graph: Graph) -> None:
        if METHODS[self.method].transductive:
            raise InputError.of("graph", f"be the training graph: {self.method} is transductive", graph.name)

    def _keep(self, graph: Graph, made: Fitted) -> None:
        """In the model and in its folders, so that this graph costs nothing again."""
        from caribou.models.class_prior import without_rows

        state, fingerprint = self.state, graph_fingerprint(graph)
        release = replace(made, weights=without_rows(made.weights))
        self._fitted = replace(state, releases={**state.releases, fingerprint: release})
        for folder in self._folders:
            if not is_run_of(folder, state.certificate.certificate_id):
                continue
            try:
                add_release(release, fingerprint, folder)
            except RunError as error:
                warnings.warn(
                    f"{error}; it is kept in this model alone: save the model to another folder", stacklevel=3
                )

    def _open_ledger(self) -> Ledger | None:
        """The ledger of the fit. A copy, or a loaded model, does not hold it: then another release must name one."""
        ledger = self._origin.ledger
        if ledger is None and self.state.charged:
            raise InputError(
                "ledger must be given for another release (ledger=...): this model was charged in one, which a copy or a saved "
                "model does not hold"
            )
        return ledger if ledger is None or isinstance(ledger, Ledger) else Ledger(ledger, create=False)

    # -- arrivals --------------------------------------------------------------------------------------------------

    def extend(
        self,
        data: Any,
        nodes: Any = None,
        *,
        ledger: LedgerLike | None = None,
        noise: NoiseSource | None = None,
        spend: bool = False,
        left: bool = False,
        same_order: bool = False,
        name: str | None = None,
        keep: Callable[[Model], object] = lambda model: None,
    ) -> Model:
        """Score nodes that arrived since, for nothing more: every pair with an arrival is asked once, and no old pair again.

        Only ``votes-edp`` can be extended. The new release is a batch of the one that this model was: all batches together cost
        its epsilon once (docs/privacy.md, Theorem 10). Nodes that were there send their label, if the graph now lists them as
        training nodes, or else the class that was released about them. Their own rows stay as they were: nothing is asked
        about them, and an edge that appeared between two of them is never read. A model can be extended once; the next batch
        extends the model that is returned.

        Args:
            data: the grown graph, a `Graph` or a PyG ``Data``; with ``nodes``, its edges as `caribou.read_graph` takes them.
                Nodes are known by their ids: one person with a new id is a new node. Without ids the first rows must be the
                nodes of this model, in its order; their features must show it.
            nodes: the node table, as `caribou.read_graph` takes it.
            ledger: enter the batch under the release that pays for it, or refuse, before any noise is drawn.
            noise: private randomness (default: a fresh key from the operating system).
            spend: charge the batch as a release of its own, e.g. because this model was extended already.
            left: declares that known nodes which are not in the graph have left; needed where more than half of them are not.
            same_order: without ids: declares that no row was moved; needed where more than half of the features have changed.
            name: under which the ledger knows the data set (default: the name of the fit).
            keep: called with the new model, e.g. to save it. A process that dies before this ends has lost nothing: the same
                call, with the same graph and ledger and without ``noise``, ends the extension of a saved model with the same
                answers.

        Returns:
            A new model, of everybody who was ever there: first the nodes of this model, then the arrivals by name.

        >>> import caribou as cb
        >>> grown = cb.datasets.load("csbm", nodes=240, seed=1)
        >>> month = cb.Votes(cb.Budget(4), max_rounds=2).fit(grown.first_nodes(200))
        >>> later = month.extend(grown)
        >>> later.predict().shape, later.certificate.epsilon
        ((240,), 4.0)
        """
        require_extendable(self.state, self._recipe)
        if nodes is not None:
            from caribou.datasets import read_graph

            data = read_graph(data, nodes)
        given = as_graph(data, self.classes)
        private = (
            given if name is None and self.state.dataset is None else given.renamed(name or str(self.state.dataset))
        )
        if not spend:
            self.arrivals.require_same_people(private, left=left, same_order=same_order)
        grown = self.arrivals.grown(self._encoded(self._aligned(private)))
        if ledger is None and self.state.charged:
            raise InputError("ledger must be given (ledger=...): this model was charged in one, got none")
        rows = self._named_rows(grown.graph)
        notes = None if spend else notes_of_extension(self.state, self._folders, private.name, ledger is not None)
        whole: AbstractContextManager[Any] = nullcontext(notes)
        if notes is not None and notes.paths and noise is None:
            whole = resumable_notes(notes, self.state, grown, private)
        with whole as journal:
            source = noise or (journal.key if journal is not None and journal.resumable else NoiseSource.secure())
            if not spend:
                self._fitted = replace(self.state, extended=True)  # the place is taken before anything is charged
            try:
                fitted = extend(
                    self._recipe,
                    self._own_release(),
                    grown,
                    self.budget,
                    source,
                    link=None if spend else link_to(self.certificate),
                    ledger=ledger,
                    private=private,
                    journal=journal,
                )
                child = Model(self.method, self.budget, seed=self._streams.seed, encoder=self._encoder, **self.settings)
                charged, batches = ledger is not None, grown.arrivals.batches
                child._take(fitted, grown.graph, charged=charged, rows=rows, batches=batches)
                if self.threshold is not None:  # what was flagged stays flagged
                    child._fitted = replace(child.state, threshold=self.threshold)
                child._origin = replace(
                    child._origin,
                    given=data,
                    graph=private,
                    rows=grown.place,
                    ledger=_lasting(ledger),
                    encoder=self._origin.encoder,
                )
                keep(child)
            except BaseException:
                if journal is not None and (journal.resumable or source.is_new):  # it may be tried again
                    self._fitted = replace(self.state, extended=False)
                    journal.failed(ledger, private.name)
                raise
        return child

    @property
    def arrivals(self) -> Arrivals:
        """Who has been asked, batch by batch."""
        return Arrivals(self.state.batches, self.state.node_ids, self.state.rows)

    @property
    def is_new(self) -> np.ndarray:
        """Who came with the last batch, if there was more than one (`extend`). [n], bool"""
        before = sum(self.state.batches[:-1])
        return (np.arange(self.state.nodes) >= before) & (before > 0)

    # -- metrics ---------------------------------------------------------------------------------------------------

    def score(
        self, part: str = "test", data: Any = None, *, metric: str = "accuracy", positive: str | int | None = None
    ) -> float:
        """One metric on a part of the split: "train", "val" or "test". Not for publication at node level: it reads labels.

        ``data``: the training graph, which a loaded model does not hold. ``metric``: a name in `caribou.metrics.METRICS`, such as
        "average_precision" (or "ap"), "macro_f1" or "brier". ``positive``: as in `metrics`.
        """
        metric_name(metric)  # before anything is computed
        return self.metrics(part, data, positive=positive).value(metric)

    def metrics(self, part: str = "test", data: Any = None, *, positive: str | int | None = None) -> Metrics:
        """All metrics on a part of the split, as `score` gives one. Not for publication at node level: they read labels.

        ``part`` and ``data``: as in `score`. ``positive``: the class that rankings are about, by its word or number; None: of two
        classes the rarer, of more all of them.
        """
        if part not in PARTS:
            raise InputError(f"part must be one of {', '.join(PARTS)}, got {part!r}")
        if data is None and self._origin.trained is None:
            raise InputError("data must be given to a loaded model: a run holds no labels, got None")
        graph = self._origin.trained if data is None else _learnable(data, self.classes)
        same = data is None
        probabilities = self._own_probabilities() if same else self.predict_proba(graph, training_graph=True)
        return metrics_of(probabilities, graph, part, self._place_of(positive))  # type: ignore[arg-type]

    def arrival_metrics(self, *, positive: str | int | None = None) -> Metrics | None:
        """All metrics on test nodes of the last batch, as `metrics` gives them; None where none of them has a label.

        ``positive``: as in `metrics`. Arrivals that are training or validation nodes sent their label to others, so they measure
        nothing.
        """
        graph = self._origin.trained
        if graph is None or graph.labels is None or graph.split is None:
            return None
        test = graph.split.test
        rows = test[(self.is_new[test]) & (graph.labels[test] >= 0)]
        if not len(rows):
            return None
        return Metrics(self._own_probabilities()[rows], np.array(graph.labels)[rows], self._place_of(positive))

    @property
    def threshold(self) -> Threshold | None:
        """From which probability on a node is flagged as one of the positive class; None if no threshold was chosen.

        At edge level with two classes `fit` chooses the one with the best F1 on validation nodes. `choose_threshold` does so for
        another class. At node level validation labels are private, and none is chosen.
        """
        return None if self._fitted is None else self._fitted.threshold

    def choose_threshold(self, positive: str | int) -> Threshold:
        """The threshold of class ``positive``, by its word or number, with the best F1 on validation nodes. Edge level only."""
        if self._origin.trained is None:
            raise InputError("model must hold its graph to choose a threshold: call fit(data) first, got a loaded one")
        if self.budget.unit is PrivacyUnit.NODE:
            raise InputError(
                "threshold must not be chosen at node level: it would read private validation labels without noise; "
                "declare one where predictions are written"
            )
        found = self._best_threshold(self._origin.trained, self._place_of(positive))
        if found is None:
            raise InputError(f"validation nodes must be of class {positive!r} and of another, got one kind only")
        self._fitted = replace(self.state, threshold=found)
        return found

    def publish_metrics(
        self,
        epsilon: float,
        data: Any = None,
        *,
        ledger: LedgerLike | None = None,
        noise: NoiseSource | None = None,
        replace_fingerprint: bool = False,
    ) -> PublishedMetrics:
        """Metrics of the test nodes with noise, which may be published at node level: one more release.

        ``epsilon``: what test nodes pay for it, beside the fit. ``data``: the training graph, which a loaded model does not hold.
        ``ledger``: charge the cost there (default: in the ledger of the fit, if it was charged in one). ``noise`` and
        ``replace_fingerprint``: as in `fit`. At edge level labels are public, and `metrics` may be
        published as they are.
        """
        private = self._origin.trained if data is None else as_graph(data, self.classes)
        if private is None:
            raise InputError("data must be given to a loaded model: a run holds no labels, got None")
        if not self.certificate.is_guarantee:
            raise InputError(
                "certificate of the fit must be a guarantee to publish metrics, because they are computed from what the fit "
                f"released, got status {self.certificate.status!r}; fit with a finite epsilon and noise from the operating system"
            )
        graph = private if data is None else self._aligned(private)
        if data is not None:
            self._check_nodes(graph)
        ledger = self._open_ledger() if ledger is None else ledger
        # by `Method.predict`: a row reads what was released and its own node, and nothing else
        probabilities = self._recipe.predict(self.state.weights, self.state.released, graph)
        return publish_metrics(
            probabilities,
            graph,
            self.classes,
            Budget(epsilon, self.budget.delta, self.budget.unit),
            noise=noise,
            ledger=ledger,
            replace_fingerprint=replace_fingerprint,
            private=private,
            assumptions=[a for a in self.certificate.assumptions if a.name in LASTING],
        )

    def _chooses_thresholds(self, graph: Graph) -> bool:
        """By itself where it costs nothing and the positive class is clear: public labels of two classes."""
        known = graph.labels is not None and graph.split is not None
        return self.budget.unit is PrivacyUnit.EDGE and known and graph.num_classes == 2

    def _best_threshold(self, graph: Graph, positive: int | None) -> Threshold | None:
        split, labels = graph.for_learning()
        if positive is None:
            positive = rarest(np.array(labels)[split.train], graph.num_classes)
        members = np.array(labels)[split.val] == positive
        if not 0 < members.sum() < len(members):
            return None
        value, f1 = best_threshold(Scored(self._own_probabilities()[split.val, positive], members))
        return Threshold(positive, value, f1)

    def _place_of(self, positive: str | int | None) -> int | None:
        """The number of a class that is given by its word or number."""
        if positive is None:
            return None
        if str(positive) not in self.classes:
            raise InputError(f"positive must be one of the classes {listed(self.classes)}, got {positive!r}")
        return self.classes.index(str(positive))

    # -- storage ---------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str], *, ids: bool = True, rows: bool = True) -> None:
        """Write weights, released arrays, settings and certificate to a new folder; never the graph, a seed or a hidden state.

        Args:
            folder: new, or empty.
            ids: whether names of nodes are written at edge level, where they count as public; without them predictions of a
                loaded model are numbered in the order of training.
            rows: whether digests of rows of features are written at edge level, under a key in the owner's own folder. Give a
                run away without them. A loaded model then takes labelled nodes of the fit for new ones, whose labels it knows,
                in another graph. As an encoder it cannot be compared with the rows of a graph, and without names of nodes it is
                extended only if ``same_order`` is declared.
        """
        check_target(folder)
        state = self._leaving()
        if not ids:
            state = replace(state, node_ids=None, id_title=None)
        if not rows:
            from caribou.models.class_prior import without_rows

            state = replace(state, rows=None, weights=without_rows(state.weights))
        try:
            write_state(state, folder)
        except RunError as error:
            raise RunError(f"{error}; the model is still in memory: save it to another folder") from error
        self._folders = tuple(dict.fromkeys((*self._folders, Path(folder).absolute())))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold what `save` holds: never the graph, predictions of its nodes at node level, or a ledger.

        They know the folders that the model was saved to, so that one of them alone can extend it.
        """
        if self._fitted is None:
            made = partial(Model, seed=self._streams.seed, encoder=self._encoder, **self.settings)
            return made, (self.method, self.budget)
        return _restored, (self._leaving(), self._folders)

    def _leaving(self) -> ModelState:
        """The state, which says whether the model was extended, here or from one of its folders."""
        return replace(self.state, extended=was_extended(self.state, self._folders))

    @property
    def node_ids(self) -> tuple[str, ...] | None:
        """The names of the nodes, where they are public (edge level) and the graph had any."""
        return self.state.node_ids

    @property
    def column_rules(self) -> ColumnRules | None:
        """How the node table of the fit was read, to read the next one in the same way (``rules=``); None for other graphs."""
        return self.state.column_rules

    # -- inside ----------------------------------------------------------------------------------------------------

    def _own_probabilities(self) -> np.ndarray:
        found = self._origin.probabilities
        if len(found):
            return found
        if "probabilities" in self.state.released:
            return self.state.released["probabilities"]
        raise InputError(
            "graph must be given: at node level a run holds no predictions (a node's own row is not covered); give the training "
            "graph again and declare it the training graph (training_graph=True)"
        )

    def _aligned(self, graph: Graph) -> Graph:
        """The graph with columns and classes in the order of training; columns without names are taken as they come.

        What a release says about sizes then follows from the model, never from the labels of the graph it is about.
        """
        state = self.state
        graph.sizes(self.budget.unit)  # classes that were read from private labels are refused
        if state.feature_names is not None and graph.feature_names is not None:
            graph = graph.with_columns(state.feature_names)
        own, other = state.column_rules, graph.column_rules
        if own is not None and other is not None and not own.same_features(other):
            raise InputError(
                "graph must be read by the column rules of the model, got other ones: give rules=model.column_rules to its reader"
            )
        if graph.num_features != state.columns:
            raise InputError.of("graph", f"have {state.columns} feature columns", graph.num_features)
        unknown = sorted(set(graph.class_names or ()) - set(state.classes))
        # at node level labels are private: nothing is said about them
        if unknown and self.budget.unit is PrivacyUnit.EDGE:
            warnings.warn(f"labels {listed(unknown)} are no classes of the model and count as unknown", stacklevel=4)
        return graph.with_classes(state.classes)

    def _require_public_prior(self, graph: Graph) -> None:
        """Class probabilities that come with a graph, or from a saved run, must not know the labels of its training nodes."""
        from caribou.models.class_prior import require_out_of_fold
        from caribou.models.own_encoder import SavedEncoder

        if graph.split is None or graph.labels is None:
            return
        if self.takes_prior and graph.prior is not None:
            require_out_of_fold(graph, graph.prior)
        elif isinstance(self._origin.encoder, SavedEncoder):
            self._origin.encoder.require_fit_for(graph)

    def _encoded(self, graph: Graph) -> Graph:
        """Another graph with the class probabilities of the encoder that was fitted; refused where they are missing."""
        encoder = self._origin.encoder
        if graph.prior is None and encoder is not None:
            graph = graph.with_prior(encoder.probabilities(graph.features))
        if self.takes_prior:
            from caribou.models.class_prior import require_prior

            require_prior(self.state.weights, graph)
        return graph

    def _check_nodes(self, graph: Graph) -> np.ndarray | None:
        """That it is the training graph again; and the rows of its nodes, if they are released in the order of arrival."""
        state = self.state
        if graph.num_nodes != state.nodes:
            raise InputError.of("training graph", f"have {state.nodes} nodes", graph.num_nodes)
        if state.node_ids is None:
            return None
        if graph.node_ids is None:
            raise InputError(
                "training graph must have the ids of the model, by which its rows are known, got one without ids"
            )
        names = [str(name) for name in graph.node_ids]
        if len(state.batches) > 1 and set(names) == set(state.node_ids):
            at = {name: row for row, name in enumerate(state.node_ids)}
            return np.array([at[name] for name in names])
        for place, (own, other) in enumerate(zip(state.node_ids, names, strict=True)):
            if own != other:
                raise InputError(
                    f"training graph must list its nodes as in training, {own!r} at {place}, got {other!r}"
                )
        return None


def _not_fitted() -> CaribouError:
    """The error of a model that is not fitted, by which `hasattr` says so, too.

    Where scikit-learn is loaded it is one of its own: its tools catch that.
    """
    exceptions = sys.modules.get("sklearn.exceptions")
    kinds = (CaribouError, AttributeError) if exceptions is None else (CaribouError, exceptions.NotFittedError)
    return type("NotFittedError", kinds, {})("model must be fitted first: call fit(data)")


def _opened(encoder: Any) -> Any:
    """The encoder itself, or the prior of the saved run that it names."""
    if not isinstance(encoder, str | os.PathLike):
        return encoder
    from caribou.models.class_prior import ClassPrior
    from caribou.models.own_encoder import SavedEncoder

    saved = read_state(encoder)
    if not ClassPrior.is_in(saved.weights):
        raise InputError(
            f"encoder {os.fspath(encoder)} must be a run of votes-edp or mlp that fitted its own prior, got one of "
            f"{saved.method} without"
        )
    prior = ClassPrior.from_arrays(saved.weights)
    return SavedEncoder(prior, os.fspath(encoder), saved.columns, saved.classes, saved.feature_names)


def _lasting(ledger: LedgerLike | None) -> Ledger | Path | None:
    """The ledger for later releases; absolute: after a change of the working folder a relative path would lead to another one."""
    return ledger if ledger is None or isinstance(ledger, Ledger) else Path(os.path.abspath(ledger))


def _restored(state: ModelState, folders: tuple[Path, ...] = ()) -> Model:
    model = Model(state.method, state.budget, **state.settings)
    model._fitted, model._folders = state, folders
    return model


class _BothUnits:
    """The signature of a family: the settings of its methods at both units, read from their dataclasses.

    None stands for a default that differs between the units, and for a record.
    """

    def __get__(self, model: Model | None, owner: type[_Family]) -> inspect.Signature:
        own = inspect.signature(owner.__init__).parameters
        found = {name: parameter for name, parameter in own.items() if name not in ("self", "settings")}
        for unit in PrivacyUnit:
            for f in fields(cast(Any, type(method_info(owner._family, unit).recipe()))):
                default = None if f.default is MISSING else f.default
                if f.name in found and found[f.name].default != default:
                    default = None
                kind = inspect.Parameter.KEYWORD_ONLY
                found[f.name] = inspect.Parameter(f.name, kind, default=default, annotation=f.type)
        return inspect.Signature(list(found.values()))


class _Family(Model):
    """A family of methods; the unit of the budget chooses one of them."""

    _family: ClassVar[str]
    __signature__ = _BothUnits()

    def __init__(self, budget: Budget, *, seed: int = 0, encoder: Any = None, **settings: Any) -> None:
        super().__init__(self._family, budget, seed=seed, encoder=encoder, **settings)
        del self._given["method"]  # the constructor does not take it


class Votes(_Family):
    """The most accurate method at either privacy unit: ``votes-edp`` or ``votes-ndp``, by the unit of the budget.

    Args:
        budget: epsilon, delta and the privacy unit.
        seed: the public seed.
        encoder: edge level: class probabilities from features in the place of the fitted prior, as in `Model`.
        settings: those of the method, as ``caribou methods votes-edp`` (``votes-ndp``) and docs/settings.md list them; one of the
            other unit is refused.

    >>> import caribou as cb
    >>> cb.Votes(cb.Budget(4, 1e-5, "edge"), max_rounds=5)
    Votes('votes-edp', epsilon = 4, delta = 1e-05 at edge level, max_rounds=5)
    """

    _family: ClassVar = "votes"


class Caribou(_Family):
    """The paper's deep private embeddings with a classification module: ``caribou-edp`` or ``caribou-ndp``, by the unit.

    Args:
        budget: epsilon, delta and the privacy unit.
        seed: the public seed.
        encoder: None: X^(0) is made from the features.
        settings: those of the method, as ``caribou methods caribou-edp`` (``caribou-ndp``) and docs/settings.md list them; one of
            the other unit is refused.

    >>> import caribou as cb
    >>> cb.Caribou(cb.Budget(4, 1e-5, "edge"), hops=2, contraction=0.8)
    Caribou('caribou-edp', epsilon = 4, delta = 1e-05 at edge level, contraction=0.8)
    """

    _family: ClassVar = "caribou"


def load(folder: str | os.PathLike[str]) -> Model:
    """Read a saved model: weights, settings, certificate. A damaged folder is an error.

    Args:
        folder: what `Model.save` or ``caribou train --out`` wrote.

    Returns:
        The model, without the graph.

    >>> import tempfile, caribou as cb
    >>> graph = cb.datasets.load("csbm", nodes=200, seed=1)
    >>> model = cb.Model("mlp-dp", cb.Budget(4, 1e-5, "node")).fit(graph)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(folder + "/run")
    ...     cb.load(folder + "/run").certificate == model.certificate
    True
    """
    state = read_state(folder)
    try:
        return _restored(state, (Path(folder).absolute(),))
    except (TypeError, InputError) as error:
        raise RunError(f"run {folder}: method and settings must be those that were saved: {error}") from error


# -- shared --------------------------------------------------------------------------------------------------------


def as_graph(data: Any, classes: Sequence[str] | None = None) -> Graph:
    """A `Graph`, or what a PyG ``Data`` holds, with these ``classes`` of a model; the input is not changed."""
    if isinstance(data, Graph):
        return data
    if hasattr(data, "edge_index"):
        return Graph.from_pyg(data, classes=classes or None)
    raise InputError(f"data must be a Graph or a PyG Data, got {type(data).__name__}{reading_call(data)}")


def _learnable(data: Any, classes: Sequence[str] | None = None) -> Graph:
    """As `as_graph`; a labelled PyG ``Data`` without masks gets the split that the public seed 0 draws, as a table does."""
    graph = as_graph(data, classes)
    drawn = not isinstance(data, Graph) and graph.split is None and graph.labels is not None
    return graph.random_split(0) if drawn else graph


def class_names(graph: Graph) -> tuple[str, ...]:
    """The user's own words for the classes, or their numbers."""
    return graph.class_names or tuple(str(k) for k in range(graph.num_classes))


def metrics_of(probabilities: np.ndarray, graph: Graph, part: str, positive: int | None = None) -> Metrics:
    """All metrics of class probabilities, [n, C], on a part of the split. ``positive``: the number of the class for rankings."""
    split, labels = graph.for_learning()
    index = getattr(split, part)
    return Metrics(probabilities[index], np.array(labels)[index], positive)


def accuracy(probabilities: np.ndarray, graph: Graph, part: str) -> float:
    """Share of correct classes in a part of the split; not a number where no node of it has a label."""
    return metrics_of(probabilities, graph, part).value("accuracy")
