"""Where the paper's evaluation is: found from the current folder or the package upward, or said where was looked."""

from __future__ import annotations

from pathlib import Path

import pytest

from caribou.errors import InputError
from caribou.experiments import reproduction

ROOT = Path(__file__).parents[2]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package lies outside of every source tree."""
    package = tmp_path / "site-packages" / "caribou" / "experiments"
    package.mkdir(parents=True)
    monkeypatch.setattr(reproduction, "_starts", lambda: (Path.cwd(), package))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tree(folder: Path) -> Path:
    """A source tree as far as it counts."""
    found = folder / "reproduction"
    (found / "experiments").mkdir(parents=True)
    (found / "results").mkdir()
    (found / "__init__.py").write_text("")
    (found / "items.py").write_text("from reproduction import numbers\nITEMS = [numbers.ONE]\n")
    (found / "numbers.py").write_text("ONE = 1\n")
    (found / "experiments" / "table.toml").write_text("")
    return found


def test_ours_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for here in (tmp_path, ROOT, ROOT / "docs", ROOT / "reproduction", ROOT / "reproduction" / "experiments"):
        monkeypatch.chdir(here)
        found = reproduction.require()
        assert found.folder == ROOT / "reproduction"
        assert found.experiments.is_dir()
        assert found.results.is_dir()


def test_names_and_paths_of_experiments(elsewhere: Path) -> None:
    with pytest.raises(InputError, match="got 'table', which is no file; the paper's evaluation comes with the source"):
        reproduction.experiment_file("table")
    file = tree(elsewhere) / "experiments" / "table.toml"
    for given in ("table", "table.toml", "experiments/table.toml", file):
        assert reproduction.experiment_file(given).resolve() == file
    (elsewhere / "table").mkdir()  # a folder of that name is no experiment
    assert reproduction.experiment_file("table") == file
    with pytest.raises(InputError, match=r"got 'other', which is no file and no name of an experiment in .*--list"):
        reproduction.experiment_file("other")
