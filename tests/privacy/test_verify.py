"""Verification under attack: certificates of every method, every field changed alone, and consistent edits of several."""

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

from caribou.errors import CertificateError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy import accounting
from caribou.privacy import verify as verify_module
from caribou.privacy.assumptions import Assumption, AssumptionName, Sampler, floating_point, in_order
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate
from caribou.privacy.events import Gaussian
from caribou.privacy.mechanism_records import (
    Group,
    Mechanism,
    edge_votes_record,
    mean_record,
    no_release_record,
    own_record,
)
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.scope import Scope, ScopeKind
from caribou.privacy.verify import FORGERY, Verification, verify
from certificate_support import (
    EMBEDDINGS,
    NOT_PRIVATE,
    PRIVATE,
    SEARCHES,
    certificates,
    certified,
    edited,
    edits,
    embeddings,
    paths,
    recounted,
    reload,
    same,
)

DOCS = Path(__file__).parents[2] / "docs" / "certificates.md"
Record = dict[str, Any]


@pytest.fixture(autouse=True, scope="module")
def remembered_costs() -> Iterator[None]:
    """Most edits leave the events alone: what was composed once is not composed again for each of them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_composed_pld", "_delta_curve"):
            patch.setattr(accounting, name, lru_cache(maxsize=1024)(getattr(accounting, name).__wrapped__))
        rdp = lru_cache(maxsize=1024)(accounting.rdp_epsilon_of)
        patch.setattr(verify_module, "rdp_epsilon_of", lambda events, delta: rdp(tuple(events), delta))
        yield


def document(name: str) -> Record:
    """The certificate as its file holds it."""
    return json.loads(certificates()[name].to_json())


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


@pytest.mark.parametrize("name", PRIVATE)
def test_the_certificate_of_every_method_verifies(name: str) -> None:
    made = certificates()[name]
    again = reload(made.to_dict())
    assert again == made
    result = verify(again)
    assert result.passed, failures(result)
    assert made.status == ("private" if made.scope.is_every_graph else "private by degree")
    if made.epsilon_spent > 0:
        assert result.epsilon_pld == pytest.approx(made.epsilon_spent, abs=2e-3)


@pytest.mark.parametrize("name", NOT_PRIVATE)
def test_what_protects_nothing_does_not_verify(name: str) -> None:
    made = certificates()[name]
    assert made.status == "no privacy"
    again = reload(made.to_dict())
    assert math.isinf(again.epsilon)
    assert not verify(again).passed
    assert any("NO PRIVACY" in line for line in failures(verify(again)))


def test_seeded_noise_does_not_verify() -> None:
    void = embeddings().certificate(NoiseSource.seeded(1))
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
    blank = {key: None for key in response.details if key != "epsilon"}
    opened = replace(response, details={**response.details, **blank})
    records = tuple(opened if r is response else r for r in made.mechanisms)
    assert not verify(replace(made, mechanisms=records)).passed


# -- every field alone ------------------------------------------------------------------------------------------------

_DECLARED_KINDS = ("1 % more", "1 % less", "one more", "one less", "other words", "deleted", "unknown key", "reversed")


def _is_declared(kind: str, path: tuple[Any, ...], fields: tuple[str, ...]) -> bool:
    """Whether the changed field, or the order or the completeness of its list, is among those listed as declared."""
    here, above = ".".join(map(str, path)), ".".join(map(str, path[:-1]))
    places = [here]
    if kind == "reversed":
        places.append(f"{here}: order")
    if kind in ("doubled entry", "emptied"):
        places.append(f"{here}: complete")
    if kind == "deleted":
        places.append(f"{above}: complete")
    return any(place == field or place.startswith(f"{field}.") for place in places for field in fields)


@pytest.mark.parametrize("name", PRIVATE)
def test_every_field_changed_alone_is_refused_or_declared(name: str) -> None:
    """At least: numbers moved by 1 %, as words, truths, null, negative and infinite; words; keys removed, added and doubled."""
    record = document(name)
    slipped, tried = [], 0
    for kind, path, changed in edits(record):
        free = path[:1] == ("public_parameters",) or "schedule" in path or "settings" in path
        if same(changed, record) or (free and kind not in _DECLARED_KINDS):
            continue  # such values are declared as a whole; a few ways to change them will do
        tried += 1
        try:
            result = verify(Certificate.from_dict(changed))
        except CertificateError:
            continue
        if result.passed and not _is_declared(kind, path, result.declared):
            slipped.append((kind, ".".join(map(str, path))))
    assert not slipped
    assert tried > 250


def starred(field: str) -> str:
    return re.sub(r"\.\d+(?=\.|:|$)", ".*", field)


def test_the_page_lists_what_passes() -> None:
    """docs/certificates.md: one row per field that a verification lists as declared, and no other."""
    made = [*(certificates()[name] for name in PRIVATE), own_certificate()]
    fields = {starred(field) for certificate in made for field in verify(certificate).declared}
    inner = "mechanisms.*.details.trials.*.mechanisms.*."
    fields = {field for field in fields if not field.startswith(inner)} | {inner.rstrip(".")}
    section = DOCS.read_text(encoding="utf-8").split("## What passes", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    listed = {field for row in rows for field in re.findall(r"`([^`]+)`", row.split("|")[1])}
    assert listed == fields


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


def assume(record: Record, *assumptions: Assumption) -> None:
    """State these, in their places, in the place of what was stated under their names."""
    kept = [Assumption.from_dict(a) for a in record["assumptions"]]
    record["assumptions"] = [a.to_dict() for a in in_order([*kept, *assumptions])]


def forget(record: Record, *names: AssumptionName) -> None:
    words = [name.value for name in names]
    record["assumptions"] = [a for a in record["assumptions"] if a["name"] not in words]


def scoped(record: Record, scope: Scope) -> None:
    record["scope"] = scope.to_dict()
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


def noise_of_messages(r: Record) -> None:
    m = the(r, Mechanism.MESSAGE_PASSING)
    m["details"]["noise_std"] *= 2
    m["details"]["noise_multiplier"] *= 2
    m["details"]["mu"] /= 2


def noise_of_messages_and_event(r: Record) -> None:
    noise_of_messages(r)
    for events in the(r, Mechanism.MESSAGE_PASSING)["costs"].values():
        events[0]["noise_multiplier"] *= 2


def noise_of_sums_and_event(r: Record) -> None:
    m = the(r, Mechanism.NEIGHBOUR_SUMS)
    m["details"]["noise_std"] *= 2
    m["details"]["mu"] /= 2
    for events in m["costs"].values():
        events[0]["noise_multiplier"] *= 2


def smaller_sensitivity(r: Record) -> None:
    found = mechanism(r, Mechanism.MESSAGE_PASSING) or the(r, Mechanism.NEIGHBOUR_SUMS)
    d = found["details"]
    d["sensitivity"]["value"] /= 2
    d["mu"] /= 2
    if "noise_multiplier" in d:
        d["noise_multiplier"] *= 2
    for events in found["costs"].values():
        events[0]["noise_multiplier"] *= 2


def sensitivity_and_noise(r: Record) -> None:
    found = mechanism(r, Mechanism.MESSAGE_PASSING) or the(r, Mechanism.NEIGHBOUR_SUMS)
    found["details"]["sensitivity"]["value"] /= 2
    found["details"]["noise_std"] /= 2


def arithmetic_forgotten(r: Record) -> None:
    the(r, Mechanism.MESSAGE_PASSING)["details"]["arithmetic"]["error"] = 0.0


def other_storage(r: Record) -> None:
    the(r, Mechanism.MESSAGE_PASSING)["details"]["arithmetic"]["storage"] = "single"


def fewer_hops_paid(r: Record) -> None:
    d = the(r, Mechanism.MESSAGE_PASSING)["details"]
    needs(d["hops"] > 1)
    d["hops"] = r["public_parameters"]["hops"] = 1
    d["kappa"] = 1.0


def fewer_sums_paid(r: Record) -> None:
    m = the(r, Mechanism.NEIGHBOUR_SUMS)
    needs(m["details"]["hops"] > 1)
    m["details"]["hops"] = r["public_parameters"]["hops"] = 1
    for events in m["costs"].values():
        events[0]["count"] = 1


def higher_floor(r: Record) -> None:
    bounds = the(r, Mechanism.MESSAGE_PASSING)["details"]["sensitivity"]["bounds"]
    bounds["degree_floor"] = r["public_parameters"]["degree_floor"] = bounds["degree_floor"] + 50


def fewer_nodes_in_the_bound(r: Record) -> None:
    the(r, Mechanism.MESSAGE_PASSING)["details"]["sensitivity"]["bounds"]["nodes"] = 2


def fewer_nodes_everywhere(r: Record) -> None:
    d = the(r, Mechanism.MESSAGE_PASSING)["details"]
    r["public_parameters"]["nodes"] = d["arithmetic"]["nodes"] = d["sensitivity"]["bounds"]["nodes"] = 20


def caps(r: Record) -> list[tuple[Record, str]]:
    found = [(r["public_parameters"], "degree_cap")]
    for m in r["mechanisms"]:
        d = m["details"]
        sensitivity = d.get("sensitivity")
        for place in (d.get("bounds"), sensitivity.get("bounds") if isinstance(sensitivity, dict) else None):
            if isinstance(place, dict) and place.get("degree_cap") is not None:
                found.append((place, "degree_cap"))
    needs(len(found) > 1)
    return found


def other_layer(r: Record) -> None:
    s = the(r, Mechanism.MESSAGE_PASSING)["details"]["sensitivity"]
    needs(s["layer"] == "gcn")
    numbers = {"beta": s["parameters"]["beta"], "contraction": s["parameters"]["contraction"], "alpha1": 1.0}
    s["layer"], s["parameters"] = "contractive", numbers
    r["public_parameters"] |= {"layer": "contractive", **numbers}
    forget(r, AssumptionName.PUBLIC_MATRIX)


def layer_of_fewer_columns(r: Record) -> None:
    s = the(r, Mechanism.MESSAGE_PASSING)["details"]["sensitivity"]
    needs("columns" in s["parameters"])
    s["parameters"]["columns"] = 1
    s["residual"] = 1.0 + s["parameters"]["beta"]


def input_of_another_layer(r: Record) -> None:
    needs(any(a["name"] == AssumptionName.PUBLIC_MATRIX.value for a in r["assumptions"]))
    assume(r, Assumption(AssumptionName.PUBLIC_ROWS))


def less_weight_on_edges(r: Record) -> None:
    s = the(r, Mechanism.MESSAGE_PASSING)["details"]["sensitivity"]
    key = "theta1" if "theta1" in s["parameters"] else "alpha1"
    needs(s["parameters"].get(key, 0) != 0)
    s["parameters"][key] /= 2
    r["public_parameters"][key] = s["parameters"][key]


def smaller_contraction(r: Record) -> None:
    s = the(r, Mechanism.MESSAGE_PASSING)["details"]["sensitivity"]
    s["contraction"] = s["parameters"]["contraction"] = r["public_parameters"]["contraction"] = 0.1


def contraction_of_the_step_only(r: Record) -> None:
    the(r, Mechanism.MESSAGE_PASSING)["details"]["sensitivity"]["contraction"] = 0.1


def cap_changed_everywhere(cap: int | None) -> Callable[[Record], None]:
    def change(r: Record) -> None:
        needs(not certificates_scope(r).is_every_graph)  # a cap that cuts nothing can be left out
        for place, key in caps(r):
            place[key] = cap
            if "degree_floor" in place and cap is not None:
                place["degree_floor"] = max(cap, place["degree_floor"])
        scoped(r, Scope() if cap is None else Scope(ScopeKind.NODES_UP_TO_DEGREE, cap))
        if cap is None:
            forget(r, AssumptionName.ORDER_OF_PAIRS)

    return change


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


def unit_of_the_claim_only(r: Record) -> None:
    other = PrivacyUnit.NODE if r["unit"] == "edge" else PrivacyUnit.EDGE
    r["unit"], r["adjacency"] = other.value, other.adjacency


def edge_theorem_at_node_level(r: Record) -> None:
    needs(r["unit"] == "node" and "every node" in r["groups"])
    stolen = edge_votes_record(epsilon=1.0, mu=math.inf).to_dict()
    stolen["costs"] = {"every node": stolen["costs"].pop("every edge")}
    r["mechanisms"] = [stolen]
    scoped(r, Scope())


def node_theorem_at_edge_level(r: Record) -> None:
    needs(r["unit"] == "edge")
    stolen = mean_record("mean of the training rows", noise_std=3.0).to_dict()
    stolen["costs"] = {"every edge": stolen["costs"].pop("training nodes")}
    r["mechanisms"] = [stolen]


def every_graph(r: Record) -> None:
    needs(not certificates_scope(r).is_every_graph)
    scoped(r, Scope())
    forget(r, AssumptionName.ORDER_OF_PAIRS)


def certificates_scope(r: Record) -> Scope:
    return Scope.from_dict(r["scope"])


def wider_limit(r: Record) -> None:
    scope = certificates_scope(r)
    needs(scope.limit)
    scoped(r, Scope(scope.kind, 10 * (scope.limit or 0)))


def declared_degree_everywhere(degree: int) -> Callable[[Record], None]:
    def change(r: Record) -> None:
        needs(certificates_scope(r).limit)
        for m in r["mechanisms"]:
            d = m["details"]
            sensitivity = d.get("sensitivity")
            for place in (d, d.get("bounds"), sensitivity.get("bounds") if isinstance(sensitivity, dict) else None):
                if isinstance(place, dict) and "declared_degree" in place:
                    place["declared_degree"] = degree
        r["public_parameters"]["declared_degree"] = degree
        scoped(r, Scope(ScopeKind.NODES_UP_TO_DEGREE, degree))

    return change


def smaller_curve(r: Record) -> None:
    needs(r["epsilon_by_degree"] and r["epsilon_spent"])
    r["epsilon_by_degree"] = [[degree, epsilon / 2] for degree, epsilon in r["epsilon_by_degree"]]


def flat_curve(r: Record) -> None:
    """The headline for every degree."""
    needs(r["epsilon_by_degree"])
    r["epsilon_by_degree"] = [[degree, r["epsilon_spent"]] for degree, _ in r["epsilon_by_degree"]]


def curve_hidden(r: Record) -> None:
    r["epsilon_by_degree"] = []


def hubs_hidden(r: Record) -> None:
    needs(r["epsilon_by_degree"])
    r["epsilon_by_degree"].pop()


def curve_of_larger_degrees(r: Record) -> None:
    needs(r["epsilon_by_degree"])
    r["epsilon_by_degree"] = [[10 * degree, epsilon] for degree, epsilon in r["epsilon_by_degree"]]


def curve_backwards(r: Record) -> None:
    r["epsilon_by_degree"].reverse()


def degree_added_to_the_curve(r: Record) -> None:
    r["epsilon_by_degree"].append([10**6, r["epsilon_spent"]])


def degree_stated_twice(r: Record) -> None:
    needs(r["epsilon_by_degree"])
    r["epsilon_by_degree"].append([*r["epsilon_by_degree"][-1]])


def narrower_scope_than_needed(r: Record) -> None:
    needs(certificates_scope(r).is_every_graph)
    scoped(r, Scope(ScopeKind.NODES_UP_TO_DEGREE, 5))
    assume(r, Assumption(AssumptionName.ORDER_OF_PAIRS))


def smaller_epsilons(r: Record) -> None:
    needs(r["epsilon_spent"])
    r["epsilon"] /= 2
    r["epsilon_spent"] /= 2
    r["groups"] = {g: e / 2 for g, e in r["groups"].items()}


def smaller_spent(r: Record) -> None:
    needs(r["epsilon_spent"])
    r["epsilon_spent"] /= 2
    r["groups"] = {g: e / 2 for g, e in r["groups"].items()}


def smaller_rates(r: Record) -> None:
    needs(r["epsilon_spent"])
    for rates in r["attack_success"].values():
        for fpr in rates:
            rates[fpr] = float(fpr)
    r["mu"] = None if r["mu"] is None else r["mu"] / 2


def rates_elsewhere(r: Record) -> None:
    for question, rates in r["attack_success"].items():
        r["attack_success"][question] = {"0.05": rates["0.01"], "0.1": rates["0.01"]}


def replacement_as_hard_as_presence(r: Record) -> None:
    needs(r["epsilon_spent"])
    r["attack_success"]["replacement"] = dict(r["attack_success"]["presence"])


def replacement_forgotten(r: Record) -> None:
    del r["attack_success"]["replacement"]


def questions_swapped(r: Record) -> None:
    needs(r["epsilon_spent"])
    presence, replacement = (r["attack_success"][question] for question in ("presence", "replacement"))
    r["attack_success"] = {"presence": replacement, "replacement": presence}


def another_question(r: Record) -> None:
    r["attack_success"]["guess"] = dict(r["attack_success"]["presence"])


def group_removed_everywhere(r: Record) -> None:
    needs(len(r["groups"]) > 1)
    group = list(r["groups"])[-1]
    for m in r["mechanisms"]:
        if len(m["costs"]) > 1:
            m["costs"].pop(group, None)
    needs(all(group not in m["costs"] for m in r["mechanisms"]))


def group_renamed(r: Record) -> None:
    needs(list(r["groups"]) == ["training nodes"])
    for m in r["mechanisms"]:
        m["costs"] = {"validation nodes": m["costs"].pop("training nodes")}


def events_swapped_between_groups(r: Record) -> None:
    for m in r["mechanisms"]:
        costs = m["costs"]
        first = next(iter(costs.values()))
        if not all(same(first, events) for events in costs.values()):  # up to rounding, as a verification compares
            m["costs"] = dict(zip(costs, [*list(costs.values())[1:], next(iter(costs.values()))], strict=True))
            return
    raise NotApplicable


def events_swapped_between_mechanisms(r: Record) -> None:
    needs(len(r["mechanisms"]) > 1)
    one, two = r["mechanisms"][:2]
    needs(one["costs"] != two["costs"])
    one["costs"], two["costs"] = two["costs"], one["costs"]


def paid_by_training_nodes_only(r: Record) -> None:
    found = mechanism(r, Mechanism.MESSAGE_PASSING) or the(r, Mechanism.NEIGHBOUR_SUMS)
    needs("training nodes" in found["costs"])
    found["costs"] = {"training nodes": found["costs"]["training nodes"]}


def paid_by_a_part_of_nobody(r: Record) -> None:
    needs(list(r["groups"]) == ["every node"])
    for m in r["mechanisms"]:
        m["costs"] = {"validation nodes": m["costs"].pop("every node")}


def costliest_mechanism_removed(r: Record) -> None:
    needs(len(r["mechanisms"]) > 1)
    before = recounted(r)["epsilon_spent"]
    for place in range(len(r["mechanisms"])):
        rest = r["mechanisms"][:place] + r["mechanisms"][place + 1 :]
        if abs(recounted({**r, "mechanisms": rest})["epsilon_spent"] - before) > 1e-3:
            r["mechanisms"] = rest
            return
    raise NotApplicable


def mechanism_doubled(r: Record) -> None:
    r["mechanisms"].append(copy.deepcopy(r["mechanisms"][-1]))


def mechanism_called_no_release(r: Record) -> None:
    unit = PrivacyUnit.parse(r["unit"])
    r["mechanisms"][0] = no_release_record(unit, "nothing is read").to_dict()
    needs(len(r["mechanisms"]) > 1)


def theorems_swapped(r: Record) -> None:
    needs(len(r["mechanisms"]) > 1)
    one, two = r["mechanisms"][:2]
    needs(one["theorem"] != two["theorem"])
    one["theorem"], two["theorem"] = two["theorem"], one["theorem"]


def kinds_swapped(r: Record) -> None:
    needs(len(r["mechanisms"]) > 1)
    one, two = r["mechanisms"][:2]
    needs(one["mechanism"] != two["mechanism"])
    one["mechanism"], two["mechanism"] = two["mechanism"], one["mechanism"]


def no_edge_read(r: Record) -> None:
    needs(not any(a["name"] == "no edge is read" for a in r["assumptions"]))
    assume(r, Assumption(AssumptionName.NO_EDGE_READ))


def no_edge_read_instead_of_a_cut(r: Record) -> None:
    no_edge_read(r)
    forget(r, AssumptionName.ORDER_OF_PAIRS)
    scoped(r, Scope())


def initial_state_of_the_other_unit(r: Record) -> None:
    needs(any(a["name"] == "initial state" for a in r["assumptions"]))
    assume(r, Assumption(AssumptionName.INITIAL_STATE, {"unit": "node" if r["unit"] == "edge" else "edge"}))


def search_claimed(r: Record) -> None:
    needs(mechanism(r, Mechanism.PRIVATE_SELECTION) is None)
    assume(r, Assumption(AssumptionName.HYPER_PARAMETERS, {"search": "a search that cost nothing"}))


def search_denied(r: Record) -> None:
    the(r, Mechanism.PRIVATE_SELECTION)
    assume(r, Assumption(AssumptionName.HYPER_PARAMETERS, {"search": None}))


def key_and_states_kept_apart(r: Record) -> None:
    now = next(a for a in r["assumptions"] if a["name"] == "hidden states")["parameters"]["resumable"]
    assume(r, Assumption(AssumptionName.HIDDEN_STATES, {"resumable": not now}))


def sentence_of_another(r: Record) -> None:
    r["assumptions"][1]["statement"] = r["assumptions"][2]["statement"]


def sentence_softened(r: Record) -> None:
    r["assumptions"][-1]["statement"] = "Nothing is assumed."


def secret_seed(r: Record) -> None:
    first = r["assumptions"][0]
    first["parameters"]["secret"] = False


def void_but_private(r: Record) -> None:
    r["assumptions"][-1]["holds"] = False


def void_and_said_so(r: Record) -> None:
    r["assumptions"][-1]["holds"] = False
    r["status"] = "void"


def holds_hidden(r: Record) -> None:
    r["assumptions"][-1].pop("holds")


def status_better_than_scope(r: Record) -> None:
    needs(r["status"] == "private by degree")
    r["status"] = "private"


def own_rows_instead(r: Record) -> None:
    found = [m["details"] for m in r["mechanisms"] if m["details"].get("examples") in ("rows of A", "neighbourhoods")]
    needs(found)
    found[0].update(examples="own rows", bounds=None, own_share=None, message_scale=None, sensitivity_in_clips=1.0)


def fewer_clips(r: Record) -> None:
    d = the(r, Mechanism.NOISY_DESCENT)["details"]
    d["sensitivity_in_clips"] /= 2
    d["noise_std"] /= 2


def fewer_steps(r: Record) -> None:
    m = the(r, Mechanism.NOISY_DESCENT)
    m["details"]["steps"] -= 1
    for events in m["costs"].values():
        events[0]["count"] -= 1


def steps_of_the_event_only(r: Record) -> None:
    for events in the(r, Mechanism.NOISY_DESCENT)["costs"].values():
        events[0]["count"] -= 1


def smaller_clip(r: Record) -> None:
    d = the(r, Mechanism.NOISY_DESCENT)["details"]
    d["clip"] /= 2


def smaller_clip_and_noise(r: Record) -> None:
    d = the(r, Mechanism.NOISY_DESCENT)["details"]
    d["clip"] /= 2
    d["noise_multiplier"] *= 2


def sampled_steps(r: Record) -> None:
    for events in the(r, Mechanism.NOISY_DESCENT)["costs"].values():
        e = events[0]
        events[0] = {
            "kind": "subsampled_gaussian",
            "noise_multiplier": e["noise_multiplier"],
            "sampling_probability": 0.1,
            "steps": e["count"],
        }


def larger_own_share(r: Record) -> None:
    d = the(r, Mechanism.NOISY_DESCENT)["details"]
    needs(d["own_share"])
    d["own_share"] = r["public_parameters"]["own_share"] = 0.99


def other_noise_on_votes(r: Record) -> None:
    d = the(r, Mechanism.EDGE_VOTES)["details"]
    words = ["Gaussian on every released count", "discrete Laplace on every released count"]
    d["noise"] = words[d["noise"] == words[0]]


def both_noises_on_votes(r: Record) -> None:
    d = the(r, Mechanism.EDGE_VOTES)["details"]
    d["epsilon"], d["noise_std"] = 1.0, 1.0


def cheaper_votes(r: Record) -> None:
    m = the(r, Mechanism.EDGE_VOTES)
    (event,) = m["costs"]["every edge"]
    key = "epsilon" if "epsilon" in event else "noise_multiplier"
    event[key] *= 0.5 if key == "epsilon" else 2


def noise_for_one_direction(r: Record) -> None:
    d = the(r, Mechanism.NEIGHBOUR_COUNTS)["details"]
    d["sensitivity"], d["noise_epsilon"] = 1, 2 * d["noise_epsilon"]


def fewer_stages(r: Record) -> None:
    d = the(r, Mechanism.NEIGHBOUR_COUNTS)["details"]
    d["stages"] = r["public_parameters"]["stages"] = d["stages"] - 1


def cheaper_counts(r: Record) -> None:
    (event,) = the(r, Mechanism.NEIGHBOUR_COUNTS)["costs"]["every edge"]
    event["epsilon"] *= 0.5


def fewer_receivers(r: Record) -> None:
    m = the(r, Mechanism.NODE_VOTES)
    needs(m["details"]["receivers_per_sender"] != 1)
    m["details"]["receivers_per_sender"] = 1


def smaller_rows(r: Record) -> None:
    m = the(r, Mechanism.NODE_VOTES)
    m["details"]["row_clip"] /= 2
    m["details"]["noise_std"] *= 2


def rows_of_validation_only(r: Record) -> None:
    m = the(r, Mechanism.NODE_VOTES)
    m["details"]["validation_row_clip"] /= 2


def more_truthful_answers(r: Record) -> None:
    d = the(r, Mechanism.RANDOMIZED_RESPONSE)["details"]
    d["keep_one"] = 1 - (1 - d["keep_one"]) / 2


def other_probabilities_of_equal_cost(r: Record) -> None:
    d = the(r, Mechanism.RANDOMIZED_RESPONSE)["details"]
    keep = 1 / (1 + math.exp(-d["epsilon_of_answers"]))
    d["keep_one"], d["make_one"] = keep, 1 - keep


def another_edge_count(r: Record) -> None:
    the(r, Mechanism.RANDOMIZED_RESPONSE)["details"]["released_edge_count"] += 100


def more_edges_than_pairs(r: Record) -> None:
    the(r, Mechanism.RANDOMIZED_RESPONSE)["details"]["released_edge_count"] = 10**6


def epsilon_moved_to_the_count(r: Record) -> None:
    count, pairs = the(r, Mechanism.EDGE_COUNT), the(r, Mechanism.RANDOMIZED_RESPONSE)
    for m, by in ((count, 0.1), (pairs, -0.1)):
        m["details"]["epsilon"] += by
        m["costs"]["every edge"][0]["epsilon"] += by


def cheaper_choice(r: Record) -> None:
    m = the(r, Mechanism.EXPONENTIAL)
    m["costs"]["validation nodes"][0]["epsilon"] /= 2


def choice_of_greater_sensitivity(r: Record) -> None:
    the(r, Mechanism.EXPONENTIAL)["details"]["sensitivity"] = 0.5


def choice_paid_by_others(r: Record) -> None:
    m = the(r, Mechanism.EXPONENTIAL)
    m["costs"] = {"test nodes and the rest": m["costs"].pop("validation nodes")}


def trials_dropped(r: Record) -> None:
    d = the(r, Mechanism.PRIVATE_SELECTION)["details"]
    needs(d["order"])
    d["order"] = d["order"][:1]
    d["expected_trials"] = 1


def trials_dropped_with_theorem(r: Record) -> None:
    trials_dropped(r)
    m = the(r, Mechanism.PRIVATE_SELECTION)
    m["theorem"] = "composition of 1 trials"
    assume(r, Assumption(AssumptionName.HYPER_PARAMETERS, {"search": m["theorem"]}))


def fewer_expected_trials(r: Record) -> None:
    d = the(r, Mechanism.PRIVATE_SELECTION)["details"]
    needs(d["random"])
    d["expected_trials"] = 2


def other_stopping(r: Record) -> None:
    d = the(r, Mechanism.PRIVATE_SELECTION)["details"]
    needs(d["random"])
    d["random"]["stop"] = 0.9


def order_of_a_random_search(r: Record) -> None:
    d = the(r, Mechanism.PRIVATE_SELECTION)["details"]
    needs(d["random"])
    d["order"] = [0]


def order_from_behind(r: Record) -> None:
    d = the(r, Mechanism.PRIVATE_SELECTION)["details"]
    needs(d["order"])
    d["order"] = [-1 for _ in d["order"]]


def order_out_of_range(r: Record) -> None:
    d = the(r, Mechanism.PRIVATE_SELECTION)["details"]
    needs(d["order"])
    d["order"] = [99 for _ in d["order"]]


def free_trials(r: Record) -> None:
    the(r, Mechanism.PRIVATE_SELECTION)["details"]["epsilon_of_a_trial"] /= 10


def free_scores(r: Record) -> None:
    d = the(r, Mechanism.PRIVATE_SELECTION)["details"]
    needs(d["score_noise"])
    d["score_noise"] = None


def other_delta_of_the_search(r: Record) -> None:
    the(r, Mechanism.PRIVATE_SELECTION)["details"]["delta"] = 1e-4


def trial_scope_weakened(r: Record) -> None:
    d = trial_mechanism(r, Mechanism.MESSAGE_PASSING)["details"]
    needs(r["unit"] == "node")
    d["sensitivity"]["bounds"]["degree_cap"] = d["sensitivity"]["bounds"]["degree_floor"] = 79


def trial_of_the_other_unit(r: Record) -> None:
    trials(r)[0]["mechanisms"] = [edge_votes_record(epsilon=0.1, mu=math.inf).to_dict()]
    needs(r["unit"] == "node")


def trial_paid_by_few(r: Record) -> None:
    m = trial_mechanism(r, Mechanism.MESSAGE_PASSING)
    needs("training nodes" in m["costs"])
    m["costs"] = {"validation nodes": m["costs"]["validation nodes"]}


def trial_cost_misstated(r: Record) -> None:
    m = trials(r)[0]["mechanisms"][0]
    for events in m["costs"].values():
        for event in events:
            if "noise_multiplier" in event:
                event["noise_multiplier"] *= 2
            else:
                event["epsilon"] /= 2


def trial_theorem_misstated(r: Record) -> None:
    trials(r)[0]["mechanisms"][0]["theorem"] = "it is private"


def trial_settings_contradict(r: Record) -> None:
    trial_mechanism(r, Mechanism.MESSAGE_PASSING)
    for trial in trials(r):
        trial["settings"]["hops"] = 99


def trial_with_a_note(r: Record) -> None:
    trials(r)[0]["note"] = "cheap"


def trial_on_fewer_nodes(r: Record) -> None:
    d = trial_mechanism(r, Mechanism.MESSAGE_PASSING)["details"]
    d["arithmetic"]["nodes"] = d["sensitivity"]["bounds"]["nodes"] = 10


def trial_without_mechanisms(r: Record) -> None:
    trials(r)[0]["mechanisms"] = []


CONSISTENT: list[Callable[[Record], None]] = [
    *(more_noise_claimed, noise_of_messages, noise_of_messages_and_event, noise_of_sums_and_event),
    *(
        smaller_sensitivity,
        sensitivity_and_noise,
        arithmetic_forgotten,
        other_storage,
        fewer_hops_paid,
        fewer_sums_paid,
    ),
    *(higher_floor, fewer_nodes_in_the_bound, fewer_nodes_everywhere, other_layer, layer_of_fewer_columns),
    *(input_of_another_layer, less_weight_on_edges, smaller_contraction, contraction_of_the_step_only),
    *(cap_changed_everywhere(1), cap_changed_everywhere(60), cap_changed_everywhere(None)),
    *(unit_everywhere, unit_of_the_claim_only, edge_theorem_at_node_level, node_theorem_at_edge_level),
    *(every_graph, wider_limit, narrower_scope_than_needed, status_better_than_scope),
    *(declared_degree_everywhere(1), declared_degree_everywhere(60)),
    *(smaller_curve, flat_curve, curve_hidden, hubs_hidden, curve_of_larger_degrees, curve_backwards),
    *(degree_added_to_the_curve, degree_stated_twice),
    *(replacement_as_hard_as_presence, replacement_forgotten, questions_swapped, another_question),
    *(smaller_epsilons, smaller_spent, smaller_rates, rates_elsewhere),
    *(group_removed_everywhere, group_renamed, events_swapped_between_groups, events_swapped_between_mechanisms),
    *(paid_by_training_nodes_only, paid_by_a_part_of_nobody, costliest_mechanism_removed, mechanism_doubled),
    *(mechanism_called_no_release, theorems_swapped, kinds_swapped),
    *(no_edge_read, no_edge_read_instead_of_a_cut, initial_state_of_the_other_unit, search_claimed, search_denied),
    *(
        key_and_states_kept_apart,
        sentence_of_another,
        sentence_softened,
        secret_seed,
        void_but_private,
        void_and_said_so,
    ),
    *(holds_hidden, own_rows_instead, fewer_clips, fewer_steps, steps_of_the_event_only, smaller_clip),
    *(
        smaller_clip_and_noise,
        sampled_steps,
        larger_own_share,
        other_noise_on_votes,
        both_noises_on_votes,
        cheaper_votes,
    ),
    *(noise_for_one_direction, fewer_stages, cheaper_counts),
    *(fewer_receivers, smaller_rows, rows_of_validation_only, more_truthful_answers, other_probabilities_of_equal_cost),
    *(another_edge_count, more_edges_than_pairs, epsilon_moved_to_the_count),
    *(cheaper_choice, choice_of_greater_sensitivity, choice_paid_by_others),
    *(trials_dropped, trials_dropped_with_theorem, fewer_expected_trials, other_stopping, order_of_a_random_search),
    *(order_from_behind, order_out_of_range, free_trials, free_scores, other_delta_of_the_search, trial_scope_weakened),
    *(trial_of_the_other_unit, trial_paid_by_few, trial_cost_misstated, trial_theorem_misstated),
    *(trial_settings_contradict, trial_with_a_note, trial_on_fewer_nodes, trial_without_mechanisms),
]
"""Edits of several fields that agree with each other. All must be caught."""
RECOUNTED: list[Callable[[Record], None]] = [
    *(more_noise_claimed, smaller_sensitivity, unit_everywhere, edge_theorem_at_node_level, node_theorem_at_edge_level),
    *(every_graph, wider_limit, group_removed_everywhere, group_renamed),
    *(declared_degree_everywhere(1), declared_degree_everywhere(60)),
    *(events_swapped_between_groups, events_swapped_between_mechanisms, paid_by_training_nodes_only),
    *(paid_by_a_part_of_nobody, mechanism_called_no_release, no_edge_read_instead_of_a_cut),
    *(noise_for_one_direction, fewer_stages, cheaper_counts),
    *(steps_of_the_event_only, sampled_steps, own_rows_instead, cheaper_votes, cheaper_choice, choice_paid_by_others),
    *(cap_changed_everywhere(1), cap_changed_everywhere(60), trial_paid_by_few, trial_of_the_other_unit, free_scores),
    *(trial_cost_misstated, epsilon_moved_to_the_count),
]
"""Those that must be caught even if everything that follows from the events was recomputed as well."""


def _edited(name: str, edit: Callable[[Record], None]) -> Record | None:
    record = document(name)
    before = copy.deepcopy(record)
    try:
        edit(record)
    except NotApplicable:
        return None
    return record if record != before else None


def test_there_are_many_consistent_edits() -> None:
    assert len(CONSISTENT) >= 80
    tried = {edit: [name for name in PRIVATE if _edited(name, edit) is not None] for edit in CONSISTENT}
    assert all(tried.values()), [edit.__name__ for edit, names in tried.items() if not names]


@pytest.mark.parametrize("name", PRIVATE)
def test_consistent_edits_are_caught(name: str) -> None:
    slipped = []
    for edit in CONSISTENT:
        record = _edited(name, edit)
        if record is not None and not caught(record):
            slipped.append(edit.__name__)
    assert not slipped


@pytest.mark.parametrize("name", PRIVATE)
def test_edits_are_caught_though_everything_after_them_was_recomputed(name: str) -> None:
    slipped = []
    for edit in RECOUNTED:
        record = _edited(name, edit)
        if record is None:
            continue
        with contextlib.suppress(Exception):  # what cannot be recounted is left as it is
            record = recounted(record)
        if not caught(record):
            slipped.append(edit.__name__)
    assert not slipped


@pytest.mark.parametrize("name", PRIVATE)
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
            parameters = {"release": "a" * 32, "extends": "b" * 32, "batch": 2}
        assume(changed, Assumption(word, parameters))
        result = outcome(changed)
        if result is not None and result.passed:
            # such an assumption only weakens the promise, and it is listed with all others
            assert word in (
                AssumptionName.PUBLIC_FEATURES,
                AssumptionName.FEATURES_WITHOUT_EDGES,
                AssumptionName.GIVEN_PRIOR,
                AssumptionName.OWN_CODE,
            )
            place = [a["name"] for a in changed["assumptions"]].index(word.value)
            assert f"assumptions.{place}" in result.declared


def test_a_public_sample_is_never_silent() -> None:
    record = document("mlp-dp")
    record["public_parameters"]["public_features"] = "30 rows"
    assert caught(record)
    assume(record, Assumption(AssumptionName.PUBLIC_FEATURES))
    assert not caught(record)
    search = document("search without edges")
    trials(search)[0]["settings"]["public_features"] = "30 rows"
    assert caught(search)


# -- what passes, and must be said --------------------------------------------------------------------------------------


def test_a_mechanism_that_does_not_count_can_be_left_out_and_that_is_declared() -> None:
    record = document("votes-ndp")
    record["mechanisms"] = record["mechanisms"][:-1]
    assume(record, floating_point([Sampler.GAUSSIAN]))
    result = verify(reload(recounted(record)))
    assert result.passed
    assert "mechanisms: complete" in result.declared


def test_the_samplers_must_be_those_of_the_mechanisms() -> None:
    record = document("embeddings, edge")
    for samplers in ([], [Sampler.DISCRETE_LAPLACE], [Sampler.GAUSSIAN, Sampler.OWN]):
        assume(record, floating_point(samplers))
        result = verify(reload(record))
        assert not result.passed
        assert "assumption: floating point" in {check.name for check in result.checks if not check.passed}


def own_certificate() -> Certificate:
    cost = {Group.EVERY_EDGE: (Gaussian(2.0),)}
    own = own_record("my sums", "my theorem", PrivacyUnit.EDGE, cost, details={"noise": 3})
    return certified(ReleasePlan(Budget(4.0, 1e-5, "edge"), (own,), released=("X",), description="a test"))


def test_a_mechanism_of_ones_own_is_declared_as_a_whole() -> None:
    record = json.loads(own_certificate().to_json())
    result = verify(reload(record))
    assert result.passed
    assert {"mechanisms.0.costs", "mechanisms.0.details", "mechanisms.0.theorem"} <= set(result.declared)
    assert any(check.name == "declared: cost of my sums" for check in result.checks)
    for kind, path, changed in edits(record):
        if same(changed, record):
            continue
        found = outcome(changed)
        if found is not None and found.passed:
            assert _is_declared(kind, path, found.declared), (kind, path)
    # a known mechanism that is passed off as one's own is not recomputed any more, and that is said
    laundered = document("embeddings, edge")
    m = laundered["mechanisms"][0]
    m["mechanism"] = Mechanism.OWN.value
    m["details"] = {"unit": "edge", "theorem": m["theorem"], "reads_edges": True}
    forget(laundered, AssumptionName.INITIAL_STATE)
    assume(laundered, floating_point([Sampler.OWN]))
    found = verify(reload(laundered))
    assert found.passed
    assert "mechanisms.0.costs" in found.declared


def test_a_weaker_claim_is_true_and_declared() -> None:
    record = document("embeddings, edge")
    result = verify(reload(edited(record, ("epsilon",), 5.0)))
    assert result.passed
    assert {"epsilon", "delta"} <= set(result.declared)


def test_a_laundered_seed_passes_as_a_declared_assumption() -> None:
    void = json.loads(embeddings().certificate(NoiseSource.seeded(1)).to_json())
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
    nothing["mechanisms"] = [no_release_record(PrivacyUnit.EDGE, "no edge is read").to_dict()]
    assume(nothing, Assumption(AssumptionName.NO_EDGE_READ), floating_point([]))
    forget(nothing, AssumptionName.INITIAL_STATE)
    result = verify(reload(recounted(nothing)))
    assert result.passed
    assert "mechanisms.0.details.why" in result.declared


def test_everything_declared_is_repeated_with_its_words() -> None:
    result = verify(certificates()["caribou-ndp, trained"])
    declared = {check.name: check.detail for check in result.checks if check.declared}
    assert "epsilon = 4" in declared["declared: claim"]
    assert "mean of the training rows" in declared["declared: released"]
    assert "graph_share" in declared["declared: public parameters"]
    assert "python" in declared["declared: number, time and versions"]
    assert declared["assumption: order of pairs"].startswith("Degrees are cut to the cap by a public order")


# -- nothing makes it crash -------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FUZZED = [*EMBEDDINGS[:2], "votes-ndp", "sage-edp", "dpdgc-ndp", *SEARCHES]


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from(FUZZED), data=st.data(), value=JSON)
def test_fuzzed_certificates_fail_cleanly(name: str, data: st.DataObject, value: Any) -> None:
    """Whatever a field is replaced by, the outcome is our error or a verdict, and never a crash."""
    record = document(name)
    path = data.draw(st.sampled_from(list(paths(record))))
    with contextlib.suppress(CertificateError):
        verify(Certificate.from_dict(edited(record, path, value)))


@pytest.mark.parametrize("value", [10**400, -(10**400), 2**53, 1e308, 5e-324, [[]] * 3, {"a": {}}])
def test_extreme_values_fail_cleanly(value: Any) -> None:
    for name in ("embeddings, node", "votes-ndp", "search at node level"):
        record = document(name)
        for path in paths(record):
            if "costs" in path or "details" in path or len(path) == 1:
                with contextlib.suppress(CertificateError):
                    verify(Certificate.from_dict(edited(record, path, value)))


@pytest.mark.parametrize("nodes", ["80", [3], {}, 2.5, True, -1, None, 10**400])
def test_a_number_of_nodes_of_another_kind_fails_cleanly(nodes: Any) -> None:
    """It bounds the degrees of the curve, also where no mechanism fixes it."""
    for name in ("mlp-dp", "votes-ndp"):
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
    with pytest.raises(CertificateError, match="a plan must have a mechanism"):
        ReleasePlan(Budget(1.0), (), released=("x",), description="x")
