"""Generated tables of a bank: accounts and transfers, as dirty as real ones.

An account has 12 numbers of very different scales with gaps, a text, a date and a label: ``fraud``, ``ok`` or ``unknown``.
Transfers repeat, some go from an account to itself, and some name an account of another bank. No number is computed from
transfers. Months follow each other: the tables of month k begin with the rows of month k - 1; new accounts and transfers follow.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from caribou._validate import MAX_ROUNDS, integer
from caribou.errors import DataError
from caribou.machine.files import atomic_write
from caribou.randomness import Streams

if TYPE_CHECKING:
    import pandas as pd

ACCOUNTS, TRANSFERS = "accounts.csv", "transfers.csv"
LABELS = ("fraud", "ok", "unknown")
RANGES = {
    "age": (18, 95),
    "income": (0, 250_000),
    "balance": (-20_000, 2_000_000),
    "credit_limit": (0, 50_000),
    "credit_score": (300, 850),
    "tenure_days": (0, 12_000),
    "logins_30d": (0, 200),
    "failed_logins_30d": (0, 40),
    "days_since_login": (0, 365),
    "devices": (1, 12),
    "night_share": (0, 1),
    "abroad_share": (0, 1),
}
"""The numeric columns and the range that the bank declares for each, from the meaning of the column alone."""
SEGMENTS = ("business", "private", "student")
"""The words of the text column."""

_FRAUD, _UNKNOWN = 0.04, 0.15
_SAME_RING = 0.4
_GAPS = {"age": 0.02, "income": 0.12, "credit_limit": 0.05, "credit_score": 0.15, "days_since_login": 0.04}
_REPEATED, _SELF, _ELSEWHERE = 0.08, 0.01, 0.012
_DAYS = 30


@dataclass(frozen=True)
class Bank:
    """Sizes of the generated bank: ``accounts`` and ``transfers`` of month 0, and how many come ``new`` in every later one."""

    accounts: int = 5_000
    transfers: int = 21_000
    new_accounts: int = 400
    new_transfers: int = 2_500

    def __post_init__(self) -> None:
        integer(at_least=200, accounts=self.accounts)
        integer(at_least=200, transfers=self.transfers)
        integer(at_least=10, new_accounts=self.new_accounts)
        integer(at_least=10, new_transfers=self.new_transfers)


def tables(month: int = 0, seed: int = 0, bank: Bank | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The transfers and the accounts of the bank up to and including a month, as two frames.

    Args:
        month: 0 is the first one.
        seed: the public seed; equal seeds give equal tables.
        bank: its sizes.

    Returns:
        Transfers (``sender``, ``receiver``, ``amount``, ``date``) and accounts (``id``, 12 numbers, ``segment``, ``opened``,
        ``label``).

    >>> transfers, accounts = tables(seed=1)
    >>> len(transfers), len(accounts), accounts.columns[0]
    (21000, 5000, 'id')
    >>> len(tables(month=1, seed=1)[1])
    5400
    """
    import pandas as pd

    integer(at_least=0, at_most=MAX_ROUNDS, month=month)
    bank, streams = bank or Bank(), Streams(seed)
    accounts, transfers = [], []
    fraud, ring = np.empty(0, bool), np.empty(0, np.int64)
    for number in range(month + 1):
        rng = streams.generator(f"fraud month {number}")
        count = bank.new_accounts if number else bank.accounts
        new = rng.permutation(count) < round(_FRAUD * count)
        accounts.append(_accounts(rng, new, len(fraud), number))
        fraud = np.concatenate([fraud, new])
        ring = np.concatenate([ring, rng.integers(max(1, round(_FRAUD * bank.accounts / 20)), size=count)])
        rows = bank.new_transfers if number else bank.transfers
        transfers.append(_transfers(rng, fraud, ring, rows, count, number))
    return pd.concat(transfers, ignore_index=True), pd.concat(accounts, ignore_index=True)


def write_tables(
    folder: str | os.PathLike[str], *, month: int = 0, seed: int = 0, bank: Bank | None = None
) -> tuple[Path, Path]:
    """Write the tables of a month into a folder, which is made if it is not there, and return their paths.

    Args:
        folder: for ``transfers.csv`` and ``accounts.csv``, which must not be there yet.
        month, seed, bank: as in `tables`.

    Returns:
        The edge table and the node table.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     edges, nodes = write_tables(folder, seed=1)
    ...     edges.name, nodes.read_text().splitlines()[0][:17]
    ('transfers.csv', 'id,age,income,bal')
    """
    base = Path(folder)
    paths = base / TRANSFERS, base / ACCOUNTS
    for path in paths:
        if path.exists():
            raise DataError(f"folder must not hold {path.name} yet, got {str(base)!r}")
    frames = tables(month, seed, bank)
    try:
        base.mkdir(exist_ok=True)
        for path, frame in zip(paths, frames, strict=True):
            atomic_write(path, frame.to_csv(index=False))
    except OSError as error:
        raise DataError(f"folder must be one that can be written, got {str(base)!r}: {error.strerror}") from error
    return paths


