"""The figures that the paper prints (NDSS 2026), as data, to stand beside ours."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

METHODS = {
    "caribou-edp": "caribou", "caribou-inf": "caribou", "caribou-ndp": "caribou",
    "gap-edp": "gap", "gap-inf": "gap", "gap-ndp": "gap",
    "dpdgc-edp": "dpdgc", "dpdgc-inf": "dpdgc", "dpdgc-ndp": "dpdgc",
    "sage-edp": "sage", "sage-inf": "sage", "sage-ndp": "sage",
    "mlp": "mlp", "mlp-dp": "mlp",
}  # fmt: skip
"""Our names and the paper's."""

STAND_INS = {"berkeley13": "facebook"}
"""Data sets of ours that stand in for one of the paper's, which cannot be had here: compare with care."""


def paper_dataset(name: str) -> str:
    """The paper's name of a data set; ``chain-s:75`` is chain-s with more chains, ``photo:connected`` its Photo.

    >>> paper_dataset("chain-s:75"), paper_dataset("berkeley13")
    ('chain-s', 'facebook')
    """
    base = name.partition(":")[0]
    return STAND_INS.get(base, base)


def accuracy(table: str, method: str, dataset: str, epsilon: float | str) -> float | None:
    """Accuracy in percent in a table of the paper ("top1", "mean", "top1-small-degree"); None where it has none."""
    unit = "node" if method.endswith(("-ndp", "-dp")) else "edge"
    if epsilon == "inf":
        unit = "none"
    key = (table, unit, str(epsilon), METHODS.get(method, ""), paper_dataset(dataset))
    return _accuracies().get(key)


def scores(table: str, unit: str) -> dict[tuple[Any, str, str], dict[int, float]]:
    """A table at a unit ("edge", "node") in the shape of our own accuracies: by (epsilon, our method, data set), one value each.

    The MLP without privacy stands at epsilon "inf".
    """
    endings = {"edge": ("-edp", "mlp"), "node": ("-ndp", "mlp-dp")}
    if unit not in endings:
        raise ValueError(f"unit must be one of {', '.join(endings)}, got {unit!r}")
    ours = {theirs: name for name, theirs in METHODS.items() if name.endswith(endings[unit])}
    found: dict[tuple[Any, str, str], dict[int, float]] = {}
    for (name, level, epsilon, method, dataset), value in _accuracies().items():
        free = unit == "edge" and level == "none" and method == "mlp"
        if name == table and (level == unit or free):
            key = "inf" if epsilon == "inf" else int(epsilon)
            found[key, ours[method], dataset] = {0: value / 100}
    return found


DATASETS = ("cora", "pubmed", "photo", "computers", "facebook", "chain-s", "chain-m", "chain-l", "chain-x")
EPSILONS = (1, 2, 4, 8, 16, 32)
SETTINGS = ("hops", "beta", "alpha1", "contraction")


@dataclass(frozen=True)
class Point:
    """One value behind a figure: of a method at an epsilon and a depth, for CARIBOU with its other settings. [%]"""

    dataset: str
    method: str
    epsilon: Any
    settings: Mapping[str, float]
    accuracy: float


def points(figure: str, dataset: str, method: str = "caribou") -> Sequence[Point]:
    """The values behind a figure of a data set.

    ``figure``: "depth" (the five best settings of CARIBOU at each depth and epsilon, and GAP), "heat map C_L",
    "heat map alpha_1", "heat map beta".
    """
    return _points().get((figure, paper_dataset(dataset), method), ())


def overhead(metric: str, method: str, dataset: str) -> float | None:
    """``seconds_3_runs`` or ``max_memory_mb`` in the paper, which has them for private methods and the MLP only."""
    if method.endswith("-inf"):
        return None
    unit = "node" if method.endswith(("-ndp", "-dp")) else "edge"
    return _overheads().get((metric, unit, paper_dataset(dataset), METHODS.get(method, "")))


def attack_auc(attack: str, dataset: str, epsilon: float | str) -> float | None:
    """AUC of LinkTeller or G-MIA against CARIBOU in the paper."""
    return _audits().get((attack, paper_dataset(dataset), str(epsilon)))


STARS = {"caribou": (5.0, 5.0), "gap": (4.0, 3.5), "dpdgc": (3.0, 3.5), "sage": (2.0, 1.0)}
"""Table I: stars of a method for its accuracy at edge and at node level."""

NOISE = {
    "linear": {1: 1.07, 2: 1.52, 4: 2.15, 8: 3.04, 16: 4.30, 32: 6.07, 64: 8.56, 128: 12.11},
    "convergent": {1: 1.07, 2: 1.52, 4: 2.14, 8: 3.00, 16: 4.07, 32: 4.66, 64: 4.66, 128: 4.67},
}
"""The table of noise scales: epsilon 4, delta 0.001, order 6, C_L 0.9, sensitivity 1."""

FAILURE = {2: 77.10, 4: 75.65, 8: 74.91, 16: 73.43, 32: 74.17, 64: 71.03, 128: 51.11}
"""Accuracy of GAP on Cora at epsilon 4 by K."""

REDDIT2 = {
    "edge": {1: 70.6, 2: 73.8, 4: 76.4, 8: 78.6, 16: 78.7, 32: 80.9},
    "node": {1: 63.7, 2: 68.5, 4: 73.2, 8: 77.3, 16: 78.4, 32: 79.6},
}
"""Accuracy of CARIBOU on Reddit2 by epsilon."""


def rows_of(name: str) -> list[dict[str, str]]:
    """A file of ``paper/``: one dictionary of texts per row."""
    with (Path(__file__).parent / "paper" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@cache
def _accuracies() -> dict[tuple[str, ...], float]:
    return {
        (r["table"], r["privacy_unit"], r["epsilon"], r["method"], r["dataset"]): float(r["accuracy_percent"])
        for r in rows_of("accuracy.csv")
    }


@cache
def _overheads() -> dict[tuple[str, ...], float]:
    return {
        (r["metric"], r["privacy_unit"], r["dataset"], r["method"]): float(r["value"]) for r in rows_of("overhead.csv")
    }


@cache
def _audits() -> dict[tuple[str, ...], float]:
    return {(r["attack"], r["dataset"], r["epsilon"]): float(r["auc"]) for r in rows_of("audit.csv")}


@cache
def _points() -> dict[tuple[str, str, str], list[Point]]:
    found: dict[tuple[str, str, str], list[Point]] = {}
    for row in rows_of("curves.csv"):
        epsilon = "inf" if row["epsilon"] == "inf" else int(row["epsilon"])
        settings = {name: float(row[name]) for name in SETTINGS if row[name]}
        point = Point(row["dataset"], row["method"], epsilon, settings, float(row["accuracy_percent"]))
        found.setdefault((row["figure"], row["dataset"], row["method"]), []).append(point)
    return found
