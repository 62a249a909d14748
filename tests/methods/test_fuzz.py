"""Odd graphs: every method fits them, or refuses them in one sentence before anything is charged.

More than the sample of the suite: CARIBOU_FUZZ_FITS=900 pytest tests/methods/test_fuzz.py
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import caribou as cb
from caribou.errors import CaribouError
from caribou.methods import METHODS
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.ledger import Ledger

pytestmark = pytest.mark.usefixtures("quick_learning")
FITS = int(os.environ.get("CARIBOU_FUZZ_FITS", "48"))
FEATURES = (
    "no columns",
    "one column",
    "normal",
    "words",
    "constant",
    "zeros",
    "duplicated",
    "wide",
    "large",
    "mixed",
    "integers",
)
EDGES = ("none", "hub", "two components", "random", "complete", "path")
SPLITS = ("usual", "one labelled", "no validation", "no test", "a class without training", "validation of one class")


def odd_features(kind: str, n: int, rng: np.random.Generator) -> object:
    if kind == "words":
        return sp.random_array((n, 300), density=0.02, rng=rng, format="csr", dtype=np.float32)
    if kind == "duplicated":
        return np.repeat(rng.normal(size=(1 + n // 4, 6)), 4, axis=0)[:n]
    made = {
        "no columns": np.zeros((n, 0)),
        "one column": rng.normal(size=(n, 1)),
        "normal": rng.normal(size=(n, 12)),
        "constant": np.full((n, 5), 3.0),
        "zeros": np.zeros((n, 4)),
        "wide": rng.normal(size=(n, 400)),
        "large": 1e18 * rng.normal(size=(n, 3)),
        "integers": rng.integers(0, 2, (n, 9)),
        "mixed": rng.normal(size=(n, 5)) * np.array([1e-12, 1, 1e6, 0, 1]),
    }
    return made[kind]


def odd_edges(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    pairs = {
        "none": np.zeros((2, 0)),
        "hub": np.stack([np.zeros(n - 1), np.arange(1, n)]),
        "two components": rng.integers(0, n // 2, (2, n)) + rng.choice([0, n // 2], n),
        "random": rng.integers(0, n, (2, 3 * n)),
        "complete": np.stack(np.triu_indices(min(n, 40), 1)),
        "path": np.stack([np.arange(n - 1), np.arange(1, n)]),
    }
    return np.asarray(pairs[kind], dtype=np.int64)


def odd_split(kind: str, labels: np.ndarray, rng: np.random.Generator) -> cb.Split:
    n = len(labels)
    order = rng.permutation(n)
    train, val, test = np.split(order, [max(1, n // 2), max(2, (2 * n) // 3)])
    if kind == "one labelled":
        train, test = train[:1], np.concatenate([train[1:], test])
    elif kind == "no validation":
        val, test = val[:0], np.concatenate([val, test])
    elif kind == "no test":
        train, test = np.concatenate([train, test]), test[:0]
    elif kind == "a class without training":
        gone = labels[train] == labels[train[0]]
        train, test = train[~gone], np.concatenate([train[gone], test])
    elif kind == "validation of one class":
        val = val[labels[val] == labels[val[:1]]]
    return cb.Split(train, val, test)


def odd_graph(seed: int) -> tuple[cb.Graph, str]:
    """A graph in which every part is drawn by itself, and what is odd about it."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 160)) if rng.random() < 0.9 else int(rng.integers(300, 700))
    classes = int(rng.choice([2, 3, 7, 60]))
    features, edges, split = (str(rng.choice(kinds)) for kinds in (FEATURES, EDGES, SPLITS))
    labels = rng.integers(0, classes, n)
    labels[rng.random(n) < rng.choice([0, 0, 0.3])] = -1
    words = f"seed {seed}: {n} nodes, {classes} classes, features {features}, edges {edges}, split {split}"
    graph = cb.Graph.from_edges(
        odd_features(features, n, rng),
        odd_edges(edges, n, rng),
        labels,
        odd_split(split, labels, rng),
        name=f"odd {seed}",
        classes=classes,
    )
    return graph, words


def cases() -> Iterator[tuple[int, str]]:
    """Every method in turn, each with graphs of its own."""
    names = list(METHODS)
    for seed in range(FITS):
        yield seed, names[seed % len(names)]


@pytest.mark.parametrize(("seed", "name"), list(cases()))
def test_it_is_fitted_or_refused_before_it_is_charged(seed: int, name: str, tmp_path: Path) -> None:
    graph, words = odd_graph(seed)
    info = METHODS[name]
    # at node level one person's label must not decide whether a model is fitted
    known = np.asarray(graph.labels)[graph.split.train]
    learnable = info.unit is PrivacyUnit.NODE or len(np.unique(known)) > 1
    rng = np.random.default_rng([seed, 1])
    settings = {key: values[rng.integers(len(values))] for key, values in info.space.items() if rng.random() < 0.4}
    settings = {key: value for key, value in settings.items() if value != "default"}
    words = f"{words}, {settings}"
    budget = cb.Budget(float(rng.choice([0.05, 1, 4, 40])) if info.private else math.inf, 1e-5, info.unit)
    path = tmp_path / "ledger.sqlite" if info.private else None
    refusal, model = None, cb.Model(name, budget, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(graph, ledger=path)
        except CaribouError as error:
            refusal = str(error)
    charged = [] if path is None or not path.exists() else Ledger(path, create=False).entries()
    assert (refusal is None) is learnable, f"{words}: {refusal}"
    if refusal is not None:
        assert charged == [], f"{words}: {refusal}"
        assert "\n" not in refusal
        return
    found = model.predict_proba()
    assert found.shape == (graph.num_nodes, graph.num_classes), words
    assert np.allclose(found.sum(axis=1), 1), words
    assert path is None or len(charged) == 1, words
