"""The console entry: exit codes, one line per error, and the commands that a fresh process must survive."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import caribou as cb
from caribou.cli import in_shell_words
from cli_support import run

CARIBOU = Path(sys.executable).with_name("caribou")


def test_verify_accepts_the_honest_and_refuses_the_tampered(tmp_path: Path) -> None:
    graph = cb.datasets.load("csbm:nodes=80", seed=2)
    layer, bounds = cb.ContractiveGraphLayer(0.8), cb.Bounds(degree_floor=5)
    certificate = cb.release(graph, layer, hops=3, budget=cb.Budget(2), bounds=bounds).certificate
    path = tmp_path / "certificate.json"
    certificate.save(path)
    done = run("verify", str(path))
    assert done.returncode == 0, done.stdout
    assert "verified" in done.stdout
    document = json.loads(run("verify", str(path), "--json").stdout)
    assert document["verified"] is True
    assert document["epsilon_pld"] == pytest.approx(2.0, abs=2e-3)

    record = json.loads(path.read_text())
    record["epsilon"] = record["epsilon_spent"] = 1.0
    path.write_text(json.dumps(record))
    done = run("verify", str(path))
    assert done.returncode == 3
    assert "NOT VERIFIED" in done.stdout
    assert json.loads(run("verify", str(path), "--json").stdout)["verified"] is False

    void = cb.release(graph, layer, hops=3, budget=cb.Budget(2), bounds=bounds, noise=cb.NoiseSource.seeded(1))
    void.certificate.save(path)
    assert run("verify", str(path)).returncode == 3
    path.write_text("{")
    done = run("verify", str(path))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")


def test_ledger_from_the_outside(tmp_path: Path) -> None:
    assert run("ledger", "show", cwd=tmp_path).returncode == 2
    assert list(tmp_path.iterdir()) == []
    assert run("ledger", "budget", "survey", "--epsilon", "2", "--unit", "edge", cwd=tmp_path).returncode == 0
    added = run("ledger", "add", "survey", "--epsilon", "1.5", "--unit", "edge", cwd=tmp_path)
    assert added.returncode == 0, added.stderr
    refused = run("ledger", "add", "survey", "--epsilon", "1.5", "--unit", "edge", cwd=tmp_path)
    assert refused.returncode == 2
    assert "survey" in refused.stderr
    shown = json.loads(run("ledger", "show", "--json", cwd=tmp_path).stdout)
    entry, nodes = shown["datasets"]
    assert (entry["name"], entry["unit"], nodes["unit"], nodes["epsilon_spent"]) == ("survey", "edge", "node", "inf")
    assert entry["releases"] == 1
    assert entry["epsilon_spent"] == pytest.approx(1.5, abs=1e-3)
    assert entry["epsilon_budget"] == 2


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
