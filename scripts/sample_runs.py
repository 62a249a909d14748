"""The runs behind the gallery of the site, on generated graphs: figures go to docs/samples. `make samples`.

Nothing private is read, so the noise comes from a public seed, and the same code gives the same figures. It takes some minutes;
building the site takes none of them.
"""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import caribou as cb
from caribou.datasets.fraud import tables
from caribou.datasets.generated import BlockModel
from caribou.mechanisms.noise_source import NoiseSource
from caribou.metrics import mean_interval

SAMPLES = Path(__file__).parents[1] / "docs" / "samples"
SIMULATION, FRAUD = SAMPLES / "simulation.json", SAMPLES / "fraud.csv"
DECLARED = {"nodes": 1000, "average_degree": 10.0, "homophily": 0.8, "signal": 1.0, "seeds": 5, "delta": 1e-5}
"""Of the generated network of patients."""
NODE_METHODS = ("votes-ndp", "caribou-ndp", "mlp-dp")
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
SEEDS = 5
COLUMNS = ("method", "epsilon", "average_precision", "low", "high", "seeds")
RULES = cb.ColumnRules(
    unknown=["unknown"],
    drop_unknown_ids=True,
    ignore=["opened"],
    categories={"segment": ["business", "private", "student"]},
    fills={"*": "indicator"},
)
"""How the bank's tables are read: the flags of README.md."""


def simulation() -> dict[str, object]:
    """Accuracy at node level by epsilon, with what was declared; every seed has its own network."""
    world = BlockModel(**{name: DECLARED[name] for name in ("nodes", "average_degree", "homophily", "signal")})
    figures = []
    for method in NODE_METHODS:
        for epsilon in EPSILONS:
            budget = cb.Budget(epsilon, DECLARED["delta"], "node")
            scores = []
            for seed in range(DECLARED["seeds"]):
                model = cb.Model(method, budget, seed=seed).fit(world.draw(seed), noise=NoiseSource.seeded(seed))
                scores.append(model.score())
            low, high = mean_interval(scores)
            figure = {"method": method, "unit": "node", "epsilon": epsilon, "mean": (low + high) / 2}
            figures.append({**figure, "low": max(0.0, low), "high": min(1.0, high), "seeds": len(scores)})
    return {"declared": DECLARED, "figures": figures}


def fraud() -> Iterator[tuple[object, ...]]:
    """Average precision of fraud on test accounts: features alone, then votes by epsilon; every seed has its own split."""
    transfers, accounts = tables(seed=0)
    edges = transfers[["sender", "receiver"]]
    graphs = [cb.Graph.from_tables(edges, accounts, name="bank", seed=k, rules=RULES) for k in range(SEEDS)]
    for method, epsilon in (("mlp", EPSILONS[-1]), *(("votes-edp", epsilon) for epsilon in EPSILONS)):
        budget = cb.Budget(epsilon, 1e-5, "edge")
        scores = []
        for seed, graph in enumerate(graphs):
            fitted = cb.Model(method, budget, seed=seed).fit(graph, noise=NoiseSource.seeded(seed))
            scores.append(fitted.score(metric="ap"))
        low, high = mean_interval(scores)
        yield method, f"{epsilon:g}", *(f"{x:.4f}" for x in ((low + high) / 2, max(0.0, low), min(1.0, high))), SEEDS


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of generated data nothing is private
    SAMPLES.mkdir(exist_ok=True)
    with FRAUD.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *fraud()])
    SIMULATION.write_text(json.dumps(simulation(), indent=1) + "\n", encoding="utf-8")
