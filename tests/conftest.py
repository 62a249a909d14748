"""Shared by all tests: reproducible hypothesis runs, one thread per worker, and no trace in the user's own folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from audit.quick_steps import EncodersByContent
from browser_support import Tab, open_browser
from caribou.models import encoder, heads, own_encoder

# Derandomised: a red test must stay red when it is run again.
settings.register_profile("caribou", derandomize=True, deadline=None)
settings.load_profile("caribou")
torch.set_num_threads(1)
_STATE = tempfile.TemporaryDirectory(prefix="caribou-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name


@contextmanager
def _few_steps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        few = encoder.EncoderConfig(36, 0.02, 1e-3, 0.1, 0.0, sparse_row_length=16.0)
        patch.setattr(encoder, "configurations", lambda graph: (few,))
        patch.setattr(heads, "RIDGES", (0.03,))
        yield


@pytest.fixture(scope="session")
def look() -> Iterator[Callable[[Path], Tab]]:
    """A function that opens a file in a new tab of one browser, which all tests share."""
    with open_browser() as opened:
        yield opened


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


@pytest.fixture
def short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules are trained for fewer steps, at a larger rate."""
    monkeypatch.setattr(own_encoder, "EPOCHS", (2, 10))
    monkeypatch.setattr(own_encoder, "LEARNING_RATE", 0.02)


ENCODERS = EncodersByContent()


@pytest.fixture
def kept_encoder() -> Iterator[None]:
    """An encoder is fitted once per process: for tests of what comes after it. That it reads no edge: `test_encoder`."""
    with encoder.kept_fits(ENCODERS):
        yield
