"""A user's own files in an experiment: read as `caribou train` reads them, refused before anything is measured, and reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import caribou as cb
from caribou.errors import CaribouError, DataError
from caribou.experiments.measures import graph_of, measure
from caribou.experiments.own_data import read_own, require_own
from caribou.experiments.records import Record, append
from caribou.privacy.budget import PrivacyUnit
from caribou.tables.rules import ColumnRules
from cli_support import run

BANK = """
graph = "edges.csv"
nodes = "people.csv"
classes = ["ill", "well"]

[columns]
id = "person"
label = "state"

[rules]
unknown = ["?"]
drop_unknown_ids = true
ignore = ["note"]
categories.town = ["a", "b"]
fills.age = 40
ranges.age = [0, 100]
"""
CELL = {"kind": "train", "method": "mlp-dp", "dataset": "own.npz", "epsilon": 4, "seed": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("own")
    cb.write_graph(cb.datasets.load("csbm", nodes=60, seed=1), place / "own.npz")
    people = [f"p{k},{20 + k if k else ''},{'ab'[k % 2]},x,{'ill' if k % 3 else 'well'}" for k in range(30)]
    (place / "people.csv").write_text("person,age,town,note,state\n" + "\n".join([*people, "p30,50,a,x,?"]) + "\n")
    pairs = [f"p{k},p{(k * 7 + 1) % 31}" for k in range(30)]
    (place / "edges.csv").write_text("from,to\n" + "\n".join([*pairs, "p1,nobody"]) + "\n")
    (place / "bank.toml").write_text(BANK)
    grid = '[[grid]]\nmethod = "mlp-dp"\ndataset = ["own.npz", "bank.toml"]\nepsilon = 4\nseeds = 2\n'
    (place / "study.toml").write_text(f'title = "Own graphs"\nkind = "train"\n{grid}')
    return place


def test_tables_are_read_by_their_rules(folder: Path) -> None:
    graph = read_own("bank.toml", folder, seed=3, unit=PrivacyUnit.NODE)
    assert (graph.name, graph.class_names, graph.num_nodes) == ("bank", ("ill", "well"), 31)
    assert graph.feature_names == ("age", "town=a", "town=b")
    assert graph.features[0].tolist() == pytest.approx([0.4, 1, 0]), "a gap is filled, and all of it is scaled"
    assert (np.array(graph.labels) < 0).sum() == 1
    own = {"categories": {"town": ["a", "b"]}, "fills": {"age": 40}, "ranges": {"age": (0, 100)}}
    assert graph.column_rules == ColumnRules(unknown=["?"], drop_unknown_ids=True, ignore=["note"], **own)
    assert graph.split is not None
    assert graph.split.train.tolist() != read_own("bank.toml", folder, seed=4).split.train.tolist()  # type: ignore[union-attr]


def test_cells_find_files_beside_their_experiment(folder: Path, tmp_path: Path) -> None:
    for name in ("own.npz", "bank.toml"):
        found = measure({**CELL, "dataset": name}, None, folder)
        assert 0 <= found["test_accuracy"] <= 1
        assert found["epsilon_spent"] == pytest.approx(4, rel=1e-3)
        append(tmp_path / "results", Record("study", {**CELL, "dataset": name}, "ok", found))
    done = run("report", tmp_path / "results", "--out", tmp_path / "report", "--experiments", folder)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report" / "study-table.csv").read_text().splitlines()[0] == "group,method,own.npz,bank.toml"
    with pytest.raises(DataError, match="file not found"):
        graph_of(CELL, None, tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("graph =", "edges ="), "fields must be graph, nodes, classes, columns, rules, got edges"),
        (('"people.csv"', "3"), "graph and nodes must be names of files, got ['edges.csv', 3]"),
        (("label =", "name ="), "columns must be titles by role (id, label, split, source, target), got "),
        (("drop_unknown_ids", "drop"), "bank.toml: "),
        (('"edges.csv"', '"other.csv"'), "other.csv is no file; files lie in the folder of the experiment"),
    ],
)
def test_a_description_with_a_wrong_field_is_refused(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    (tmp_path / "people.csv").touch()
    (tmp_path / "bank.toml").write_text(BANK.replace(*change))
    with pytest.raises(CaribouError) as caught:
        require_own("bank.toml", tmp_path)
    assert said in str(caught.value)


def test_a_run_names_what_is_missing_before_it_measures(folder: Path, tmp_path: Path) -> None:
    text = (folder / "study.toml").read_text()
    (tmp_path / "study.toml").write_text(text)
    done = run("run", tmp_path / "study.toml", "--out", tmp_path / "results")
    assert done.returncode == 2
    assert f"{tmp_path / 'own.npz'} is no file; files lie in the folder of the experiment" in done.stderr
    assert not (tmp_path / "results").exists()
