"""Progress: a bar on a terminal, now and then a line elsewhere, and nothing of what is hidden."""

from __future__ import annotations

import pytest

from caribou.cli import progress
from caribou.cli.progress import ProgressLine, fit_progress
from caribou.models.fit_context import tell


def test_without_a_terminal_a_line_stands_for_many_fits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for quiet, lines in ((0.0, ["grid: 1 of 2 done; last: 62.5%", "grid: 2 of 2 done"]), (60.0, [])):
        monkeypatch.setattr(progress, "QUIET", quiet)
        with ProgressLine("grid", 2) as line:
            line.step("encoder", 1, 10)
            line.advance("last: 62.5%")
            line.advance()
        shown = capsys.readouterr()
        assert (shown.out, shown.err.splitlines()) == ("", lines)


def test_a_fit_is_listened_to_only_where_its_steps_may_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trials of a private search are hidden: how many encoders are fitted would tell their number."""
    told: list[str] = []
    monkeypatch.setattr(ProgressLine, "step", lambda self, stage, done, planned: told.append(self.title))
    for stages in (True, False):
        with fit_progress(f"stages {stages}", 1, stages=stages) as advance:
            tell("encoder", 1, 400)
            advance()
    assert told == ["stages True"]
