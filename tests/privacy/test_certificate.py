"""Certificates as documents: round trip, words, files, and the schema that is shipped with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import caribou as cb
from caribou.errors import CertificateError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.assumptions import AssumptionName
from caribou.privacy.certificate import Certificate, schema
from caribou.privacy.events import EpsilonDelta, Gaussian, Laplace, NonPrivate, Parallel
from caribou.privacy.events import event_to_dict as as_json
from caribou.privacy.mechanism_records import Mechanism
from caribou.privacy.pair_response import asymmetric_response
from caribou.privacy.scope import Scope, ScopeKind
from caribou.privacy.verify import verify
from certificate_support import (
    EDGES,
    SIZES,
    certificates,
    certified,
    declared,
    edited,
    embeddings,
    plan_of,
)


def make(unit: str = "edge") -> Certificate:
    return certified(embeddings(unit))


@pytest.mark.parametrize("unit", ["edge", "node"])
def test_a_file_is_the_certificate(unit: str, tmp_path: Path) -> None:
    certificate = make(unit)
    certificate.save(tmp_path / "c.json")
    assert Certificate.load(tmp_path / "c.json") == certificate
    assert list(tmp_path.iterdir()) == [tmp_path / "c.json"]
    result = verify(certificate)
    assert result.epsilon_rdp is not None
    assert result.epsilon_rdp > 4.0


def test_what_the_certificate_says() -> None:
    text = make().to_markdown()
    for words in (
        "Privacy unit | edge",
        "epsilon = 4",
        "Neighbouring graphs",
        "kappa",
        "Trust model",
        "Attack: is this edge there? | at most",
        "Attack: is it this one or that one? | at most",
        "right at 0.1% false alarms",
    ):
        assert words in text


def test_who_pays_is_for_people_too() -> None:
    text = certificates()["votes-ndp"].to_markdown()
    assert "## Who pays" in text
    assert "| validation nodes | 7.89" in text
    assert "| test nodes and the rest | 8 |" in text
    assert "training nodes: Gaussian mechanism of multiplier" in text
    assert "2 records, see the JSON" in certificates()["search, random"].to_markdown()


# -- what is not a certificate ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"a": 1}', "not a certificate of CARIBOU: it has no format"),
        (b'{"format": 3, "epsilon": 4}', "certificate is malformed: certificate must have adjacency, .* got"),
        (b'{"format": 1, "epsilon": 4}', "format must be 3"),
        (b"[1, 2]", "not a certificate of CARIBOU: must be a JSON object, got list"),
        (b"null", "not a certificate"),
        (b"{", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_other_files_are_said_to_be_no_certificate(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(CertificateError, match=rf"other\.json.*{why}"):
        Certificate.load(path)


def test_places_that_hold_no_certificate(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(CertificateError, match="cannot be read"):
            Certificate.load(path)
    with pytest.raises(CertificateError, match="folder that exists"):
        make().save(tmp_path / "no" / "folder.json")
    with pytest.raises(CertificateError, match=r"\.json or \.md"):
        make().save(tmp_path / "c.pdf")


def test_a_field_that_is_missing_and_another_format_are_named() -> None:
    record = make().to_dict()
    for name in record:
        with pytest.raises(CertificateError, match=r"it has no format|certificate must have"):
            Certificate.from_dict({key: value for key, value in record.items() if key != name})
    for other in (4, 2, 2.5, "3", True, None):
        with pytest.raises(CertificateError, match=r"format must be 3, .* got"):
            Certificate.from_dict({**record, "format": other})


def test_a_number_stands_once_and_is_finite(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    make().save(path)
    text = path.read_text()
    path.write_text(text.replace('"epsilon": 4.0', '"epsilon": 0.1, "epsilon": 4.0'))
    with pytest.raises(CertificateError, match="twice"):
        Certificate.load(path)
    for number in ("NaN", "Infinity", "1e400"):
        path.write_text(text.replace('"epsilon": 4.0', f'"epsilon": {number}'))
        with pytest.raises(CertificateError, match="finite"):
            Certificate.load(path)
    path.write_text(text.replace('"epsilon": 4.0', f'"epsilon": {"9" * 5000}'))
    with pytest.raises(CertificateError, match="cannot be read"):
        Certificate.load(path)
    make().save(tmp_path / "c.md")
    with pytest.raises(CertificateError, match=r"give the \.json"):
        Certificate.load(tmp_path / "c.md")


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("certificate_id", "A" * 32, "32 hexadecimal digits"),
        ("created", "2026-02-30T00:00:00Z", "must be a time"),
        ("released", ["X", "X"], "once"),
        ("released", [""], "have an entry"),
        ("released", ["X\n# Privacy certificate"], "one line of printable letters"),
        ("released", ["\x1b[32mverified"], "one line of printable letters"),
        ("released", ["X \u202e etavirp"], "one line of printable letters"),
        ("mechanisms", [], "must hold a mechanism"),
        ("versions", {"python": "3"}, "must name caribou-gnn"),
        ("groups", {"": 1.0}, "must name its fields by words"),
        ("epsilon", True, "be of type number"),
        ("epsilon_by_degree", [[-1, 1.0]], "epsilon_by_degree"),
        ("adjacency", "one person", "adjacency"),
        ("status", "safe", "status"),
        ("trust_model", "none", "trust_model"),
        ("side_channels", [], "side_channels"),
        ("note", 1, "note"),
    ],
)
def test_malformed_fields_are_named(field: str, value: Any, why: str) -> None:
    with pytest.raises(CertificateError, match=why):
        Certificate.from_dict({**make().to_dict(), field: value})


def test_values_are_plain_and_shallow() -> None:
    record = make().to_dict()
    with pytest.raises(CertificateError, match="must hold JSON values, got set"):
        Certificate.from_dict(edited(record, ("public_parameters", "beta"), {1}))
    with pytest.raises(CertificateError, match="name its fields by words"):
        Certificate.from_dict(edited(record, ("public_parameters", "beta"), {1: 2}))


def test_assumptions_stand_once_and_in_order() -> None:
    record = make().to_dict()
    for changed in (record["assumptions"][::-1], [*record["assumptions"], record["assumptions"][-1]]):
        with pytest.raises(CertificateError, match="every assumption once, in the order"):
            Certificate.from_dict({**record, "assumptions": changed})


# -- status -------------------------------------------------------------------------------------------------------------


def test_node_level_says_its_scope() -> None:
    node = make("node")
    text = node.to_markdown()
    assert "The headline is for every graph, and in it every node of degree at most 10" in text
    assert "## What a node of each degree is promised, in every graph" in text
    assert all(f"| {degree} | {epsilon:.6g} |" in text for degree, epsilon in node.epsilon_by_degree)
    assert "Attack: is it this one or that one?" in text
    assert node.status == "private by degree"
    assert node.scope == Scope(ScopeKind.NODES_UP_TO_DEGREE, 10)
    assert (make().scope, make().status) == (Scope(), "private")
    assert "promised, in every graph" not in make().to_markdown()


def test_the_four_statuses() -> None:
    void = embeddings().certificate(NoiseSource.seeded(3))
    found = [make().status, make("node").status, void.status, certificates()["caribou-inf"].status]
    assert found == ["private", "private by degree", "void", "no privacy"]
    assert schema()["properties"]["status"]["enum"] == found
    assert "**VOID as a guarantee.**" in void.to_markdown()
    assert "**NO PRIVACY" in certificates()["caribou-inf"].to_markdown()
    assert not void.is_private or void.void_reasons


def test_a_cap_that_cuts_nothing_needs_no_scope() -> None:
    made = certificates()["embeddings, nothing cut"]
    assert made.status == "private"
    assert AssumptionName.ORDER_OF_PAIRS not in {a.name for a in made.assumptions}


# -- details that exist only after a draw ---------------------------------------------------------------------------------


def test_details_are_filled_once_and_change_no_cost() -> None:
    made = declared(plan_of("sage-edp", {"count_share": 0.1}, 8.0)).certificate(NoiseSource.secure())
    pairs = made.mechanisms[1].details["epsilon"]
    drawn = asymmetric_response(epsilon=pairs, edges=EDGES, nodes=SIZES.nodes).to_dict()
    filled = made.with_details(Mechanism.RANDOMIZED_RESPONSE, released_edge_count=EDGES, **drawn)
    assert (filled.cost, filled.scope, filled.epsilon_spent) == (made.cost, made.scope, made.epsilon_spent)
    assert filled.certificate_id == made.certificate_id
    assert filled.mechanisms[0] == made.mechanisms[0]
    assert verify(filled).passed
    with pytest.raises(CertificateError, match="must be open"):
        filled.with_details(Mechanism.RANDOMIZED_RESPONSE, released_edge_count=EDGES, **drawn)
    with pytest.raises(CertificateError, match=r"must be open in .*, got epsilon"):
        made.with_details(Mechanism.RANDOMIZED_RESPONSE, epsilon=0.1)
    with pytest.raises(CertificateError, match=r"must be open in .*, got note"):
        made.with_details(Mechanism.RANDOMIZED_RESPONSE, note=1)
    with pytest.raises(CertificateError, match="must be one of the certificate"):
        made.with_details(Mechanism.NODE_VOTES, noise_std=1.0)
    truth = {"keep_one": 1.0, "make_one": 0.0, "epsilon_of_answers": 0.0}
    with pytest.raises(CertificateError, match="must keep epsilon"):
        made.with_details(Mechanism.RANDOMIZED_RESPONSE, released_edge_count=EDGES, **truth)


# -- the schema ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    Draft202012Validator.check_schema(schema())
    return Draft202012Validator(schema())


def test_the_schema_has_every_kind_of_event(validator: Draft202012Validator) -> None:
    events = [Gaussian(2.0), Laplace(1.0, 2), EpsilonDelta(1.0), NonPrivate()]
    record = json.loads(make().to_json())
    for event in [*events, Parallel(((Gaussian(2.0),), (Laplace(1.0), EpsilonDelta(1.0))))]:
        stated = json.loads(json.dumps(as_json(event)))
        path = ("mechanisms", 0, "costs", "every edge", 0)
        assert validator.is_valid(edited(record, path, stated))
        assert not validator.is_valid(edited(record, path, {**stated, "note": 1}))


def test_the_schema_is_strict(validator: Draft202012Validator) -> None:
    """In every part; what a schema refuses for each kind of value is tested with the documents."""
    record = json.loads(make().to_json())
    assert validator.is_valid(record)
    for path, value in (
        (("format",), 1),
        (("status",), "safe"),
        (("note",), 1),
        (("scope", "kind"), "some graphs"),
        (("delta",), 1),
        (("mechanisms", 0, "mechanism"), "noisy mean"),
        (("mechanisms", 0, "details", "hops"), 0.5),
        (("mechanisms", 0, "details", "sensitivity", "bounds", "declared_degree"), 0),
        (("mechanisms", 0, "costs", "every edge", 0, "kind"), "cauchy"),
        (("assumptions", 0, "holds"), "true"),
        (("attack_success", "replacement", "0.01"), 1.5),
        (("epsilon_by_degree",), [[1, -2.0]]),
        (("released",), []),
    ):
        assert not validator.is_valid(edited(record, path, value)), path


def test_words_of_the_owner_are_shown_as_words_and_decide_nothing() -> None:
    from caribou.privacy.verify import verify

    graph, layer = cb.datasets.load("chain-s"), cb.ContractiveGraphLayer(0.8)
    made = cb.release(graph, layer, hops=1, budget=cb.Budget(2), bounds=cb.Bounds(degree_floor=2)).certificate
    assert "- data set: chain-s\n" in made.to_markdown()
    record = made.to_dict()
    checks = [(check.name, check.passed) for check in verify(made).checks]
    for words in ("fraud | Guarantee | epsilon = 0 |", "# Void", "[a](b)"):
        told = {**record, "public_parameters": {**record["public_parameters"], "dataset": words, "purpose": words}}
        other = Certificate.from_dict(told)
        assert [(check.name, check.passed) for check in verify(other).checks if "declared" not in check.name] == [
            check for check in checks if "declared" not in check[0]
        ]
        page = other.to_markdown()
        assert page.count("| Guarantee |") == 1
        assert f": {words}" not in page, "signs of Markdown are escaped"
    odd = cb.release(
        graph.renamed("two\nlines"), layer, hops=1, budget=cb.Budget(2), bounds=cb.Bounds(degree_floor=2)
    ).certificate
    assert "dataset" not in odd.public_parameters, "words that no certificate can hold are left out"
    assert Certificate.from_json(odd.to_json()) == odd
