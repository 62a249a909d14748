"""``caribou train`` as a user types it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import caribou as cb
from caribou.cli import app
from caribou.cli.train import parse_settings
from caribou.errors import CaribouError, InputError
from caribou.methods import METHODS
from cli_support import run

KEYS = {"method", "dataset", "epsilon", "delta", "unit", "test_accuracy", "val_accuracy", "epsilon_spent"}
KEYS |= {
    "test_metrics",
    "threshold",
    "not_protected",
    "seconds_per_fit",
    "cpu_seconds_per_fit",
    "peak_rss_mb",
    "certificate",
}


def call(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["train", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def failure(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["train", *arguments])
    assert isinstance(result.exception, CaribouError), result.output
    return str(result.exception)


@pytest.mark.usefixtures("quick_learning")
@pytest.mark.parametrize("method", ["votes-edp", "caribou-inf", "votes-ndp", "mlp"])
def test_a_method_by_name(method: str) -> None:
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


METRICS = {
    "accuracy",
    "majority",
    "balanced_accuracy",
    "macro_f1",
    "roc_auc",
    "average_precision",
    "brier",
    "per_class",
}


@pytest.fixture
def fraud(tmp_path: Path) -> tuple[str, ...]:
    """One account in ten is fraud: tables with words."""
    rows = [
        f"acc{i},{i % 7},{3.0 * (i % 10 == 0) + (i % 5) / 4},{'fraud' if i % 10 == 0 else 'ok'},"
        f"{('train', 'train', 'val', 'test')[(i // 10) % 4]}"
        for i in range(160)
    ]
    (tmp_path / "nodes.csv").write_text("id,x1,x2,label,split\n" + "\n".join(rows) + "\n")
    edges = [f"acc{i},acc{(i + 10) % 160}" for i in range(160)]
    (tmp_path / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    return "--graph", str(tmp_path / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv")


@pytest.mark.usefixtures("quick_learning")
def test_metrics_of_a_rare_class_are_printed_and_stored(fraud: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "run"
    text = " ".join(call("votes-edp", *fraud, "--metric", "ap", "--out", str(out), "--no-ids").split())
    assert "(always the most frequent class: 90.0%)" in text
    assert "rare class fraud: precision" in text
    assert "average precision" in text
    assert "p_fraud >=" in text
    assert re.search(r"flagged test nodes \d+: precision \d.\d+, recall \d.\d+, F1 \d.\d+ ", text)
    assert "not protected attributes and labels of the nodes" in text
    record = json.loads((out / "run.json").read_text())
    assert record["settings"]["metric"] == "average_precision"
    assert record["threshold"]["class"] == "fraud"
    assert not (out / "nodes.json").exists(), "--no-ids"
    assert "acc1" not in "".join(path.read_text() for path in out.glob("*.[jm]*"))
    assert "Not protected" in (out / "certificate.md").read_text()
    document = json.loads(call("mlp", *fraud, "--positive", "ok", "--json"))
    assert document["test_metrics"].keys() >= METRICS
    assert document["test_metrics"]["accuracy"] == document["test_accuracy"]["mean"]
    assert document["test_metrics"]["per_class"]["fraud"]["support"] == 4
    assert document["threshold"]["class"] == "ok"
    reached = document["threshold"]["test"]
    assert reached.keys() == {"precision", "recall", "f1", "flagged"}
    assert reached["f1"] == pytest.approx(2 / (1 / reached["precision"] + 1 / reached["recall"]))
    assert len(document["test_accuracy"]["runs"]) == 1, "one fit unless more are asked for"


def test_published_metrics_are_charged_saved_and_refused_where_they_make_no_sense(
    fraud: tuple[str, ...], tmp_path: Path
) -> None:
    from caribou.privacy.ledger import Ledger

    out, ledger = tmp_path / "run", tmp_path / "ledger.sqlite"
    options = (*fraud, "--classes", "ok,fraud", "--epsilon", "4", "--range", "*=-6:6")
    text = call("mlp-dp", *options, "--publish-metrics", "1", "--out", str(out), "--ledger", str(ledger))
    assert "may be published" in text
    assert len(Ledger(ledger, create=False).entries()) == 2
    published = json.loads((out / "published-metrics.json").read_text())
    certificate = json.loads((out / "published-metrics.certificate.json").read_text())
    assert published["certificate_id"] == certificate["certificate_id"]
    assert certificate["mechanisms"][0]["mechanism"] == "noisy confusion matrix"
    document = json.loads(call("mlp-dp", *options, "--publish-metrics", "1", "--json"))
    assert document["published_metrics"]["epsilon"] == 1
    assert document["epsilon_of_all_fits"] >= document["epsilon_spent"]
    assert "must go with a method at node level" in failure("mlp", *fraud, "--publish-metrics", "1")
    assert "must go with one fit" in failure("mlp-dp", *options, "--publish-metrics", "1", "--seeds", "2")
    assert "publish_metrics must be" in failure("mlp-dp", *options, "--publish-metrics", "-1")


def test_a_run_without_a_threshold_asks_for_the_class_that_is_flagged(fraud: tuple[str, ...], tmp_path: Path) -> None:
    """At node level no threshold is chosen, and no class is the flagged one by accident."""
    call("mlp-dp", *fraud, "--classes", "ok,fraud", "--epsilon", "4", "--range", "*=-6:6", "--out", str(tmp_path / "r"))
    options = ["predict", str(tmp_path / "r"), *fraud, "--training-graph", "--out", str(tmp_path / "p.csv")]
    asked = CliRunner().invoke(app, [*options, "--threshold", "0.2"])
    assert "positive must be given with --threshold" in str(asked.exception)
    assert "(--positive ok)" in str(asked.exception)
    wrong = CliRunner().invoke(app, [*options, "--threshold", "0.2", "--positive", "theft"])
    assert "positive must be one of the classes ok, fraud" in str(wrong.exception)
    given = CliRunner().invoke(app, [*options, "--threshold", "0.2", "--positive", "fraud"])
    assert "flagged: p_fraud >= 0.2 (as given)" in given.stdout, given.output


def test_a_metric_that_would_read_private_labels_is_refused(fraud: tuple[str, ...]) -> None:
    refused = failure("votes-ndp", *fraud, "--classes", "ok,fraud", "--metric", "ap")
    assert "metric must be accuracy at node level, where validation labels are private" in refused
    assert "metric must be one of accuracy" in failure("mlp", *fraud, "--metric", "speed")
    assert "positive must be one of the classes" in failure("mlp", *fraud, "--positive", "theft")


BAD_FLAGS = [
    ("train", "gcn", "--dataset", "csbm"),
    ("train", "votes-edp"),
    ("train", "votes-edp", "--dataset", "csbm", "--epsilon", "-1"),
    ("train", "votes-edp", "--dataset", "csbm", "--seeds", "0"),
    ("train", "votes-edp", "--dataset", "csbm", "--metric", "speed"),
    ("train", "votes-edp", "--graph", "missing.csv"),
    ("train", "votes-edp", "--dataset", "csbm", "--out", "no/such/folder"),
    ("train", "votes-edp", "--dataset", "csbm", "--set", "nothing"),
    ("train", "mlp", "--dataset", "csbm", "--publish-metrics", "1"),
    ("train", "votes-edp", "--dataset", "csbm", "--nonsense"),
]


def test_bad_flags_are_found_before_torch_is_loaded(tmp_path: Path) -> None:
    """One process for all of them: what is not loaded after the last was loaded by none."""
    code = (
        "import json, sys\nfrom caribou.cli import main\nloaded = []\n"
        f"for arguments in {BAD_FLAGS!r}:\n"
        "    sys.argv = ['caribou', *arguments]\n"
        "    try:\n        main()\n    except SystemExit as stop:\n        assert stop.code == 2, arguments\n"
        "    loaded.append('torch' in sys.modules)\n"
        "print(json.dumps(loaded))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout) == [False] * len(BAD_FLAGS)
    assert len(done.stderr.splitlines()) == len(BAD_FLAGS), "one line each"


@pytest.mark.usefixtures("quick_learning")
def test_a_method_that_reads_no_edge_states_epsilon_0(fraud: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "run"
    text = " ".join(call("mlp", *fraud, "--epsilon", "4", "--out", str(out), "--metric", "f1").split())
    assert "guarantee of one fit epsilon = 0 at edge level, whatever epsilon is asked for" in text
    assert "spent nothing: no edge is read" in text
    page = (out / "certificate.md").read_text()
    assert (
        "| Guarantee | epsilon = 0: nothing that is protected is read (asked for: epsilon = 4, delta = 1e-05) |" in page
    )
    assert json.loads((out / "run.json").read_text())["settings"]["metric"] == "f1"


def test_class_probabilities_from_a_file_are_used_and_asked_for_again(tmp_path: Path) -> None:
    graph = cb.datasets.load("csbm:nodes=60", seed=0)
    prior = np.random.default_rng(0).dirichlet(np.ones(4), 60)
    np.savez(tmp_path / "prior.npz", id=np.arange(60), **{str(k): prior[:, k] for k in range(4)})
    cb.write_graph(graph, tmp_path / "g.npz")
    out = run(
        "train", "mlp", "--graph", tmp_path / "g.npz", "--prior", tmp_path / "prior.npz", "--out", tmp_path / "run"
    )
    assert out.returncode == 0, out.stderr
    model = cb.load(tmp_path / "run")
    assert np.allclose(model.predict_proba(), prior)
    assert "given prior" in {a.name.value for a in model.certificate.assumptions}
    other = ("predict", tmp_path / "run", "--graph", tmp_path / "g.npz", "--release", "--out", tmp_path / "p.csv")
    assert "graph must come with class probabilities" in run(*other).stderr
    assert run(*other, "--prior", tmp_path / "prior.npz").returncode == 0
    assert (
        "must go with --graph" in run(*other[:2], "--out", tmp_path / "q.csv", "--prior", tmp_path / "prior.npz").stderr
    )
    assert (
        "prior must go with a method at edge level that starts from class probabilities"
        in run("train", "sage-edp", "--graph", tmp_path / "g.npz", "--prior", tmp_path / "prior.npz").stderr
    )
    assert "file not found" in run("train", "mlp", "--graph", tmp_path / "g.npz", "--prior", tmp_path / "no.csv").stderr


def test_train_loads_no_attack_and_no_page(tmp_path: Path) -> None:
    code = f"""
import sys
from caribou.cli import main
sys.argv = ["caribou", "train", "mlp", "--dataset", "csbm:nodes=60", "--set", "hidden=[4]", "--out", {str(tmp_path / "run")!r}]
try:
    main()
except SystemExit as stop:
    assert not stop.code
print(*(name for name in sys.modules if name.startswith("caribou.audit") or name == "caribou.pages.release"))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""
    assert not (tmp_path / "run" / "certificate.html").exists()