def _accounts(rng: np.random.Generator, fraud: np.ndarray, before: int, month: int) -> pd.DataFrame:
    """The rows of new accounts. ``before``: how many there are already."""
    import pandas as pd

    n = len(fraud)
    shift = fraud * rng.normal(1.27, 0.35, n)  # some fraudsters hardly show in their own numbers
    normal = rng.normal(size=(n, len(RANGES)))
    values = {
        "age": 44 + 15 * normal[:, 0] - 7 * shift,
        "income": np.exp(10.4 + 0.5 * normal[:, 1] - 0.3 * shift),
        "balance": np.exp(8.2 + 1.3 * normal[:, 2] - 1.0 * shift) - 2_000 * (normal[:, 0] > 1.5),
        "credit_limit": 500 * np.round(np.exp(8.3 + 0.7 * normal[:, 3]) / 500),
        "credit_score": 690 + 70 * normal[:, 4] - 65 * shift,
        "tenure_days": np.exp(7.0 + 0.9 * normal[:, 5] - 0.9 * shift),
        "logins_30d": rng.poisson(np.exp(2.2 + 0.5 * normal[:, 6] + 0.4 * shift)),
        "failed_logins_30d": rng.poisson(np.exp(-0.6 + 0.6 * normal[:, 7] + 0.9 * shift)),
        "days_since_login": rng.exponential(9 * np.exp(-0.6 * shift), n),
        "devices": 1 + rng.poisson(np.exp(-0.2 + 0.3 * normal[:, 9] + 0.6 * shift)),
        "night_share": 1 / (1 + np.exp(2.3 + 0.8 * normal[:, 10] - 0.8 * shift)),
        "abroad_share": 1 / (1 + np.exp(3.2 + 1.0 * normal[:, 11] - 0.9 * shift)),
    }
    places = {"balance": 2, "night_share": 3, "abroad_share": 3}
    frame: dict[str, Any] = {"id": [f"A{before + k:06d}" for k in range(n)]}
    for title, (low, high) in RANGES.items():
        column = np.round(np.clip(values[title], low, high), places.get(title, 0))
        frame[title] = np.where(rng.random(n) < _GAPS.get(title, 0.0), np.nan, column)
    segment = np.array(SEGMENTS)[rng.choice(3, n, p=(0.2, 0.65, 0.15))].astype(object)
    segment[rng.random(n) < 0.03] = None
    frame["segment"] = segment
    today = np.datetime64("2025-01-31") + np.timedelta64(_DAYS * month, "D")
    frame["opened"] = [
        str(today - np.timedelta64(int(days), "D")) for days in np.minimum(values["tenure_days"], 12_000)
    ]
    known = np.where(fraud, "fraud", "ok").astype(object)
    known[rng.random(n) < _UNKNOWN] = "unknown"
    frame["label"] = known
    return pd.DataFrame(frame)


def _transfers(
    rng: np.random.Generator, fraud: np.ndarray, ring: np.ndarray, rows: int, new: int, month: int
) -> pd.DataFrame:
    """Transfers of a month. Fraudsters deal with their own ring; the ``new`` accounts of a later month are the most active."""
    import pandas as pd

    n = len(fraud)
    activity = np.exp(0.7 * rng.normal(size=n))
    if month:
        activity[n - new :] *= 5  # an account that opens makes its first transfers
    activity /= activity.sum()
    sender = rng.choice(n, rows, p=activity)
    receiver = rng.choice(n, rows, p=activity)
    inside = fraud[sender] & (rng.random(rows) < _SAME_RING)
    for k in np.flatnonzero(inside):
        partners = np.flatnonzero(fraud & (ring == ring[sender[k]]))
        receiver[k] = rng.choice(partners)
    repeated = np.flatnonzero(rng.random(rows) < _REPEATED)
    origin = rng.integers(rows, size=len(repeated))
    sender[repeated], receiver[repeated] = sender[origin], receiver[origin]
    own = rng.random(rows) < _SELF
    receiver[own] = sender[own]
    ends = [np.array([f"A{k:06d}" for k in end], dtype=object) for end in (sender, receiver)]
    outside = np.flatnonzero(rng.random(rows) < _ELSEWHERE)
    ends[1][outside] = [f"X{k:04d}" for k in rng.integers(2_000, size=len(outside))]
    first = np.datetime64("2025-01-01") + np.timedelta64(_DAYS * month, "D")
    dates = np.sort(rng.integers(_DAYS, size=rows))
    return pd.DataFrame(
        {
            "sender": ends[0],
            "receiver": ends[1],
            "amount": np.round(np.exp(4.5 + 1.2 * rng.normal(size=rows)), 2),
            "date": [str(first + np.timedelta64(int(day), "D")) for day in dates],
        }
    )
