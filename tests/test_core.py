"""The core without the extra ``[train]``: planning, verifying, ledgers and tables need no torch, and what does says so."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import caribou as cb
from caribou.errors import CPU_BUILD, TRAINING, MissingExtra, needs_training, require_training

ROOT = Path(__file__).parents[1]
BLOCKED = (*TRAINING, "sklearn", "ray", "duckdb", "psycopg", "polars")
"""Everything that an extra installs, and the core must not import."""
WITHOUT = f"""
import contextlib, io, json, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())

def command(*words):
    from caribou.cli import main
    out, err, sys.argv = io.StringIO(), io.StringIO(), ["caribou", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0), out.getvalue(), err.getvalue()

def raised(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)

words, names = json.loads(sys.argv[1])
done = [command(*each) for each in words]
import caribou
json.dump([done, {{name: raised(lambda name=name: eval(name, {{"cb": caribou}})) for name in names}}], sys.stdout)
"""


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("core") / "run"
    cb.Model("mlp-dp", cb.Budget(4, 1e-5, "node")).fit(cb.datasets.load("csbm", nodes=60, seed=1)).save(folder)
    return folder


def test_what_the_core_does_and_what_it_refuses(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("a,b\n1,2\n2,3\n")
    (tmp_path / "nodes.csv").write_text("id,age,label\n1,3,x\n2,4,y\n3,5,x\n")
    (tmp_path / "study.toml").write_text(
        'title = "t"\nkind = "train"\n[[grid]]\nmethod = "mlp"\ndataset = "chain-s"\nepsilon = 4\nseeds = 1\n'
    )
    ledger = ("--ledger", str(tmp_path / "ledger.sqlite"))
    tables = ("--graph", str(tmp_path / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv"))
    small = ("--dataset", "csbm:nodes=50")
    works = [
        ("--help",),
        ("plan", "--json"),
        ("plan", "--attack-rate", "0.1", "--at-fpr", "0.01"),
        ("verify", str(run_folder)),
        ("certificate", str(run_folder), "--markdown"),
        ("ledger", "budget", "x", "--epsilon", "8", "--unit", "node", *ledger),
        ("ledger", "add", "x", "--certificate", str(run_folder / "certificate.json"), *ledger),
        ("ledger", "show", *ledger),
        ("inspect", *tables),
        ("methods",),
        ("datasets",),
        ("audit", "--list"),
        ("doctor", "--json"),
    ]
    before_torch = {  # a wrong argument, and a word of what is said about it
        ("train", "nothing", *small): "method must be one of",
        ("train", "votes-edp", "--dataset", "csbm:nodes=many"): "nodes must be a whole number, got 'many'",
        ("train", "votes-edp", *small, "--epsilon", "-1"): "epsilon must be",
        ("train", "votes-edp", *small, "--seeds", "0"): "seeds must be",
        ("tune", "votes-edp", *small, "--trials", "0"): "trials must be",
        ("audit", "votes-edp", "--attack", "guess"): "attack must be one of",
        ("audit", "votes-edp", "--runs", "3"): "runs must be",
        ("audit", "votes-edp", "--attack", "lira"): "dataset must be given for the attack lira",
        ("predict", str(tmp_path / "none"), "--out", "p.csv"): "run must be a folder",
    }
    refused = [
        ("train", "votes-edp", *small),
        ("predict", str(run_folder), "--out", str(tmp_path / "p.csv"), *tables),
        ("audit", "votes-edp", "--attack", "distinguish"),
        ("run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "results")),
    ]
    names = ["cb.Votes(cb.Budget(4))", "cb.propagate", "cb.GraphClassifier", "cb.datasets.load('chain-s').to_pyg()"]
    given = json.dumps([[*works, *before_torch, *refused], names])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, given], capture_output=True, text=True, check=True, timeout=500, cwd=tmp_path
    )
    results, errors = json.loads(done.stdout)
    for words, (code, out, err) in zip(works, results, strict=False):
        assert (code, bool(out)) == (0, True), (words, err)
    for (words, said), (code, _, err) in zip(before_torch.items(), results[len(works) :], strict=False):
        assert code == 2, words
        assert said in err, words
    sentence = (
        rf"needs torch, which is not installed: pip install 'caribou-gnn\[train\]' \(first {re.escape(CPU_BUILD)}"
    )
    for words, (code, _, err) in zip(refused, results[-len(refused) :], strict=True):
        lines = err.splitlines()
        assert code == 2, (words, err)
        assert re.search(sentence, lines[-1]), (words, err)
        assert lines[-1].startswith("error: "), words
    for name in names:
        kind, message = errors[name]
        assert kind == "MissingExtra", name
        assert re.search(sentence, message), name
    assert not (tmp_path / "results" / "study.jsonl").exists(), "no cell is recorded as failed for want of a package"
    assert json.loads(results[len(works) - 1][1])["kernels"]["torch"].startswith("training needs torch")


def test_other_missing_packages_are_not_taken_for_the_extra() -> None:
    with pytest.raises(ModuleNotFoundError) as error, needs_training("x"):
        raise ModuleNotFoundError("No module named 'pandas'", name="pandas")
    assert not isinstance(error.value, MissingExtra)
    require_training("x")  # it is installed where the tests run


def test_the_extra_is_what_the_message_says() -> None:
    """What `needs_training` knows is what ``[train]`` installs, and none of it is a dependency of the core."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = {re.split(r"[>=\[]", line)[0] for line in project["optional-dependencies"]["train"]}
    core = {re.split(r"[>=\[]", line)[0] for line in project["dependencies"]}
    assert extra == set(TRAINING.values())
    assert not core & set(BLOCKED)
