"""One thread inside, and as many as before outside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from caribou.models.threads import one_thread


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_one_inside_and_as_before_outside() -> None:
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_a_decorated_function_can_be_called_again_and_inside_itself() -> None:
    @one_thread()
    def depth(n: int) -> list[int]:
        return [torch.get_num_threads(), *(depth(n - 1) if n else [])]

    assert depth(2) == [1, 1, 1]
    assert depth(0) == [1]
    assert torch.get_num_threads() == 2
