"""Shared by the tests of the ledger: one on the disk with simple arithmetic, and scripts that use it in other processes."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from caribou.privacy import accounting
from caribou.privacy import ledger as ledger_module
from caribou.privacy.events import EpsilonDelta, Event, NonPrivate
from caribou.privacy.ledger import Ledger

NOON = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)


def additive(events: Sequence[Event], delta: float) -> float:
    """Basic composition of EpsilonDelta events: exact in tests with powers of two, and quick."""
    if any(isinstance(event, NonPrivate) for event in events) or sum(event.delta for event in events) > delta:
        return math.inf
    return float(sum(event.epsilon for event in events))


@pytest.fixture
def basic(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ledger_module._epsilon.cache_clear()
    monkeypatch.setattr(accounting, "epsilon_of", additive)
    yield
    ledger_module._epsilon.cache_clear()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path, basic: None) -> Ledger:
    return Ledger(path, clock=lambda: NOON)


def pure(epsilon: float) -> list[Event]:
    return [EpsilonDelta(epsilon)]


PREAMBLE = """
import os, signal, sqlite3, sys, time
from pathlib import Path
from caribou.errors import BudgetExceeded, LedgerError
from caribou.privacy import accounting
from caribou.privacy.budget import Budget
from caribou.privacy.events import EpsilonDelta
from caribou.privacy.ledger import Ledger
from caribou.privacy.ledger_file import LedgerFile
accounting.epsilon_of = lambda events, delta: float(sum(event.epsilon for event in events))
def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PREAMBLE + textwrap.dedent(script), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(script: str, *arguments: object, code: int = 0) -> list[str]:
    process = start(script, *arguments)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    return output.splitlines()
