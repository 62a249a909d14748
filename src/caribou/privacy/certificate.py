"""The certificate: what was released, what it cost, and under which assumptions that is true.

Structured after NIST SP 800-226 (unit, neighbouring relation, parameters, what is released, trust model, side channels,
assumptions). It holds public values only: no count of the private graph, no hash of it (anybody could test guesses against an
unkeyed hash), no key and no seed. Everything needed to recompute epsilon is inside, so `caribou.privacy.verify` needs nothing
else. `caribou.privacy.plan` makes certificates; here is the record and its JSON (`schema`).
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn

from caribou.errors import CaribouError, CertificateError
from caribou.machine.files import atomic_write
from caribou.machine.notebook import html_table
from caribou.privacy.assumptions import SIDE_CHANNELS, TRUST_MODEL, Assumption, in_order
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.documents import (
    Cost,
    Delta,
    Epsilon,
    Listed,
    Natural,
    Probability,
    Rule,
    Words,
    derived_fields,
    read_dataclass,
    schema_of,
    schema_of_fields,
    stated_fields,
    write_dataclass,
)
from caribou.privacy.events import Event
from caribou.privacy.mechanism_records import Mechanism, MechanismRecord, composed
from caribou.privacy.scope import Scope

FORMAT = 3
FALSE_POSITIVE_RATES = (0.001, 0.01)
TIME = "%Y-%m-%dT%H:%M:%SZ"
"""How a certificate writes when it was made (UTC)."""
WORDS = {"dataset": "data set", "purpose": "purpose", "period": "period of the data"}
"""Public parameters that are words of the owner, with their titles for people. They decide nothing."""
NO_PRIVACY = "NO PRIVACY: epsilon is infinite; this document certifies nothing"


class ReleaseKind(Enum):
    """What was released. It decides how a verifier plans the release again."""

    FIT = "fit"
    PREDICTION = "prediction"
    BATCH = "batch"
    SEARCH = "search"
    EMBEDDINGS = "embeddings"
    METRICS = "published metrics"
    OWN = "own release"


def _hexadecimal(**field: str) -> None:
    ((name, value),) = field.items()
    if not re.fullmatch("[0-9a-f]{32}", value):
        raise CertificateError.of(name, "be 32 hexadecimal digits", value)


def _time(**field: str) -> None:
    ((name, value),) = field.items()
    try:
        exact = datetime.strptime(value, TIME).strftime(TIME) == value
    except ValueError:
        exact = False
    if not exact:
        raise CertificateError.of(name, "be a time like 2026-01-31T12:00:00Z", value)


@dataclass(frozen=True)
class Certificate:
    """A published claim of privacy. `ReleasePlan.certificate` makes it, `save` stores it, `verify` checks it.

    Args:
        kind: what was released.
        unit, epsilon, delta: what is promised.
        epsilon_spent, mu: what the mechanisms cost together; mu where the cost is exactly mu-GDP.
        scope: for which nodes the headline holds.
        released: what leaves the curator, in words.
        mechanisms: the records of what was run, with events and figures.
        groups: what each group of units pays, as epsilon.
        public_parameters: declared values.
        assumptions: what the promise rests on, by name.
        attack_success: the largest true positive rates of any test, by question and false positive rate.
        epsilon_by_degree: what a node of each degree is promised, in every graph; empty at edge level.
        versions, created, certificate_id: of the software; when; which.

    docs/certificates.md describes every field.

    >>> import caribou as cb
    >>> graph, layer = cb.datasets.load("chain-s"), cb.ContractiveGraphLayer(0.8)
    >>> made = cb.release(graph, layer, hops=4, budget=cb.Budget(2), bounds=cb.Bounds(degree_floor=2)).certificate
    >>> made.status, Certificate.from_json(made.to_json()) == made
    ('private', True)
    """

    derived: ClassVar[tuple[str, ...]] = ("status", "adjacency", "trust_model", "side_channels")

    certificate_id: Annotated[str, Rule(_hexadecimal, {"type": "string", "pattern": "^[0-9a-f]{32}$"})]
    created: Annotated[str, Rule(_time, {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$"})]
    kind: ReleaseKind
    unit: PrivacyUnit
    scope: Scope
    epsilon: Epsilon
    delta: Delta
    epsilon_spent: Cost
    epsilon_by_degree: tuple[tuple[Natural, Cost], ...]
    mu: Cost | None
    released: Listed
    mechanisms: tuple[MechanismRecord, ...]
    groups: Mapping[Words, Cost]
    public_parameters: Mapping[str, Any]
    assumptions: tuple[Assumption, ...]
    attack_success: Mapping[Words, Mapping[Words, Probability]]
    versions: Mapping[Words, Words]

    @property
    def cost(self) -> tuple[Event, ...]:
        """What to compose with other releases: the events, or all groups of nodes side by side where there are several."""
        return composed(self.mechanisms)

    @property
    def is_private(self) -> bool:
        """False for epsilon = inf."""
        return math.isfinite(self.epsilon)

    @property
    def void_reasons(self) -> tuple[str, ...]:
        """The assumptions that do not hold; a certificate with any is void as a guarantee."""
        return tuple(a.statement for a in self.assumptions if not a.holds)

    @property
    def status(self) -> Words:
        """``private``, ``private by degree`` (the headline up to a declared degree, see `scope`), ``void`` or ``no privacy``."""
        if not self.is_private:
            return "no privacy"
        if self.void_reasons:
            return "void"
        return "private" if self.scope.is_every_graph else "private by degree"

    @property
    def adjacency(self) -> Words:
        """The neighbouring relation."""
        return self.unit.adjacency

    @property
    def trust_model(self) -> Words:
        """Who is trusted."""
        return TRUST_MODEL

    @property
    def side_channels(self) -> Listed:
        """What is not protected."""
        return SIDE_CHANNELS

    @property
    def is_guarantee(self) -> bool:
        """Whether it promises anything: false without privacy and for a void one."""
        return self.is_private and not self.void_reasons

    def with_details(self, mechanism: Mechanism, **values: Any) -> Certificate:
        """The certificate with figures that exist only after a draw. Events, scope and epsilon cannot change.

        A figure must be one that the mechanism left open (None): what the plan fixed stays.
        """
        if not any(record.mechanism is mechanism for record in self.mechanisms):
            raise CertificateError(f"mechanism must be one of the certificate, got {mechanism.value!r}")

        def filled(record: MechanismRecord) -> MechanismRecord:
            if record.mechanism is not mechanism:
                return record
            made = record.filled(values)
            if made.costs != record.costs:
                raise CertificateError(f"details must not change what {record.name!r} costs, got {values!r}")
            return made

        return replace(self, mechanisms=tuple(map(filled, self.mechanisms)))

    # -- JSON ----------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; infinite numbers as the word "inf"."""
        return {"format": FORMAT, **write_dataclass(self)}

    def to_json(self) -> str:
        """The certificate as an indented JSON document."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write JSON (``.json``) or Markdown (``.md``), whole or not at all."""
        target = Path(path)
        if target.suffix not in (".json", ".md"):
            raise CertificateError(f"certificate must be saved as .json or .md, got {str(target)!r}")
        if not target.parent.is_dir() or target.is_dir():
            raise CertificateError(f"certificate must be a file in a folder that exists, got {str(target)!r}")
        try:
            atomic_write(target, self.to_markdown() if target.suffix == ".md" else self.to_json())
        except OSError as error:
            raise CertificateError(f"certificate cannot be written to {target}: {error}") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a JSON certificate; anything missing, unknown or of the wrong type is an error naming the field."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise CertificateError(f"certificate {path} cannot be read: {error.strerror}") from error
        return cls.from_json(data, source=str(path))

    @classmethod
    def from_json(cls, data: bytes | str, *, source: str = "certificate") -> Certificate:
        """The inverse of `to_json`. ``source``: where the document came from, for errors."""
        try:
            text = data if isinstance(data, str) else data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CertificateError(f"certificate {source} cannot be read: {error}") from error
        try:
            record = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constants)
        except (
            ValueError,
            RecursionError,
        ) as error:  # ValueError: not JSON, or a number of more digits than Python reads
            hint = " (this is the Markdown; give the .json)" if text.startswith("# Privacy certificate") else ""
            raise CertificateError(f"certificate {source} cannot be read: not JSON{hint}: {error}") from error
        try:
            return cls.from_dict(record)
        except CertificateError as error:
            raise CertificateError(f"{source}: {error}") from error

    @classmethod
    def from_dict(cls, record: Any) -> Certificate:
        """The inverse of `to_dict`."""
        if not isinstance(record, dict):
            raise CertificateError(f"not a certificate of CARIBOU: must be a JSON object, got {type(record).__name__}")
        _require_plain(record)
        if "format" not in record:
            raise CertificateError("not a certificate of CARIBOU: it has no format")
        if record["format"] != FORMAT or not isinstance(record["format"], int):
            raise CertificateError(
                f"format must be {FORMAT}, that of this version of caribou, got {record['format']!r}"
            )
        try:
            made: Certificate = read_dataclass(cls, {key: record[key] for key in record if key != "format"}, "")
        except (CaribouError, TypeError, ValueError, OverflowError) as error:
            raise CertificateError(f"certificate is malformed: {error}") from error
        if not made.mechanisms:
            raise CertificateError("certificate must hold a mechanism, got none")
        if made.assumptions != in_order(made.assumptions):
            raise CertificateError(
                "certificate must state every assumption once, in the order of their names, got another"
            )
        missing = {"python", "caribou-gnn"} - set(made.versions)
        if missing:
            raise CertificateError(f"versions must name {' and '.join(sorted(missing))}, got nothing")
        return made

    # -- for people ----------------------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        about = [("Status", self.status), ("Holds for", self.scope.words)]
        void = [("Void", reason) for reason in self.void_reasons]
        return html_table("Privacy certificate", [*about, *self._facts(), *void])

    def promise(self) -> list[tuple[str, str]]:
        """What is promised, what it cost, and what it means for an attacker, in words."""
        rates = {question: ", ".join(_rate(*rate) for rate in r.items()) for question, r in self.attack_success.items()}
        mu = "" if self.mu is None or math.isinf(self.mu) else f" (mu-GDP with mu = {self.mu:.5g})"
        return [
            ("Guarantee", f"{self._guarantee_words} at {self.unit.value} level"),
            ("Spent", f"epsilon = {self.epsilon_spent:.6g}{mu}"),
            (f"Attack: is this {self.unit.value} there?", rates["presence"]),
            ("Attack: is it this one or that one?", rates["replacement"]),
            ("Not protected", self.unit.unprotected),
        ]

    def _facts(self) -> list[tuple[str, str]]:
        """What a reader asks first, and the answers."""
        return [
            ("Privacy unit", self.unit.value),
            ("Neighbouring graphs", self.unit.adjacency),
            *self.promise(),
            ("Kind of release", self.kind.value),
            ("Released", "; ".join(self.released)),
            ("Certificate", f"{self.certificate_id}, {self.created}"),
        ]

    @property
    def _guarantee_words(self) -> str:
        """What is promised. Where nothing that is protected is read, epsilon is 0, whatever was asked for."""
        asked = f"epsilon = {self.epsilon:g}, delta = {self.delta:g}"
        return asked if self.epsilon_spent else f"epsilon = 0: nothing that is protected is read (asked for: {asked})"

    def to_markdown(self) -> str:
        """The certificate for people."""
        from caribou.privacy.accounting import event_words

        lines = ["# Privacy certificate", ""]
        if not self.is_private:
            lines += [f"> **{NO_PRIVACY}**", ""]
        elif not self.scope.is_every_graph:
            lines += [f"> **Scope.** The headline is for {self.scope.words}.", ""]
        for reason in self.void_reasons:
            lines += [f"> **VOID as a guarantee.** {reason}", ""]
        lines += ["| what | promise |", "|---|---|", *(f"| {what} | {words} |" for what, words in self._facts()), ""]
        if len(self.groups) > 1:
            lines += ["## Who pays", "", "| group | epsilon |", "|---|---|"]
            lines += [f"| {group} | {epsilon:.6g} |" for group, epsilon in self.groups.items()]
            lines.append("")
        if self.epsilon_by_degree and not self.scope.is_every_graph:
            lines += [
                "## What a node of each degree is promised, in every graph",
                "",
                "| degree | epsilon |",
                "|---|---|",
            ]
            lines += [f"| {degree} | {epsilon:.6g} |" for degree, epsilon in self.epsilon_by_degree]
            lines.append("")
        about = {key: self.public_parameters[key] for key in WORDS if isinstance(self.public_parameters.get(key), str)}
        if about:
            lines += [
                "## About, in the words of the owner",
                "",
                "No check reads these words, and no promise rests on them.",
                "",
            ]
            lines += [f"- {title}: {_inert(about[key])}" for key, title in WORDS.items() if key in about]
            lines.append("")
        lines += ["## Mechanisms", ""]
        for record in self.mechanisms:
            lines.append(f"- **{record.name}**: {record.theorem}")
            for group, events in record.costs.items():
                lines.append(f"    - {group.value}: {'; '.join(map(event_words, events))}")
            lines += [f"    - {key}: {value}" for key, value in _flat(record.details)]
        lines += ["", "## Public parameters", ""]
        lines += [f"- {key}: {value}" for key, value in _flat(self.public_parameters) if key not in about]
        lines += ["", "## Assumptions", ""]
        lines += [f"- {'' if a.holds else '**does not hold** '}{a.name.value}: {a.statement}" for a in self.assumptions]
        lines += ["", "## Trust model and side channels", "", TRUST_MODEL, ""]
        lines += [f"- {channel}" for channel in SIDE_CHANNELS]
        lines += ["", "## Versions", "", ", ".join(f"{k} {v}" for k, v in self.versions.items()), ""]
        return "\n".join(lines)


