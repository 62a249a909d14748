"""The ledger that every test of it starts from."""

from ledger_support import basic, ledger, path  # noqa: F401
