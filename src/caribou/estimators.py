"""Estimators: a method with its budget, fitted on a graph, asked for predictions, saved and loaded.

>>> import caribou as cb
>>> graph = cb.datasets.load("csbm", nodes=300, seed=1)
>>> model = cb.Caribou(hops=2, contraction=0.8, budget=cb.Budget(epsilon=4, delta=1e-5, unit="edge")).fit(graph)
>>> model.predict().shape, model.certificate.status
((300,), 'private')
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from caribou._notebook import html_table
from caribou._validate import integer
from caribou.errors import CaribouError, InputError, RunError
from caribou.graph import Graph, listed
from caribou.graph.arrivals import Arrivals, named_rows
from caribou.graph.fingerprint import whole_of
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Fitted, GrowingMethod, declared_plan, extend, fit, predict_graph
from caribou.methods.catalogue import METHODS, method_info, names_of, resolve
from caribou.metrics import Metrics, Scored, Threshold, best_threshold, metric_name, rarest
from caribou.models.published_metrics import PublishedMetrics, publish_metrics
from caribou.privacy.assumptions import LASTING, AssumptionName, given_prior
from caribou.privacy.budget import Budget, PrivacyUnit, warn_of_large_delta
from caribou.privacy.certificate import Certificate
from caribou.privacy.ledger import Ledger
from caribou.privacy.mechanism_records import Mechanism
from caribou.privacy.plan import Link, ReleasePlan
from caribou.randomness import Streams
from caribou.release import LedgerLike, require_left
from caribou.saved_model import (
    EXTENDED,
    ExtensionMarkers,
    SavedModel,
    check_target,
    is_run_of,
    read_model,
    write_model,
)
from caribou.tables.inspect import edge_feature_words
from caribou.tables.rules import ColumnRules, computed_from_edges

if TYPE_CHECKING:
    import pandas as pd

    from caribou.models.own_encoder import FittedEncoder

PARTS = ("train", "val", "test")


class Model:
    """A method of `caribou.methods.METHODS` with its settings and a budget.

    ``fit`` trains on a graph (a `Graph` or a PyG ``Data``, which is not changed) and makes one release. At node level the
    graph must declare its classes: ``Graph.from_pyg(data, classes=...)``. Predictions for that graph then cost nothing; for
    another graph they cost a release about it, and say so. ``seed`` is the public seed (split roles, initial weights); the
    privacy noise comes from the operating system. A model that leaves the process, by `save`, ``pickle``, ``joblib`` or
    ``copy``, holds what `save` holds: never the graph.

    Args:
        method: a family such as "votes", of which the budget decides the unit, or a full name of `caribou.methods.METHODS`.
        budget: epsilon, delta and the privacy unit of the method.
        seed: the public seed.
        encoder: ``votes-edp`` and ``mlp``: what gives class probabilities from features in the place of the fitted prior. Class
            probabilities [n, C], out of fold for labelled nodes; a scikit-learn classifier or a function (columns, classes) ->
            torch module, which are cross-fitted; or the folder of a saved run. It must be public: no edge may have been read.
        settings: of the method; `caribou methods` and docs/settings.md list them.

    >>> import caribou as cb
    >>> cb.Model("gap-edp", cb.Budget(4, 1e-5, "edge"), hops=2)
    Model('gap-edp', epsilon = 4, delta = 1e-05 at edge level, hops=2)
    """

    def __init__(self, method: str, budget: Budget, *, seed: int = 0, encoder: Any = None, **settings: Any) -> None:
        if not isinstance(budget, Budget):
            raise InputError(f"budget must be a Budget, got {type(budget).__name__}")
        method = resolve(method, budget.unit)
        info = METHODS[method]
        info.check(method, budget)
        self.method, self.budget = method, budget
        self._recipe = info.create(**settings)
        if encoder is not None and not self.takes_prior:
            raise InputError(
                "encoder must go with a method that starts from class probabilities (votes-edp, or mlp without hidden), got "
                f"{method}"
            )
        self._params: dict[str, Any] = {
            "method": method,
            "budget": budget,
            "seed": seed,
            "encoder": encoder,
            **settings,
        }
        self._encoder = encoder
        self._fitted_encoder: FittedEncoder | None = None
        self._streams = Streams(seed)
        self._fitted: Fitted | None = None
        self._graph: Graph | None = None
        self._source: Any = None  # what fit was given, if it was not a Graph
        self._ledger: Ledger | Path | None = None
        self._charged = False
        self._shape: tuple[int, int] = (0, 0)
        self._classes: tuple[str, ...] = ()
        self._node_ids: tuple[str, ...] | None = None
        self._rows: tuple[str, ...] | None = None
        self._feature_names: tuple[str, ...] | None = None
        self._id_title: str | None = None
        self._batches: tuple[int, ...] = ()
        self._dataset: str | None = None
        self._folders: tuple[Path, ...] = ()  # where the model lies, and notes that it was extended
        self._is_extended = False
        self._kept: dict[bytes, Fitted] = {}  # releases about other graphs, by content; in memory alone
        self._threshold: Threshold | None = None
        self._column_rules: ColumnRules | None = None

    def __repr__(self) -> str:
        usual = method_info(self.method).create().settings()
        changed = "" if self._encoder is None else f", encoder={type(self._encoder).__name__}"
        changed += "".join(f", {k}={v!r}" for k, v in self.settings.items() if v != usual[k])
        state = "" if self._fitted is None else ", fitted"
        return f"{type(self).__name__}({self.method!r}, {self.budget}{changed}{state})"

    def _repr_html_(self) -> str:
        usual = method_info(self.method).create().settings()
        rows = [("method", self.method), ("budget", self.budget)]
        rows += [(key, value) for key, value in self.settings.items() if value != usual[key]]
        if self._fitted is None:
            rows.append(("state", "not fitted"))
        else:
            rows += [
                ("fitted on", f"{self._shape[0]} nodes, {self._shape[1]} features, classes {listed(self._classes)}"),
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
        return {**self.settings, **self._params} if type(self) is Model else dict(self._params)

    def set_params(self, **params: Any) -> Self:
        """Other ``params`` of the constructor. The model must be fitted again: what was released had other settings."""
        known = self.get_params()
        unknown = sorted(set(params) - set(known))
        if unknown:
            raise InputError(f"parameter must be one of {', '.join(known)}, got {', '.join(unknown)}")
        if "method" in params and params["method"] != known["method"]:
            known = {name: known[name] for name in ("method", "budget", "seed", "encoder")}
        self.__init__(**{**known, **params})  # type: ignore[misc]
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The classes in the user's own words, or numbers where all of them are whole numbers. [C]"""
        self._require_fitted("classes_")
        return class_array(self._classes)

    @property
    def n_features_in_(self) -> int:
        """Number of feature columns of the training graph."""
        self._require_fitted("n_features_in_")
        return self._shape[1]

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the feature columns of the training graph, where it had any. [d]"""
        self._require_fitted("feature_names_in_")
        if self._feature_names is None:
            raise AttributeError("feature_names_in_: the training graph had no names of columns")
        return np.array(self._feature_names, dtype=object)

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

    def _require_fitted(self, name: str) -> None:
        # AttributeError, so that hasattr says whether a model is fitted
        if self._fitted is None:
            raise AttributeError(f"{name}: model must be fitted first: call fit(data)")

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
        graph = _learnable(data)
        warn_of_large_delta(self.budget, graph.num_nodes)
        suspects = computed_from_edges(graph.feature_names or ())
        if suspects and self.budget.unit is PrivacyUnit.EDGE:
            leave_out = " ".join(f"--ignore {name}" for name in suspects)
            warnings.warn(f"{edge_feature_words(suspects)}; leave them out ({leave_out}) or be sure", stacklevel=2)
        if self._encoder is not None:
            # public work first: what fails in it costs nothing
            require_left(self.plan(graph), graph, ledger)
            from caribou.models.own_encoder import with_encoder

            graph, self._fitted_encoder = with_encoder(graph, _opened(self._encoder), self._streams)
        fitted = fit(
            self._recipe,
            graph,
            self.budget,
            self._streams,
            noise,
            ledger=ledger,
            replace_fingerprint=replace_fingerprint,
        )
        # absolute: after a change of the working folder a relative path would lead to another ledger
        self._ledger = ledger if ledger is None or isinstance(ledger, Ledger) else Path(os.path.abspath(ledger))
        self._charged, self._source = ledger is not None, data
        self._take(fitted, graph)
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
            plan = replace(plan, assumptions=(*plan.assumptions, given_prior()))
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
        model._charged = charged
        return model._take(fitted, graph)

    def _take(self, fitted: Fitted, graph: Graph) -> Self:
        self._fitted, self._graph = fitted, graph
        self._kept = {}  # what an earlier fit released about other graphs is no answer of this one
        self._shape = (graph.num_nodes, graph.num_features)
        self._classes = class_names(graph)
        ids = graph.node_ids if self.budget.unit is PrivacyUnit.EDGE else None
        self._node_ids = None if ids is None else tuple(str(i) for i in ids)
        self._id_title = None if ids is None else graph.id_title
        grows = self.budget.unit is PrivacyUnit.EDGE and ids is None and isinstance(self._recipe, GrowingMethod)
        self._rows = named_rows(graph) if grows else None
        self._feature_names, self._column_rules = graph.feature_names, graph.column_rules
        self._batches, self._dataset = (graph.num_nodes,), graph.name
        self._folders, self._is_extended = (), False
        self._threshold = self._best_threshold(graph, None) if self._chooses_thresholds(graph) else None
        return self

    # -- what came out ---------------------------------------------------------------------------------------------

    @property
    def certificate(self) -> Certificate:
        """What was released, and what it cost."""
        return self._result.certificate

    @property
    def embeddings(self) -> np.ndarray:
        """X^(K), the released state. [n, d]"""
        if "state" not in self._result.released:
            if METHODS[self.method].embeddings and METHODS[self.method].edge_release is not None:
                raise InputError(
                    "leave_graph must be false for embeddings, got true with a budget and a declared degree at which the rule "
                    "leaves the graph alone"
                )
            raise InputError(
                f"method must release embeddings ({', '.join(names_of(lambda info: info.embeddings))}), got {self.method}"
            )
        return self._result.released["state"]

    @property
    def released(self) -> Mapping[str, np.ndarray]:
        """Everything that the mechanisms released."""
        return self._result.released

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the columns of `predict_proba`."""
        return self._classes

    def predict_proba(self, data: Any = None, *, training_graph: bool = False, spend: bool = False) -> np.ndarray:
        """Class probabilities, a row per node in the order of `predictions_frame`: for tables that of their ids. [n, C]

        Without ``data``, or with the graph that `fit` was given, these are the nodes of the training graph, and nothing is spent.
        With other ``data`` these are the nodes of another graph, which costs a new release about that graph within the same
        budget. A warning says so, and the ledger that `fit` was given is charged. ``training_graph=True`` declares that ``data``
        is the training graph again: what was released is used, and nothing is spent. This is needed at node level after loading,
        because a saved model holds no features. The nodes must be in the order of training; of a model that was extended they may
        be in any order. At edge level their names are compared; at node level a saved model holds none.

        A graph is released once: the same graph again gives the same answer, here, in `predict` and in `embed`, and costs
        nothing. ``spend=True`` makes another release about it.
        """
        _ = self._result  # an unfitted model says so first, whatever it is given
        if data is None or data is self._source or data is self._graph:
            return self._own_probabilities()
        graph = self._aligned(as_graph(data, self._classes or None))
        if training_graph:
            rows = self._check_nodes(graph)
            found = self._recipe.predict(self._result.weights, self._result.released, graph)
            return found if rows is None else found[rows]
        return self._released_about(data, spend).probabilities

    def _released_about(self, data: Any, spend: bool) -> Fitted:
        """The release about another graph: the kept one, or a new one with a warning of its cost."""
        before = None if spend else self.kept(data) or self._fitted_on(data)
        if before is not None:
            return before
        ledger = self._open_ledger()
        result = self.predict_graph(data, ledger=ledger, spend=spend)
        if result.certificate.epsilon_spent > 0:
            where = "charged in no ledger" if ledger is None else f"charged in {ledger.path}"
            name = as_graph(data, self._classes or None).name
            warnings.warn(
                f"another graph costs a new release: {self.budget} about {name!r}, {where}; "
                "use Model.predict_graph to keep its certificate",
                stacklevel=3,
            )
        return result

    def _fitted_on(self, data: Any) -> Fitted | None:
        """The release of the fit, if ``data`` is its graph read again: the same content in another object."""
        graph, own = as_graph(data, self._classes or None), self._graph
        if own is None or own.num_nodes != graph.num_nodes or _digest(own) != _digest(graph):
            return None
        return self._fitted

    def kept(self, data: Any) -> Fitted | None:
        """The release that this model made about the graph ``data``, if it made one: predictions, certificate and arrays."""
        return self._kept.get(_digest(as_graph(data, self._classes or None)))

    def keep(self, data: Any, fitted: Fitted) -> Fitted:
        """Use ``fitted``, a release about the graph ``data`` that was made before, e.g. by another process: it is not made again.

        Returns it with its predictions, which are computed from it where it does not hold them.
        """
        graph = as_graph(data, self._classes or None)
        if not len(fitted.probabilities):
            own = fitted.released.get("probabilities")
            if own is None:
                own = self._recipe.predict(fitted.weights, fitted.released, self._aligned(graph))
            fitted = Fitted(own, fitted.certificate, fitted.released, fitted.weights)
        self._kept[_digest(graph)] = fitted
        return fitted

    @property
    def charged(self) -> bool:
        """Whether the fit was charged in a ledger."""
        return self._charged

    def _open_ledger(self) -> Ledger | None:
        """The ledger of the fit. A copy, or a loaded model, does not hold it: then another release must name one."""
        if self._ledger is None and self._charged:
            raise InputError(
                "ledger must be given for another release (ledger=): this model was charged in one, which a copy or a saved "
                "model does not hold; use predict_graph(data, ledger=...) for another graph"
            )
        return (
            self._ledger
            if self._ledger is None or isinstance(self._ledger, Ledger)
            else Ledger(self._ledger, create=False)
        )

    def predict(self, data: Any = None, *, training_graph: bool = False, spend: bool = False) -> np.ndarray:
        """The most likely class of every node, as in `classes_`. [n]

        ``data``, ``training_graph``, ``spend``: as in `predict_proba`.
        """
        best = self.predict_proba(data, training_graph=training_graph, spend=spend).argmax(axis=1)
        return self.classes_[best]

    def predictions_frame(self, data: Any = None, *, training_graph: bool = False, spend: bool = False) -> pd.DataFrame:
        """Predictions with the id of every node: what ``caribou predict`` writes, as a pandas frame.

        A graph of tables has its nodes in the order of their ids, not of the rows: join by the first column, never by place. It
        is called as in the user's table, or ``node`` where it numbers nodes without ids. ``class``,
        ``probability``, ``flagged`` where there is a `threshold`, and ``p_`` with each class follow.

        ``data``, ``training_graph``, ``spend``: as in `predict_proba`.

        >>> import caribou as cb
        >>> model = cb.Model("mlp-dp", cb.Budget(4, 1e-5, "node")).fit(cb.datasets.load("chain-s"))
        >>> model.predictions_frame().columns.tolist()
        ['node', 'class', 'probability', 'p_0', 'p_1']
        """
        (frame,) = self._prediction_pieces(None, data, training_graph=training_graph, spend=spend)
        return frame

    def prediction_pieces(self, rows: int = 1 << 16) -> Iterator[pd.DataFrame]:
        """The frame of predictions of the training graph, so many rows at a time: for tables that are written as they come.

        >>> import caribou as cb
        >>> model = cb.Model("mlp-dp", cb.Budget(4, 1e-5, "node")).fit(cb.datasets.load("chain-s"))
        >>> [len(piece) for piece in model.prediction_pieces(rows=20)]
        [20, 20, 8]
        """
        return self._prediction_pieces(integer(at_least=1, rows=rows))

    def _prediction_pieces(
        self, rows: int | None, data: Any = None, *, training_graph: bool = False, spend: bool = False
    ) -> Iterator[pd.DataFrame]:
        probabilities = self.predict_proba(data, training_graph=training_graph, spend=spend)
        graph = self._graph if data is None else as_graph(data, self._classes or None)
        if graph is None or graph.node_ids is None:
            ids, title = self._node_ids if data is None else None, self._id_title
        else:
            ids, title = tuple(str(i) for i in graph.node_ids), graph.id_title
        new = self.is_new if data is None and self.is_new.any() else None
        return predictions_tables(probabilities, self._classes, ids, title, self._threshold, new, rows)

    def embed(self, data: Any = None, *, spend: bool = False) -> np.ndarray:
        """X^(K) of the training graph, or of another graph ``data``: of the same release as its predictions. [n, d]

        ``spend``: as in `predict_proba`.
        """
        if data is None or data is self._source or data is self._graph:
            return self.embeddings
        _ = self.embeddings  # a method without embeddings is refused before anything is spent
        return self._released_about(data, spend).released["state"]

    def predict_graph(
        self,
        data: Any,
        *,
        epsilon: float | None = None,
        ledger: LedgerLike | None = None,
        noise: NoiseSource | None = None,
        replace_fingerprint: bool = False,
        spend: bool = False,
    ) -> Fitted:
        """Predict another graph: one more release, about that graph. It is kept, and `predict` and `embed` give it again.

        Args:
            data: the other graph.
            epsilon: of this release (default: that of the fit).
            ledger: charge the cost there (default: in the ledger of the fit, if it was charged in one).
            noise, replace_fingerprint: as in `fit`.
            spend: make another release about a graph that this model has released something about already.

        Returns:
            Class probabilities [n, C], what was released about the graph, and the certificate of that release.
        """
        private = as_graph(data, self._classes or None)
        graph = self._aligned(private)
        from caribou.models.class_prior import require_out_of_fold
        from caribou.models.own_encoder import SavedEncoder

        if self.takes_prior and graph.prior is not None and graph.split is not None and graph.labels is not None:
            require_out_of_fold(graph, graph.prior)
        elif isinstance(self._fitted_encoder, SavedEncoder) and graph.split is not None and graph.labels is not None:
            self._fitted_encoder.require_fit_for(graph)
        self._warn_of_known_labels(graph)
        graph = self._encoded(graph)
        before = self.kept(private)
        if not spend and before is not None and before.certificate.epsilon_spent > 0:
            raise InputError(
                f"graph {private.name!r} must be one that this model has released nothing about: predict, predict_proba and "
                "embed give that release again and cost nothing; spend=True (--spend) makes another one"
            )
        ledger = self._open_ledger() if ledger is None else ledger
        budget = self.budget if epsilon is None else Budget(epsilon, self.budget.delta, self.budget.unit)
        method_info(self.method).check(self.method, budget)
        warn_of_large_delta(budget, graph.num_nodes)
        result = predict_graph(
            self._recipe,
            self._result.weights,
            graph,
            budget,
            self._streams,
            noise,
            ledger=ledger,
            replace_fingerprint=replace_fingerprint,
            private=private,
        )
        self._kept[_digest(private)] = result
        return result

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

        Returns:
            A new model, of everybody who was ever there: first the nodes of this model, then the arrivals by name.

        >>> import caribou as cb
        >>> grown = cb.datasets.load("csbm", nodes=240, seed=1)
        >>> month = cb.Votes(cb.Budget(4), max_rounds=2).fit(grown.first_nodes(200))
        >>> later = month.extend(grown)
        >>> later.predict().shape, later.certificate.epsilon
        ((240,), 4.0)
        """
        self._require_extendable()
        if nodes is not None:
            from caribou.datasets import read_graph

            data = read_graph(data, nodes)
        private = as_graph(data, self._classes or None)
        if name is not None or self._dataset is not None:
            private = private.renamed(name or str(self._dataset))
        if not spend:
            self.arrivals.require_same_people(private, left=left, same_order=same_order)
        grown = self.arrivals.grown(self._encoded(self._aligned(private)))
        if ledger is None and self._charged:
            raise InputError("ledger must be given (ledger=, --ledger): this model was charged in one, got none")
        link, noise = None if spend else self._link(), noise or NoiseSource.secure()
        marker = None if spend else self._claim(private.name, ledger)
        try:
            fitted = extend(
                self._recipe,
                self._result,
                grown,
                self.budget,
                noise,
                link=link,
                ledger=ledger,
                private=private,
                journal=marker,
            )
        except BaseException:
            if not spend and noise.is_new:  # refused before anything was asked
                self._is_extended = False
                if marker is not None:
                    marker.refused()
            raise
        child = Model(self.method, self.budget, seed=self._streams.seed, encoder=self._encoder, **self.settings)
        child._fitted_encoder = self._fitted_encoder
        child._take(fitted, grown.graph)
        child._threshold = self._threshold or child._threshold  # what was flagged stays flagged
        child._ledger = ledger if ledger is None or isinstance(ledger, Ledger) else Path(os.path.abspath(ledger))
        child._charged, child._batches = ledger is not None, grown.arrivals.batches
        # the grown graph as it was given: its rows are in the order of their own table
        rows = Fitted(fitted.probabilities[grown.place], fitted.certificate, fitted.released, fitted.weights)
        child._kept[_digest(private)] = rows
        return child

    def _require_extendable(self) -> None:
        if not isinstance(self._recipe, GrowingMethod):
            raise InputError(
                f"method must be votes-edp to be extended, because it asks every pair of nodes once, got {self.method}: fit it "
                "on the grown graph, or predict the grown graph with a small epsilon (predict_graph); each is a release of its "
                "own"
            )
        used = [record.mechanism for record in self.certificate.mechanisms]
        if used != [Mechanism.EDGE_VOTES]:
            words = ", ".join(mechanism.value for mechanism in used)
            raise InputError(
                f"model must be a fit of votes alone to be extended, got one of: {words}; fit votes-edp with these settings"
            )

        if self.budget.is_private and not self.certificate.is_guarantee:
            why = "; ".join(self.certificate.void_reasons)
            raise InputError(
                f"certificate must be a guarantee to be extended, because the new model shows the old rows, too, got a void one: "
                f"{why}; fit again with noise from the operating system and without what voids it"
            )

    def _link(self) -> Link:
        """This model as the batch just before the next one."""
        own = self.certificate.certificate_id
        first = next((a for a in self.certificate.assumptions if a.name is AssumptionName.ARRIVALS), None)
        return Link(release=own if first is None else str(first.parameters["release"]), extends=own)

    def _claim(self, dataset: str, ledger: LedgerLike | None) -> ExtensionMarkers | None:
        """From here on nobody else may extend this model, in this process or, by the markers, from one of its folders.

        A ledger knows of copies, too.
        """
        if self._is_extended:
            raise InputError(
                "model must not be extended twice, because pairs of the same people would be asked twice: extend the model that "
                "extend() returned, or charge this batch as a release of its own (spend=True)"
            )
        own = self.certificate.certificate_id
        for folder in self._folders if ledger is None else ():
            if not is_run_of(folder, own):
                raise RunError(
                    f"run must lie where the model was saved, {folder}, to note there that it is extended, got none: load it "
                    "from where it lies now, or give a ledger that holds it (ledger=, --ledger)"
                )
        self._is_extended = True
        return ExtensionMarkers.of([folder for folder in self._folders if is_run_of(folder, own)], own, dataset)

    def _was_extended(self) -> bool:
        """In this process, or by another one from one of its folders."""
        own = self.certificate.certificate_id
        return self._is_extended or any(is_run_of(f, own) and (f / EXTENDED).exists() for f in self._folders)

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
        if data is None and self._graph is None:
            raise InputError("data must be given to a loaded model: a run holds no labels, got None")
        graph = self._graph if data is None else _learnable(data, self._classes or None)
        same = data is None
        probabilities = self._own_probabilities() if same else self.predict_proba(graph, training_graph=True)
        return metrics_of(probabilities, graph, part, self._place_of(positive))  # type: ignore[arg-type]

    def arrival_metrics(self, *, positive: str | int | None = None) -> Metrics | None:
        """All metrics on test nodes of the last batch, as `metrics` gives them; None where none of them has a label.

        ``positive``: as in `metrics`. Arrivals that are training or validation nodes sent their label to others, so they measure
        nothing.
        """
        if self._graph is None or self._graph.labels is None or self._graph.split is None:
            return None
        test = self._graph.split.test
        rows = test[(self.is_new[test]) & (self._graph.labels[test] >= 0)]
        if not len(rows):
            return None
        return Metrics(self._own_probabilities()[rows], np.array(self._graph.labels)[rows], self._place_of(positive))

    @property
    def is_new(self) -> np.ndarray:
        """Who came with the last batch, if there was more than one (`extend`). [n], bool"""
        before = sum(self._batches[:-1])
        return (np.arange(sum(self._batches)) >= before) & (before > 0)

    @property
    def threshold(self) -> Threshold | None:
        """From which probability on a node is flagged as one of the positive class; None if no threshold was chosen.

        At edge level with two classes `fit` chooses the one with the best F1 on validation nodes. `choose_threshold` does so for
        another class. At node level validation labels are private, and none is chosen.
        """
        return self._threshold

    def choose_threshold(self, positive: str | int) -> Threshold:
        """The threshold of class ``positive``, by its word or number, with the best F1 on validation nodes. Edge level only."""
        if self._graph is None:
            raise InputError("model must hold its graph to choose a threshold: call fit(data) first, got a loaded one")
        if self.budget.unit is PrivacyUnit.NODE:
            raise InputError(
                "threshold must not be chosen at node level: it would read private validation labels without noise; "
                "declare one (caribou predict --threshold)"
            )
        found = self._best_threshold(self._graph, self._place_of(positive))
        if found is None:
            raise InputError(f"validation nodes must be of class {positive!r} and of another, got one kind only")
        self._threshold = found
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
        private = self._graph if data is None else as_graph(data, self._classes or None)
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
        probabilities = self._recipe.predict(self._result.weights, self._result.released, graph)
        return publish_metrics(
            probabilities,
            graph,
            self._classes,
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
        if str(positive) not in self._classes:
            raise InputError(f"positive must be one of the classes {listed(self._classes)}, got {positive!r}")
        return self._classes.index(str(positive))

    # -- storage ---------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str], *, ids: bool = True) -> None:
        """Write weights, released arrays, settings and certificate to a new folder; never the graph, a seed or a hidden state.

        ``ids``: whether names of nodes are written at edge level, where they count as public; without them predictions of a
        loaded model are numbered in the order of training.
        """
        check_target(folder)
        saved = self._saved()
        try:
            write_model(saved if ids else replace(saved, node_ids=None, id_title=None), folder)
        except RunError as error:
            raise RunError(f"{error}; the model is still in memory: save it to another folder") from error
        self._folders = tuple(dict.fromkeys((*self._folders, Path(folder).absolute())))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Model:
        """Read what `save` wrote; a damaged folder is an error."""
        saved = read_model(folder)
        try:
            return cls._restored(saved, (Path(folder).absolute(),))
        except (TypeError, InputError) as error:
            raise RunError(f"run {folder}: method and settings must be those that were saved: {error}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold what `save` holds: never the graph, predictions of its nodes at node level, or a ledger.

        They know the folders that the model was saved to, so that one of them alone can extend it.
        """
        if self._fitted is None:
            settings = {**self.settings, "encoder": self._encoder}
            return _unfitted, (self.method, self.budget, self._streams.seed, settings)
        return Model._restored, (self._saved(), self._folders)

    def _saved(self) -> SavedModel:
        result = self._result
        return SavedModel(
            method=self.method,
            settings=self.settings,
            budget=self.budget,
            certificate=result.certificate,
            weights=result.weights,
            released=result.released,
            nodes=self._shape[0],
            columns=self._shape[1],
            classes=self._classes,
            node_ids=self._node_ids,
            feature_names=self._feature_names,
            id_title=self._id_title,
            charged=self._charged,
            dataset=self._dataset,
            batches=self._batches,
            threshold=self._threshold,
            column_rules=self._column_rules,
            extended=self._was_extended(),
            rows=self._rows,
        )

    @staticmethod
    def _restored(saved: SavedModel, folders: tuple[Path, ...] = ()) -> Model:
        model = Model(saved.method, saved.budget, **saved.settings)
        model._fitted = Fitted(np.empty((0, 0)), saved.certificate, saved.released, saved.weights)
        model._shape = (saved.nodes, saved.columns)
        model._classes, model._node_ids, model._feature_names = saved.classes, saved.node_ids, saved.feature_names
        model._id_title, model._charged, model._threshold = saved.id_title, saved.charged, saved.threshold
        model._rows = saved.rows
        model._batches, model._dataset = saved.batches, saved.dataset
        model._column_rules, model._is_extended, model._folders = saved.column_rules, saved.extended, folders
        return model

    @property
    def num_nodes(self) -> int:
        """How many nodes the model is about."""
        return self._shape[0]

    @property
    def node_ids(self) -> tuple[str, ...] | None:
        """The names of the nodes, where they are public (edge level) and the graph had any."""
        return self._node_ids

    @property
    def arrivals(self) -> Arrivals:
        """Who has been asked, batch by batch."""
        return Arrivals(self._batches, self._node_ids, self._rows)

    @property
    def column_rules(self) -> ColumnRules | None:
        """How the node table of the fit was read, to read the next one in the same way (``rules=``); None for other graphs."""
        return self._column_rules

    @property
    def id_title(self) -> str | None:
        """What the user's table calls the column of `node_ids`, if they came from one."""
        return self._id_title

    # -- inside ----------------------------------------------------------------------------------------------------

    @property
    def _result(self) -> Fitted:
        if self._fitted is None:
            raise _not_fitted()
        return self._fitted

    def _own_probabilities(self) -> np.ndarray:
        result = self._result
        if len(result.probabilities):
            return result.probabilities
        if "probabilities" in result.released:
            return result.released["probabilities"]
        raise InputError(
            "graph must be given: at node level a run holds no predictions (a node's own row is not covered); give the training "
            "graph again and declare it the training graph"
        )

    def _aligned(self, graph: Graph) -> Graph:
        """The graph with columns and classes in the order of training; columns without names are taken as they come.

        What a release says about sizes then follows from the model, never from the labels of the graph it is about.
        """
        self._result  # noqa: B018  an unfitted model has no columns to compare with
        graph.sizes(self.budget.unit)  # classes that were read from private labels are refused
        if self._feature_names is not None and graph.feature_names is not None:
            graph = graph.with_columns(self._feature_names)
        own, other = self._column_rules, graph.column_rules
        if own is not None and other is not None and not own.same_features(other):
            raise InputError(
                "graph must be read by the column rules of the model, got other ones: give rules=model.column_rules to its reader"
            )
        if graph.num_features != self._shape[1]:
            raise InputError(f"graph must have {self._shape[1]} feature columns, got {graph.num_features}")
        unknown = sorted(set(graph.class_names or ()) - set(self._classes))
        if (
            unknown and self.budget.unit is PrivacyUnit.EDGE
        ):  # at node level labels are private: nothing is said about them
            warnings.warn(f"labels {listed(unknown)} are no classes of the model and count as unknown", stacklevel=4)
        return graph.with_classes(self._classes)

    def _encoded(self, graph: Graph) -> Graph:
        """Another graph with the class probabilities of the encoder that was fitted; refused where they are missing."""
        if graph.prior is None and self._fitted_encoder is not None:
            graph = graph.with_prior(self._fitted_encoder.probabilities(graph.features))
        if self.takes_prior:
            from caribou.models.class_prior import require_prior

            require_prior(self._result.weights, graph)
        return graph

    def _warn_of_known_labels(self, graph: Graph) -> None:
        """The fitted prior may have learned from the labelled nodes of another graph, which have other features now."""
        from caribou.models.class_prior import ClassPrior

        if graph.prior is not None or "prior.linear" not in self._result.weights:
            return
        prior = ClassPrior.from_arrays(self._result.weights)
        share = prior.learned_from(graph)
        if share is not None:
            warnings.warn(
                f"class probabilities from features are right about {share:.0%} of the labelled nodes of {graph.name!r}, and "
                f"were about {prior.right:.0%} of those they were fitted on: the model seems to have learned from the same "
                "nodes with other features, and will trust its features too much; fit a model on this graph (caribou train), "
                "or extend the run by its new nodes (caribou extend)",
                stacklevel=3,
            )

    def _check_nodes(self, graph: Graph) -> np.ndarray | None:
        """That it is the training graph again; and the rows of its nodes, if they are released in the order of arrival."""
        if graph.num_nodes != self._shape[0]:
            raise InputError(f"training graph must have {self._shape[0]} nodes, got {graph.num_nodes}")
        if self._node_ids is None:
            return None
        if graph.node_ids is None:
            raise InputError(
                "training graph must have the ids of the model, by which its rows are known, got one without ids (--column "
                "id=TITLE)"
            )
        names = [str(name) for name in graph.node_ids]
        if len(self._batches) > 1 and set(names) == set(self._node_ids):
            at = {name: row for row, name in enumerate(self._node_ids)}
            return np.array([at[name] for name in names])
        for place, (own, other) in enumerate(zip(self._node_ids, names, strict=True)):
            if own != other:
                raise InputError(
                    f"training graph must list its nodes as in training, {own!r} at {place}, got {other!r}"
                )
        return None


