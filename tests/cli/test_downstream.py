"""``caribou links`` and ``graphs`` through the console entry: scores of a saved run, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import caribou as cb
from caribou.mechanisms.noise_source import NoiseSource
from caribou.models.graph_classifier import GraphClassifier
from caribou.models.links import LinkPredictor
from cli_support import caribou, refusal

pytestmark = pytest.mark.usefixtures("quick_learning")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, quick_learning: None) -> Path:
    """Runs of named and of numbered nodes, at either unit, and the tables of both tasks."""
    folder = tmp_path_factory.mktemp("world")
    drawn = cb.datasets.load("csbm", nodes=90, classes=3, features=4, average_degree=8.0, signal=2.0, seed=3)
    graph = cb.Graph.from_edges(
        drawn.features,
        drawn.edge_index,
        labels=drawn.labels,
        split=drawn.split,
        classes=["a", "b", "c"],
        node_ids=np.array([f"person {i}" for i in range(90)]),
        id_title="who",
    )
    for name, method, unit, settings in (
        ("run", "caribou-edp", "edge", {"messages": "embeddings"}),
        ("gap", "gap-edp", "edge", {}),
        ("votes", "votes-edp", "edge", {}),
        ("node", "caribou-ndp", "node", {"graph_share": 0.5}),
        ("blind", "caribou-ndp", "node", {"messages": "labels", "leave_graph": True}),
        ("free", "caribou-inf", "edge", {}),
    ):
        model = cb.Model(method, cb.Budget(float("inf") if name == "free" else 8, 1e-5, unit), **settings)
        model.fit(graph).save(folder / name)
    cb.Model("caribou-edp", cb.Budget(8)).fit(graph, noise=NoiseSource.seeded(1)).save(folder / "void")
    ends = {"from": [f"person {i}" for i in range(60)], "to": [f"person {i + 20}" for i in range(60)]}
    pd.DataFrame(ends).to_csv(folder / "pairs.csv", index=False)
    pd.DataFrame(ends | {"label": [i % 2 for i in range(60)]}).to_csv(folder / "labelled.csv", index=False)
    pd.DataFrame({"from": range(5), "to": range(5, 10)}).to_csv(folder / "numbers.csv", index=False)
    groups = {"who": [f"person {i}" for i in range(90)], "hall": [f"hall {i % 10}" for i in range(90)]}
    pd.DataFrame(groups).to_csv(folder / "groups.csv", index=False)
    labels = {"hall": [f"hall {i}" for i in range(6)], "label": ["quiet", "loud"] * 3}
    pd.DataFrame(labels).to_csv(folder / "labels.csv", index=False)
    return folder


@pytest.mark.parametrize(("name", "status"), [("free", "no privacy"), ("void", "void")])
def test_rows_that_nothing_protects_are_used_with_a_warning(
    name: str, status: str, world: Path, tmp_path: Path
) -> None:
    tables = ("--groups", world / "groups.csv", "--labels", world / "labels.csv")
    for number, command in enumerate(
        (
            ("links", world / name, "--pairs", world / "pairs.csv"),
            ("graphs", world / name, *tables),
            ("embed", world / name),
        )
    ):
        done = caribou(*command, "--out", tmp_path / f"{number}.csv")
        assert f"warning: the certificate of this release is '{status}'" in done.stderr
        assert "do not publish" in done.stderr


def test_pairs_are_scored_by_the_released_state(world: Path, tmp_path: Path) -> None:
    done = caribou("links", world / "run", "--pairs", world / "pairs.csv", "--out", tmp_path / "scores.csv")
    assert done.stderr == ""
    assert done.stdout == f"wrote 60 scores to {tmp_path / 'scores.csv'}\n"
    table = pd.read_csv(tmp_path / "scores.csv")
    assert list(table.columns) == ["from", "to", "score"]
    assert table["to"][0] == "person 20"
    pairs = np.stack([np.arange(60), np.arange(20, 80)])
    assert table["score"].to_numpy() == pytest.approx(LinkPredictor().scores(cb.load(world / "run").embeddings, pairs))


def test_public_pairs_train_and_labels_are_for_the_curator(world: Path, tmp_path: Path) -> None:
    files = ("--pairs", world / "labelled.csv", "--public-pairs", world / "labelled.csv")
    done = caribou("links", world / "run", *files, "--out", tmp_path / "scores.parquet")
    assert re.match(r"AUC 0\.\d{3}, average precision 0\.\d{3} \(do not publish these figures", done.stderr)
    assert "AUC" not in done.stdout
    state = cb.load(world / "run").embeddings
    pairs = np.stack([np.arange(60), np.arange(20, 80)])
    wanted = LinkPredictor("logistic").fit(state, pairs, np.arange(60) % 2).scores(state, pairs)
    assert pd.read_parquet(tmp_path / "scores.parquet")["score"].to_numpy() == pytest.approx(wanted)


def test_an_edge_table_is_not_taken_for_public_pairs(world: Path, tmp_path: Path) -> None:
    files = ("--pairs", world / "pairs.csv", "--public-pairs", world / "pairs.csv")
    refused = refusal("links", world / "run", *files, "--out", tmp_path / "scores.csv")
    assert "public-pairs must have a column label (1 = joined, 0 = not)" in refused
    assert "an edge table of the private graph must not be given here" in refused
    assert not (tmp_path / "scores.csv").exists()


def test_sums_of_gap_and_runs_at_node_level_are_scored(world: Path, tmp_path: Path) -> None:
    caribou("links", world / "gap", "--pairs", world / "pairs.csv", "--out", tmp_path / "gap.csv")
    # a run at node level knows its nodes by number
    caribou("links", world / "node", "--pairs", world / "numbers.csv", "--out", tmp_path / "node.csv")
    named = refusal("links", world / "node", "--pairs", world / "pairs.csv", "--out", tmp_path / "named.csv")
    assert "must hold a node of the run, got 'person 0'" in named


@pytest.mark.parametrize("name", ["votes", "blind"])
def test_a_run_without_rows_is_refused(name: str, world: Path, tmp_path: Path) -> None:
    refused = refusal("links", world / name, "--pairs", world / "numbers.csv", "--out", tmp_path / "scores.csv")
    assert "released must hold state or sums_1, sums_2" in refused


def test_graphs_are_classified(world: Path, tmp_path: Path) -> None:
    files = ("--groups", world / "groups.csv", "--labels", world / "labels.csv")
    done = caribou("graphs", world / "run", *files, "--out", tmp_path / "classes.csv")
    assert done.stdout == f"wrote 10 classes to {tmp_path / 'classes.csv'}\n"
    table = pd.read_csv(tmp_path / "classes.csv")
    assert list(table.columns) == ["graph", "class", "probability"]
    assert table["graph"].tolist() == [f"hall {i}" for i in range(10)]
    state, groups = cb.load(world / "run").embeddings, np.arange(90) % 10
    known = np.array([1, 0, 1, 0, 1, 0, -1, -1, -1, -1])
    wanted = GraphClassifier().fit(state, groups, known).predict(state, groups)
    assert table["class"].tolist() == [("loud", "quiet")[k] for k in wanted]
    caribou("graphs", world / "run", *files, "--out", tmp_path / "sums.csv", "--pooling", "sum", "--head", "mlp")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--pooling", "max"), "pooling must be one of mean, sum, got 'max'"),
        (("--head", "tree"), "head must be one of linear, mlp, got 'tree'"),
        (("--labels", "groups.csv"), "must name a graph of the groups, got 'person 0'"),
        (("--out", "classes.txt"), "out must end in .csv or .parquet"),
        (("--out", "groups.csv"), "out must be a new file"),
    ],
)
def test_bad_input(options: tuple[str, str], message: str, world: Path) -> None:
    given = {"--groups": "groups.csv", "--labels": "labels.csv", "--out": "classes.csv", **dict([options])}
    assert message in refusal("graphs", "run", *(word for pair in given.items() for word in pair), cwd=world)
    assert not (world / "classes.csv").exists()
