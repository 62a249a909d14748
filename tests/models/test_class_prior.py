"""The prior: it reads no edge, is out of fold, learns what is not linear, and is the same after it was saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import caribou as cb
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.graph.fingerprint import row_digests
from caribou.models import class_prior
from caribou.models.class_prior import (
    ClassPrior,
    class_probabilities,
    fit_class_prior,
    probabilities_by,
    without_rows,
)
from caribou.randomness import Streams

GRAPH = cb.datasets.load("csbm:nodes=300,signal=2", seed=0)


def table(features: np.ndarray, labels: np.ndarray) -> Graph:
    return Graph.from_edges(features, np.empty((2, 0), int), labels).random_split(seed=0)


def new_rows(graph: Graph) -> np.ndarray:
    """Test nodes whose row no labelled node has: of equal rows the prior says what it said of the labelled one."""
    digests = row_digests(graph.features, b"any")
    known = digests[np.concatenate([graph.split.train, graph.split.val])]
    return graph.split.test[~np.isin(digests[graph.split.test], known)]


def test_saved_and_loaded_it_says_the_same() -> None:
    for graph in (GRAPH, replace(GRAPH, features=sp.csr_array(np.array(GRAPH.features) > 1.4, dtype=np.float64))):
        prior, probabilities = fit_class_prior(graph, Streams(0))
        again = ClassPrior.from_arrays(prior.to_arrays()).probabilities(graph.features)
        test = new_rows(graph)
        assert np.allclose(again[test], probabilities[test], atol=1e-5)
        assert np.allclose(probabilities.sum(axis=1), 1)


def test_edges_and_test_labels_are_not_read() -> None:
    labels = np.array(GRAPH.labels)
    labels[GRAPH.split.test] = 0
    other = replace(GRAPH.without_edge(*GRAPH.edge_index[:, 0]), labels=labels)
    assert np.array_equal(fit_class_prior(GRAPH, Streams(0))[1], fit_class_prior(other, Streams(0))[1])


def test_labelled_rows_are_as_good_as_the_others_and_no_better() -> None:
    """Labels without any relation to the features: whoever knows them has seen them."""
    rng = np.random.default_rng(0)
    graph = table(rng.standard_normal((1500, 4)), rng.integers(3, size=1500))
    _, p = fit_class_prior(graph, Streams(0))
    labelled = np.concatenate([graph.split.train, graph.split.val])
    losses = -np.log(p[labelled, np.array(graph.labels)[labelled]])
    assert losses.mean() > np.log(3) - 0.01


def test_it_learns_what_is_not_linear() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2000, 3))
    graph = table(x, (np.abs(x[:, 0]) > 0.7).astype(int))
    _, p = fit_class_prior(graph, Streams(0))
    test = graph.split.test
    assert (p[test].argmax(axis=1) == np.array(graph.labels)[test]).mean() > 0.93


TABLES = {
    "no columns": np.zeros((60, 0)),
    "constant columns": np.ones((60, 3)),
    "columns of zeros": np.zeros((60, 80)),
    "a column for each row": np.eye(60),
    "more columns than labels": np.random.default_rng(0).standard_normal((60, 300)),
    "low rank": np.outer(np.arange(60), np.ones(80)) + 1,
    "repeated rows": np.tile(np.random.default_rng(0).random((3, 80)), (20, 1)),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_that_tell_little(name: str) -> None:
    """With a label for each class, and with a class that no labelled node has."""
    labels = np.array([0, 1, 2] * 20)
    for form, labelled in ((np.asarray, 40), (sp.csr_array, 3)):
        split = Split(np.arange(labelled), [], np.arange(labelled, 60))
        graph = Graph.from_edges(form(TABLES[name]), np.empty((2, 0), int), labels, num_classes=4).with_split(split)
        prior, p = fit_class_prior(graph, Streams(0))
        assert p.shape == (60, 4)
        assert p.sum(axis=1) == pytest.approx(1)
        again = ClassPrior.from_arrays(prior.to_arrays()).probabilities(graph.features[labelled:])
        assert again.sum(axis=1) == pytest.approx(1)


def test_labelled_rows_beyond_memory_are_scored_and_not_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_prior, "MOST_ENTRIES", 150 * GRAPH.num_features)
    monkeypatch.setattr(class_prior, "LEAST_ROWS", 20)
    prior, probabilities = fit_class_prior(GRAPH, Streams(0))
    assert len(prior.known.digests) == 150
    assert probabilities.sum(axis=1) == pytest.approx(1)


def few_words(rows: int, rng: np.random.Generator) -> Graph:
    """300 words, a few in each row; two of them belong to the classes."""
    labels = rng.integers(3, size=rows)
    words = rng.random((rows, 300)) < 0.02
    words[np.arange(rows), 7 + 11 * labels] |= rng.random(rows) < 0.6
    return replace(table(words.astype(float), labels), features=sp.csr_array(words, dtype=np.float64))


def test_words_are_compared_row_by_row_in_their_own_graph_alone() -> None:
    """The rows of labelled nodes serve the fit, and no saved prior holds one."""
    graph = few_words(1500, np.random.default_rng(0))
    asked = class_prior.learners_for
    names: list[str] = []

    def noted(*table: object) -> dict[str, object]:
        found = asked(*table)  # type: ignore[arg-type]
        names.extend(found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_prior, "learners_for", noted)
        prior, probabilities = fit_class_prior(graph, Streams(0))
    assert names == ["linear", "network", "trees", "nearest"]
    assert list(prior.learners) == ["linear", "network", "trees"]
    again, test = ClassPrior.from_arrays(prior.to_arrays()).probabilities(graph.features), new_rows(graph)
    assert not np.allclose(again[test], probabilities[test], atol=1e-2)
    assert (again[test].argmax(axis=1) == np.array(graph.labels)[test]).mean() > 0.6
    assert "nearest" not in asked(prior.rows, graph.features[:900], graph.labels[:900], 3, np.random.default_rng(0))


def test_of_rows_nothing_is_left_without_the_key_of_their_owner(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prior, probabilities = fit_class_prior(GRAPH, Streams(0))
    labelled = np.concatenate([GRAPH.split.train, GRAPH.split.val])
    assert np.allclose(prior.probabilities(GRAPH.features)[labelled], probabilities[labelled], atol=1e-5)
    assert prior.known.share_in(GRAPH.features, labelled) == 1
    bare = ClassPrior.from_arrays(without_rows(prior.to_arrays()))
    assert bare.known.digests.shape == (0,)
    assert not bare.known.can_be_compared
    monkeypatch.setenv("CARIBOU_STATE", str(tmp_path))
    assert not prior.known.can_be_compared
    assert prior.known.share_in(GRAPH.features, labelled) == 0
    for unknowing in (prior, bare):
        assert not np.allclose(unknowing.probabilities(GRAPH.features)[labelled], probabilities[labelled], atol=1e-2)


def test_of_known_rows_it_says_again_what_it_said_without_them() -> None:
    """On another graph of the same nodes, labels that the learners know must not come back."""
    rng = np.random.default_rng(0)
    graph = few_words(1200, rng)
    graph = replace(graph, labels=rng.integers(3, size=1200))  # nothing tells them
    prior, probabilities = fit_class_prior(graph, Streams(0))
    labels, labelled = np.array(graph.labels), np.concatenate([graph.split.train, graph.split.val])
    unknown = new_rows(graph)
    moved = rng.permutation(1200)
    found = np.empty_like(probabilities)
    found[moved] = prior.probabilities(graph.features[moved])
    assert np.allclose(found[unknown], prior.probabilities(graph.features)[unknown], atol=1e-4)
    right = found[labelled].argmax(axis=1) == labels[labelled]
    assert abs(right.mean() - 1 / 3) < 0.06


# -- class probabilities of the user's own ---------------------------------------------------------------------------


def test_probabilities_that_come_with_the_graph_are_used() -> None:
    own = np.full((300, 4), 0.25)
    p, weights = class_probabilities(GRAPH.with_prior(own), Streams(0))
    assert np.array_equal(p, own)
    assert weights == {}
    assert np.array_equal(probabilities_by({}, GRAPH.with_prior(own)), own)
    with pytest.raises(InputError, match="graph must come with class probabilities, as the training graph did"):
        probabilities_by({}, GRAPH)


def test_probabilities_that_know_the_training_labels_are_refused() -> None:
    rng = np.random.default_rng(0)
    graph = table(rng.standard_normal((1000, 2)), rng.integers(2, size=1000))
    knowing = np.full((1000, 2), 0.5)
    knowing[graph.split.train] = np.eye(2)[np.array(graph.labels)[graph.split.train]]
    with pytest.raises(InputError, match="prior must not know the labels of training nodes"):
        class_probabilities(graph.with_prior(knowing), Streams(0))


def test_a_label_of_each_class_is_enough_to_fit_words() -> None:
    """Three labelled rows of 2,000 words: all but three eigenvalues of their Gram matrix are 0."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=500)
    words = sp.csr_array(rng.random((500, 2000)) < 0.02, dtype=float)
    train = [int(np.flatnonzero(labels == k)[0]) for k in range(3)]
    split = Split(train, [], np.setdiff1d(np.arange(500), train))
    graph = Graph.from_edges(words, np.empty((2, 0), int), labels).with_split(split)
    probabilities = fit_class_prior(graph, Streams(0))[1]
    assert probabilities.sum(axis=1) == pytest.approx(1)
