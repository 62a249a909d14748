"""``caribou train`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from caribou.cli import app
from caribou.cli.train import parse_settings
from caribou.errors import CaribouError, InputError
from caribou.methods import METHODS

KEYS = {"method", "dataset", "epsilon", "delta", "unit", "test_accuracy", "val_accuracy", "epsilon_spent"}
KEYS |= {"seconds_per_fit", "cpu_seconds_per_fit", "peak_rss_mb", "certificate"}


def call(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["train", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def failure(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["train", *arguments])
    assert isinstance(result.exception, CaribouError), result.output
    return str(result.exception)


@pytest.mark.usefixtures("quick_learning")
@pytest.mark.parametrize("method", METHODS)
def test_every_method_by_name(method: str) -> None:
    """The commands of the paper's artifact give every method an epsilon, also those that have no use for one."""
    private = METHODS[method].private
    result = CliRunner().invoke(
        app, ["train", method, "--dataset", "chain-s", "--epsilon", "8", "--seeds", "2", "--json"]
    )
    assert result.exit_code == 0, result.output
    assert (f"epsilon is not used by {method}" in result.stderr) == (not private)
    document = json.loads(result.stdout)
    assert document.keys() >= KEYS
    assert document["unit"] == METHODS[method].unit.value
    assert len(document["test_accuracy"]["runs"]) == 2
    assert 0 <= document["test_accuracy"]["mean"] <= 1
    if not private:
        assert (document["epsilon"], document["epsilon_spent"], document["epsilon_of_all_fits"]) == ("inf",) * 3
        assert document["certificate"]["status"] == "no privacy"
        return
    assert document["certificate"]["status"] in ("private", "private by degree")
    if method == "mlp":  # it reads no edge
        assert document["epsilon_spent"] == document["epsilon_of_all_fits"] == 0
    else:
        assert 7.9 < document["epsilon_spent"] <= 8 < document["epsilon_of_all_fits"]


@pytest.mark.usefixtures("quick_learning")
def test_one_label_of_a_table_is_in_no_file_of_a_run(tmp_path: Path) -> None:
    """At node level classes are declared. A label that nobody else has changes no name, no shape and no word of a run."""
    runs = []
    (tmp_path / "e.csv").write_text("from,to\n0,1\n")
    for number, odd in enumerate(["a", "zebra", ""]):
        rows = [
            f"{k},{k % 5},{k % 3},{'ab'[k % 2]},{'train' if k < 30 else 'val' if k < 35 else 'test'}" for k in range(40)
        ]
        rows[39] = f"39,4,0,{odd},test"
        (tmp_path / "n.csv").write_text("id,x,z,label,split\n" + "\n".join(rows) + "\n")
        files = ("--graph", str(tmp_path / "e.csv"), "--nodes", str(tmp_path / "n.csv"))
        refused = failure("mlp-dp", *files)
        assert "classes must be declared at node level" in refused
        assert "--classes a,b,c" in refused
        out = tmp_path / f"run{number}"
        call("mlp-dp", *files, "--classes", "a,b", "--range", "*=0:4", "--out", str(out))
        record = json.loads((out / "run.json").read_text())
        certificate = json.loads((out / "certificate.json").read_text())
        runs.append((record["classes"], record["columns"], certificate["public_parameters"], certificate["mechanisms"]))
    assert runs[0][0] == ["a", "b"]
    assert runs[0] == runs[1] == runs[2]
    assert "test accuracy" in call("mlp", *files, "--seeds", "1"), (
        "at edge level labels are public: classes may be read from them"
    )


