"""The release page: one page for whoever signs. What was released, what is protected, what is not, for whom, and how to check it.

`release_sections` is a pure function of what is known about a release. The page claims nothing that the certificate does not
state: where figures do not follow from each other it says so first and promises nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from caribou.audit.verdict import CONSISTENT, INCONCLUSIVE, VIOLATED, found_little
from caribou.errors import InputError
from caribou.model.state import ModelState
from caribou.pages.ledger import Spending, balance_facts, spending, spending_chart
from caribou.pages.pictures import PAGE_COLOURS, Line, LineChart
from caribou.pages.sections import (
    Block,
    Chart,
    Code,
    Declared,
    Facts,
    Fold,
    Grid,
    Items,
    Section,
    SignHere,
    Text,
    Words,
    percent,
    section_page,
)
from caribou.privacy.accounting import event_words
from caribou.privacy.assumptions import SIDE_CHANNELS, TRUST_MODEL, AssumptionName
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.certificate import NO_PRIVACY, Certificate, schema
from caribou.privacy.ledger import Balance, Ledger, LedgerEntry
from caribou.privacy.mechanism_records import Mechanism
from caribou.privacy.plan import attack_success
from caribou.privacy.signature import NOT_CHECKED, SignatureCheck, SignatureState
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

    entry: the release itself; None if the ledger does not hold it. balances: of its data set, at both units. spent: over time at
    the unit of the release. now: the end of the chart.
    """

    entry: LedgerEntry | None
    balances: tuple[Balance, ...]
    spent: Spending | None
    now: datetime

    @classmethod
    def of(cls, ledger: Ledger, certificate: Certificate, dataset: str | None, now: datetime) -> Account:
        """The account that a certificate belongs to; ``dataset``: its name where the ledger does not hold the certificate."""
        entry = next((e for e in ledger.entries() if e.certificate_id == certificate.certificate_id), None)
        name = dataset if entry is None else entry.dataset
        balances = tuple(balance for balance in ledger.datasets() if balance.dataset == name)
        spent = None if name is None or not balances else spending(ledger, name, certificate.unit, now)
        return cls(entry, balances, spent, now)


@dataclass(frozen=True)
class Quality:
    """Metrics of the test nodes. ``curator_only``: they were computed from private labels without noise and must not leave."""

    metrics: Mapping[str, Any]
    curator_only: bool

    @classmethod
    def read(cls, document: Any, certificate: Certificate) -> Quality:
        """From what ``caribou train --json`` printed, or train kept beside a run. It must be about this certificate."""
        try:
            metrics = document["test_metrics"]
            own = document["certificate"]["certificate_id"]
            may_leave = document["accuracies_may_be_published"] is True
            for name in NUMBERS:
                _ = metrics[name]
        except (KeyError, TypeError) as error:
            raise InputError(f"metrics must be what caribou train --json prints (--metrics), got no {error}") from error
        if own != certificate.certificate_id:
            raise InputError(
                f"metrics must be about certificate {certificate.certificate_id} (--metrics), got those of {str(own)[:40]}"
            )
        # whatever the file says: at node level exact metrics read private labels
        return cls(metrics, curator_only=not may_leave or certificate.unit is PrivacyUnit.NODE)


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


@dataclass(frozen=True)
class PublishedQuality:
    """Metrics with noise, and whether their own certificate verifies."""

    metrics: Mapping[str, Any]
    certificate: Certificate
    verified: bool


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


def release_page(release: Release) -> str:
    """The page as one HTML text.

    Args:
        release: what is known.

    Returns:
        A file that loads nothing.
    """
    first, sections = release_sections(release)
    subject = f"Certificate {release.certificate.certificate_id}, {release.certificate.created}"
    return section_page("Release page", sections, subject=subject, first=first)


