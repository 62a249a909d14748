"""``caribou plan``: the rows that are documented, the paper's table, pictures, and one line for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_support import run


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


def test_plan_at_node_level_states_epsilon_by_degree() -> None:
    """Every edge read, headline up to a degree; with all nodes covered the largest degree pays the headline."""
    some = plan(
        "--unit", "node", "--epsilon", "4", "--nodes", "2708", "--degree-floor", "10", "--declared-degree", "30"
    )
    curve = dict(map(tuple, some["epsilon_by_degree"]))
    assert list(curve) == [0, 1, 2, 5, 10, 20, 30, 50, 100, 1000, 2707]
    assert list(curve.values()) == sorted(curve.values())
    assert curve[30] == pytest.approx(4, rel=1e-6)
    assert curve[20] < 4 < curve[50]
    everybody = plan("--unit", "node", "--epsilon", "4", "--nodes", "2708")
    assert everybody["degree_floor"] == 105
    assert everybody["epsilon_by_degree"][-1] == [2707, pytest.approx(4, rel=1e-6)]
    shown = run("plan", "--unit", "node", "--nodes", "2708", "--degree-cap", "20").stdout
    assert "epsilon of a node by its degree, in every graph; the headline holds up to degree 20" in " ".join(
        shown.split()
    )
    assert plan("--hops", "1")["epsilon_by_degree"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hops", "0"], "hops must be whole numbers >= 1"),
        (["--epsilon", "-1"], "epsilon must be a number > 0"),
        (["--epsilon", "inf"], "epsilon must be finite"),
        (["--unit", "graph"], "unit must be one of edge, node"),
        (["--unit", "node"], "nodes must be given at node level"),
        (
            ["--unit", "node", "--degree-cap", "5", "--declared-degree", "6"],
            "declared_degree must be at most degree_cap",
        ),
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


def test_plan_of_months_at_both_units() -> None:
    for unit, ways in (("edge", 5), ("node", 3)):
        document = plan("--months", "12", "--unit", unit, "--epsilon", "8")
        assert (document["months"], len(document["plans"])) == (12, ways)
        assert all(p["presence"] <= 8 * (1 + 1e-9) < p["replacement"] for p in document["plans"])
    said = run("plan", "--months", "12", "--epsilon", "8").stdout
    assert "fit once, extend" in said
    assert "nothing" in said


def test_a_plan_for_a_risk() -> None:
    """The epsilon follows from what an attacker may find, and the plan says for which noise."""
    document = plan("--attack-rate", "0.1", "--at-fpr", "0.01", "--unit", "node", "--nodes", "1000")
    assert document["unit"] == "node"
    assert document["epsilon"] == document["epsilon_for_risk"]["gaussian"] == pytest.approx(4.605, abs=1e-3)
    assert document["epsilon_for_risk"]["any"] == pytest.approx(2.302, abs=1e-3)
    assert "finds at most 10 of 100 at epsilon = 4.61 with Gaussian noise" in document["notes"][0]
    assert "must not go with --epsilon" in run("plan", "--attack-rate", "0.1", "--epsilon", "4").stderr
    assert "which an attacker reaches by guessing" in run("plan", "--attack-rate", "0.005").stderr
