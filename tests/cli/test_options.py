"""Options that several commands share: which graph they name, and one line for what does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from caribou.cli.options import (
    FileOptions,
    GraphOptions,
    GraphSource,
    TableOptions,
    warn_of_no_edges,
)


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    edges, nodes = tmp_path / "friends.csv", tmp_path / "people.csv"
    edges.write_text("a,b\n1,2\n")
    nodes.write_text("who,age\n1,30\n2,40\n3,50\n")
    return edges, nodes


def source_of(edges: Path, nodes: Path, classes: str | None = None, column: tuple[str, ...] = ()) -> GraphSource:
    files = FileOptions(graph=edges, nodes=str(nodes), classes=classes, tables=TableOptions(column=column))
    return GraphSource(GraphOptions(files=files))


def test_a_data_set_or_a_file_under_its_own_name_or_another(tables: tuple[Path, Path]) -> None:
    edges, nodes = tables
    assert GraphSource(GraphOptions(dataset="chain-s")).load(seed=3).name == "chain-s"
    assert GraphSource(GraphOptions(dataset="chain-s"), name="mine").load().name == "mine"
    source = source_of(edges, nodes, column=("id=who", "source=b", "target=a"))
    assert str(source) == str(edges)
    graph = source.load()
    assert (graph.name, graph.num_nodes, graph.num_edges) == ("friends", 3, 1)


def test_no_edges_are_said_once_and_on_stderr_alone(
    tables: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    edges, nodes = tables
    edges.write_text("a,b\n")
    source = source_of(edges, nodes, column=("id=who",))
    source.load()
    source.load(again=True)
    warn_of_no_edges(1, edges)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"warning: {edges} holds no edges (do not publish this line: it is about the private graph)\n"