def release_sections(release: Release) -> tuple[tuple[Block, ...], tuple[Section, ...]]:
    """What the page says first, and its sections."""
    sections = [
        Section("released", "What was released", _released(release)),
        Section("protected", "What is protected, and for whom", _protected(release)),
        Section("unprotected", "What is not protected", _unprotected(release)),
        Section("strength", "How strong the promise is", _strength(release)),
        Section("data", "Data, purpose and signature", _data(release)),
        Section("quality", "How good the model is", _quality(release)),
        Section("ledger", "What has been spent on this data", _account(release)),
        Section("audit", "Attacks that were tried", _audit(release)),
        Section("mechanisms", "How it was made, and why the cost is right", _mechanisms(release)),
        Section("factors", "The factors of NIST SP 800-226, one by one", _factors(release)),
        Section("card", "Model card", _card(release)),
        Section("check", "Check it yourself", _check(release)),
    ]
    return _first(release), tuple(sections)


# -- what comes first -------------------------------------------------------------------------------------------------


def _first(release: Release) -> tuple[Block, ...]:
    c = release.certificate
    return (*_verdict(release), _signature(release.signature), *_own_mechanisms(c))


def _verdict(release: Release) -> tuple[Block, ...]:
    c = release.certificate
    if not c.is_private:
        return (Text(f"{NO_PRIVACY}. Whatever was released shows the private data as it is.", "bad"),)
    if c.void_reasons:
        return (
            Text("VOID. This certificate guarantees nothing, whatever its figures say.", "bad"),
            Items(c.void_reasons),
        )
    failing = [check for check in release.verification.checks if not check.passed]
    if failing:
        lines = tuple(Declared(f"{check.name}: {check.detail}") for check in failing)
        return (
            Text(
                "This certificate does not verify: its figures do not follow from each other. It guarantees nothing. "
                "Do not sign it.",
                "bad",
            ),
            Items(lines),
        )
    if not release.signature.acceptable:
        return (
            Text(
                "The figures agree with each other, but the signature does not hold: anybody could have written them.",
                "bad",
            ),
        )
    claim = f"epsilon = {c.epsilon:g} and delta = {c.delta:g}, for one {c.unit.value}"
    if not c.scope.is_every_graph:
        words = (
            f"Verified: {claim} with at most {c.scope.limit} neighbours, in every graph. A node with more neighbours is promised "
            "less: see the table by degree."
        )
        return (Text(words, "warn"),)
    nothing = " Nothing of it was spent." if c.epsilon_spent == 0 else ""
    words = f"Verified: {claim}, in every graph.{nothing} The promise rests on the assumptions listed below."
    return (Text(words, "good"),)


def _signature(signed: SignatureCheck) -> Text:
    if signed.state is SignatureState.VALID:
        return Text(f"Signature: valid, made by key {signed.signer}.", "good")
    if signed.state is SignatureState.NOT_CHECKED:
        return Text(f"Signature: not checked. {FORGERY[0].upper()}{FORGERY[1:]}.", "dim")
    if signed.state is SignatureState.MISSING:
        return Text(f"Signature: missing. Key {signed.signer} was asked for.", "bad")
    if signed.state is SignatureState.INVALID:
        return Text(f"Signature: invalid. It was not made by key {signed.signer} for this file.", "bad")
    raise InputError(f"signature must have a known state, got {signed.state!r}")


def _own_mechanisms(c: Certificate) -> tuple[Block, ...]:
    if not any(record.mechanism is Mechanism.OWN for record in c.mechanisms):
        return ()
    words = (
        "The cost of a mechanism is declared by its author: the library does not know the mechanism and cannot recompute it. "
        "Ask for its proof."
    )
    return (Text(words, "warn"),)


# -- what was released, for whom, what not ------------------------------------------------------------------------


def _released(release: Release) -> tuple[Block, ...]:
    c = release.certificate
    return (
        Text("This left the curator, in the words of the certificate:"),
        Items(tuple(map(Declared, c.released))),
        Text("Whatever is computed from it alone is covered, too. Nothing else is covered."),
    )


