"""The paper's evaluation: where its grids, search spaces, settings, records and report are.

They lie in ``reproduction/`` of the source tree, beside the package, and are no part of an installed one. The folder is looked
for from the current folder upward, then from the package upward.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from caribou.errors import InputError

NAME = "reproduction"
_PARTS = ("experiments", "items.py")
"""What a folder of that name must have to be the one."""


@dataclass(frozen=True)
class Reproduction:
    """The folder and what is where in it."""

    folder: Path

    @property
    def experiments(self) -> Path:
        """The grids, one TOML file each."""
        return self.folder / "experiments"

    @property
    def results(self) -> Path:
        """The records, one file per experiment."""
        return self.folder / "results"

    def module(self, name: str) -> ModuleType:
        """A module of the folder's own code (``items``): it is loaded by its path, because the folder is not installed."""
        loaded = sys.modules.get(NAME)
        if loaded is None or str(self.folder) not in map(str, getattr(loaded, "__path__", ())):
            here = [str(self.folder)]
            spec = spec_from_file_location(NAME, self.folder / "__init__.py", submodule_search_locations=here)
            if spec is None or spec.loader is None:
                raise InputError(f"{NAME} must be a folder of Python modules, got {str(self.folder)!r}")
            sys.modules[NAME] = package = module_from_spec(spec)
            spec.loader.exec_module(package)
        return import_module(f"{NAME}.{name}")


def find() -> Reproduction | None:
    """The folder of the source tree that this is run in, or of the one that the package is used from; None outside of both."""
    for start in _starts():
        for folder in (start, *start.parents):
            for candidate in (folder / NAME, folder):
                if candidate.name == NAME and all((candidate / part).exists() for part in _PARTS):
                    return Reproduction(candidate)
    return None


def require(refusal: str = "") -> Reproduction:
    """The same, or an error that says where was looked. ``refusal``: how it begins."""
    if (found := find()) is not None:
        return found
    here, package = _starts()
    raise InputError(
        f"{refusal}the paper's evaluation comes with the source tree, not with the package: no folder {NAME}/ was found from "
        f"{str(here)!r} upward or from {str(package)!r} upward; run this inside the source tree, or give the path"
    )


def experiment_file(given: str | os.PathLike[str]) -> Path:
    """The file of an experiment: a path, or the name of one of the paper's (``edge-accuracy``)."""
    path = Path(given)
    if path.is_file():
        return path
    refusal = f"file must be an experiment, got {os.fspath(given)!r}, which is no file"
    found = require(f"{refusal}; ")
    named = found.experiments / f"{path.name.removesuffix('.toml')}.toml"
    if named.is_file():
        return named
    raise InputError(f"{refusal} and no name of an experiment in {found.experiments} (caribou run --list)")


def _starts() -> tuple[Path, Path]:
    return Path.cwd(), Path(__file__).resolve().parent
