"""An experiment is data: a TOML file with axes, expanded to cells.

    title = "Accuracy under edge-level privacy"
    paper = "PU-1, PU-3"
    kind = "train"

    [[grid]]
    method = ["votes-edp", "gap-edp"]
    dataset = ["cora"]
    epsilon = [1, 4, "inf"]
    seeds = 3                       # 0, 1, 2
    set.hops = [1, 2]               # settings of the method, each an axis

    [scale.smoke]                   # replaces axes of every grid that has them
    dataset = ["chain-s"]

A grid is the product of its axes. A plain value is an axis of one value. A scale may also drop grids (``grids = [0, 2]``).
``grid`` may also name a function of the paper's evaluation that makes them (``"authors.depth_grids"``).
"""

from __future__ import annotations

import itertools
import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caribou.errors import InputError
from caribou.experiments import reproduction
from caribou.experiments.records import cell_key

SCALES = ("smoke", "laptop", "full")


@dataclass(frozen=True)
class Experiment:
    """A table or figure: what is measured, and the cells at each scale. ``file``: where it was read from."""

    name: str
    title: str
    paper: str
    kind: str
    grids: tuple[Mapping[str, Any], ...]
    scales: Mapping[str, Mapping[str, Any]]
    file: Path | None = None

    @property
    def folder(self) -> Path:
        """Where its file is, and the files of a user's own graphs."""
        return Path() if self.file is None else self.file.parent

    def cells(self, scale: str) -> list[dict[str, Any]]:
        """All cells at a scale, each once, in the order of the file."""
        if scale not in SCALES:
            raise InputError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
        changes = dict(self.scales.get(scale, {}))
        kept = changes.pop("grids", range(len(self.grids)))
        found: dict[str, dict[str, Any]] = {}
        for number in kept:
            for cell in _product(_scaled(self.grids[number], changes)):
                cell = {"kind": self.kind, **cell}
                found.setdefault(cell_key(cell), cell)
        return list(found.values())


def read_experiment(file: str | os.PathLike[str]) -> Experiment:
    """Read a TOML file; a wrong field is an error that names it."""
    path = Path(file)
    document = read_toml(file, "experiment")
    try:
        return _experiment(path, document)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _experiment(file: Path, document: Mapping[str, Any]) -> Experiment:
    known = {"title", "paper", "kind", "grid", "scale"}
    if set(document) - known:
        raise InputError(f"fields must be {', '.join(sorted(known))}, got {', '.join(sorted(set(document) - known))}")
    for field in ("title", "kind"):
        if not isinstance(document.get(field), str):
            raise InputError(f"{field} must be text, got {document.get(field)!r}")
    grids = document.get("grid")
    if isinstance(grids, str):
        module, _, function = grids.partition(".")
        grids = getattr(reproduction.require().module(module), function)()
    if not isinstance(grids, list) or not grids or not all(isinstance(grid, dict) for grid in grids):
        raise InputError(f"grid must be one or more [[grid]] tables, got {type(grids).__name__}")
    scales = document.get("scale", {})
    if not isinstance(scales, dict) or set(scales) - set(SCALES):
        raise InputError(f"scale must have tables for {', '.join(SCALES)}, got {', '.join(map(str, scales))}")
    for scale, changes in scales.items():
        for number in changes.get("grids", []):
            if not isinstance(number, int) or not 0 <= number < len(grids):
                raise InputError(f"scale.{scale}.grids must number the grids 0 .. {len(grids) - 1}, got {number!r}")
    return Experiment(
        file.stem, document["title"], str(document.get("paper", "")), document["kind"], tuple(grids), scales, file
    )


def _scaled(grid: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The grid with the axes of the scale; an axis that the grid does not have is not added, but for the seeds."""
    own = {name: value for name, value in changes.items() if (name in grid or name == "seeds") and name != "set"}
    settings = {**grid.get("set", {})}
    settings.update({k: v for k, v in changes.get("set", {}).items() if k in settings})
    return {**grid, **own, "set": settings}


def _product(grid: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    axes: dict[str, Sequence[Any]] = {}
    for name, value in grid.items():
        if name == "seeds":
            axes["seed"] = _seeds(value)
        elif name == "sweep":
            axes[name] = [_swept(value)]
        elif name != "set":
            axes[name] = value if isinstance(value, list) else [value]
    settings = {name: value if isinstance(value, list) else [value] for name, value in grid.get("set", {}).items()}
    for values in itertools.product(*axes.values()):
        for values_of_settings in itertools.product(*settings.values()):
            cell = dict(zip(axes, values, strict=True))
            if settings:
                cell["settings"] = dict(zip(settings, values_of_settings, strict=True))
            yield cell


def _swept(value: Any) -> list[dict[str, Any]]:
    """The settings of a sweep: a list of tables as it is, or the product of a table's axes."""
    if isinstance(value, list) and value and all(isinstance(settings, dict) for settings in value):
        return value
    if isinstance(value, dict) and value and all(isinstance(axis, list) and axis for axis in value.values()):
        return [dict(zip(value, values, strict=True)) for values in itertools.product(*value.values())]
    raise InputError(f"sweep must be a table of lists or a list of settings, got {value!r}")


def _seeds(value: Any) -> list[int]:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return list(range(value))
    if isinstance(value, list) and value and all(isinstance(s, int) and s >= 0 for s in value):
        return value
    raise InputError(f"seeds must be a number >= 1 or a list of seeds, got {value!r}")


def filtered(cells: Iterable[Mapping[str, Any]], conditions: Sequence[str]) -> list[dict[str, Any]]:
    """The cells that meet all ``name=value`` conditions; values of one name given twice are alternatives.

    >>> filtered([{"dataset": "cora", "epsilon": 4}, {"dataset": "photo", "epsilon": 4}], ["dataset=cora"])
    [{'dataset': 'cora', 'epsilon': 4}]
    """
    wanted: dict[str, set[str]] = {}
    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not equals or not name:
            raise InputError(f"filter must be name=value, got {condition!r}")
        wanted.setdefault(name, set()).add(value)
    listed = [dict(cell) for cell in cells]
    known = {name for cell in listed for name in (*cell, *cell.get("settings", {}))}
    for name in wanted:
        if listed and name not in known:
            raise InputError(f"filter must name an axis of the experiment ({', '.join(sorted(known))}), got {name!r}")
        values = list(dict.fromkeys(_text(cell, name) for cell in listed))
        for value in sorted(wanted[name] - set(values)):
            raise InputError(f"filter: {name} must be one of {', '.join(values)}, got {value!r}")
    return [cell for cell in listed if all(_text(cell, name) in values for name, values in wanted.items())]


def _text(cell: Mapping[str, Any], name: str) -> str:
    value = cell.get(name, cell.get("settings", {}).get(name))
    return value if isinstance(value, str) else json.dumps(value)


def available(folder: str | os.PathLike[str]) -> list[Experiment]:
    """The experiments of a folder (not its other TOML files, which have no ``kind``)."""
    found = []
    for file in sorted(Path(folder).glob("*.toml")):
        if "kind" in read_toml(file, "experiment"):
            found.append(read_experiment(file))
    return found


def read_toml(file: str | os.PathLike[str], name: str) -> dict[str, Any]:
    """A TOML file, with errors that name it as ``name``."""
    try:
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{name} must be a file that can be read, got {os.fspath(file)}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError, too
        raise InputError(f"{name} must be TOML, got {os.fspath(file)}: {error}") from error