QUESTIONS = {
    PrivacyUnit.EDGE: ("Is there a link between these two?", "Is the link to this one, or to that one?"),
    PrivacyUnit.NODE: ("Is the data of this node in it?", "Is it label A or B, this link or that one?"),
}
"""What an attacker asks: presence, and replacement."""
NAMES = {PrivacyUnit.EDGE: "link", PrivacyUnit.NODE: "node"}
"""Of what is protected, in plain words."""
GUARDED = {
    PrivacyUnit.EDGE: (
        "Each single link between two nodes, whether it is there or not. Whoever sees the release learns little about it, "
        "even if they know all other links and everything about the nodes."
    ),
    PrivacyUnit.NODE: (
        "Each single node with its attributes, its label and all its links. Whoever sees the release learns little about it, "
        "even if they know everything about all other nodes."
    ),
}


def _protected(release: Release) -> tuple[Block, ...]:
    c = release.certificate
    if not release.is_trusted:
        return (Text("Nothing that this page can vouch for: see the first lines.", "bad"),)
    blocks: list[Block] = [Text(GUARDED[c.unit]), Text(f"In exact words: {c.unit.adjacency}.", "dim")]
    whom = f"every {NAMES[c.unit]}, in every graph" if c.scope.is_every_graph else c.scope.words
    blocks.append(Facts((("for whom", whom), ("against whom", TRUST_MODEL))))
    if len(c.groups) > 1:
        rows = tuple((group, f"{epsilon:.4g}") for group, epsilon in c.groups.items())
        blocks.append(
            Grid(("who", "epsilon"), rows, "What each part of the nodes pays; the promise covers the largest.")
        )
    return tuple(blocks)


def _unprotected(release: Release) -> tuple[Block, ...]:
    c = release.certificate
    if not c.is_private:
        return (Text("Everything: no noise was added.", "bad"),)
    name = c.unit.value
    unit = c.unit.unprotected
    items = [f"{unit[0].upper()}{unit[1:]}."]
    if c.unit is PrivacyUnit.EDGE:
        items.append(
            "All links of one person together: each link is protected by itself, and k links have up to k times this epsilon."
        )
    else:
        items.append("Several people together: k nodes have up to k times this epsilon.")
        if not c.scope.is_every_graph:
            items.append(f"Nodes with more than {c.scope.limit} neighbours, to the degree that the table below shows.")
    if any(a.name is AssumptionName.OWN_PREDICTIONS for a in c.assumptions):
        items.append(
            "A node's own prediction: it is computed from the node's own attributes, for whoever already holds them."
        )
    items += [
        "What the release shows about people in general. It may suggest something about a person, also about one who "
        "took no part.",
        "Anything besides what is listed as released: other files, plots, logs, figures of quality computed from private labels.",
        f"Other releases about the same people: the epsilons add up, and this page states one {name}-level release.",
        *SIDE_CHANNELS,
    ]
    return (Items(tuple(items)),)


# -- figures ----------------------------------------------------------------------------------------------------------


