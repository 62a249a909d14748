"""Metrics of predictions: scikit-learn says the same, and golden values hold without it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from caribou.errors import InputError
from caribou.metrics import (
    METRICS,
    SELECTING,
    Metrics,
    Scored,
    Threshold,
    best_threshold,
    metric_name,
    multilabel_metrics,
    rarest,
    regression_metrics,
)


def drawn(classes: int, nodes: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities with ties, and labels of which the last class is rare."""
    rng = np.random.default_rng(seed)
    shares = np.append(np.ones(classes - 1), 0.15)
    labels = rng.choice(classes, nodes, p=shares / shares.sum())
    logits = rng.normal(size=(nodes, classes)) + 1.5 * np.eye(classes)[labels]
    p = np.round(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), 2) + 1e-3
    return p / p.sum(axis=1, keepdims=True), labels


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_scikit_learn_says_the_same(classes: int) -> None:
    oracle = pytest.importorskip("sklearn.metrics")
    p, y = drawn(classes)
    made, given = Metrics(p, y), p.argmax(axis=1)
    onehot = np.eye(classes)[y]
    binary = classes == 2
    expected = {
        "accuracy": oracle.accuracy_score(y, given),
        "balanced_accuracy": oracle.balanced_accuracy_score(y, given),
        "macro_f1": oracle.f1_score(y, given, average="macro"),
        "roc_auc": oracle.roc_auc_score(y, p[:, 1] if binary else p, multi_class="ovr"),
        "average_precision": (
            oracle.average_precision_score(y, p[:, 1]) if binary else oracle.average_precision_score(onehot, p)
        ),
        "brier": oracle.brier_score_loss(y, p[:, 1]) if binary else ((p - onehot) ** 2).sum(axis=1).mean(),
    }
    for name, value in expected.items():
        assert made.value(name) == pytest.approx(value, abs=1e-12), name
    assert (made.confusion.counts == oracle.confusion_matrix(y, given)).all()
    precision, recall, f1, support = oracle.precision_recall_fscore_support(y, given, zero_division=0)
    for own, other in zip(
        (made.confusion.precision, made.confusion.recall, made.confusion.f1, made.confusion.support),
        (precision, recall, f1, support),
        strict=True,
    ):
        assert own == pytest.approx(other, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_threshold_has_the_best_f1_of_all(seed: int) -> None:
    p, y = drawn(2, nodes=60, seed=seed)
    members = y == 1
    value, f1 = best_threshold(Scored(p[:, 1], members))

    def f1_at(threshold: float) -> float:
        given = p[:, 1] >= threshold
        return 2 * (given & members).sum() / (given.sum() + members.sum())

    assert f1_at(value) == pytest.approx(f1)
    assert f1 >= max(f1_at(t) for t in np.linspace(0, 1, 500)) - 1e-12
    assert Threshold(1, value, f1).flags(p).tolist() == (p[:, 1] >= value).tolist()


def test_several_labels_and_numbers_against_scikit_learn() -> None:
    oracle = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    y = rng.random((200, 4)) < [0.5, 0.3, 0.1, 0.6]
    p = np.clip(0.35 * y + 0.6 * rng.random((200, 4)), 0, 1)
    made = multilabel_metrics(p, y)
    assert made["micro_f1"] == pytest.approx(oracle.f1_score(y, p >= 0.5, average="micro"))
    assert made["macro_f1"] == pytest.approx(oracle.f1_score(y, p >= 0.5, average="macro"))
    assert made["average_precision"] == pytest.approx(oracle.average_precision_score(y, p, average="macro"))
    assert made["all_right"] == pytest.approx(oracle.accuracy_score(y, p >= 0.5))
    truth, guess = rng.normal(size=50), rng.normal(size=50)
    found = regression_metrics(guess, truth)
    assert found["rmse"] == pytest.approx(math.sqrt(oracle.mean_squared_error(truth, guess)))
    assert found["mae"] == pytest.approx(oracle.mean_absolute_error(truth, guess))
    assert found["r2"] == pytest.approx(oracle.r2_score(truth, guess))
    assert found["rmse_of_mean"] == pytest.approx(truth.std())


def test_golden_values_of_a_rare_class() -> None:
    """96 honest, 4 fraud: calling everybody honest has accuracy .96 and a macro F1 of .49; no metric but the first is fooled."""
    y = np.array([0] * 96 + [1] * 4)
    lazy = Metrics(np.tile([0.9, 0.1], (100, 1)), y)
    assert lazy.value("accuracy") == lazy.value("majority") == 0.96
    assert lazy.value("balanced_accuracy") == 0.5
    assert lazy.value("macro_f1") == pytest.approx((2 * 96 / 196) / 2)
    assert (lazy.value("roc_auc"), lazy.value("average_precision")) == (0.5, 0.04)
    assert lazy.value("brier") == pytest.approx(0.96 * 0.01 + 0.04 * 0.81)
    assert lazy.value("calibration_error") == pytest.approx(0.06)
    assert rarest(y, 2) == 1
    shown = lazy.to_dict(["ok", "fraud"])
    keys = {
        "accuracy",
        "majority",
        "balanced_accuracy",
        "macro_f1",
        "roc_auc",
        "average_precision",
        "brier",
        "per_class",
    }
    assert keys <= shown.keys()
    assert shown["per_class"]["fraud"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 4.0}


def test_the_declared_class_counts_and_not_the_rarer_one() -> None:
    p, y = drawn(2)
    assert Metrics(p, y, positive=0).value("ap") != Metrics(p, y).value("ap") == Metrics(p, y, positive=1).value("ap")
    assert Metrics(p, y, positive=0).value("auc") == pytest.approx(Metrics(p, y).value("auc"))


def test_nodes_without_a_label_are_left_out_and_nothing_is_no_number() -> None:
    p, y = drawn(3)
    some = np.where(np.arange(len(y)) % 3 == 0, -1, y)
    kept = some >= 0
    for name in METRICS:
        assert Metrics(p, some).value(name) == Metrics(p[kept], y[kept]).value(name)
        assert math.isnan(Metrics(p, np.full(len(y), -1)).value(name))
    one_class = Metrics(p, np.zeros(len(y), dtype=int))
    assert math.isnan(one_class.value("roc_auc"))
    assert one_class.value("balanced_accuracy") == one_class.value("accuracy")


@pytest.mark.parametrize("classes", [2, 3])
def test_f1_is_that_of_the_positive_class(classes: int) -> None:
    oracle = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(classes)
    y, p = rng.choice(classes, 200, p=[0.1, *[0.9 / (classes - 1)] * (classes - 1)]), rng.random((200, classes))
    each = oracle.f1_score(y, p.argmax(axis=1), average=None)
    assert [Metrics(p, y, k).value("f1") for k in range(classes)] == pytest.approx(each.tolist())
    usual = each[0] if classes == 2 else each.mean()
    assert Metrics(p, y).value("f1") == pytest.approx(usual), "of two classes the rarer, of more the mean"


def test_a_metric_is_known_by_its_name() -> None:
    assert set(SELECTING) <= set(METRICS)
    assert metric_name("f1") == "f1"
    for wrong in ("speed", None, 3):
        with pytest.raises(InputError, match="metric must be one of accuracy, "):
            metric_name(wrong)
    with pytest.raises(InputError, match="metric must be one of"):
        metric_name("brier", SELECTING)
