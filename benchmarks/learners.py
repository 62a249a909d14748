"""The learners of the prior, each left out in turn: accuracy and cross-entropy without it, its CPU seconds and memory.

Every learner is cross-fitted once per table, and the combination is fitted again without each. Tables of `measure` that stand in
``bench-output/learners.json`` already are not measured again.

    OMP_NUM_THREADS=1 python benchmarks/learners.py                 # ten tables, most of the labels and 20 a class
    OMP_NUM_THREADS=1 python benchmarks/learners.py cora digits      # some tables
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from encoder import REAL, load
from rich.console import Console
from rich.table import Table
from scipy.special import softmax
from sklearn import datasets
from threadpoolctl import threadpool_limits

import caribou as cb
from caribou.graph import Split
from caribou.models import class_prior
from caribou.models.learners import Learner, cross_fitted
from caribou.models.objective import USUAL, cross_entropies
from caribou.models.public_rows import PublicRows
from caribou.randomness import Streams

BUNDLED = ("digits", "wine", "breast_cancer")
GENERATED = ("csbm", "fraud")
FEW = 20


def table(name: str, seed: int) -> cb.Graph:
    if name in BUNDLED:
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return cb.Graph.from_edges(x, np.empty((2, 0), int), y, name=name).random_split(seed)
    if name == "csbm":
        return cb.datasets.load("csbm:nodes=4000", seed=seed)
    return load(name) if name == "fraud" else cb.datasets.load(name, seed=seed)


def with_few_labels(graph: cb.Graph, seed: int) -> cb.Graph:
    """20 training nodes a class; the validation nodes are not learned from, and test nodes stay."""
    labels, train = np.array(graph.labels), np.random.default_rng(seed).permutation(graph.split.train)
    few = np.concatenate([train[labels[train] == k][:FEW] for k in range(graph.num_classes)])
    return graph.with_split(Split(few, np.empty(0, np.int64), graph.split.test))


def one_learner(make: Callable[[], Learner], x: object, y: np.ndarray, asked: object) -> dict[str, object]:
    """In a process of its own: scores out of fold and of the rows that are asked about, CPU seconds, and memory on top."""
    torch.set_num_threads(1)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with threadpool_limits(1):
        kind = type(make())
        models, inside = cross_fitted(make, x, y, class_prior.FOLDS_OF_FEW if len(y) < class_prior.FEW else kind.folds)
        outside = kind.joined(models, x, y).decision_function(asked)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"inside": inside, "outside": outside, "seconds": time.process_time() - start, "megabytes": peak / 1024}


def in_child(make: Callable[[], Learner], x: object, y: np.ndarray, asked: object) -> dict[str, object]:
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=lambda: sender.send(one_learner(make, x, y, asked)))
    child.start()
    found = receiver.recv()
    child.join()
    return found


def measure(graph: cb.Graph, seed: int) -> dict[str, dict[str, float]]:
    split, labels = graph.for_learning(public=True)
    labels, C = np.array(labels), graph.num_classes
    rng = Streams(seed).generator("class prior")
    rows = PublicRows.of(graph.features)
    labelled = rng.permutation(np.concatenate([split.train, split.val]))
    test = split.test[labels[split.test] >= 0]
    x, y, asked = rows(graph.features[labelled]), labels[labelled], rows(graph.features[test])
    makers = class_prior.learners_for(rows, x, y, C, rng)
    each = {name: in_child(make, x, y, asked) for name, make in makers.items()}

    def combined(names: list[str]) -> dict[str, float]:
        combination = class_prior._fit_combination([each[name]["inside"] for name in names], y, C, USUAL)
        p = class_prior._combined(combination, [each[name]["outside"] for name in names], len(test))
        return {
            "accuracy": 100 * float((p.argmax(axis=1) == labels[test]).mean()),
            "cross_entropy": float(-np.log(np.maximum(p[np.arange(len(test)), labels[test]], 1e-12)).mean()),
        }

    found = {"all": combined(list(each))}
    for name, one in each.items():
        alone = float(cross_entropies(np.asarray(one["outside"]), labels[test]).mean())
        right = 100 * float((softmax(one["outside"], axis=1).argmax(axis=1) == labels[test]).mean())
        found[f"without {name}"] = combined([other for other in each if other != name])
        found[name] = {"accuracy": right, "cross_entropy": alone}
        found[name] |= {key: float(one[key]) for key in ("seconds", "megabytes")}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help=f"of {', '.join((*REAL, *BUNDLED, *GENERATED))} (default: all)")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("bench-output"))
    arguments = parser.parse_args()
    names = arguments.tables or [*(REAL if "CARIBOU_DATA" in os.environ else ()), *BUNDLED, *GENERATED]
    arguments.out.mkdir(exist_ok=True)
    file = arguments.out / "learners.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    for name in names:
        for seed in range(arguments.splits):
            whole = table(name, seed)
            for labels in ("most", "20 a class"):
                key = f"{name}|{labels}|{seed}"
                if key not in results:
                    results[key] = measure(whole if labels == "most" else with_few_labels(whole, seed), seed)
                    file.write_text(json.dumps(results, indent=1) + "\n")
    Console(highlight=False, width=170).print(table_of(results))


def table_of(results: dict[str, dict[str, dict[str, float]]]) -> Table:
    """One line per table and number of labels: what is lost without each learner, in points and in cross-entropy."""
    shown = Table("table", "labels", "all", *class_prior.LEARNERS)
    for name, labels in dict.fromkeys(tuple(key.split("|")[:2]) for key in results):
        splits = [found for key, found in results.items() if key.startswith(f"{name}|{labels}|")]

        def mean(of: str, what: str, splits: list[dict[str, dict[str, float]]] = splits) -> float:
            return float(np.mean([found[of][what] for found in splits]))

        cells = [f"{mean('all', 'accuracy'):.1f} / {mean('all', 'cross_entropy'):.3f}"]
        for learner in class_prior.LEARNERS:
            if learner not in splits[0]:
                cells.append("")
                continue
            lost = mean("all", "accuracy") - mean(f"without {learner}", "accuracy")
            gained = mean(f"without {learner}", "cross_entropy") - mean("all", "cross_entropy")
            cells.append(
                f"{lost:+.1f} / {gained:+.3f}, {mean(learner, 'seconds'):.1f} s, {mean(learner, 'megabytes'):.0f} MB"
            )
        shown.add_row(name, labels, *cells)
    return shown


if __name__ == "__main__":
    main()