def _strength(release: Release) -> tuple[Block, ...]:
    c = release.certificate
    stated = "" if release.is_trusted else " (stated, not verified)"
    spent = "without bound" if math.isinf(c.epsilon_spent) else f"{c.epsilon_spent:.4g}"
    rows: list[tuple[str, Words]] = [
        (f"epsilon{stated}", "without bound" if not c.is_private else f"{c.epsilon:g}"),
        *([(f"delta{stated}", f"{c.delta:g}"), (f"spent of it{stated}", spent)] if c.is_private else []),
    ]
    if c.mu is not None and math.isfinite(c.mu):
        rows.append((f"mu (Gaussian DP){stated}", f"{c.mu:.4g}"))
    blocks: list[Block] = [Facts(tuple(rows), large=True)]
    if not c.is_private:
        return (*blocks, Text("No attacker's curve is drawn: nothing limits what an attacker finds.", "dim"))
    if not release.is_trusted:
        return (*blocks, Text("No attacker's curve is drawn: it would follow from figures that do not hold.", "dim"))
    if c.epsilon_spent == 0:
        words = "Nothing was spent: nothing that is protected was read. Whoever sees the release can only guess."
        blocks.append(Text(words))
    blocks += [Text(line) for line in attack_sentences(c)]
    blocks.append(attack_chart(c))
    blocks.append(
        Text(
            "These are upper limits of this method, for the best possible test. They are rates: with many pairs and few "
            "links, even a small share of false alarms can be more pairs than there are links.",
            "dim",
        )
    )
    if c.epsilon_by_degree and not c.scope.is_every_graph:
        table = tuple(
            (f"{degree:,}", "without bound" if math.isinf(e) else f"{e:.4g}") for degree, e in c.epsilon_by_degree
        )
        blocks.append(
            Grid(
                ("neighbours of the node", "epsilon"), table, "What a node of each degree is promised, in every graph."
            )
        )
    return tuple(blocks)


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


def attack_chart(c: Certificate) -> Chart:
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
    shown = LineChart(words, "false alarms", "found at most", tuple(lines), tuple(marks), log="x", shares=True)
    return Chart(
        "attack", shown, f"The attacker's curve of this release. Dots: the figures of the certificate. {words}"
    )


# -- data, purpose, signature -----------------------------------------------------------------------------------------

UNKNOWN = "not stated"


def _declared(words: str | None) -> Words:
    return UNKNOWN if words is None else Declared(words)


def _data(release: Release) -> tuple[Block, ...]:
    c, run, entry = release.certificate, release.run, release.entry
    dataset = entry.dataset if entry is not None else None if run is None else run.dataset
    purpose = release.purpose or (None if entry is None else entry.purpose)
    rows: list[tuple[str, Words]] = [
        ("data set", _declared(dataset)),
        ("purpose", _declared(purpose)),
        ("owner of the data", _declared(release.owner)),
        ("released by", _declared(None if entry is None else entry.person)),
        ("time that the data is about", _declared(None if entry is None else entry.period)),
    ]
    nodes = c.public_parameters.get("nodes")
    if isinstance(nodes, int):
        rows.append(("nodes (public)", f"{nodes:,}"))
    if run is not None:
        rows.append(("classes", Declared(", ".join(run.classes))))
    blocks: list[Block] = [
        Text("Declared by the owner. No program can check these words; the signature below answers for them."),
        Facts(tuple(rows)),
        *_features(c, run),
    ]
    if not release.is_trusted:
        return (*blocks, Text("There is no place to sign: this page promises nothing that could be approved.", "bad"))
    words = "I have read what is protected and what is not, and I approve this release for the purpose above."
    return (*blocks, Text(words), SignHere(("name", "role", "place and date", "signature")))


def _features(c: Certificate, run: ModelState | None) -> tuple[Block, ...]:
    """The list of features, with the declaration that edge level rests on."""
    names, columns = _feature_names(c, run)
    blocks: list[Block] = []
    if any(a.name is AssumptionName.FEATURES_WITHOUT_EDGES for a in c.assumptions):
        blocks.append(
            Text(
                "Declaration: none of these features was computed from links: no number of partners, no average over neighbours, "
                "no position in the graph. Features and labels count as public. If one was, the promise does not hold.",
                "warn",
            )
        )
    if columns is None:
        return tuple(blocks)
    if names is None:
        return (*blocks, Text(f"{columns:,} features without names."))
    shown = Items(tuple(map(Declared, names[:MOST_NAMES])))
    more = len(names) - MOST_NAMES
    rest = (Text(f"And {more:,} more, which the certificate lists."),) if more > 0 else ()
    title = f"The {len(names):,} features"
    if len(names) > MANY_NAMES:
        return (*blocks, Fold(title, (shown, *rest)))
    return (*blocks, Text(f"{title}:"), shown)


