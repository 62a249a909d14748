"""What was promised: kinds of claims, what events and certificates make of them, and what a claim allows."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from audit.known_bad_mechanisms.known_bad import claim_of, gaussian_claim, pure_claim
from caribou import methods
from caribou.audit.claims import Claim, weaker_than_asked
from caribou.audit.pairs import member_pair
from caribou.errors import InputError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.gap import GapNdp
from caribou.methods.mlp import MlpDp
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate
from caribou.privacy.events import EpsilonDelta, Gaussian, Laplace, NonPrivate, Parallel
from caribou.privacy.mechanism_records import PARTS, Group, OwnRecord
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams


def test_kinds_of_claims() -> None:
    budget = Budget(2.0, 1e-5)
    assert gaussian_claim(budget).kind == "mu"
    assert pure_claim(budget).pure
    mixed = claim_of([Gaussian(5.0), EpsilonDelta(0.5)], budget)
    assert (mixed.kind, mixed.pure) == ("epsilon", False)
    assert mixed.size <= 2.0
    assert Claim(2.0, 1e-5).size == 2.0
    assert not claim_of([NonPrivate()], budget).is_private
    groups = claim_of([Parallel(((Gaussian(5.0),), (Gaussian(2.0),)))], budget)
    assert groups.mu == pytest.approx(0.5)
    assert claim_of([Parallel(((Gaussian(5.0),), (Laplace(1.0),)))], budget).kind == "epsilon"
    with pytest.raises(InputError, match="epsilon must be a number > 0"):
        Claim(0.0, 1e-5)


def test_events_that_cost_more_than_the_stated_epsilon_do_not_widen_a_claim() -> None:
    stated = gaussian_claim(Budget(1.0, 1e-5))
    wide = Claim(1.0, 1e-5, events=(Gaussian(0.05),))
    assert wide.mu == 20
    assert wide.size == pytest.approx(stated.size, rel=1e-6)
    assert Claim(1.0, 1e-5, events=(Gaussian(100.0),)).size == 0.01, "events that cost less are held to what they cost"
    assert Claim(1.0, 0.0, events=(Gaussian(0.05),)).kind == "epsilon"
    assert wide.proven(300, 700, 1000, 0.975) > wide.size, "the stated epsilon is held against it"


def test_a_group_that_spends_more_than_was_asked_for_breaks_the_promise() -> None:
    for cheap in [Gaussian(9.0), EpsilonDelta(0.5)]:
        budget = Budget(1.0, 1e-5, "node")
        fit = methods.fit(MlpDp(), member_pair().joined, budget, Streams(0), NoiseSource.seeded(0)).certificate
        assert weaker_than_asked(fit, budget) is None
        costs = {Group.TRAINING: (cheap,), Group.OTHERS: (Gaussian(0.5),)}
        worse = replace(
            fit, mechanisms=(OwnRecord(name="a mechanism", why="a test", unit=PrivacyUnit.NODE, paid=costs),)
        )
        assert "claims epsilon = 9.99" in (weaker_than_asked(worse, budget) or "")


def test_what_a_claim_allows() -> None:
    claim = gaussian_claim(Budget(4.0, 1e-5))
    for fpr in (0.001, 0.1, 0.6):
        assert claim.leak(fpr, claim.allowed(fpr)) == pytest.approx(claim.size, rel=1e-9)
    pure = pure_claim(Budget(1.0, 1e-5))
    assert pure.allowed(0.1) == pytest.approx(0.1 * math.e)
    assert pure.leak(0.1, pure.allowed(0.1)) == pytest.approx(1.0)
    assert claim.as_epsilon(claim.size) == pytest.approx(4.0, rel=1e-6)
    assert claim.as_epsilon(0.0) == 0


def test_right_guesses_reject_a_claim_exactly_where_more_than_its_size_is_proven() -> None:
    for claim in (gaussian_claim(Budget(2.0, 1e-5)), pure_claim(Budget(2.0, 1e-5)), Claim(2.0, 1e-5)):
        for correct in range(60, 101, 2):
            proven = claim.proven_by_guesses(correct, 100, 400, 0.95)
            assert (proven > claim.size) == (claim.p_value_of_guesses(correct, 100, 400) <= 0.05), (claim, correct)
    assert not Claim(math.inf, 1e-5).is_private
    assert Claim(math.inf, 1e-5).proven_by_guesses(99, 100, 400, 0.95) > 2


def test_a_node_is_promised_what_its_degree_costs() -> None:
    sizes = Sizes(nodes=500, columns=8, classes=3, train=300, val=50, test=150)
    plan = GapNdp(declared_degree=20).plan(sizes, Budget(4.0, 1e-5, "node"))
    certificate = plan.certificate(NoiseSource.seeded(0))
    curve = dict(certificate.epsilon_by_degree)
    for degree in (0, 1, 20, 100, 499):
        claims = [Claim.of_certificate(certificate, group, degree) for group in PARTS]
        assert max(claim.spent for claim in claims) == pytest.approx(curve[degree], rel=1e-9)
        assert all(claim.epsilon == pytest.approx(curve[degree], rel=1e-9) for claim in claims)
        assert all(claim.kind == "mu" for claim in claims)
    assert Claim.of_certificate(certificate).epsilon == 4.0, "an unknown degree has the headline"
    stored = Certificate.from_json(certificate.to_json())
    assert Claim.of_certificate(stored, Group.OTHERS, 100) == Claim.of_certificate(certificate, Group.OTHERS, 100)
    graph_free = MlpDp().plan(sizes, Budget(4.0, 1e-5, "node")).certificate(NoiseSource.seeded(0))
    assert Claim.of_certificate(graph_free, degree=50) == Claim.of_certificate(graph_free)
