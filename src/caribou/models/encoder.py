"""The encoder: class probabilities from a node's own features, cross-fitted. It never reads an edge.

At edge level features, labels and split are public, so fitting it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import softmax
from torch import Tensor, nn

from caribou._validate import integer
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.machine.memory import DOUBLE, SINGLE, require_memory
from caribou.mechanisms.bounded_rows import unit_length
from caribou.models.classifier import ByteDropout
from caribou.models.objective import USUAL, Objective
from caribou.models.public_rows import DENSE, PublicRows, blocks
from caribou.models.threads import one_thread
from caribou.models.trainer import (
    Score,
    batches,
    class_weights,
    load_arrays,
    module_arrays,
    module_logits,
    train_module,
    validation_score,
)
from caribou.randomness import Streams

CHECKPOINTS = 18
"""States per fit that are scored, equally spaced; the one with the best validation score is kept."""


@dataclass(frozen=True)
class EncoderConfig:
    """One way to fit the MLP (SELU, Adam, batches, cosine learning rate).

    Args:
        steps: how many batches.
        learning_rate: at the first step; it falls to 0 along a cosine.
        weight_decay: of Adam.
        dropout: of hidden units, in [0, 1).
        input_dropout: of features, in [0, 1).
        sparse_row_length: length that sparse rows are scaled to.
    """

    steps: int
    learning_rate: float
    weight_decay: float
    dropout: float
    input_dropout: float
    sparse_row_length: float


REGULARISED = EncoderConfig(400, 0.005, 5e-3, 0.6, 0.6, sparse_row_length=4.0)
"""For many columns and few labels."""
PLAIN = EncoderConfig(800, 0.01, 1e-3, 0.3, 0.0, sparse_row_length=16.0)
"""For informative features and many labels."""
WIDE = EncoderConfig(800, 0.01, 1e-3, 0.3, 0.3, sparse_row_length=16.0)
"""For rows with many non-zero entries, where a model without input dropout becomes far too sure of itself."""
MANY_ENTRIES = 100
HIDDEN = (64, 16)
BATCH = 512
FOLDS = 3


def widths(hidden: Any) -> tuple[int, ...]:
    """Widths of hidden layers, checked; () means a linear model.

    >>> widths([64, 16]), widths(())
    ((64, 16), ())
    """
    if not isinstance(hidden, list | tuple):
        raise InputError(f"hidden must be a list of widths such as [64, 16], got {hidden!r}")
    return tuple(integer(at_least=1, hidden=width) for width in hidden)


class NodeEncoder(Protocol):
    """What is known of a node by its own features."""

    def probabilities(self, features: np.ndarray | sp.csr_array) -> np.ndarray:
        """Class probabilities. [n, d] -> [n, C]"""
        ...

    def embeddings(self, features: np.ndarray | sp.csr_array) -> np.ndarray:
        """Rows of length at most 1. [n, d] -> [n, h]"""
        ...

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        ...


@dataclass(frozen=True, eq=False)
class Prior:
    """Class probabilities of every node. Rows of training nodes come from models that were not fitted on them.

    Args:
        probabilities: [n, C].
        encoder: the fitted models, for nodes of other graphs; or anything that gives class probabilities and rows.
    """

    probabilities: np.ndarray
    encoder: NodeEncoder


class Mlp(nn.Module):
    """Linear layers with SELU and dropout between them. [m, d], dense or CSR -> logits, [m, C].

    Weights begin at N(0, 1 / inputs), biases at 0. Dropout of sparse rows drops entries that are not 0.

    Args:
        widths: d, of the hidden layers, C.
        dropout: of hidden units, in [0, 1).
        input_dropout: of features, in [0, 1).
        seed: of both.

    >>> Mlp((3, 5, 2))(np.ones((4, 3), np.float32)).shape
    torch.Size([4, 2])
    """

    def __init__(
        self, widths: Sequence[int], dropout: float = 0.0, input_dropout: float = 0.0, *, seed: int = 0
    ) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(a, b) / math.sqrt(max(a, 1)) for a, b in pairwise(widths))
        self.biases = nn.ParameterList(torch.zeros(b) for b in widths[1:])
        self.dropout, self.input_dropout = ByteDropout(dropout, seed=seed), ByteDropout(input_dropout, seed=seed + 1)

    def forward(self, x: np.ndarray | sp.csr_array) -> Tensor:
        return self.layers(x, len(self.weights))

    def layers(self, x: np.ndarray | sp.csr_array, count: int) -> Tensor:
        """What the first ``count`` layers make of rows, before the activation of the last of them."""
        h = self._first(x) + self.biases[0]
        for weight, bias in list(zip(self.weights, self.biases, strict=True))[1:count]:
            h = self.dropout(torch.selu(h)) @ weight + bias
        return h

    def _first(self, x: Any) -> Tensor:
        """Rows times the first weights, without making sparse rows dense."""
        if not sp.issparse(x):
            return self.input_dropout(torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))) @ self.weights[0]
        return nn.functional.embedding_bag(
            torch.from_numpy(x.indices.astype(np.int64)),
            self.weights[0],
            torch.from_numpy(x.indptr[:-1].astype(np.int64)),
            mode="sum",
            per_sample_weights=self.input_dropout(torch.from_numpy(x.data)),
        )


@dataclass(frozen=True, eq=False)
class Encoder:
    """MLPs on the same features. The first was fitted on all training nodes, each other one without a fold.

    Args:
        rows: how features become rows.
        row_length: of sparse rows.
        models: the MLPs.
    """

    rows: PublicRows
    row_length: float
    models: tuple[Mlp, ...]

    def logits(self, features: np.ndarray | sp.csr_array) -> np.ndarray:
        """Logits of every model. [n, d] -> [m, n, C]."""
        rows, numbers = self.rows.source(features, self.row_length), np.arange(features.shape[0])
        return np.stack([module_logits(model, rows, numbers).numpy() for model in self.models])

    def probabilities(self, features: np.ndarray | sp.csr_array) -> np.ndarray:
        """The mean probabilities of the models, for nodes that none of them was fitted on. [n, d] -> [n, C]."""
        return softmax(self.logits(features), axis=2).mean(axis=0).astype(np.float64)

    def embeddings(self, features: np.ndarray | sp.csr_array) -> np.ndarray:
        """The last hidden layer of the first model (its logits if there is none), rows of length 1. [n, d] -> [n, h]."""
        rows, first = self.rows.source(features, self.row_length), self.models[0].eval()
        layers = max(1, len(first.weights) - 1)
        with torch.no_grad():
            parts = [first.layers(rows(block), layers).numpy() for block in blocks(np.arange(features.shape[0]))]
        return unit_length(np.concatenate(parts).astype(np.float64))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        arrays = {"encoder.row_length": np.array(self.row_length), **self.rows.to_arrays()}
        for number, model in enumerate(self.models):
            arrays |= module_arrays(model, f"encoder.{number}.")
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Encoder:
        """The inverse of `to_arrays`."""
        models: list[Mlp] = []
        while f"encoder.{len(models)}.weights.0" in arrays:
            prefix = f"encoder.{len(models)}."
            layers = sum(1 for name in arrays if name.startswith(f"{prefix}weights."))
            shapes = [arrays[f"{prefix}weights.{i}"].shape for i in range(layers)]
            with torch.random.fork_rng(devices=[]):  # initial weights are drawn, and thrown away
                models.append(Mlp((shapes[0][0], *(width for _, width in shapes))))
            load_arrays(models[-1], arrays, prefix)
        return cls(PublicRows.from_arrays(arrays), float(arrays["encoder.row_length"]), tuple(models))


def configurations(graph: Graph) -> tuple[EncoderConfig, ...]:
    """The configurations worth fitting for these features; validation nodes choose between them."""
    return (WIDE,) if _entries_per_row(graph.features) > MANY_ENTRIES else (REGULARISED, PLAIN)


def _entries_per_row(x: np.ndarray | sp.csr_array) -> float:
    nonzero = sp.csr_array(x).count_nonzero() if sp.issparse(x) else np.count_nonzero(x)
    return float(nonzero) / max(x.shape[0], 1)


class Store(Protocol):
    """Where fits are kept, by what they are fitted on; edges are no part of it."""

    def __contains__(self, key: Any, /) -> bool: ...

    def __getitem__(self, key: Any, /) -> Any: ...

    def __setitem__(self, key: Any, value: Any, /) -> None: ...


_kept: ContextVar[Store | None] = ContextVar("kept", default=None)
kept_priors: ContextVar[Store | None] = ContextVar("kept priors", default=None)
"""Where `caribou.models.class_prior` keeps what it has fitted, inside `kept_encoders`."""


@contextmanager
def kept_encoders(store: Store | None = None, priors: Store | None = None) -> Iterator[None]:
    """Inside, an encoder is fitted once per graph, seed and widths, and used again; without ``store``, per graph object.

    For searches and grids: many fits differ only in what comes after the encoder, which takes most of the time. The encoder reads
    nothing but features, labels, split and the public seed, so the one that is used again is the one that would be fitted again.

    Args:
        store: where encoders are kept; None keeps them in memory.
        priors: where class priors are kept, likewise.
    """
    token = _kept.set({} if store is None else store)
    other = kept_priors.set({} if priors is None else priors)
    try:
        yield
    finally:
        _kept.reset(token)
        kept_priors.reset(other)


@contextmanager
def encoders_once() -> Iterator[None]:
    """As `kept_encoders` in memory, unless encoders are kept already."""
    if _kept.get() is not None:
        yield
        return
    with kept_encoders():
        yield


def cross_fit(graph: Graph, streams: Streams, hidden: tuple[int, ...] = HIDDEN, objective: Objective = USUAL) -> Prior:
    """Fit the configurations, keep the one that validates better, and predict every node out of fold.

    1 + FOLDS MLPs d - ``hidden`` - C are fitted: one on all training nodes, by which the configuration is chosen, and one per
    fold that is left out. Training nodes are predicted by the model that left them out, the others by the mean of all models.

    Args:
        graph: features, labels and split are read; edges are not.
        streams: the public seed.
        hidden: widths of the hidden layers; () for a linear model.
        objective: what validates better, and how much each class counts.
    """
    return _kept_or_fitted(graph, streams, hidden, FOLDS, objective)


def fit_one(graph: Graph, streams: Streams, hidden: tuple[int, ...] = HIDDEN, objective: Objective = USUAL) -> Prior:
    """Fit the configurations on all training nodes, and keep the one that validates better: one MLP, no fold is left out.

    A quarter of the work of `cross_fit`. But the rows of training nodes know their own labels.

    Args:
        graph, streams, hidden, objective: as in `cross_fit`.
    """
    return _kept_or_fitted(graph, streams, hidden, 0, objective)


def _kept_or_fitted(graph: Graph, streams: Streams, hidden: tuple[int, ...], folds: int, objective: Objective) -> Prior:
    kept = _kept.get()
    if kept is None:
        return _fitted(graph, streams, hidden, folds, objective)
    key = (graph, streams, hidden, folds, objective)
    if key not in kept:
        kept[key] = _fitted(graph, streams, hidden, folds, objective)
    return kept[key]


@one_thread()
def _fitted(graph: Graph, streams: Streams, hidden: tuple[int, ...], folds: int, objective: Objective) -> Prior:
    _check_memory(graph, hidden, folds)
    rng = streams.generator("encoder")
    train = graph.for_learning(public=True)[0].train
    left_out = np.zeros(graph.num_nodes, dtype=np.int64)
    if folds:
        left_out[train] = 1 + rng.permutation(len(train)) % folds
    public = PublicRows.of(graph.features)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**62)))
        fits = [_fit_mlp(graph, public, config, hidden, train, rng, objective) for config in configurations(graph)]
        config, first, _ = max(fits, key=lambda fit: fit[2])  # of equal ones the first
        rest = (train[left_out[train] != k] for k in range(1, 1 + folds))
        others = [_fit_mlp(graph, public, config, hidden, rows, rng, objective)[1] for rows in rest]
    encoder = Encoder(public, config.sparse_row_length, (first, *others))
    each = softmax(encoder.logits(graph.features), axis=2)  # [1 + folds, n, C]
    probabilities = each.mean(axis=0)
    for k in range(1, 1 + folds):
        probabilities[left_out == k] = each[k, left_out == k]
    return Prior(probabilities.astype(np.float64), encoder)


def _check_memory(graph: Graph, hidden: tuple[int, ...], folds: int) -> None:
    """Weights of all models and, of the one that is trained, gradient, two moments and best state; class probabilities; rows that
    are made dense. Dense features are read in parts."""
    n, d, models = graph.num_nodes, graph.num_features, 1 + folds
    weights = (models + 4) * sum(a * b for a, b in pairwise((d, *hidden, graph.num_classes)))
    probabilities = (models + 1) * n * graph.num_classes
    dense = 2 * n * d if sp.issparse(graph.features) and _entries_per_row(graph.features) > DENSE * d else 0
    needed = SINGLE * (weights + dense) + DOUBLE * probabilities
    require_memory(needed, f"the encoder of {n:,} nodes with {d:,} columns and hidden = {list(hidden)}")


def _fit_mlp(
    graph: Graph,
    public: PublicRows,
    config: EncoderConfig,
    hidden: tuple[int, ...],
    train: np.ndarray,
    rng: np.random.Generator,
    objective: Objective,
) -> tuple[EncoderConfig, Mlp, Score]:
    """Train one MLP on some of the training nodes. Validation nodes choose the state that is kept; its score is the third."""
    split, labels = graph.for_learning(public=True)
    y, val = torch.from_numpy(np.array(labels)), np.array(split.val)
    rows = public.source(graph.features, config.sparse_row_length)
    sizes, seed = (graph.num_features, *hidden, graph.num_classes), int(rng.integers(2**62))
    model = Mlp(sizes, config.dropout, config.input_dropout, seed=seed)
    weights = class_weights(objective, y[np.array(split.train)], graph.num_classes)
    drawn = batches(train, -(-len(train) // BATCH), rng)

    def loss(_: int) -> Tensor:
        batch = next(drawn)
        return nn.functional.cross_entropy(model(rows(batch)), y[batch], weight=weights)

    score = train_module(
        model,
        loss,
        steps=config.steps,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        cosine=True,
        score=validation_score(lambda: module_logits(model, rows, val), y[val], objective),
        every=max(1, config.steps // CHECKPOINTS),
        stage="encoder",
    )
    return config, model, score
