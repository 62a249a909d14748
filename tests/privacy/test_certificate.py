"""Certificates: round trip, verification, and every kind of tampering."""

from __future__ import annotations

import contextlib
import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from caribou.errors import CertificateError
from caribou.privacy.arithmetic import double_precision
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu, calibrate_propagation
from caribou.privacy.certificate import (
    FIELDS,
    Certificate,
    MechanismRecord,
    certify,
    initial_state_assumption,
    propagation_record,
    standing_assumptions,
    verify,
)
from caribou.privacy.events import EpsilonDelta, Gaussian, Laplace, NonPrivate, SubsampledGaussian
from caribou.privacy.sensitivity import Bounds, layer_sensitivity


def make(epsilon: float = 4.0, unit: str = "edge", secret: bool = True) -> Certificate:
    budget = Budget(epsilon, 1e-5, unit)
    bounds = Bounds(degree_floor=10, degree_cap=10 if unit == "node" else None, nodes=100)
    sensitivity = layer_sensitivity(unit, contraction=0.8, alpha1=0.9, beta=0.5, bounds=bounds)
    arithmetic = double_precision(nodes=100, columns=5, residual=0.5)
    calibrated = calibrate_propagation(sensitivity, hops=8, mu=budget_mu(budget), arithmetic=arithmetic)
    return certify(
        budget,
        [propagation_record(calibrated)],
        released=["the last state"],
        public_parameters={
            "nodes": 100,
            "columns": 5,
            "hops": 8,
            "contraction": 0.8,
            "alpha1": 0.9,
            "beta": 0.5,
            "degree_floor": 10,
            "degree_cap": bounds.degree_cap,
        },
        assumptions=[
            *standing_assumptions(budget.unit, noise_is_secret=secret, noise_origin="a test"),
            initial_state_assumption(budget.unit),
        ],
    )


@pytest.mark.parametrize("unit", ["edge", "node"])
def test_round_trip_and_verification(unit: str, tmp_path: Path) -> None:
    certificate = make(unit=unit)
    certificate.save(tmp_path / "c.json")
    again = Certificate.load(tmp_path / "c.json")
    assert again == certificate
    result = verify(again)
    assert result.passed, [c for c in result.checks if not c.passed]
    assert result.epsilon_pld == pytest.approx(4.0, abs=2e-3)
    assert result.epsilon_rdp is not None
    assert result.epsilon_rdp > 4.0
    assert list(tmp_path.iterdir()) == [tmp_path / "c.json"]


def test_what_the_certificate_says() -> None:
    record = make().to_dict()
    for field in ("unit", "adjacency", "epsilon", "delta", "mu", "released", "events", "assumptions", "versions"):
        assert record[field], field
    assert record["attack_success"]["largest_true_positive_rate_at"].keys() == {"0.001", "0.01"}
    names = {a["name"] for a in record["assumptions"]}
    assert names >= {"randomness", "floating point", "hidden states", "hyper-parameters"}
    assert "truncation" in {a["name"] for a in make(unit="node").to_dict()["assumptions"]}
    text = make().to_markdown()
    for words in (
        "Privacy unit | edge",
        "epsilon = 4",
        "Neighbouring graphs",
        "kappa",
        "Trust model",
        "false alarms a test finds at most",
    ):
        assert words in text
    json.loads(make().to_json())


def _set(path: tuple[Any, ...], value: Any) -> Any:
    def change(record: dict[str, Any]) -> None:
        target: Any = record
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value

    return change


DETAILS = ("events", 0, "details")


