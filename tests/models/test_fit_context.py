"""One thread inside, and as many as before outside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from caribou.datasets import load
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import fit, method_info
from caribou.models.fit_context import listening, one_thread
from caribou.privacy.budget import Budget
from caribou.randomness import Streams


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def pools() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_one_inside_and_as_before_outside() -> None:
    with threadpool_limits(2, user_api="blas"):
        for _ in range(2):  # pools that are known, too
            with one_thread():
                assert torch.get_num_threads() == 1
                assert pools() == {1}
            assert torch.get_num_threads() == 2
            assert pools() == {2}


def test_a_decorated_function_can_be_called_again_and_inside_itself() -> None:
    @one_thread()
    def depth(n: int) -> list[int]:
        return [torch.get_num_threads(), *(depth(n - 1) if n else [])]

    assert depth(2) == [1, 1, 1]
    assert depth(0) == [1]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("quick_encoder")
def test_encoder_tells_how_far_it_is() -> None:
    told: list[tuple[str, int, int | None]] = []
    graph, method = load("csbm:nodes=80"), method_info("caribou-edp").create()

    def fitted() -> bytes:
        return fit(method, graph, Budget(4), Streams(0), NoiseSource.seeded(0)).probabilities.tobytes()

    with listening(lambda *step: told.append(step)):
        watched = fitted()
    steps = [step for step in told if step[0] == "encoder"]
    assert steps == [("encoder", number, 36) for number in range(1, 37)]
    count = len(told)
    assert fitted() == watched, "to listen changes nothing"
    assert len(told) == count