def _feature_names(c: Certificate, run: ModelState | None) -> tuple[Sequence[str] | None, int | None]:
    for assumption in c.assumptions:
        if assumption.name is AssumptionName.FEATURES_WITHOUT_EDGES:
            return assumption.parameters["names"], assumption.parameters["columns"]
    return (None, None) if run is None else (run.feature_names, run.columns)


# -- how good it is ---------------------------------------------------------------------------------------------------


def _quality(release: Release) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if release.published is not None:
        blocks += _published(release.published)
    if release.quality is not None:
        blocks += _exact(release.quality)
    if blocks:
        return tuple(blocks)
    if release.certificate.unit is PrivacyUnit.NODE:
        words = (
            "No figures are shown. At node level labels are private, and exact metrics are for the curator alone. "
            "--publish-metrics of caribou train releases metrics with noise."
        )
        return (Text(words),)
    return (Text("No metrics are known for this run."),)


def _published(published: PublishedQuality) -> list[Block]:
    own = published.certificate
    if not published.verified:
        return [Text("There are metrics with noise, but their certificate does not verify: they are not shown.", "bad")]
    rows = []
    for name in ("accuracy", "balanced_accuracy", "macro_f1"):
        low, high = published.metrics[name]["interval95"]
        rows.append((NUMBERS[name], f"{published.metrics[name]['value']:.3f}", f"{low:.3f} to {high:.3f}"))
    caption = (
        f"With noise, so they may leave. Test nodes paid epsilon = {own.epsilon:g} more for them "
        f"(certificate {own.certificate_id}). Intervals: 95 %, of the noise alone."
    )
    return [Grid(("metric of the test nodes", "value", "95 % interval"), tuple(rows), caption)]


def _exact(quality: Quality) -> list[Block]:
    blocks: list[Block] = []
    if quality.curator_only:
        words = (
            "Curator only. These figures were computed from private labels without noise. Take them out before this page leaves: "
            "write it again without --metrics."
        )
        blocks.append(Text(words, "bad"))
    mark = " (curator only)" if quality.curator_only else ""
    rows = tuple(
        (title, f"{quality.metrics[name]:.3f}") for name, title in NUMBERS.items() if quality.metrics[name] is not None
    )
    blocks.append(Grid((f"metric of the test nodes{mark}", "value"), rows))
    classes = quality.metrics.get("per_class") or {}
    if classes:
        lines: list[tuple[Words, ...]] = []
        for name, each in classes.items():
            lines.append((Declared(name), *(_share(each.get(word)) for word in ("precision", "recall", "f1"))))
        caption = "By class. Noise can cost small groups more accuracy than large ones: compare the rows."
        blocks.append(Fold(f"By class{mark}", (Grid(("class", "precision", "recall", "F1"), tuple(lines), caption),)))
    return blocks


def _share(value: Any) -> str:
    return "–" if value is None else f"{value:.3f}"


# -- the ledger -------------------------------------------------------------------------------------------------------


def _account(release: Release) -> tuple[Block, ...]:
    account = release.account
    if account is None:
        charged = release.run is not None and release.run.charged
        words = "This page was made without a ledger, so it does not say what other releases about the same people have cost."
        more = (
            " The run was charged in one: give it with --ledger."
            if charged
            else " No ledger is known to have counted this one."
        )
        return (Text(words + more, "dim" if charged else "warn"),)
    blocks: list[Block] = []
    if account.entry is None:
        blocks.append(
            Text(
                "This ledger does not hold this release. Record it: caribou ledger add NAME --certificate FILE.", "bad"
            )
        )
    else:
        found = account.entry
        rows: tuple[tuple[str, Words], ...] = (
            ("entry", f"{found.id}, {found.time:%Y-%m-%d %H:%M} UTC, {found.status}"),
            ("total with this release, as recorded", f"epsilon = {found.epsilon_total:.4g} at delta = {found.delta:g}"),
        )
        blocks.append(Facts(rows))
    for balance in account.balances:
        if balance.budget is not None or balance.releases:
            blocks += [Text(f"At {balance.unit.value} level:"), balance_facts(balance)]
    if account.spent is not None and account.spent.totals:
        blocks.append(spending_chart(account.spent, account.now))
    return tuple(blocks) or (Text("The ledger knows neither this release nor its data set."),)


