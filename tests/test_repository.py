"""What is under version control: nothing large but records, and nothing that a command builds from something else."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WRITTEN = {".py", ".c", ".md", ".toml", ".yml", ".html", ".css"}
"""Endings of what people write; the rest is data, pictures and archives."""


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("no git repository: the list of files is not known")
    return [name for name in done.stdout.split("\0") if (ROOT / name).is_file()]


def test_nothing_is_large_but_records(tracked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("large_files", ROOT / "scripts" / "hooks" / "large_files.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    monkeypatch.chdir(ROOT)
    assert not hook.too_large(tracked)
    others = [name for name in tracked if not name.startswith(hook.RECORDS)]
    assert sum((ROOT / name).stat().st_size for name in others if Path(name).suffix not in WRITTEN) < 700_000
    assert sum((ROOT / name).stat().st_size for name in others) < 7_000_000


def test_pictures_are_those_that_a_page_shows(tracked: list[str]) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    pictures = [name for name in tracked if name.endswith((".png", ".svg", ".pdf", ".jpg"))]
    assert not [name for name in pictures if Path(name).name not in text]


def test_records_under_version_control_are_packed(tracked: list[str]) -> None:
    assert not [name for name in tracked if name.endswith(".jsonl")], "run: make pack-records"
