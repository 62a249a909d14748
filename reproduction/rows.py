"""What rows and columns of the paper's tables and figures are called: one function for rows, one for data sets, everywhere.

The name CARIBOU alone stands for the paper's method. What we changed in it has a row of its own, which says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from caribou.experiments.records import Record
from caribou.experiments.report.summary import value_of
from reproduction import paper

AUTHORS = "authors' settings"
VALIDATED = "validated on our splits"
DEFAULTS = "defaults"
RAW = "raw features as messages"
GRID = "authors' grid"


def row_label(record: Record) -> str:
    """The row that a record belongs to: its method, and for CARIBOU whose settings it has or what we changed.

    >>> cell = {"method": "caribou-edp", "chosen": "authors-mean"}
    >>> row_label(Record("t", cell, "ok")), row_label(Record("t", {"method": "gap-edp", "chosen": True}, "ok"))
    ("caribou-edp, authors' settings", 'gap-edp')
    """
    method = str(record.cell["method"])
    if not method.startswith("caribou"):
        return method
    return f"{method}, {_face(record)}"


def _face(record: Record) -> str:
    # what the fit had in fact, which a search may have chosen
    settings = {**record.measures.get("settings", {}), **record.cell.get("settings", {})}
    if settings.get("messages") == "features":
        return RAW
    chosen = record.cell.get("chosen")
    if isinstance(chosen, str):  # a file of the authors' own settings
        return AUTHORS
    if chosen and record.measures.get("searched", True):
        return VALIDATED
    return GRID if record.cell.get("kind") == "sweep" else DEFAULTS


def of_the_paper(label: str) -> bool:
    """Whether a row is a method of the paper, so that its published figure may stand beside it.

    >>> of_the_paper("caribou-edp, raw features as messages"), of_the_paper("caribou-edp, defaults"), of_the_paper("gap-edp")
    (False, True, True)
    """
    method, _, face = label.partition(", ")
    return method in paper.METHODS and (not face or face in (AUTHORS, VALIDATED, DEFAULTS, GRID))


def method_of(label: str) -> str:
    """The method of a row.

    >>> method_of("caribou-edp, authors' settings")
    'caribou-edp'
    """
    return label.partition(",")[0]


def labelled(records: Iterable[Record]) -> list[Record]:
    """The records with their rows in place of their methods, CARIBOU at the authors' settings first."""
    found = [replace(record, cell={**record.cell, "method": row_label(record)}) for record in records]
    order = {label: at for at, label in enumerate(dict.fromkeys(record.cell["method"] for record in found))}
    return sorted(found, key=lambda record: _place(record.cell["method"], order))


def _place(label: str, order: Mapping[str, int]) -> tuple[int, int]:
    family = method_of(label).partition("-")[0]
    faces = (AUTHORS, VALIDATED, DEFAULTS, GRID, RAW)
    if family == "caribou":
        return 0, faces.index(label.partition(", ")[2])
    families = ("gap", "sage", "dpdgc", "mlp")
    return 1 + (families.index(family) if family in families else len(families)), order[label]


DAGGER = "†"
DAGGER_NOTE = f"{DAGGER} on the graph with its isolated nodes; not ranked."


def on_paper_graphs(rows: Sequence[Record]) -> tuple[list[Record], frozenset[tuple[str, str]]]:
    """Rows that were run on a graph with its isolated nodes alone, put into the column of the graph without them.

    Returns the records, and (row, data set) of what was moved. Where a row has both, the graph of the paper stays.
    """
    run = {(r.cell["method"], r.cell["dataset"]) for r in rows}
    graphs = {dataset for _, dataset in run}
    found, moved = [], set()
    for record in rows:
        row, dataset = record.cell["method"], record.cell["dataset"]
        same = f"{dataset}:connected"
        if same not in graphs:
            found.append(record)
        elif (row, same) not in run:
            found.append(replace(record, cell={**record.cell, "dataset": same}))
            moved.add((row, same))
    return found, frozenset(moved)


def delta_note(records: Sequence[Record]) -> str:
    """Which rows have the paper's delta; nothing where none has."""
    private = [r for r in records if r.cell["epsilon"] != "inf" and r.cell["method"] != "mlp"]
    others = dict.fromkeys(row_label(r) for r in private if r.cell.get("delta") != "paper")
    if len(others) == len({row_label(r) for r in private}):
        return ""
    rest = f"; {', '.join(others)}: the library's default" if others else ""
    return f"δ is the paper's constant of each data set{rest}."


