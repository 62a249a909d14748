"""The picture of docs/privacy.md: what a node of each degree is promised by every node-level method. `make pictures`."""

from __future__ import annotations

from matplotlib.figure import Figure
from svg import save, use_style

from caribou.methods import method_info
from caribou.pages.palette import COLOURS, family
from caribou.pages.pictures import INK
from caribou.privacy.budget import Budget
from caribou.privacy.plan import epsilon_at
from caribou.privacy.sizes import Sizes

SIZES = Sizes(nodes=20_000, columns=500, classes=7, train=14_000, val=2_000, test=4_000)
BUDGET = Budget(8.0, 1e-5, "node")
CURVES = (
    ("mlp-dp", {}, "-"),
    ("caribou-ndp", {"graph_share": 0.5}, "-"),
    ("gap-ndp", {}, "-"),
    ("dpdgc-ndp", {}, "-"),
    ("votes-ndp", {"declared_degree": 100, "votes": {"receivers_per_sender": 50, "share": 0.3}}, "-"),
    ("sage-ndp", {}, "-"),
    ("caribou-ndp, degrees cut to 100", {"graph_share": 0.5, "degree_cap": 100}, "--"),
)
TITLE = "Epsilon by degree of every node-level method"
TEXT = (
    "Epsilon 8, declared degree 100. All curves meet the headline at degree 100. Those of mlp-dp and caribou-ndp stay at or "
    "below it for every degree; gap-ndp rises slowly beyond it, dpdgc-ndp, votes-ndp and sage-ndp fast."
)
DEGREES = sorted({round(10 ** (k / 12)) for k in range(49)})


def draw() -> None:
    """One line per method, named beside the picture: too many to name at their ends."""
    figure = Figure(figsize=(8.2, 4.6))
    axes = figure.subplots()
    for label, settings, style in CURVES:
        plan = method_info(label.split(",")[0]).create(**settings).plan(SIZES, BUDGET)
        values = [epsilon_at(plan.mechanisms, BUDGET.delta, degree) for degree in DEGREES]
        shown = [(d, e) for d, e in zip(DEGREES, values, strict=True) if e <= 40]
        axes.plot(*zip(*shown, strict=True), style, color=COLOURS[family(label)], label=label, linewidth=2)
    axes.axhline(BUDGET.epsilon, color=INK, linewidth=0.8, linestyle=":")
    axes.axvline(100, color=INK, linewidth=0.8, linestyle=":")
    axes.annotate("declared degree", (100, 1.0), xytext=(4, 0), textcoords="offset points")
    axes.annotate("headline ε", (1, BUDGET.epsilon), xytext=(2, 4), textcoords="offset points")
    axes.set_xscale("log")
    axes.set_yscale("log", base=2)
    axes.set_yticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
    axes.set_ylim(0.9, 40)
    axes.set_xlabel("degree of the node")
    axes.set_ylabel("ε that it is promised, in every graph")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save(figure, "epsilon-by-degree", TITLE, TEXT)


if __name__ == "__main__":
    use_style()
    draw()
