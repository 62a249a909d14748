"""An encoder of the user's own in the place of the fitted prior. It sees features and labels, never an edge.

Class probabilities are taken as they are. A scikit-learn classifier and a torch module are cross-fitted here, so the row of a
labelled node is out of fold by construction. An encoder that was fitted and saved before must not have seen the labelled rows.

A module is trained in mini-batches with a cosine learning rate and early stopping. Its rows are asked for batch by batch, so a
tall table is read and not held. The number of steps follows the number of rows.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from caribou.errors import InputError
from caribou.graph import Graph, listed
from caribou.models.class_prior import ClassPrior, KnownRows
from caribou.models.fit_context import one_thread
from caribou.models.learners import Table, cross_fitted
from caribou.models.public_rows import PublicRows, as_dense, blocks
from caribou.models.trainer import Validation, take_steps
from caribou.randomness import Streams

FOLDS = 5
SEEN = 0.01
"""Share of the labelled rows that a saved encoder may have been fitted on: rows of two tables may be equal by chance."""

KINDS = (
    "class probabilities [n, C], a scikit-learn classifier, a function (columns, classes) -> torch module, or the folder of a "
    "saved run of votes-edp or mlp"
)


class FittedEncoder(Protocol):
    """What was fitted, for nodes that it was not fitted on."""

    def probabilities(self, features: Table) -> np.ndarray:
        """Class probabilities. [n, d] -> [n, C]"""
        ...


@dataclass(frozen=True, eq=False)
class FoldMean:
    """The mean probabilities of the models of all folds; labelled rows get what was said of them out of fold.

    Args:
        models: one per fold.
        known: the labelled rows.
    """

    models: tuple[_Fitted, ...]
    known: KnownRows

    def probabilities(self, features: Table) -> np.ndarray:
        """Class probabilities. [n, d] -> [n, C]"""
        mean = np.mean([model.predict_proba(features) for model in self.models], axis=0)
        return self.known.put_into(np.asarray(mean), features)


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
        if not self.prior.known.can_be_compared:
            warnings.warn(
                f"encoder {self.folder} cannot be compared with the rows of this graph: it holds no digests of the rows that it "
                "was fitted on, or their key is another owner's; be sure that no labelled row of this graph is among them, "
                "because it would know their labels",
                stacklevel=3,
            )
        seen = self.prior.known.share_in(graph.features, labelled)
        if seen > SEEN:
            raise InputError(
                f"encoder {self.folder} must not have been fitted on labelled rows of this graph, got {seen:.0%} of them: it "
                "knows their labels; leave encoder out, or give a classifier, and it is fitted out of fold"
            )

    def probabilities(self, features: Table) -> np.ndarray:
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
        _require_classifier(encoder)
        return _cross_fitted(graph, streams, lambda rng: _Classifier(encoder, graph.num_classes, rng))
    if callable(encoder):
        public, trained = PublicRows.of(graph.features), dict[int, nn.Parameter]()
        return _cross_fitted(graph, streams, lambda rng: _Module(encoder, public, graph.num_classes, rng, trained))
    try:
        return graph.with_prior(encoder), None
    except InputError as error:
        raise InputError(f"encoder must be {KINDS}; as class probabilities: {error}") from error


class _Fitted(Protocol):
    """One model: learns some rows, and gives class probabilities of others, [n, C]."""

    def fit(self, x: Table, y: np.ndarray) -> Any: ...

    def predict_proba(self, x: Table) -> np.ndarray: ...


@one_thread()
def _cross_fitted(
    graph: Graph, streams: Streams, make: Callable[[np.random.Generator], _Fitted]
) -> tuple[Graph, FittedEncoder]:
    split, labels = graph.for_learning(public=True)
    rng = streams.generator("own encoder")
    train = rng.permutation(np.concatenate([split.train, split.val]))
    others = np.setdiff1d(np.arange(graph.num_nodes), train)
    models, out_of_fold = cross_fitted(
        lambda: make(rng),
        graph.features[train],
        np.array(labels)[train],
        FOLDS,
        scores=lambda model, x: model.predict_proba(x),
    )
    known = KnownRows.of(graph.features, train, out_of_fold)
    fitted = FoldMean(tuple(models), known)
    probabilities = np.empty((graph.num_nodes, graph.num_classes))
    probabilities[train], probabilities[others] = out_of_fold, fitted.probabilities(graph.features[others])
    return graph.with_prior(probabilities), fitted


class _Classifier:
    """A clone of a scikit-learn classifier, with its own randomness from the public seed where it has none."""

    def __init__(self, classifier: Any, classes: int, rng: np.random.Generator) -> None:
        from sklearn.base import clone

        self.model, self.classes = clone(classifier), classes
        parameters = self.model.get_params()
        free = sorted(key for key in parameters if key.split("__")[-1] == "random_state" and parameters[key] is None)
        self.model.set_params(**{key: int(rng.integers(2**31)) for key in free})

    def fit(self, x: Table, y: np.ndarray) -> None:
        try:
            self.model.fit(x, y)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"encoder must be able to learn from the graph's features, got {type(self.model).__name__}: {error}"
            ) from error

    def predict_proba(self, x: Table) -> np.ndarray:
        found = np.zeros((x.shape[0], self.classes))
        if len(found):
            found[:, np.asarray(self.model.classes_, dtype=np.int64)] = self.model.predict_proba(x)
        return found


def _require_classifier(classifier: Any) -> None:
    """Refuse a classifier without probabilities, and one that stays as it was fitted."""
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


def _require_no_edges(module: nn.Module) -> None:
    """An encoder sees rows of features. A module of graphs would read the private edges."""
    parameters = inspect.signature(module.forward).parameters.values()
    needed = [
        p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if len(needed) > 1:
        raise InputError(
            f"encoder must read rows of features alone, got {type(module).__name__}, whose forward takes {', '.join(needed)}: "
            "edges are private, and an encoder may not read one"
        )


class _Module:
    """A torch module, on standardised rows (words: weighted by how rare they are).

    Args:
        factory: makes it, of (columns, classes).
        public: how features become rows.
        classes: C.
        rng: of the public seed.
        trained: weights of all folds so far, kept so that no number is given again.
    """

    def __init__(
        self,
        factory: Callable[[int, int], nn.Module],
        public: PublicRows,
        classes: int,
        rng: np.random.Generator,
        trained: dict[int, nn.Parameter],
    ) -> None:
        self.factory, self.public, self.classes, self.rng, self.trained = factory, public, classes, rng, trained

    def _rows(self, x: Table) -> RowSource:
        length = np.float32(np.sqrt(max(x.shape[1], 1)))  # columns of variance 1, as networks like them
        return lambda some: torch.from_numpy(np.ascontiguousarray(as_dense(self.public(x[some])) * length))

    def fit(self, x: Table, y: np.ndarray) -> None:
        rows = self._rows(x)
        with torch.random.fork_rng(devices=[]):  # initial weights and dropout follow the public seed
            torch.manual_seed(int(self.rng.integers(2**63)))
            self.module = self.factory(x.shape[1], self.classes)
            if not isinstance(self.module, nn.Module):
                raise InputError(
                    "encoder must make a torch module of (columns, classes), got one that made "
                    f"{type(self.module).__name__}"
                )
            _require_no_edges(self.module)
            own = {id(weight): weight for weight in self.module.parameters() if weight.requires_grad}
            if own.keys() & self.trained.keys():
                raise InputError(
                    "encoder must make a new module for every fold, got weights of another fold again, which know its labels: "
                    "make every layer inside the function"
                )
            self.trained.update(own)
            shape = tuple(module_logits(self.module, rows, np.arange(min(2, len(y)))).shape)
            if shape != (min(2, len(y)), self.classes):
                raise InputError(
                    f"encoder must make a module with {self.classes} logits per row, got outputs of shape {shape}"
                )
            train_module(self.module, rows, np.arange(len(y)), y, self.rng)

    def predict_proba(self, x: Table) -> np.ndarray:
        logits = module_logits(self.module, self._rows(x), np.arange(x.shape[0]))
        return np.asarray(torch.softmax(logits.double(), dim=1).numpy())


BATCHES = (32, 512)
"""A sixteenth of the rows, but at least and at most so many."""
STEPS = 1600
EPOCHS = (8, 80)
"""STEPS batches are taken, but at least and at most so many passes over the rows."""
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-4
HELD_OUT, MOST_HELD_OUT = 0.1, 5000
"""Share of the rows, and how many at most, that choose when to stop; no step is taken on them."""
LOOKS, PATIENCE = 16, 4
"""The held-out rows are looked at so often, and training ends after so many looks without a smaller loss."""

RowSource = Callable[[np.ndarray], Tensor]
"""Numbers of rows, [m] -> the rows, [m, d], float32."""


def batches_and_steps(rows: int) -> tuple[int, int]:
    """How many batches a pass over the rows has, and how many are taken in all.

    >>> batches_and_steps(450), batches_and_steps(15_000), batches_and_steps(400_000)
    ((15, 1200), (30, 1600), (782, 6256))
    """
    each = -(-rows // int(np.clip(rows // 16, *BATCHES)))
    return each, int(np.clip(STEPS, EPOCHS[0] * each, EPOCHS[1] * each))


def train_module(
    module: nn.Module,
    rows: RowSource,
    train: np.ndarray,
    labels: np.ndarray,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
) -> nn.Module:
    """Minimise the cross-entropy of the module's logits, and put it into the state with the least loss on held-out rows.

    Args:
        module: [m, d] -> logits, [m, C]; it is changed in place. Its own randomness (dropout) is torch's global generator.
        rows: of any numbers.
        train: [m], numbers of the labelled rows; a random part of them is held out.
        labels: [n]; only those of ``train`` are read.
        rng: draws held-out rows and batches.
        weights: [C], of the classes in the loss; None: all are 1.

    Returns:
        The module, in evaluation mode.
    """
    order = rng.permutation(train)
    held = order[: min(MOST_HELD_OUT, int(HELD_OUT * len(order)))]
    used = order[len(held) :]
    y = torch.from_numpy(np.array(labels))
    weight = None if weights is None else torch.from_numpy(weights).float()
    optimizer = torch.optim.Adam(module.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
    each, steps = batches_and_steps(len(used))
    batches: list[np.ndarray] = []

    def loss(step: int) -> Tensor:
        if not batches:
            batches.extend(np.array_split(rng.permutation(used), each))
        batch = batches.pop()
        module.train()
        return nn.functional.cross_entropy(module(rows(batch)), y[batch], weight=weight)

    def scores() -> list[tuple[float, float]]:
        if len(held) == 0:
            return [(0.0, 0.0)]
        logits = module_logits(module, rows, held)
        return [(-float(nn.functional.cross_entropy(logits, y[held], weight=weight)), 0.0)]

    def state(_: int) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in module.state_dict().items()}

    look = max(1, steps // LOOKS)
    (best,) = take_steps(
        loss,
        optimizer,
        steps=steps,
        validation=Validation(scores, state, due=lambda step: step % look == 0),
        learning_rate=lambda step: LEARNING_RATE * 0.5 * (1 + float(np.cos(np.pi * (step - 1) / steps))),
        patience=PATIENCE,
        stage="encoder",
    )
    module.load_state_dict(best.state)
    return module.eval()


def module_logits(module: nn.Module, rows: RowSource, numbers: np.ndarray) -> Tensor:
    """Logits of some rows, in evaluation mode, block by block. [m] -> [m, C]"""
    module.eval()
    with torch.no_grad():
        return torch.cat([module(rows(block)) for block in blocks(numbers)] or [module(rows(numbers))])
