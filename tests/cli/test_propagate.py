"""``caribou propagate`` from the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caribou.model.verify import verify
from caribou.privacy.certificate import Certificate
from caribou.privacy.ledger import Ledger
from cli_support import caribou, refusal


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "edges.npy", rng.integers(0, 300, (900, 2)))
    np.save(tmp_path / "x.npy", rng.standard_normal((300, 6)))
    return tmp_path


def command(files: Path, *options: object) -> tuple[object, ...]:
    return "propagate", "--edges", files / "edges.npy", "--features", files / "x.npy", "--workers", 1, *options


@pytest.mark.parametrize(
    "options",
    [
        ("--degree-floor", "10", "--beta", "0.2", "--alpha1", "0.9"),
        ("--unit", "node", "--degree-cap", "5", "--engine", "outofcore", "--memory", "1GB"),
    ],
)
def test_release_and_certificate_lie_side_by_side(files: Path, options: tuple[str, ...]) -> None:
    out, ledger = files / "embeddings.parquet", files / "ledger.sqlite"
    where = ("--out", out, "--ledger", ledger, "--name", "people")
    said = caribou(*command(files, *options, "--epsilon", 2, *where)).stdout
    assert "epsilon = 2, delta = 1e-05" in said
    assert "rounding adds" in said
    certificate = Certificate.load(files / "embeddings.certificate.json")
    assert verify(certificate).passed
    (entry,) = Ledger(ledger).entries("people")
    assert entry.certificate_id == certificate.certificate_id
    assert out.exists()


def test_a_refused_release_leaves_nothing_behind(files: Path) -> None:
    np.save(files / "edges.npy", np.array([[0, 1], [2, 300], [3, 4]]))
    before = set(files.iterdir())
    words = ("--out", files / "e.npy", "--degree-floor", 10, "--ledger", files / "l.sqlite")
    rule = "edges.npy: row 1 (from 0): edges must be node numbers in [0, 300)"
    assert rule in refusal(*command(files, *words))
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
    words = ("--edges", edges, "--features", files / "x.npy", "--degree-floor", 10, "--out", out)
    result = caribou("propagate", *words, "--workers", 1, "--json")
    assert result.stderr.startswith(f"warning: {edges} holds no edges")
    assert np.load(out).shape == (300, 6)
    elsewhere = result.stdout + caplog.text + (files / "e.certificate.json").read_text()
    assert "no edges" not in elsewhere
    assert "none." not in elsewhere, "the name of the file may tell, too"


# -- tables, ids, queries and addresses -----------------------------------------------------------------------------------


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    (tmp_path / "accounts.csv").write_text("account,segment,a,b\nann,x,1,0\nbob,y,0,1\n07,x,0.5,0.5\n")
    (tmp_path / "transfers.csv").write_text("day,sender,receiver\n1,ann,bob\n2,bob,07\n3,bob,7\n")
    return tmp_path


TITLES = [word for role in ("id=account", "source=sender", "target=receiver") for word in ("--column", role)]


SMALL = ("--workers", 1, "--degree-floor", 2)


def refused(*words: object) -> str:
    return refusal("propagate", *words, *SMALL)


def test_ids_of_tables_are_in_the_result(bank: Path) -> None:
    out = bank / "e.parquet"
    words = ["--edges", str(bank / "transfers.csv"), "--features", str(bank / "accounts.csv"), *TITLES]
    words += ["--ignore", "segment", "--out", str(out)]
    assert refused(*words) == (
        f"{bank}/transfers.csv: row 3: column 'receiver' must hold an id of the node table, got '7'; give --drop-unknown-ids"
    )
    assert not list(bank.glob(".*"))
    caribou("propagate", *words, "--drop-unknown-ids", *SMALL)
    frame = pd.read_parquet(out)
    assert frame["node"].tolist() == ["ann", "bob", "07"]
    assert list(frame.columns) == ["node", "x0", "x1"]


def test_queries_instead_of_files(bank: Path) -> None:
    out = bank / "e.parquet"
    nodes = f"SELECT account AS id, a, b FROM read_csv('{bank}/accounts.csv', all_varchar=true)"
    nodes = nodes.replace("a, b", "a::double AS a, b::double AS b")
    words = ["--sql-nodes", nodes, "--out", str(out)]
    words += [
        "--sql-edges",
        f"SELECT sender, receiver FROM read_csv('{bank}/transfers.csv', all_varchar=true) WHERE day != '3'",
    ]
    caribou("propagate", *words, *SMALL)
    assert pd.read_parquet(out)["node"].tolist() == ["ann", "bob", "07"]
    assert refused(*words, "--edges", "x.npy") == "give either --edges FILE or --sql-edges SELECT, got both"
    assert (
        refused("--edges", "x.npy", "--out", str(out))
        == "give either --features FILE or --sql-nodes SELECT, got neither"
    )


def test_an_address_with_a_key_is_refused_and_shown_nowhere(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    for address in ("s3://AKIA:hunter2@bank/edges", "s3://bank/edges.csv?secret_key=hunter2"):
        words = ["--edges", address, "--features", str(files / "x.npy"), "--out", str(files / "e.npy")]
        assert "hunter2" not in refusal("propagate", *words) + caplog.text
    assert {path.name for path in files.iterdir()} == {"edges.npy", "x.npy"}
