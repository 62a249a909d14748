"""What commands print and write."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caribou.cli.output import print_facts, print_table, write_pieces
from caribou.errors import InputError
from caribou.model.frames import predictions_tables


def test_words_are_no_markup_and_are_never_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_facts([("path", "[bold]" + "x" * 60), ("empty", "")])
    print_table(("name", "count"), [("[red]y", "1")], "a caption", numbers=True)
    shown = capsys.readouterr().out
    assert "[bold]" in shown
    assert "[red]y" in shown
    assert shown.count("x") == 60


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("ids", [("ann", 'b"o, b', "çem", "007", "5"), None])
def test_tables_are_written_as_they_come_and_whole_or_not_at_all(
    ids: tuple[str, ...] | None, ending: str, tmp_path: Path
) -> None:
    rows, out = np.random.default_rng(0).dirichlet(np.ones(2), 5), tmp_path / f"table.{ending}"

    def pieces(size: int | None) -> Iterator[pd.DataFrame]:
        return predictions_tables(rows, ("no", "yes"), ids, "person", None, np.arange(5) > 2, size)

    def broken() -> Iterator[pd.DataFrame]:
        yield from itertools.islice(pieces(2), 2)
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match=r"out must be a file that can be written.*No space left"):
        write_pieces(broken(), out)
    assert list(tmp_path.iterdir()) == []
    write_pieces(pieces(2), out)
    read = pd.read_csv(out, dtype={"person": str}) if ending == "csv" else pd.read_parquet(out)
    (whole,) = pieces(None)
    pd.testing.assert_frame_equal(read, whole, check_dtype=False)
