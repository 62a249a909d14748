"""``caribou datasets``: every data set with its statistics, as a table or as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from caribou.datasets import available
from cli_support import run


def test_datasets_lists_everything(tmp_path: Path) -> None:
    done = run("datasets", "--json")
    assert done.returncode == 0, done.stderr
    names = {entry["name"]: entry for entry in json.loads(done.stdout)["datasets"]}
    assert list(names) == [info.name for info in available()]
    assert names["cora"]["nodes"] == 2708
    assert run("datasets").returncode == 0
    missing = run("datasets", "--data-dir", str(tmp_path / "none"))
    assert missing.returncode == 2
    assert missing.stderr.startswith("error: ")


def test_write_makes_the_tables_of_a_bank_and_overwrites_nothing(tmp_path: Path) -> None:
    done = run("datasets", "write", "fraud", str(tmp_path / "bank"), "--month", "1", "--seed", "3")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "bank").iterdir()) == ["accounts.csv", "transfers.csv"]
    again = run("datasets", "write", "fraud", str(tmp_path / "bank"))
    assert again.returncode == 2
    assert again.stderr == f"error: folder must not hold transfers.csv yet, got '{tmp_path / 'bank'}'\n"
    unknown = run("datasets", "write", "cora", str(tmp_path / "other"))
    assert unknown.returncode == 2
    assert not (tmp_path / "other").exists()
