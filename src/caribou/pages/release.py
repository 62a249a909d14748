"""The release page: one page for whoever signs. What was released, what is protected, what is not, for whom, and how to check it.

The words of the page stand in ``release.html``; here are the figures that it shows. The page claims nothing that the certificate
does not state: where figures do not follow from each other it says so first and promises nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from caribou.errors import CertificateError
from caribou.model.state import METRICS, PUBLISHED, PUBLISHED_CERTIFICATE, ModelState, read_state
from caribou.model.verify import verify
from caribou.pages.base import declared, figure, percent, render
from caribou.pages.ledger import balance_rows, spending_chart
from caribou.pages.pictures import PAGE_COLOURS, Line, LineChart
from caribou.privacy.accounting import event_words
from caribou.privacy.assumptions import SIDE_CHANNELS, TRUST_MODEL, Assumption, AssumptionName
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.certificate import NO_PRIVACY, Certificate
from caribou.privacy.ledger import Balance, Ledger, LedgerEntry
from caribou.privacy.mechanism_records import Mechanism
from caribou.privacy.plan import attack_success
from caribou.privacy.signature import NOT_CHECKED, SignatureCheck
from caribou.privacy.verify import FORGERY, Verification

MANY_NAMES = 24
"""From this many names on a list of features is a fold."""
MOST_NAMES = 1000
"""So many names are shown; the certificate has all of them."""
LARGEST_DOCUMENT = 200_000
"""Letters of a certificate that the page holds; a longer one is only named."""
SMALLEST_RATE = 0.001
"""Where the attacker's curve begins: 1 false alarm in 1000."""
CURVE_POINTS = 36


@dataclass(frozen=True)
class Account:
    """What the owner's ledger says about the release.

    entry: the release itself; None if the ledger does not hold it. balances: of its data set, at both units. chart: what was
    spent over time, at the unit of the release.
    """

    entry: LedgerEntry | None
    balances: tuple[Balance, ...]
    chart: LineChart | None

    @classmethod
    def of(cls, ledger: Ledger, certificate: Certificate, dataset: str | None, now: datetime) -> Account:
        """The account that a certificate belongs to; ``dataset``: its name where the ledger does not hold the certificate."""
        entry = next((e for e in ledger.entries() if e.certificate_id == certificate.certificate_id), None)
        name = dataset if entry is None else entry.dataset
        balances = tuple(balance for balance in ledger.datasets() if balance.dataset == name)
        return cls(entry, balances, spending_chart(ledger, name, certificate.unit, now) if name and balances else None)


