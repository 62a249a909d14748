"""Certificates of format 1, brought to format 2."""

from __future__ import annotations

from typing import Any, NoReturn

from caribou.errors import CertificateError


def from_format_1(record: dict[str, Any]) -> NoReturn:
    """A certificate of format 1 as one of format 2."""
    raise CertificateError("format must be 2, that of this version of caribou, got 1")
