"""Row blocks: every row in one block, every block and state back from its file as it was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caribou.engines.blocks import BlockFiles, Layout, StateFile, regrouped
from caribou.errors import RunError


@given(st.lists(st.integers(0, 7), max_size=8), st.integers(1, 5))
def test_regrouped_rows_are_the_same_rows_in_parts_of_one_size(sizes: list[int], size: int) -> None:
    rows = np.arange(2 * sum(sizes)).reshape(-1, 2)
    parts = list(regrouped(np.split(rows, np.cumsum(sizes)[:-1]) if sizes else [], size))
    assert np.array_equal(np.concatenate([rows[:0], *parts]), rows)
    assert all(len(part) == size for part in parts[:-1])
    assert not parts or 0 <= len(parts[-1]) <= size


@given(st.integers(1, 5000), st.integers(0, 12), st.integers(0, 12))
def test_blocks_and_tiles_cover_every_row_once(nodes: int, shift: int, tile_shift: int) -> None:
    layout = Layout(nodes, 3, shift, tile_shift)
    spans = [layout.span(block) for block in range(layout.blocks)]
    assert [row for first, last in spans for row in (first, last)][1:-1] == [
        row for first, _ in spans[1:] for row in (first, first)
    ]
    assert (spans[0][0], spans[-1][1]) == (0, nodes)
    assert all(0 < last - first <= 2**shift for first, last in spans)
    assert (layout.tiles - 1) * 2**tile_shift < nodes <= layout.tiles * 2**tile_shift
    assert Layout(nodes, 3, 62).blocks == Layout(nodes, 3, 62).tiles == 1


def test_a_block_comes_back_from_its_file_whole_and_by_tile(tmp_path: Path) -> None:
    """Rows 2 and 3 of a graph on 4 nodes, columns in two tiles of two: 2 has neighbours 0 and 3, 3 has 1 and 2."""
    files = BlockFiles(tmp_path, Layout(nodes=4, columns=1, shift=1, tile_shift=1))
    starts = np.array([[0, 1, 2], [2, 3, 4]])  # tile 0: rows with one entry each; tile 1: the same
    columns = np.array([0, 1, 3, 2])
    files.write(1, starts, columns)
    files.write_ownless(1, np.array([False, True]))
    block = files.read(1)
    assert block.ownless.tolist() == [False, True]
    assert (block.index, block.first, block.count, block.entries) == (1, 2, 2, 4)
    assert block.degrees.tolist() == files.degrees(1).tolist() == [2, 2]
    assert [tile.columns[tile.starts[0] : tile.starts[2]].tolist() for tile in block.tiles] == [[0, 1], [3, 2]]
    tile = files.read_tile(1, 1, files.starts(1))
    assert (tile.starts.tolist(), tile.columns.tolist()) == ([0, 1, 2], [3, 2])
    assert {path.name for path in tmp_path.iterdir()} == {
        f"block-000001.{part}" for part in ("starts", "columns", "ownless")
    }


def test_blocks_are_read_together_as_one_of_a_coarser_layout(tmp_path: Path) -> None:
    fine, coarse = BlockFiles(tmp_path, Layout(5, 1, 1)), Layout(5, 1, 2)
    for index, (starts, columns) in enumerate([([0, 2, 3], [1, 4, 0]), ([0, 0, 1], [4]), ([0, 2], [0, 3])]):
        fine.write(index, np.array([starts]), np.array(columns))
        fine.write_ownless(index, np.arange(len(starts) - 1) == 1)
    first, last = (fine.read_together(index, coarse) for index in range(coarse.blocks))
    assert (first.first, first.tiles[0].starts.tolist(), first.tiles[0].columns.tolist()) == (
        0,
        [0, 2, 3, 3, 4],
        [1, 4, 0, 4],
    )
    assert first.ownless.tolist() == [False, True, False, True]
    assert (last.first, last.tiles[0].starts.tolist(), last.tiles[0].columns.tolist()) == (4, [0, 2], [0, 3])


def test_a_digest_is_that_of_what_lies_in_the_files(tmp_path: Path) -> None:
    """The digest of a state does not depend on how its rows were divided; that of a block changes with any of its bytes."""
    files = BlockFiles(tmp_path, Layout(nodes=4, columns=2, shift=1))
    written = files.write(0, np.array([[0, 1, 2]]), np.array([1, 0]))
    assert written == files.digest(0)
    for path in (tmp_path / "block-000000.starts", tmp_path / "block-000000.columns"):
        before = path.read_bytes()
        path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        assert files.digest(0) != written
        path.write_bytes(before)
    rows, found = np.arange(8, dtype=np.float32).reshape(4, 2), set()
    for size in (1, 2, 4):
        state = files.state(f"by {size}")
        for first in range(0, 4, size):
            state.write(first, rows[first : first + size])
        found.add(state.digest())
    assert len(found) == 1


def test_a_state_is_written_and_read_in_any_order(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "x.state", Layout(5, 3, 1))
    rows = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    for first in (4, 0, 2):
        state.write(first, rows[first : first + 2])
    state.sync()
    assert np.array_equal(state.read(0, 5), rows)
    assert np.array_equal(state.read(1, 4), rows[1:4])
    with pytest.raises(RunError, match=r"x.state is shorter than it was written"):
        state.read(3, 6)
    state.remove()
    state.remove()
    assert not state.path.exists()


def test_a_retired_state_is_written_over_and_not_read(tmp_path: Path) -> None:
    files = BlockFiles(tmp_path, Layout(4, 2, 1))
    first, second = files.state("round-1"), files.state("round-2")
    first.write(0, np.ones((4, 2), np.float32))
    number = first.path.stat().st_ino
    first.retire()
    assert not first.path.exists()
    second.begin()
    assert second.path.stat().st_ino == number, "the same file"
    second.write(0, np.zeros((4, 2), np.float32))
    assert not second.read(0, 4).any()
    assert [path.name for path in tmp_path.iterdir()] == ["round-2.state"]
