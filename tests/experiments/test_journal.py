"""Journals: a line that is appended is whole, whatever a killed process left before it."""

from __future__ import annotations

from pathlib import Path

from caribou.experiments.journal import append_line, archive_of, exists, read_archive, read_lines


def test_what_is_left_of_a_last_line_stays_a_line_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "new" / "table.jsonl"
    assert not exists(file)
    assert (read_lines(file), read_archive(archive_of(file))) == ([], [])
    append_line(file, '{"a": 1}')
    assert exists(file)
    with open(file, "ab") as stream:
        stream.write(b'{"half')
    append_line(file, '{"a": 2}')
    append_line(file, '{"a": 3}')
    assert read_lines(file) == [b'{"a": 1}', b'{"half', b'{"a": 2}', b'{"a": 3}', b""]