# -- the audit --------------------------------------------------------------------------------------------------------

AUDIT_WORDS = {
    CONSISTENT: (
        "good",
        "The attacks found nothing that contradicts the claim, and were strong enough to see a leak of twice as much. "
        "That is no proof: another attack may see more.",
    ),
    VIOLATED: (
        "bad",
        "An attack proves more than was claimed. The claim is false, or the code does not do what it claims. Do not sign.",
    ),
    INCONCLUSIVE: (
        "warn",
        "The claim is not rejected, but the evidence is too thin to say that it was put to the test.",
    ),
}
"""How a verdict looks, and what it means."""
FOUND_NOTHING = (
    "warn",
    "Nothing contradicts the claim, but that says little: the attacks that were tried found next to nothing. Another may see "
    "more.",
)
"""Instead of "consistent" where next to nothing was proven."""


def audit_figures(document: Any) -> Mapping[str, Any]:
    """What ``caribou audit --out`` wrote to audit.json, checked for what the page needs."""
    needed = ("verdict", "claimed", "confidence", "epsilon_lower", "reasons", "subject")
    missing = [name for name in needed if not isinstance(document, Mapping) or name not in document]
    if missing or document["verdict"] not in AUDIT_WORDS or not isinstance(document["claimed"], Mapping):
        raise InputError(
            f"audit must be the audit.json of caribou audit --out (--audit), got one without {', '.join(missing) or 'a verdict'}"
        )
    return dict(document)


def _audit(release: Release) -> tuple[Block, ...]:
    found = release.audit
    if found is None:
        return (
            Text(
                "No audit is known. caribou audit attacks the method: it refits it many times on graphs that differ in one unit."
            ),
        )
    c = release.certificate
    claimed = (found["claimed"].get("epsilon"), found["claimed"].get("delta"), found["claimed"].get("unit"))
    blocks: list[Block] = []
    if claimed != (c.epsilon if c.is_private else "inf", c.delta, c.unit.value):
        blocks.append(
            Text(
                "The audit is about another claim than that of this certificate: it says nothing about this release.",
                "bad",
            )
        )
    else:
        kind, words = AUDIT_WORDS[found["verdict"]]
        proven = found["epsilon_lower"]
        if found["verdict"] == CONSISTENT and not (_is_number(proven) and not found_little(proven, c.epsilon)):
            kind, words = FOUND_NOTHING
        blocks.append(Text(f"{found['verdict'].capitalize()}. {words}", kind))
    rows: tuple[tuple[str, Words], ...] = (
        ("audited", Declared(str(found["subject"]))),
        (
            "proven",
            f"epsilon of at least {_figure(found['epsilon_lower'])}, at confidence {_figure(found['confidence'])}",
        ),
    )
    blocks += [
        Facts(rows),
        Fold("What the file of the audit says", (Items(tuple(Declared(str(reason)) for reason in found["reasons"])),)),
        Text("An audit attacks the method, fitted again and again. It does not look at the released files.", "dim"),
    ]
    return tuple(blocks)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _figure(value: Any) -> str:
    return f"{value:.3g}" if _is_number(value) else "inf" if value == "inf" else "?"


# -- mechanisms -------------------------------------------------------------------------------------------------------


