"""``caribou datasets``: every data set with its statistics, as a table or as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from cli_support import run


def test_datasets_lists_everything(tmp_path: Path) -> None:
    done = run("datasets", "--json")
    assert done.returncode == 0, done.stderr
    names = {entry["name"]: entry for entry in json.loads(done.stdout)["datasets"]}
    assert names.keys() >= {
        "chain-s",
        "chain-m",
        "chain-l",
        "chain-x",
        "csbm",
        "cora",
        "citeseer",
        "pubmed",
        "photo",
        "computers",
        "facebook",
        "reddit2",
        "arxiv",
    }
    assert names["cora"]["nodes"] == 2708
    assert run("datasets").returncode == 0
    missing = run("datasets", "--data-dir", str(tmp_path / "none"))
    assert missing.returncode == 2
    assert missing.stderr.startswith("error: ")
