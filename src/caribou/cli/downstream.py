"""``caribou links`` and ``graphs``: link prediction and graph classification on what a saved run released."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from caribou.cli.command import command, option, record
from caribou.cli.output import check_table, write_pieces
from caribou.cli.predict import RUN, warn_unprotected
from caribou.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from caribou.model.estimator import Model


@record
class LinksOptions:
    """What caribou links takes."""

    run: Path = RUN
    pairs: Path = option("The pairs to score: two columns of node ids, .csv or .parquet.", default=...)
    out: Path = option("Write the scores to this new file: .csv or .parquet.", default=...)
    public_pairs: Path | None = option(
        "Train on these pairs: two columns of node ids and label (1 = joined, 0 = not), public before the release."
    )


@command
def links(given: LinksOptions) -> None:
    """Score pairs of nodes by a run's released rows: a larger score means a likelier edge. This costs nothing.

    Without --public-pairs the score is a cosine, and nothing is trained. Pairs of the private graph are not public: to train on
    them voids the certificate. If --pairs has a column label (1 or 0), AUC and average precision are shown on stderr. They read
    what the labels say: do not publish them if the labels come from the private graph.

    Example: caribou links run --pairs pairs.csv --out scores.csv
    """
    import pandas as pd

    from caribou.datasets.task_tables import read_pairs
    from caribou.model.estimator import load
    from caribou.models.links import LinkPredictor

    check_table(given.out)
    model = load(given.run)
    rows = _rows_of(model)
    ids = _ids_of(model, len(rows))
    asked = read_pairs(given.pairs, ids)
    if given.public_pairs is None:
        predictor = LinkPredictor()
    else:
        known = read_pairs(given.public_pairs, ids)
        if known.labels is None:
            raise InputError(
                f"public-pairs must have a column label (1 = joined, 0 = not), got {str(given.public_pairs)!r} without one: an "
                "edge table of the private graph must not be given here"
            )
        predictor = LinkPredictor("logistic").fit(rows, known.pairs, known.labels)
    scores = predictor.scores(rows, asked.pairs)
    table = pd.DataFrame({asked.titles[0]: asked.ids[0], asked.titles[1]: asked.ids[1]})
    table["score"] = scores
    write_pieces([table], given.out)
    typer.echo(f"wrote {len(scores)} scores to {given.out}")
    if asked.labels is not None:
        _show_figures(scores, asked.labels)


@record
class GraphsOptions:
    """What caribou graphs takes."""

    run: Path = RUN
    groups: Path = option("Which node is in which graph: columns node id and graph, .csv or .parquet.", default=...)
    labels: Path = option("Public classes of some graphs: columns graph and label.", default=...)
    out: Path = option("Write the classes to this new file: .csv or .parquet.", default=...)
    pooling: str = option("mean or sum of the rows of a graph.", default="mean")
    head: str = option("linear or mlp.", default="linear")


@command
def graphs(given: GraphsOptions) -> None:
    """Classify graphs, or groups of nodes, by a run's released rows. This costs nothing.

    Groups and labels must be public. Labels that only the private graph knows void the certificate. Graphs without a label are
    predicted, and those with one are predicted, too.

    Example: caribou graphs run --groups groups.csv --labels labels.csv --out classes.csv
    """
    import pandas as pd

    from caribou.datasets.task_tables import read_graph_labels, read_groups
    from caribou.model.estimator import load
    from caribou.models.graph_classifier import GraphClassifier

    check_table(given.out)
    classifier = GraphClassifier(given.pooling, given.head)
    model = load(given.run)
    rows = _rows_of(model)
    grouped = read_groups(given.groups, _ids_of(model, len(rows)))
    known, classes = read_graph_labels(given.labels, grouped.names)
    probabilities = classifier.fit(rows, grouped.groups, known).predict_proba(rows, grouped.groups)
    best = probabilities.argmax(axis=1)
    table = pd.DataFrame({"graph": grouped.names, "class": [classes[k] for k in best]})
    table["probability"] = probabilities.max(axis=1)
    write_pieces([table], given.out)
    typer.echo(f"wrote {len(table)} classes to {given.out}")


def _rows_of(model: Model) -> np.ndarray:
    from caribou.models.released_rows import released_rows

    warn_unprotected(model)
    return released_rows(model.released)


def _ids_of(model: Model, nodes: int) -> list[str]:
    """The names of the nodes, or their numbers: at node level a run holds no names."""
    return [str(k) for k in range(nodes)] if model.node_ids is None else list(model.node_ids)


def _show_figures(scores: np.ndarray, labels: np.ndarray) -> None:
    from caribou.metrics import Scored, area_under_curve, average_precision

    scored = Scored(scores, labels == 1)
    typer.echo(
        f"AUC {area_under_curve(scored):.3f}, average precision {average_precision(scored):.3f} (do not publish these figures if "
        "the labels come from the private graph: they read its edges)",
        err=True,
    )
