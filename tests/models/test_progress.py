"""Progress of a fit: training loops and rounds tell whoever listens, and nobody otherwise."""

from __future__ import annotations

import pytest

from caribou.datasets import load
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import fit, method_info
from caribou.models.progress import listening
from caribou.privacy.budget import Budget
from caribou.randomness import Streams


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
