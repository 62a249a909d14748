"""Verification under attack: plans made again of every method, every field changed alone, and consistent edits of several."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from caribou.errors import CertificateError, InputError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS
from caribou.model.verify import verify
from caribou.privacy import accounting
from caribou.privacy import verify as figures
from caribou.privacy.assumptions import Assumption, AssumptionName, Sampler, floating_point
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate, ReleaseKind, schema
from caribou.privacy.documents import read, write
from caribou.privacy.mechanism_records import (
    EdgeVotesRecord,
    MeanRecord,
    Mechanism,
    NoReleaseRecord,
)
from caribou.privacy.scope import Scope
from caribou.privacy.sizes import Sizes
from caribou.privacy.verify import FORGERY, OWNERS, Verification
from certificate_support import (
    EMBEDDINGS,
    LINKED,
    NOT_PRIVATE,
    OF_EACH_KIND,
    PAID,
    PRIVATE,
    SEARCHES,
    assume,
    certificates,
    certified,
    declared,
    document,
    edited,
    edits,
    embeddings,
    forget,
    is_declared,
    own_certificate,
    paths,
    recounted,
    reload,
    same,
)

DOCS = Path(__file__).parents[2] / "docs" / "certificates.md"
SCHEMA = Draft202012Validator(schema())
Record = dict[str, Any]


@pytest.fixture(autouse=True, scope="module")
def remembered_costs() -> Iterator[None]:
    """Most edits leave the events alone: what was composed once is not composed again for each of them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("compose_pld", "_delta_curve"):
            patch.setattr(accounting, name, lru_cache(maxsize=1024)(getattr(accounting, name).__wrapped__))
        rdp = lru_cache(maxsize=1024)(accounting.rdp_epsilon_of)
        patch.setattr(figures, "rdp_epsilon_of", lambda events, delta: rdp(tuple(events), delta))
        yield


def failures(result: Verification) -> list[str]:
    return [f"{check.name}: {check.detail}" for check in result.checks if not check.passed]


def outcome(record: Record) -> Verification | None:
    """The verification of an edited document, None where it is refused as a document."""
    try:
        return verify(reload(record))
    except CertificateError:
        return None


def caught(record: Record) -> bool:
    result = outcome(record)
    return result is None or not result.passed


# -- certificates as they are made ------------------------------------------------------------------------------------


def reread(name: str) -> Certificate:
    """The certificate of this name as another program reads it, by schema and by reader."""
    record = document(name)
    assert [error.json_path for error in SCHEMA.iter_errors(record)] == []
    assert reload(record) == certificates()[name]
    return reload(record)


@pytest.mark.parametrize("name", PRIVATE)
def test_the_certificate_of_every_method_verifies(name: str) -> None:
    made = reread(name)
    result = verify(made)
    assert result.passed, failures(result)
    assert made.status == ("private" if made.scope.is_every_graph else "private by degree")
    if made.epsilon_spent > 0:
        assert result.epsilon_pld == pytest.approx(made.epsilon_spent, abs=2e-3)


@pytest.mark.parametrize("name", NOT_PRIVATE)
def test_what_protects_nothing_does_not_verify(name: str) -> None:
    made = reread(name)
    assert made.status == "no privacy"
    assert math.isinf(made.epsilon)
    assert not verify(made).passed
    assert any("NO PRIVACY" in line for line in failures(verify(made)))


OPTIONS: dict[str, list[Any]] = {
    "base": [{}, {"train_size": 30, "hidden": 16}, {"clip": 0.5, "random_features": 0}],
    "degree_cap": [None, None, 6],
    "declared_degree": [None, 4, 50],
    "declared_average_degree": [None, 4],
    "radius": [None, 2.5],
    "train_size": [None, 30],
    "hops": [1, 3],
    "stages": [1, 5],
    "layer": ["contractive", "attention", "spectral", "gcn"],
    "messages": ["embeddings", "features"],
    "degree_floor": [None, 5],
    "classifier": ["linear", "mlp"],
    "noise": ["discrete_laplace", "gaussian"],
    "metric": [None, "macro_f1"],
    "training_share": [0.05, 0.3],
}
"""Settings that a plan takes, or that it works out where they are None."""