def notes(records: Iterable[Record], *names: str) -> dict[Any, str]:
    """The settings of the fits behind an entry, for its note, by the values of axes."""
    found: dict[Any, dict[str, None]] = {}
    for record in records:
        words = settings_words(record.measures.get("settings") or record.cell.get("settings", {}))
        found.setdefault(tuple(value_of(record.cell, name) for name in names), {})[words] = None
    return {key: " | ".join(filter(None, words)) for key, words in found.items()}


def settings_words(settings: Mapping[str, Any]) -> str:
    """Settings for people.

    >>> settings_words({"hops": 2, "contraction": 0.9, "votes": 0.0})
    'hops 2, contraction 0.9, votes 0'
    """
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in settings.items()
    )


# -- data sets -----------------------------------------------------------------------------------------------------

TITLES = {
    "cora": "Cora",
    "pubmed": "PubMed",
    "photo:connected": "Photo",
    "computers:connected": "Computers",
    "photo": "Photo, isolated nodes kept",
    "computers": "Computers, isolated nodes kept",
    "berkeley13": "Berkeley13 (stands in for Facebook)",
}
CHAINS = {"chain-s": "Chain-S", "chain-m": "Chain-M", "chain-l": "Chain-L", "chain-x": "Chain-X"}


def dataset_title(name: str) -> str:
    """The name of a data set as a title; a stand-in is called one, a generated graph is told by its size.

    >>> dataset_title("csbm:nodes=169343,features=128"), dataset_title("chain-s:75"), dataset_title("chain-s")
    ('generated, 169,343 nodes', 'Chain-S, 75 chains per class', "Chain-S, the paper's size")
    """
    base, _, options = name.partition(":")
    if base in CHAINS:
        return f"{CHAINS[base]}, {options} chains per class" if options else f"{CHAINS[base]}, the paper's size"
    fields = dict(part.split("=") for part in options.split(",") if "=" in part)
    if base == "csbm" and int(fields.get("nodes", 0)) >= 10_000:
        return f"generated, {int(fields['nodes']):,} nodes"
    return TITLES.get(name, name)


def short_title(name: str) -> str:
    """The same for a tick of an axis.

    >>> short_title("chain-s"), short_title("chain-s:75"), short_title("berkeley13")
    ('Chain-S', 'Chain-S:75', 'Berkeley13')
    """
    base, colon, options = name.partition(":")
    return f"{CHAINS[base]}{colon}{options}" if base in CHAINS else dataset_title(name).partition(" (")[0]


def datasets_note(datasets: Sequence[str]) -> str:
    """What a reader must know about the data sets of a table."""
    words = []
    if set(datasets) & set(paper.STAND_INS):
        words.append("Berkeley13 stands in for the paper's Facebook graph, which cannot be had here.")
    if connected := [TITLES[name] for name in datasets if name.endswith(":connected") and name in TITLES]:
        verb = "are without their" if len(connected) > 1 else "is without its"
        words.append(f"{' and '.join(connected)} {verb} isolated nodes, as in the paper.")
    if any(name.partition(":")[0] in CHAINS and ":" in name for name in datasets):
        words.append("The paper has 3 chains per class (Chain-X: 5), of 8, 10, 15 and 15 nodes.")
    return " ".join(words)


def expanded(records: Iterable[Record]) -> list[Record]:
    """Records of single settings: one that holds a ``sweep`` of several becomes one per setting that has an accuracy."""
    found = []
    for record in records:
        if "sweep" not in record.cell:
            found.append(record)
            continue
        plain = {name: value for name, value in record.cell.items() if name != "sweep"}
        tested, validated = record.measures["test_accuracies"], record.measures["val_accuracies"]
        for settings, test, validation in zip(record.cell["sweep"], tested, validated, strict=True):
            if test is None:  # the method refused these settings
                continue
            cell = {**plain, "settings": {**plain.get("settings", {}), **settings}}
            # time and memory are those of the whole sweep
            whole = {**record.measures.get("settings", {}), **cell["settings"]}
            measures = {"test_accuracy": test, "val_accuracy": validation, "settings": whole}
            found.append(replace(record, cell=cell, measures=measures))
    return found