def _mechanisms(release: Release) -> tuple[Block, ...]:
    c = release.certificate
    folds: list[Block] = []
    for number, record in enumerate(c.mechanisms, 1):
        known = release.verification.passed and record.mechanism is not Mechanism.OWN
        rows: list[tuple[str, Words]] = [
            ("for", Declared(record.name)),
            ("theorem", record.theorem if known else Declared(record.theorem)),
        ]
        rows += [
            (group.value, "; ".join(map(event_words, events)) or "nothing") for group, events in record.costs.items()
        ]
        folds.append(
            Fold(
                f"Mechanism {number} of {len(c.mechanisms)}: {record.mechanism.value}",
                (Facts(tuple(rows)), Code(_json(record.details))),
            )
        )
    assumptions = tuple(
        (a.name.value, "holds, as declared" if a.holds else "does not hold", Declared(_statement(a)))
        for a in c.assumptions
    )
    return (
        Text(
            "Each mechanism adds noise of a size that follows from a proven bound. Its events are what an accountant adds up."
            if c.is_private
            else "No noise was added: the mechanisms ran as if they were private."
        ),
        *folds,
        Fold(
            f"The {len(assumptions)} assumptions",
            (
                Grid(
                    ("assumption", "state", "what it says"),
                    assumptions,
                    "No program can check them: the curator answers for them.",
                ),
            ),
        ),
        Fold("Public parameters, declared", (Code(_json(dict(c.public_parameters))),)),
    )


def _statement(assumption: Any) -> str:
    """The sentence of an assumption, without a list of names that has its own place."""
    if assumption.name is AssumptionName.FEATURES_WITHOUT_EDGES:
        return "Declared by the curator: no feature was computed from edges. The features are listed under Data."
    return str(assumption.statement)


def _json(value: Any) -> str:
    """For machines: ASCII alone, so that no letter can hide another one."""
    text = json.dumps(value, indent=2, default=str)
    return text if len(text) <= LARGEST_DOCUMENT else f"{text[:LARGEST_DOCUMENT]}\n... (cut here: see the certificate)"


# -- NIST SP 800-226 --------------------------------------------------------------------------------------------------

NIST = "https://doi.org/10.6028/NIST.SP.800-226"
STATED = "Stated in the certificate."
DECLARED_BY = "Declared by the curator."
YOURS = "For the curator to answer."


def _factors(release: Release) -> tuple[Block, ...]:
    return (
        Text(
            "NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees, asks a reader to look at every one "
            "of these. The names are those of Figure 1 in its initial public draft. This page answers what it can. It claims "
            "no conformity: NIST certifies nothing, and neither does this page."
        ),
        Facts(tuple((factor, f"{answer} {who}") for factor, answer, who in nist_factors(release))),
        Text(f"The publication: {NIST}", "dim"),
    )


def nist_factors(release: Release) -> tuple[tuple[str, str, str], ...]:
    """Every factor of the pyramid, from the top, with what is known and who answers for it."""
    c = release.certificate
    epsilon = "no bound" if not c.is_private else f"epsilon = {c.epsilon:g}, delta = {c.delta:g}, for one release"
    correct = (
        "recomputed by three accountants and found right"
        if release.verification.passed
        else "recomputed, and not found right"
        if c.is_private
        else "without bound"
    )
    count = "1 mechanism" if len(c.mechanisms) == 1 else f"{len(c.mechanisms)} mechanisms"
    attacked = "" if release.audit is None else f" An audit says: {release.audit['verdict']}."
    shown = release.quality is not None or release.published is not None
    counted = (
        "The ledger counts it together with the others about this data."
        if release.entry is not None
        else "Whether it was counted in a ledger is not known here."
    )
    return (
        ("privacy parameter ε", f"{epsilon}. {'' if release.is_trusted else 'Not verified.'}".strip(), STATED),
        ("unit of privacy", f"One {c.unit.value}: {c.unit.adjacency}. Headline for {c.scope.words}.", STATED),
        (
            "algorithms and correctness",
            f"{count}, each with its theorem. The cost was {correct}.{attacked}",
            f"{STATED} That the release was really made this way is declared by the curator.",
        ),
        ("utility", "See the metrics on this page." if shown else "No metrics are on this page.", DECLARED_BY),
        (
            "bias",
            "Noise can cost small groups more accuracy than large ones. Look at the metrics by class, and at groups "
            "that are no class.",
            YOURS,
        ),
        (
            "query model",
            f"One fixed release, planned before the data was read; no further questions are answered. {counted}",
            STATED,
        ),
        ("threat model", TRUST_MODEL, STATED),
        ("side channels", " ".join(SIDE_CHANNELS), "Stated in the certificate as not protected."),
        (
            "security",
            "Where the graph, the keys and the ledger lie, and who could break in, is unknown to this page.",
            YOURS,
        ),
        (
            "access control",
            "Who may read the graph, run the method or raise the budget is unknown to this page.",
            YOURS,
        ),
        (
            "data collection exposure",
            "Whoever collected the links, or was shown them on the way, still has them. Noise in the release does not "
            "change that.",
            YOURS,
        ),
    )


