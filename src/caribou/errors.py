"""The family of errors that a user can meet. Everything else that escapes is a bug.

A message is one line: FIELD must RULE, got VALUE. A place may come before it (``run x: ``), and advice after it (``; ...``).
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple, Self


class BrokenRule(NamedTuple):
    """What a message says: which field must keep which rule, and what was given. None where the message says nothing of it."""

    field: str | None
    rule: str | None
    value: Any


def broken_rule(message: str) -> BrokenRule:
    """The parts of the sentence FIELD must RULE, got VALUE. A value that Python can read is that value, else its words.

    >>> broken_rule("run month: hops must be a whole number >= 1, got -1; train again")
    BrokenRule(field='hops', rule='be a whole number >= 1', value=-1)
    """
    subject, must, rest = message.partition(" must ")
    if not must:
        return BrokenRule(None, None, None)
    rule, got, words = rest.partition(", got ")
    shown = words.partition("; ")[0]
    try:
        value = ast.literal_eval(shown) if got else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = shown
    return BrokenRule(subject.rpartition(": ")[2], rule, value)


class CaribouError(Exception):
    """Base of all errors raised on purpose. ``field``, ``rule`` and ``value`` are what its message says.

    >>> from caribou.privacy.budget import Budget
    >>> try:
    ...     Budget(-1)
    ... except CaribouError as error:
    ...     print(error)
    ...     print(error.field, error.value)
    epsilon must be a number > 0 (inf means no privacy), got -1
    epsilon -1
    """

    @classmethod
    def of(cls, field: str, rule: str, value: Any, advice: str = "") -> Self:
        """The error FIELD must RULE, got VALUE; ADVICE.

        >>> InputError.of("hops", "be a whole number >= 1", -1)
        InputError('hops must be a whole number >= 1, got -1')
        """
        error = cls(f"{field} must {rule}, got {value!r}{advice and f'; {advice}'}")
        error._broken = BrokenRule(field, rule, value)
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        # by the message alone: a value need not be one that another process can read
        return type(self), self.args

    @cached_property
    def _broken(self) -> BrokenRule:
        return broken_rule(str(self))

    @property
    def field(self) -> str | None:
        """What breaks a rule, as the caller named it."""
        return self._broken.field

    @property
    def rule(self) -> str | None:
        """What it must be, do or have."""
        return self._broken.rule

    @property
    def value(self) -> Any:
        """What was given."""
        return self._broken.value


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


TRAINING = {"torch": "torch", "torch_geometric": "torch_geometric", "sklearn": "scikit-learn", "joblib": "scikit-learn"}
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
