"""Certificates of format 1, written by version 0.1.0, and what becomes of them."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from caribou.errors import CertificateError
from caribou.privacy.assumptions import AssumptionName
from caribou.privacy.certificate import Certificate, schema
from caribou.privacy.certificate_migration import FIELDS_1, from_format_1
from caribou.privacy.events import EpsilonDelta, Event, event_from_dict
from caribou.privacy.mechanism_records import Group, Mechanism, groups_of
from caribou.privacy.scope import Scope
from caribou.privacy.verify import verify
from certificate_support import certificates, certificates_of_format_1

FOLDER = certificates_of_format_1()
FILES = sorted(path.stem for path in FOLDER.glob("*.json"))
SEARCHES = ("tune-node",)
READ_EDGES = ("caribou-ndp", "dpdgc-ndp", "embeddings-node", "gap-ndp", "sage-ndp", "votes-ndp")
"""Node-level releases that read edges: their promise ended at a degree cap."""
MIGRATED = [name for name in FILES if name not in (*SEARCHES, *READ_EDGES)]
VERIFIED = [name for name in MIGRATED if not name.endswith("-inf") and name != "embeddings-seeded"]
"""Those that the `verify` of version 0.1.0 passed."""


def stored(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def old_groups(record: dict[str, Any]) -> list[list[Event]]:
    groups = record["public_parameters"].get("groups") or {"all": [e["event"] for e in record["events"]]}
    return [[event_from_dict(event) for event in events] for events in groups.values()]


def test_fixtures_are_small_and_of_every_method() -> None:
    assert all((FOLDER / f"{name}.json").stat().st_size < 8000 for name in FILES)
    assert all(tuple(stored(name)) == FIELDS_1 for name in FILES)
    methods = {"caribou-edp", "votes-edp", "sage-edp", "lapgraph-edp", "gap-edp", "dpdgc-edp", "mlp"}
    methods |= {"caribou-ndp", "votes-ndp", "sage-ndp", "gap-ndp", "dpdgc-ndp", "mlp-dp"}
    methods |= {"caribou-inf", "sage-inf", "gap-inf", "dpdgc-inf"}
    assert methods <= set(FILES)


@pytest.mark.parametrize("name", MIGRATED)
def test_it_verifies_exactly_if_it_did(name: str) -> None:
    made = Certificate.load(FOLDER / f"{name}.json")
    result = verify(made)
    assert result.passed == (name in VERIFIED), [c for c in result.checks if not c.passed]
    again = Certificate.from_dict(json.loads(made.to_json()))
    assert again == made
    assert Draft202012Validator(schema()).is_valid(json.loads(made.to_json()))


@pytest.mark.parametrize("name", MIGRATED)
def test_what_was_stated_is_kept(name: str) -> None:
    old, made = stored(name), Certificate.load(FOLDER / f"{name}.json").to_dict()
    for field in ("certificate_id", "created", "unit", "adjacency", "epsilon", "delta", "epsilon_spent", "mu"):
        assert made[field] == old[field], field
    for field in ("released", "trust_model", "side_channels", "versions"):
        assert made[field] == old[field], field
    assert made["attack_success"].keys() == {"presence", "replacement"}
    assert made["attack_success"]["presence"] == old["attack_success"]["largest_true_positive_rate_at"]
    for fpr, rate in made["attack_success"]["replacement"].items():
        one = made["attack_success"]["presence"][fpr]
        assert rate > one or one in (1.0, float(fpr))  # nothing to find, or nothing paid
    kept = {key: value for key, value in old["public_parameters"].items() if key != "groups"}
    assert {key: made["public_parameters"][key] for key in kept} == kept
    assert made["status"] == old["status"]
    # no edge is read, so every node is promised the same
    curve = {epsilon for _, epsilon in made["epsilon_by_degree"]}
    assert len(curve) == (1 if old["unit"] == "node" else 0)


@pytest.mark.parametrize("name", MIGRATED)
def test_nobody_pays_less(name: str) -> None:
    made = Certificate.load(FOLDER / f"{name}.json")
    new = [sorted(map(_rounded, events)) for events in groups_of(made.mechanisms).values()]
    for events in old_groups(stored(name)):
        assert sorted(map(_rounded, events)) in new


def _rounded(event: Event) -> str:
    numbers = {key: float(f"{value:.9g}") for key, value in vars(event).items()}
    return f"{type(event).__name__} {numbers}"


def test_the_exponential_mechanism_becomes_a_record() -> None:
    for name in ("mlp-dp-choose",):
        made = Certificate.load(FOLDER / f"{name}.json")
        (record,) = [r for r in made.mechanisms if r.mechanism is Mechanism.EXPONENTIAL]
        stated = [event_from_dict(e) for e in stored(name)["public_parameters"]["groups"]["validation nodes"]]
        assert record.costs == {Group.VALIDATION: (stated[-1],)}
        assert isinstance(stated[-1], EpsilonDelta)
        assert record.details["candidates"] is None  # format 1 did not say


def test_scopes_and_assumptions_come_from_the_records() -> None:
    assert {Certificate.load(FOLDER / f"{name}.json").scope for name in MIGRATED} == {Scope()}
    alone = Certificate.load(FOLDER / "mlp-dp.json")
    assert AssumptionName.NO_EDGE_READ in {a.name for a in alone.assumptions}
    files = Certificate.load(FOLDER / "embeddings-files.json")
    assert [a.parameters.get("resumable") for a in files.assumptions][:3] == [True, None, True]
    assert files.mechanisms[0].details["arithmetic"]["storage"] == "single"
    seeded = Certificate.load(FOLDER / "embeddings-seeded.json")
    assert (seeded.status, seeded.assumptions[0].parameters["origin"]) == ("void", "a fixed seed")


@pytest.mark.parametrize("name", READ_EDGES)
def test_a_promise_that_ended_at_a_degree_cap_is_not_carried_over(name: str) -> None:
    sentence = "at node level its promise ended at a degree cap, which graphs exceed; make the release again"
    with pytest.raises(CertificateError, match=f"certificate of format 1 cannot be migrated: {sentence}"):
        Certificate.load(FOLDER / f"{name}.json")
    # neither is one that says it was of edge level
    with pytest.raises(CertificateError):
        from_format_1({**stored(name), "unit": "edge"})


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_cannot_be_migrated(name: str) -> None:
    with pytest.raises(CertificateError, match="does not hold its trials, so its cost cannot be recomputed"):
        Certificate.load(FOLDER / f"{name}.json")


Edit = Callable[[dict[str, Any]], None]


def _lower(*path: Any, by: float = 2.0) -> Edit:
    def edit(record: dict[str, Any]) -> None:
        target: Any = record
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = target[path[-1]] / by

    return edit


def _put(*path: Any, value: Any) -> Edit:
    def edit(record: dict[str, Any]) -> None:
        target: Any = record
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value

    return edit


def _remove(*path: Any) -> Edit:
    def edit(record: dict[str, Any]) -> None:
        target: Any = record
        for key in path[:-1]:
            target = target[key]
        del target[path[-1]]

    return edit


DETAILS = ("events", 0, "details")


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("embeddings-edge", _lower("epsilon_spent")),
        ("embeddings-edge", _lower("mu")),
        ("embeddings-edge", _lower(*DETAILS, "sensitivity", "value")),
        ("embeddings-edge", _lower(*DETAILS, "kappa")),
        ("embeddings-edge", _lower(*DETAILS, "mu")),
        ("embeddings-edge", _lower(*DETAILS, "noise_std")),
        ("embeddings-edge", _lower(*DETAILS, "noise_multiplier")),
        ("embeddings-edge", _lower(*DETAILS, "arithmetic", "error")),
        ("embeddings-edge", _lower("events", 0, "event", "noise_multiplier", by=0.5)),
        ("embeddings-edge", _remove(*DETAILS, "kappa")),
        ("embeddings-edge", _remove(*DETAILS, "sensitivity", "value")),
        ("embeddings-edge", _put(*DETAILS, "note", value=1)),
        ("embeddings-edge", _put("public_parameters", "hops", value=1)),
        ("embeddings-edge", _remove("public_parameters", "nodes")),
        ("embeddings-edge", _remove("assumptions", 0)),
        ("embeddings-edge", _remove("assumptions", 5)),
        ("embeddings-edge", _put("assumptions", 1, "statement", value="All is exact.")),
        ("embeddings-edge", _put("assumptions", 1, "holds", value=False)),
        ("embeddings-edge", _put("assumptions", 0, "holds", value="true")),
        ("embeddings-edge", _put("events", 0, "name", value="something else")),
        ("embeddings-edge", _put("events", value=[])),
        ("embeddings-edge", _put("unit", value="node")),
        ("embeddings-edge", _put("status", value="safe")),
        ("embeddings-edge", _put("scope", value="all")),
        ("embeddings-edge", _put("trust_model", value="none")),
        ("embeddings-edge", _put("note", value=1)),
        ("votes-edp", _lower("events", 0, "event", "epsilon")),
        ("sage-edp", _lower("events", 1, "event", "epsilon")),
        ("sage-edp", _put("events", 1, "details", "keep_one", value=1.0)),
        ("mlp-dp", _put("events", 1, "event", "count", value=1)),
        ("mlp-dp", _put("events", 1, "details", "steps", value=1)),
        ("mlp-dp", _put("events", 0, "details", "theorem", value="")),
        ("mlp-dp", _put("public_parameters", "groups", "friends", value=[])),
        ("mlp-dp-choose", _remove("public_parameters", "groups")),
        ("mlp-dp-choose", _remove("public_parameters", "groups", "validation nodes")),
        ("mlp-dp-choose", _lower("public_parameters", "groups", "validation nodes", 0, "epsilon")),
        ("mlp-dp", _put("scope", value="graphs whose degrees are all at most the degree cap")),
        ("mlp-dp", _put("status", value="private in scope")),
        ("mlp-dp", _lower("attack_success", "largest_true_positive_rate_at", "0.01")),
        ("mlp", _put("events", 0, "event", "epsilon", value=0.5)),
        ("sage-inf", _put("events", 0, "event", value={"kind": "gaussian", "noise_multiplier": 9.0, "count": 1})),
        ("mlp", _put("assumptions", value=3)),
        ("mlp", _put("events", value=[3])),
        ("mlp", _put("public_parameters", value=None)),
    ],
)
def test_an_edited_certificate_of_format_1_does_not_verify(name: str, edit: Edit) -> None:
    record = stored(name)
    before = copy.deepcopy(record)
    edit(record)
    assert record != before
    try:
        made = Certificate.from_dict(record)
    except CertificateError:
        return
    assert not verify(made).passed


def test_only_format_1_is_migrated() -> None:
    with pytest.raises(CertificateError, match="fields must be those of format 1"):
        from_format_1(json.loads(certificates()["embeddings, edge"].to_json()))
    with pytest.raises(CertificateError, match="format 1 cannot be migrated"):
        Certificate.from_dict({"format": 1, "events": []})
    assert math.isinf(Certificate.load(FOLDER / "caribou-inf.json").epsilon)
