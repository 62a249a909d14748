"""Shared by the tests of tables: one small bank, clean or with every problem planted, and the flags that mend it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from caribou.graph import Graph
from caribou.tables.rules import ColumnRules

N = 40
RULES = ColumnRules(
    unknown=["unknown", "NA"],
    drop_unknown_ids=True,
    ignore=["opened"],
    categories={"segment": ("business", "private")},
    fills={"income": "indicator"},
    ranges={"age": (18, 95)},
    logs={"income": (0, 100_000)},
)
"""What reads the clean bank at either level."""
RULE_FLAGS = [
    *("--unknown", "unknown", "--unknown", "NA", "--drop-unknown-ids", "--ignore", "opened"),
    *("--category", "segment=business,private", "--fill", "income=indicator"),
    *("--range", "age=18:95", "--log", "income=0:100000"),
]
"""The same on the command line."""


def bank() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Transfers and accounts: gaps, words, a date and labels, as a database or a frame would hold them."""
    nodes = pd.DataFrame(
        {
            "id": [f"a{k:02d}" for k in range(N)],
            "age": [20 + k for k in range(N)],
            "income": [None if k % 7 == 0 else 1000.0 * k for k in range(N)],
            "segment": [("private", "business", None)[k % 3] for k in range(N)],
            "opened": [f"2024-01-{k % 28 + 1:02d}" for k in range(N)],
            "label": [("ok", "fraud", "ok", "unknown")[k % 4] for k in range(N)],
        }
    )
    ends = [(k, (3 * k + 1) % N) for k in range(N)] + [(k, (k + 5) % N) for k in range(N)]
    edges = pd.DataFrame({"sender": [f"a{u:02d}" for u, _ in ends], "receiver": [f"a{v:02d}" for _, v in ends]})
    edges["amount"] = [10.5 + k for k in range(len(edges))]
    edges.loc[3, "receiver"] = "x99"
    return edges, nodes


def dirty() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The bank with every problem and every note planted. All cells are text or empty, as in a CSV file."""
    edges, nodes = bank()
    nodes["balance"] = [("NA" if k % 9 == 0 else str(k)) for k in range(N)]
    nodes["ratio"] = ["inf" if k == 4 else f"{k / N}" for k in range(N)]
    nodes["branch"] = "7"
    nodes["city"] = [f"town {k}" for k in range(N)]
    nodes["n_transfers"] = [str(k % 5) for k in range(N)]
    nodes.loc[5, "label"] = "?"
    nodes.loc[6, "label"] = "N/A"
    nodes["split"] = [("train", "train", "val", "test", "dev")[k % 5] for k in range(N)]
    edges.loc[7, "sender"] = None
    edges.loc[8, "receiver"] = edges.loc[8, "sender"]
    edges.loc[9, ["sender", "receiver"]] = edges.loc[10, ["sender", "receiver"]]
    return edges, nodes


MENDED = [
    *("--drop-unknown-ids", "--unknown", "unknown", "--unknown", "?", "--unknown", "N/A", "--unknown", "NA"),
    *("--fill", "income=indicator", "--fill", "balance=0", "--category", "segment", "--ignore", "opened"),
    *("--range", "ratio=0:1", "--ignore", "city", "--ignore", "split"),
]
"""The flags that read the dirty bank at edge level."""


def written(folder: Path, tables: tuple[pd.DataFrame, pd.DataFrame]) -> tuple[str, ...]:
    """The tables as CSV files, and the options that name them."""
    for name, frame in zip(("edges", "nodes"), tables, strict=True):
        frame.to_csv(folder / f"{name}.csv", index=False)
    return "--graph", str(folder / "edges.csv"), "--nodes", str(folder / "nodes.csv")


def content(graph: Graph) -> bytes:
    """What a ledger's fingerprint is computed from, with ids, labels and split."""
    parts = [*graph.content(), graph.node_ids.tobytes() if graph.node_ids is not None else b""]
    labels = b"" if graph.labels is None else graph.labels.tobytes()
    split = b"" if graph.split is None else b"|".join(p.tobytes() for p in (graph.split.train, graph.split.test))
    return b"|".join([*parts, labels, split, repr(graph.feature_names).encode()])