# -- model card -------------------------------------------------------------------------------------------------------


def _card(release: Release) -> tuple[Block, ...]:
    c, run, entry = release.certificate, release.run, release.entry
    purpose = release.purpose or (None if entry is None else entry.purpose)
    rows: list[tuple[str, Words]] = [
        ("made", c.created),
        ("software", Declared(", ".join(f"{name} {version}" for name, version in c.versions.items()))),
        ("intended use", _declared(purpose)),
        ("not intended for", "decisions about a single person without a human who looks at more than this model"),
        ("privacy", _promise(release)),
    ]
    if run is not None:
        rows[:0] = [("method", Declared(run.method))]
        rows += [
            (
                "trained on",
                f"a graph of {run.nodes:,} nodes with {run.columns:,} feature columns and {len(run.classes)} classes",
            ),
            ("batches", f"{len(run.batches)}: {', '.join(f'{size:,}' for size in run.batches[:24])} nodes"),
        ]
    rows += [
        ("quality", "see How good the model is" if release.quality or release.published else "no metrics on this page"),
        (
            "limits",
            "It was fitted to this graph. Predictions for another graph are a new release with a cost of its own.",
        ),
    ]
    blocks: list[Block] = [Facts(tuple(rows))]
    if run is not None:
        blocks.append(Fold("Settings", (Code(_json(dict(run.settings))),)))
    return tuple(blocks)


def _promise(release: Release) -> str:
    c = release.certificate
    if not release.is_trusted:
        return "none that holds: see the first lines"
    return f"{c.status}: epsilon = {c.epsilon:g}, delta = {c.delta:g} at {c.unit.value} level"


# -- check ------------------------------------------------------------------------------------------------------------


def _check(release: Release) -> tuple[Block, ...]:
    c = release.certificate
    document = c.to_json()
    blocks: list[Block] = [
        Text(
            "This page is a view. The certificate is the document. A signature is about the bytes of its file: take the "
            "file itself."
        ),
        Code("caribou verify certificate.json --key curator.pem"),
        Text(
            "Its form is that of the JSON Schema urn:caribou:certificate:2. This file holds it, and it comes with the software "
            "as caribou/privacy/certificate.schema.json."
        ),
    ]
    rows = tuple(
        (check.name, "declared" if check.declared and check.passed else "ok" if check.passed else "FAILS")
        for check in release.verification.checks
    )
    blocks.append(
        Fold(
            f"The {len(rows)} checks",
            (Grid(("check", "outcome"), tuple((Declared(n), o) for n, o in rows)),),
            printed=False,
        )
    )
    if len(document) <= LARGEST_DOCUMENT:
        blocks.append(Fold("The certificate in JSON", (Code(document),), printed=False))
    else:
        blocks.append(
            Text(f"The certificate has {len(document):,} letters, too many for this page; it lies beside it.")
        )
    form = json.dumps(schema(), indent=1)
    return (*blocks, Fold("The JSON Schema of certificates", (Code(form),), printed=False))
