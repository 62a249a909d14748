"""Numbers and several labels as targets: the sums are the sums, heads learn from them, and the certificate covers them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import caribou as cb
from caribou.errors import CaribouError, InputError
from caribou.model.verify import verify
from caribou.models.node_targets import release_sums
from caribou.privacy.ledger import Ledger

GRAPH = cb.datasets.load("csbm", nodes=120, seed=1)
SPLIT = GRAPH.split
TARGETS = np.asarray(GRAPH.labels, dtype=float) * 3 - 4
LABELS = np.stack([GRAPH.labels < 2, GRAPH.labels % 2 == 0], axis=1)  # type: ignore[operator]


def test_without_noise_the_sums_are_those_over_neighbours() -> None:
    rng = np.random.default_rng(0)
    targets, senders = rng.uniform(-1, 1, (120, 2)), rng.permutation(120)[:50]
    found = release_sums(GRAPH, targets, senders, cb.Budget(math.inf))
    sent = np.zeros((120, 3))
    sent[senders] = np.hstack([targets[senders], np.ones((50, 1))])
    exact = GRAPH.adjacency(np.float64) @ sent
    assert np.allclose(found.sums, exact[:, :2], atol=1e-9)
    assert np.allclose(found.count, exact[:, 2], atol=1e-9)
    assert found.noise_std == 0
    assert np.isfinite(found.columns(0)).all()


def test_the_noise_is_that_of_the_certificate() -> None:
    senders = np.arange(0, 120, 2)
    exact = release_sums(GRAPH, TARGETS[:, None] / 10, senders, cb.Budget(math.inf))
    noisy = [release_sums(GRAPH, TARGETS[:, None] / 10, senders, cb.Budget(2)) for _ in range(8)]
    spread = np.std([made.count - exact.count for made in noisy])
    assert spread == pytest.approx(noisy[0].noise_std, rel=0.1)
    assert all(verify(made.certificate).passed for made in noisy[:1])


def test_one_certificate_one_charge(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    model = cb.MultiLabelClassifier(cb.Budget(2)).fit(GRAPH, LABELS, ledger=ledger)
    assert len(ledger.entries()) == 1, "all labels share one release"
    assert model.certificate.status == "private"
    assert model.predict().shape == LABELS.shape
    assert set(model.score("val")) == {"micro_f1", "macro_f1", "average_precision", "all_right"}


def test_unknown_targets_of_test_nodes_are_not_read() -> None:
    hidden = TARGETS.copy()
    hidden[SPLIT.test] = np.nan  # type: ignore[union-attr]
    noise = [cb.NoiseSource.seeded(1) for _ in range(2)]
    full, part = (
        cb.NodeRegressor(cb.Budget(4)).fit(GRAPH, y, noise=n) for y, n in zip((TARGETS, hidden), noise, strict=True)
    )
    assert np.array_equal(full.predict(), part.predict())
    assert full.score()["rmse"] < full.score()["rmse_of_mean"]
    assert math.isnan(part.score()["rmse"])


def test_bad_input() -> None:
    model = cb.NodeRegressor(cb.Budget(4))
    with pytest.raises(CaribouError, match="model must be fitted first"):
        model.predict()
    with pytest.raises(InputError, match="unit must be edge for numbers and several labels as targets"):
        cb.NodeRegressor(cb.Budget(4, 1e-5, "node")).fit(GRAPH, TARGETS)
    with pytest.raises(InputError, match="targets must be of shape"):
        model.fit(GRAPH, TARGETS[:5])
    with pytest.raises(InputError, match="targets must be numbers"):
        model.fit(GRAPH, ["a"] * 120)
    with pytest.raises(InputError, match="targets of training and validation nodes must be finite"):
        model.fit(GRAPH, np.full(120, np.nan))
    with pytest.raises(InputError, match="labels must be 0 and 1"):
        cb.MultiLabelClassifier(cb.Budget(4)).fit(GRAPH, 2 * LABELS)
    with pytest.raises(InputError, match="labels must be of shape"):
        cb.MultiLabelClassifier(cb.Budget(4)).fit(GRAPH, TARGETS)
    with pytest.raises(InputError, match="split must be given"):
        model.fit(GRAPH.with_split(None), TARGETS)
    with pytest.raises(InputError, match="part must be one of"):
        model.fit(GRAPH, TARGETS).score("all")
