"""What codes taught: saved and read again, and the likelihood of codes from a share of all senders."""

from __future__ import annotations

import numpy as np

from caribou.mechanisms.edge_votes import VoteBudget
from caribou.models.code_vote_model import CodeVoteModel, code_columns, code_likelihood
from caribou.models.count_likelihood import MULTIPLIERS, CountModel
from caribou.models.feature_codes import FeatureCodes
from caribou.models.heads import BayesHead, Evidence, PriorHead

FEATURES = np.random.default_rng(0).standard_normal((40, 3))
MODEL = CodeVoteModel(
    PriorHead(np.array([1.0, 0.0, 0.0])),
    FeatureCodes.of(FEATURES, 3, np.random.default_rng(1)),
    np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]),
    40,
    True,
    np.full(len(MULTIPLIERS), 1 / len(MULTIPLIERS)),
    BayesHead(np.array([1.0, 0.5, 0.0, 0.0])),
)


def test_arrays_and_back() -> None:
    arrays = MODEL.to_arrays()
    assert CodeVoteModel.is_in(arrays)
    assert not CodeVoteModel.is_in({"votes.rates": np.zeros(1)})
    back = CodeVoteModel.from_arrays({**arrays, "prior.linear": np.zeros(2)})
    known = Evidence(np.array([[-1.0, -2.0]]), np.array([[0.0, -1.0]]), np.zeros((1, 2)), np.ones((1, 3)))
    assert np.array_equal(back.head(known), MODEL.head(known))
    assert np.array_equal(back.codes(FEATURES), MODEL.codes(FEATURES))
    assert np.array_equal(back.rates, MODEL.rates)
    assert (back.senders, back.count_model(VoteBudget(1.0)).overdispersed) == (40, True)


def test_who_could_receive_from_half_of_the_senders_expects_half() -> None:
    model, counts = CountModel(VoteBudget(8.0), overdispersed=False), np.array([[2, 1, 0]] * 2)
    L = code_likelihood(model, counts, MODEL.rates, np.array([1.0, 0.5]))
    assert np.allclose(L[0], model.log_likelihood(counts[:1], MODEL.rates)[0])
    assert np.allclose(L[1], model.log_likelihood(counts[1:], MODEL.rates / 2)[0])


def test_columns_are_in_the_measure_of_all_senders() -> None:
    assert code_columns(np.array([[4.0], [4.0], [4.0]]), np.array([1.0, 0.5, 0.0])).ravel().tolist() == [4, 8, 16]
