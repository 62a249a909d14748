"""``caribou methods``: every method, and the settings of one."""

from __future__ import annotations

import json

from cli_support import run


def test_methods_lists_them_and_their_settings() -> None:
    from caribou.methods import METHODS

    listed = json.loads(run("methods", "--json").stdout)["methods"]
    assert [row["method"] for row in listed] == list(METHODS)
    one = json.loads(run("methods", "votes-edp", "--json").stdout)
    assert one["settings"]["max_rounds"] == 60
    assert "round_confidence" in one["space"]
    assert "max_rounds = 60" in run("methods", "votes-edp").stdout
    assert "method must be one of" in run("methods", "nothing").stderr
