"""Tuned settings: what a hyper-parameter search found for a method, a data set and an epsilon, as a file under version control.

A table can then be computed again without another search. An entry with ``tried = 0`` says that nothing was searched and that the
defaults are used.
"""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from caribou._files import atomic_write
from caribou._validate import integer, positive_or_inf, unit_interval
from caribou.errors import InputError
from caribou.experiments import reproduction

_HEADER = """\
# Settings that a hyper-parameter search found on validation nodes of public data: one entry per method, data set and epsilon.
# Settings that an entry does not name have their defaults. Written by `python -m reproduction.choose`. tried = 0: not searched.
"""


@dataclass(frozen=True)
class TunedSettings:
    """One entry. ``settings``: the best ones of the search. ``tried``: how many settings were compared.

    ``validation_accuracy``: mean over the seeds of the ``metric`` on validation nodes that no fit had seen; ``default_accuracy``:
    the same for the defaults. Both are None where nobody searched.
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

    def __post_init__(self) -> None:
        for name in ("method", "dataset", "version", "metric"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"{name} must be a word, got {getattr(self, name)!r}")
        object.__setattr__(self, "epsilon", positive_or_inf(epsilon=self.epsilon))
        if not isinstance(self.settings, Mapping):
            raise InputError(f"settings must be a table of values by name, got {self.settings!r}")
        for name in ("validation_accuracy", "default_accuracy"):
            if getattr(self, name) is not None:
                unit_interval(**{name: getattr(self, name)})
        integer(at_least=0, tried=self.tried)
        if not isinstance(self.seeds, list | tuple):
            raise InputError(f"seeds must be a list of whole numbers, got {self.seeds!r}")
        object.__setattr__(self, "seeds", tuple(integer(at_least=0, seeds=seed) for seed in self.seeds))
        if (self.tried > 0) != (self.validation_accuracy is not None):
            raise InputError(f"validation_accuracy must go with tried > 0, got tried = {self.tried}")

    @property
    def key(self) -> tuple[str, str, float]:
        """What an entry is about; a file has one entry for it."""
        return self.method, self.dataset, self.epsilon


def tuned_settings(
    method: str, dataset: str, epsilon: float, file: str | os.PathLike[str] | None = None
) -> TunedSettings:
    """The entry for this method, data set and epsilon; an error that names the nearest ones if there is none.

    A method that spends nothing has one entry, at infinity, for every epsilon. ``file``: by default that of the paper's
    evaluation.
    """
    file = reproduction.require().settings if file is None else file
    known = read_settings(file)
    asked = math.inf if _is_data_independent(method) else positive_or_inf(epsilon=epsilon)
    near = [e for e in known if e.method == method and e.dataset == dataset]
    near = near or [e for e in known if e.method == method] or list(known)
    near.sort(key=lambda e: _distance(e.epsilon, asked))
    if near and near[0].key == (method, dataset, asked):
        return near[0]
    names = "; ".join(f"{e.method} on {e.dataset} at epsilon = {e.epsilon:g}" for e in near[:3]) or "nothing"
    raise InputError(
        f"settings must have an entry for {method} on {dataset} at epsilon = {epsilon:g}, got {os.fspath(file)} with {names}"
    )


def nearest_settings(
    method: str, dataset: str, epsilon: float, file: str | os.PathLike[str] | None = None
) -> TunedSettings:
    """The searched entry of the nearest epsilon (by ratio; the smaller of two) for this method and data set.

    Where nothing was searched for them: an entry with ``tried`` = 0, the defaults. ``file``: by default that of the paper's
    evaluation.
    """
    file = reproduction.require().settings if file is None else file
    asked = math.inf if _is_data_independent(method) else positive_or_inf(epsilon=epsilon)
    searched = [e for e in read_settings(file) if (e.method, e.dataset) == (method, dataset) and e.tried]
    if not searched:
        return TunedSettings(method, dataset, asked)
    return min(searched, key=lambda e: (_distance(e.epsilon, asked), e.epsilon))


def _is_data_independent(method: str) -> bool:
    from caribou.methods import method_info

    return method_info(method).data_independent


def _distance(epsilon: float, other: float) -> float:
    """|log of the ratio|; infinity is further from every number than numbers are from each other."""
    return 0.0 if epsilon == other else abs(math.log(epsilon) - math.log(other))


def read_settings(file: str | os.PathLike[str]) -> list[TunedSettings]:
    """All entries; a broken one is an error that names its number and the rule."""
    document = read_toml(file, "settings")
    entries = document.get("tuned", [])
    if set(document) - {"tuned"} or not isinstance(entries, list):
        raise InputError(
            f"settings must be a list of [[tuned]] tables, got {os.fspath(file)} with {', '.join(document)}"
        )
    found: dict[tuple[str, str, float], TunedSettings] = {}
    for number, entry in enumerate(entries, start=1):
        where = f"{os.fspath(file)}, entry {number}"
        tuned = _tuned(entry, where)
        if tuned.key in found:
            raise InputError(f"settings must have one entry for {tuned.key}, got a second one in {where}")
        found[tuned.key] = tuned
    return list(found.values())


def _tuned(entry: Any, where: str) -> TunedSettings:
    names = [f.name for f in fields(TunedSettings)]
    if not isinstance(entry, dict) or not {"method", "dataset", "epsilon"} <= set(entry) <= set(names):
        raise InputError(f"an entry must have method, dataset, epsilon and only {', '.join(names)}, got {where}")
    try:
        return TunedSettings(**entry)
    except InputError as error:
        raise InputError(f"{error} ({where})") from error


def write_settings(file: str | os.PathLike[str], entries: Iterable[TunedSettings]) -> None:
    """Write the entries, sorted, whole or not at all."""
    ordered = sorted(entries, key=lambda e: (e.dataset, e.method, e.epsilon))
    text = _HEADER + "".join(f"\n[[tuned]]\n{_entry(tuned)}" for tuned in ordered)
    try:
        atomic_write(file, text)
    except OSError as error:
        raise InputError(
            f"settings must be a file that can be written, got {os.fspath(file)}: {error.strerror}"
        ) from error


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
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(v) for v in value)}]"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key} = {toml_value(v)}" for key, v in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    raise InputError(f"a setting must be a number, a word, a list or a table, got {value!r}")


def read_toml(file: str | os.PathLike[str], name: str) -> dict[str, Any]:
    """A TOML file, with errors that name it as ``name``."""
    try:
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{name} must be a file that can be read, got {os.fspath(file)}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{name} must be TOML, got {os.fspath(file)}: {error}") from error
