"""The encoder: class probabilities from a node's own features, cross-fitted. It never reads an edge.

At edge level features, labels and split are public, so fitting it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from caribou._validate import MAX_WIDTH, integer
from caribou.errors import InputError
from caribou.machine.deferred import deferred_imports
from caribou.machine.memory import DOUBLE, SINGLE, require_memory
from caribou.models.fit_context import one_thread
from caribou.models.objective import USUAL, Objective

with deferred_imports():
    import numpy as np
    import scipy.sparse as sp
    import torch
    from torch import Tensor

    from caribou.graph import Graph
    from caribou.mechanisms.bounded_rows import row_norms, unit_length
    from caribou.models.public_rows import as_dense, column_moments
    from caribou.models.trainer import Score, Validation, first_larger, take_steps
    from caribou.randomness import Streams

CHECKPOINTS = 12
"""Per fit, equally spaced over the last two thirds; the one with the best validation score is kept."""


@dataclass(frozen=True)
class EncoderConfig:
    """One way to fit the MLP (SELU, Adam, batches, cosine learning rate).

    Args:
        steps: how many batches.
        learning_rate: at the first step; it falls to 0 along a cosine.
        weight_decay: of Adam.
        dropout: of hidden units, in [0, 1).
        input_dropout: of features, in [0, 1).
        sparse_row_length: length that sparse rows are scaled to (`Scaling`).
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
DENSE = 0.2
"""Features of a larger density are standardised by column; others stay sparse."""
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
    return tuple(integer(at_least=1, at_most=MAX_WIDTH, hidden=width) for width in hidden)


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


