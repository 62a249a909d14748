"""Packing loses nothing, whatever JSON is in a journal; the stored records are read word by word."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from reproduction.pack import pack, pack_folders, read_archive, write_archive
from reproduction.search import read_trials

from caribou.experiments.records import ARCHIVE, LINES, append_line, archive_of, read_all

PAPER = Path(__file__).parents[2] / "reproduction"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5)


@settings(max_examples=15)
@given(st.lists(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), max_size=5))
def test_what_comes_out_of_an_archive_is_what_went_in(objects: list[dict[str, Any]]) -> None:
    def exactly(entry: object) -> str:  # 1, 1.0 and True are equal and not the same
        return json.dumps(entry, sort_keys=True)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.parquet"
        write_archive(file, objects)
        assert list(map(exactly, read_archive(file))) == list(map(exactly, objects))


def test_stored_records_can_all_be_read_and_come_back_word_by_word(tmp_path: Path) -> None:
    records, problems = read_all(PAPER / "results")
    assert not problems
    assert sum(len(found) for found in records.values()) >= 6_000
    stored = sorted(PAPER.glob(f"experiments/trials/*{ARCHIVE}"))
    assert sum(len(read_trials(file.with_suffix(LINES))) for file in stored) >= 784
    entries = read_archive(stored[0])
    write_archive(tmp_path / "again.parquet", entries)
    assert (tmp_path / "again.parquet").read_bytes() == stored[0].read_bytes()


def test_packing_twice_adds_nothing_and_anybody_can_read_it(tmp_path: Path) -> None:
    file = tmp_path / f"table{LINES}"
    entries = [{"seed": k, "accuracy": 0.1 + k / 3, "settings": {"hidden": [k]}} for k in range(50)]
    for entry in entries[:40]:
        append_line(file, json.dumps(entry))
    assert [Path(words.partition(":")[0]).name for words in pack_folders([tmp_path])] == ["table.parquet"]
    for entry in entries[
        30:
    ]:  # ten of them are there: killed after the archive was written, before the lines were removed
        append_line(file, json.dumps(entry))
    assert pack(file) == 50
    assert os.listdir(tmp_path) == ["table.parquet"]
    assert read_archive(archive_of(file)) == entries
    assert list(pd.read_parquet(archive_of(file))["seed"].map(json.loads)) == list(range(50))
    assert pack_folders([tmp_path]) == []
