"""Tuned settings: what a search found for a method, a data set and an epsilon, as a file under version control.

A table can then be computed again without another search. What has no entry was not searched and has the defaults.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from caribou.datasets.public import CONNECTED
from caribou.errors import InputError
from caribou.experiments.grid import read_toml
from caribou.machine.files import atomic_write
from caribou.methods import method_info
from reproduction import authors

FILE = Path(__file__).resolve().parent / "experiments" / "settings.toml"
_HEADER = """\
# Settings that a hyper-parameter search found on validation nodes of public data: one entry per method, data set and epsilon.
# Settings that an entry does not name have their defaults. Written by `python -m reproduction.choose`.
"""


@dataclass(frozen=True)
class TunedSettings:
    """One entry. ``settings``: the best ones of the search. ``tried``: how many settings were compared.

    ``validation_accuracy``: mean over the seeds of the ``metric`` on validation nodes that no fit had seen; ``default_accuracy``:
    the same for the defaults. ``tried`` is 0, and both are None, where nobody searched.
    """

    method: str
    dataset: str
    epsilon: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    validation_accuracy: float | None = None
    default_accuracy: float | None = None
    tried: int = 0
    seeds: tuple[int, ...] = ()
    version: str = ""
    metric: str = "accuracy"

    @property
    def key(self) -> tuple[str, str, float]:
        """What an entry is about; a file has one entry for it."""
        return self.method, self.dataset, self.epsilon


def settings_of(cell: Mapping[str, Any], epsilon: float) -> TunedSettings:
    """The entry of a cell with ``chosen`` at this epsilon.

    ``chosen`` = true: what was searched for the nearest epsilon. A word: the authors' settings of that table (`authors.TABLES`),
    which must have an entry for the cell.
    """
    method, dataset = str(cell["method"]), str(cell["dataset"])
    if cell["chosen"] is True:
        # searched on the whole benchmark: a few nodes without an edge more or less change no setting
        return nearest_settings(method, dataset.removesuffix(f":{CONNECTED}"), epsilon)
    entries = authors.settings(str(cell["chosen"]))
    if (method, dataset, epsilon) not in entries:
        raise InputError(f"chosen must have settings for {method} on {dataset} at {epsilon:g}, got {cell['chosen']!r}")
    return TunedSettings(method, dataset, epsilon, entries[method, dataset, epsilon])


def nearest_settings(method: str, dataset: str, epsilon: float, file: Path = FILE) -> TunedSettings:
    """The searched entry of the nearest epsilon (by ratio; the smaller of two) for this method and data set.

    A method that spends nothing has one entry, at infinity, for every epsilon. Where nothing was searched: the defaults, with
    ``tried`` = 0.
    """
    asked = math.inf if method_info(method).data_independent else epsilon
    searched = [e for e in read_settings(file) if (e.method, e.dataset) == (method, dataset)]
    if not searched:
        return TunedSettings(method, dataset, asked)
    return min(searched, key=lambda e: (_distance(e.epsilon, asked), e.epsilon))


def _distance(epsilon: float, other: float) -> float:
    """|log of the ratio|; infinity is further from every number than numbers are from each other."""
    return 0.0 if epsilon == other else abs(math.log(epsilon) - math.log(other))


def read_settings(file: Path) -> list[TunedSettings]:
    """All entries; a broken one is an error that names its number and the rule."""
    found: dict[tuple[str, str, float], TunedSettings] = {}
    for number, entry in enumerate(read_toml(file, "settings").get("tuned", []), start=1):
        try:
            tuned = TunedSettings(**{**entry, "seeds": tuple(entry.get("seeds", ()))})
        except TypeError as error:
            raise InputError(
                f"settings must have the fields of an entry, got {file}, entry {number}: {error}"
            ) from error
        if tuned.key in found:
            raise InputError(
                f"settings must have one entry for {tuned.key}, got a second one in {file}, entry {number}"
            )
        found[tuned.key] = tuned
    return list(found.values())


def write_settings(file: Path, entries: Iterable[TunedSettings]) -> None:
    """Write the entries, sorted, whole or not at all."""
    ordered = sorted(entries, key=lambda e: (e.dataset, e.method, e.epsilon))
    atomic_write(file, _HEADER + "".join(f"\n[[tuned]]\n{_entry(tuned)}" for tuned in ordered))


def _entry(tuned: TunedSettings) -> str:
    values = {f.name: getattr(tuned, f.name) for f in fields(tuned)}
    usual: tuple[Any, ...] = (None, {}, (), "")
    stated = {k: v for k, v in values.items() if v not in usual and (k, v) != ("metric", "accuracy")}
    return "".join(f"{name} = {toml_value(value)}\n" for name, value in stated.items())


def toml_value(value: Any) -> str:
    """A JSON-like value as TOML writes it on one line.

    >>> toml_value({"hidden": [64, 16], "share": 0.5, "noise": "discrete_laplace"})
    '{ hidden = [64, 16], share = 0.5, noise = "discrete_laplace" }'
    """
    if isinstance(value, bool | str):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(v) for v in value)}]"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key} = {toml_value(v)}" for key, v in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return repr(value)
