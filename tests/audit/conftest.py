"""Shared by the tests of the audit: what costs time and decides nothing about privacy is made cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import caribou.methods.edge.dpdgc as dpdgc_module
import caribou.methods.edge.gap as gap_module
import caribou.models.count_likelihood as counts_module
import caribou.models.heads as heads
import caribou.privacy.accounting as accounting
from caribou.audit.targets import without_edges
from caribou.graph import Graph
from caribou.models.classifier import ClassifierConfig
from caribou.models.encoder import cross_fit
from caribou.randomness import Streams


def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; equal arguments are computed once. Its arguments are public numbers and events."""
    known: dict[Any, Any] = {}

    def call(*arguments: Any, **named: Any) -> Any:
        key = (*(tuple(a) if isinstance(a, list | tuple) else a for a in arguments), *sorted(named.items()))
        if key not in known:
            known[key] = function(*arguments, **named)
        return known[key]

    return call


def replace_everywhere(patch: pytest.MonkeyPatch, old: Any, new: Any) -> None:
    """In every module of the library that has imported it by name."""
    for name, module in list(sys.modules.items()):
        if name.startswith("caribou"):
            for attribute in [key for key, value in vars(module).items() if value is old]:
                patch.setattr(module, attribute, new)


@pytest.fixture(scope="module")
def remembered_accounts() -> Iterator[None]:
    """Every run of an audit accounts for the same public events: equal events are accounted for once."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("gdp_epsilon", "gdp_mu", "pld_epsilon", "largest_true_positive_rate"):
            function = getattr(accounting, name)
            replace_everywhere(patch, function, remembered(function))
        yield


def one_step(loss: Callable[[torch.Tensor], torch.Tensor], start: torch.Tensor) -> np.ndarray:
    """One step of descent in place of the optimum."""
    theta = start.double().clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(theta), theta)
    return (theta - 0.3 * slope).detach().numpy()


@pytest.fixture(scope="module")
def quick_public_steps(remembered_accounts: None) -> Iterator[None]:
    """Models of released and public values are fitted in a step or two; the encoder is fitted once, without any edge."""
    encoders: dict[bytes, Any] = {}

    def encoder(graph: Graph, streams: Streams, hidden: tuple[int, ...]) -> Any:
        key = graph.features.tobytes() + graph.labels.tobytes() + repr((streams, hidden)).encode()
        if key not in encoders:
            encoders[key] = cross_fit(without_edges(graph), streams, hidden)
        return encoders[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dpdgc_module, "cross_fit", encoder)
        for module in (dpdgc_module, gap_module):
            patch.setattr(module, "ClassifierConfig", lambda hidden: ClassifierConfig(hidden=4, epochs=2))
        patch.setattr(heads, "_minimise", one_step)
        # the same numbers; torch.manual_seed also writes down the whole stack for every kind of device that is not there
        patch.setattr(torch, "manual_seed", torch.default_generator.manual_seed)
        patch.setattr(counts_module, "LARGEST", 20)  # tables of the likelihood: no count of these graphs is larger
        yield
