"""The family of errors that a user can meet. Everything else that escapes is a bug.

Each message names the field, the rule and the offending value, in one line.
"""

from __future__ import annotations


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
