"""The demonstration: a graph with secret edges, two private models, their certificates, and what privacy costs.

Run it with ``make demo``. Everything is generated here; nothing is downloaded. Results go to demo-output/.
"""

from __future__ import annotations

import shutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

import caribou as cb
from caribou.cli import app

OUTPUT = Path("demo-output")
EPSILON, DELTA = 4.0, 1e-5
EPSILONS = (1.0, 2.0, 8.0)
PRIVATE = ("votes-edp", "caribou-edp")
INFINITE = float("inf")


def load_graph() -> cb.Graph:
    return cb.datasets.load("csbm", nodes=2500, classes=4, average_degree=8.0, homophily=0.7, signal=2.0, seed=1)


def test_accuracy(method: str, epsilon: float) -> float:
    """One fit in a process of its own."""
    return cb.Model(method, cb.Budget(epsilon, DELTA)).fit(load_graph()).score("test")


def fit_and_save(graph: cb.Graph, console: Console) -> dict[str, float]:
    """Both private methods at epsilon 4, each charged in a ledger and saved as a run."""
    ledger = cb.Ledger(OUTPUT / "ledger.sqlite")
    # one pure and one Gaussian release: what any order of such releases may cost (docs/privacy.md, Theorem 13)
    ledger.set_budget(graph.name, cb.Budget(2.5 * EPSILON, DELTA))
    scores = {}
    for method in PRIVATE:
        model = cb.Model(method, cb.Budget(EPSILON, DELTA)).fit(graph, ledger=ledger)
        model.save(OUTPUT / method)
        scores[method] = model.score("test")
        console.print(f"fitted {method}, saved to {OUTPUT / method}")
    try:
        cb.Model("votes-edp", cb.Budget(EPSILON, DELTA)).fit(graph, ledger=ledger)
    except cb.CaribouError as error:
        console.print(f"a third fit is refused before anything is drawn: {error}")
    return scores


def picture(scores: dict[str, dict[float, float]], graph_free: float, non_private: float, file: Path) -> None:
    with plt.style.context("caribou.pages.caribou"):
        figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for method, marker in zip(PRIVATE, ("o", "s"), strict=True):
        epsilons = sorted(scores[method])
        axes.plot(epsilons, [100 * scores[method][e] for e in epsilons], marker=marker, label=method)
    axes.axhline(100 * non_private, color="0.35", linestyle="--", label="caribou-inf (no privacy)")
    axes.axhline(100 * graph_free, color="0.35", linestyle=":", label="mlp (no graph)")
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    axes.set_xlabel(f"ε (one edge is secret, δ = {DELTA:g})")
    axes.set_ylabel("test accuracy in %")
    axes.set_title("What the privacy of edges costs")
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(0.0, 0.45))
    figure.savefig(file, dpi=140)
    plt.close(figure)


def main() -> None:
    console = Console()
    if OUTPUT.exists():
        shutil.rmtree(OUTPUT)
    OUTPUT.mkdir()

    console.rule("1. A graph whose edges are secret")
    graph = load_graph()
    console.print(f"{graph}: features, labels and split are public, every edge is protected")

    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        free = pool.submit(test_accuracy, "mlp", EPSILON)
        plain = pool.submit(test_accuracy, "caribou-inf", INFINITE)
        others = {(m, e): pool.submit(test_accuracy, m, e) for m in PRIVATE for e in EPSILONS}

        console.rule("2. What depth costs, before any data is touched")
        command = ["plan", "--epsilon", str(EPSILON), "--delta", str(DELTA), "--contraction", "0.9"]
        command += ["--degree-floor", "20"]
        console.print(f"$ caribou {' '.join(command)}", highlight=False)
        app(command, standalone_mode=False)

        console.rule(f"3. Two private models at epsilon = {EPSILON:g}, each charged in a ledger")
        scores = {method: {EPSILON: score} for method, score in fit_and_save(graph, console).items()}
        app(["ledger", "show", "--ledger", str(OUTPUT / "ledger.sqlite")], standalone_mode=False)

        console.rule("4. What they promise, and a check that anybody can make")
        console.print(Markdown((OUTPUT / "votes-edp" / "certificate.md").read_text(encoding="utf-8")))
        app(["verify", str(OUTPUT / "votes-edp" / "certificate.json")], standalone_mode=False)

        console.rule("5. What the privacy of edges costs in accuracy")
        for (method, epsilon), future in others.items():
            scores[method][epsilon] = future.result()
        graph_free, non_private = free.result(), plain.result()

    table = Table("model", "test accuracy", "edges protected")
    table.add_row("mlp: features only", f"{graph_free:.1%}", "not used")
    for method in PRIVATE:
        table.add_row(method, f"{scores[method][EPSILON]:.1%}", str(cb.Budget(EPSILON, DELTA)))
    table.add_row("caribou-inf: without noise", f"{non_private:.1%}", "no")
    console.print(table)
    picture(scores, graph_free, non_private, OUTPUT / "accuracy.png")
    console.print(f"saved {', '.join(str(path) for path in sorted(OUTPUT.iterdir()))}")


if __name__ == "__main__":
    main()
