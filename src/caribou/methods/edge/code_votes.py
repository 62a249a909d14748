"""Messages of feature codes: every node sends the code of its public features, labelled or not, in one stage.

They tell where a neighbour's features matter and its class does not. All choices are made from public values and released counts.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from caribou.graph.arrivals import Grown
from caribou.mechanisms.edge_votes import NoisyCounts, VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.memory import DOUBLE, require_memory
from caribou.methods.edge.pilot import Pilot
from caribou.methods.edge.vote_roles import VoteRoles, fit_counts
from caribou.models.count_likelihood import MULTIPLIERS, CountModel, class_evidence, parts, symbol_rates
from caribou.models.feature_codes import FeatureCodes
from caribou.models.heads import Evidence, choose_head_by_folds
from caribou.models.objective import Objective
from caribou.models.vote_model import VoteModel, vote_scale

GROUPS = 10
"""Receivers are grouped by the share of senders before them; a group shares its rates."""


def decode_codes(
    noisy_counts: NoisyCounts,
    roles: VoteRoles,
    codes: FeatureCodes,
    code: np.ndarray,
    pilot: Pilot | None,
    objective: Objective,
) -> tuple[np.ndarray, dict[str, np.ndarray], VoteModel]:
    """Class scores, [n, C], what was released, and what it taught. ``code``: [n], of every node.

    Formal guarantee: with the pilot the transcript costs its budget at edge level (docs/privacy.md, Theorem 4).
    """
    M, budget = codes.count, noisy_counts.budget
    new = np.ones(roles.nodes, dtype=bool)
    if pilot is not None:
        new[pilot.senders] = False
    rank = _rank(roles)
    counts = noisy_counts.ask(new, rank, code, roles.receives, M)
    before = np.concatenate([[0], np.cumsum(new[np.argsort(rank)])])[rank]
    exposure = before / max(int(new.sum()), 1)
    cal, receivers = roles.calibration, np.flatnonzero(roles.receives)
    rates = symbol_rates(counts[cal], roles.labels[cal], exposure[cal], roles.classes)

    def likelihood(model: CountModel) -> np.ndarray:
        L = code_likelihood(model, counts, rates, exposure)
        if pilot is not None:
            by_code = pilot.rates_by_code(rates, len(pilot.senders) / max(int(new.sum()), 1))
            for rows in parts(receivers):
                L[rows] += pilot.log_likelihood(model, by_code, rows)
        return L

    fitted = fit_counts(likelihood, roles, budget, receivers, objective)
    no_votes = np.zeros_like(roles.log_prior)
    known = Evidence(roles.log_prior, fitted.evidence, no_votes, code_columns(counts, exposure))
    head, _ = choose_head_by_folds(known.rows(cal), roles.labels[cal], roles.prior_head, roles.rng, objective)
    senders = np.array([new.sum()])
    learned = VoteModel(roles.prior_head, rates, senders, fitted.model.overdispersed, fitted.multipliers, head, codes)
    return head(known), {"codes": counts}, learned


def _rank(roles: VoteRoles) -> np.ndarray:
    """Labelled nodes in their order, then the others at random: those that are to be predicted receive most. [n]"""
    rank = np.empty(roles.nodes, dtype=np.int64)
    rank[roles.order] = np.arange(len(roles.order))
    others = np.flatnonzero(~roles.labelled)
    rank[others] = len(roles.order) + roles.rng.permutation(len(others))
    return rank


def decode_code_batch(
    grown: Grown,
    prior: np.ndarray,
    learned: VoteModel,
    codes: FeatureCodes,
    budget: VoteBudget,
    noise: NoiseSource,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Class probabilities of the arrivals, [m, C], and the released counts, [m, M]. Everybody sends once, arrivals receive.

    Formal guarantee: as `caribou.methods.edge.class_votes.decode_class_batch` (docs/privacy.md, Theorem 10).
    """
    n, M = grown.graph.num_nodes, codes.count
    require_memory(DOUBLE * n * (M + 8), f"the codes of {n:,} nodes")
    noisy_counts = NoisyCounts(grown.graph, prior.shape[1], budget, noise, grown.present)
    arrives = np.flatnonzero(~grown.present)
    old = n - len(arrives)
    rank = np.zeros(n)
    rank[arrives] = 1 + np.arange(len(arrives))
    code = codes(grown.graph.features)
    counts = noisy_counts.ask(np.ones(n, dtype=bool), rank, code, ~grown.present, M)[arrives]
    exposure = (old + np.arange(len(arrives))) / int(learned.senders[0])
    log_prior = np.log(np.clip(prior, 1e-4, 1))
    p0 = softmax(learned.prior_head(Evidence.of_prior(log_prior)), axis=1)
    # arrivals need not have as many edges as the nodes of the fit, which the rates are from
    scale = vote_scale(counts.astype(np.float64), (p0 @ learned.rates) * exposure[:, None])
    L = code_likelihood(learned.count_model(budget), counts, scale * learned.rates, exposure)
    evidence = class_evidence(L + np.log(learned.multipliers))
    columns = code_columns(counts, exposure) / max(scale, 0.25)
    known = Evidence(log_prior, evidence, np.zeros_like(log_prior), columns)
    return softmax(learned.head(known), axis=1), {"codes": counts}


def code_likelihood(model: CountModel, counts: np.ndarray, rates: np.ndarray, exposure: np.ndarray) -> np.ndarray:
    """Log likelihoods of noisy code counts of nodes that received from a share of all senders. -> [n, C, T]

    Args:
        model: the distribution of a count.
        counts: [n, M].
        rates: [C, M], if all send.
        exposure: [n], the share.
    """
    group = np.clip((exposure / max(float(exposure.max(initial=0)), 1e-9) * GROUPS).astype(int), 0, GROUPS - 1)
    L = np.zeros((len(counts), len(rates), len(MULTIPLIERS)))
    for k in range(GROUPS):
        rows = group == k
        if rows.any():
            L[rows] = model.log_likelihood(counts[rows], rates * exposure[rows].mean())
    return L


def code_columns(counts: np.ndarray, exposure: np.ndarray) -> np.ndarray:
    """Counts brought to what all senders would have sent, as a head takes them. [n, M], [n] -> [n, M]"""
    return counts / np.maximum(exposure, 0.25)[:, None]
