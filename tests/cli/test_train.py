"""``caribou train`` as a user types it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import caribou as cb
from caribou.cli.train import parse_settings
from caribou.errors import InputError
from caribou.methods import METHODS
from cli_support import caribou, refusal


@pytest.mark.usefixtures("quick_learning")
@pytest.mark.parametrize("method", ["votes-edp", "caribou-inf", "votes-ndp", "mlp"])
def test_a_method_by_name(method: str) -> None:
    """The commands of the paper's artifact give every method an epsilon, also those that have no use for one."""
    private = METHODS[method].private
    done = caribou("train", method, "--dataset", "chain-s", "--epsilon", 8, "--seeds", 2, "--json")
    assert (f"epsilon is not used by {method}" in done.stderr) == (not private)
    document = done.document
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
        files = ("--graph", tmp_path / "e.csv", "--nodes", tmp_path / "n.csv")
        refused = refusal("train", "mlp-dp", *files)
        assert "classes must be declared at node level" in refused
        assert "--classes a,b,c" in refused
        out = tmp_path / f"run{number}"
        caribou("train", "mlp-dp", *files, "--classes", "a,b", "--range", "*=0:4", "--out", out)
        record = json.loads((out / "run.json").read_text())
        certificate = json.loads((out / "certificate.json").read_text())
        runs.append((record["classes"], record["columns"], certificate["public_parameters"], certificate["mechanisms"]))
    assert runs[0][0] == ["a", "b"]
    assert runs[0] == runs[1] == runs[2]
    assert "test accuracy" in caribou("train", "mlp", *files).stdout, "at edge level classes may be read from labels"


def test_a_misspelt_class_is_refused_before_anything_is_charged(fraud: tuple[str, ...], tmp_path: Path) -> None:
    """Its nodes would count as unlabelled, and the other class would be all that is learned. At edge level labels are public."""
    ledger, out = tmp_path / "ledger.sqlite", tmp_path / "run"
    train = ("train", "votes-edp", *fraud, "--ledger", ledger, "--out", out)
    refused = refusal(*train, "--classes", "ok,fruad")
    assert "column 'label' must hold the declared classes 'ok', 'fruad', got 'fraud'" in refused
    assert "--unknown fraud if it is no label" in refused
    refused = refusal(*train, "--classes", "ok,fruad", "--unknown", "fraud")
    assert "split.train must hold labels of at least 2 classes" in refused
    assert not ledger.exists()
    assert not out.exists()


def test_where_a_fit_is_charged_is_said(fraud: tuple[str, ...], tmp_path: Path) -> None:
    train = ("train", "gap-edp", *fraud, "--set", "hops=1")
    assert "nowhere: no ledger was given (--ledger)" in caribou(*train).stdout
    assert "nowhere" not in caribou(*train, "--ledger", tmp_path / "ledger.sqlite").stdout
    assert "\ncharged" not in caribou("train", "mlp", *fraud).stdout, "nothing is spent"


def test_settings_are_numbers_words_or_errors() -> None:
    assert parse_settings(["a=1", "b=0.5", "c=word", "d=true"]) == {"a": 1, "b": 0.5, "c": "word", "d": True}
    with pytest.raises(InputError, match="key=value"):
        parse_settings(["nothing"])


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


PRIVATE = ("--classes", "ok,fraud", "--epsilon", 4, "--range", "*=-6:6")
"""What node level asks for on these tables."""


