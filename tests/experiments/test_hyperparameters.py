"""Chosen settings as a file: what is written is what is read, and a missing entry says what there is."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from caribou.errors import InputError
from caribou.experiments.hyperparameters import (
    TunedSettings,
    nearest_settings,
    read_settings,
    tuned_settings,
    write_settings,
)

GAP = TunedSettings("gap-edp", "cora", 4.0, {"hops": 2, "hidden": [32]}, 0.812, 0.79, 8, (0, 1), "0.1.0")
INF = TunedSettings("gap-inf", "cora", math.inf, {}, 0.9, 0.9, 8, (0,), "0.1.0")
VOTES = TunedSettings(
    "votes-ndp", "photo", 1.0, {"base": {"clip": 0.2, "choose_shrinkage": True}, "plan": {}}, 0.5, None, 8
)
NONE = TunedSettings("mlp", "pubmed", math.inf)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    write_settings(file, [VOTES, NONE, INF, GAP])
    assert read_settings(file) == [GAP, INF, VOTES, NONE]  # sorted by data set, method, epsilon
    assert [path.name for path in tmp_path.iterdir()] == ["settings.toml"]
    first = file.read_text()
    write_settings(file, read_settings(file))
    assert file.read_text() == first


def test_an_entry_is_found_or_the_nearest_are_named(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    further = [TunedSettings("gap-edp", "cora", e, {"hops": 1}, 0.7, 0.7, 8) for e in (0.5, 16.0, 32.0)]
    write_settings(file, [GAP, INF, *further])
    assert tuned_settings("gap-edp", "cora", 4, file) == GAP
    assert tuned_settings("gap-inf", "cora", math.inf, file) == INF
    with pytest.raises(InputError) as wrong_epsilon:
        tuned_settings("gap-edp", "cora", 20, file)
    words = str(wrong_epsilon.value)
    assert words.index("epsilon = 16") < words.index("epsilon = 32") < words.index("epsilon = 4")
    assert "epsilon = 0.5" not in words
    with pytest.raises(InputError, match=r"got .* with gap-edp on cora at epsilon = 4"):
        tuned_settings("gap-edp", "photo", 4, file)
    with pytest.raises(InputError, match="gap-inf on cora at epsilon = inf"):
        tuned_settings("gap-inf", "photo", math.inf, file)
    write_settings(file, [])
    with pytest.raises(InputError, match="with nothing"):
        tuned_settings("gap-edp", "cora", 4, file)


def test_the_nearest_searched_epsilon(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    at = {e: TunedSettings("gap-edp", "cora", e, {"hops": 1}, 0.7, 0.7, 8) for e in (1.0, 4.0, 16.0)}
    write_settings(
        file, [*at.values(), TunedSettings("gap-edp", "cora", 8.0), TunedSettings("gap-edp", "photo", 4.0), INF]
    )
    for epsilon, found in (
        (0.1, 1.0),
        (1.0, 1.0),
        (1.9, 1.0),
        (2.0, 1.0),
        (2.1, 4.0),
        (8.0, 4.0),
        (9.0, 16.0),
        (99, 16.0),
    ):
        assert nearest_settings("gap-edp", "cora", epsilon, file) == at[found]
    assert nearest_settings("gap-inf", "cora", math.inf, file) == INF
    assert nearest_settings("gap-edp", "photo", 4.0, file) == TunedSettings("gap-edp", "photo", 4.0)  # not searched


def test_a_method_that_spends_nothing_has_one_entry_for_every_epsilon(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    write_settings(file, [entry := TunedSettings("mlp", "cora", math.inf, {"hidden": []}, 0.7, 0.7, 8)])
    for epsilon in (1, 4.0, math.inf):
        assert tuned_settings("mlp", "cora", epsilon, file) == nearest_settings("mlp", "cora", epsilon, file) == entry


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[tuned]\n", "must be TOML"),
        ("x = 1\n", "list of"),
        ("tuned = 3\n", "list of"),
        ('[[tuned]]\nmethod = "mlp"\ndataset = "cora"\n', "entry must have method, dataset, epsilon"),
        ('[[tuned]]\nmethod = "mlp"\ndataset = "cora"\nepsilon = 1.0\nhops = 2\n', "entry 1"),
        ('[[tuned]]\nmethod = "mlp"\ndataset = "cora"\nepsilon = -1.0\n', "epsilon must be .* entry 1"),
        ('[[tuned]]\nmethod = "mlp"\ndataset = "cora"\nepsilon = nan\n', "epsilon must be"),
        ('[[tuned]]\nmethod = "mlp"\ndataset = "cora"\nepsilon = 1.0\nsettings = 3\n', "settings must be a table"),
        ('[[tuned]]\nmethod = "mlp"\ndataset = "cora"\nepsilon = 1.0\nseeds = 3\n', "seeds must be a list"),
        ('[[tuned]]\nmethod = "mlp"\ndataset = "cora"\nepsilon = 1.0\ntried = 8\n', "validation_accuracy must go"),
        ('[[tuned]]\nmethod = 3\ndataset = "cora"\nepsilon = 1.0\n', "method must be a word"),
        ('[[tuned]]\nmethod = "mlp"\ndataset = "cora"\nepsilon = 1.0\n' * 2, "second one in .* entry 2"),
    ],
)
def test_a_broken_file_says_where(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=words):
        read_settings(file)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="settings must be a file that can be read"):
        read_settings(tmp_path / "none.toml")
    with pytest.raises(InputError, match="can be written"):
        write_settings(tmp_path / "no folder" / "settings.toml", [GAP])
    kept = tmp_path / "settings.toml"
    write_settings(kept, [GAP])
    with pytest.raises(InputError, match="a setting must be"):
        write_settings(kept, [TunedSettings("mlp", "cora", 1.0, {"hidden": None})])
    assert read_settings(kept) == [GAP]
    assert [path.name for path in tmp_path.iterdir()] == ["settings.toml"]
