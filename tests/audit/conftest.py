"""Fixtures that the tests of the audit share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from audit import quick_steps


@pytest.fixture(scope="module")
def remembered_accounts() -> Iterator[None]:
    """Equal events are accounted for once."""
    with quick_steps.remembered_accounts():
        yield


@pytest.fixture(scope="module")
def quick_public_steps() -> Iterator[None]:
    """The same, and models of released and public values are fitted in one step."""
    with quick_steps.quick_public_steps():
        yield
