"""Chosen settings as a file: what is written is what is read, and the nearest searched epsilon counts."""

from __future__ import annotations

import math
from pathlib import Path

from reproduction.tuned import TunedSettings, nearest_settings, read_settings, write_settings

GAP = TunedSettings("gap-edp", "cora", 4.0, {"hops": 2, "hidden": [32]}, 0.812, 0.79, 8, (0, 1), "0.1.0")
INF = TunedSettings("gap-inf", "cora", math.inf, {}, 0.9, 0.9, 8, (0,), "0.1.0")
VOTES = TunedSettings("votes-ndp", "photo", 1.0, {"base": {"clip": 0.2, "train_size": 200}, "plan": {}}, 0.5, None, 8)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    write_settings(file, [VOTES, INF, GAP])
    assert read_settings(file) == [GAP, INF, VOTES]  # sorted by data set, method, epsilon
    first = file.read_text()
    write_settings(file, read_settings(file))
    assert file.read_text() == first


def test_the_nearest_searched_epsilon(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    at = {e: TunedSettings("gap-edp", "cora", e, {"hops": 1}, 0.7, 0.7, 8) for e in (1.0, 4.0, 16.0)}
    mlp = TunedSettings("mlp", "cora", math.inf, {"hidden": []}, 0.7, 0.7, 8)
    write_settings(file, [*at.values(), INF, mlp])
    for epsilon, found in ((0.1, 1.0), (1.9, 1.0), (2.0, 1.0), (2.1, 4.0), (8.0, 4.0), (9.0, 16.0), (99, 16.0)):
        assert nearest_settings("gap-edp", "cora", epsilon, file) == at[found]
    assert nearest_settings("gap-inf", "cora", math.inf, file) == INF
    assert nearest_settings("gap-edp", "photo", 4.0, file) == TunedSettings("gap-edp", "photo", 4.0)  # not searched
    for epsilon in (1, math.inf):
        assert nearest_settings("mlp", "cora", epsilon, file) == mlp, "what spends nothing has one entry"
