"""What costs time in an audit and decides nothing about privacy, made cheap: for tests of what is left."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import caribou.models.count_likelihood as counts_module
import caribou.models.encoder as encoder
import caribou.models.heads as heads
import caribou.privacy.accounting as accounting
from caribou.machine.deferred import load_deferred
from caribou.methods import METHODS
from caribou.models.classifier import ClassifierConfig
from caribou.models.encoder import kept_fits


def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; equal arguments are computed once. Its arguments are public numbers and events."""
    known: dict[Any, Any] = {}

    def call(*arguments: Any, **named: Any) -> Any:
        key = (*(tuple(a) if isinstance(a, list | tuple) else a for a in arguments), *sorted(named.items()))
        if key not in known:
            known[key] = function(*arguments, **named)
        return known[key]

    return call


def replace_everywhere(patch: pytest.MonkeyPatch, old: Any, new: Any, under: str = "caribou") -> None:
    """In every module under ``under`` that has imported it by name."""
    for name, module in list(sys.modules.items()):
        if name.startswith(under):
            for attribute in [key for key, value in vars(module).items() if value is old]:
                patch.setattr(module, attribute, new)


@contextmanager
def remembered_accounts() -> Iterator[None]:
    """Every run of an audit accounts for the same public events: equal events are accounted for once."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("gdp_epsilon", "gdp_mu", "pld_epsilon", "epsilon_of", "largest_true_positive_rate"):
            function = getattr(accounting, name)
            replace_everywhere(patch, function, remembered(function))
        yield


def one_step(loss: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray) -> np.ndarray:
    """One step of descent in place of the optimum."""
    return start - 0.3 * loss(start)[1]


class EncodersByContent(dict[Any, Any]):
    """Encoders and priors by all that they read, and no edge: features, labels, split, public seed and settings."""

    @staticmethod
    def content(key: Any) -> tuple[Any, ...]:
        graph, *settings = key
        split, labels = graph.for_learning(public=True)
        x = graph.features
        features = (x.data, x.indices, x.indptr) if sp.issparse(x) else (x,)
        arrays = (*features, labels, split.train, split.val, split.test)
        return (
            *(np.asarray(a).tobytes() for a in arrays),
            repr(settings),
            graph.num_classes,
            encoder.configurations(graph),
        )

    def __contains__(self, key: object) -> bool:
        return super().__contains__(self.content(key))

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self.content(key))

    def __setitem__(self, key: Any, prior: Any) -> None:
        super().__setitem__(self.content(key), prior)


@contextmanager
def quick_public_steps() -> Iterator[None]:
    """Models of released and public values are fitted in one step; an encoder, which reads no edge, is fitted once."""
    for info in METHODS.values():  # a module that is imported later would keep what is replaced here
        importlib.import_module(info.home.split(":")[0])
    load_deferred()  # a name that waits is not yet the class that is replaced

    with remembered_accounts(), kept_fits(EncodersByContent()), pytest.MonkeyPatch.context() as patch:
        # a layer of ProGAP is as wide as the messages that it makes
        small = partial(ClassifierConfig, epochs=1)
        replace_everywhere(
            patch, ClassifierConfig, lambda hidden: small(hidden=min(hidden, 16)), under="caribou.methods"
        )
        patch.setattr(heads, "_minimise", one_step)
        patch.setattr(heads, "_kinds", lambda objective: [heads.fit_bayes_head])
        # the same numbers; torch.manual_seed also writes down the whole stack for every kind of device that is not there
        patch.setattr(torch, "manual_seed", torch.default_generator.manual_seed)
        patch.setattr(counts_module, "LARGEST", 20)  # tables of the likelihood: no count of these graphs is larger
        yield
