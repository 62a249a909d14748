"""``caribou inspect`` on dirty tables, every flag, and a list of bad inputs: each is one line, and nothing is left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import caribou as cb
from cli_support import run
from table_support import MENDED, RULES, bank, dirty, written


def test_a_dirty_table_is_told_at_once_and_mended_by_its_flags(tmp_path: Path) -> None:
    files = written(tmp_path, dirty())
    found = run("inspect", *files, "--json")
    assert found.returncode == 1
    document = json.loads(found.stdout)
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
    table = run("inspect", *files)
    assert table.returncode == 1
    for words in ("--drop-unknown-ids", "these flags together", "do not publish", "readable"):
        assert words in table.stdout
    refused = run("train", "mlp", *files, "--out", tmp_path / "run")
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith("error: tables must be mended in 10 places: (1) ")
    mended = run("inspect", *files, *MENDED, "--json")
    assert mended.returncode == 0, mended.stdout
    document = json.loads(mended.stdout)
    assert document["readable"]
    assert document["class_counts"] == {"fraud": 9, "ok": 19}
    assert document["unlabelled"] == 12
    assert "segment=business" in document["features"]
    assert "city" not in document["features"]


def test_node_level_asks_for_more(tmp_path: Path) -> None:
    files = written(tmp_path, bank())
    flags = (
        "--unknown",
        "unknown",
        "--drop-unknown-ids",
        "--ignore",
        "opened",
        "--category",
        "segment",
        "--fill",
        "*=indicator",
    )
    assert run("inspect", *files, *flags).returncode == 0
    more = json.loads(run("inspect", *files, *flags, "--unit", "node", "--json").stdout)
    assert [problem["problem"] for problem in more["problems"]] == ["undeclared at node level"] * 3
    declared = ("--range", "age=18:95", "--log", "income=0:100000", "--classes", "fraud,ok")
    whole = [*flags[:5], "--category", "segment=business,private", *flags[7:], *declared]
    assert run("inspect", *files, *whole, "--unit", "node").returncode == 0


def test_a_run_reads_the_next_month_by_its_own_rules(tmp_path: Path) -> None:
    files = written(tmp_path, bank())
    trained = run("train", "mlp-dp", *files, *RULES.flags(), "--classes", "fraud,ok", "--out", tmp_path / "run")
    assert trained.returncode == 0, trained.stderr
    assert "fraud 10, ok 20, without a label 10" in trained.stdout
    edges, nodes = bank()
    later = pd.concat([nodes, nodes.assign(id=[f"b{k}" for k in range(len(nodes))], segment="student")])
    later = later.drop(columns=["opened"])  # an ignored column may go
    (tmp_path / "later").mkdir()
    month = written(tmp_path / "later", (edges, later.sample(frac=1, random_state=2)))
    done = run("predict", tmp_path / "run", *month, "--release", "--out", tmp_path / "p.csv")
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tmp_path / "p.csv")) == 80
    read_by = cb.load(tmp_path / "run").column_rules
    cb.write_graph(cb.read_graph(month[1], month[3], rules=read_by, classes=["fraud", "ok"]), tmp_path / "later.npz")
    arrays = run(
        "predict", tmp_path / "run", "--graph", tmp_path / "later.npz", "--release", "--out", tmp_path / "q.csv"
    )
    assert arrays.returncode == 0, arrays.stderr
    first, second = (pd.read_csv(tmp_path / name)["probability"] for name in ("p.csv", "q.csv"))
    assert first.tolist() == second.tolist(), "a file of arrays is read as it is"
    other = run("predict", tmp_path / "run", *month, "--range", "age=0:10", "--out", tmp_path / "r.csv")
    assert other.returncode == 2
    assert "rules of column 'age' must be those of the run" in other.stderr
    rules = json.loads((tmp_path / "run" / "certificate.json").read_text())["public_parameters"]["column_rules"]
    assert rules == {**RULES.to_dict(), "ignored": ["opened"]}
    assert cb.load(tmp_path / "run").column_rules == RULES
    audited = run("audit", tmp_path / "run", *files, "--attack", "lira", "--runs", "0")
    assert audited.returncode == 2
    assert "tables" not in audited.stderr, "the tables are read by the rules of the run"


def test_other_files_are_shown_with_their_notes(tmp_path: Path) -> None:
    cb.write_graph(cb.datasets.load("csbm:nodes=40"), tmp_path / "g.npz")
    found = json.loads(run("inspect", "--graph", tmp_path / "g.npz", "--json").stdout)
    assert (found["readable"], found["nodes"]) == (True, 40)


FLAGS = [flag for flag in RULES.flags() if flag != "--drop-unknown-ids"]


def refused(arguments: tuple, message: str, folder: Path) -> None:
    """One line on stderr that begins with ``error:`` and says what is expected; no run, no ledger, no other file."""
    import re

    before = sorted(folder.rglob("*"))
    done = run(*arguments, "--out", folder / "run", "--ledger", folder / "l.sqlite")
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    assert done.returncode == 2, done
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    assert "--" in lines[0], "a flag mends it, or names the file that must be mended"
    assert re.search(message, lines[0]), lines[0]
    assert done.stdout == ""
    assert sorted(folder.rglob("*")) == before


BAD_FLAGS: list[tuple[tuple[str, ...], str]] = [
    (("--range", "age"), r"range must be COLUMN=LOW:HIGH, got 'age' \(--range amount=0:10000\)"),
    (("--range", "age=9:1"), r"range of 'age' must have LOW < HIGH, got 9:1 \(--range age=0:10000\)"),
    (("--range", "age=0:1", "--range", "age=0:2"), r"range must be given once for a column, got 'age' twice \(--range\)"),
    (("--range", "agee=0:1"), r"rules must name columns of the table, got 'agee' \(--range\), found 'id', 'label', 'age'"),
    (("--log", "income"), r"log must be COLUMN=LOW:HIGH, got 'income' \(--log amount=0:10000\)"),
    (("--fill", "age"), r"fill must be COLUMN=VALUE or COLUMN=indicator, got 'age' \(--fill income=indicator\)"),
    (("--fill", "age=mean"), r"fill of a numeric column must be a number or indicator, got 'mean' for 'age' \(--fill age=0"),
    (("--fill", "income=1", "--fill", "income=2"), r"fill must be given once for a column, got 'income' twice \(--fill\)"),
    (("--category", "segment="), r"category must be words that are not empty, got ''"),
    (("--category", "age=1,2", "--range", "age=0:1"), r"got 'age' in --category and --range"),
    (("--category", "segment=a", "--fill", "segment=b"), r"fill of 'segment' must be one of its categories, got 'b' \(--fill"),
    (("--ignore", "age", "--range", "age=0:1"), r"an ignored column must have no other rule, got 'age' in --ignore and --range"),
    (("--ignore", "incme"), r"rules must name columns of the table, got 'incme' \(--ignore\), found"),
    (("--ignore", "id"), r"needs a column 'id' or 'node' or 'node_id', found 'age'.*--column id=TITLE"),
    (("--column", "id=person"), r"id column 'person' is missing, found 'id', 'age'"),
    (("--column", "colour=x"), r"column must be ROLE=TITLE with a role of id, label, split, source, target, got 'colour=x'"),
    (("--classes", "a"), r"classes must be at least 2, got 1"),
    (("--classes", "a,a"), r"classes must differ, got 'a' more than once"),
    (("--column", "label=lable"), r"label column 'lable' is missing, found .* \(--column label=TITLE\)"),
    (("--fill", "label=0"), r"rules must name columns of features, got the label column 'label' \(--fill\)"),
    (("--decimal", ";"), r"decimal must be a comma or a point, got ';' \(--decimal ,\)"),
    (("--separator", "xy"), r"separator must be one sign such as ; or the word tab, got 'xy' \(--separator ';'\)"),
    (("--separator", ";"), r"the first line must hold the column titles separated by ';', got .*; give --separator ,"),
    (("--encoding", "klingon"), r"encoding must be one that Python knows, got 'klingon' \(--encoding latin-1"),
    (("--alias", "FRAUD"), r"alias must be WORD=CLASS, got 'FRAUD' \(--alias FRAUD=fraud\)"),
    (("--alias", "a=b", "--alias", "a=c"), r"alias must be given once for a word, got 'a' twice \(--alias\)"),
    (("--nodes", "nowhere.csv"), r"nowhere.csv: file not found \(--nodes\)"),
    (("--epsilon", "-1"), r"epsilon must be a number > 0 .*, got -1.0 \(--epsilon\)"),
    (("--epsilon", "abc"), r"Invalid value for '--epsilon': .* got 'abc'"),
    (("--delta", "2"), r"delta must be in the open interval \(0, 1\), got 2.0 \(--delta\)"),
    (("--seeds", "0"), r"seeds must be a whole number >= 1, got 0 \(--seeds\)"),
    (("--set", "depth"), r"set must be key=value, got 'depth' \(--set\)"),
    (("--set", "nosuch=1"), r"setting must be one of .*, got nosuch \(--set\)"),
    (("--metric", "nonsense"), r"metric must be one of accuracy, .*, got 'nonsense' \(--metric\)"),
    (("--reason", "new export"), r"reason must go with --replace-fingerprint"),
    (("--publish-metrics", "inf"), r"publish_metrics must be a finite number > 0, got inf \(--publish-metrics\)"),
    (("--no-such",), r"No such option: --no-such"),
    (("--sql-edges", "SELECT 1"), r"sql-nodes must be given, too, got one query \(--sql-nodes"),
    (("--dataset", "csbm"), r"give either --dataset NAME or --graph FILE"),
    ((), r"mended in 7 places: .*--drop-unknown-ids.*--fill income=indicator.*--range age=LOW:HIGH.*--classes"),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "message"), BAD_FLAGS, ids=[" ".join(flags) for flags, _ in BAD_FLAGS])
def test_a_bad_flag_is_one_line_and_leaves_nothing(flags: tuple[str, ...], message: str, tmp_path: Path) -> None:
    refused(("train", "mlp-dp", *written(tmp_path, bank()), *flags), message, tmp_path)


BAD_FILES: list[tuple[dict[str, bytes], str]] = [
    ({"nodes.csv": b""}, r"nodes.csv: the file is empty"),
    ({"edges.csv": b"1,2\n2,3\n"}, r"the first line must hold the column titles, got numbers: '1', '2'"),
    ({"edges.csv": b"only\n1\n"}, r"must hold two columns, source and target, found only 'only'"),
    (
        {"edges.csv": b"a;b\na00;a01\n"},
        r"edges.csv: the first line must hold the column titles separated by ','.*--separator",
    ),
    ({"nodes.csv": b"id,name\na00,M\xfcller\n"}, r"nodes.csv: must be UTF-8 \(--encoding latin-1\)"),
    ({"nodes.csv": b"id,age,age\n1,2,3\n"}, r"column titles must differ, got 'age' more than once"),
    ({"nodes.csv": b"id,age\n"}, r"must hold at least one node, got a table without rows"),
    ({"nodes.csv": b"id,age\n1,2,3\n"}, r"row 1 must have 2 cells, got 3"),
]


@pytest.mark.parametrize(("files", "message"), BAD_FILES, ids=[message[:40] for _, message in BAD_FILES])
def test_a_bad_file_is_one_line_and_leaves_nothing(files: dict[str, bytes], message: str, tmp_path: Path) -> None:
    named = written(tmp_path, bank())
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    refused(("train", "mlp", *named, *FLAGS), message, tmp_path)
