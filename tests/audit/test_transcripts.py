"""What an adversary sees of a run: every run a row of its own, and nothing that is handed out is lost."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from caribou.audit.transcripts import (
    STATISTICS,
    WHOLE,
    Layout,
    Runs,
    equal_rows,
    finite,
    observe,
    observe_batch,
    with_noise_removed,
    word_number,
)
from caribou.mechanisms.noise_source import NoiseSource


def test_equal_rows_are_counted_in_every_run() -> None:
    x = np.zeros((3, 4, 2))
    x[0] = [[1, 2], [1, 2], [3, 4], [1, 2]]
    x[1] = [[1, 2], [1, 2 + 1e-6], [0, 0], [0, 0]]
    x[2] = np.arange(8).reshape(4, 2)
    assert equal_rows(x).tolist() == [3, 0, 0]


def test_a_stored_seed_is_found_and_another_number_is_not() -> None:
    value = np.linspace(0, 1, 96).reshape(12, 8).round()
    noisy = value + NoiseSource.seeded(77).gaussian((12, 8), std=3.0)
    found = with_noise_removed({"x": noisy, "seed": np.array(77)})
    assert np.allclose(found["x without gaussian noise"], value)
    flat = 0.5 + 1e-3 * np.linspace(0, 1, 96).reshape(12, 8)  # a large mean is no correlation
    for count in range(60):
        assert set(with_noise_removed({"x": flat, "y": noisy, "count": np.array(count)})) == {"x", "y", "count"}


def test_a_seed_is_found_in_any_spelling() -> None:
    for stored in [np.array([77]), np.array([[3], [77]]), np.array(77.0), np.array([np.nan, 77.0])]:
        value = np.linspace(0, 1, 96).reshape(12, 8).round()
        noisy = value + NoiseSource.seeded(77).laplace((12, 8), scale=3.0)
        found = with_noise_removed({"x": noisy, "seed": stored})
        assert np.allclose(found["x without laplace noise"], value)


def test_a_seed_of_geometric_noise_is_found() -> None:
    value = np.arange(96).reshape(12, 8) // 48
    noisy = NoiseSource.seeded(77).add_discrete_laplace(value, epsilon=0.2)
    left = with_noise_removed({"x": noisy, "seed": np.array([77])})["x without laplace noise"]
    assert np.std(left - value) < 0.6 < 5 < np.std(noisy - value)


def test_runs_of_one_tensor_are_tabulated_like_runs_made_one_by_one() -> None:
    rng = np.random.default_rng(0)
    batch = {"x": rng.normal(size=(7, 3, 2)).round(1), "n": rng.integers(0, 5, (7, 4))}
    batch["x"][3, 0] = batch["x"][3, 1]
    batch["x"][5, 2, 0] = np.inf
    one_by_one = observe([{name: array[run] for name, array in batch.items()} for run in range(7)])
    together = observe_batch(batch)
    assert together.names == one_by_one.names == STATISTICS
    assert np.array_equal(together.scores, one_by_one.scores)
    layout = Layout.of((one_by_one, together))
    assert np.array_equal(layout(together), layout(one_by_one), equal_nan=True)


def test_parts_and_joins_are_inverse_whatever_the_shapes() -> None:
    rng = np.random.default_rng(1)
    runs = observe([{"x": rng.normal(size=3 + run % 2), **({"y": np.ones(1)} if run % 3 else {})} for run in range(12)])
    layout = Layout.of((runs,))
    for cuts in ((0, 12), (0, 5, 12), (0, 1, 2, 12)):
        parts = [runs.part(start, stop) for start, stop in pairwise(cuts)]
        again = Runs.join(parts)
        assert len(again) == 12
        assert np.array_equal(layout(again), layout(runs), equal_nan=True)
        assert np.array_equal(again.columns(runs.names), runs.columns(runs.names))


def test_large_whole_numbers_are_seen_to_the_last_bit() -> None:
    for runs in (
        observe([{"n": np.array([WHOLE * 4 + run])} for run in (0, 1)]),
        observe_batch({"n": WHOLE * 4 + np.arange(2)[:, None]}),
    ):
        assert [each.arrays["n, low words"].tolist() for each in runs.alike] == [[[0], [1]]]
    assert set(observe([{"n": np.array([WHOLE])}]).alike[0].arrays) == {"n"}
    odd = observe_batch({"n": np.array([[3], [WHOLE * 4 + 1], [5]])})
    assert [(each.places.tolist(), len(each.arrays)) for each in odd.alike] == [([0, 2], 1), ([1], 2)], "each by itself"


def test_words_have_numbers_of_their_own_and_scores_stay_finite() -> None:
    numbers = {word_number(f"word {k}") for k in range(2000)}
    assert len(numbers) == 2000
    assert all(0 < number < 1 for number in numbers)
    assert finite(np.array([np.nan, np.inf, -np.inf, 2.0])).tolist() == [-1e9, 1e9, -1e9, 2.0]
