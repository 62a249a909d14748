"""Class probabilities from a file: by id and class, in every format, with errors that name the file and the flag."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caribou.datasets.prior_table import with_prior_of
from caribou.errors import DataError
from caribou.graph import Graph

GRAPH = Graph.from_edges(
    np.eye(3), [[0], [1]], labels=[0, 1, 0], class_names=["ok", "fraud"], node_ids=np.array(["a", "b", "7"])
)
FRAME = pd.DataFrame({"fraud": [0.1, 0.2, 0.7, 0.5], "id": ["7", "a", "b", "gone"], "ok": [0.9, 0.8, 0.3, 0.5]})


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_are_found_by_id_and_columns_by_class(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"prior.{ending}"
    if ending == "csv":
        FRAME.to_csv(file, index=False)
    else:
        FRAME.to_parquet(file)
    assert with_prior_of(GRAPH, file).prior.tolist() == [[0.8, 0.2], [0.3, 0.7], [0.9, 0.1]]


def test_nodes_without_ids_are_numbered(tmp_path: Path) -> None:
    plain = Graph.from_edges(np.eye(2), [[0], [1]], labels=[0, 1])
    (tmp_path / "p.csv").write_text("id,0,1\n1,0.25,0.75\n0,1.0,0.0\n")
    assert with_prior_of(plain, tmp_path / "p.csv").prior.tolist() == [[1.0, 0.0], [0.25, 0.75]]


def test_bad_tables(tmp_path: Path) -> None:
    for frame, words in [
        (FRAME.drop(columns="ok"), "column 'id' and one per class"),
        (FRAME.assign(maybe=0.0), "column 'id' and one per class"),
        (FRAME.rename(columns={"id": "node"}), "column 'id' and one per class"),
        (FRAME[1:], "row for every node, got none for 1 of 3: .*7"),
        (FRAME.assign(ok="high"), "column 'ok' must be a probability, got 'high'"),
        (FRAME.assign(ok=0.9), "rows of probabilities that sum to 1"),
        (pd.concat([FRAME, FRAME[:1]]), "7"),
    ]:
        frame.to_csv(tmp_path / "p.csv", index=False)
        with pytest.raises(DataError, match=words):
            with_prior_of(GRAPH, tmp_path / "p.csv")


def test_bad_files(tmp_path: Path) -> None:
    for name, words in {"p.txt": "must end in", "none.csv": "existing file"}.items():
        with pytest.raises(DataError, match=f"{words}.*--prior"):
            with_prior_of(GRAPH, tmp_path / name)
