"""Shared by the tests of commands: a command as a user types it, in this process."""

from __future__ import annotations

import contextlib
import io
import json
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

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object on stdout."""
        return json.loads(self.stdout)

    @property
    def words(self) -> str:
        """All that was written, with one blank wherever lines or columns break."""
        return " ".join((self.stdout + self.stderr).replace("│", " ").split())


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


def caribou(*arguments: Any, code: int = 0, cwd: Path | None = None) -> Done:
    """The same, ended with ``code``; bad input is one line at the end of stderr, and nothing on stdout."""
    done = run(*arguments, cwd=cwd)
    assert done.returncode == code, done
    if code == 2:
        *_, last = done.stderr.splitlines()
        assert last.startswith("error: ")
        assert done.stderr.count("error: ") == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
    return done


def refusal(*arguments: Any, cwd: Path | None = None) -> str:
    """Why a command refuses bad input."""
    return caribou(*arguments, code=2, cwd=cwd).stderr.splitlines()[-1].removeprefix("error: ")
