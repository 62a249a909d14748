"""The progress line: silent for a second, then how far it is and how long it takes."""

from __future__ import annotations

import io

import pytest

from caribou.cli.progress import ProgressLine, fit_progress
from caribou.models.progress import tell


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def line_at(out: io.StringIO, planned: int) -> tuple[ProgressLine, list[float]]:
    now = [0.0]
    return ProgressLine("votes-edp", planned, out, clock=lambda: now[0]), now


def test_nothing_for_a_second_then_a_line_whenever_the_time_has_doubled() -> None:
    out = io.StringIO()
    line, now = line_at(out, 1)
    for step in range(1, 101):
        now[0] = step / 10
        line.step("encoder", step, 100)
    lines = out.getvalue().splitlines()
    assert lines[0] == "votes-edp, encoder 10 of 100, about 8.1 s left"
    assert [text.split()[2] for text in lines] == ["10", "20", "40", "80"]


def test_time_left_is_that_of_all_fits_once_one_is_made() -> None:
    out = Terminal()
    line, now = line_at(out, 3)
    now[0] = 10.0
    line.advance()
    now[0] = 12.0
    line.step("rounds", 4, None)
    assert "votes-edp: 1 of 3 done, about 20 s left" in out.getvalue()
    assert out.getvalue().endswith("votes-edp: 1 of 3 done, rounds 4, about 24 s left")
    line.clear()
    assert out.getvalue().endswith("\r"), "a terminal keeps nothing of it"


def test_a_fit_is_listened_to_only_where_its_steps_may_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trials of a private search are hidden: how many encoders are fitted would tell their number."""
    told: list[str] = []
    monkeypatch.setattr(ProgressLine, "step", lambda self, stage, done, planned: told.append(self.title))
    for stages in (True, False):
        with fit_progress(f"stages {stages}", 1, stages=stages) as advance:
            tell("encoder", 1, 400)
            advance()
    assert told == ["stages True"]