def test_public_features_option(tmp_path: Path) -> None:
    import numpy as np

    from caribou.datasets import load

    file = tmp_path / "public.npy"
    np.save(file, np.asarray(load("csbm:nodes=120", seed=5).features))
    for method in ("mlp-dp", "votes-ndp"):
        options = ("--dataset", "csbm:nodes=120", "--epsilon", "8", "--seeds", "1", "--json")
        text = call(method, *options, "--public-features", str(file))
        parameters = json.loads(text[text.index("{") :])["certificate"]["public_parameters"]
        assert parameters.get("base", parameters)["public_features"] == "120 rows"
    assert "must go with mlp-dp or votes-ndp" in failure(
        "votes-edp", "--dataset", "csbm:nodes=120", "--public-features", str(file)
    )
    assert "must be an existing file" in failure(
        "mlp-dp", "--dataset", "csbm:nodes=120", "--public-features", str(tmp_path / "missing.npy")
    )


def test_own_graph_and_table(tmp_path: Path) -> None:
    rows = [f"n{i},{i % 2},{(i % 2) * 1.5 + i / 60},{'ab'[i % 2]}" for i in range(60)]
    (tmp_path / "nodes.csv").write_text("id,x1,x2,label\n" + "\n".join(rows) + "\n")
    edges = [f"n{i},n{(i + 2) % 60}" for i in range(60)]
    (tmp_path / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    text = call(
        "mlp-dp",
        "--graph",
        str(tmp_path / "edges.csv"),
        "--nodes",
        str(tmp_path / "nodes.csv"),
        "--classes",
        "a,b",
        "--range",
        "*=0:3",
        "--seeds",
        "1",
    )
    assert "test accuracy" in text
    assert "epsilon = 4" in text
    assert "do not publish" in text


def test_a_graph_without_test_labels_has_no_accuracy(tmp_path: Path) -> None:
    parts = ["train"] * 40 + ["val"] * 10 + ["test"] * 10
    rows = [
        f"n{i},{i % 2},{(i % 2) * 1.5},{'' if part == 'test' else 'ab'[i % 2]},{part}" for i, part in enumerate(parts)
    ]
    (tmp_path / "nodes.csv").write_text("id,x1,x2,label,split\n" + "\n".join(rows) + "\n")
    (tmp_path / "edges.csv").write_text("source,target\nn0,n2\nn1,n3\n")
    arguments = [
        "mlp-dp",
        "--graph",
        str(tmp_path / "edges.csv"),
        "--nodes",
        str(tmp_path / "nodes.csv"),
        "--classes",
        "a,b",
        "--range",
        "*=0:3",
        "--seeds",
        "2",
    ]
    text = call(*arguments, "--json")
    document = json.loads(text[text.index("{") :])
    assert document["test_accuracy"] == {"mean": None, "ci95": None, "runs": [None, None]}
    assert document["val_accuracy"] is not None
    assert "no labels" in call(*arguments)


def test_bad_input() -> None:
    assert "method must be one of" in failure("gcn", "--dataset", "chain-s")
    assert "either --dataset NAME or --graph FILE" in failure("mlp-dp")
    assert "either --dataset NAME or --graph FILE" in failure("mlp-dp", "--dataset", "chain-s", "--graph", "x.npz")
    assert "setting must be one of" in failure("votes-edp", "--dataset", "chain-s", "--set", "depth=3")
    assert "max_rounds must be" in failure("votes-edp", "--dataset", "chain-s", "--set", "max_rounds=0")
    assert "epsilon must be" in failure("mlp-dp", "--dataset", "chain-s", "--epsilon", "-1")
    assert "delta must be" in failure("mlp-dp", "--dataset", "chain-s", "--delta", "1")
    assert "seeds must be" in failure("mlp-dp", "--dataset", "chain-s", "--seeds", "0")
    assert "nodes, column, classes and rules of tables must go with --graph" in failure(
        "mlp-dp", "--dataset", "chain-s", "--nodes", "n.csv"
    )
    assert "dataset must be one of" in failure("mlp-dp", "--dataset", "chains")


def test_settings_are_numbers_words_or_errors() -> None:
    assert parse_settings(["a=1", "b=0.5", "c=word", "d=true"]) == {"a": 1, "b": 0.5, "c": "word", "d": True}
    with pytest.raises(InputError, match="key=value"):
        parse_settings(["nothing"])
