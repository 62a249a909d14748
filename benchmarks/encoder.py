"""The encoder of votes-edp and mlp against usual classifiers: test accuracy and CPU seconds on one thread, all folds included.

Logistic regression, an MLP 256-256 and gradient boosting (scikit-learn, early stopping) are fitted once on all labelled nodes, on
the same rows (words weighted by how rare they are, columns standardised); the encoder also predicts every labelled node out of
fold. The real data sets need their files: set CARIBOU_DATA. The generated dense tables have 200,000 x 300 entries in 10 classes
and 170,000 x 128 in 40, once with eight Gaussian blobs per class and once with classes that a linear model explains.

    OMP_NUM_THREADS=1 python benchmarks/encoder.py                  # boosting on the tall tables takes most of the time
    OMP_NUM_THREADS=1 python benchmarks/encoder.py cora blobs-300    # some tables
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import caribou as cb
from caribou.datasets.fraud import tables
from caribou.models.class_prior import fit_class_prior
from caribou.models.public_rows import PublicRows, as_dense
from caribou.randomness import Streams

REAL = ("cora", "pubmed", "photo", "computers", "berkeley13")
TALL = {"blobs-300": (200_000, 300, 10), "linear-300": (200_000, 300, 10)}
TALL |= {"blobs-128": (170_000, 128, 40), "linear-128": (170_000, 128, 40)}
LIMITS = {"cora": 3, "photo": 4, "computers": 4, "pubmed": 5, "blobs-300": 90, "linear-300": 90}
"""CPU seconds to reach."""


def blobs(nodes: int, columns: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Eight Gaussian blobs per class in 24 hidden directions, with noise in all columns."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((8 * classes, 24))
    blob = rng.integers(len(centres), size=nodes)
    hidden = centres[blob] + rng.standard_normal((nodes, 24))
    mixed = hidden @ (rng.standard_normal((24, columns)) / np.sqrt(24))
    return (mixed + 0.5 * rng.standard_normal((nodes, columns))).astype(np.float32), blob % classes


def linear(nodes: int, columns: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes by a softmax of a linear map of Gaussian rows."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((nodes, columns)).astype(np.float32)
    logits = x @ (4 * rng.standard_normal((columns, classes)) / np.sqrt(columns))
    return x, (logits + rng.gumbel(size=(nodes, classes))).argmax(axis=1)


def load(name: str) -> cb.Graph:
    if name in TALL:
        x, y = (blobs if name.startswith("blobs") else linear)(*TALL[name])
        return cb.Graph.from_edges(x, np.empty((2, 0), int), y, name=name).random_split(0)
    if name == "fraud":
        transfers, accounts = tables(seed=0)
        rules = cb.ColumnRules(
            unknown=["unknown"],
            drop_unknown_ids=True,
            ignore=["opened"],
            categories={"segment": None},
            fills={"*": "indicator"},
        )
        return cb.Graph.from_tables(transfers[["sender", "receiver"]], accounts, rules=rules).random_split(0)
    return cb.datasets.load(name, seed=0)


def rivals() -> dict[str, Callable[[], object]]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    return {
        "logistic regression": lambda: LogisticRegression(C=10, max_iter=300),
        "MLP 256-256": lambda: MLPClassifier((256, 256), early_stopping=True, n_iter_no_change=5, random_state=0),
        "boosting": lambda: HistGradientBoostingClassifier(early_stopping=True, n_iter_no_change=3, random_state=0),
    }


def measure(name: str, skip: set[str]) -> dict[str, dict[str, float]]:
    graph = load(name)
    labels, test = np.array(graph.labels), graph.split.test
    labelled = np.concatenate([graph.split.train, graph.split.val])
    found = {}
    start = time.process_time()
    _, p = fit_class_prior(graph, Streams(0))
    found["encoder"] = {"seconds": time.process_time() - start}
    found["encoder"]["accuracy"] = float((p[test].argmax(axis=1) == labels[test]).mean())
    rows = PublicRows.of(graph.features)(graph.features)
    x = rows if rows.__class__.__module__.startswith("scipy") else rows * np.float32(np.sqrt(rows.shape[1]))
    for rival, make in rivals().items():
        if rival in skip:
            continue
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            own = as_dense(x) if rival == "boosting" else x
            model = make().fit(own[labelled], labels[labelled])
        seconds = time.process_time() - start
        found[rival] = {"seconds": seconds, "accuracy": float((model.predict(own[test]) == labels[test]).mean())}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help=f"of {', '.join((*REAL, 'fraud', *TALL))} (default: all)")
    parser.add_argument("--skip", action="append", default=[], choices=list(rivals()), help="leave a classifier out")
    parser.add_argument("--out", type=Path, default=Path("bench-output"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = arguments.tables or [*(REAL if "CARIBOU_DATA" in os.environ else ()), "fraud", *TALL]
    arguments.out.mkdir(exist_ok=True)
    file = arguments.out / "encoder.json"
    table = Table("table", "encoder", *rivals(), "behind the best", "seconds to reach")
    results = json.loads(file.read_text()) if file.exists() else {}
    for name in names:
        found = results[name] = measure(name, set(arguments.skip))
        others = [each["accuracy"] for rival, each in found.items() if rival != "encoder"]
        behind = f"{100 * (max(others) - found['encoder']['accuracy']):.1f}" if others else "-"
        each = [found.get(classifier) for classifier in ("encoder", *rivals())]
        cells = ["-" if one is None else f"{one['accuracy']:.1%} in {one['seconds']:.1f} s" for one in each]
        table.add_row(name, *cells, behind, str(LIMITS.get(name, "")))
        file.write_text(json.dumps(results, indent=2) + "\n")
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
