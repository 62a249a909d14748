"""Shared by the tests of commands: a command as a user types it, in this process."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from caribou.cli import main


@dataclass(frozen=True)
class Done:
    """What a command left behind: exit code and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: Any, cwd: Path | None = None) -> Done:
    """``caribou ARGUMENTS`` through the console entry; a fresh process is started only where it is the point of a test."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["caribou", *map(str, arguments)])
        if cwd is not None:
            patch.chdir(cwd)
        with pytest.raises(SystemExit) as stop:
            main()
    return Done(int(stop.value.code or 0), out.getvalue(), err.getvalue())