@pytest.mark.usefixtures("quick_learning")
def test_metrics_of_a_rare_class_are_printed_and_stored(fraud: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "run"
    text = caribou("train", "votes-edp", *fraud, "--metric", "ap", "--out", out, "--no-ids", "--no-rows").words
    assert "(always the most frequent class: 90.0%)" in text
    assert "rare class fraud: precision" in text
    assert "average precision" in text
    assert "p_fraud >=" in text
    assert re.search(r"flagged test nodes \d+: precision \d.\d+, recall \d.\d+, F1 \d.\d+ ", text)
    assert "not protected attributes and labels of the nodes" in text
    record = json.loads((out / "run.json").read_text())
    assert record["settings"]["metric"] == "average_precision"
    assert record["threshold"]["positive"] == "fraud"
    assert not (out / "nodes.json").exists(), "--no-ids"
    assert "rows none are kept: in another graph, labelled nodes of this one count as new" in text
    assert cb.load(out).state.weights["prior.known.digests"].size == 0, "--no-rows"
    assert "acc1" not in "".join(path.read_text() for path in out.glob("*.[jm]*"))
    document = caribou("train", "mlp", *fraud, "--positive", "ok", "--json").document
    assert document["test_metrics"]["accuracy"] == document["test_accuracy"]["mean"]
    assert document["test_metrics"]["per_class"]["fraud"]["support"] == 4
    assert document["threshold"]["class"] == "ok"
    reached = document["threshold"]["test"]
    assert reached["f1"] == pytest.approx(2 / (1 / reached["precision"] + 1 / reached["recall"]))
    assert len(document["test_accuracy"]["runs"]) == 1, "one fit unless more are asked for"


def test_a_run_without_a_threshold_asks_for_the_class_that_is_flagged(fraud: tuple[str, ...], tmp_path: Path) -> None:
    """At node level no threshold is chosen, and no class is the flagged one by accident."""
    caribou("train", "mlp-dp", *fraud, *PRIVATE, "--out", tmp_path / "r")
    command = ("predict", tmp_path / "r", *fraud, "--training-graph", "--out", tmp_path / "p.csv", "--threshold", 0.2)
    asked = refusal(*command)
    assert "positive must be given with --threshold" in asked
    assert "(--positive ok)" in asked
    assert "positive must be one of the classes ok, fraud" in refusal(*command, "--positive", "theft")
    assert "flagged: p_fraud >= 0.2 (as given)" in caribou(*command, "--positive", "fraud").stdout


BAD_FLAGS = [
    ("train gcn --dataset csbm", "method must be one of"),
    ("train votes-edp", "give either --dataset NAME or --graph FILE"),
    ("train votes-edp --dataset chains", "dataset must be one of"),
    ("train votes-edp --dataset csbm --epsilon -1", "epsilon must be a number > 0"),
    ("train votes-edp --dataset csbm --delta 1", "delta must be in the open interval (0, 1), got 1.0"),
    ("train votes-edp --dataset csbm --seeds 0", "seeds must be a whole number in [1, 10000], got 0"),
    ("train votes-ndp --dataset csbm --metric ap", "metric must be accuracy at node level"),
    ("train votes-edp --graph missing.csv", "missing.csv: file not found"),
    ("train votes-edp --dataset csbm --out no/such/folder", "in a folder that exists"),
    ("train mlp --dataset csbm --publish-metrics 1", "publish_metrics must go with a method at node level"),
    ("train votes-edp --dataset csbm --page", "page must go with --out"),
    ("train votes-edp --dataset csbm --nonsense", "No such option: --nonsense"),
]
"""What is found before torch is loaded."""


def test_bad_flags_are_one_line(tmp_path: Path) -> None:
    for typed, message in BAD_FLAGS:
        assert message in refusal(*typed.split(), cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_bad_flags_are_found_before_torch_is_loaded(tmp_path: Path) -> None:
    """One process for all of them: what is not loaded after the last was loaded by none."""
    code = (
        "import json, sys\nfrom caribou.cli import main\nloaded = []\n"
        f"for typed in {[typed for typed, _ in BAD_FLAGS]!r}:\n"
        "    sys.argv = ['caribou', *typed.split()]\n"
        "    try:\n        main()\n    except SystemExit as stop:\n        assert stop.code == 2, typed\n"
        "    loaded.append('torch' in sys.modules)\n"
        "print(json.dumps(loaded))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout) == [False] * len(BAD_FLAGS)


def test_class_probabilities_from_a_file_are_used_and_asked_for_again(tmp_path: Path) -> None:
    graph = cb.datasets.load("csbm:nodes=60", seed=0)
    prior = np.random.default_rng(0).dirichlet(np.ones(4), 60)
    pd.DataFrame({"id": range(60), **{str(k): prior[:, k] for k in range(4)}}).to_csv(
        tmp_path / "prior.csv", index=False
    )
    cb.write_graph(graph, tmp_path / "g.npz")
    given, file = ("--prior", tmp_path / "prior.csv"), ("--graph", tmp_path / "g.npz")
    caribou("train", "mlp", *file, *given, "--out", tmp_path / "run")
    model = cb.load(tmp_path / "run")
    assert np.allclose(model.predict_proba(), prior)
    assert "given prior" in {a.name.value for a in model.certificate.assumptions}
    other = ("predict", tmp_path / "run", *file, "--release", "--out", tmp_path / "p.csv")
    assert "graph must come with class probabilities" in refusal(*other)
    caribou(*other, *given)
    assert "must go with --graph" in refusal("predict", tmp_path / "run", *given, "--out", tmp_path / "q.csv")


def test_train_loads_no_attack_and_no_page(tmp_path: Path) -> None:
    code = f"""
import sys
from caribou.cli import main
sys.argv = ["caribou", "train", "mlp-dp", "--dataset", "csbm:nodes=60", "--out", {str(tmp_path / "run")!r}]
try:
    main()
except SystemExit as stop:
    assert not stop.code
print(*(name for name in sys.modules if name.startswith("caribou.audit") or name == "caribou.pages.release"))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""
    assert not (tmp_path / "run" / "certificate.html").exists()