@dataclass(frozen=True)
class Quality:
    """Metrics of the test nodes as they are, which only edge level shows: labels are public there."""

    metrics: Mapping[str, Any]

    @classmethod
    def kept(cls, run: Path, certificate: Certificate) -> Quality | None:
        """What was kept beside a run about this certificate; at node level nothing, whatever lies there."""
        if certificate.unit is PrivacyUnit.NODE or not (run / METRICS).is_file():
            return None
        found = _document(run / METRICS)
        metrics = found.get("test_metrics")
        if found.get("certificate_id") != certificate.certificate_id or not isinstance(metrics, dict):
            raise CertificateError(f"{run / METRICS} must be about the certificate beside it, got another")
        if missing := [name for name in NUMBERS if name not in metrics]:
            raise CertificateError(f"{run / METRICS} must have {', '.join(missing)}")
        return cls(metrics)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Titles and values, without those that could not be computed."""
        return [
            (title, _metric(self.metrics[name])) for name, title in NUMBERS.items() if self.metrics[name] is not None
        ]

    @property
    def by_class(self) -> list[tuple[str, ...]]:
        """A row per class: precision, recall and F1."""
        classes = self.metrics.get("per_class") or {}
        names = ("precision", "recall", "f1")
        return [(declared(name), *(_metric(each.get(one)) for one in names)) for name, each in classes.items()]


NUMBERS = {
    "accuracy": "accuracy",
    "majority": "always the most frequent class",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
    "brier": "Brier score",
    "calibration_error": "calibration error",
}
"""Metrics of the page, with their titles."""


def _metric(value: Any) -> str:
    return "–" if value is None else f"{value:.3f}"


@dataclass(frozen=True)
class PublishedQuality:
    """Metrics with noise, and whether their own certificate verifies."""

    metrics: Mapping[str, Any]
    certificate: Certificate
    verified: bool

    @classmethod
    def kept(cls, run: Path) -> PublishedQuality | None:
        """What was published of a run, if anything was."""
        if not ((run / PUBLISHED).is_file() and (run / PUBLISHED_CERTIFICATE).is_file()):
            return None
        shown, own = _document(run / PUBLISHED), Certificate.load(run / PUBLISHED_CERTIFICATE)
        if shown.get("certificate_id") != own.certificate_id:
            raise CertificateError(f"{run / PUBLISHED} must be about the certificate beside it, got another")
        return cls(shown, own, verify(own).passed)

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """Title, value and the interval of the noise."""
        rows = []
        for name in ("accuracy", "balanced_accuracy", "macro_f1"):
            low, high = self.metrics[name]["interval95"]
            rows.append((NUMBERS[name], _metric(self.metrics[name]["value"]), f"{low:.3f} to {high:.3f}"))
        return rows


@dataclass(frozen=True)
class Release:
    """What is known about a release.

    Args:
        certificate, verification: the promise, and what came of recomputing it.
        signature: of the certificate; not checked without a key.
        run: the folder, where there is one.
        account: what a ledger says.
        audit: the figures of ``caribou audit`` (audit.json).
        quality, published: metrics as they are, and with noise.
        purpose, owner: in the owner's words; the ledger's purpose is taken where none is given.
    """

    certificate: Certificate
    verification: Verification
    signature: SignatureCheck = NOT_CHECKED
    run: ModelState | None = None
    account: Account | None = None
    audit: Mapping[str, Any] | None = None
    quality: Quality | None = None
    published: PublishedQuality | None = None
    purpose: str | None = None
    owner: str | None = None

    @property
    def is_trusted(self) -> bool:
        """Whether the figures follow from each other, the assumptions hold and a signature that was asked for is right."""
        return self.verification.passed and self.signature.acceptable

    @property
    def entry(self) -> LedgerEntry | None:
        """The entry of the ledger, if it is known."""
        return None if self.account is None else self.account.entry


def known_release(run: Path, found: Certificate, ledger: Path | None) -> Release:
    """What the folder of a run, or a certificate alone, and a ledger tell about a release."""
    saved = read_state(run) if run.is_dir() else None
    account = None
    if ledger is not None:
        name = None if saved is None else saved.dataset
        account = Account.of(Ledger(ledger, create=False), found, name, datetime.now(UTC))
    quality, published = Quality.kept(run, found), PublishedQuality.kept(run)
    return Release(found, verify(found), run=saved, account=account, quality=quality, published=published)


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CertificateError(f"{path} must be a JSON file that can be read: {error}") from error
    return found if isinstance(found, dict) else {}


# -- the page ---------------------------------------------------------------------------------------------------------

QUESTIONS = {
    PrivacyUnit.EDGE: ("Is there a link between these two?", "Is the link to this one, or to that one?"),
    PrivacyUnit.NODE: ("Is the data of this node in it?", "Is it label A or B, this link or that one?"),
}
"""What an attacker asks: presence, and replacement."""


def release_page(release: Release) -> str:
    """The page as one HTML text that loads nothing."""
    c, run, checks = release.certificate, release.run, release.verification.checks
    names, columns = _feature_names(c, run)
    nodes = c.public_parameters.get("nodes")
    assumed = {assumption.name for assumption in c.assumptions}
    return render(
        "release.html",
        title="Release page",
        release=release,
        c=c,
        no_privacy=NO_PRIVACY,
        failing=[check for check in checks if not check.passed],
        claim=f"epsilon = {c.epsilon:g} and delta = {c.delta:g}, for one {c.unit.value}",
        forgery=FORGERY,
        own_mechanisms=any(record.mechanism is Mechanism.OWN for record in c.mechanisms),
        trust_model=TRUST_MODEL,
        side_channels=SIDE_CHANNELS,
        groups=[(group, figure(epsilon)) for group, epsilon in c.groups.items()],
        own_predictions=AssumptionName.OWN_PREDICTIONS in assumed,
        attacks=attack_sentences(c) if c.is_private and release.is_trusted else (),
        curve=attack_chart(c) if c.is_private and release.is_trusted else None,
        by_degree=[(f"{degree:,}", figure(epsilon)) for degree, epsilon in c.epsilon_by_degree],
        nodes=nodes if isinstance(nodes, int) else None,
        features_declared=AssumptionName.FEATURES_WITHOUT_EDGES in assumed,
        names=names,
        columns=columns,
        many_names=MANY_NAMES,
        most_names=MOST_NAMES,
        balance_rows=balance_rows,
        audit=None if release.audit is None else _audit(release.audit, c),
        mechanisms=_mechanisms(release),
        assumptions=[
            (a.name.value, "holds, as declared" if a.holds else "does not hold", declared(_statement(a)))
            for a in c.assumptions
        ],
        parameters=_json(dict(c.public_parameters)),
        versions=", ".join(f"{name} {version}" for name, version in c.versions.items()),
        batches="" if run is None else f"{len(run.batches)}: {', '.join(f'{n:,}' for n in run.batches[:24])} nodes",
        settings="" if run is None else _json(dict(run.settings)),
        checks=[
            (declared(check.name), "declared" if check.declared and check.passed else "ok" if check.passed else "FAILS")
            for check in checks
        ],
        document=c.to_json(),
        largest_document=LARGEST_DOCUMENT,
    )


def attack_sentences(c: Certificate) -> list[str]:
    """What the promise means, in counts of 1000; one sentence for each question of an attacker."""
    found = []
    for (question, rates), words in zip(c.attack_success.items(), QUESTIONS[c.unit], strict=True):
        rate = rates["0.01"]
        found.append(
            f"“{words}” A test that wrongly says yes for 10 of 1000 finds at most {_of_thousand(rate)} of 1000 "
            f"({question}). Guessing finds 10."
        )
    return found


def _of_thousand(rate: float) -> str:
    """Rounded up: an upper limit stays one."""
    return f"{min(1000, math.ceil(1000 * rate - 1e-9)):d}"


def attack_chart(c: Certificate) -> LineChart:
    """The most that any test can find against its false alarms, with the certificate's own figures marked."""
    rates = [float(f"{SMALLEST_RATE ** (1 - k / CURVE_POINTS):.6g}") for k in range(CURVE_POINTS)]
    curve = attack_success(c.cost, c.delta, rates)
    names = dict(zip(c.attack_success, QUESTIONS[c.unit], strict=True))
    looks = {"presence": (PAGE_COLOURS["accent"], "-"), "replacement": (PAGE_COLOURS["warn"], "--")}
    lines = []
    for question, points in curve.items():
        colour, style = looks[question]
        lines.append(
            Line(question, [*((float(rate), found) for rate, found in points.items()), (1.0, 1.0)], colour, style)
        )
    lines.append(Line("guessing", [(rate, rate) for rate in (*rates, 1.0)], PAGE_COLOURS["dim"], ":"))
    marks = [(float(rate), found) for points in c.attack_success.values() for rate, found in points.items()]
    figures = "; ".join(
        f"{question} ({names[question]}) "
        + ", ".join(f"{percent(found, 2)} at {100 * float(rate):g} %" for rate, found in found_by.items())
        for question, found_by in c.attack_success.items()
    )
    words = f"Largest share that any attacker finds, by share of false alarms: {figures}."
    return LineChart(words, "false alarms", "found at most", tuple(lines), tuple(marks), log="x", shares=True)