def schema() -> dict[str, Any]:
    """The JSON Schema of certificates, from the records themselves.

    It says what form a certificate has. Whether its figures follow from each other is not a question of form: see `verify`.
    """
    parts: dict[str, Any] = {}
    fields = {
        key: schema_of(kind, parts) for key, kind in (stated_fields(Certificate) | derived_fields(Certificate)).items()
    }
    fields["status"] = {"enum": ["private", "private by degree", "void", "no privacy"]}
    fields["mechanisms"]["minItems"] = fields["assumptions"]["minItems"] = 1
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:caribou:certificate:{FORMAT}",
        "title": f"CARIBOU privacy certificate, format {FORMAT}",
        **schema_of_fields({"format": {"const": FORMAT}, **fields}),
        "$defs": parts,
    }


DEEPEST = 16
"""How deep the values of a certificate may be nested. Those of the library are not deeper than 10."""


def _require_plain(value: Any, depth: int = 0) -> None:
    """JSON values only: finite numbers, and words in one line of printable letters, so that nothing hides in what is shown."""
    if depth > DEEPEST:
        raise CertificateError(f"certificate must not be nested deeper than {DEEPEST} levels, got more")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str) or not key:
                raise CertificateError(f"certificate must name its fields by words, got {key!r}")
            _require_plain(key, depth)
            _require_plain(inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _require_plain(inner, depth + 1)
    elif isinstance(value, str):
        if not value.isprintable():
            raise CertificateError(f"certificate must hold words in one line of printable letters, got {value!r}")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise CertificateError(f"certificate must hold finite numbers, got {value!r}")
    elif value is not None and not isinstance(value, bool | int):
        raise CertificateError(f"certificate must hold JSON values, got {type(value).__name__}")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise CertificateError(f"certificate must not name a field twice, got {[key for key, _ in pairs]}")
    return record


def _no_constants(word: str) -> NoReturn:
    raise CertificateError(f"certificate must hold finite numbers, got {word}")


def _inert(words: str) -> str:
    """Words of the owner as they are: nothing in them is a heading, a table or a link."""
    return re.sub(r"([\\`*_{}\[\]<>#|!])", r"\\\1", words)


def _rate(false_positive_rate: str, rate: float) -> str:
    return f"at most {rate:.2%} right at {float(false_positive_rate):.1%} false alarms"


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            rows.append((f"{prefix}{key}", f"{len(value)} records, see the JSON"))
        else:
            rows.append((f"{prefix}{key}", f"{value:.9g}" if isinstance(value, float) else value))
    return rows


@cache
def package_version(package: str) -> str:
    """The installed version, or the words "not installed". Read once: finding it takes milliseconds."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def versions() -> dict[str, str]:
    """Of Python and of the libraries that a release rests on."""
    packages = ("caribou-gnn", "torch", "numpy", "dp-accounting", "cryptography")
    return {"python": platform.python_version()} | {package: package_version(package) for package in packages}