@pytest.mark.parametrize(
    "change",
    [
        _set(("epsilon",), 3.9),
        _set(("epsilon_spent",), 3.5),
        _set(("epsilon_spent",), 4.5),
        _set(("delta",), 1e-6),
        _set(("mu",), 0.5),
        _set(("events", 0, "event", "noise_multiplier"), 2.0),
        _set(("events", 0, "event", "noise_multiplier"), 0.9),
        _set(("events", 0, "event", "count"), 2),
        _set((*DETAILS, "noise_std"), 0.01),
        _set((*DETAILS, "hops"), 80),
        _set((*DETAILS, "kappa"), 1.0),
        _set((*DETAILS, "mu"), 1e-9),
        _set((*DETAILS, "noise_multiplier"), 1e9),
        _set((*DETAILS, "noise_std"), "5"),
        _set((*DETAILS, "sensitivity", "value"), 0.01),
        _set((*DETAILS, "sensitivity", "contraction"), 0.99),
        _set((*DETAILS, "sensitivity", "parameters", "alpha1"), 1.0),
        _set((*DETAILS, "sensitivity", "bounds", "degree_floor"), 3),
        _set((*DETAILS, "sensitivity", "unit"), "node"),
        _set(("unit",), "node"),
        _set(("assumptions", 0, "holds"), False),
        _set(("assumptions", 0, "holds"), "true"),
        _set(("assumptions",), []),
        lambda record: record["assumptions"].pop(1),
        _set(("status",), "private!"),
        lambda record: record["assumptions"].pop(),
        _set(("events",), []),
        _set(("attack_success", "largest_true_positive_rate_at", "0.01"), 0.01),
        _set(("attack_success", "largest_true_positive_rate_at"), {}),
        _set((*DETAILS, "arithmetic", "error"), -1.0),
        _set((*DETAILS, "arithmetic", "error"), 0.0),
        _set((*DETAILS, "arithmetic", "nodes"), 10),
        _set((*DETAILS, "arithmetic"), {}),
        _set(DETAILS, {}),
        _set(("events", 0, "name"), "something else"),
        _set(("public_parameters", "hops"), 2),
        _set(("public_parameters",), {}),
        _set((*DETAILS, "sensitivity"), "small"),
    ],
)
def test_every_tampering_fails(change: Any) -> None:
    record = make().to_dict()
    before = copy.deepcopy(record)
    change(record)
    assert record != before
    try:
        certificate = Certificate.from_dict(record)
    except CertificateError:
        return
    assert not verify(certificate).passed


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            '{"a": 1}',
            "not a certificate of CARIBOU: it has no format, certificate_id, created, status, scope and 14 more",
        ),
        (
            '{"format": 1, "epsilon": 4}',
            "not a certificate of CARIBOU: it has no certificate_id, created, .* and 12 more",
        ),
        ("[1, 2]", "not a certificate of CARIBOU: must be a JSON object, got list"),
        ("3.5", "not a certificate of CARIBOU: must be a JSON object, got float"),
    ],
)
def test_other_json_is_said_to_be_no_certificate(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(CertificateError, match=rf"other\.json: {why}"):
        Certificate.load(path)


def test_a_field_that_is_missing_and_another_format_are_named() -> None:
    record = make().to_dict()
    assert tuple(record) == FIELDS
    for name in record:
        with pytest.raises(CertificateError, match=f"it has no {name}$"):
            Certificate.from_dict({key: value for key, value in record.items() if key != name})
    with pytest.raises(CertificateError, match=r"format must be 1, .* got 2"):
        Certificate.from_dict({**record, "format": 2})


def test_words_cannot_be_changed_either(tmp_path: Path) -> None:
    for name, value in (
        ("adjacency", "one person"),
        ("scope", "all"),
        ("status", "safe"),
        ("trust_model", "none"),
        ("note", 1),
    ):
        with pytest.raises(CertificateError, match=name):
            Certificate.from_dict({**make(unit="node").to_dict(), name: value})
    path = tmp_path / "c.json"
    make().save(path)
    text = path.read_text()
    path.write_text(text.replace('"epsilon": 4.0', '"epsilon": 0.1, "epsilon": 4.0'))
    with pytest.raises(CertificateError, match="twice"):
        Certificate.load(path)
    path.write_text(text.replace('"epsilon": 4.0', '"epsilon": NaN'))
    with pytest.raises(CertificateError, match="finite"):
        Certificate.load(path)
    make().save(tmp_path / "c.md")
    with pytest.raises(CertificateError, match=r"give the \.json"):
        Certificate.load(tmp_path / "c.md")


def test_node_level_says_its_scope() -> None:
    node = make(unit="node")
    assert "degrees are all at most the degree cap" in node.to_markdown()
    assert node.status == "private in scope"
    assert (make().scope, make().status) == ("every graph", "private")


def test_void_and_non_private_certificates_fail() -> None:
    void = make(secret=False)
    assert void.status == "void"
    assert not verify(void).passed
    budget = Budget(math.inf)
    free = certify(
        budget,
        [MechanismRecord("plain", NonPrivate())],
        released=["everything"],
        public_parameters={},
        assumptions=standing_assumptions(budget.unit, noise_is_secret=True, noise_origin="a test"),
    )
    assert free.status == "no privacy"
    again = Certificate.from_dict(json.loads(free.to_json()))
    assert math.isinf(again.epsilon)
    assert not verify(again).passed


def test_certify_refuses_an_overspent_claim() -> None:
    with pytest.raises(CertificateError, match="epsilon_spent must be <= epsilon"):
        certify(
            Budget(1.0, 1e-5),
            [MechanismRecord("too little noise", Gaussian(3.0))],
            released=[],
            public_parameters={},
            assumptions=(),
        )


@pytest.mark.parametrize(
    "events",
    [
        [SubsampledGaussian(1.5, 0.05, 100), Gaussian(4.0), SubsampledGaussian(2.0, 0.05, 50)],
        [Laplace(1.0)],
        [EpsilonDelta(0.5, 1e-7), Gaussian(3.0)],
    ],
)
def test_other_events_verify_too(events: list) -> None:
    budget = Budget(8.0, 1e-5, "edge")
    certificate = certify(
        budget,
        [MechanismRecord(f"part {i}", e, {"theorem": "a test"}) for i, e in enumerate(events)],
        released=["a model"],
        public_parameters={},
        assumptions=standing_assumptions(budget.unit, noise_is_secret=True, noise_origin="a test"),
    )
    assert certificate.mu is None
    result = verify(Certificate.from_dict(json.loads(certificate.to_json())))
    assert result.passed, [c for c in result.checks if not c.passed]


def test_unreadable_files(tmp_path: Path) -> None:
    for content in (
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"format": 1}',
        b'{"format": 99}',
        b"null",
        b'{"format": 1, "unit": 3}',
    ):
        path = tmp_path / "bad.json"
        path.write_bytes(content)
        with pytest.raises(CertificateError):
            Certificate.load(path)
    with pytest.raises(CertificateError, match="cannot be read"):
        Certificate.load(tmp_path / "missing.json")
    with pytest.raises(CertificateError, match="cannot be read"):
        Certificate.load(tmp_path)
    with pytest.raises(CertificateError, match="folder that exists"):
        make().save(tmp_path / "no" / "folder.json")
    with pytest.raises(CertificateError, match=r"\.json or \.md"):
        make().save(tmp_path / "c.pdf")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
TEMPLATE = make().to_dict()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), value=JSON)
def test_fuzzed_certificates_fail_cleanly(data: st.DataObject, value: Any) -> None:
    """Whatever a field is replaced by, the outcome is our error or a verdict, and never a crash."""
    record = copy.deepcopy(TEMPLATE)
    target: Any = record
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(target[key], dict | list) and target[key] and data.draw(st.booleans()):
            target = target[key]
            continue
        target[key] = value
        break
    with contextlib.suppress(CertificateError):
        verify(Certificate.from_dict(record))
