"""The encoder: class probabilities from a node's own features, cross-fitted. It never sees an edge.

At edge level features, labels and split are public, so what is fitted here costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from caribou.graph import Graph
from caribou.learning.features import row_norms
from caribou.randomness import Streams

CHECKPOINTS = 12
"""Per fit, equally spaced over the last two thirds; the one with the best validation score is kept."""


@dataclass(frozen=True)
class EncoderConfig:
    """One way to fit the MLP d - 64 - 16 - C (SELU, Adam, batches, cosine learning rate)."""

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


@dataclass(frozen=True, eq=False)
class Prior:
    """Class probabilities of every node. Rows of training nodes come from models that were not fitted on them.

    ``probabilities``: [n, C]. ``validation_accuracy``: of the single model, for the choice between configurations.
    """

    probabilities: np.ndarray
    validation_accuracy: float


def prepared_features(graph: Graph, config: EncoderConfig) -> np.ndarray | sp.csr_array:
    """Dense features standardised by column; sparse ones (density <= DENSE) with rows of equal length, still sparse."""
    x = graph.features
    if _entries_per_row(graph) > DENSE * x.shape[1]:
        dense = np.asarray(x.todense() if sp.issparse(x) else x, dtype=np.float32)
        return (dense - dense.mean(axis=0)) / np.maximum(dense.std(axis=0), 1e-6)
    rows = sp.csr_array(x, dtype=np.float32)
    scale = (config.sparse_row_length / np.maximum(row_norms(rows), 1e-12)).astype(np.float32)
    return sp.csr_array(sp.diags_array(scale) @ rows)


def configurations(graph: Graph) -> tuple[EncoderConfig, ...]:
    """The configurations worth fitting for these features."""
    return (WIDE,) if _entries_per_row(graph) > MANY_ENTRIES else (REGULARISED, PLAIN)


def _entries_per_row(graph: Graph) -> float:
    x = graph.features
    nonzero = x.nnz if sp.issparse(x) else int(np.count_nonzero(x))
    return nonzero / max(x.shape[0], 1)


def cross_fit(graph: Graph, streams: Streams) -> Prior:
    """Fit the configurations, keep the one that validates better, and predict every node out of fold.

    Each configuration is one joint fit of four models: one on all training nodes and one per fold left out. Training nodes are
    predicted by the model that left them out; the others by the average of all four.
    """
    rng = streams.generator("encoder")
    train = graph.for_learning()[0].train
    fold = rng.permutation(len(train)) % FOLDS
    member = np.ones((1 + FOLDS, graph.num_nodes), dtype=bool)
    for k in range(FOLDS):
        member[1 + k, train[fold == k]] = False
    best: tuple[float, np.ndarray, float] | None = None
    for config in configurations(graph):
        logits, score, accuracy = _fit_jointly(graph, config, member, rng)
        if best is None or score < best[0]:
            best = (score, logits, accuracy)
    _, logits, accuracy = best  # type: ignore[misc]
    each = torch.softmax(torch.from_numpy(logits), dim=2).numpy()  # [1 + folds, n, C]
    probabilities = each.mean(axis=0)
    for k in range(FOLDS):
        left_out = train[fold == k]
        probabilities[left_out] = each[1 + k, left_out]
    return Prior(probabilities.astype(np.float64), accuracy)


def _fit_jointly(
    graph: Graph, config: EncoderConfig, member: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, float, float]:
    """Train m models side by side; model j learns from the training nodes with member[j]. Logits [m, n, C].

    Returns also the validation score -accuracy + CE/10 and the accuracy of model 0. Validation nodes choose the checkpoint.
    """
    x = prepared_features(graph, config)
    split, labels = graph.for_learning()
    y = torch.from_numpy(np.array(labels))
    m, C = len(member), graph.num_classes
    train, val = split.train, np.array(split.val)
    widths = (x.shape[1], *HIDDEN, C)
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    weights = [(torch.randn(m, a, b, generator=generator) / math.sqrt(a)).requires_grad_() for a, b in pairwise(widths)]
    biases = [torch.zeros(m, 1, b, requires_grad=True) for b in widths[1:]]
    optimizer = torch.optim.Adam([*weights, *biases], lr=config.learning_rate, weight_decay=config.weight_decay)
    batch = min(BATCH, len(train))
    masks = torch.from_numpy(member)
    marks = {config.steps * (CHECKPOINTS + 2 * (k + 1)) // (3 * CHECKPOINTS) for k in range(CHECKPOINTS)}
    best_score = np.full(m, np.inf)
    best_state: list[list[Tensor]] = [[] for _ in range(m)]
    accuracy = 0.0

    def forward(rows: np.ndarray, training: bool) -> Tensor:
        h = _first_layer(x, rows, weights[0], config.input_dropout if training else 0.0, generator) + biases[0]
        for w, b in zip(weights[1:], biases[1:], strict=True):
            h = torch.selu(h)
            if training:
                h = h * (torch.rand(h.shape, generator=generator) >= config.dropout) / (1 - config.dropout)
            h = torch.bmm(h, w) + b
        return h  # [m, rows, C]

    order = rng.permutation(train)
    position = 0
    for step in range(1, config.steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * 0.5 * (1 + math.cos(math.pi * step / config.steps))
        if position + batch > len(order):
            order, position = rng.permutation(train), 0
        rows = order[position : position + batch]
        position += batch
        losses = torch.nn.functional.cross_entropy(
            forward(rows, True).transpose(1, 2), y[rows].expand(m, -1), reduction="none"
        )
        use = masks[:, rows]
        loss = ((losses * use).sum(dim=1) / use.sum(dim=1).clamp(min=1)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in marks:
            with torch.no_grad():
                scores, accuracies = _validation(forward(val, False), y[val])
            for j in range(m):
                if scores[j] < best_score[j]:
                    best_score[j] = scores[j]
                    best_state[j] = [p[j].detach().clone() for p in (*weights, *biases)]
                    accuracy = accuracies[j] if j == 0 else accuracy
    with torch.no_grad():
        for j in range(m):
            for parameter, kept in zip((*weights, *biases), best_state[j], strict=True):
                parameter[j] = kept
        logits = np.concatenate(
            [
                forward(rows, False).numpy()
                for rows in np.array_split(np.arange(graph.num_nodes), 1 + graph.num_nodes // 8192)
            ],
            axis=1,
        )
    return logits, float(best_score[0]), accuracy


def _validation(logits: Tensor, y: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """-accuracy + CE / 10 and accuracy of every model. logits: [m, val, C]."""
    if len(y) == 0:
        return np.zeros(len(logits)), np.zeros(len(logits))
    accuracies = (logits.argmax(dim=2) == y).double().mean(dim=1)
    ce = torch.nn.functional.cross_entropy(logits.transpose(1, 2), y.expand(len(logits), -1), reduction="none").mean(
        dim=1
    )
    return (-accuracies + 0.1 * ce.double()).numpy(), accuracies.numpy()


def _first_layer(
    x: np.ndarray | sp.csr_array, rows: np.ndarray, weight: Tensor, dropout: float, generator: torch.Generator
) -> Tensor:
    """x[rows] times the weights of all models, without making sparse rows dense. [rows, d], [m, d, h] -> [m, rows, h]."""
    m, d, h = weight.shape
    wide = weight.permute(1, 0, 2).reshape(d, m * h)
    if sp.issparse(x):
        part = x[rows]
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
