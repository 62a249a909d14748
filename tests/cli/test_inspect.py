"""``caribou inspect`` on dirty tables, every flag, and a list of bad inputs: each is one line, and nothing is left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import caribou as cb
from cli_support import run
from table_support import MENDED, RULES, bank, dirty, written

Tables = tuple[pd.DataFrame, pd.DataFrame]
Change = Callable[[pd.DataFrame, pd.DataFrame], Tables]


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


def node(**cells: object) -> Change:
    """A change of cells of the second row of nodes, or a new column."""

    def change(edges: pd.DataFrame, nodes: pd.DataFrame) -> Tables:
        nodes = nodes.astype(object)
        for title, cell in cells.items():
            if title not in nodes:
                nodes[title] = 1.0
                nodes[title] = nodes[title].astype(object)
            nodes.loc[1, title] = cell
        return edges, nodes

    return change


def edge(**cells: object) -> Change:
    def change(edges: pd.DataFrame, nodes: pd.DataFrame) -> Tables:
        edges = edges.astype(object)
        for title, cell in cells.items():
            edges.loc[1, title] = cell
        return edges, nodes

    return change


def column(title: str, cells: Callable[[int], object]) -> Change:
    return lambda edges, nodes: (edges, nodes.assign(**{title: [cells(k) for k in range(len(nodes))]}))


FLAGS = [flag for flag in RULES.flags() if flag != "--drop-unknown-ids"]
BAD_CELLS: list[tuple[Change, str]] = [
    (edge(sender="zoe"), r"--drop-unknown-ids"),
    (edge(receiver=None), r"column 'receiver' must hold an id of the node table, got an empty cell; give --drop-unknown-ids"),
    (edge(sender="1.5"), r"got '1.5'; give --drop-unknown-ids"),
    (node(id=None), r"row 2: column 'id' must hold an id, got an empty cell"),
    (node(id="a00"), r"row 2: column 'id' must hold unique ids, got 'a00' again \(first in row 1\)"),
    (node(age=None), r"column 'age' must hold numbers, got an empty cell.* give --fill age=indicator"),
    (node(age="old"), r"column 'age' must hold numbers, got 'old'.* give --unknown old or --ignore age"),
    (node(age="n/a"), r"column 'age' must hold numbers, got 'n/a'.* give --unknown n/a or --ignore age"),
    (node(age="1,5"), r"column 'age' must hold plain numbers, got '1,5' \(1.5\?\); give --decimal , or --ignore age"),
    (node(age="15 %"), r"column 'age' must hold plain numbers, got '15 %' \(15.0 %\?\); give --percent age or --ignore age"),
    (node(label="FRAUD"), r"column 'label' must spell a class in one way, got 'FRAUD' beside 'fraud'; give --alias FRAUD=fraud"),
    (column("label", lambda k: ["a", "b", "n/a", "?"][k % 4]), r"got 'n/a', '\?', which look.*--unknown n/a --unknown '\?' or"),
    (column("id", lambda k: f"{k:03d}"), r"edges must join ids .* holds 'a00', .* such as '000': they differ in letters"),
    (column("id", lambda k: f"n{k}x"), r"edges must join ids of the node table, got none that does.* give --column id=TITLE"),
    (column("note", lambda k: "x" if k < 3 else "y" if k < 6 else 1), r"'note' must hold numbers.* --unknown x --unknown y or"),
    (node(age="2024-01-02"), r"column 'age' must hold numbers, got the date '.*give --ignore age"),
    (node(score="inf"), r"column 'score' must hold finite numbers, got inf.* give --range score=LOW:HIGH"),
    (node(score="-inf"), r"column 'score' must hold finite numbers, got -inf"),
    (node(score="1e300"), r"column 'score' must hold numbers of at most 3.4e\+38 in size, got 1e\+300; give --range"),
    (node(score="nan"), r"column 'score' must hold numbers, got 'nan'.* give --unknown nan"),
    (node(label="?"), r"column 'label' must hold classes, got '\?', which looks like no label; give --unknown '\?' or --cl"),
    (node(label="None"), r"got 'None', which looks like no label; give --unknown None"),
    (node(label="null"), r"got 'null', which looks like no label; give --unknown null"),
    (node(label="-1"), r"got '-1', which looks like no label; give --unknown -1"),
    (column("label", lambda k: k / 3), r"column 'label' must hold classes, got '0.3.* give --column label=TITLE"),
    (column("label", lambda k: None), r"column 'label' must hold at least one label, got empty cells only.*--ignore label"),
    (column("split", lambda k: "dev"), r"column 'split' must be train, val or test, got 'dev' \(40 in all\); give --ignore sp"),
    (column("city", lambda k: f"town {k}"), r"column 'city' must hold numbers, got 'town 0'.* give --ignore city"),
    (column("kind", lambda k: "ab"[k % 2]), r"column 'kind' must hold numbers, got 'a'.* give --category kind or --ignore kind"),
    (column("born", lambda k: f"{k % 28 + 1}.1.2001"), r"column 'born' must hold numbers, got the date '1.1.2001'.*--ignore b"),
    (column("segment=private", lambda k: 1), r"feature names must differ, got 'segment=private' twice.*--ignore"),
    (column("flag", lambda k: ["yes", "no", "?"][k % 3]), r"column 'flag' must hold numbers, got 'yes'.*--category flag"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BAD_CELLS, ids=[message[:50] for _, message in BAD_CELLS])
def test_a_bad_cell_is_one_line_and_leaves_nothing(change: Change, message: str, tmp_path: Path) -> None:
    edges, nodes = bank()
    files = written(tmp_path, change(edges.replace("x99", "a01"), nodes))
    refused(("train", "mlp", *files, *FLAGS), message, tmp_path)


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
    (("--range", "age=5"), r"range must be COLUMN=LOW:HIGH, got 'age=5' \(--range"),
    (("--range", "age=a:b"), r"range must be COLUMN=LOW:HIGH, got 'age=a:b' \(--range"),
    (("--range", "age=9:1"), r"range of 'age' must have LOW < HIGH, got 9:1 \(--range age=0:10000\)"),
    (("--range", "=0:1"), r"range must be COLUMN=LOW:HIGH, got '=0:1' \(--range"),
    (("--range", "age=0:inf"), r"range of 'age' must be a finite number, got inf"),
    (("--range", "age=0:1", "--range", "age=0:2"), r"range must be given once for a column, got 'age' twice \(--range\)"),
    (("--range", "agee=0:1"), r"rules must name columns of the table, got 'agee' \(--range\), found 'id', 'age'"),
    (("--log", "income"), r"log must be COLUMN=LOW:HIGH, got 'income' \(--log amount=0:10000\)"),
    (("--log", "income=1:0"), r"log of 'income' must have LOW < HIGH, got 1:0 \(--log"),
    (("--log", "age=0:1", "--range", "age=0:1"), r"got 'age' in --range and --log"),
    (("--fill", "age"), r"fill must be COLUMN=VALUE or COLUMN=indicator, got 'age' \(--fill income=indicator\)"),
    (("--fill", "age="), r"fill must be COLUMN=VALUE or COLUMN=indicator, got 'age=' \(--fill"),
    (("--fill", "age=mean"), r"fill of a numeric column must be a number or indicator, got 'mean' for 'age' \(--fill age=0"),
    (("--fill", "age=inf"), r"fill of 'age' must be a finite number, got inf"),
    (("--fill", "town=0"), r"rules must name columns of the table, got 'town' \(--fill\), found"),
    (("--fill", "income=1", "--fill", "income=2"), r"fill must be given once for a column, got 'income' twice \(--fill\)"),
    (("--category", "=a,b"), r"category must be COLUMN or COLUMN=a,b,c, got '=a,b' \(--category"),
    (("--category", "segment="), r"category must be words that are not empty, got ''"),
    (("--category", "age=1,2", "--range", "age=0:1"), r"got 'age' in --category and --range"),
    (("--category", "segment=a", "--fill", "segment=b"), r"fill of 'segment' must be one of its categories, got 'b' \(--fill"),
    (("--ignore", "age", "--range", "age=0:1"), r"an ignored column must have no other rule, got 'age' in --ignore and --range"),
    (("--ignore", "incme"), r"rules must name columns of the table, got 'incme' \(--ignore\), found"),
    (("--ignore", "id"), r"needs a column 'id' or 'node' or 'node_id', found 'age'.*--column id=TITLE"),
    (("--unknown", ""), r"unknown must be words that are not empty, got ''"),
    (("--column", "id=person"), r"id column 'person' is missing, found 'id', 'age'"),
    (("--column", "colour=x"), r"column must be ROLE=TITLE with a role of id, label, split, source, target, got 'colour=x'"),
    (("--classes", "a"), r"classes must be at least 2, got 1"),
    (("--classes", "a,a"), r"classes must differ, got 'a' more than once"),
    (("--ignore", "colour"), r"rules must name columns of the table, got 'colour' \(--ignore\), found"),
    (("--column", "label=lable"), r"label column 'lable' is missing, found .*; did you mean 'label'\? \(--column label=TITLE\)"),
    (("--fill", "label=0"), r"rules must name columns of features, got the label column 'label' \(--fill\)"),
    (("--decimal", ";"), r"decimal must be a comma or a point, got ';' \(--decimal ,\)"),
    (("--separator", "xy"), r"separator must be one sign such as ; or the word tab, got 'xy' \(--separator ';'\)"),
    (("--separator", ";"), r"the first line must hold the column titles separated by ';', got .*; give --separator ,"),
    (("--encoding", "klingon"), r"encoding must be one that Python knows, got 'klingon' \(--encoding latin-1"),
    (("--percent", "agee"), r"got 'agee' \(--percent\), found .*; did you mean 'age'\?"),
    (("--alias", "FRAUD"), r"alias must be WORD=CLASS, got 'FRAUD' \(--alias FRAUD=fraud\)"),
    (("--alias", "a=b", "--alias", "a=c"), r"alias must be given once for a word, got 'a' twice \(--alias\)"),
    (("--alias", "a=b", "--alias", "b=c"), r"alias must stand for a word that is no alias itself, got 'a' for 'b' \(--alias a=c"),
    (("--nodes", "nowhere.csv"), r"nowhere.csv: file not found \(--nodes\)"),
    (("--epsilon", "-1"), r"epsilon must be a number > 0 .*, got -1.0 \(--epsilon\)"),
    (("--epsilon", "abc"), r"Invalid value for '--epsilon': .* got 'abc'"),
    (("--delta", "2"), r"delta must be in the open interval \(0, 1\), got 2.0 \(--delta\)"),
    (("--seeds", "0"), r"seeds must be a whole number >= 1, got 0 \(--seeds\)"),
    (("--set", "depth"), r"set must be key=value, got 'depth' \(--set\)"),
    (("--set", "nosuch=1"), r"setting must be one of .*, got nosuch \(--set\)"),
    (("--metric", "nonsense"), r"metric must be one of accuracy, .*, got 'nonsense' \(--metric\)"),
    (("--reason", "new export"), r"reason must go with --replace-fingerprint"),
    (("--publish-metrics", "inf"), r"publish_metrics must be a finite epsilon \(--publish-metrics\), got inf"),
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
    ({"edges.csv": b"a;b\na00;a01;a02\n"}, r"edges.csv: row 1 must have 2 cells, got 3"),
    ({"edges.csv": b"a;b\n1;2\n"}, r"edges must join ids of the node table, got none that does: column 'a' holds '1'"),
    (
        {"nodes.csv": b"id,name\na00,M\xfcller\n"},
        r"nodes.csv: row 1: encoding must be UTF-8.* 0xfc .*; give --encoding latin-1",
    ),
    ({"nodes.csv": b"id,\na00,1\n"}, r"the first line must hold the column titles, got an empty one"),
    ({"nodes.csv": b"id,age,age\n1,2,3\n"}, r"column titles must differ, got 'age' more than once"),
    ({"nodes.csv": b"id,age\n"}, r"must hold at least one node, got a table without rows"),
    ({"nodes.csv": b"id,age\n1,2,3\n"}, r"row 1 must have 2 cells, got 3"),
    ({"nodes.csv": b"\xff\xfe\x00"}, r"nodes.csv: not a readable CSV \(utf-16\) table"),
]


@pytest.mark.parametrize(("files", "message"), BAD_FILES, ids=[message[:40] for _, message in BAD_FILES])
def test_a_bad_file_is_one_line_and_leaves_nothing(files: dict[str, bytes], message: str, tmp_path: Path) -> None:
    named = written(tmp_path, bank())
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    refused(("train", "mlp", *named, *FLAGS), message, tmp_path)


def test_there_are_sixty_bad_inputs() -> None:
    assert len(BAD_CELLS) + len(BAD_FLAGS) + len(BAD_FILES) >= 60
