"""Plans: what a release will cost, who pays, and what its certificate says, before anything is drawn."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from caribou.errors import CertificateError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.accounting import gdp_epsilon
from caribou.privacy.assumptions import STANDING, Assumption, AssumptionName
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.events import EpsilonDelta, Gaussian, NonPrivate, Parallel
from caribou.privacy.mechanism_records import (
    edge_votes_record,
    exponential_record,
    mean_record,
    no_noise_record,
    no_release_record,
)
from caribou.privacy.plan import ReleasePlan, attack_rates, exact_mu, group_epsilons
from certificate_support import certificates, embeddings, plan_of, search_plan

NODE = Budget(8.0, 1e-5, PrivacyUnit.NODE)


def plan(*records: object, budget: Budget = NODE, **more: object) -> ReleasePlan:
    return ReleasePlan(budget, tuple(records), released=("X",), description="a test", **more)  # type: ignore[arg-type]


def test_a_plan_without_a_mechanism_is_refused() -> None:
    with pytest.raises(CertificateError, match="must have a mechanism, got none"):
        plan()


def test_an_overspent_claim_is_refused() -> None:
    with pytest.raises(CertificateError, match="epsilon_spent must be <= epsilon = 1"):
        plan(mean_record("too little noise", noise_std=3.0), budget=Budget(1.0, 1e-5, "node")).certificate(
            NoiseSource.secure()
        )


def test_groups_pay_side_by_side() -> None:
    both = plan(mean_record("mean", noise_std=2.0), exponential_record("choice", epsilon=3.0, candidates=4))
    (event,) = both.cost
    assert isinstance(event, Parallel)
    assert set(event.groups) == {(Gaussian(2.0),), (EpsilonDelta(3.0),)}
    made = both.certificate(NoiseSource.secure())
    assert made.groups == {
        "training nodes": pytest.approx(gdp_epsilon(mu=0.5, delta=1e-5)),
        "validation nodes": pytest.approx(3.0, abs=1e-4),
    }
    assert made.epsilon_spent == max(made.groups.values())
    assert made.mu is None
    alone = plan(mean_record("one", noise_std=3.0), mean_record("two", noise_std=4.0)).certificate(NoiseSource.secure())
    assert alone.mu == pytest.approx(math.sqrt(1 / 9 + 1 / 16))  # 5/12: mu^2 adds up
    assert alone.groups == {"training nodes": alone.epsilon_spent}


def test_what_reads_nothing_protected_costs_nothing() -> None:
    made = plan(no_release_record(PrivacyUnit.NODE, "each prediction is of its own features"))
    assert made.certificate(NoiseSource.secure()).epsilon_spent == 0
    assert exact_mu((NonPrivate(),)) is None


def test_a_plan_without_noise_has_no_privacy() -> None:
    made = plan(
        no_noise_record(PrivacyUnit.EDGE, "the graph itself"), budget=Budget(math.inf, 1e-5, "edge")
    ).certificate(NoiseSource.secure())
    assert (made.status, made.epsilon_spent, made.mu) == ("no privacy", math.inf, None)
    assert made.groups == {"every edge": math.inf}
    assert set(made.largest_true_positive_rates.values()) == {1.0}


def test_public_parameters_that_a_mechanism_fixes_are_the_mechanisms() -> None:
    made = plan_of("gap-edp", {"hops": 2}, 4.0)
    assert (made.public_parameters["hops"], made.public_parameters["nodes"]) == (2, 80)
    assert made.public_parameters["radius"] is None
    release = embeddings("node", cap=10)
    assert (release.public_parameters["degree_cap"], release.public_parameters["start"]) == (10, "features")


def test_assumptions_follow_from_the_mechanisms() -> None:
    votes = plan(edge_votes_record(epsilon=1.0, mu=math.inf), budget=Budget(1.0, 1e-5, "edge"))
    assert {a.name for a in votes.all_assumptions(NoiseSource.secure())} == set(STANDING)
    wrong = plan(
        mean_record("mean", noise_std=2.0),
        assumptions=(Assumption(AssumptionName.TRUNCATION), Assumption(AssumptionName.PUBLIC_FEATURES)),
    )
    names = {a.name for a in wrong.all_assumptions(NoiseSource.secure())} - set(STANDING)
    # a truncation that no mechanism makes is not stated; what the method alone can know is
    assert names == {AssumptionName.OWN_PREDICTIONS, AssumptionName.NO_EDGE_READ, AssumptionName.PUBLIC_FEATURES}
    for name, made in certificates().items():
        listed = [a.name for a in made.assumptions]
        assert listed == sorted(listed, key=list(AssumptionName).index), name


def test_the_search_names_its_theorem() -> None:
    made = search_plan("caribou-edp", {"hops": [1, 2]}, [0, 1], 2.0).certificate(NoiseSource.secure())
    (search,) = [a for a in made.assumptions if a.name is AssumptionName.HYPER_PARAMETERS]
    assert search.parameters["search"] == made.mechanisms[0].theorem == "composition of 2 trials"


def test_a_certificate_has_a_number_a_time_and_versions() -> None:
    when = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
    one, two = (embeddings().certificate(NoiseSource.secure(), now=when) for _ in range(2))
    assert one.created == "2026-01-31T12:00:00Z"
    assert one.certificate_id != two.certificate_id
    assert {"python", "caribou-gnn", "dp-accounting"} <= set(one.versions)


def test_attack_rates_are_those_of_the_gaussian() -> None:
    """Phi(Phi^-1(0.01) + 1) = 0.0924 and Phi(Phi^-1(0.001) + 1) = 0.0183 (tables of the normal distribution)."""
    rates = attack_rates((Gaussian(1.0),), 1e-5)
    assert rates == {"0.001": pytest.approx(0.01832, abs=1e-4), "0.01": pytest.approx(0.09236, abs=1e-4)}


def test_group_epsilons_compose_each_group_alone() -> None:
    records = (mean_record("mean", noise_std=2.0), exponential_record("choice", epsilon=1.0, candidates=2))
    assert group_epsilons(records, 1e-5) == {
        "training nodes": pytest.approx(gdp_epsilon(mu=0.5, delta=1e-5)),
        "validation nodes": pytest.approx(1.0, abs=1e-4),
    }
