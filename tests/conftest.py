"""Shared by all tests: reproducible hypothesis runs, and one thread per worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import settings

from caribou.models import encoder, heads

# Derandomised: a red test must stay red when it is run again.
settings.register_profile("caribou", derandomize=True, deadline=None)
settings.load_profile("caribou")
torch.set_num_threads(1)


@contextmanager
def _few_steps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        few = encoder.EncoderConfig(36, 0.02, 1e-3, 0.1, 0.0, sparse_row_length=16.0)
        patch.setattr(encoder, "configurations", lambda graph: (few,))
        patch.setattr(heads, "RIDGES", (0.03,))
        yield


@pytest.fixture(scope="module")
def quick_learning() -> Iterator[None]:
    """The encoder in a few steps, and fewer heads to choose from: for tests of what is done with them."""
    with _few_steps():
        yield


@pytest.fixture
def quick_encoder() -> Iterator[None]:
    """The same for one test of a module whose other tests need the real encoder."""
    with _few_steps():
        yield
