"""The commands as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CARIBOU = Path(sys.executable).with_name("caribou")


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(CARIBOU), *arguments], capture_output=True, text=True, cwd=cwd, timeout=120, check=False, env=None
    )


def plan(*arguments: str) -> dict:
    done = run("plan", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_plan_json_has_the_documented_rows() -> None:
    flags = "--unit edge --epsilon 4 --delta 1e-5 --hops 1,2,4,8,16,32,64,128 --contraction 0.9 --alpha1 1.0 --degree-floor 10"
    document = plan(*flags.split())
    rows = document["rows"]
    assert [row["hops"] for row in rows] == [1, 2, 4, 8, 16, 32, 64, 128]
    for row in rows:
        assert row.keys() >= {
            "hops",
            "kappa",
            "sensitivity",
            "mu",
            "noise_std",
            "noise_multiplier",
            "rdp_noise_multiplier",
            "linear_noise_multiplier",
        }
        assert row["sensitivity"] == pytest.approx(0.9 * 0.18493, rel=1e-4)
        assert row["noise_std"] == pytest.approx(row["noise_multiplier"] * row["sensitivity"])
        assert row["noise_multiplier"] < row["rdp_best_noise_multiplier"] <= row["rdp_noise_multiplier"]
        assert row["rdp_noise_multiplier"] <= row["linear_noise_multiplier"] * (1 + 1e-12)
    assert rows[0]["noise_multiplier"] == pytest.approx(1.0812, abs=1e-4)
    assert rows[-1]["kappa"] == pytest.approx(19, abs=1e-3)


def test_plan_reproduces_the_noise_table_of_the_paper() -> None:
    rows = plan("--epsilon", "4", "--delta", "1e-3", "--contraction", "0.9")["rows"]
    assert rows[0]["rdp_noise_multiplier"] == pytest.approx(1.07, abs=0.005)
    assert rows[-1]["rdp_noise_multiplier"] == pytest.approx(4.67, abs=0.005)
    assert rows[-1]["linear_noise_multiplier"] == pytest.approx(12.11, abs=0.005)


def test_plan_at_node_level_and_where_the_fixed_order_is_infeasible() -> None:
    document = plan("--unit", "node", "--epsilon", "1", "--degree-cap", "20", "--nodes", "2708", "--alpha1", "0.8")
    assert document["degree_floor"] == 20
    assert document["rows"][0]["rdp_fixed_noise_multiplier"] is None
    assert document["rows"][0]["rdp_noise_multiplier"] == document["rows"][0]["rdp_best_noise_multiplier"]
    assert any("Order 6" in note for note in document["notes"])


def test_plan_draws_a_picture(tmp_path: Path) -> None:
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        path = tmp_path / f"plot{suffix}"
        done = run("plan", "--plot", str(path))
        assert done.returncode == 0, done.stderr
        assert path.read_bytes().startswith(magic)
    assert len(list(tmp_path.iterdir())) == 3


def test_plan_table_for_people() -> None:
    done = run("plan", "--hops", "1,128")
    assert done.returncode == 0
    assert "epsilon = 4, delta = 1e-05 at edge level" in done.stdout
    assert "128" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hops", "0"], "hops must be whole numbers >= 1"),
        (["--hops", "1,,2"], "hops must be"),
        (["--hops", "a"], "hops must be"),
        (["--epsilon", "-1"], "epsilon must be a number > 0"),
        (["--epsilon", "nan"], "epsilon must be"),
        (["--epsilon", "inf"], "epsilon must be finite"),
        (["--delta", "1"], "delta must be in the open interval"),
        (["--delta", "0"], "delta must be"),
        (["--contraction", "1.2"], "contraction must be in (0, 1], got 1.2"),
        (["--contraction", "0"], "contraction must be"),
        (["--alpha1", "1.5"], "alpha1 must be in [0, 1]"),
        (["--unit", "graph"], "unit must be one of edge, node"),
        (["--unit", "node"], "degree_cap must be"),
        (["--unit", "node", "--degree-cap", "5", "--alpha1", "0.5"], "nodes must be given"),
        (["--degree-floor", "-1"], "degree_floor must be"),
        (["--rdp-order", "1"], "rdp_order must be"),
        (["--plot", "x.txt"], "plot must end in"),
        (["--plot", "/nowhere/x.png"], "plot must be in a folder that exists"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = run("plan", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_zero_alpha_needs_no_noise() -> None:
    assert plan("--alpha1", "0", "--hops", "3")["rows"][0]["noise_std"] == 0


def test_datasets_lists_everything(tmp_path: Path) -> None:
    done = run("datasets", "--json")
    assert done.returncode == 0, done.stderr
    names = {entry["name"]: entry for entry in json.loads(done.stdout)["datasets"]}
    assert names.keys() >= {
        "chain-s",
        "chain-m",
        "chain-l",
        "chain-x",
        "csbm",
        "cora",
        "citeseer",
        "pubmed",
        "photo",
        "computers",
        "facebook",
        "reddit2",
        "arxiv",
    }
    assert names["cora"]["nodes"] == 2708
    assert run("datasets").returncode == 0
    missing = run("datasets", "--data-dir", str(tmp_path / "none"))
    assert missing.returncode == 2
    assert missing.stderr.startswith("error: ")


def test_verify_accepts_the_honest_and_refuses_the_tampered(tmp_path: Path) -> None:
    import caribou as cb

    graph = cb.datasets.load("csbm:nodes=80", seed=2)
    layer, bounds = cb.ContractiveGraphLayer(0.8), cb.Bounds(degree_floor=5)
    certificate = cb.release(graph, layer, hops=3, budget=cb.Budget(2), bounds=bounds).certificate
    path = tmp_path / "certificate.json"
    certificate.save(path)
    done = run("verify", str(path))
    assert done.returncode == 0, done.stdout
    assert "verified" in done.stdout
    document = json.loads(run("verify", str(path), "--json").stdout)
    assert document["verified"] is True
    assert document["epsilon_pld"] == pytest.approx(2.0, abs=2e-3)

    record = json.loads(path.read_text())
    record["epsilon"] = record["epsilon_spent"] = 1.0
    path.write_text(json.dumps(record))
    done = run("verify", str(path))
    assert done.returncode == 3
    assert "NOT VERIFIED" in done.stdout
    assert json.loads(run("verify", str(path), "--json").stdout)["verified"] is False

    void = cb.release(graph, layer, hops=3, budget=cb.Budget(2), bounds=bounds, noise=cb.NoiseSource.seeded(1))
    void.certificate.save(path)
    assert run("verify", str(path)).returncode == 3
    path.write_text("{")
    done = run("verify", str(path))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")


def test_ledger_from_the_outside(tmp_path: Path) -> None:
    assert run("ledger", "show", cwd=tmp_path).returncode == 2
    assert list(tmp_path.iterdir()) == []
    assert run("ledger", "budget", "survey", "--epsilon", "2", "--unit", "edge", cwd=tmp_path).returncode == 0
    added = run("ledger", "add", "survey", "--epsilon", "1.5", "--unit", "edge", cwd=tmp_path)
    assert added.returncode == 0, added.stderr
    refused = run("ledger", "add", "survey", "--epsilon", "1.5", "--unit", "edge", cwd=tmp_path)
    assert refused.returncode == 2
    assert "survey" in refused.stderr
    shown = json.loads(run("ledger", "show", "--json", cwd=tmp_path).stdout)
    (entry,) = shown["datasets"]
    assert entry["name"] == "survey"
    assert entry["releases"] == 1
    assert entry["epsilon_spent"] == pytest.approx(1.5, abs=1e-3)
    assert entry["epsilon_budget"] == 2


def test_methods_lists_them_and_their_settings() -> None:
    from caribou.methods import METHODS

    listed = json.loads(run("methods", "--json").stdout)["methods"]
    assert [row["method"] for row in listed] == list(METHODS)
    one = json.loads(run("methods", "votes-edp", "--json").stdout)
    assert one["settings"]["max_rounds"] == 60
    assert "round_confidence" in one["space"]
    assert "max_rounds = 60" in run("methods", "votes-edp").stdout
    assert "method must be one of" in run("methods", "nothing").stderr


def test_doctor_and_version() -> None:
    report = json.loads(run("doctor", "--json").stdout)
    assert report["versions"]["torch"].startswith("2.")
    assert report["noise"]["self-test"] == "ok"
    assert run("--version").stdout.startswith("caribou ")


def test_unknown_commands_and_a_closed_pipe() -> None:
    assert run("fly").returncode == 2
    piped = subprocess.run(
        f"{CARIBOU} plan --json | head -c 1", shell=True, capture_output=True, text=True, check=False
    )
    assert piped.stdout == "{"
    assert "Traceback" not in piped.stderr


@pytest.mark.slow
def test_the_demo_runs(tmp_path: Path) -> None:
    demo = Path(__file__).parents[1] / "examples" / "demo.py"
    done = subprocess.run(
        [sys.executable, str(demo)], capture_output=True, text=True, cwd=tmp_path, timeout=550, check=False
    )
    assert done.returncode == 0, done.stderr
    output = tmp_path / "demo-output"
    files = {"accuracy.png", "caribou-edp", "convergence.png", "ledger.sqlite", "votes-edp"}
    assert {p.name for p in output.iterdir()} == files
    assert "verified: epsilon = 4" in done.stdout
    assert "a third fit is refused" in done.stdout
