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
    path = folder / dataset
    named = _described(path)[0] if path.suffix.lower() == DESCRIPTION and path.is_file() else ()
    for file in (path, *named):
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
    tables, how = _described(path)
    try:
        return read_graph(*tables, seed=seed, name=path.stem, unit=unit, **how)
    except CaribouError as error:
        raise DataError(f"{path}: {error}") from error


def _described(path: Path) -> tuple[list[Path], dict[str, Any]]:
    """The tables that a description names, and how they are read; a wrong field is an error that names it."""
    found = read_toml(path, "dataset")
    if unknown := sorted(set(found) - set(_FIELDS)):
        raise InputError(f"{path}: fields must be {', '.join(_FIELDS)}, got {', '.join(unknown)}")
    names = [found.get(name) for name in ("graph", "nodes") if name == "graph" or name in found]
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"{path}: graph and nodes must be names of files, got {names!r}")
    columns, rules = found.get("columns", {}), found.get("rules")
    if not isinstance(columns, Mapping) or set(columns) - set(_ROLES):
        raise InputError(f"{path}: columns must be titles by role ({', '.join(_ROLES)}), got {columns!r}")
    if isinstance(rules, Mapping) and isinstance(rules.get("categories"), list):
        rules = {**rules, "categories": dict.fromkeys(rules["categories"])}  # their words are to be learned
    try:
        declared = None if rules is None else ColumnRules.from_dict(rules)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    titles = {f"{role}_column": title for role, title in columns.items()}
    return [path.parent / str(name) for name in names], {"classes": found.get("classes"), "rules": declared, **titles}
