"""Journals: nothing is lost by packing, whatever JSON is in them and whoever appends meanwhile."""

from __future__ import annotations

import json
import os
import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caribou.errors import InputError
from caribou.experiments import journal
from caribou.experiments.journal import append_line, archive_of, exists, pack, read_archive, read_lines, write_archive

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5)
OBJECTS = st.lists(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), max_size=5)


def exactly(value: Any) -> str:
    """1, 1.0 and True are equal and not the same."""
    return json.dumps(value, sort_keys=True)


@settings(max_examples=40)
@given(OBJECTS)
def test_what_comes_out_of_an_archive_is_what_went_in(objects: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.parquet"
        write_archive(file, objects)
        assert [exactly(entry) for entry in read_archive(file)] == [exactly(entry) for entry in objects]


def test_lines_and_archive_are_one_journal(tmp_path: Path) -> None:
    file = tmp_path / "table.jsonl"
    assert not exists(file)
    assert pack(file) == 0
    first = [{"seed": k, "accuracy": 0.1 + k / 3, "settings": {"hidden": [k]}} for k in range(50)]
    for entry in first:
        append_line(file, json.dumps(entry))
    lines = file.stat().st_size
    assert pack(file) == 50
    assert os.listdir(tmp_path) == ["table.parquet"]
    assert exists(file)
    assert archive_of(file).stat().st_size < lines
    append_line(file, json.dumps({"seed": 50, "error": "why"}))
    assert read_archive(archive_of(file)) == first
    assert read_lines(file) == [b'{"seed": 50, "error": "why"}', b""]
    assert pack(file) == 51
    assert read_archive(archive_of(file)) == [*first, {"seed": 50, "error": "why"}]
    table = pd.read_parquet(archive_of(file))
    assert list(table["seed"].map(json.loads)) == list(range(51)), "anybody can read it"


def test_packing_twice_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "table.jsonl"
    append_line(file, '{"a": 1}')
    pack(file)
    first = archive_of(file).read_bytes()
    assert pack(file) == 1
    append_line(file, '{"a": 1}')  # killed after the archive was written, before the lines were removed
    assert pack(file) == 1
    assert archive_of(file).read_bytes() == first
    assert os.listdir(tmp_path) == ["table.parquet"]


@pytest.mark.parametrize("line", ["[1]", '{"a": ', "3", '{"a": 1} x', "\udcff".encode("utf-8", "surrogateescape")])
def test_what_is_no_object_stops_it_and_everything_stays(line: str | bytes, tmp_path: Path) -> None:
    file = tmp_path / "table.jsonl"
    write_archive(archive_of(file), [{"a": 1}])
    with open(file, "wb") as stream:
        stream.write(b'{"a": 2}\n' + (line if isinstance(line, bytes) else line.encode()) + b"\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match=r"a line must be a JSON object to be packed, got .*table.jsonl, line 2"):
        pack(file)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "table.jsonl"
    append_line(file, '{"a": 1}')

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal, "write_archive", full)
    with pytest.raises(InputError, match="No space left"):
        pack(file)
    assert read_lines(file) == [b'{"a": 1}', b""]


def test_files_that_are_no_archives(tmp_path: Path) -> None:
    other = tmp_path / "nodes.parquet"
    pd.DataFrame({"id": [1, 2]}).to_parquet(other)
    with pytest.raises(InputError, match="another kind of Parquet file"):
        read_archive(other)
    write_archive(tmp_path / "cut.parquet", [{"a": 1}])
    whole = (tmp_path / "cut.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-20])
    with pytest.raises(InputError, match=r"archives that can be read, got .*cut.parquet"):
        read_archive(tmp_path / "cut.parquet")


def test_what_is_left_of_a_last_line(tmp_path: Path) -> None:
    for cut, lines in ((False, [b'{"a": 1}', b'{"half', b'{"a": 2}', b""]), (True, [b'{"a": 1}', b'{"a": 2}', b""])):
        file = tmp_path / f"{cut}.jsonl"
        file.write_bytes(b'{"a": 1}\n{"half')
        append_line(file, '{"a": 2}', cut_rest=cut)
        assert read_lines(file) == lines


def _append(file: Path, start: int) -> None:
    for k in range(start, start + 60):
        append_line(file, json.dumps({"k": k}))


def test_what_is_appended_while_it_is_packed_is_not_lost(tmp_path: Path) -> None:
    file = tmp_path / "table.jsonl"
    context = get_context("fork")
    writers = [context.Process(target=_append, args=(file, 100 * k)) for k in range(3)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        pack(file)
    for writer in writers:
        writer.join()
    pack(file)
    found = sorted(entry["k"] for entry in read_archive(archive_of(file)))
    assert found == [100 * k + i for k in range(3) for i in range(60)]
