"""``caribou tune``: the search is paid for and saved, or public and free, and what does not fit is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import caribou as cb
from caribou.cli import app
from caribou.errors import CaribouError

pytestmark = pytest.mark.usefixtures("quick_learning")


def test_a_search_is_saved_and_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    space = tmp_path / "space.toml"
    space.write_text("clip = [0.2, 0.4]\n")
    common = ["tune", "mlp-dp", "--dataset", "csbm:nodes=150", "--trials", "2", "--space", str(space)]
    out = tmp_path / "tuned"
    result = CliRunner().invoke(app, [*common, "--epsilon", "8", "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout[result.stdout.index("{") :])
    assert document["settings"]["clip"] in (0.2, 0.4)
    assert document["certificate"]["status"].startswith("private")
    assert cb.load(out).settings["clip"] == document["settings"]["clip"]
    public = CliRunner().invoke(app, [*common, "--public"])
    assert "free" in public.stdout
    for extra, words in (
        (["--public", "--out", str(tmp_path / "x")], "out and ledger must not"),
        (["--space", str(tmp_path / "none.toml")], "space must be a file"),
        (["--set", "clip=0.3"], "space must leave something"),
    ):
        failed = CliRunner().invoke(app, [*common, *extra])
        assert isinstance(failed.exception, CaribouError)
        assert words in str(failed.exception)
    assert not (tmp_path / "x").exists()


def test_a_graph_that_has_changed_is_tuned_again_where_the_owner_says_whom_it_is_about(tmp_path: Path) -> None:
    for number in (1, 2):
        graph = cb.datasets.load("csbm", nodes=90, classes=3, features=4, seed=number)
        cb.datasets.write_graph(graph, tmp_path / f"{number}.npz")
    book, space = tmp_path / "book.sqlite", tmp_path / "space.toml"
    space.write_text("hidden = [[], [4]]\n")

    def call(number: int, *more: str) -> BaseException | None:
        files = ["--graph", str(tmp_path / f"{number}.npz"), "--space", str(space), "--ledger", str(book)]
        return CliRunner().invoke(app, ["tune", "mlp", "--trials", "1", "--name", "people", *files, *more]).exception

    assert call(1) is None
    assert "has changed since its last release" in str(call(2))
    assert call(2, "--replace-fingerprint") is None
    assert [entry.dataset for entry in cb.Ledger(book).entries()] == ["people", "people"]