def _feature_names(c: Certificate, run: ModelState | None) -> tuple[Sequence[str] | None, int | None]:
    for assumption in c.assumptions:
        if assumption.name is AssumptionName.FEATURES_WITHOUT_EDGES:
            return assumption.parameters["names"], assumption.parameters["columns"]
    return (None, None) if run is None else (run.feature_names, run.columns)


def _audit(found: Mapping[str, Any], c: Certificate) -> dict[str, Any]:
    """What an audit says of this claim, and of no other."""
    from caribou.audit.verdict import found_little

    claimed = (found["claimed"].get("epsilon"), found["claimed"].get("delta"), found["claimed"].get("unit"))
    proven = found["epsilon_lower"]
    return {
        "same_claim": claimed == (c.epsilon if c.is_private else "inf", c.delta, c.unit.value),
        "verdict": found["verdict"],
        "little": found_little(proven if _is_number(proven) else 0.0, c.epsilon),
        "subject": found["subject"],
        "proven": _number(proven),
        "confidence": _number(found["confidence"]),
        "reasons": found["reasons"],
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> str:
    return f"{value:.3g}" if _is_number(value) else "inf" if value == "inf" else "?"


def _mechanisms(release: Release) -> list[tuple[Any, list[tuple[str, str]], str]]:
    """Each record with its facts and its figures; a theorem that was not recomputed is somebody else's word."""
    found = []
    for record in release.certificate.mechanisms:
        known = release.verification.passed and record.mechanism is not Mechanism.OWN
        rows = [("for", declared(record.name)), ("theorem", record.theorem if known else declared(record.theorem))]
        rows += [
            (group.value, "; ".join(map(event_words, events)) or "nothing") for group, events in record.costs.items()
        ]
        found.append((record, rows, _json(record.details)))
    return found


def _statement(assumption: Assumption) -> str:
    """The sentence of an assumption, without a list of names that has its own place."""
    if assumption.name is AssumptionName.FEATURES_WITHOUT_EDGES:
        return "Declared by the curator: no feature was computed from edges. The features are listed under Data."
    return str(assumption.statement)


def _json(value: Any) -> str:
    """For machines: ASCII alone, so that no letter can hide another one."""
    text = json.dumps(value, indent=2, default=str)
    return text if len(text) <= LARGEST_DOCUMENT else f"{text[:LARGEST_DOCUMENT]}\n... (cut here: see the certificate)"
