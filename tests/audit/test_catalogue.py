"""The catalogue of attacks: it says what the attacks do, and is read without torch."""

from __future__ import annotations

import os
import subprocess
import sys

from caribou.audit.attack import Terms
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.auditor import ATTACKS
from caribou.audit.catalogue import CATALOGUE, COLUMNS, Promise
from caribou.methods.mlp import MlpDp
from caribou.privacy.budget import Budget


def test_it_says_what_the_attacks_do() -> None:
    assert list(CATALOGUE) == list(ATTACKS)
    audited = AuditedMethod("mine", MlpDp(), Budget(4.0, 1e-5, "node"))
    for name, entry in CATALOGUE.items():
        attack = ATTACKS[name]
        assert attack.facts is entry
        assert bool(attack.games(audited)) == (entry.promise is Promise.CLAIM)
        assert len(entry.cells(name)) == len(COLUMNS)
        if entry.needs_graph:
            fits = attack.forecast(audited, Terms()).fits - (audited.claim_fits if entry.rejects else 0)
            assert entry.runs == f"{fits} fits", name


def test_the_command_lists_it_without_torch() -> None:
    code = "import sys; from caribou.cli import app; app(['audit', '--list'], standalone_mode=False); "
    code += "assert 'torch' not in sys.modules"
    environment = {**os.environ, "COLUMNS": "400"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    for name, entry in CATALOGUE.items():
        block = lines[lines.index(name) + 1 : lines.index(name) + len(COLUMNS)]
        for line, label, cell in zip(block, COLUMNS[1:], entry.cells(name)[1:], strict=True):
            assert line.startswith(label)
            assert line.endswith(cell)
