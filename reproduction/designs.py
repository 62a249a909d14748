"""Table I: designs compared. Complexity as the paper words it, noise growth computed, stars measured beside the paper's."""

from __future__ import annotations

import math
from dataclasses import dataclass

from caribou.experiments.report.blocks import NOT_RUN, Block, Entry, Table
from caribou.experiments.report.figures import curves
from caribou.experiments.report.page import ByExperiment
from caribou.experiments.report.summary import Mean
from reproduction import paper
from reproduction.comparison import Scores, rivals, scores_of, stars
from reproduction.measures import noise_of_depth
from reproduction.rows import AUTHORS, VALIDATED

DEPTHS = (8, 64)
NOISE_CELL = {"unit": "edge", "epsilon": 4, "delta": 1e-3, "contraction": 0.9, "degree_floor": 10}
"""The budget and the layer of the paper's table of noise scales; growth with K depends on C_L alone."""


@dataclass(frozen=True)
class Design:
    """A row of Table I. growth: the measure of `noise_of_depth` that its noise follows; "" if it draws noise once."""

    title: str
    mechanism: str
    complexity: str
    noise: str
    growth: str


DESIGNS = {
    "sage": Design("GraphSAGE", "graph perturbation", "O(|V|²)", "∝ 1", ""),
    "dpdgc": Design("DPDGC", "decoupled graph with perturbation", "O(|E|)", "∝ √K", "linear_noise_multiplier"),
    "gap": Design("GAP", "perturbed message passing", "O(|E|)", "∝ √K", "linear_noise_multiplier"),
    "caribou": Design(
        "CARIBOU", "perturbed message passing", "O(|E|)", "∝ √min(K, (1 - C_L^K)(1 + C_L) / ((1 + C_L^K)(1 - C_L)))",
        "rdp_noise_multiplier",
    ),
}  # fmt: skip


def growth(measure: str, hops: int) -> float:
    """How many times the noise of one hop ``hops`` hops need, by the accounting of `caribou.privacy`.

    >>> round(growth("linear_noise_multiplier", 64), 2), round(growth("rdp_noise_multiplier", 64), 2)
    (8.0, 4.35)
    """
    if not measure:
        return 1.0
    one, many = (noise_of_depth({**NOISE_CELL, "hops": K})[measure] for K in (1, hops))
    return float(many / one)


def design_blocks(records: ByExperiment) -> list[Block]:
    """Table I, and how noise grows with depth."""
    hops = (1, 2, 4, 8, 16, 32, 64)
    lines = {
        family: {K: Mean(growth(DESIGNS[family].growth, K), math.nan, 0) for K in hops}
        for family in ("sage", "gap", "caribou")
    }
    figure = curves(
        "table-1-figure",
        "Growth of noise with depth",
        {"C_L = 0.9": lines},
        x="hops K",
        y="noise, times that of one hop",
        percent=False,
        caption="sage: the graph is perturbed once; gap: linear composition; caribou: the convergent bound. Computed.",
    )
    return [design_table(records), figure]


def design_table(records: ByExperiment) -> Table:
    """Table I with our own columns: growth of noise, and stars by rank over the cells of PU-1."""
    levels = {"edge": "edp", "node": "ndp"}
    ours = {level: scores_of(records.get(f"{level}-accuracy", ())) for level in levels}
    rows = []
    for family, design in DESIGNS.items():
        faces = (AUTHORS, VALIDATED) if family == "caribou" else ("",)
        for face in faces:
            entries = [
                Entry(f"{design.title}, {face}" if face else design.title),
                Entry(design.mechanism),
                Entry(design.complexity),
                Entry(design.noise),
                *(Entry(f"× {growth(design.growth, K):.2f}") for K in DEPTHS),
            ]
            for number, (level, unit) in enumerate(levels.items()):
                row = f"{family}-{unit}" + (f", {face}" if face else "")
                given, _ = measured_stars(ours[level], unit, face or AUTHORS)
                value = given.get(row)
                published = f"{paper.STARS[family][number]:g}"
                entries.append(Entry(NOT_RUN if value is None else f"{value:.1f}", value, published))
            for level, unit in levels.items():
                own, _ = _stars_of(paper.scores("top1", level), (f"caribou-{unit}", *rivals(unit)))
                entries.append(Entry(f"{own[f'{family}-{unit}']:.1f}"))
            rows.append(tuple(entries))
    counts = {level: measured_stars(ours[level], unit, AUTHORS)[1] for level, unit in levels.items()}
    head = (
        "framework", "mechanism", "complexity per layer, paper", "noise, paper",
        *(f"noise at K = {K}, computed" for K in DEPTHS), "EDP stars", "NDP stars",
        "EDP, our rule on the paper", "NDP, our rule on the paper",
    )  # fmt: skip
    caption = (
        "Noise: how many times that of one hop, at C_L = 0.9, by linear composition or the convergent bound; our DPDGC makes one "
        "product with the adjacency, so its noise does not grow. Stars: 5 for the best of the four in a cell of PU-1 (data set "
        "and ε), one less per method that is better, averaged over the cells in which all four were run "
        f"({counts['edge']} at edge, {counts['node']} at node level). The paper does not say how it gave its own; the last two "
        "columns apply our rule to the paper's table of tops."
    )
    return Table("table-1", "Comparison between private GNNs", head, (("", tuple(rows)),), caption)


def measured_stars(scores: Scores, unit: str, face: str) -> tuple[dict[str, float], int]:
    """Stars of the four methods, CARIBOU with this face, and over how many cells."""
    return _stars_of(scores, (f"caribou-{unit}, {face}", *rivals(unit)))


def _stars_of(scores: Scores, rows: tuple[str, ...]) -> tuple[dict[str, float], int]:
    cells = list(dict.fromkeys((epsilon, dataset) for epsilon, row, dataset in scores if row == rows[0]))
    compared = [(e, d) for e, d in cells if all((e, row, d) in scores for row in rows)]
    return stars(scores, rows, compared), len(compared)
