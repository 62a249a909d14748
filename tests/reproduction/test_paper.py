"""The published tables as data."""

from __future__ import annotations

from reproduction import paper


def test_the_paper_has_no_costs_without_privacy() -> None:
    assert paper.overhead("seconds_3_runs", "gap-edp", "cora") is not None
    assert paper.overhead("seconds_3_runs", "gap-inf", "cora") is None


def test_entries_of_the_printed_tables() -> None:
    assert paper.accuracy("top1", "caribou-edp", "computers", 1) == 92.0
    assert paper.accuracy("mean", "caribou-edp", "cora", 1) == 84.3
    assert paper.accuracy("mean", "votes-edp", "cora", 1) is None, "the paper has no votes"
    assert paper.attack_auc("linkteller", "berkeley13", "inf") == 0.977, "Berkeley13 stands in for Facebook"
