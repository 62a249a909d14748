"""The authors' own settings, from the files that they published (``paper/settings.csv``, ``paper/curves.csv``).

* `settings`: those of every cell of one of their tables, for cells with ``chosen``;
* `depth_grids` and `heat_grids`: those behind every point of their depth figures and heat maps, each cell a sweep. The files
  ``experiments/chain-depth.toml`` and ``experiments/heatmaps.toml`` name these functions in the place of grids.

At node level their maximum degree is used in PU-2 alone. Elsewhere every edge is read, so that the headline holds for every node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from caribou.errors import InputError
from reproduction.paper import rows_of

TABLES = {
    "authors-top": ("top_1", False),
    "authors-mean": ("mean", False),
    "authors-small-degree": ("top_1", True),
}
"""As ``chosen`` of a cell: the row of the authors' file, and whether their smaller degrees are meant. PU-1, PU-3 and PU-2."""

OURS = {
    "cora": ("cora",),
    "pubmed": ("pubmed",),
    "photo": ("photo:connected",),
    "computers": ("computers:connected",),
    "facebook": ("berkeley13",),
    "chain-s": ("chain-s", "chain-s:75"),
    "chain-m": ("chain-m", "chain-m:75"),
    "chain-l": ("chain-l", "chain-l:75"),
    "chain-x": ("chain-x", "chain-x:125"),
}
"""Data sets of the paper, and those here that take their settings. Berkeley13 stands in for the paper's school of Facebook100."""
SMALL_DEGREES = ("5", "10")
LAYER = ("hops", "beta", "alpha1", "contraction")
EPSILONS = ("1", "2", "4", "8", "16", "32")


def layer_settings(row: Mapping[str, str]) -> dict[str, Any]:
    """K, beta, alpha_1 and C_L of a row, as settings of our methods.

    >>> layer_settings({"hops": "10", "beta": "10.0", "alpha1": "1", "contraction": "0.9"})
    {'hops': 10, 'beta': 10.0, 'alpha1': 1.0, 'contraction': 0.9}
    """
    return {"hops": int(row["hops"]), **{name: float(row[name]) for name in LAYER[1:]}}


@cache
def settings(table: str) -> dict[tuple[str, str, float], dict[str, Any]]:
    """The settings of one of `TABLES`, by method, data set and epsilon."""
    if table not in TABLES:
        raise InputError(f"chosen must be true or one of {', '.join(TABLES)}, got {table!r}")
    row, small_degrees = TABLES[table]
    found = {}
    for entry in rows_of("settings.csv"):
        if entry["row"] != row or (entry["max_degree"] in SMALL_DEGREES) != small_degrees:
            continue
        own = layer_settings(entry) | ({"degree_cap": int(entry["max_degree"])} if small_degrees else {})
        found.update({(entry["method"], dataset, float(entry["epsilon"])): own for dataset in OURS[entry["dataset"]]})
    return found


def depth_grids() -> list[dict[str, Any]]:
    """CRV-K and CRV-epsilon: the five best settings of the authors at every K and epsilon, and GAP at the same depths."""
    rows = [row for row in rows_of("curves.csv") if row["figure"] == "depth"]
    grids = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        here = [row for row in rows if row["dataset"] == dataset]
        hops = sorted({int(row["hops"]) for row in here})
        for epsilon in (*EPSILONS, "inf"):
            ours = [row for row in here if row["method"] == "caribou" and row["epsilon"] == epsilon]
            grids.append(_sweep("caribou", dataset, epsilon, _distinct(layer_settings(row) for row in ours)))
            grids.append(_sweep("gap", dataset, epsilon, [{"hops": K} for K in hops]))
    return grids


def heat_grids() -> list[dict[str, Any]]:
    """CRV-H: the authors' settings of every field of their heat maps."""
    rows = [row for row in rows_of("curves.csv") if row["figure"].startswith("heat map")]
    grids = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        for epsilon in EPSILONS:
            here = [row for row in rows if row["dataset"] == dataset and row["epsilon"] == epsilon]
            grids.append(_sweep("caribou", dataset, epsilon, _distinct(layer_settings(row) for row in here)))
    return grids


def _distinct(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({tuple(settings.items()): settings for settings in found}.values())


def _sweep(method: str, dataset: str, epsilon: str, settings: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "method": f"{method}-inf" if epsilon == "inf" else f"{method}-edp",
        "dataset": list(OURS[dataset]),
        "epsilon": "inf" if epsilon == "inf" else int(epsilon),
        "delta": "paper",
        "seeds": 3,
        "sweep": settings,
    }
