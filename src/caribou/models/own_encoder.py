"""An encoder of the user's own in the place of the fitted prior. It sees features and labels, never an edge.

Class probabilities are taken as they are. A scikit-learn classifier and a torch module are cross-fitted here, so the row of a
labelled node is out of fold by construction. An encoder that was fitted and saved before must not have seen the labelled rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from caribou.errors import InputError
from caribou.graph import Graph, listed
from caribou.graph.fingerprint import known_rows, row_digests
from caribou.models.class_prior import ClassPrior
from caribou.models.cross_fitting import by_class, cross_fitted
from caribou.models.module_training import module_logits, train_module
from caribou.models.public_rows import PublicRows, as_dense
from caribou.models.threads import one_thread
from caribou.randomness import Streams

FOLDS = 5
SEEN = 0.01
"""Share of the labelled rows that a saved encoder may have been fitted on: rows of two tables may be equal by chance."""

Features: TypeAlias = np.ndarray | sp.csr_array
KINDS = (
    "class probabilities [n, C], a scikit-learn classifier, a function (columns, classes) -> torch module, or the folder of a "
    "saved run of votes-edp or mlp"
)


class FittedEncoder(Protocol):
    """What was fitted, for nodes that it was not fitted on."""

    def probabilities(self, features: Features) -> np.ndarray:
        """Class probabilities. [n, d] -> [n, C]"""
        ...


@dataclass(frozen=True, eq=False)
class FoldMean:
    """The mean probabilities of the models of all folds; a row that was labelled is scored by the model that left it out.

    Args:
        models: one per fold.
        seen: [m], digests of the labelled rows, sorted.
        fold: [m], that of each of them.
    """

    models: tuple[Callable[[Features], np.ndarray], ...]
    seen: np.ndarray
    fold: np.ndarray

    def probabilities(self, features: Features) -> np.ndarray:
        """Class probabilities. [n, d] -> [n, C]"""
        found = np.stack([model(features) for model in self.models])
        rows, places = known_rows(self.seen, features)
        mean = np.asarray(found.mean(axis=0))
        mean[rows] = found[self.fold[places], rows]
        return mean


@dataclass(frozen=True, eq=False)
class SavedEncoder:
    """The prior of a saved run, with the columns and classes that it knows.

    Args:
        prior: the fitted prior.
        folder: where it was read.
        columns: d.
        classes: names of the classes, in its order.
        feature_names: of the columns, or None.
    """

    prior: ClassPrior
    folder: str
    columns: int
    classes: tuple[str, ...]
    feature_names: tuple[str, ...] | None = None

    def require_fit_for(self, graph: Graph) -> None:
        """Refuse a graph with other columns or classes, and one whose labelled rows the encoder was fitted on."""
        names = graph.class_names or tuple(str(k) for k in range(graph.num_classes))
        if names != self.classes:
            raise InputError(
                f"encoder {self.folder} must know the graph's classes {listed(names)}, got one for {listed(self.classes)}"
            )
        known = self.feature_names is None or graph.feature_names in (None, self.feature_names)
        if graph.num_features != self.columns or not known:
            raise InputError(
                f"encoder {self.folder} must have the graph's {graph.num_features} columns in their order, got one for "
                f"{self.columns}: {listed(self.feature_names or ('columns without names',))}"
            )
        split, _ = graph.for_learning(public=True)
        labelled = np.concatenate([split.train, split.val])
        seen = float(np.isin(row_digests(graph.features)[labelled], self.prior.seen).mean())
        if seen > SEEN:
            raise InputError(
                f"encoder {self.folder} must not have been fitted on labelled rows of this graph, got {seen:.0%} of them: it "
                "knows their labels; leave encoder out, or give a classifier, and it is fitted out of fold"
            )

    def probabilities(self, features: Features) -> np.ndarray:
        """Class probabilities. [n, d] -> [n, C]"""
        return self.prior.probabilities(features)


def with_encoder(graph: Graph, encoder: Any, streams: Streams) -> tuple[Graph, FittedEncoder | None]:
    """The graph with the class probabilities of an encoder as its prior, and what was fitted, for other graphs.

    Args:
        graph: features, labels and split are read; edges are not.
        encoder: class probabilities, [n, C]; a scikit-learn classifier, which is cloned for every fold; a function
            (columns, classes) -> torch module with logits, called for every fold; or a `SavedEncoder`.
        streams: the public seed.

    Returns:
        The graph (`Graph.with_prior`), and the fitted encoder; None for class probabilities, which say nothing about other nodes.
    """
    if graph.prior is not None:
        raise InputError("encoder must not be given for a graph that has class probabilities already (with_prior)")
    if isinstance(encoder, SavedEncoder):
        encoder.require_fit_for(graph)
        return graph.with_prior(encoder.probabilities(graph.features)), encoder
    if isinstance(encoder, nn.Module | type):
        raise InputError(
            f"encoder must be {KINDS}, got {encoder if isinstance(encoder, type) else type(encoder).__name__}: a class of "
            "scikit-learn needs its brackets, and a module a function that makes a new one for every fold (lambda d, C: ...)"
        )
    if hasattr(encoder, "fit"):
        return _cross_fitted(graph, streams, _classifier(encoder, graph))
    if callable(encoder):
        return _cross_fitted(graph, streams, _module(encoder, graph))
    try:
        return graph.with_prior(encoder), None
    except InputError as error:
        raise InputError(f"encoder must be {KINDS}; as class probabilities: {error}") from error


_Fit = Callable[[np.ndarray, np.random.Generator], Callable[[Features], np.ndarray]]
"""Numbers of labelled rows and randomness of the public seed -> a function from features to class probabilities."""


@one_thread()
def _cross_fitted(graph: Graph, streams: Streams, fit: _Fit) -> tuple[Graph, FittedEncoder]:
    split, labels = graph.for_learning(public=True)
    rng = streams.generator("own encoder")
    train = by_class(rng.permutation(np.concatenate([split.train, split.val])), np.array(labels))
    folds = min(FOLDS, len(train))
    models, probabilities = cross_fitted(
        lambda rows, _: fit(rows, rng),
        lambda model, rows: model(graph.features[rows]),
        graph.num_nodes,
        train,
        folds,
    )
    seen, first = np.unique(row_digests(graph.features)[train], return_index=True)
    return graph.with_prior(probabilities), FoldMean(tuple(models), seen, first % folds)


def _classifier(classifier: Any, graph: Graph) -> _Fit:
    """A clone of a scikit-learn classifier for every fold, with its own randomness from the public seed where it has none."""
    from sklearn.base import clone

    if not hasattr(classifier, "predict_proba"):
        raise InputError(
            f"encoder must have predict_proba, got {type(classifier).__name__}: wrap it in CalibratedClassifierCV, or ask it for "
            "probabilities"
        )
    for part in (classifier, *classifier.get_params().values()):
        if hasattr(part, "fit") and not isinstance(part, type) and clone(part) is part:
            raise InputError(
                f"encoder must be fitted anew for every fold, got {type(part).__name__}, which stays as it was fitted and may "
                "know the labels: give the classifier itself"
            )
    labels, C = np.array(graph.labels), graph.num_classes

    def fit(rows: np.ndarray, rng: np.random.Generator) -> Callable[[Features], np.ndarray]:
        model = clone(classifier)
        parameters = model.get_params()
        free = sorted(key for key in parameters if key.split("__")[-1] == "random_state" and parameters[key] is None)
        model.set_params(**{key: int(rng.integers(2**31)) for key in free})
        try:
            model.fit(graph.features[rows], labels[rows])
        except (TypeError, ValueError) as error:
            raise InputError(
                f"encoder must be able to learn from the graph's features, got {type(classifier).__name__}: {error}"
            ) from error
        places = np.asarray(model.classes_, dtype=np.int64)

        def probabilities(features: Features) -> np.ndarray:
            found = np.zeros((features.shape[0], C))
            if len(found):
                found[:, places] = model.predict_proba(features)
            return found

        return probabilities

    return fit


def _module(factory: Callable[[int, int], nn.Module], graph: Graph) -> _Fit:
    """A new module for every fold, on standardised rows (words: weighted by how rare they are)."""
    labels, d, C = np.array(graph.labels), graph.num_features, graph.num_classes
    public = PublicRows.of(graph.features)
    length = np.float32(np.sqrt(max(d, 1)))  # columns of variance 1, as networks like them
    trained: dict[int, nn.Parameter] = {}  # of all folds so far, kept so that no number is given again

    def dense(features: Features) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(as_dense(public(features)) * length))

    def fit(rows: np.ndarray, rng: np.random.Generator) -> Callable[[Features], np.ndarray]:
        with torch.random.fork_rng(devices=[]):  # initial weights and dropout follow the public seed
            torch.manual_seed(int(rng.integers(2**63)))
            module = factory(d, C)
            if not isinstance(module, nn.Module):
                raise InputError(
                    f"encoder must make a torch module of (columns, classes), got one that made {type(module).__name__}"
                )
            own = {id(weight): weight for weight in module.parameters() if weight.requires_grad}
            if own.keys() & trained.keys():
                raise InputError(
                    "encoder must make a new module for every fold, got weights of another fold again, which know its labels: "
                    "make every layer inside the function"
                )
            trained.update(own)
            shape = tuple(module_logits(module, lambda some: dense(graph.features[some]), rows[:2]).shape)
            if shape != (len(rows[:2]), C):
                raise InputError(f"encoder must make a module with {C} logits per row, got outputs of shape {shape}")
            train_module(module, lambda some: dense(graph.features[some]), rows, labels, rng)

        def probabilities(features: Features) -> np.ndarray:
            logits = module_logits(module, lambda some: dense(features[some]), np.arange(features.shape[0]))
            return np.asarray(torch.softmax(logits.double(), dim=1).numpy())

        return probabilities

    return fit
