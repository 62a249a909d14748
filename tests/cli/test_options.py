"""Options that several commands share: which graph they name, and one line for what does not fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from caribou.cli.options import (
    EntryOptions,
    FileOptions,
    GraphOptions,
    GraphSource,
    LedgerOptions,
    TableOptions,
    column_titles,
    parse_classes,
    warn_of_no_edges,
    with_option_groups,
)
from caribou.errors import InputError


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    edges, nodes = tmp_path / "friends.csv", tmp_path / "people.csv"
    edges.write_text("a,b\n1,2\n")
    nodes.write_text("who,age\n1,30\n2,40\n3,50\n")
    return edges, nodes


def test_a_data_set_or_a_file_under_its_own_name_or_another(tables: tuple[Path, Path]) -> None:
    edges, nodes = tables
    assert GraphSource(dataset="chain-s").load(seed=3).name == "chain-s"
    assert GraphSource(dataset="chain-s", name="mine").load().name == "mine"
    source = GraphSource(graph=edges, nodes=nodes, columns=("id=who", "source=b", "target=a"))
    assert str(source) == str(edges)
    graph = source.load()
    assert (graph.name, graph.num_nodes, graph.num_edges) == ("friends", 3, 1)


def test_what_does_not_go_together_is_named(tables: tuple[Path, Path]) -> None:
    edges, nodes = tables
    for source in (GraphSource(), GraphSource(dataset="chain-s", graph=edges)):
        with pytest.raises(InputError, match="give either --dataset NAME or --graph FILE"):
            source.load()
    for given in ({"nodes": nodes}, {"columns": ("id=x",)}, {"classes": "2"}):
        source = GraphSource(dataset="chain-s", **given)
        with pytest.raises(
            InputError, match="nodes, column, classes and rules of tables must go with --graph, got --dataset"
        ):
            source.load()


@pytest.mark.parametrize("pair", ["id", "id=", "=who", "name=who", "ID=who", ""])
def test_a_column_is_a_role_and_a_title(pair: str) -> None:
    rule = "column must be ROLE=TITLE with a role of id, label, split, source, target, got"
    with pytest.raises(InputError, match=f"{rule} {pair!r}"):
        column_titles([pair])


def test_classes_are_named_counted_or_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("ill\n\nwell, for now\n")
    assert parse_classes(f"@{tmp_path / 'classes.txt'}") == ["ill", "well, for now"]
    assert parse_classes(" 12 ") == 12
    assert parse_classes("a, b,c") == ["a", "b", "c"]
    with pytest.raises(InputError, match="classes must name a file of one class per line, got '@none'"):
        parse_classes("@none")


def test_classes_that_no_label_has_are_said_on_stderr_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{k},1,{'ab'[k % 2]}\n" for k in range(12))
    (tmp_path / "n.csv").write_text("id,x,label\n" + rows)
    (tmp_path / "e.csv").write_text("from,to\n0,1\n")
    for classes, said in (("a,b", 0), ("a,c", 0), ("no,yes", 1)):
        graph = GraphSource(graph=tmp_path / "e.csv", nodes=tmp_path / "n.csv", classes=classes).load()
        assert (graph.num_classes, graph.class_names) == (2, tuple(classes.split(",")))
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.count("no label") == shown.err.count("do not publish this line") == said


def test_titles_may_hold_anything_and_roles_come_once() -> None:
    assert column_titles(["id=a=b", "label= y "]) == {"id_column": "a=b", "label_column": " y "}
    with pytest.raises(InputError, match="column must name a role once, got id twice"):
        column_titles(["id=a", "id=b"])


def test_no_edges_are_said_once_and_on_stderr_alone(
    tables: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    edges, nodes = tables
    edges.write_text("a,b\n")
    source = GraphSource(graph=edges, nodes=nodes, columns=("id=who",))
    source.load()
    source.load(again=True)
    warn_of_no_edges(1, edges)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"warning: {edges} holds no edges (do not publish this line: it is about the private graph)\n"


@dataclass(frozen=True)
class Inner:
    """Options in a record that is in a record."""

    size: Annotated[int, typer.Option(help="How large.")] = 3
    words: Annotated[list[str] | None, typer.Option("--word", help="Some words.")] = None


@dataclass(frozen=True)
class Outer:
    """A record with a record in it."""

    first: Annotated[str, typer.Option(help="The first.")] = "a"
    inner: Inner = field(default_factory=Inner)


def test_a_record_of_options_stands_for_its_options() -> None:
    seen = []

    def command(name: Annotated[str, typer.Argument()], *, group: Outer, last: bool = False) -> None:
        seen.append((name, group, last))

    app = typer.Typer(add_completion=False)
    app.command()(with_option_groups(command))
    for words in (["x"], ["x", "--size", "5", "--word", "u", "--word", "v", "--first", "b", "--last"]):
        assert CliRunner().invoke(app, words).exit_code == 0
    assert seen == [("x", Outer(), False), ("x", Outer("b", Inner(5, ["u", "v"])), True)]
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert shown.index("--first") < shown.index("--size") < shown.index("--word") < shown.index("--last")


def test_two_records_with_an_option_of_one_name_are_refused() -> None:
    def command(*, one: Outer, two: Inner) -> None:
        """Which of them would --size be?"""

    with pytest.raises(ValueError, match="duplicate parameter name: 'size'"):
        with_option_groups(command)


def test_options_of_a_graph_become_its_source(tables: tuple[Path, Path]) -> None:
    edges, nodes = tables
    given = FileOptions(str(nodes), ["id=who"], "2", TableOptions(ignore=["age"]))
    source = GraphSource(None, edges, nodes, ["id=who"], "mine", nodes.parent, "2", TableOptions(ignore=["age"]))
    assert GraphOptions(None, edges, given, nodes.parent).source("mine") == source
    assert GraphOptions(dataset="chain-s").source() == GraphSource("chain-s")
    assert [options.is_given for options in (given, FileOptions(), FileOptions(column=["id=who"]))] == [
        True,
        False,
        True,
    ]


def test_words_of_an_entry_go_with_a_ledger_and_a_reason_with_a_change(tmp_path: Path) -> None:
    entry = EntryOptions(tmp_path / "book.sqlite", "scores", "ada", "2026-11")
    noted = LedgerOptions(entry, True, "November").noted()
    assert noted is not None
    assert (noted.path, noted.purpose, noted.person, noted.period, noted.reason) == (
        *(tmp_path / "book.sqlite", "scores", "ada", "2026-11"),
        "November",
    )
    assert LedgerOptions().noted() is None
    with pytest.raises(InputError, match="--purpose, --reason must go with --ledger, got none"):
        LedgerOptions(EntryOptions(purpose="scores"), True, "November").noted()
    with pytest.raises(InputError, match="reason must go with --replace-fingerprint, got 'November' without"):
        LedgerOptions(entry, reason="November").noted()
