"""The family of errors that a user can meet. Everything else that escapes is a bug.

Each message names the field, the rule and the offending value, in one line.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager


class CaribouError(Exception):
    """Base of all errors raised on purpose.

    >>> from caribou.privacy.budget import Budget
    >>> try:
    ...     Budget(-1)
    ... except CaribouError as error:
    ...     print(error)
    epsilon must be a number > 0 (inf means no privacy), got -1
    """


class InputError(CaribouError, ValueError):
    """An argument breaks its rule (also a ``ValueError``, so that plain callers can catch it)."""


class DataError(CaribouError):
    """A file or data set cannot be used; the message names file, column, row and rule."""


class CalibrationError(CaribouError):
    """No finite noise satisfies the requested budget."""


class BudgetExceeded(CaribouError):
    """A release would exceed what the ledger allows for its data set. Raised before any noise is drawn."""


class CertificateError(CaribouError):
    """A certificate is malformed, or its figures do not follow from its events."""


class LedgerError(CaribouError):
    """The ledger file cannot be read or written, or the entry does not exist."""


class RunError(CaribouError):
    """A saved run cannot be written, or is not what was written."""


class MissingExtra(CaribouError, ImportError):
    """A package that only an extra installs is not there; the message names the extra (also an ``ImportError``)."""


TRAINING = {"torch": "torch", "torch_geometric": "torch_geometric", "sklearn": "scikit-learn"}
"""What the extra ``[train]`` adds to the core: modules, and the packages that they come with."""
CPU_BUILD = "the CPU build of torch, by the command that pytorch.org gives for it,"
"""The build of torch for processors alone. What pip takes by itself on Linux brings several gigabytes of CUDA."""


@contextmanager
def needs_training(what: str) -> Iterator[None]:
    """Whatever is imported inside, or in the function that this decorates, may need the extra ``[train]``; ``what`` needs it.

    >>> with needs_training("votes-edp"):
    ...     raise ModuleNotFoundError("No module named 'torch'", name="torch")
    Traceback (most recent call last):
        ...
    caribou.errors.MissingExtra: votes-edp needs torch, which is not installed: pip install 'caribou-gnn[train]' (first the \
CPU build of torch, by the command that pytorch.org gives for it, on a machine without a GPU: it is far smaller)
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in TRAINING:
            raise
        raise MissingExtra(
            f"{what} needs {TRAINING[package]}, which is not installed: pip install 'caribou-gnn[train]' "
            f"(first {CPU_BUILD} on a machine without a GPU: it is far smaller)"
        ) from error


def require_training(what: str) -> None:
    """Refuse ``what`` where torch is not installed, without importing it: for work that other processes will do."""
    with needs_training(what):
        if importlib.util.find_spec("torch") is None:
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