@settings(max_examples=60, deadline=None)
@given(data=st.data(), name=st.sampled_from([name for name, info in METHODS.items() if info.private]))
def test_any_settings_sizes_and_budget_stand_in_the_certificate(data: st.DataObject, name: str) -> None:
    """Otherwise the plan that is made again is another one. Also where a declared number exceeds what the graph can have."""
    info = METHODS[name]
    chosen = {key: data.draw(st.sampled_from(OPTIONS[key])) for key in info.settings() if key in OPTIONS}
    nodes = data.draw(st.sampled_from([3, 80, 5000]))
    given_prior, parts = data.draw(st.booleans()), (nodes // 2, nodes // 4, nodes - nodes // 2 - nodes // 4)
    sizes = Sizes(nodes, 32, data.draw(st.sampled_from([2, 7])), *parts, given=given_prior)
    budget = Budget(data.draw(st.sampled_from([0.3, 4.0, 17.0])), 1e-5, info.unit)
    try:
        recipe = info.recipe(**chosen)
        plan = recipe.plan(sizes, budget)
    except InputError:
        return  # these settings do not go together
    prior = (Assumption(AssumptionName.GIVEN_PRIOR),) if given_prior else ()
    made = certified(replace(plan, assumptions=(*plan.assumptions, *prior)))
    result = verify(Certificate.from_json(made.to_json()))
    assert result.passed, failures(result)


def test_seeded_noise_does_not_verify() -> None:
    void = declared(embeddings()).certificate(NoiseSource.seeded(1))
    assert void.status == "void"
    assert failures(verify(void)) == [f"assumption: randomness: {void.void_reasons[0]}"]


def test_a_search_states_what_holds_for_all_of_its_trials() -> None:
    mixed, alone = (certificates()[name] for name in ("search at node level", "search without edges"))
    stated = {a.name for a in mixed.assumptions}
    assert stated >= {AssumptionName.ORDER_OF_PAIRS, AssumptionName.INITIAL_STATE, AssumptionName.PARALLEL_COMPOSITION}
    assert AssumptionName.NO_EDGE_READ not in stated
    assert mixed.status == "private by degree"
    assert AssumptionName.NO_EDGE_READ in {a.name for a in alone.assumptions}
    assert alone.status == "private"


def test_open_figures_must_be_filled_before_a_certificate_verifies() -> None:
    made = certificates()["sage-edp"]
    (response,) = [r for r in made.mechanisms if r.mechanism is Mechanism.RANDOMIZED_RESPONSE]
    opened = replace(response, released_edge_count=None, keep_one=None, make_one=None)
    records = tuple(opened if r is response else r for r in made.mechanisms)
    assert not verify(replace(made, mechanisms=records)).passed


# -- every field alone ------------------------------------------------------------------------------------------------


def test_every_kind_of_mechanism_is_attacked() -> None:
    held = {record.mechanism for name in OF_EACH_KIND for record in certificates()[name].mechanisms}
    assert held == set(Mechanism) - {Mechanism.OWN, Mechanism.NO_NOISE}


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_every_field_changed_alone_is_refused_or_declared(name: str) -> None:
    """At least: numbers moved by 1 %, as words, truths, null, negative and infinite; words; keys removed, added and doubled."""
    record = document(name)
    slipped, tried, accepted = [], 0, 0
    for kind, path, changed in edits(record):
        another_trial = path[3:4] == ("trials",) and path[4:5] not in ((), (0,))
        elsewhere = path[:1] in (("versions",), ("assumptions",)) and name != OF_EACH_KIND[0]
        if same(changed, record) or another_trial or elsewhere:
            continue  # one certificate and one trial will do
        tried += 1
        try:
            result = verify(Certificate.from_dict(changed))
        except CertificateError:
            continue
        if result.passed and not is_declared(kind, path, result.declared):
            slipped.append((kind, ".".join(map(str, path))))
        accepted += result.passed
    assert not slipped
    assert tried > 250
    assert accepted < 60  # settings and sizes that no figure follows from; of 16,690 edits, 331 in all


def starred(field: str) -> str:
    """The field with a star for each place in a list, and for each setting."""
    parent, _, key = field.partition(".")
    if parent == "public_parameters" and key not in OWNERS:
        return "public_parameters.*"
    return re.sub(r"\.\d+(?=\.|:|$)", ".*", field)


def test_the_page_lists_what_passes() -> None:
    """docs/certificates.md: one row per field that a verification lists as declared, and no other."""
    made = [certificates()[name] for name in PRIVATE]
    planned = {field for certificate in made for field in verify(certificate).declared}
    own = {field for certificate in [*made, own_certificate()] for field in figures.verify(certificate).declared}
    section = DOCS.read_text(encoding="utf-8").split("## What passes", 1)[1].split("\n## ", 1)[0]
    for fields, part in zip((planned, own), section.split("### Of a method of your own"), strict=True):
        rows = [line for line in part.splitlines() if line.startswith("| `")]
        listed = {field for row in rows for field in re.findall(r"`([^`]+)`", row.split("|")[1])}
        assert listed == {*map(starred, fields)}


# -- consistent edits -------------------------------------------------------------------------------------------------


def mechanism(record: Record, kind: Mechanism) -> Record | None:
    found = [m for m in record["mechanisms"] if m["mechanism"] == kind.value]
    return found[0] if found else None


def the(record: Record, kind: Mechanism) -> Record:
    found = mechanism(record, kind)
    if found is None:
        raise NotApplicable
    return found


class NotApplicable(Exception):
    """The certificate has not what the edit changes."""


def needs(condition: Any) -> None:
    if not condition:
        raise NotApplicable


def scoped(record: Record, scope: Scope) -> None:
    record["scope"] = write(scope)
    record["status"] = "private" if scope.is_every_graph else "private by degree"


def each_event(record: Record) -> list[Record]:
    return [e for m in record["mechanisms"] for events in m["costs"].values() for e in events]


def trials(record: Record) -> list[Record]:
    return the(record, Mechanism.PRIVATE_SELECTION)["details"]["trials"]


def trial_mechanism(record: Record, kind: Mechanism) -> Record:
    found = [m for trial in trials(record) for m in trial["mechanisms"] if m["mechanism"] == kind.value]
    needs(found)
    return found[0]


def more_noise_claimed(r: Record) -> None:
    for event in each_event(r):
        if "noise_multiplier" in event:
            event["noise_multiplier"] *= 1.5
        if event.get("epsilon"):
            event["epsilon"] /= 1.5


def fewer_nodes_everywhere(r: Record) -> None:
    d = the(r, Mechanism.MESSAGE_PASSING)["details"]
    r["public_parameters"]["nodes"] = d["arithmetic"]["nodes"] = d["sensitivity"]["bounds"]["nodes"] = 20


def unit_everywhere(r: Record) -> None:
    other = PrivacyUnit.NODE if r["unit"] == "edge" else PrivacyUnit.EDGE
    text = json.dumps(r["mechanisms"])
    before = r["unit"]
    text = text.replace(f'"unit": "{before}"', f'"unit": "{other.value}"')
    text = text.replace(f'"every {before}"', f'"every {other.value}"')
    r["mechanisms"] = json.loads(text)
    r["unit"], r["adjacency"] = other.value, other.adjacency
    if any(a["name"] == AssumptionName.INITIAL_STATE.value for a in r["assumptions"]):
        assume(r, Assumption(AssumptionName.INITIAL_STATE, {"unit": other.value}))


def edge_theorem_at_node_level(r: Record) -> None:
    needs(r["unit"] == "node" and "every node" in r["groups"])
    stolen = EdgeVotesRecord(epsilon=1.0, mu=math.inf).to_dict()
    stolen["costs"] = {"every node": stolen["costs"].pop("every edge")}
    r["mechanisms"] = [stolen]
    scoped(r, Scope())


def node_theorem_at_edge_level(r: Record) -> None:
    needs(r["unit"] == "edge")
    stolen = MeanRecord(name="mean of the training rows", noise_std=3.0).to_dict()
    stolen["costs"] = {"every edge": stolen["costs"].pop("training nodes")}
    r["mechanisms"] = [stolen]


def every_graph(r: Record) -> None:
    needs(not certificates_scope(r).is_every_graph)
    scoped(r, Scope())
    forget(r, AssumptionName.ORDER_OF_PAIRS)


def certificates_scope(r: Record) -> Scope:
    return read(Scope, r["scope"], "scope")


def flat_curve(r: Record) -> None:
    """The headline for every degree."""
    needs(r["epsilon_by_degree"])
    r["epsilon_by_degree"] = [[degree, r["epsilon_spent"]] for degree, _ in r["epsilon_by_degree"]]


def smaller_epsilons(r: Record) -> None:
    needs(r["epsilon_spent"])
    r["epsilon"] /= 2
    r["epsilon_spent"] /= 2
    r["groups"] = {g: e / 2 for g, e in r["groups"].items()}


def group_removed_everywhere(r: Record) -> None:
    needs(len(r["groups"]) > 1)
    group = list(r["groups"])[-1]
    for m in r["mechanisms"]:
        if len(m["costs"]) > 1:
            m["costs"].pop(group, None)
    needs(all(group not in m["costs"] for m in r["mechanisms"]))


def paid_by_training_nodes_only(r: Record) -> None:
    found = mechanism(r, Mechanism.MESSAGE_PASSING) or the(r, Mechanism.NEIGHBOUR_SUMS)
    needs("training nodes" in found["costs"])
    found["costs"] = {"training nodes": found["costs"]["training nodes"]}


def costliest_mechanism_removed(r: Record) -> None:
    needs(len(r["mechanisms"]) > 1)
    before = recounted(r)["epsilon_spent"]
    for place in range(len(r["mechanisms"])):
        rest = r["mechanisms"][:place] + r["mechanisms"][place + 1 :]
        if abs(recounted({**r, "mechanisms": rest})["epsilon_spent"] - before) > 1e-3:
            r["mechanisms"] = rest
            return
    raise NotApplicable


def mechanism_called_no_release(r: Record) -> None:
    unit = PrivacyUnit.parse(r["unit"])
    r["mechanisms"][0] = NoReleaseRecord(unit=unit, why="nothing is read").to_dict()
    needs(len(r["mechanisms"]) > 1)


def no_edge_read_instead_of_a_cut(r: Record) -> None:
    needs(not any(a["name"] == "no edge is read" for a in r["assumptions"]))
    assume(r, Assumption(AssumptionName.NO_EDGE_READ))
    forget(r, AssumptionName.ORDER_OF_PAIRS)
    scoped(r, Scope())


def search_denied(r: Record) -> None:
    the(r, Mechanism.PRIVATE_SELECTION)
    assume(r, Assumption(AssumptionName.HYPER_PARAMETERS, {"search": None}))


def void_and_said_so(r: Record) -> None:
    r["assumptions"][-1]["holds"] = False
    r["status"] = "void"


def fewer_stages(r: Record) -> None:
    d = the(r, Mechanism.NEIGHBOUR_COUNTS)["details"]
    d["stages"] = r["public_parameters"]["stages"] = d["stages"] - 1


def epsilon_moved_to_the_count(r: Record) -> None:
    count, pairs = the(r, Mechanism.EDGE_COUNT), the(r, Mechanism.RANDOMIZED_RESPONSE)
    for m, by in ((count, 0.1), (pairs, -0.1)):
        m["details"]["epsilon"] += by
        m["costs"]["every edge"][0]["epsilon"] += by


def trials_dropped_with_theorem(r: Record) -> None:
    d = the(r, Mechanism.PRIVATE_SELECTION)["details"]
    needs(d["order"])
    d["order"] = d["order"][:1]
    d["expected_trials"] = 1
    m = the(r, Mechanism.PRIVATE_SELECTION)
    m["theorem"] = "composition of 1 trials"
    assume(r, Assumption(AssumptionName.HYPER_PARAMETERS, {"search": m["theorem"]}))


def free_scores(r: Record) -> None:
    d = the(r, Mechanism.PRIVATE_SELECTION)["details"]
    needs(d["score_noise"])
    d["score_noise"] = None


def trial_settings_contradict(r: Record) -> None:
    trial_mechanism(r, Mechanism.MESSAGE_PASSING)
    for trial in trials(r):
        trial["settings"]["hops"] = 99


FORGERIES: list[Callable[[Record], None]] = [
    *(
        more_noise_claimed,
        fewer_nodes_everywhere,
        unit_everywhere,
        edge_theorem_at_node_level,
        node_theorem_at_edge_level,
    ),
    *(every_graph, flat_curve, smaller_epsilons, group_removed_everywhere, paid_by_training_nodes_only),
    *(costliest_mechanism_removed, mechanism_called_no_release, no_edge_read_instead_of_a_cut, search_denied),
    *(void_and_said_so, fewer_stages, epsilon_moved_to_the_count, free_scores, trials_dropped_with_theorem),
    *(trial_settings_contradict,),
]
"""Edits of several fields that agree with each other. All must be caught."""
THAT_COUNT = (flat_curve, smaller_epsilons, costliest_mechanism_removed, free_scores)
"""Those that misstate what follows from the events; the others are caught even if that is recomputed as well."""


def _edited(name: str, edit: Callable[[Record], None]) -> Record | None:
    record = document(name)
    before = copy.deepcopy(record)
    try:
        edit(record)
    except NotApplicable:
        return None
    return record if record != before else None


@pytest.mark.parametrize("edit", FORGERIES, ids=lambda edit: edit.__name__)
def test_forgeries_are_caught(edit: Callable[[Record], None]) -> None:
    """Of every certificate that has what they change, also if everything after them was recomputed."""
    forged = {
        name: record for name in (*OF_EACH_KIND, "gap-edp", "gap-ndp") if (record := _edited(name, edit)) is not None
    }
    assert forged
    slipped = [name for name, record in forged.items() if not caught(record)]
    if edit not in THAT_COUNT:
        for name, record in forged.items():
            with contextlib.suppress(Exception):  # what cannot be recounted is caught as it is
                slipped += [] if caught(recounted(record)) else [f"{name}, recounted"]
    assert not slipped


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_an_assumption_is_removed_or_added(name: str) -> None:
    record = document(name)
    stated = {a["name"] for a in record["assumptions"]}
    for word in AssumptionName:
        changed = copy.deepcopy(record)
        if word.value in stated:
            forget(changed, word)
            assert caught(changed), f"{word.value} was removed"
            continue
        parameters: dict[str, Any] = {}
        if word is AssumptionName.INITIAL_STATE:
            parameters = {"unit": record["unit"]}
        if word is AssumptionName.FEATURES_WITHOUT_EDGES:
            parameters = {"columns": 2, "names": ["age", "income"]}
        if word is AssumptionName.ARRIVALS:
            parameters = {
                "release": "a" * 32,
                "extends": "b" * 32,
                "batch": record["public_parameters"].get("batch", 2),
            }
        assume(changed, Assumption(word, parameters))
        result = outcome(changed)
        if result is not None and result.passed:
            # such an assumption only weakens the promise, and it is listed with all others
            batch = (AssumptionName.ARRIVALS,) if name == PAID else ()
            assert word in (AssumptionName.GIVEN_PRIOR, AssumptionName.OWN_CODE, *batch)
            place = [a["name"] for a in changed["assumptions"]].index(word.value)
            assert f"assumptions.{place}" in result.declared


def test_a_batch_is_of_one_number() -> None:
    """In its public parameters and in what it says of its arrivals."""
    record = document(LINKED)
    record["public_parameters"]["batch"] = 4
    assert caught(record)
    assume(record, Assumption(AssumptionName.ARRIVALS, {"release": "a" * 32, "extends": "b" * 32, "batch": 4}))
    assert not caught(record)


@pytest.mark.parametrize("kind", ReleaseKind)
def test_a_kind_is_no_way_around_the_plan(kind: ReleaseKind) -> None:
    """No other kind may be stated of a node-level fit, and "own release" only with what says that the code is one's own."""
    record = {**document("caribou-ndp"), "kind": kind.value}
    assert caught(record) is (kind is not ReleaseKind.FIT)
    record["public_parameters"]["nodes"] = 81  # makes another plan
    assert caught(record)


def test_only_embeddings_have_a_start_of_their_own() -> None:
    """A word among the public parameters of a method does not take back what it says of its features."""
    record = document("votes-edp")
    record["public_parameters"]["start"] = "given by the curator"
    forget(record, AssumptionName.FEATURES_WITHOUT_EDGES)
    assert caught(record)


def test_a_public_sample_is_never_silent() -> None:
    record = document("mlp-dp")
    record["public_parameters"]["public_features"] = "30 rows"
    assert caught(record)
    assume(record, Assumption(AssumptionName.PUBLIC_FEATURES))
    assert caught(record)  # with a sample no mean is paid for
    search = document("search without edges")
    trials(search)[0]["settings"]["public_features"] = "30 rows"
    assert caught(search)


# -- what passes, and must be said --------------------------------------------------------------------------------------


def test_the_samplers_must_be_those_of_the_mechanisms() -> None:
    record = document("embeddings, edge")
    for samplers in ([], [Sampler.DISCRETE_LAPLACE], [Sampler.GAUSSIAN, Sampler.OWN]):
        assume(record, floating_point(samplers))
        result = verify(reload(record))
        assert not result.passed
        assert "assumption: floating point" in {check.name for check in result.checks if not check.passed}


def test_a_laundered_seed_passes_as_a_declared_assumption() -> None:
    void = json.loads(declared(embeddings()).certificate(NoiseSource.seeded(1)).to_json())
    assume(
        void,
        Assumption(
            AssumptionName.RANDOMNESS, {"secret": True, "origin": "the operating system", "resumable": False}, True
        ),
    )
    void["status"] = "private"
    result = verify(reload(void))
    assert result.passed
    assert "assumptions.0" in result.declared


def test_a_consistent_forgery_passes_by_nature() -> None:
    """Nobody ran anything: figures that were all computed for other numbers follow from each other."""
    forged = certified(embeddings(epsilon=0.1))
    assert verify(forged).passed
    assert "signature" in FORGERY
    nothing = document("caribou-edp")
    nothing["mechanisms"] = [NoReleaseRecord(unit=PrivacyUnit.EDGE, why="no edge is read").to_dict()]
    assume(nothing, Assumption(AssumptionName.NO_EDGE_READ), floating_point([]))
    forget(nothing, AssumptionName.INITIAL_STATE)
    assert caught(recounted(nothing))  # the method reads edges
    assert figures.verify(reload(recounted(nothing))).passed


# -- nothing makes it crash -------------------------------------------------------------------------------------------

EXTREME = [10**400, -(10**400), 2**53, 1e308, 5e-324]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from(EXTREME)
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FUZZED = [*EMBEDDINGS[:2], "votes-ndp", "sage-edp", "dpdgc-ndp", *SEARCHES]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from(FUZZED), data=st.data(), value=JSON)
def test_fuzzed_certificates_fail_cleanly(name: str, data: st.DataObject, value: Any) -> None:
    """Whatever a field is replaced by, the outcome is our error or a verdict, and never a crash."""
    record = document(name)
    path = data.draw(st.sampled_from(list(paths(record))))
    with contextlib.suppress(CertificateError):
        verify(Certificate.from_dict(edited(record, path, value)))


@pytest.mark.parametrize("name", ["mlp-dp", "votes-ndp"])
def test_a_number_of_nodes_of_another_kind_fails_cleanly(name: str) -> None:
    """It bounds the degrees of the curve, also where no mechanism fixes it."""
    for nodes in ("80", [3], {}, 2.5, True, -1, None, 10**400):
        assert caught(edited(document(name), ("public_parameters", "nodes"), nodes))


def test_a_bottomless_document_is_refused() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    for path in (("public_parameters", "beta"), ("mechanisms", 0, "details", "schedule"), ("released",)):
        with pytest.raises(CertificateError, match="nested"):
            Certificate.from_dict(edited(document("mlp-dp"), path, deep))


def test_certificates_that_were_never_documents_fail_cleanly() -> None:
    made = certificates()["embeddings, edge"]
    assert not verify(replace(made, mechanisms=())).passed
    assert not verify(replace(made, assumptions=())).passed
