"""Plans: what a release will cost, who pays, and what its certificate says, before anything is drawn."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from statistics import NormalDist

import pytest

from caribou.errors import CertificateError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.accounting import gdp_epsilon
from caribou.privacy.assumptions import STANDING, Assumption, AssumptionName
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.events import EpsilonDelta, Gaussian, NonPrivate, Parallel
from caribou.privacy.mechanism_records import (
    ChoiceRecord,
    EdgeCountRecord,
    EdgeVotesRecord,
    MeanRecord,
    MessagePassingRecord,
    NoNoiseRecord,
    NoReleaseRecord,
    own_mechanism,
)
from caribou.privacy.plan import (
    CURVE_DEGREES,
    ReleasePlan,
    attack_success,
    epsilon_at,
    epsilon_by_degree,
    exact_mu,
)
from certificate_support import OF_EACH_KIND, PRIVATE, certificates, embeddings, plan_of

NODE = Budget(8.0, 1e-5, PrivacyUnit.NODE)


def plan(*records: object, budget: Budget = NODE, **more: object) -> ReleasePlan:
    return ReleasePlan(budget, tuple(records), released=("X",), method="a test", **more)  # type: ignore[arg-type]


def test_a_plan_without_a_mechanism_is_refused() -> None:
    with pytest.raises(CertificateError, match="must have a mechanism, got none"):
        plan()


def test_an_overspent_claim_is_refused() -> None:
    with pytest.raises(CertificateError, match="epsilon_spent must be <= epsilon = 1"):
        plan(MeanRecord(name="too little noise", noise_std=3.0), budget=Budget(1.0, 1e-5, "node")).certificate(
            NoiseSource.secure()
        )


def test_groups_pay_side_by_side() -> None:
    both = plan(MeanRecord(name="mean", noise_std=2.0), ChoiceRecord(name="choice", epsilon=3.0, candidates=4))
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
    alone = plan(MeanRecord(name="one", noise_std=3.0), MeanRecord(name="two", noise_std=4.0)).certificate(
        NoiseSource.secure()
    )
    assert alone.mu == pytest.approx(math.sqrt(1 / 9 + 1 / 16))  # 5/12: mu^2 adds up
    assert alone.groups == {"training nodes": alone.epsilon_spent}


def test_what_reads_nothing_protected_costs_nothing() -> None:
    made = plan(NoReleaseRecord(unit=PrivacyUnit.NODE, why="each prediction is of its own features"))
    assert made.certificate(NoiseSource.secure()).epsilon_spent == 0
    assert exact_mu((NonPrivate(),)) is None


def test_a_plan_without_noise_has_no_privacy() -> None:
    made = plan(
        NoNoiseRecord(unit=PrivacyUnit.EDGE, name="the graph itself"), budget=Budget(math.inf, 1e-5, "edge")
    ).certificate(NoiseSource.secure())
    assert (made.status, made.epsilon_spent, made.mu) == ("no privacy", math.inf, None)
    assert made.groups == {"every edge": math.inf}
    assert {rate for rates in made.attack_success.values() for rate in rates.values()} == {1.0}


def test_public_parameters_that_a_mechanism_fixes_are_the_mechanisms() -> None:
    made = plan_of("gap-edp", {"hops": 2}, 4.0)
    assert (made.public_parameters["hops"], made.public_parameters["nodes"]) == (2, 80)
    assert made.public_parameters["radius"] is None
    release = embeddings("node", cap=10)
    assert (release.public_parameters["degree_cap"], release.public_parameters["start"]) == (10, "features")


def test_assumptions_follow_from_the_mechanisms() -> None:
    votes = plan(EdgeVotesRecord(epsilon=1.0, mu=math.inf), budget=Budget(1.0, 1e-5, "edge"))
    assert {a.name for a in votes.all_assumptions(NoiseSource.secure())} == set(STANDING)
    wrong = plan(
        MeanRecord(name="mean", noise_std=2.0),
        assumptions=(Assumption(AssumptionName.ORDER_OF_PAIRS), Assumption(AssumptionName.PUBLIC_FEATURES)),
    )
    names = {a.name for a in wrong.all_assumptions(NoiseSource.secure())} - set(STANDING)
    # a cut that no mechanism makes is not stated; what the method alone can know is
    assert names == {AssumptionName.OWN_PREDICTIONS, AssumptionName.NO_EDGE_READ, AssumptionName.PUBLIC_FEATURES}
    for name, made in certificates().items():
        listed = [a.name for a in made.assumptions]
        assert listed == sorted(listed, key=list(AssumptionName).index), name


def test_a_certificate_has_a_number_a_time_and_versions() -> None:
    when = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
    one, two = (embeddings().certificate(NoiseSource.secure(), now=when) for _ in range(2))
    assert one.created == "2026-01-31T12:00:00Z"
    assert one.certificate_id != two.certificate_id
    assert {"python", "caribou-gnn", "dp-accounting"} <= set(one.versions)


@pytest.mark.parametrize("mu", [0.1, 1.0, 8.0])
def test_a_replacement_is_two_steps(mu: float) -> None:
    """Phi(Phi^-1(a) + 2 mu) for Gaussian releases, however they compose; of pure epsilon at most 2 epsilon."""
    normal = NormalDist()
    for cost in ((Gaussian(1 / mu),), (Gaussian(math.sqrt(2) / mu), Gaussian(2 * math.sqrt(2) / mu, 4))):
        rates = attack_success(cost, 1e-5)
        for question, steps in (("presence", 1), ("replacement", 2)):
            for fpr, rate in rates[question].items():
                assert rate == pytest.approx(normal.cdf(normal.inv_cdf(float(fpr)) + steps * mu), rel=1e-9)
    pure = attack_success((EpsilonDelta(mu / 2),), 1e-5)
    for fpr, rate in pure["replacement"].items():
        one = pure["presence"][fpr]
        assert one == pytest.approx(min(math.exp(mu / 2) * float(fpr), 1 - math.exp(-mu / 2) * (1 - float(fpr))))
        assert one < rate <= min(math.exp(mu) * float(fpr), 1 - math.exp(-mu) * (1 - float(fpr))) * (1 + 1e-9)


def test_a_replacement_is_as_easy_as_the_costliest_group_allows() -> None:
    groups = Parallel(((Gaussian(4.0),), (Gaussian(1.0),)))
    assert attack_success((groups,), 1e-5) == attack_success((Gaussian(1.0),), 1e-5)
    assert attack_success((EpsilonDelta(0.0),), 1e-5)["replacement"] == {"0.001": 0.001, "0.01": 0.01}


WITHOUT_THE_WORD = ("embeddings, nothing cut", "search without edges")
NODE_LEVEL = [n for n in PRIVATE if any(word in n for word in ("ndp", "mlp-dp", "node")) or n in WITHOUT_THE_WORD]


@pytest.mark.parametrize("name", [n for n in NODE_LEVEL if n in OF_EACH_KIND or "predicted" in n])
def test_the_curve_rises_with_the_degree_and_meets_the_headline(name: str) -> None:
    made = certificates()[name]
    assert made.unit is PrivacyUnit.NODE
    curve = dict(made.epsilon_by_degree)
    nodes = made.public_parameters["nodes"]
    assert list(curve) == sorted({*(d for d in (*CURVE_DEGREES, made.scope.limit or 0) if d < nodes), nodes - 1})
    assert list(curve.values()) == sorted(curve.values())
    headline = made.scope.limit or nodes - 1
    # what a node of the declared degree is promised is what the costliest group pays
    assert curve[headline] == pytest.approx(made.epsilon_spent, rel=1e-6)
    assert curve[headline] == pytest.approx(max(made.groups.values()), rel=1e-6)
    assert all(epsilon <= made.epsilon * (1 + 1e-9) for degree, epsilon in curve.items() if degree <= headline)
    if not made.scope.is_every_graph:
        assert curve[nodes - 1] > made.epsilon_spent


def test_the_curve_is_flat_where_no_edge_is_read_and_empty_at_edge_level() -> None:
    for name, made in certificates().items():
        if made.unit is PrivacyUnit.EDGE:
            assert made.epsilon_by_degree == (), name
            assert name not in NODE_LEVEL
        elif AssumptionName.NO_EDGE_READ in {a.name for a in made.assumptions}:
            assert len({epsilon for _, epsilon in made.epsilon_by_degree}) == 1, name
    flat = (MeanRecord(name="mean", noise_std=2.0),)
    assert epsilon_by_degree(flat, PrivacyUnit.EDGE, 1e-5, 50) == ()
    assert [d for d, _ in epsilon_by_degree(flat, PrivacyUnit.NODE, 1e-5, None)] == list(CURVE_DEGREES)
    assert [d for d, _ in epsilon_by_degree(flat, PrivacyUnit.NODE, 1e-5, 1)] == [0]
    assert [d for d, _ in epsilon_by_degree(flat, PrivacyUnit.NODE, 1e-5, 4)] == [0, 1, 2, 3]


def test_a_node_of_any_degree_can_be_asked_for() -> None:
    """mu by degree is proportional to the sensitivity at that degree; the embeddings are cut to 10."""
    plan = embeddings("node", cap=10)
    (record,) = plan.mechanisms
    assert isinstance(record, MessagePassingRecord)
    bound, mu = record.calibrated.sensitivity, record.calibrated.mu
    for degree in (0, 3, 10, 11, 60):
        expected = gdp_epsilon(mu=mu * bound.at_degree(degree) / bound.value, delta=1e-5)
        assert epsilon_at(plan.mechanisms, 1e-5, degree) == pytest.approx(expected, rel=1e-5)
    assert epsilon_at(plan.mechanisms, 1e-5, 11) > 4.0 >= epsilon_at(plan.mechanisms, 1e-5, 10)


@pytest.mark.parametrize(
    ("unit", "records"),
    [
        ("node", (own_mechanism("count", "one edge moves it by 1", "edge", EpsilonDelta(0.1)),)),
        ("edge", (own_mechanism("count", "one node moves it by 1", "node", EpsilonDelta(0.1)),)),
        ("node", (MeanRecord(name="mean", noise_std=30.0), EdgeCountRecord(epsilon=0.1))),
        ("node", (MeanRecord(name="mean", noise_std=30.0), NoReleaseRecord(unit=PrivacyUnit.NODE, why="a test"))),
    ],
)
def test_a_mechanism_without_a_theorem_at_the_unit_makes_no_certificate(unit: str, records: tuple[object, ...]) -> None:
    """It would be charged and released, and only whoever verifies it would find out."""
    with pytest.raises(CertificateError, match=r"must have a theorem at|must be paid by whom they touch"):
        plan(*records, budget=Budget(1.0, 1e-5, unit)).certificate(NoiseSource.secure())
