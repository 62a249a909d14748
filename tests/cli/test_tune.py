"""``caribou tune``: the search is paid for and saved, or public and free, and what does not fit is named."""

from __future__ import annotations

from pathlib import Path

import pytest

import caribou as cb
from cli_support import caribou, refusal

pytestmark = pytest.mark.usefixtures("quick_learning")


def test_a_search_is_saved_and_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    space = tmp_path / "space.toml"
    space.write_text("clip = [0.2, 0.4]\n")
    common = ["tune", "mlp-dp", "--dataset", "csbm:nodes=150", "--trials", "2", "--space", str(space)]
    out = tmp_path / "tuned"
    document = caribou(*common, "--epsilon", "8", "--out", out, "--json").document
    assert document["settings"]["clip"] in (0.2, 0.4)
    assert document["certificate"]["status"].startswith("private")
    assert cb.load(out).settings["clip"] == document["settings"]["clip"]
    assert "free" in caribou(*common, "--public").stdout
    for extra, words in (
        (["--public", "--out", str(tmp_path / "x")], "out and ledger must not"),
        (["--space", str(tmp_path / "none.toml")], "space must be a file"),
        (["--set", "clip=0.3"], "space must leave something"),
    ):
        assert words in refusal(*common, *extra)
    assert not (tmp_path / "x").exists()


def test_a_graph_that_has_changed_is_tuned_again_where_the_owner_says_whom_it_is_about(tmp_path: Path) -> None:
    for number in (1, 2):
        graph = cb.datasets.load("csbm", nodes=90, classes=3, features=4, seed=number)
        cb.datasets.write_graph(graph, tmp_path / f"{number}.npz")
    book, space = tmp_path / "book.sqlite", tmp_path / "space.toml"
    space.write_text("hidden = [[], [4]]\n")

    def command(number: int) -> tuple[object, ...]:
        files = ("--graph", tmp_path / f"{number}.npz", "--space", space, "--ledger", book)
        return "tune", "mlp", "--trials", 1, "--name", "people", *files

    caribou(*command(1))
    assert "has changed since its last release" in refusal(*command(2))
    caribou(*command(2), "--replace-fingerprint")
    assert [entry.dataset for entry in cb.Ledger(book).entries()] == ["people", "people"]
