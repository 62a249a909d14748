"""What depth costs: the noise of K hops under the convergent bound, under the paper's accounting and under linear composition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from caribou.errors import InputError
from caribou.privacy.accounting import PAPER_RDP_ORDER, best_rdp_order, gdp_epsilon, rdp_noise_multiplier
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.plan import curve_degrees
from caribou.privacy.sensitivity import Sensitivity, convergence_factor


@dataclass(frozen=True)
class PlanRow:
    """The cost of K hops. Multipliers are noise per unit of sensitivity.

    ``rdp_noise_multiplier`` and ``linear_noise_multiplier`` follow the paper (Renyi accounting at the order ``rdp_order``: the
    fixed one, or the best one where the fixed one is infeasible); ``linear_gdp_noise_multiplier`` is linear composition with
    exact accounting. ``noise_length`` is the expected length of one row of noise, noise_std sqrt(columns); rows of
    a state have length at most 1.
    """

    hops: int
    kappa: float
    sensitivity: float
    mu: float
    noise_std: float
    noise_multiplier: float
    rdp_order: float
    rdp_noise_multiplier: float
    rdp_fixed_noise_multiplier: float | None
    rdp_best_noise_multiplier: float
    linear_noise_multiplier: float
    linear_gdp_noise_multiplier: float
    noise_length: float | None = None


def plan_rows(
    budget: Budget,
    sensitivity: Sensitivity,
    hops: list[int],
    rdp_order: float = PAPER_RDP_ORDER,
    columns: int | None = None,
) -> list[PlanRow]:
    """One row per K."""
    mu = budget_mu(budget)
    fixed = rdp_noise_multiplier(epsilon=budget.epsilon, delta=budget.delta, order=rdp_order)
    best_order = best_rdp_order(epsilon=budget.epsilon, delta=budget.delta)
    best = rdp_noise_multiplier(epsilon=budget.epsilon, delta=budget.delta, order=best_order)
    if best is None:
        raise InputError(f"epsilon must be large enough for Renyi accounting, got {budget.epsilon!r}")
    paper, order = (best, best_order) if fixed is None else (fixed, rdp_order)
    rows = []
    for K in hops:
        kappa = convergence_factor(hops=K, contraction=sensitivity.contraction)
        root, linear = math.sqrt(kappa), math.sqrt(K)
        rows.append(
            PlanRow(
                hops=K,
                kappa=kappa,
                sensitivity=sensitivity.value,
                mu=mu,
                noise_std=sensitivity.value * root / mu,
                noise_multiplier=root / mu,
                rdp_order=order,
                rdp_noise_multiplier=paper * root,
                rdp_fixed_noise_multiplier=None if fixed is None else fixed * root,
                rdp_best_noise_multiplier=best * root,
                linear_noise_multiplier=paper * linear,
                linear_gdp_noise_multiplier=linear / mu,
                noise_length=None if columns is None else sensitivity.value * root / mu * math.sqrt(columns),
            )
        )
    return rows


def degree_curve(
    budget: Budget, sensitivity: Sensitivity, degrees: Sequence[int] | None = None
) -> tuple[tuple[int, float], ...]:
    """What a node of each degree gets if propagation has the whole budget: (degree, epsilon), in every graph.

    ``degrees``: None: those of `curve_degrees`.
    """
    mu, bounds = budget_mu(budget), sensitivity.bounds
    return tuple(
        (d, gdp_epsilon(mu=mu * sensitivity.at_degree(d) / sensitivity.value, delta=budget.delta))
        for d in (curve_degrees(bounds.nodes, bounds.covered_degree) if degrees is None else degrees)
    )