def _not_fitted() -> CaribouError:
    """The error of a model that is not fitted. Where scikit-learn is loaded it is one of its own, too: its tools catch that."""
    exceptions = sys.modules.get("sklearn.exceptions")
    kinds = (CaribouError,) if exceptions is None else (CaribouError, exceptions.NotFittedError)
    return type("NotFittedError", kinds, {})("model must be fitted first: call fit(data)")


def _opened(encoder: Any) -> Any:
    """The encoder itself, or the prior of the saved run that it names."""
    if not isinstance(encoder, str | os.PathLike):
        return encoder
    from caribou.models.class_prior import ClassPrior
    from caribou.models.own_encoder import SavedEncoder

    saved = read_model(encoder)
    if "prior.linear" not in saved.weights:
        raise InputError(
            f"encoder {os.fspath(encoder)} must be a run of votes-edp or mlp that fitted its own prior, got one of "
            f"{saved.method} without"
        )
    prior = ClassPrior.from_arrays(saved.weights)
    return SavedEncoder(prior, os.fspath(encoder), saved.columns, saved.classes, saved.feature_names)


def _unfitted(method: str, budget: Budget, seed: int, settings: Mapping[str, Any]) -> Model:
    return Model(method, budget, seed=seed, **settings)


class Votes(Model):
    """The most accurate method at either privacy unit: ``votes-edp`` or ``votes-ndp``, by the unit of the budget.

    Args:
        budget: epsilon, delta and the privacy unit.
        seed: the public seed.
        voter_confidence: edge level: unlabelled nodes vote in the first round if the encoder is this sure of them.
        round_confidence: edge level: how sure a node must have become to vote in a later round.
        max_rounds: edge level: stop after so many rounds.
        calibration: edge level: share of the training nodes that receive votes, to fit the head.
        noise: edge level: "discrete_laplace" (pure epsilon) or "gaussian".
        metric: edge level: what chooses checkpoints, head and rounds on validation nodes, e.g. "ap" for a rare class.
        class_weight: edge level: "balanced" gives every class the same weight in the losses.
        alphabet: edge level: nodes say their "class", the "code" of their features, or what a pilot finds to tell more ("auto").
        pilot: edge level: share of the labelled nodes in the pilot; None = a public rule.
        codes: edge level: how many codes there are at most.
        encoder: edge level: class probabilities from features in the place of the fitted prior, as in `Model`.
        declared_degree: node level: the degree up to which a node gets the headline epsilon; without it no vote is asked.
        declared_average_degree: node level: what the curator declares about a typical node, never what is measured.
        votes: node level: ``{"receivers_per_sender": M, "share": s}``, or None for a public rule.
        weight: node level: weight of the votes; None = chosen on validation nodes.
        base: node level: settings of the private model under the votes, as of ``mlp-dp``.

    >>> import caribou as cb
    >>> cb.Votes(cb.Budget(4, 1e-5, "edge"), max_rounds=5)
    Votes('votes-edp', epsilon = 4, delta = 1e-05 at edge level, max_rounds=5)
    """

    def __init__(
        self,
        budget: Budget,
        *,
        seed: int = 0,
        voter_confidence: float = 0.97,
        round_confidence: float = 0.4,
        max_rounds: int = 60,
        calibration: float = 0.5,
        noise: str = "discrete_laplace",
        metric: str | None = None,
        class_weight: str | None = None,
        alphabet: str = "auto",
        pilot: float | None = None,
        codes: int = 8,
        encoder: Any = None,
        declared_degree: int | None = None,
        declared_average_degree: float | None = None,
        votes: Mapping[str, Any] | None = None,
        weight: float | None = None,
        base: Mapping[str, Any] | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        edge = {
            "voter_confidence": voter_confidence,
            "round_confidence": round_confidence,
            "max_rounds": max_rounds,
            "calibration": calibration,
            "noise": noise,
            "metric": metric,
            "class_weight": class_weight,
            "alphabet": alphabet,
            "pilot": pilot,
            "codes": codes,
        }
        node = {
            "declared_degree": declared_degree,
            "declared_average_degree": declared_average_degree,
            "votes": votes,
            "weight": weight,
            "base": base or {},
        }
        method, settings = _of_unit(budget, ("votes-edp", edge), ("votes-ndp", node))
        super().__init__(method, budget, seed=seed, encoder=encoder, **settings)
        self._params = given


class Caribou(Model):
    """The paper's deep private embeddings with a classification module: ``caribou-edp`` or ``caribou-ndp``, by the unit.

    Args:
        budget: epsilon, delta and the privacy unit.
        seed: the public seed.
        hops: K.
        contraction: C_L.
        alpha1: weight of the neighbours; 1 - alpha1 goes to the mean.
        beta: weight of X^(0) in every round.
        classifier: edge level: "mlp" or "evidence"; node level: "linear", "mlp" or "chosen"; None = the default of the unit.
        degree_floor: F; None = a public rule.
        messages: X^(0): "embeddings" or "labels"; edge level also "features" and "probabilities".
        hidden: edge level: widths of the encoder's hidden layers.
        cross_fit: edge level: X^(0) of a training node by an encoder that was not fitted on it.
        calibration: edge level, label messages: share of the training nodes that do not send their label.
        classifier_hidden: width of the base layers of the classification module.
        votes: edge level: share of epsilon for votes.
        layer: edge level: "contractive", "attention", "spectral" or "gcn".
        layer_settings: edge level: what the layer has besides contraction and beta.
        metric: edge level: what chooses checkpoints and head on validation nodes, e.g. "ap" for a rare class.
        class_weight: edge level: "balanced" gives every class the same weight in the losses.
        degree_cap: node level: degrees are cut to M; None = every edge is read.
        declared_degree: node level: the degree up to which the headline epsilon holds; None = the cap, or every node.
        graph_share: node level: share of mu^2 for message passing.
        classifier_share: node level: share of mu^2 for the classification module.
        leave_graph: node level, label messages: leave the graph alone where a public rule says that it does not pay.
        declared_average_degree: node level: for that rule, what the curator declares, never what is measured.
        base: node level: settings of the private encoder, as of ``mlp-dp``.

    >>> import caribou as cb
    >>> cb.Caribou(cb.Budget(4, 1e-5, "edge"), hops=2, contraction=0.8)
    Caribou('caribou-edp', epsilon = 4, delta = 1e-05 at edge level, contraction=0.8)
    """

    def __init__(
        self,
        budget: Budget,
        *,
        seed: int = 0,
        hops: int = 2,
        contraction: float = 0.9,
        alpha1: float = 1.0,
        beta: float = 1.0,
        classifier: str | None = None,
        degree_floor: int | None = None,
        messages: str = "embeddings",
        hidden: Sequence[int] = (64, 16),
        cross_fit: bool = False,
        calibration: float = 0.1,
        classifier_hidden: int = 64,
        votes: float = 0.0,
        layer: str = "contractive",
        layer_settings: Mapping[str, Any] | None = None,
        metric: str | None = None,
        class_weight: str | None = None,
        degree_cap: int | None = None,
        declared_degree: int | None = None,
        graph_share: float = 0.1,
        classifier_share: float = 0.1,
        leave_graph: bool = False,
        declared_average_degree: float | None = None,
        base: Mapping[str, Any] | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        both = {
            "hops": hops,
            "contraction": contraction,
            "alpha1": alpha1,
            "beta": beta,
            "degree_floor": degree_floor,
            "messages": messages,
            "classifier_hidden": classifier_hidden,
        }
        edge = {
            "hidden": hidden,
            "cross_fit": cross_fit,
            "calibration": calibration,
            "votes": votes,
            "layer": layer,
            "layer_settings": layer_settings or {},
            "metric": metric,
            "class_weight": class_weight,
            **({} if classifier is None else {"classifier": classifier}),
        }
        node = {
            "degree_cap": degree_cap,
            "declared_degree": declared_degree,
            "graph_share": graph_share,
            "classifier_share": classifier_share,
            "leave_graph": leave_graph,
            "declared_average_degree": declared_average_degree,
            "base": base or {},
            **({} if classifier is None else {"classifier": classifier}),
        }
        method, settings = _of_unit(budget, ("caribou-edp", edge), ("caribou-ndp", node))
        super().__init__(method, budget, seed=seed, **both, **settings)
        self._params = given


Offer = tuple[str, dict[str, Any]]


def _of_unit(budget: Budget, edge: Offer, node: Offer) -> Offer:
    """Method and settings of the budget's unit. A setting of the other unit alone must be left as it is."""
    if not isinstance(budget, Budget):
        raise InputError(f"budget must be a Budget, got {type(budget).__name__}")
    chosen, other = (edge, node) if budget.unit is PrivacyUnit.EDGE else (node, edge)
    usual = method_info(other[0]).create().settings()
    for name in set(other[1]) - set(chosen[1]):
        if _plain(other[1][name]) != _plain(usual[name]) and other[1][name] not in ({}, None):
            raise InputError(f"{name} must not be given at {budget.unit.value} level, got {other[1][name]!r}")
    return chosen


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | list) else value


def load(folder: str | os.PathLike[str]) -> Model:
    """A saved model: weights, settings, certificate. The same as `Model.load`.

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
    return Model.load(folder)


def _digest(graph: Graph) -> bytes:
    """What the graph is known by in this process: as private as the graph, and never stored."""
    return hashlib.sha256(b"".join(whole_of(tuple(graph.content())))).digest()


# -- shared --------------------------------------------------------------------------------------------------------


def as_graph(data: Any, classes: Sequence[str] | None = None) -> Graph:
    """A `Graph`, or what a PyG ``Data`` holds, with these ``classes`` of a model; the input is not changed."""
    if isinstance(data, Graph):
        return data
    if hasattr(data, "edge_index"):
        return Graph.from_pyg(data, classes=classes)
    raise InputError(f"data must be a Graph or a PyG Data, got {type(data).__name__}")


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


def class_array(names: Sequence[str]) -> np.ndarray:
    """Names of classes for comparing with labels: whole numbers as int64 if all of them are, else words. [C]

    >>> class_array(["0", "1"]), class_array(["ok", "1"])
    (array([0, 1]), array(['ok', '1'], dtype='<U2'))
    """
    numbers = [int(name) for name in names if name.removeprefix("-").isdecimal() and str(int(name)) == name]
    return np.array(numbers, dtype=np.int64) if len(numbers) == len(names) else np.array(names)


def predictions_tables(
    probabilities: np.ndarray,
    classes: Sequence[str],
    ids: Sequence[str] | None,
    title: str | None,
    threshold: Threshold | None,
    new: np.ndarray | None = None,
    rows: int | None = 1 << 16,
) -> Iterator[pd.DataFrame]:
    """A row per node: id, most likely class and its probability, whether it is flagged, whether it is new, and all probabilities.

    ``probabilities``: [n, C]; ``new``: [n], bool, of a release that was extended. ``rows``: of a table; None: all are in one.
    """
    taken = title in ("class", "probability", "flagged", "new")
    first = 0
    for table in tables_with_ids(probabilities, [f"p_{name}" for name in classes], ids, None if taken else title, rows):
        part = slice(first, first + len(table))
        table.insert(1, "class", [classes[k] for k in probabilities[part].argmax(axis=1)])
        table.insert(2, "probability", probabilities[part].max(axis=1))
        if threshold is not None:
            table.insert(3, "flagged", threshold.flags(probabilities[part]))
        if new is not None:
            table.insert(3, "new", new[part])
        first += len(table)
        yield table


def tables_with_ids(
    values: np.ndarray, columns: Sequence[str], ids: Sequence[str] | None, title: str | None, rows: int | None = 1 << 16
) -> Iterator[pd.DataFrame]:
    """The values, [n, d], with the ids before them under their title; ``node`` if they have none, or another column has it.

    ``rows``: of a table; None: all are in one.
    """
    import pandas as pd

    own = title is not None and ids is not None and title not in columns
    size = rows or len(values)
    for first in range(0, max(1, len(values)), max(1, size)):
        part = slice(first, min(first + size, len(values)))
        table = pd.DataFrame(values[part], columns=list(columns))
        names = list(ids[part]) if ids is not None else range(part.start, part.stop)
        table.insert(0, title if own else "node", names)
        yield table


def accuracy(probabilities: np.ndarray, graph: Graph, part: str) -> float:
    """Share of correct classes in a part of the split; not a number where no node of it has a label."""
    return metrics_of(probabilities, graph, part).value("accuracy")
