"""Change each constant of the privacy calculus by 5 % and see which tests turn red. `make mutants`.

A constant whose change leaves every test green is one that nothing attacks. Each mutant is a copy of the source with one number
multiplied by a factor. The tests of the module, then those of the calculus, layers and mechanisms run against the copy, and stop
at the first failure. Numbers in docstrings, indices and messages decide nothing and are left alone. So is 0: it has no 5 %.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = ("sensitivity", "calibration", "accounting")
TESTS = ("tests/privacy", "tests/layers", "tests/mechanisms")
"""In this order: the first turn red in seconds."""
FACTORS = (0.95, 1.05)
LONGEST = 120
"""Seconds for one test: a mutant whose loop never ends has been noticed."""


@dataclass(frozen=True)
class Mutant:
    """One number of one module, multiplied by a factor."""

    module: str
    line: int
    column: int
    end: int
    value: float
    factor: float

    @property
    def name(self) -> str:
        """Where it is and what it becomes."""
        return f"{self.module}.py:{self.line}:{self.column} {self.value:g} -> {self.value * self.factor:g}"


def source_of(package: Path, module: str) -> Path:
    """The file of a module of the calculus."""
    return package / "privacy" / f"{module}.py"


class Numbers(ast.NodeVisitor):
    """The numbers of a module that a formula may depend on."""

    def __init__(self) -> None:
        self.found: list[ast.Constant] = []

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        return

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, int | float) and not isinstance(node.value, bool) and node.value != 0:
            self.found.append(node)


def mutants(package: Path, modules: tuple[str, ...]) -> Iterator[Mutant]:
    """Every number with every factor, module after module."""
    for module in modules:
        visitor = Numbers()
        visitor.visit(ast.parse(source_of(package, module).read_text(encoding="utf-8")))
        for node in visitor.found:
            for factor in FACTORS:
                value = float(node.value)  # type: ignore[arg-type]
                yield Mutant(module, node.lineno, node.col_offset, node.end_col_offset or 0, value, factor)


def write(mutant: Mutant, package: Path) -> None:
    """Put the mutant in the place of its module."""
    file = source_of(package, mutant.module)
    lines = file.read_text(encoding="utf-8").split("\n")
    line = lines[mutant.line - 1].encode("utf-8")  # columns of a syntax tree count bytes
    changed = line[: mutant.column] + f"({mutant.value!r} * {mutant.factor})".encode() + line[mutant.end :]
    lines[mutant.line - 1] = changed.decode("utf-8")
    file.write_text("\n".join(lines), encoding="utf-8")


def is_killed(mutant: Mutant) -> bool:
    """Whether a test turns red. It runs in a process of its own, which has not imported the package yet."""
    with tempfile.TemporaryDirectory(prefix="caribou-mutant-") as folder:
        package = Path(folder) / "caribou"
        shutil.copytree(ROOT / "src" / "caribou", package)
        write(mutant, package)
        os.chdir(ROOT)
        os.environ["PYTHONPATH"] = folder
        sys.path.insert(0, folder)
        own = f"tests/privacy/test_{mutant.module}.py"
        silent = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
        with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not slow", "--timeout", str(LONGEST)]
            return pytest.main([*options, own, *TESTS]) != pytest.ExitCode.OK


def main() -> None:
    """One line per survivor, then the counts as a table row per module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", nargs="*", default=MODULES, help="of the calculus; all without")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--every", type=int, default=1, help="take every so many, for a sample")
    parser.add_argument("--list", action="store_true", help="name the mutants and run nothing")
    chosen = parser.parse_args()
    found = list(mutants(ROOT / "src" / "caribou", tuple(chosen.modules)))[:: chosen.every]
    if chosen.list:
        print("\n".join(mutant.name for mutant in found))
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "scipy.stats", "hypothesis", "dp_accounting", "pytest"])
    with ProcessPoolExecutor(chosen.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        killed = []
        for mutant, red in zip(found, pool.map(is_killed, found), strict=True):
            killed.append(red)
            if not red:
                print(f"green: {mutant.name}", flush=True)
    print("\n| module | mutants | killed |\n|---|---|---|")
    for module in chosen.modules:
        own = [red for mutant, red in zip(found, killed, strict=True) if mutant.module == module]
        print(f"| `privacy/{module}.py` | {len(own)} | {sum(own)} |")


if __name__ == "__main__":
    main()