@dataclass(frozen=True, eq=False)
class Scaling:
    """How features are scaled for a model: columns standardised (dense), or rows of one length (sparse, kept sparse).

    Args:
        centre: [d], mean of every column, or None for sparse features.
        spread: [d], standard deviation of every column, or None for sparse features.
        row_length: length of every row that is not 0, if the features are sparse.

    >>> Scaling.of(np.array([[1.0, 5.0], [3.0, 9.0]]), row_length=4.0)(np.array([[2.0, 9.0]])).tolist()
    [[0.0, 1.0]]
    """

    centre: np.ndarray | None
    spread: np.ndarray | None
    row_length: float

    @classmethod
    def of(cls, x: np.ndarray | sp.csr_array, row_length: float) -> Scaling:
        """The scaling of features x, [n, d]: standardised if more than DENSE of the entries are not 0."""
        if _entries_per_row(x) <= DENSE * x.shape[1]:
            return cls(None, None, row_length)
        mean, std = column_moments(x)
        return cls(mean, np.maximum(std, 1e-6), row_length)

    def __call__(self, x: np.ndarray | sp.csr_array) -> np.ndarray | sp.csr_array:
        if self.centre is not None and self.spread is not None:
            return (as_dense(x) - self.centre) / self.spread
        rows = sp.csr_array(x, dtype=np.float32)
        scale = (self.row_length / np.maximum(row_norms(rows), 1e-12)).astype(np.float32)
        return sp.csr_array(sp.diags_array(scale) @ rows)

    def to_arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        given = {"row_length": np.array(self.row_length), "centre": self.centre, "spread": self.spread}
        return {f"{prefix}.{name}": array for name, array in given.items() if array is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], prefix: str) -> Scaling:
        """The inverse of `to_arrays`."""
        length = float(arrays[f"{prefix}.row_length"])
        return cls(arrays.get(f"{prefix}.centre"), arrays.get(f"{prefix}.spread"), length)

    def by_rows(self, x: np.ndarray | sp.csr_array) -> ScaledRows | sp.csr_array:
        """As calling it, but dense features are scaled row by row when they are asked for: a mapped file stays on disk."""
        if self.centre is None or self.spread is None or sp.issparse(x):
            return self(x)
        return ScaledRows(x, self.centre, self.spread)


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Standardised rows of a dense matrix, which itself is left as it is. x: [n, d]; centre, spread: [d]; rows [m] -> [m, d]."""

    x: np.ndarray
    centre: np.ndarray
    spread: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """n, d."""
        return self.x.shape

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        return (as_dense(self.x[rows]) - self.centre) / self.spread


@dataclass(frozen=True, eq=False)
class Encoder:
    """m MLPs side by side on the same features. The first was fitted on all training nodes.

    Args:
        scaling: of the features.
        weights: one [m, a, b] per layer.
        biases: one [m, 1, b] per layer.
    """

    scaling: Scaling
    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]

    def logits(self, features: np.ndarray | sp.csr_array) -> np.ndarray:
        """Logits of every model. [n, d] -> [m, n, C]."""
        return self._run(features, len(self.weights))

    def probabilities(self, features: np.ndarray | sp.csr_array) -> np.ndarray:
        """The mean probabilities of the models, for nodes that none of them was fitted on. [n, d] -> [n, C]."""
        return _softmax(self.logits(features)).mean(axis=0).astype(np.float64)

    def embeddings(self, features: np.ndarray | sp.csr_array) -> np.ndarray:
        """The last hidden layer of the first model (its logits if there is none), rows of length 1. [n, d] -> [n, h]."""
        return unit_length(self._run(features, max(1, len(self.weights) - 1))[0].astype(np.float64))

    def _run(self, features: np.ndarray | sp.csr_array, layers: int) -> np.ndarray:
        x = self.scaling.by_rows(features)
        weights = [torch.from_numpy(np.array(w)) for w in self.weights[:layers]]
        biases = [torch.from_numpy(np.array(b)) for b in self.biases[:layers]]
        parts = np.array_split(np.arange(x.shape[0]), 1 + x.shape[0] // 8192)
        with torch.no_grad():
            return np.concatenate([_forward(x, rows, weights, biases).numpy() for rows in parts], axis=1)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        arrays = self.scaling.to_arrays("encoder")
        for i, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            arrays |= {f"encoder.weight_{i}": w, f"encoder.bias_{i}": b}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Encoder:
        """The inverse of `to_arrays`."""
        layers = sum(1 for name in arrays if name.startswith("encoder.weight_"))
        return cls(
            Scaling.from_arrays(arrays, "encoder"),
            tuple(arrays[f"encoder.weight_{i}"] for i in range(layers)),
            tuple(arrays[f"encoder.bias_{i}"] for i in range(layers)),
        )


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
Fit = TypeVar("Fit")


@contextmanager
def kept_fits(store: Store | None = None) -> Iterator[None]:
    """Inside, encoders and priors are fitted once per graph, seed and settings; without ``store``, per graph object.

    For searches and grids: many fits differ only in what comes after the encoder, which takes most of the time. It reads nothing
    but features, labels, split and the public seed, so the one that is used again is the one that would be fitted again.

    Args:
        store: where they are kept; None keeps them in memory.
    """
    if store is None and _kept.get() is not None:  # they are kept already
        yield
        return
    token = _kept.set({} if store is None else store)
    try:
        yield
    finally:
        _kept.reset(token)


def fitted_once(fit: Callable[..., Fit], graph: Graph, *settings: Any) -> Fit:
    """What ``fit(graph, *settings)`` returns, or returned before inside `kept_fits`."""
    kept, key = _kept.get(), (graph, *settings)
    if kept is None:
        return fit(*key)
    if key not in kept:
        kept[key] = fit(*key)
    return kept[key]


def cross_fit(graph: Graph, streams: Streams, hidden: tuple[int, ...] = HIDDEN, objective: Objective = USUAL) -> Prior:
    """Fit the configurations, keep the one that validates better, and predict every node out of fold.

    Each configuration is one joint fit of 1 + FOLDS MLPs d - ``hidden`` - C: one on all training nodes, and one per fold that is
    left out. Training nodes are predicted by the model that left them out, the others by the mean of all models.

    Args:
        graph: features, labels and split are read; edges are not.
        streams: the public seed.
        hidden: widths of the hidden layers; () for a linear model.
        objective: what validates better, and how much each class counts.
    """
    return fitted_once(_fitted, graph, streams, hidden, FOLDS, objective)


def fit_one(graph: Graph, streams: Streams, hidden: tuple[int, ...] = HIDDEN, objective: Objective = USUAL) -> Prior:
    """Fit the configurations on all training nodes, and keep the one that validates better: one MLP, no fold is left out.

    A quarter of the work of `cross_fit`. But the rows of training nodes know their own labels.

    Args:
        graph, streams, hidden, objective: as in `cross_fit`.
    """
    return fitted_once(_fitted, graph, streams, hidden, 0, objective)


@one_thread()
def _fitted(graph: Graph, streams: Streams, hidden: tuple[int, ...], folds: int, objective: Objective) -> Prior:
    _check_memory(graph, hidden, folds)
    rng = streams.generator("encoder")
    train = graph.for_learning(public=True)[0].train
    left_out = np.zeros(graph.num_nodes, dtype=np.int64)
    if folds:
        left_out[train] = 1 + rng.permutation(len(train)) % folds
    member = np.arange(1 + folds)[:, None] != left_out
    member[0] = True
    fits = [_fit_jointly(graph, config, hidden, member, rng, objective) for config in configurations(graph)]
    encoder, _ = max(fits, key=lambda fit: fit[1][0])  # of equal ones the first
    each = _softmax(encoder.logits(graph.features))  # [1 + folds, n, C]
    probabilities = each.mean(axis=0)
    for k in range(1, 1 + folds):
        probabilities[left_out == k] = each[k, left_out == k]
    return Prior(probabilities.astype(np.float64), encoder)


def _check_memory(graph: Graph, hidden: tuple[int, ...], folds: int) -> None:
    """Weights of all models (value, gradient, two moments, best, and one more), class probabilities, and sparse features that are
    made dense, twice. Dense ones are read in parts."""
    n, d, models = graph.num_nodes, graph.num_features, 1 + folds
    weights = models * sum(a * b for a, b in pairwise((d, *hidden, graph.num_classes)))
    dense = 2 * n * d if sp.issparse(graph.features) and _entries_per_row(graph.features) > DENSE * d else 0
    probabilities = (models + 1) * n * graph.num_classes
    needed = SINGLE * (6 * weights + dense) + DOUBLE * probabilities
    require_memory(needed, f"the encoder of {n:,} nodes with {d:,} columns and hidden = {list(hidden)}")


def _fit_jointly(
    graph: Graph,
    config: EncoderConfig,
    hidden: tuple[int, ...],
    member: np.ndarray,
    rng: np.random.Generator,
    objective: Objective,
) -> tuple[Encoder, Score]:
    """Train m models side by side; model j learns from the training nodes with member[j]. Validation nodes choose checkpoints.

    Returns also the validation score of model 0: accuracy (or the metric of the objective) - CE/10, and accuracy.
    """
    scaling = Scaling.of(graph.features, config.sparse_row_length)
    x = scaling.by_rows(graph.features)
    split, labels = graph.for_learning(public=True)
    y = torch.from_numpy(np.array(labels))
    m, C = len(member), graph.num_classes
    train, val = split.train, np.array(split.val)
    widths = (x.shape[1], *hidden, C)
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    weights = [(torch.randn(m, a, b, generator=generator) / math.sqrt(a)).requires_grad_() for a, b in pairwise(widths)]
    biases = [torch.zeros(m, 1, b, requires_grad=True) for b in widths[1:]]
    optimizer = torch.optim.Adam([*weights, *biases], lr=config.learning_rate, weight_decay=config.weight_decay)
    batches = _batches(train, min(BATCH, len(train)), rng)
    masks = torch.from_numpy(member)
    dropout = (config.input_dropout, config.dropout, generator)

    counted = objective.class_weights(np.array(labels)[train], C)
    by_class = None if counted is None else torch.from_numpy(counted.astype(np.float32))

    def loss(_: int) -> Tensor:
        rows = next(batches)
        losses = torch.nn.functional.cross_entropy(
            _forward(x, rows, weights, biases, dropout).transpose(1, 2),
            y[rows].expand(m, -1),
            weight=by_class,
            reduction="none",
        )
        use = masks[:, rows]
        return ((losses * use).sum(dim=1) / use.sum(dim=1).clamp(min=1)).sum()

    def scores() -> list[Score]:
        with torch.no_grad():
            return _scores(_forward(x, val, weights, biases), y[val], objective)

    marks = {config.steps * (CHECKPOINTS + 2 * (k + 1)) // (3 * CHECKPOINTS) for k in range(CHECKPOINTS)}
    validation = Validation(
        scores,
        state=lambda model: [p[model].detach().clone() for p in (*weights, *biases)],
        improves=first_larger,
        due=marks.__contains__,
    )
    best = take_steps(
        loss,
        optimizer,
        steps=config.steps,
        stage="encoder",
        validation=validation,
        learning_rate=lambda step: config.learning_rate * 0.5 * (1 + math.cos(math.pi * step / config.steps)),
    )
    kept = [torch.stack(parts).numpy() for parts in zip(*(one.state for one in best), strict=True)]
    encoder = Encoder(scaling, tuple(kept[: len(weights)]), tuple(kept[len(weights) :]))
    return encoder, best[0].score


def _batches(nodes: np.ndarray, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Batches without end: all nodes in a random order, then in another; what is left over at the end of one is not used."""
    order, position = rng.permutation(nodes), 0
    while True:
        if position + size > len(order):
            order, position = rng.permutation(nodes), 0
        yield order[position : position + size]
        position += size


