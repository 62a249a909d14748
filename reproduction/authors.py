"""The authors' own settings, from the files that they published, as files that experiments read.

``python -m reproduction.authors`` writes

* ``experiments/authors-top.toml``, ``authors-mean.toml``, ``authors-small-degree.toml``: settings of every cell of their tables
  of top accuracies (PU-1), of means (PU-3) and of top accuracies with smaller degrees (PU-2), for cells with ``chosen``;
* ``experiments/chain-depth.toml`` and ``experiments/heatmaps.toml``: the settings behind every point of their depth figures and
  heat maps, each cell a sweep.

At node level their maximum degree is used in PU-2 alone. Elsewhere every edge is read, so that the headline holds for every node.
tests/reproduction/test_authors.py compares the files with what is written here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from caribou.experiments.hyperparameters import toml_value
from reproduction.paper import rows_of

FOLDER = Path(__file__).parent / "experiments"

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
DEPTH = "depth"

_TABLE_HEADER = """\
# Settings of the paper's authors for every cell of one of their tables: {table}. Public numbers that nobody chose on our splits.
# Written by `python -m reproduction.authors` from paper/settings.csv.
"""
_FIGURE_HEADER = """\
# Written by `python -m reproduction.authors` from paper/curves.csv: the authors' settings behind every point of their figure.
title = "{title}"
paper = "{paper}"
kind = "sweep"
"""


def layer_settings(row: Mapping[str, str]) -> dict[str, Any]:
    """K, beta, alpha_1 and C_L of a row, as settings of our methods.

    >>> layer_settings({"hops": "10", "beta": "10.0", "alpha1": "1", "contraction": "0.9"})
    {'hops': 10, 'beta': 10.0, 'alpha1': 1.0, 'contraction': 0.9}
    """
    return {"hops": int(row["hops"]), **{name: float(row[name]) for name in LAYER[1:]}}


def settings_file(table: str, row: str, *, small_degrees: bool = False) -> str:
    """The entries of one table. ``row``: "top_1" or "mean". ``small_degrees``: those with a maximum degree of 5 or 10."""
    text = _TABLE_HEADER.format(table=table)
    for entry in rows_of("settings.csv"):
        if entry["row"] != row or (entry["max_degree"] in SMALL_DEGREES) != small_degrees:
            continue
        settings = layer_settings(entry) | ({"degree_cap": int(entry["max_degree"])} if small_degrees else {})
        for dataset in OURS[entry["dataset"]]:
            text += (
                f"\n[[tuned]]\nmethod = {toml_value(entry['method'])}\ndataset = {toml_value(dataset)}\n"
                f"epsilon = {entry['epsilon']}\nsettings = {toml_value(settings)}\n"
            )
    return text


def depth_file() -> str:
    """CRV-K and CRV-epsilon: the five best settings of the authors at every K and epsilon, and GAP at the same depths."""
    text = _FIGURE_HEADER.format(
        title="Depth and budget on chains, at the authors' settings", paper="CRV-K and CRV-epsilon"
    )
    rows = [row for row in rows_of("curves.csv") if row["figure"] == DEPTH]
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        here = [row for row in rows if row["dataset"] == dataset]
        hops = sorted({int(row["hops"]) for row in here})
        for epsilon in (*EPSILONS, "inf"):
            ours = [row for row in here if row["method"] == "caribou" and row["epsilon"] == epsilon]
            text += _sweep_grid("caribou", dataset, epsilon, _distinct(layer_settings(row) for row in ours))
            text += _sweep_grid("gap", dataset, epsilon, [{"hops": K} for K in hops])
    return text + _scales("chain-s", seeds=3)


def heat_file() -> str:
    """CRV-H: the authors' settings of every field of their heat maps."""
    text = _FIGURE_HEADER.format(title="C_L, alpha1 and beta of the contractive layer", paper="CRV-H")
    rows = [row for row in rows_of("curves.csv") if row["figure"].startswith("heat map")]
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        for epsilon in EPSILONS:
            here = [row for row in rows if row["dataset"] == dataset and row["epsilon"] == epsilon]
            text += _sweep_grid("caribou", dataset, epsilon, _distinct(layer_settings(row) for row in here))
    return text + _scales("chain-s", seeds=3)


def _distinct(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({tuple(settings.items()): settings for settings in found}.values())


def _sweep_grid(method: str, dataset: str, epsilon: str, settings: list[dict[str, Any]]) -> str:
    name = f"{method}-inf" if math.isinf(float(epsilon)) else f"{method}-edp"
    listed = ",\n".join(f"  {toml_value(one)}" for one in settings)
    shown = '"inf"' if epsilon == "inf" else epsilon
    return (
        f"\n[[grid]]\nmethod = {toml_value(name)}\ndataset = {toml_value(list(OURS[dataset]))}\nepsilon = {shown}\n"
        f'delta = "paper"\nseeds = 3\nsweep = [\n{listed},\n]\n'
    )


def _scales(smallest: str, *, seeds: int) -> str:
    return (
        f'\n[scale.smoke]\ndataset = ["{smallest}"]\nseeds = 1\ngrids = [0, 1]\n\n[scale.full]\nseeds = {3 * seeds}\n'
    )


def files() -> dict[Path, str]:
    """All files as they should be."""
    return {
        FOLDER / "authors-top.toml": settings_file("PU-1, top accuracies", "top_1"),
        FOLDER / "authors-mean.toml": settings_file("PU-3, means", "mean"),
        FOLDER / "authors-small-degree.toml": settings_file("PU-2, smaller degrees", "top_1", small_degrees=True),
        FOLDER / "chain-depth.toml": depth_file(),
        FOLDER / "heatmaps.toml": heat_file(),
    }


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content, encoding="utf-8")
