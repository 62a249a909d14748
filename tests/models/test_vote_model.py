"""The vote model comes back from its arrays, and its sums are those of the definition."""

from __future__ import annotations

import numpy as np
import pytest

from caribou.errors import InputError
from caribou.models.heads import Evidence, Head
from caribou.models.vote_model import VoteModel, vote_scale, voters

MODEL = VoteModel(
    Head(np.array([1.5, 0.0, 0.0, 0.1])),
    np.array([[3.0, 1.0], [1.0, 2.0]]),
    np.array([4, 2]),
    np.full(12, 1 / 12),
    Head(np.array([1.0, 0.5, 0.0, 0.2])),
)


def test_arrays_and_back() -> None:
    arrays = {**MODEL.to_arrays(), "encoder.weight_0": np.zeros(1)}
    back = VoteModel.from_arrays(arrays)
    known = Evidence(np.array([[-1.0, -2.0]]), np.array([[0.0, -1.0]]), np.array([[2.0, 1.0]]))
    assert back.head(known).tolist() == MODEL.head(known).tolist()
    assert np.array_equal(back.rates, MODEL.rates)
    with pytest.raises(InputError, match="must hold what votes learned"):
        VoteModel.from_arrays({"encoder.weight_0": np.zeros(1)})


def test_voters_are_shares_of_the_classes() -> None:
    p, message = np.array([[0.8, 0.2], [0.1, 0.9], [1.0, 0.0]]), np.array([0, 1, 0])
    expected = np.zeros((2, 2))
    for row, sent in zip(p, message, strict=True):
        expected[:, sent] += row / MODEL.senders
    assert np.allclose(voters(p, message, MODEL.senders), expected)


def test_the_scale_is_found_and_is_one_without_votes() -> None:
    rng = np.random.default_rng(0)
    expected = rng.uniform(0.5, 3, (400, 3))
    assert vote_scale(rng.poisson(0.4 * expected), expected) == pytest.approx(0.4, abs=0.05)
    assert vote_scale(np.zeros((3, 2)), np.zeros((3, 2))) == 1.0
