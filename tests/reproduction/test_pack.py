"""The stored records survive a trip through lines and back, and packing takes every journal of a folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from reproduction.pack import pack_folders
from reproduction.search import read_trials

from caribou.experiments.journal import ARCHIVE, LINES, append_line, archive_of, pack, read_archive
from caribou.experiments.records import read_all

PAPER = Path(__file__).parents[2] / "reproduction"
STORED = sorted([*PAPER.glob(f"results/*{ARCHIVE}"), *PAPER.glob(f"experiments/trials/*{ARCHIVE}")])


@pytest.mark.parametrize("archive", STORED, ids=lambda path: path.stem)
def test_stored_records_come_back_word_by_word(archive: Path, tmp_path: Path) -> None:
    lines = [json.dumps(entry) for entry in read_archive(archive)]
    assert lines
    file = tmp_path / f"{archive.stem}{LINES}"
    file.write_text("\n".join([*lines, ""]))
    assert pack(file) == len(lines)
    assert [json.dumps(entry) for entry in read_archive(archive_of(file))] == lines
    assert not file.exists()


def test_stored_records_can_all_be_read() -> None:
    records, problems = read_all(PAPER / "results")
    assert not problems
    assert sum(len(found) for found in records.values()) >= 6_000
    trials = [
        trial for file in STORED if file.parent.name == "trials" for trial in read_trials(file.with_suffix(LINES))
    ]
    assert len(trials) >= 784


def test_every_journal_of_a_folder_is_packed(tmp_path: Path) -> None:
    for name in ("b", "a"):
        append_line(tmp_path / f"{name}{LINES}", '{"x": 1}')
    assert [Path(words.partition(":")[0]).name for words in pack_folders([tmp_path])] == ["a.parquet", "b.parquet"]
    script = [sys.executable, str(PAPER / "pack.py"), str(tmp_path)]
    assert subprocess.run(script, capture_output=True, text=True, check=True).stdout == "nothing to pack\n"
