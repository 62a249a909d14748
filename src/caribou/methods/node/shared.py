"""What node-level methods that pass messages share: rows for a private head, the head, checked groups, the claim."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.bounded_rows import unit_length
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.noisy_descent import noisy_gradient_descent
from caribou.methods.node.mlp import (
    DESCENT_THEOREM,
    MlpDp,
    full_batch,
    node_assumptions,
    parallel_parameters,
    part_record,
)
from caribou.models.linear import path_length_schedule
from caribou.privacy.accounting import epsilon_of, pure_epsilon
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedSums, calibrate_sums
from caribou.privacy.certificate import Assumption, Certificate, MechanismRecord, certify
from caribou.privacy.events import Event
from caribou.privacy.sensitivity import sum_sensitivity


def centred(scores: np.ndarray) -> np.ndarray:
    """Scores with mean 0 over the classes. [n, C]"""
    return scores - scores.mean(axis=1, keepdims=True)


def side_by_side(parts: list[np.ndarray]) -> np.ndarray:
    """Parts at length 1 / sqrt(number of parts) each: rows of length at most 1. [n, sum of columns]"""
    return np.concatenate([unit_length(part) / math.sqrt(len(parts)) for part in parts], axis=1)


def default_radius(degree_cap: int) -> float:
    """The radius at which a node's own row costs as much as all rows of its neighbours: sqrt(D).

    >>> default_radius(100)
    10.0
    """
    return math.sqrt(degree_cap)


def calibrate_node_sums(graph: Graph, mu: float, *, degree_cap: int, radius: float, hops: int = 1) -> CalibratedSums:
    """K noisy sums of messages in class space over neighbours, degrees at most the cap, that are mu-GDP together."""
    bound = sum_sensitivity(PrivacyUnit.NODE, degree_cap=degree_cap, radius=radius)
    return calibrate_sums(bound, hops=hops, mu=mu, nodes=graph.num_nodes, columns=graph.num_classes)


def fit_linear_head(
    rows: np.ndarray, graph: Graph, *, mu: float, train_size: int | None, noise: NoiseSource
) -> tuple[np.ndarray, MechanismRecord]:
    """A linear model on the training nodes' rows by noisy gradient descent that is mu-GDP, with its record. [d, C]"""
    split, labels = graph.for_learning()
    size = split.declared[0] if train_size is None else train_size
    schedule = path_length_schedule(mu=mu, train_size=size)
    descent = full_batch("training of the classifier", schedule.steps, mu)
    weights = noisy_gradient_descent(
        rows[split.train],
        labels[split.train],
        classes=graph.num_classes,
        schedule=schedule,
        calibrated=descent,
        noise=noise,
        max_rows=graph.num_nodes,
    )
    return weights, part_record(descent, DESCENT_THEOREM, **asdict(schedule))


def check_groups(groups: Mapping[str, tuple[Event, ...]], budget: Budget) -> None:
    """Every group of nodes must keep the budget.

    Pure mechanisms may also be added up, (e, delta) with (e', 0): PLD rounds up, at epsilon = 100 by 1e-3.
    """
    for name, events in groups.items():
        pure = [event for event in events if pure_epsilon([event]) is not None]
        others = [event for event in events if event not in pure]
        spent = min(epsilon_of(events, budget.delta), epsilon_of(others, budget.delta) + (pure_epsilon(pure) or 0.0))
        if spent > budget.epsilon * (1 + 1e-9):
            raise InputError(f"epsilon of the {name} must be <= {budget.epsilon:g}, got {spent:g}")


def node_certificate(
    budget: Budget,
    records: tuple[MechanismRecord, ...],
    groups: Mapping[str, tuple[Event, ...]],
    *,
    released: tuple[str, ...],
    parameters: Mapping[str, Any],
    base: MlpDp,
    noise: NoiseSource,
    further: tuple[Assumption, ...] = (),
) -> Certificate:
    """The claim of a method that cuts degrees: every group keeps the budget, the events listed are ``records``."""
    check_groups(groups, budget)
    assumptions = node_assumptions(noise, groups, reads_edges=False, base=base, cuts_degrees=True)
    return certify(
        budget,
        records,
        released=released,
        public_parameters={**parameters, **parallel_parameters(groups)},
        assumptions=(*assumptions, *further),
    )
