"""The generated bank: sizes, planted dirt, months that follow each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caribou.datasets.fraud import RANGES, SEGMENTS, Bank, tables, write_tables
from caribou.errors import DataError, InputError

SMALL = Bank(accounts=400, transfers=1_600, new_accounts=40, new_transfers=160)


def test_the_bank_is_as_large_and_as_dirty_as_it_says() -> None:
    transfers, accounts = tables(seed=2)
    assert (len(transfers), len(accounts)) == (21_000, 5_000)
    known = accounts["label"].value_counts()
    assert set(known.index) == {"fraud", "ok", "unknown"}
    assert known["fraud"] / (known["fraud"] + known["ok"]) == pytest.approx(0.04, abs=0.01)
    for title, (low, high) in RANGES.items():
        column = accounts[title]
        assert column.min() >= low
        assert column.max() <= high
    assert accounts[list(RANGES)].isna().any().sum() == 5
    assert set(accounts["segment"].dropna()) == set(SEGMENTS)
    assert accounts["segment"].isna().any()
    assert transfers.duplicated(["sender", "receiver"]).any()
    assert (transfers["sender"] == transfers["receiver"]).any()
    assert not set(transfers["receiver"]) <= set(accounts["id"])
    assert set(transfers["sender"]) <= set(accounts["id"])


def test_a_month_begins_with_the_rows_of_the_month_before() -> None:
    first, second = tables(0, 1, SMALL), tables(1, 1, SMALL)
    for before, after in zip(first, second, strict=True):
        pd.testing.assert_frame_equal(before, after.iloc[: len(before)])
    assert [len(after) - len(before) for before, after in zip(first, second, strict=True)] == [160, 40]
    arrivals = set(second[1]["id"]) - set(first[1]["id"])
    later = second[0].iloc[len(first[0]) :]
    assert later["sender"].isin(arrivals).any()


def test_seeds_decide_about_everything() -> None:
    pd.testing.assert_frame_equal(tables(0, 1, SMALL)[1], tables(0, 1, SMALL)[1])
    assert not tables(0, 1, SMALL)[1].equals(tables(0, 2, SMALL)[1])


def test_fraudsters_deal_with_each_other() -> None:
    transfers, accounts = tables(seed=0)
    fraud = set(accounts.loc[accounts["label"] == "fraud", "id"])
    sent = transfers[transfers["sender"].isin(fraud)]
    share = np.mean(sent["receiver"].isin(fraud))
    assert share > 5 * len(fraud) / len(accounts)


def test_nothing_is_overwritten_and_bad_sizes_are_refused(tmp_path: Path) -> None:
    write_tables(tmp_path / "bank", bank=SMALL)
    with pytest.raises(DataError, match=r"must not hold transfers.csv yet"):
        write_tables(tmp_path / "bank", bank=SMALL)
    with pytest.raises(DataError, match="can be written"):
        write_tables(tmp_path / "none" / "bank", bank=SMALL)
    with pytest.raises(InputError, match="month must be"):
        tables(-1)
    with pytest.raises(InputError, match="accounts must be"):
        Bank(accounts=3)
