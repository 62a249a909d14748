"""How many cases hold each promise: the tables of docs/testing.md, counted from the tests that exist. `make test-counts`.

A case is what pytest collects. Whatever a case tries in loops of its own is counted apart, where it can be.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "testing.md"
BEGIN, END = "<!-- counts: made by scripts/test_counts.py -->", "<!-- end of counts -->"
PROMISES = {
    "The bound on what one edge or one person changes holds for every graph": ("privacy/test_sensitivity.py", "layers"),
    "The noise is what the bound asks for, and never less": (
        *("privacy/test_calibration.py", "privacy/test_accounting.py", "privacy/test_allocation.py"),
        *("privacy/test_arithmetic.py", "privacy/test_selection.py"),
    ),
    "Noise has the stated distribution, under a key that nobody keeps": (
        *("mechanisms/test_samplers.py", "mechanisms/test_uniform_reals.py", "mechanisms/test_noise_source.py"),
        "test_randomness.py",
    ),
    "A release shows no more than its certificate says": ("mechanisms", "methods/test_transcripts.py", "audit"),
    "A certificate says no more than its figures, and an edited one fails": (
        *("privacy/test_verify.py", "privacy/test_certificate.py", "privacy/test_mechanism_records.py"),
        "privacy/test_signature.py",
    ),
    "Nothing is drawn before it is paid for, and the ledger forgets nothing": (
        *("test_release.py", "privacy/test_ledger.py", "privacy/test_ledger_file.py", "privacy/test_filters.py"),
    ),
    "An odd graph or setting is one sentence, before anything is charged": (
        *("methods/test_contract.py", "methods/test_fuzz.py", "test_failures.py", "test_validate.py"),
    ),
    "Files and queries of others can neither run code nor write": (
        *("datasets/test_fuzz.py", "datasets/test_npz.py", "datasets/test_public.py", "tables/test_queries.py"),
    ),
    "Nothing is half-written, paid twice or lost where a call fails or the process dies": ("test_faults.py",),
    "Every engine gives the same bytes, also after a failure": ("engines",),
    "A saved run holds what was released, whole or not at all": ("model", "cli/test_spool.py"),
}
"""Promises, and the tests that hold them."""


def collected() -> Counter[str]:
    """Cases by file."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return Counter(line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line)


def faults() -> dict[str, int]:
    """What the tests of faults injected, by what was under way; they are run for it."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-n", "0", "tests/test_faults.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = re.findall(r"^\.?faults injected into (.+): (\d+)$", done.stdout, flags=re.MULTILINE)
    return {f"faults injected into {what}": int(count) for what, count in found}


def properties() -> tuple[int, int]:
    """Tests for any input, and how many inputs they try."""
    tests = inputs = 0
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                marks = " ".join(map(ast.unparse, node.decorator_list))
                if re.search(r"(^|\s)given\(", marks):
                    tests += 1
                    found = re.search(r"max_examples=(\d+)", marks)
                    inputs += int(found[1]) if found else 100
    return tests, inputs


def counted() -> dict[str, int]:
    """What cases try in loops of their own, where it can be counted."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts"), str(ROOT)]
    attack, layers = importlib.import_module("attack_support"), importlib.import_module("layer_attacks")
    families, mutants = importlib.import_module("graph_families"), importlib.import_module("mutants")
    bad = importlib.import_module("audit.test_known_bad_mechanisms").KNOWN_BAD
    writes = importlib.import_module("tables.test_queries").WRITES
    fits = importlib.import_module("methods.test_fuzz").FITS
    tests, inputs = properties()
    return {
        "neighbouring graphs, one edge apart: all with up to five nodes": len(
            list(attack.small_graphs_one_edge_apart())
        ),
        "neighbouring graphs, one edge apart: these and the structured ones, up to 60 nodes": len(layers.edge_pairs()),
        "neighbouring graphs, one node apart: all with up to five nodes": sum(map(len, families.small_graphs())),
        "broken mechanisms that the auditor must reject": len(bad),
        "ways to write that no query may have, on each of four databases": len(writes),
        "fits of odd graphs in the suite (more: CARIBOU_FUZZ_FITS)": fits,
        f"inputs of {tests} property tests": inputs,
        **faults(),
        "mutants that make mutants tries": len(list(mutants.mutants(ROOT / "src" / "caribou", mutants.MODULES))),
    }


def tables() -> str:
    """Both tables in Markdown."""
    cases = collected()

    def held(part: str) -> int:
        return sum(count for file, count in cases.items() if f"{file}/".startswith(f"tests/{part}/"))

    rows = []
    for promise, parts in PROMISES.items():
        empty = [part for part in parts if not held(part)]
        if empty:
            raise SystemExit(f"promise must be held by tests that exist, got {', '.join(empty)} for {promise!r}")
        names = ", ".join(f"`{part}`" for part in parts)
        rows.append(f"| {promise} | {names} | {sum(map(held, parts)):,} |")
    others = [f"| {what} | {count:,} |" for what, count in counted().items()]
    return "\n".join(
        [
            *("| promise | held by, in `tests/` | cases |", "|---|---|---:|", *rows),
            *(f"| all of the suite | | {cases.total():,} |", ""),
            *("| tried inside the cases, or beside them | number |", "|---|---:|", *others),
        ]
    )


def main() -> None:
    """Write the tables into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
