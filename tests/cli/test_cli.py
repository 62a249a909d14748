"""The console entry: exit codes, one line per error, and the commands that a fresh process must survive."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import caribou as cb
from caribou.cli import in_shell_words
from cli_support import run

CARIBOU = Path(sys.executable).with_name("caribou")


def test_version_help_and_errors_of_usage() -> None:
    assert run("--version").stdout == f"caribou {cb.__version__}\n"
    shown = run()
    assert (shown.returncode, shown.stderr) == (2, "")
    assert "Private graph learning" in shown.stdout
    for words, message in (
        (("fly",), "No such command 'fly'"),
        (("plan", "--epsilon", "four"), "Invalid value for '--epsilon'"),
        (("plan", "--epsilon=four"), "got 'four'"),
        (("train",), "Missing argument 'method'"),
    ):
        done = run(*words)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ")
        assert done.stderr.count("\n") == 1
        assert message in done.stderr


def test_the_installed_command_survives_a_closed_pipe() -> None:
    piped = subprocess.run(
        f"{CARIBOU} plan --json | head -c 1", shell=True, capture_output=True, text=True, check=False
    )
    assert piped.stdout == "{"
    assert "Traceback" not in piped.stderr


@pytest.mark.parametrize(
    ("typed", "said", "meant"),
    [
        ("train", "hops must be a whole number >= 1, got 0", "hops must be a whole number >= 1, got 0"),
        ("train", "epsilon must be > 0, got 0", "epsilon must be > 0, got 0 (--epsilon)"),
        ("train", "setting must be one of a, b, got c", "setting must be one of a, b, got c (--set)"),
        ("extend", "ask once, or charge a release (spend=True)", "ask once, or charge a release (--spend)"),
        ("train", "leave out, ColumnRules(ignore=['a', 'b c']), or", "leave out, --ignore a --ignore 'b c', or"),
        ("predict", "call model.release(graph, ledger=...)", "call --release --ledger LEDGER"),
        ("verify", "or charge a release (spend=True)", "or charge a release (spend=True)"),
    ],
)
def test_errors_of_the_library_speak_of_the_options_that_were_typed(
    typed: str, said: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["caribou", typed])
    assert in_shell_words(said) == meant
