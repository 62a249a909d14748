"""Mechanism records: each is what its own figures give, and costs what the theorem says, computed by hand."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import pickle
from dataclasses import replace
from typing import Any

import pytest

from caribou.errors import CaribouError, CertificateError
from caribou.privacy.arithmetic import double_precision, vote_arithmetic
from caribou.privacy.assumptions import AssumptionName, Sampler
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.calibration import CalibratedCounts, CalibratedVotes, calibrate_propagation, calibrate_sums
from caribou.privacy.documents import write
from caribou.privacy.events import (
    EpsilonDelta,
    Gaussian,
    Laplace,
    NonPrivate,
    Parallel,
    event_to_dict,
    gaussian_mu,
)
from caribou.privacy.mechanism_records import (
    EDGES,
    NODES,
    PARTS,
    ChoiceRecord,
    ConfusionRecord,
    CountsRecord,
    DescentRecord,
    EdgeCountRecord,
    EdgeVotesRecord,
    Examples,
    Group,
    MeanRecord,
    MechanismRecord,
    MessagePassingRecord,
    NodeVotesRecord,
    NoNoiseRecord,
    NoReleaseRecord,
    OwnRecord,
    ResponseRecord,
    SelectionRecord,
    SumsRecord,
    Trial,
    composed,
    descent_sensitivity,
    determined_assumptions,
    everyone,
    groups_of,
    wrong_payers,
)
from caribou.privacy.pair_response import asymmetric_response
from caribou.privacy.scope import Scope, ScopeKind
from caribou.privacy.selection import RandomTrials, selection_epsilon
from caribou.privacy.sensitivity import Bounds, layer_sensitivity, sum_sensitivity
from certificate_support import certificates, same

EDGE, NODE = PrivacyUnit.EDGE, PrivacyUnit.NODE


def messages(unit: str = "edge", *, cap: int = 10, mu: float = 0.5) -> MechanismRecord:
    bounds = Bounds(degree_floor=10, degree_cap=cap if unit == "node" else None, nodes=100)
    sensitivity = layer_sensitivity(unit, contraction=0.8, alpha1=1.0, beta=0.5, bounds=bounds)
    arithmetic = double_precision(nodes=100, columns=5, residual=0.5)
    calibrated = calibrate_propagation(sensitivity, hops=8, mu=mu, arithmetic=arithmetic)
    return MessagePassingRecord(calibrated=calibrated, payers=PARTS if unit == "node" else ())


def sums(unit: str = "edge") -> MechanismRecord:
    bounds = Bounds(nodes=100, declared_degree=20)
    bound = sum_sensitivity(unit, **({} if unit == "edge" else {"bounds": bounds, "radius": 4.0}))
    return SumsRecord(calibrated=calibrate_sums(bound, hops=2, mu=0.5, nodes=100, columns=4))


def descent(examples: Examples = Examples.OWN_ROWS, unit: PrivacyUnit = NODE, **more: Any) -> MechanismRecord:
    figures = {"steps": 9, "noise_multiplier": 6.0, "clip": 0.5, "schedule": {"step_size": 0.1}}
    return DescentRecord(name="training", unit=unit, examples=examples, **figures, **more)


def up_to(degree: int) -> Bounds:
    return Bounds(nodes=100, declared_degree=degree)


def node_votes(limit: int | None = 8, *, noise_std: float = 4.0) -> MechanismRecord:
    arithmetic = vote_arithmetic(nodes=100, columns=5, radius=16.0, fractions=limit is not None)
    return NodeVotesRecord(calibrated=CalibratedVotes(limit, 16, 5.0, 3.0, noise_std, arithmetic))


def drawn() -> MechanismRecord:
    answers = asymmetric_response(epsilon=2.0, edges=50, nodes=40)
    return ResponseRecord(epsilon=2.0, released_edge_count=50, keep_one=answers.keep_one, make_one=answers.make_one)


def search(random: RandomTrials | None = None) -> MechanismRecord:
    return SelectionRecord(
        unit=NODE,
        trials=(Trial({"clip": 0.5}, (descent(), choice())),),
        epsilon_of_a_trial=10.0,
        expected_trials=2,
        order=() if random else (0, 0),
        random=random,
        score_noise=10.0,
        delta=1e-5,
    )


def choice() -> MechanismRecord:
    return ChoiceRecord(name="choice", epsilon=1.5, candidates=4)


RECORDS = {
    "messages": messages(),
    "messages, node": messages("node"),
    "sums": sums(),
    "sums, node": sums("node"),
    "own rows": descent(),
    "rows of A, edge": descent(Examples.ROWS_OF_A, EDGE),
    "rows of A, node": descent(Examples.ROWS_OF_A, bounds=up_to(20)),
    "rows of A, cut": descent(Examples.ROWS_OF_A, bounds=Bounds(degree_cap=20, nodes=100)),
    "neighbourhoods": descent(Examples.NEIGHBOURHOODS, bounds=up_to(4), own_share=0.5, message_scale=4),
    "mean": MeanRecord(name="mean", noise_std=3.0),
    "counts": CountsRecord(calibrated=CalibratedCounts(3, 2.0)),
    "edge votes": EdgeVotesRecord(epsilon=2.0, mu=math.inf),
    "edge votes, Gaussian": EdgeVotesRecord(epsilon=math.inf, mu=0.5),
    "node votes": node_votes(),
    "node votes, all whole": node_votes(None),
    "edge count": EdgeCountRecord(epsilon=0.5),
    "confusion": ConfusionRecord(epsilon=0.5, classes=3),
    "response": drawn(),
    "response, planned": ResponseRecord(epsilon=2.0),
    "choice": choice(),
    "search": search(),
    "search, random": search(RandomTrials.of_mean(1.0, 2)),
    "no release": NoReleaseRecord(unit=EDGE, why="no edge is read"),
}
NOISELESS = {
    "messages": messages(mu=math.inf),
    "descent": DescentRecord(name="training", unit=NODE, steps=3, noise_multiplier=0.0, clip=1.0),
    "mean": MeanRecord(name="mean", noise_std=0.0),
    "counts": CountsRecord(calibrated=CalibratedCounts(2, math.inf)),
    "edge votes": EdgeVotesRecord(epsilon=math.inf, mu=math.inf),
    "node votes": node_votes(noise_std=0.0),
    "choice": ChoiceRecord(name="choice", epsilon=math.inf, candidates=2),
    "graph": NoNoiseRecord(unit=EDGE, name="the graph itself"),
}


def stored(record: MechanismRecord, **details: Any) -> MechanismRecord:
    """The record as it is read from a document, in which ``details`` were changed."""
    document = json.loads(json.dumps(record.to_dict()))
    document["details"] |= details
    return MechanismRecord.from_dict(document)


def costs(record: MechanismRecord) -> dict[str, Any]:
    return json.loads(json.dumps(record.to_dict()["costs"]))


@pytest.mark.parametrize("name", RECORDS)
def test_reading_is_making_and_every_figure_is_needed(name: str) -> None:
    """A figure that is missing or of another kind is found."""
    record = RECORDS[name]
    again = stored(record)
    assert (again, again.contradictions) == (record, ())
    assert again.to_dict() == record.to_dict() == pickle.loads(pickle.dumps(record)).to_dict()
    assert (again.scope, again.needs, again.public) == (record.scope, record.needs, record.public)
    document = json.loads(json.dumps(record.to_dict()))
    for key, value in document["details"].items():
        others = [{**document["details"], key: other} for other in (True, "1", [], {}, -1.0) if other != value]
        others = [] if key in ("schedule", "why", "candidates") else others  # any value will do
        others.append({k: v for k, v in document["details"].items() if k != key})
        for details in others:
            with contextlib.suppress(CaribouError):
                read = MechanismRecord.from_dict({**document, "details": details})
                assert read.contradictions, (key, details.get(key))


@pytest.mark.parametrize("name", NOISELESS)
def test_without_noise_nothing_is_private(name: str) -> None:
    record = NOISELESS[name]
    assert (stored(record), stored(record).contradictions) == (record, ())
    assert {event for events in record.costs.values() for event in events} == {NonPrivate()}


# -- golden costs ---------------------------------------------------------------------------------------------------------


def test_what_follows_cannot_be_given() -> None:
    """Noise of 3 is not a multiplier of a million, whatever a method says."""
    with pytest.raises(ValueError, match="init=False"):
        replace(RECORDS["mean"], costs={Group.TRAINING: (Gaussian(1e6),)})
    document = {**RECORDS["mean"].to_dict(), "costs": {"training nodes": [event_to_dict(Gaussian(1e6))]}}
    read = MechanismRecord.from_dict(document)
    assert (read.costs, bool(read.contradictions)) == (RECORDS["mean"].costs, True)


def test_cost_of_messages() -> None:
    """Calibrated to mu = 1/2: one Gaussian of multiplier 2, whatever the hops; the noise is Delta sqrt(kappa) / mu."""
    record = messages()
    assert record.event == Gaussian(2.0)
    assert set(record.costs) == set(EDGES)
    d = record.details
    c8 = 0.8**8
    assert d["kappa"] == pytest.approx((1 - c8) * 1.8 / ((1 + c8) * 0.2))
    assert d["noise_std"] == pytest.approx(d["sensitivity"]["value"] * math.sqrt(d["kappa"]) * 2, rel=1e-6)
    assert record.scope == Scope()
    assert [a.name for a in record.needs] == [AssumptionName.INITIAL_STATE]
    node = messages("node")
    assert set(node.costs) == set(PARTS)
    assert node.scope == Scope(ScopeKind.NODES_UP_TO_DEGREE, 10)
    assert [a.name for a in node.needs] == [AssumptionName.INITIAL_STATE, AssumptionName.ORDER_OF_PAIRS]
    uncut = messages("node", cap=99)
    assert (uncut.scope, [a.name for a in uncut.needs]) == (Scope(), [AssumptionName.INITIAL_STATE])


def test_cost_of_sums() -> None:
    """mu = 1/2 over 2 hops: 2 Gaussians of multiplier sqrt(2) / mu; edge sensitivity sqrt(2), node sqrt(20 + 4^2) = 6."""
    record = sums()
    assert same(costs(record), {"every edge": [event_to_dict(Gaussian(2 * math.sqrt(2) * (1 + 2.0**-44), 2))]})
    assert record.details["sensitivity"]["value"] == pytest.approx(math.sqrt(2))
    assert record.details["noise_std"] == pytest.approx(4.0)  # sqrt(2) sqrt(2) / (1/2)
    assert record.public == {
        "nodes": 100,
        "hops": 2,
        "degree_cap": None,
        "declared_degree": None,
        "radius": None,
        "columns": 4,
    }
    node = sums("node")
    assert node.details["sensitivity"]["value"] == pytest.approx(6.0)
    assert node.scope == Scope(ScopeKind.NODES_UP_TO_DEGREE, 20)
    assert [a.name for a in node.needs] == [AssumptionName.INITIAL_STATE]  # nothing is cut
    assert set(node.costs) == set(NODES)


def test_cost_of_descent() -> None:
    """9 steps of multiplier 6 are mu = 1/2. Noise: multiplier x clips x clip."""
    own = descent()
    assert own.costs == {Group.TRAINING: (Gaussian(6.0, 9),)}
    assert own.details["noise_std"] == 3.0
    edge = descent(Examples.ROWS_OF_A, EDGE)
    assert edge.costs == {Group.EVERY_EDGE: (Gaussian(6.0, 9),)}
    assert edge.details["noise_std"] == pytest.approx(3 * 2.0424, abs=1e-3)  # sqrt(7 - 2 sqrt(2)) = 2.0424
    assert [a.name for a in edge.needs] == [AssumptionName.RELEASED_WEIGHTS]
    node = RECORDS["rows of A, node"]
    assert node.details["sensitivity_in_clips"] == pytest.approx(1 + 20 * math.sqrt(2 - 1 / math.sqrt(2)))
    assert node.costs == dict.fromkeys(PARTS, (Gaussian(6.0, 9),))
    assert node.scope == Scope(ScopeKind.NODES_UP_TO_DEGREE, 20)
    cut = RECORDS["rows of A, cut"]  # 20 entries go and 20 edges appear, each in two rows
    assert cut.details["sensitivity_in_clips"] == pytest.approx(1 + 60 * math.sqrt(2 - 1 / math.sqrt(2)))
    assert AssumptionName.ORDER_OF_PAIRS in {a.name for a in cut.needs}
    around = RECORDS["neighbourhoods"]
    with_own, without = 5.0611, 4.0611
    assert around.details["sensitivity_in_clips"] == pytest.approx(with_own, abs=1e-4)
    assert around.costs[Group.TRAINING] == (Gaussian(6.0, 9),)
    for group in (Group.VALIDATION, Group.OTHERS):
        (event,) = around.costs[group]
        assert isinstance(event, Gaussian)
        assert (event.noise_multiplier, event.count) == (pytest.approx(6.0 * with_own / without, rel=1e-4), 9)


FIGURES = {"bounds": up_to(3), "own_share": 0.5, "message_scale": 3}
THEOREMS = {
    (Examples.OWN_ROWS, NODE): set(),
    (Examples.ROWS_OF_A, EDGE): set(),
    (Examples.ROWS_OF_A, NODE): {"bounds"},
    (Examples.NEIGHBOURHOODS, NODE): set(FIGURES),
}


@pytest.mark.parametrize("examples", Examples)
@pytest.mark.parametrize("unit", [EDGE, NODE])
def test_a_descent_has_a_theorem_for_its_own_figures_alone(examples: Examples, unit: PrivacyUnit) -> None:
    for size in range(len(FIGURES) + 1):
        for names in itertools.combinations(FIGURES, size):
            figures: dict[str, Any] = {name: FIGURES[name] for name in names}
            if THEOREMS.get((examples, unit)) == set(names):
                assert descent_sensitivity(examples, unit, **figures)
            else:
                with pytest.raises(CaribouError):
                    descent_sensitivity(examples, unit, **figures)


def test_cost_of_counts() -> None:
    """Three stages at epsilon = 2, each moved by 2: noise of parameter 1/3, and one pure epsilon for everybody."""
    record = RECORDS["counts"]
    assert record.event == EpsilonDelta(2.0)
    assert set(record.costs) == set(EDGES)
    assert (record.details["sensitivity"], record.details["stages"]) == (2, 3)
    assert record.details["noise_epsilon"] == pytest.approx(1 / 3, rel=1e-12)
    assert (record.scope, record.needs, record.public) == (Scope(), (), {"stages": 3})


def test_cost_of_votes() -> None:
    """M = 8, d* = 16, std 4: a sender moves sqrt(8); a receiver its row of length 5 (3) and 16 g, g = sqrt(8) (1 - sqrt(8/9))."""
    assert EdgeVotesRecord(epsilon=2.0, mu=math.inf).event == EpsilonDelta(2.0)
    assert EdgeVotesRecord(epsilon=math.inf, mu=0.5).event == Gaussian(2.0)
    votes = RECORDS["node votes"]
    others = 16 * math.sqrt(8) * (1 - math.sqrt(8 / 9))
    moved = {
        Group.TRAINING: math.sqrt(8),
        Group.VALIDATION: math.hypot(3, others),
        Group.OTHERS: math.hypot(5, others),
    }
    for group, distance in moved.items():
        (event,) = votes.costs[group]
        assert isinstance(event, Gaussian)
        assert (event.noise_multiplier, event.count) == (pytest.approx(4.0 / distance, rel=1e-6), 1)
    assert votes.scope == Scope(ScopeKind.NODES_UP_TO_DEGREE, 16)
    assert (votes.public, votes.needs) == ({"nodes": 100}, ())
    assert votes.disagreement({"declared_degree": 17}, 1e-5) is not None
    for key in ("row_clip", "validation_row_clip"):
        with pytest.raises(CaribouError, match="row_clip must be at most declared_degree = 16"):
            stored(votes, **{key: 17.0})
    whole = RECORDS["node votes, all whole"]
    multipliers = [event.noise_multiplier for (event,) in whole.costs.values()]  # type: ignore[union-attr]
    assert multipliers == pytest.approx([4 / math.sqrt(16), 4 / 3, 4 / 5], rel=1e-6)
    assert stored(RECORDS["edge votes"], mu=1.0).contradictions, "votes have one kind of noise"


def test_cost_of_pairs() -> None:
    assert EdgeCountRecord(epsilon=0.5).event == EpsilonDelta(0.5)
    record = drawn()
    assert record.event == EpsilonDelta(2.0)
    keep, make = record.details["keep_one"], record.details["make_one"]
    assert record.details["epsilon_of_answers"] == pytest.approx(
        max(math.log(keep / make), math.log((1 - make) / (1 - keep)))
    )
    for change in ({"keep_one": 0.99}, {"make_one": 0.0}, {"released_edge_count": -1}, {"keep_one": None}):
        with contextlib.suppress(CaribouError):
            assert stored(record, **change).contradictions, change


def test_cost_of_choices() -> None:
    assert choice().costs == {Group.VALIDATION: (EpsilonDelta(1.5),)}
    assert stored(choice(), candidates=None).event == EpsilonDelta(1.5)
    nothing = NoReleaseRecord(unit=NODE, why="nothing is read")
    assert nothing.costs == {Group.EVERY_NODE: (EpsilonDelta(0.0),)}
    with pytest.raises(CertificateError, match="must cost one event"):
        _ = RECORDS["node votes"].event


def test_cost_of_a_search() -> None:
    """Two trials of (training or choice) and two noisy scores; or the theorem, on one trial."""
    once = (Parallel(((Gaussian(6.0, 9),), (EpsilonDelta(1.5),))), Laplace(10.0))
    composition = search()
    (paid,) = composition.costs.values()
    assert sorted(map(repr, paid)) == sorted(map(repr, once * 2))
    assert composition.theorem == "composition of 2 trials"
    random = RandomTrials.of_mean(1.0, 2)
    hidden = search(random)
    assert hidden.event == EpsilonDelta(selection_epsilon([once], random, 1e-5), 1e-5)
    assert {a.name for a in hidden.needs} == {AssumptionName.PARALLEL_COMPOSITION, AssumptionName.OWN_PREDICTIONS}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"score_noise": None}, "score_noise must be given at node level"),
        ({"order": [0]}, "order must name a setting"),
        ({"order": [0, 1]}, "order must name a setting"),
        ({"expected_trials": 3}, "order must name a setting"),
        ({"random": {"shape": 1.0, "stop": 0.5}}, "order must be empty"),
        ({"random": {"shape": 1.0, "stop": 0.1}, "order": []}, "expected_trials must be the mean 10"),
        ({"trials": [{"settings": {}, "mechanisms": []}]}, "mechanisms must be listed"),
        ({"trials": [{"settings": {}, "mechanisms": [messages().to_dict()]}]}, "must have a theorem at node level"),
        (
            {"trials": [{"settings": {}, "mechanisms": [NoReleaseRecord(unit=NODE, why="x").to_dict()] * 2}]},
            "must stand alone",
        ),
    ],
)
def test_a_search_that_contradicts_itself_is_refused(change: dict[str, Any], why: str) -> None:
    record = search()
    with pytest.raises(CaribouError, match=why):
        stored(record, **change)


# -- several together -----------------------------------------------------------------------------------------------------


def test_who_pays_what_together() -> None:
    records = (descent(), messages("node"), choice())
    groups = groups_of(records)
    assert list(groups) == [Group.TRAINING, Group.VALIDATION, Group.OTHERS]
    assert groups[Group.TRAINING] == (Gaussian(6.0, 9), Gaussian(2.0))
    assert groups[Group.VALIDATION] == (Gaussian(2.0), EpsilonDelta(1.5))
    (event,) = composed(records)
    assert isinstance(event, Parallel)
    # the rest pays less than both others and is left out
    assert {frozenset(group) for group in event.groups} == {
        frozenset(groups[Group.TRAINING]),
        frozenset(groups[Group.VALIDATION]),
    }
    assert composed((messages(), RECORDS["edge votes"])) == (EpsilonDelta(2.0), Gaussian(2.0))


def test_groups_inside_groups_are_spread_out() -> None:
    paid = composed((search(),))
    assert len(paid) == 1
    assert isinstance(paid[0], Parallel)
    assert all(not isinstance(event, Parallel) for group in paid[0].groups for event in group)


def test_payers_must_be_those_who_are_touched() -> None:
    assert wrong_payers((messages(),), EDGE) is None
    assert wrong_payers((descent(), messages("node")), NODE) is None
    few = replace(messages("node"), payers=(Group.TRAINING,))
    assert "must be paid by every part" in str(wrong_payers((few,), NODE))
    assert "groups must be every edge" in str(wrong_payers((descent(),), EDGE))
    mixed = (descent(), replace(messages("node"), payers=NODES))
    assert "groups must be every node or parts" in str(wrong_payers(mixed, NODE))
    nothing = NoReleaseRecord(unit=NODE, why="x")
    assert wrong_payers((nothing,), NODE) is None
    assert "stand alone" in str(wrong_payers((nothing, nothing), NODE))
    assert (everyone(EDGE), everyone(NODE)) == (EDGES, NODES)


def test_who_reads_an_edge() -> None:
    reading = {name for name, record in RECORDS.items() if record.reads_edges}
    assert set(RECORDS) - reading == {
        *("own rows", "mean", "confusion", "choice", "search", "search, random", "no release")
    }
    assert certificates()["search at node level"].mechanisms[0].reads_edges


def test_assumptions_that_follow() -> None:
    def names(*records: MechanismRecord, unit: PrivacyUnit = NODE) -> set[str]:
        found = {a.name.value for a in determined_assumptions(records, unit)}
        assert "floating point" in found
        return found - {"floating point"}

    assert names(messages(), unit=EDGE) == {"initial state"}
    assert names(descent()) == {"own predictions", "no edge is read"}
    assert names(descent(), choice()) == {"own predictions", "no edge is read", "parallel composition"}
    assert names(descent(), descent(Examples.ROWS_OF_A, bounds=Bounds(degree_cap=3, nodes=100))) == {
        "own predictions",
        "order of pairs",
        "parallel composition",
        "weights",
    }


def test_samplers_that_follow() -> None:
    """Of every mechanism, from its figures alone."""
    others = {
        "counts": {Sampler.DISCRETE_LAPLACE},
        "edge votes": {Sampler.DISCRETE_LAPLACE},
        "edge count": {Sampler.DISCRETE_LAPLACE},
        "confusion": {Sampler.DISCRETE_LAPLACE},
        "response": {Sampler.BERNOULLI},
        "response, planned": {Sampler.BERNOULLI},
        "choice": {Sampler.EXPONENTIAL_CHOICE},
        "search": {Sampler.GAUSSIAN, Sampler.LAPLACE, Sampler.EXPONENTIAL_CHOICE},
        "search, random": set(Sampler) - {Sampler.DISCRETE_LAPLACE, Sampler.OWN},
        "no release": set(),
    }
    for name, record in RECORDS.items():
        assert record.samplers == others.get(name, {Sampler.GAUSSIAN}), name
    assert NoNoiseRecord(unit=EDGE, name="nothing").samplers == set()
    assert OwnRecord(name="mine", why="my theorem", unit=EDGE, paid={Group.EVERY_EDGE: (Gaussian(1.0),)}).samplers == {
        Sampler.OWN
    }


BY_DEGREE = ("messages, node", "sums, node", "rows of A, node", "rows of A, cut", "neighbourhoods", "node votes")


@pytest.mark.parametrize("name", [*BY_DEGREE, "node votes, all whole"])
def test_a_node_of_larger_degree_pays_more(name: str) -> None:
    record = stored(RECORDS[name])
    declared = record.scope.limit
    assert declared is not None
    assert same(write(record.costs_at(declared)), costs(record))
    strictly = []
    for group in record.costs:
        paid = [gaussian_mu(record.costs_at(degree).get(group, ())) for degree in (0, 1, declared, declared + 1, 99)]
        assert None not in paid
        assert paid == sorted(paid)  # type: ignore[type-var]
        assert paid[2] > paid[0]  # type: ignore[operator]
        strictly.append(paid[-1] > paid[2])  # type: ignore[operator]
    # a sender of M receivers or more pays the same, and so does one whose row is clipped, where all votes are whole
    assert any(strictly) if "votes" in name else all(strictly)
    if name.startswith("node votes"):
        assert all(events == () for events in record.costs_at(0).values())


def test_records_that_do_not_know_a_degree_cost_every_node_the_same() -> None:
    for name, record in RECORDS.items():
        if name not in BY_DEGREE and "votes, all" not in name:
            assert not record.by_degree, name
            assert record.costs_at(0) == record.costs_at(10**6) == record.costs, name


def test_an_own_mechanism_may_promise_up_to_a_degree_and_nothing_beyond() -> None:
    own = OwnRecord(
        name="mine", why="a theorem", unit=NODE, paid={Group.EVERY_NODE: [Gaussian(2.0)]}, declared_degree=7
    )
    assert own.scope == Scope(ScopeKind.NODES_UP_TO_DEGREE, 7)
    again = MechanismRecord.from_dict(own.to_dict())
    assert (again, again.scope) == (own, own.scope)
    assert again.costs_at(7) == own.costs
    assert again.costs_at(8) == {Group.EVERY_NODE: (NonPrivate(),)}
    with pytest.raises(CertificateError, match="declared_degree must be None at edge level"):
        OwnRecord(name="mine", why="a theorem", unit=EDGE, paid={Group.EVERY_EDGE: [Gaussian(2.0)]}, declared_degree=7)
