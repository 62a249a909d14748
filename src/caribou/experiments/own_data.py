"""A user's own graph in an experiment: ``dataset`` is a file, or a TOML file that names tables and says how they are read.

    graph = "transfers.csv"       # beside this file
    nodes = "accounts.csv"
    classes = ["fraud", "ok"]     # node level asks for them

    [columns]                     # titles, by their role
    id = "account"

    [rules]                       # the names of `caribou.ColumnRules`
    unknown = ["unknown"]
    drop_unknown_ids = true
    categories.segment = ["private", "business"]
    fills."*" = "indicator"
    ranges.income = [0, 10000]

Files lie in the folder of the experiment. Nothing about a file but its name is recorded: a file that changes needs a new name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from caribou.errors import CaribouError, DataError, InputError
from caribou.experiments.grid import read_toml
from caribou.graph import Graph
from caribou.privacy.budget import PrivacyUnit
from caribou.tables.rules import ColumnRules

DESCRIPTION = ".toml"
ENDINGS = (".npz", DESCRIPTION)
"""Of files that are a data set by themselves. An edge table is not: it needs a node table, and rules."""
_FIELDS, _ROLES = ("graph", "nodes", "classes", "columns", "rules"), ("id", "label", "split", "source", "target")


def is_own(dataset: object) -> bool:
    """Whether a data set is a file of the user, and no name that `caribou.datasets.load` knows.

    >>> is_own("own.npz"), is_own("bank.toml"), is_own("cora"), is_own("csbm:signal=0.5")
    (True, True, False, False)
    """
    return isinstance(dataset, str) and dataset.lower().endswith(ENDINGS)


def require_own(dataset: str, folder: Path) -> None:
    """Refuse a data set whose files are not there, or whose description has a wrong field, before anything is measured."""
    for file in _files(dataset, folder):
        if not file.is_file():
            raise DataError(f"dataset {dataset!r}: {file} is no file; files lie in the folder of the experiment")


def read_own(dataset: str, folder: Path, *, seed: int = 0, unit: PrivacyUnit | None = None) -> Graph:
    """The graph of a file, or of the tables that a TOML file describes.

    Args:
        dataset: the path of the file, from the ``folder`` of the experiment.
        folder: where files are looked for.
        seed: draws a split where the file has none.
        unit: what will be protected; node level refuses what is not declared.

    Returns:
        The graph, named as the file without its ending.
    """
    from caribou.datasets import read_graph

    path = folder / dataset
    if path.suffix.lower() != DESCRIPTION:
        return read_graph(path, seed=seed, unit=unit)
    described = _described(path)
    graph, *nodes = _files(dataset, folder)[1:]
    titles: dict[str, Any] = {f"{role}_column": title for role, title in described.get("columns", {}).items()}
    try:
        return read_graph(
            graph,
            nodes[0] if nodes else None,
            seed=seed,
            name=path.stem,
            classes=described.get("classes"),
            rules=_rules(described["rules"]) if "rules" in described else None,
            unit=unit,
            **titles,
        )
    except CaribouError as error:
        raise DataError(f"{path}: {error}") from error


def _files(dataset: str, folder: Path) -> list[Path]:
    """The file itself, and those that it names."""
    path = folder / dataset
    if path.suffix.lower() != DESCRIPTION or not path.is_file():
        return [path]
    described = _described(path)
    return [path, *(path.parent / described[name] for name in ("graph", "nodes") if name in described)]


def _described(path: Path) -> dict[str, Any]:
    """The description of tables; a wrong field is an error that names it."""
    found = read_toml(path, "dataset")
    if set(found) - set(_FIELDS):
        raise InputError(
            f"{path}: fields must be {', '.join(_FIELDS)}, got {', '.join(sorted(set(found) - set(_FIELDS)))}"
        )
    for name in ("graph", "nodes"):
        if not isinstance(found.get(name, "" if name == "nodes" else None), str):
            raise InputError(f"{path}: {name} must be the name of a file, got {found.get(name)!r}")
    columns = found.get("columns", {})
    if not isinstance(columns, Mapping) or set(columns) - set(_ROLES):
        raise InputError(f"{path}: columns must be titles by role ({', '.join(_ROLES)}), got {columns!r}")
    try:
        _rules(found.get("rules", {}))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return found


def _rules(record: Any) -> ColumnRules:
    """Rules as `ColumnRules.from_dict` takes them; a list of categories declares columns whose words are to be learned."""
    categories = record.get("categories") if isinstance(record, Mapping) else None
    if isinstance(categories, list):
        record = {**record, "categories": dict.fromkeys(categories)}
    return ColumnRules.from_dict(record)
