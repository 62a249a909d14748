"""``caribou inspect`` on dirty tables, every flag, and a list of bad inputs: each is one line, and nothing is left behind."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

import caribou as cb
from cli_support import caribou, refusal
from table_support import MENDED, RULE_FLAGS, RULES, bank, dirty, written


def test_a_dirty_table_is_told_at_once_and_mended_by_its_flags(tmp_path: Path) -> None:
    files = written(tmp_path, dirty())
    document = caribou("inspect", *files, "--json", code=1).document
    assert not document["readable"]
    assert {problem["problem"] for problem in document["problems"]} == {
        *(
            "unknown ids",
            "empty cells",
            "text column",
            "date column",
            "words among numbers",
            "numbers that are not finite",
        ),
        *("words that look like no label", "split words"),
    }
    table = caribou("inspect", *files, code=1)
    for words in ("--drop-unknown-ids", "these flags together", "do not publish", "readable"):
        assert words in table.stdout
    assert refusal("train", "mlp", *files, "--out", tmp_path / "run").startswith(
        "tables must be mended in 10 places: (1) "
    )
    document = caribou("inspect", *files, *MENDED, "--json").document
    assert document["readable"]
    assert document["class_counts"] == {"fraud": 9, "ok": 19}
    assert document["unlabelled"] == 12
    assert "segment=business" in document["features"]
    assert "city" not in document["features"]


def test_a_run_reads_the_next_month_by_its_own_rules(tmp_path: Path) -> None:
    files = written(tmp_path, bank())
    trained = caribou("train", "mlp-dp", *files, *RULE_FLAGS, "--classes", "fraud,ok", "--out", tmp_path / "run")
    assert "fraud 10, ok 20, without a label 10" in trained.stdout
    edges, nodes = bank()
    later = pd.concat([nodes, nodes.assign(id=[f"b{k}" for k in range(len(nodes))], segment="student")])
    later = later.drop(columns=["opened"])  # an ignored column may go
    (tmp_path / "later").mkdir()
    month = written(tmp_path / "later", (edges, later.sample(frac=1, random_state=2)))
    caribou("predict", tmp_path / "run", *month, "--release", "--out", tmp_path / "p.csv")
    assert len(pd.read_csv(tmp_path / "p.csv")) == 80
    read_by = cb.load(tmp_path / "run").column_rules
    cb.write_graph(cb.read_graph(month[1], month[3], rules=read_by, classes=["fraud", "ok"]), tmp_path / "later.npz")
    later_file = ("--graph", tmp_path / "later.npz")
    caribou("predict", tmp_path / "run", *later_file, "--release", "--out", tmp_path / "q.csv")
    first, second = (pd.read_csv(tmp_path / name)["probability"] for name in ("p.csv", "q.csv"))
    assert first.tolist() == second.tolist(), "a file of arrays is read as it is"
    other = refusal("predict", tmp_path / "run", *month, "--range", "age=0:10", "--out", tmp_path / "r.csv")
    assert "rules of column 'age' must be those of the run" in other
    rules = json.loads((tmp_path / "run" / "certificate.json").read_text())["public_parameters"]["column_rules"]
    assert rules == {**RULES.to_dict(), "ignored": ["opened"]}
    assert cb.load(tmp_path / "run").column_rules == RULES
    audited = refusal("audit", tmp_path / "run", *files, "--attack", "lira", "--runs", "0")
    assert "tables" not in audited, "the tables are read by the rules of the run"


def refused(arguments: tuple, message: str, folder: Path) -> None:
    """One line that says what is expected and names a flag; no run, no ledger, no other file."""
    before = sorted(folder.rglob("*"))
    said = refusal(*arguments, "--out", folder / "run", "--ledger", folder / "l.sqlite")
    assert "--" in said, "a flag mends it, or names the file that must be mended"
    assert re.search(message, said), said
    assert sorted(folder.rglob("*")) == before


BAD_FLAGS: list[tuple[tuple[str, ...], str]] = [
    (("--range", "age=0:1", "--range", "age=0:2"), r"range must be given once for a column, got 'age' twice \(--range\)"),
    (("--fill", "age=mean"), r"fill of a numeric column must be a number or indicator, got 'mean' for 'age' \(--fill age=0"),
    (("--column", "colour=x"), r"column must be ROLE=TITLE with a role of id, label, split, source, target, got 'colour=x'"),
    (("--classes", "a"), r"classes must be at least 2, got 1"),
    (("--encoding", "klingon"), r"encoding must be one that Python knows, got 'klingon' \(--encoding latin-1"),
    (("--nodes", "nowhere.csv"), r"nowhere.csv: file not found \(--nodes\)"),
    (("--set", "nosuch=1"), r"setting must be one of .*, got nosuch \(--set\)"),
    ((), r"mended in 7 places: .*--drop-unknown-ids.*--fill income=indicator.*--range age=LOW:HIGH.*--classes"),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "message"), BAD_FLAGS, ids=[" ".join(flags) for flags, _ in BAD_FLAGS])
def test_a_bad_flag_is_one_line_and_leaves_nothing(flags: tuple[str, ...], message: str, tmp_path: Path) -> None:
    refused(("train", "mlp-dp", *written(tmp_path, bank()), *flags), message, tmp_path)
