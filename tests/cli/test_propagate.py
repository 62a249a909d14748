"""``caribou propagate`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from caribou.cli import app
from caribou.cli.propagate import parse_size
from caribou.errors import DataError, InputError
from caribou.privacy.certificate import Certificate
from caribou.privacy.ledger import Ledger
from caribou.privacy.verify import verify


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "edges.npy", rng.integers(0, 300, (900, 2)))
    np.save(tmp_path / "x.npy", rng.standard_normal((300, 6)))
    return tmp_path


def propagate(files: Path, *options: str) -> str:
    base = ["propagate", "--edges", str(files / "edges.npy"), "--features", str(files / "x.npy"), "--workers", "1"]
    result = CliRunner().invoke(app, [*base, *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    "options",
    [
        ("--degree-floor", "10", "--beta", "0.2", "--alpha1", "0.9"),
        ("--unit", "node", "--degree-cap", "5", "--engine", "outofcore", "--memory", "1GB"),
    ],
)
def test_release_and_certificate_lie_side_by_side(files: Path, options: tuple[str, ...]) -> None:
    out, ledger = files / "embeddings.parquet", files / "ledger.sqlite"
    said = propagate(files, *options, "--epsilon", "2", "--out", str(out), "--ledger", str(ledger), "--name", "people")
    assert "epsilon = 2, delta = 1e-05" in said
    assert "rounding adds" in said
    certificate = Certificate.load(files / "embeddings.certificate.json")
    assert verify(certificate).passed
    (entry,) = Ledger(ledger).entries("people")
    assert entry.certificate_id == certificate.certificate_id
    assert out.exists()


def test_the_ledger_of_the_environment_is_used(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARIBOU_LEDGER", str(files / "l.sqlite"))
    propagate(files, "--epsilon", "2", "--degree-floor", "10", "--out", str(files / "e.npy"), "--name", "people")
    assert len(Ledger(files / "l.sqlite", create=False).entries("people")) == 1


def test_a_refused_release_leaves_nothing_behind(files: Path) -> None:
    np.save(files / "edges.npy", np.array([[0, 1], [2, 300], [3, 4]]))
    before = set(files.iterdir())
    words = ["--out", str(files / "e.npy"), "--degree-floor", "10", "--ledger", str(files / "l.sqlite")]
    base = ["propagate", "--edges", str(files / "edges.npy"), "--features", str(files / "x.npy"), "--workers", "1"]
    result = CliRunner().invoke(app, [*base, *words])
    assert isinstance(result.exception, DataError)
    assert "edges.npy: row 1 (from 0): edges must be node numbers in [0, 300)" in str(result.exception)
    assert set(files.iterdir()) == before


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_an_empty_edge_table_is_warned_of_on_stderr_alone(
    files: Path, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    edges, out = files / f"none.{ending}", files / "e.npy"
    if ending == "npy":
        np.save(edges, np.empty((0, 2), dtype=np.int64))
    else:
        pd.DataFrame({"source": [], "target": []}, dtype=np.int64).to_parquet(edges)
    words = ["--edges", str(edges), "--features", str(files / "x.npy"), "--degree-floor", "10", "--out", str(out)]
    result = CliRunner().invoke(app, ["propagate", *words, "--workers", "1", "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith(f"warning: {edges} holds no edges")
    assert np.load(out).shape == (300, 6)
    elsewhere = result.stdout + caplog.text + (files / "e.certificate.json").read_text()
    assert "no edges" not in elsewhere
    assert "none." not in elsewhere, "the name of the file may tell, too"


def test_json_and_discard(files: Path) -> None:
    out = str(files / "out.npy")
    document = json.loads(propagate(files, "--degree-floor", "10", "--hops", "2", "--out", out, "--json"))
    assert document["resumed_at_round"] is None
    assert document["certificate"]["public_parameters"]["hops"] == 2
    assert "nothing to remove" in propagate(files, "--out", out, "--discard")


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GB", 4 * 10**9), ("1.5 GiB", 1610612736), ("800M", 8 * 10**8), ("123", 123), ("2kb", 2000)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "4 apples", "-1GB", "1e9"])
def test_bad_sizes_are_named(text: str) -> None:
    with pytest.raises(InputError, match="memory must be a size"):
        parse_size(text)
