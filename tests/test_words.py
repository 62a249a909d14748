"""Retired words stay retired: code and pages use the words of the field (docs/decisions/0073-words-of-the-field.md)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXTS = (".py", ".c", ".html", ".js", ".md", ".svg", ".yml", ".toml")

RETIRED = {
    "ballots?": "CountQuery",
    "vote_?box": "NoisyCounts",
    "(class Roll|roll of (senders|voters|nodes))": "QueryOnceGuard",
    "elect(s|ed|ing|ions?)?": "run_rounds, votes",
    "waves?": "round",
    "(booked|bookings?|books)": "charge, LedgerEntry",
    "receipts?": "LedgerEntry",
    "class Standing": "Balance",
    "coins?": "public seed, private randomness, draw",
    "convict(s|ed|ing|ions?)?": "reject",
    "guilty": "rejected",
    "acquit(s|ted|ting|tals?)?": "accept",
    "museums?": "known_bad_mechanisms",
    "exhibits?": "known bad mechanism",
    "(turned noise|class Tape|coupling)": "noise replay",
    "(two.sided.geometric|geometric noise|noise.{1,4}geometric)": "discrete Laplace",
    "unit_clips": "sensitivity_multiple",
    "most_rows": "max_rows",
    "FEWEST_[A-Z]+": "MIN_",
    "release_cost": "plan_graph",
    r"Ledger\.spend": "Ledger.charge",
    r"ledger\.releases": "Ledger.entries",
}
RETIRED_NAMES = {
    "said": "sent",
    "heard": "received",
    "judges": "calibration_nodes",
    "beside": "extra_params",
    "is_free": "data_independent",
    "views": "transcripts",
    "separation": "discriminant",
}
OWN = "test_words.py"
ORDINARY = {
    # names of random streams: another name would draw other numbers
    "coins?": ("src/caribou/audit/lira.py", "src/caribou/audit/onerun.py"),
}


def found(text: str) -> Iterator[tuple[str, str]]:
    """The patterns that occur in a text as words or as parts of a name, with the place."""
    for pattern in RETIRED:
        for match in re.finditer(rf"(?<![A-Za-z])({pattern})(?![A-Za-z])", text, re.IGNORECASE):
            yield pattern, f"line {text.count(chr(10), 0, match.start()) + 1}: {match[0]}"


def texts() -> Iterator[Path]:
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "mkdocs.yml"))
    for folder in ("src", "docs", "scripts", "tests", "reproduction", "examples", "benchmarks"):
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in TEXTS and path.name != OWN)


def names_in(path: Path) -> Iterator[tuple[str, int]]:
    """What the code of a file calls things: functions, classes, arguments, variables and attributes, with the line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for field in ("name", "arg", "id", "attr"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield name.strip("_"), getattr(node, "lineno", 0)


def problems(path: Path, text: str) -> list[str]:
    name = path.relative_to(ROOT).as_posix()
    return [
        f"{name}, {place}; use {RETIRED[pattern]}"
        for pattern, place in found(text)
        if name not in ORDINARY.get(pattern, ())
    ]


def test_code_pages_and_help_use_no_retired_word() -> None:
    wrong = [line for path in texts() for line in problems(path, path.read_text(encoding="utf-8"))]
    assert not wrong, "\n".join(wrong)


def test_nothing_has_a_retired_name() -> None:
    """Words that are good English, but were names of other things."""
    files = [path for path in sorted((ROOT / "src").rglob("*.py")) if path.parent.name != "audit"]
    found = [(path, name, line) for path in files for name, line in names_in(path) if name in RETIRED_NAMES]
    assert not found, "\n".join(
        f"{p.relative_to(ROOT)}:{line}: {name}; use {RETIRED_NAMES[name]}" for p, name, line in found
    )


def test_a_retired_word_is_found() -> None:
    for text in [
        "the cost is booked before noise is drawn",
        "BallotBox = None  # ballot",
        "class VoteBox:",
        "test_public_coins_leave_the_noise_as_it_is",
        "a leak is convicted",
        "max_waves",
        "Geometric noise on a count",
        'noise="geometric"',
        "FEWEST_RUNS",
    ]:
        assert list(found(text))