def _forward(
    x: np.ndarray | sp.csr_array | ScaledRows,
    rows: np.ndarray,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    dropout: tuple[float, float, torch.Generator] | None = None,
) -> Tensor:
    """All models on some rows. ``dropout``: of inputs, of hidden units, and their generator. [n, d] -> [m, rows, C]."""
    of_inputs, of_hidden, generator = dropout or (0.0, 0.0, None)
    h = _first_layer(x, rows, weights[0], of_inputs, generator) + biases[0]
    for w, b in zip(weights[1:], biases[1:], strict=True):
        h = torch.selu(h)
        if of_hidden > 0:
            h = h * (torch.rand(h.shape, generator=generator) >= of_hidden) / (1 - of_hidden)
        h = torch.bmm(h, w) + b
    return h


def _softmax(logits: np.ndarray) -> np.ndarray:
    return torch.softmax(torch.from_numpy(logits), dim=-1).numpy()


def _scores(logits: Tensor, y: Tensor, objective: Objective) -> list[Score]:
    """accuracy - CE / 10, which decides, and accuracy of every model. logits: [m, val, C]; without validation nodes 0.

    The metric of the objective stands in the place of the first accuracy.
    """
    if len(y) == 0:
        return [(0.0, 0.0)] * len(logits)
    accuracies = (logits.argmax(dim=2) == y).double().mean(dim=1)
    ce = torch.nn.functional.cross_entropy(logits.transpose(1, 2), y.expand(len(logits), -1), reduction="none").mean(
        dim=1
    )
    first = accuracies
    if objective.metric is not None:
        first = torch.tensor([objective.score(each, y.numpy()) for each in logits.double().numpy()])
    return list(zip((first - 0.1 * ce.double()).tolist(), accuracies.tolist(), strict=True))


def _first_layer(
    x: np.ndarray | sp.csr_array | ScaledRows,
    rows: np.ndarray,
    weight: Tensor,
    dropout: float,
    generator: torch.Generator | None,
) -> Tensor:
    """x[rows] times the weights of all models, without making sparse rows dense. [rows, d], [m, d, h] -> [m, rows, h]."""
    m, d, h = weight.shape
    wide = weight.permute(1, 0, 2).reshape(d, m * h)
    if sp.issparse(x):
        part: Any = x[rows]
        values = torch.from_numpy(part.data)
        if dropout > 0:
            values = values * (torch.rand(values.shape, generator=generator) >= dropout) / (1 - dropout)
        out = torch.nn.functional.embedding_bag(
            torch.from_numpy(part.indices.astype(np.int64)),
            wide,
            torch.from_numpy(part.indptr[:-1].astype(np.int64)),
            mode="sum",
            per_sample_weights=values,
        )
    else:
        dense = torch.from_numpy(np.ascontiguousarray(x[rows]))
        if dropout > 0:
            dense = dense * (torch.rand(dense.shape, generator=generator) >= dropout) / (1 - dropout)
        out = dense @ wide
    return out.reshape(len(rows), m, h).transpose(0, 1)
