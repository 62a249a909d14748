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
from caribou.methods.edge.count_fit import fit_counts
from caribou.methods.edge.pilot import Pilot
from caribou.methods.edge.vote_roles import VoteRoles
from caribou.models.code_vote_model import CodeVoteModel, code_columns, code_likelihood
from caribou.models.count_likelihood import CountModel, class_evidence, parts, symbol_rates
from caribou.models.feature_codes import FeatureCodes
from caribou.models.heads import Evidence, choose_head_by_folds
from caribou.models.objective import Objective
from caribou.models.vote_model import vote_scale


def decode_codes(
    noisy_counts: NoisyCounts,
    roles: VoteRoles,
    codes: FeatureCodes,
    code: np.ndarray,
    pilot: Pilot | None,
    objective: Objective,
) -> tuple[np.ndarray, dict[str, np.ndarray], CodeVoteModel]:
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
    learned = CodeVoteModel(
        roles.prior_head, codes, rates, int(new.sum()), fitted.model.overdispersed, fitted.multipliers, head
    )
    return head(known), {"codes": counts}, learned


def _rank(roles: VoteRoles) -> np.ndarray:
    """Labelled nodes in their order, then the others at random: those that are to be predicted receive most. [n]"""
    rank = np.empty(roles.nodes, dtype=np.int64)
    rank[roles.order] = np.arange(len(roles.order))
    others = np.flatnonzero(~roles.labelled)
    rank[others] = len(roles.order) + roles.rng.permutation(len(others))
    return rank


def decode_code_batch(
    grown: Grown, prior: np.ndarray, learned: CodeVoteModel, budget: VoteBudget, noise: NoiseSource
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Class probabilities of the arrivals, [m, C], and the released counts, [m, M]. Everybody sends once, arrivals receive.

    Formal guarantee: as `caribou.methods.edge.batches.decode_batch` (docs/privacy.md, Theorem 10).
    """
    n, M = grown.graph.num_nodes, learned.codes.count
    require_memory(DOUBLE * n * (M + 8), f"the codes of {n:,} nodes")
    noisy_counts = NoisyCounts(grown.graph, prior.shape[1], budget, noise, grown.present)
    arrives = np.flatnonzero(~grown.present)
    old = n - len(arrives)
    rank = np.zeros(n)
    rank[arrives] = 1 + np.arange(len(arrives))
    code = learned.codes(grown.graph.features)
    counts = noisy_counts.ask(np.ones(n, dtype=bool), rank, code, ~grown.present, M)[arrives]
    exposure = (old + np.arange(len(arrives))) / learned.senders
    log_prior = np.log(np.clip(prior, 1e-4, 1))
    p0 = softmax(learned.prior_head(Evidence.of_prior(log_prior)), axis=1)
    # arrivals need not have as many edges as the nodes of the fit, which the rates are from
    scale = vote_scale(counts.astype(np.float64), (p0 @ learned.rates) * exposure[:, None])
    L = code_likelihood(learned.count_model(budget), counts, scale * learned.rates, exposure)
    evidence = class_evidence(L + np.log(learned.multipliers))
    columns = code_columns(counts, exposure) / max(scale, 0.25)
    known = Evidence(log_prior, evidence, np.zeros_like(log_prior), columns)
    return softmax(learned.head(known), axis=1), {"codes": counts}
