"""Twelve months of a bank: new accounts are scored every month, and all of it costs one epsilon.

A bank fits votes on the accounts and transfers of the first month. Every month new accounts open. `Model.extend` asks each pair
with a new account once, and no old pair again, so that the year costs what the first month cost. The last lines attack the year:
an adversary who knows everything but one transfer, and sees every count of every month, learns no more than epsilon of it.

A run that is killed between two months is resumed: months whose folder is there are not made again.

    python examples/twelve_months.py year-output
"""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

import caribou as cb
from caribou.audit.metrics import Scored, average_precision
from caribou.datasets.fraud import RANGES, Bank, tables
from caribou.mechanisms.edge_votes import NoisyCounts, VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.ledger import Ledger

EPSILON, MONTHS = 4.0, 12
BANK = Bank(accounts=1500, transfers=9000, new_accounts=300, new_transfers=2400)
CLASSES = ("fraud", "ok")
NAME = "accounts"


@dataclass(frozen=True)
class Month:
    """How well the new accounts of a month were scored (of the first month: those that are hidden), and the cost so far."""

    month: int
    new_accounts: int
    accuracy: float
    average_precision: float
    features_alone: float
    epsilon_so_far: float


def graph_of(month: int, bank: Bank = BANK, seed: int = 0) -> cb.Graph:
    """The graph of a month: numbers by their declared ranges, a gap as the middle; transfers to other banks are left out.

    What is known is known a month later: accounts that are new have no public label yet, and are scored. Of the others, three of
    five train and one chooses settings.
    """
    transfers, accounts = tables(month, seed, bank)
    place = {name: k for k, name in enumerate(accounts["id"])}
    columns = [(accounts[title].fillna((low + high) / 2) - low) / (high - low) for title, (low, high) in RANGES.items()]
    ends = [transfers[end].map(place) for end in ("sender", "receiver")]
    inside = ends[0].notna() & ends[1].notna()
    labels = accounts["label"].map({"fraud": 0, "ok": 1}).fillna(-1).to_numpy(dtype=np.int64)
    number, known = np.arange(len(accounts)), labels >= 0
    part = np.where(number % 5 < 3, 0, np.where(number % 5 == 3, 1, 2))
    if month > 0:
        part[bank.accounts + (month - 1) * bank.new_accounts :] = 2
    return cb.Graph.from_edges(
        np.sqrt(np.stack(columns, axis=1)),
        np.stack([end[inside].to_numpy(dtype=np.int64) for end in ends]),
        labels=labels,
        split=cb.Split(*(number[(part == k) & known] for k in range(3))),
        name=NAME,
        class_names=CLASSES,
        node_ids=accounts["id"].to_numpy(dtype=str),
    )


def precision(p: np.ndarray, truth: np.ndarray) -> float:
    """Average precision of the fraud scores; not a number where nobody, or everybody, is a fraud."""
    fraud = truth == 0
    return average_precision(Scored(p[:, 0], fraud)) if 0 < fraud.sum() < len(fraud) else math.nan


def scored(model: cb.Model, encoder: cb.Model, graph: cb.Graph, before: int, month: int, spent: float) -> Month:
    """Figures of the accounts that are new this month; in the first one, of those whose label is hidden."""
    place = {name: k for k, name in enumerate(model.node_ids or ())}
    rows = np.array([place[str(name)] for name in graph.node_ids])
    new = graph.split.test[graph.split.test >= before]
    truth = graph.labels[new]
    p, own = (q[new] for q in (model.predict_proba()[rows], encoder.release(graph).probabilities))
    return Month(
        month,
        graph.num_nodes - before,
        float((p.argmax(axis=1) == truth).mean()),
        precision(p, truth),
        precision(own, truth),
        spent,
    )


def main(folder: Path, months: int = MONTHS, bank: Bank = BANK, seed: int = 0) -> list[Month]:
    """Make every month whose run is not in the folder yet; returns the figures of all of them."""
    folder.mkdir(exist_ok=True)
    ledger = folder / "ledger.sqlite"
    if not ledger.exists():
        Ledger(ledger).set_budget(NAME, cb.Budget(EPSILON), per="year")
    encoder, figures, before = None, [], 0
    for month in range(months):
        graph, run = graph_of(month, bank, seed), folder / f"month-{month:02d}"
        if not run.exists():
            charged = cb.NotedLedger(ledger, purpose="fraud scores", person="example", period=f"2025-{month + 1:02d}")
            if month == 0:
                model = cb.Votes(cb.Budget(EPSILON)).fit(graph, ledger=charged)
            else:
                model = cb.load(folder / f"month-{month - 1:02d}").extend(graph, ledger=charged)
            model.save(run)
        if encoder is None:
            encoder = cb.Model("mlp", cb.Budget(EPSILON)).fit(graph)
        spent = Ledger(ledger).total(NAME, "edge").epsilon_spent
        figures.append(scored(cb.load(run), encoder, graph, before, month, spent))
        before = graph.num_nodes
    return figures


def proven_epsilon(months: int = MONTHS, epsilon: float = EPSILON, pairs: int = 60_000, fault: bool = False) -> float:
    """The largest epsilon that a likelihood-ratio test on the counts of a whole year proves about one transfer, at 99.9999 %.

    Many independent pairs of accounts, of which the second opens in month 3, are joined or not; everybody sends whenever the
    rules let them. ``fault``: nodes that were there are asked as if they had just arrived, which must be found out.
    """
    losses = []
    for joined in (True, False):
        total = np.zeros(pairs)
        for month in range(months):
            there = np.array([True, month >= 3])
            present = np.array([month > 0, month > 3]) & (not fault)
            edges = np.arange(2 * pairs).reshape(-1, 2).T if joined and there.all() else np.zeros((2, 0), dtype=int)
            graph = cb.Graph.from_edges(np.zeros((2 * pairs, 1)), edges)
            counts = NoisyCounts(graph, 1, VoteBudget(epsilon), NoiseSource.secure(), np.tile(present, pairs))
            new = np.tile(there, pairs)
            c = counts.ask(new, np.tile([0.0, 1.0], pairs), np.zeros(2 * pairs, dtype=int), new)[1::2, 0]
            if there.all() and c.any():
                total += epsilon * (np.abs(c) - np.abs(c - 1))  # the log-likelihood ratio of one noisy count
        losses.append(total)
    best = 0.0
    for threshold in np.unique(losses[0]):
        hits, false = (int((total >= threshold).sum()) for total in losses)
        low = stats.beta.ppf(1e-6, hits, pairs - hits + 1)
        high = stats.beta.ppf(1 - 1e-6, false + 1, pairs - false) if false < pairs else 1.0
        best = max(best, math.log(low / high))
    return best


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("month  new accounts  accuracy  average precision  features alone  epsilon so far")
    year = main(Path(sys.argv[1] if len(sys.argv) > 1 else "year-output"))
    for m in year:
        print(
            f"{m.month:5d}  {m.new_accounts:12d}  {m.accuracy:8.1%}  {m.average_precision:17.2f}  {m.features_alone:14.2f}  "
            f"{m.epsilon_so_far:14.4f}"
        )
    means = [np.nanmean([getattr(m, name) for m in year[1:]]) for name in ("average_precision", "features_alone")]
    print(f"mean average precision of new accounts: {means[0]:.3f}, by features alone {means[1]:.3f}")
    print(f"proven by attack on the whole year: epsilon >= {proven_epsilon():.2f} of {EPSILON:g}")
    print(f"proven if old pairs were asked again: epsilon >= {proven_epsilon(fault=True):.2f}")
