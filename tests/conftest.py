"""Shared by all tests: reproducible hypothesis runs, one thread per worker, and no trace in the user's own folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import settings

from browser_support import Tab, open_browser
from caribou.models import encoder, heads, module_training

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
    monkeypatch.setattr(module_training, "EPOCHS", (2, 10))
    monkeypatch.setattr(module_training, "LEARNING_RATE", 0.02)


class EncodersByContent(dict[Any, encoder.Prior]):
    """Encoders by all that they read, and no edge: features, labels, split, public seed, widths and way to fit."""

    @staticmethod
    def content(key: encoder.Key) -> tuple[Any, ...]:
        graph, streams, hidden, folds, objective = key
        split, labels = graph.for_learning(public=True)
        x = graph.features
        features = (x.data, x.indices, x.indptr) if sp.issparse(x) else (x,)
        arrays = (*features, labels, split.train, split.val, split.test)
        read = (streams.seed, hidden, folds, objective, encoder.configurations(graph))
        return (*(np.asarray(a).tobytes() for a in arrays), *read)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(self.content(key))  # type: ignore[arg-type]

    def __getitem__(self, key: encoder.Key) -> encoder.Prior:
        return super().__getitem__(self.content(key))

    def __setitem__(self, key: encoder.Key, prior: encoder.Prior) -> None:
        super().__setitem__(self.content(key), prior)


ENCODERS = EncodersByContent()


@pytest.fixture
def kept_encoder() -> Iterator[None]:
    """An encoder is fitted once per process: for tests of what comes after it. That it reads no edge: `test_encoder`."""
    with encoder.kept_encoders(ENCODERS):
        yield
