"""What methods at edge level share: nothing is fitted on public values after the charge, and class probabilities may be given."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import caribou as cb
from caribou import methods
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS, names_of
from caribou.methods.edge_method import holds_encoder, prior_of, require_same_start
from caribou.methods.votes import VoteRoles
from caribou.models import class_prior, encoder
from caribou.models.class_prior import ClassPrior
from caribou.models.encoder import Encoder
from caribou.models.feature_codes import FeatureCodes
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams
from caribou.release import Account

pytestmark = pytest.mark.usefixtures("quick_learning")
GRAPH = cb.datasets.load("csbm:nodes=80", seed=0)
EDGE = names_of(lambda info: info.unit is PrivacyUnit.EDGE)
STARTING = [name for name in EDGE if getattr(METHODS[name].create(), "takes_prior", False)]
"""Methods that start from class probabilities or embeddings."""


def budget_of(name: str) -> Budget:
    return Budget(4.0 if METHODS[name].private else math.inf)


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Encoders and priors that are fitted, and the charge, in their order."""
    seen: list[str] = []

    def noting(module: object, name: str, word: str) -> None:
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, **named: seen.append(word) or real(*args, **named))

    noting(encoder, "_fitted", "fit")
    noting(class_prior, "fit_class_prior", "fit")
    noting(FeatureCodes, "of", "codes")
    noting(VoteRoles, "of", "roles")
    noting(ClassPrior, "probabilities", "applied")
    noting(Encoder, "probabilities", "applied")
    noting(Account, "charge", "charge")
    return seen


@pytest.mark.parametrize("name", EDGE)
def test_no_encoder_is_fitted_after_the_charge(name: str, fits: list[str], tmp_path) -> None:
    """With an objective of its own, too: preparing and fitting ask for the same encoder."""
    method = METHODS[name].create(metric="macro_f1", class_weight="balanced")
    budget = budget_of(name)
    ledger = tmp_path / "ledger.sqlite" if budget.is_private else None
    methods.fit(method, GRAPH, budget, Streams(0), NoiseSource.secure(), ledger=ledger)
    assert fits.count("fit") == (name in STARTING)
    if "charge" in fits:
        assert fits[-1] == "charge"


def test_codes_and_priors_of_votes_are_made_before_the_charge(fits: list[str], tmp_path) -> None:
    """In a fit, for another graph, and for arrivals."""
    ledger = tmp_path / "ledger.sqlite"
    grown = cb.datasets.load("csbm:nodes=90", seed=0)
    model = cb.Model("votes-edp", Budget(4.0), alphabet="code", max_rounds=2).fit(grown.first_nodes(80), ledger=ledger)
    assert fits == ["fit", "roles", "codes", "charge"]
    fits.clear()
    model.extend(grown, ledger=ledger, same_order=True)
    assert fits == ["applied", "charge"]
    fits.clear()
    model.release(cb.datasets.load("csbm:nodes=70", seed=2), ledger=ledger)
    assert fits == ["applied", "roles", "codes", "charge"]


def test_a_prepared_method_takes_no_other_graph() -> None:
    """It would have to fit on public values once more, after the charge."""
    method, budget = METHODS["votes-edp"].create(max_rounds=2), Budget(4.0)
    plan = method.plan(GRAPH.sizes(budget.unit), budget)
    ready = method.prepare(plan, GRAPH, Streams(0))
    with pytest.raises(InputError, match="must be the one that the method was prepared for"):
        ready.fit(plan, GRAPH.renamed("other"), Streams(0), NoiseSource.secure())


@pytest.mark.parametrize("name", STARTING)
def test_class_probabilities_may_be_given(name: str, fits: list[str]) -> None:
    """They stand in the place of the encoder: nothing is fitted, and better ones predict better."""
    method, budget = METHODS[name].create(), budget_of(name)
    known, unknown = (GRAPH.with_prior(p) for p in (told(GRAPH, 0.9), np.full((80, 4), 0.25)))
    one, two = (methods.fit(method, graph, budget, Streams(0), NoiseSource.seeded(0)) for graph in (known, unknown))
    assert "fit" not in fits
    assert "given prior" in {assumption.name.value for assumption in one.certificate.assumptions}
    assert not holds_encoder(one.weights)
    if METHODS[name].private:  # without noise the graph alone tells these nodes
        assert accuracy(one.probabilities, GRAPH) > accuracy(two.probabilities, GRAPH)
    if not METHODS[name].transductive:
        other = cb.datasets.load("csbm:nodes=70", seed=2)
        other = other.with_prior(told(other, 0.9))
        found = methods.predict_graph(method, one.weights, other, budget, Streams(0), NoiseSource.seeded(0))
        assert accuracy(found.probabilities, other) > 0.5


def accuracy(probabilities: np.ndarray, graph: Graph) -> float:
    return float(np.mean(probabilities.argmax(axis=1) == graph.labels))


def told(graph: Graph, right: float) -> np.ndarray:
    """Class probabilities that are right about this share of the nodes, of every part alike."""
    rng = np.random.default_rng(0)
    said = np.where(rng.random(graph.num_nodes) < right, graph.labels, rng.integers(4, size=graph.num_nodes))
    return 0.1 + 0.6 * np.eye(4)[said]


def test_an_encoder_and_given_probabilities_are_not_mixed() -> None:
    sizes = Sizes(nodes=10, columns=3, classes=2, given=True)
    require_same_start(sizes, {})
    with pytest.raises(InputError, match="graph must come without class probabilities"):
        require_same_start(sizes, {"encoder.row_length": np.array(1.0)})
    with pytest.raises(InputError, match="graph must come with class probabilities"):
        prior_of({}, GRAPH)


@pytest.mark.parametrize("name", EDGE)
@pytest.mark.parametrize("cell", [1e39, -2e36])
def test_features_that_overflow_cost_nothing(name: str, cell: float, tmp_path) -> None:
    features = np.array(GRAPH.features, dtype=np.float64)
    features[3, 1] = cell
    graph, budget = replace(GRAPH, features=features), budget_of(name)
    ledger = tmp_path / "ledger.sqlite" if budget.is_private else None
    with pytest.raises(InputError) as refused:
        methods.fit(METHODS[name].create(), graph, budget, Streams(0), NoiseSource.secure(), ledger=ledger)
    assert (refused.value.field, refused.value.value) == ("features", cell)
    assert not (tmp_path / "ledger.sqlite").exists()
