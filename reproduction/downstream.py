"""The tables of downstream tasks: link prediction and graph classification by budget, method and the rows that were used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from caribou.experiments.records import Record
from caribou.experiments.report.blocks import NOT_RUN, Entry, Table, marked
from caribou.experiments.report.summary import Mean, axis, budget_words, grouped, seed_words, value_of

Records = Sequence[Record]

WITHOUT_EDGES = "no edge is read, at any ε"
ROWS = {"released": "", "joined": " beside embeddings", "embeddings": "embeddings alone", "features": "features alone"}
"""What a task was given (`reproduction.tasks.rows_by_name`), as it is called after the name of the method."""
SEEDS = "Mean ± half of the 95 % interval over seeds (from 3 on)."


def downstream_blocks(records: Records) -> list[Table]:
    """Link prediction without and with training, and graph classification; only what was measured."""
    links = [r for r in records if r.cell["task"] == "links"]
    graphs = [r for r in records if r.cell["task"] == "graphs"]
    hidden = "A tenth of the edges was hidden before the release, with as many other pairs. AP: average precision."
    trained = "Half of the hidden pairs, declared public, trained; the other half was scored; both ways."
    pooled = "Mean pooling, linear head. With an arrow: trained on the first collection, which is then released on the second."
    tables = (
        task_table("downstream-links", "Hidden edges by cosines", links, "cosine", f"{SEEDS} {hidden}"),
        task_table("downstream-trained", "Hidden edges, trained", links, "logistic", f"{SEEDS} {trained}"),
        task_table("downstream-graphs", "Classes of graphs", graphs, "linear", f"Accuracy in %. {SEEDS} {pooled}"),
    )
    return [table for table in tables if table.groups]


def task_table(name: str, title: str, records: Records, model: str, caption: str) -> Table:
    """A group per budget, a row per method and what it was given, a column per data set and figure.

    ``model``: the predictor or head, as records name it.
    """
    figures = {"": ""} if model == "linear" else {" AUC": "/auc", " AP": "/average_precision"}
    columns = [(dataset, path) for dataset in axis(records, "dataset") for path in figures.values()]
    groups = []
    for words, here in _by_budget(records).items():
        rows: dict[str, list[Entry]] = {}
        for method in dict.fromkeys(_method(r) for r in here):
            some = [r for r in here if _method(r) == method]
            for given, word in ROWS.items():
                paths = {path: f"by_rows/{given}/{model}{path}" for path in figures.values()}
                means = {path: grouped(some, "dataset", measure=full) for path, full in paths.items()}
                if any(means.values()):
                    rows[method + word] = [_entry(means[path].get(dataset), model) for dataset, path in columns]
        if rows:
            best = [marked(list(column)) for column in zip(*rows.values(), strict=True)]
            groups.append((words, tuple((Entry(row), *(c[k] for c in best)) for k, row in enumerate(rows))))
    head = ("method", *(f"{dataset}{word}" for dataset in axis(records, "dataset") for word in figures))
    return Table(name, title, head, tuple(groups), caption)


def _by_budget(records: Records) -> Mapping[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for epsilon in axis(records, "epsilon"):
        for record in records:
            if record.cell["epsilon"] == epsilon:
                words = WITHOUT_EDGES if record.cell["method"] == "mlp" else budget_words(epsilon)
                found.setdefault(words, []).append(record)
    return found


def _method(record: Record) -> str:
    """CARIBOU with K and beta, in which its cells differ; nothing for the encoder, which the rows name."""
    name = str(record.cell["method"]).partition("-")[0]
    if name == "caribou":
        return f"CARIBOU, K = {value_of(record.cell, 'hops')}, β = {value_of(record.cell, 'beta'):g}"
    return "" if name == "mlp" else name.upper()


def _entry(mean: Mean | None, model: str) -> Entry:
    if mean is None:
        return Entry(NOT_RUN, title=NOT_RUN)
    text = mean.percent() if model == "linear" else mean.decimals()
    return Entry(text, mean.value, title=seed_words(mean.count), seeds=mean.count)
