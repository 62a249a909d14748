"""One way out: plan, certificate, ledger, run. The only module that charges a ledger, and the only one that makes certificates.

Embeddings, fits, predictions on another graph, searches and releases from files all pass through `execute`. In that order the
certificate is made, the cost is charged or refused, and only then is noise drawn. A release that fails afterwards stays charged.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from caribou.errors import InputError, LedgerError, needs_training
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.assumptions import Assumption, AssumptionName, features_without_edges
from caribou.privacy.budget import Budget, PrivacyUnit, warn_of_large_delta
from caribou.privacy.certificate import Certificate
from caribou.privacy.ledger import EntryNote, Fingerprint, Ledger, LedgerEntry
from caribou.privacy.mechanism_records import Mechanism, message_passing_record
from caribou.privacy.names import dataset_name
from caribou.privacy.plan import Link, Randomness, ReleaseKind, ReleasePlan

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from caribou.graph import Graph
    from caribou.layers import BoundedLayer
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.privacy.sensitivity import Bounds

T = TypeVar("T")
N = TypeVar("N", bound=Randomness)

LedgerLike = Ledger | str | os.PathLike[str]
"""A ledger, or the path of one; a file that is not there is made with its first entry. `NotedLedger` is a path with words."""


@dataclass(frozen=True)
class NotedLedger(EntryNote, os.PathLike[str]):
    """The path of a ledger, with what the next entry should say: who, what for, about which time, and why.

    It can be given wherever a ledger can. The certificate of a release names its ``period``, too.

    Args:
        path: of the ledger.
        purpose, person, period, reason: as in `caribou.privacy.ledger.EntryNote`.

    >>> os.fspath(NotedLedger("ledger.sqlite", purpose="monthly scores", person="ada"))
    'ledger.sqlite'
    """

    path: str | os.PathLike[str]

    def __fspath__(self) -> str:
        return os.fspath(self.path)


@dataclass(frozen=True, eq=False)
class Released(Generic[T]):
    """What a run handed back (``value``), with the ``certificate`` that covers it.

    `execute` makes it; its example shows one.
    """

    value: T
    certificate: Certificate


@dataclass(frozen=True, eq=False)
class Drawn(Generic[T]):
    """A ``value`` with figures of its certificate that exist only after a draw (``details``), by mechanism.

    >>> Drawn(3, {Mechanism.RANDOMIZED_RESPONSE: {"edge_count": 17}}).value
    3
    """

    value: T
    details: Mapping[Mechanism, Mapping[str, Any]] = field(default_factory=dict)


class Private(Protocol):
    """Private data as a ledger knows it: a name, and content for a keyed fingerprint."""

    @property
    def name(self) -> str:
        """The name that the owner gave it."""
        ...

    def content(self) -> Iterable[bytes]:
        """The content, the same however it is stored; see `caribou.graph.fingerprint`."""
        ...


class Journal(Protocol):
    """What outlives a crash of a release that can be resumed."""

    def certificate(self, make: Callable[[], Certificate], ledger: Path | None) -> Certificate:
        """The stored certificate, or a new one, written down before it is charged."""
        ...

    @property
    def is_charged(self) -> bool:
        """Whether a run before this one was charged and may have drawn noise: it is finished, and not charged again."""
        ...

    def charged(self) -> None:
        """The cost is in the ledger: from here on noise may be drawn."""
        ...

    def refused(self) -> None:
        """Nothing was charged, so nothing need be kept."""
        ...


def execute(
    plan: ReleasePlan,
    private: Private,
    run: Callable[[N], Drawn[T]],
    *,
    noise: N,
    ledger: LedgerLike | None = None,
    replace_fingerprint: bool = False,
    journal: Journal | None = None,
    link: Link | None = None,
) -> Released[T]:
    """Certify the plan, charge it, run it, and hand the result out with its certificate.

    Formal guarantee: before the first draw of ``run`` the certificate exists and, with a ``ledger``, its cost is durably recorded
    under ``private.name``, or refused with nothing drawn and nothing written. What is handed out costs what was charged: details
    that ``run`` adds cannot change events, scope or epsilon. ``journal``: for a release that a crash must not charge twice.

    Args:
        plan: what is released at which cost, from public numbers.
        private: whose budget pays, and its content for the ledger's keyed fingerprint.
        run: draws noise from the source it is given and returns the value.
        noise: the source of the privacy noise; with a ledger its key must come from the operating system.
        ledger: where the cost is charged; None charges nobody.
        replace_fingerprint: declares that changed content is still about the same people.
        journal: where the certificate is kept until the release is made.
        link: the release that pays for this one, which asks pairs of arrivals alone; the ledger then charges nothing more.

    Returns:
        The value and its certificate.
    """
    # events may promise something where the budget does not: a ledger counts the events
    promises = plan.budget.is_private or 0 < epsilon_of(plan.cost, plan.budget.delta) < math.inf
    if ledger is not None and promises and not noise.is_secret:
        raise InputError(f"noise must come from the operating system when a ledger is given, got {noise.origin}")
    if ledger is not None and not noise.is_new:
        raise InputError(
            "noise must be a new source when a ledger is given (a part of it would repeat), got a used one"
        )
    failing = [a.statement for a in plan.all_assumptions(noise) if not a.holds]
    if ledger is not None and promises and failing:
        # its events hold only under the assumptions that it says do not hold, so they would understate the cost
        raise InputError(
            f"certificate must be a guarantee when a ledger is given, got a void one ({'; '.join(failing)}); release without "
            "the ledger, and record it as one without privacy: caribou ledger add --epsilon inf"
        )
    account = None if ledger is None else Account(ledger, private.name)
    words = _stated_words(private.name, EntryNote() if account is None else account.note)
    plan = replace(plan, public_parameters={**words, **plan.public_parameters})
    certificate = (
        plan.certificate(noise)
        if journal is None
        else journal.certificate(lambda: plan.certificate(noise), None if account is None else account.path)
    )
    if journal is None or not journal.is_charged:
        if account is not None:
            account.charge(certificate, private, plan.description, replace_fingerprint, journal, link)
        if journal is not None:
            journal.charged()
    elif account is not None:
        account.require(certificate)
    drawn = run(noise)
    for mechanism, values in drawn.details.items():
        certificate = certificate.with_details(mechanism, **values)
    if account is not None:
        account.mark_released(certificate)
    return Released(drawn.value, certificate)


def _stated_words(name: str, note: EntryNote) -> dict[str, str]:
    """What an officer looks for first: data set, purpose and period, as the owner calls them. No check reads them.

    Words that no certificate can hold are left out: they decide nothing, so they stop nothing.
    """
    words = {"dataset": name, "purpose": note.purpose, "period": note.period}
    return {key: word for key, word in words.items() if word and word.isprintable()}


def require_left(plan: ReleasePlan, private: Private, ledger: LedgerLike | None) -> None:
    """Refuse a release that its ledger cannot pay for as things stand, before hours of public work. `execute` decides."""
    if ledger is not None:
        Account(ledger, private.name).require_left(plan)


def with_declarations(plan: ReleasePlan, graph: Graph) -> ReleasePlan:
    """The plan with what the owner declares about features, and about a prior that was given.

    At edge level: that no feature was computed from edges, with their names. At node level: the rules by which a table was
    read, as public parameters; rules that were learned from the table are refused.
    """
    if graph.prior is not None:
        plan = replace(plan, assumptions=(*plan.assumptions, Assumption(AssumptionName.GIVEN_PRIOR)))
    if plan.budget.unit is PrivacyUnit.EDGE:
        declared = features_without_edges(graph.num_features, graph.feature_names)
        return replace(plan, assumptions=(*plan.assumptions, declared))
    if graph.column_rules is None:
        return plan
    graph.column_rules.require_declared()
    return replace(plan, public_parameters={**plan.public_parameters, "column_rules": graph.column_rules.to_dict()})


class Account:
    """A ledger and the name of the data set that pays in it.

    A ledger that is there is opened at once, so that a damaged one is refused before any work is done. One that is not there is
    made when something is charged, so that a refused release leaves no file behind.
    """

    def __init__(self, ledger: LedgerLike, name: str) -> None:
        self.name = dataset_name(name)
        self.note = ledger if isinstance(ledger, NotedLedger) else EntryNote()
        if not isinstance(ledger, Ledger) and os.path.lexists(ledger):
            ledger = Ledger(ledger, create=False)
        self._ledger = ledger if isinstance(ledger, Ledger) else None
        self.path = ledger.path if isinstance(ledger, Ledger) else Path(os.path.abspath(ledger))
        if self._ledger is None and not (self.path.parent.is_dir() and os.access(self.path.parent, os.W_OK)):
            raise LedgerError(f"ledger {self.path}: must lie in a folder that exists and can be written")

    def holds(self, certificate: Certificate) -> bool:
        """Whether the certificate is charged here, under this name and at its cost: the same number alone says nothing."""
        return self._entry(certificate) is not None

    def _entry(self, certificate: Certificate) -> LedgerEntry | None:
        wanted = (certificate.certificate_id, self.name, certificate.unit, certificate.cost)
        for entry in () if self._ledger is None else self._ledger.entries():
            if (entry.certificate_id, entry.dataset, entry.unit, entry.events) == wanted:
                return entry
        return None

    def charge(
        self,
        certificate: Certificate,
        private: Private,
        description: str,
        replace_fingerprint: bool,
        journal: Journal | None,
        link: Link | None = None,
    ) -> None:
        """Charge the certificate once, or refuse; one that is there already was charged before a crash.

        A later batch of a release is about the people that the release was about, and those who arrived: it brings the content
        of the name up to date.
        """
        if self.holds(certificate):
            return
        note = self.note
        if link is not None:
            if self._ledger is None:
                raise LedgerError(
                    f"ledger {self.path}: does not exist, so it does not hold certificate {link.extends}, which this batch "
                    "extends; give the ledger that the model was charged in (--ledger)"
                )
            replace_fingerprint, note = True, replace(note, reason=f"extends certificate {link.extends}")
        try:
            ledger = self._ledger = self._ledger or self._new_ledger()
            ledger.charge(
                self.name,
                certificate.unit,
                certificate.cost,
                description=_described(description, certificate),
                fingerprints=_fingerprints(ledger, private),
                replace_fingerprint=replace_fingerprint,
                certificate_id=certificate.certificate_id,
                extends=None if link is None else link.extends,
                note=note,
            )
        except BaseException:
            if journal is not None and not self.holds(certificate):
                journal.refused()
            raise

    def require_left(self, plan: ReleasePlan) -> None:
        """Refuse what the ledger, if there is one, cannot pay for; nothing is written."""
        if self._ledger is not None:
            self._ledger.require(self.name, plan.budget.unit, plan.cost)

    def _new_ledger(self) -> Ledger:
        """A ledger that was deleted, or that lies elsewhere, must not be replaced by an empty one without a word."""
        warnings.warn(
            f"ledger {self.path}: is new, so it knows of no budget and of no earlier release of {self.name!r}",
            stacklevel=2,
        )
        return Ledger(self.path)

    def require(self, certificate: Certificate) -> LedgerEntry:
        """The entry of an interrupted run must still be there: another ledger at the same place knows nothing of it."""
        if self._ledger is None:
            raise LedgerError(f"ledger {self.path}: does not exist, and the interrupted run was charged there")
        entry = self._entry(certificate)
        if entry is None:
            raise LedgerError(
                f"ledger {self.path}: does not hold certificate {certificate.certificate_id}, under which the interrupted run "
                "was charged; give that ledger, or remove the run with --discard"
            )
        return entry

    def mark_released(self, certificate: Certificate) -> None:
        """Note that the release was made; a ledger that has gone since, or lost the entry, is an error."""
        self._ledger = self._ledger or Ledger(self.path, create=False)
        self._ledger.annotate(self.require(certificate).id, "released")


def _fingerprints(ledger: Ledger, private: Private) -> list[str]:
    """Of the content, of the edges alone, of the degrees and of the features."""
    from caribou.graph.fingerprint import degrees_of, edges_of, features_of, whole_of

    content = tuple(private.content())
    parts = {
        Fingerprint.WHOLE: whole_of(content),
        Fingerprint.EDGES: edges_of(content),
        Fingerprint.DEGREES: degrees_of(content),
        Fingerprint.FEATURES: features_of(content),
    }
    return [ledger.fingerprint(part, of=kind) for kind, part in parts.items() if part is not None]


def _described(description: str, certificate: Certificate) -> str:
    """What is released, and for whom the cost is the headline: a ledger shows it beside the entry."""
    limit = certificate.scope.limit
    return description if limit is None else f"{description}; for nodes up to degree {limit}"


# -- embeddings -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Released embeddings, as `release` returns them.

    Args:
        state: X^(K), [n, d], float64, rows in the unit ball.
        certificate: what it cost.

    >>> import caribou as cb
    >>> graph = cb.datasets.load("csbm", nodes=60, seed=1)
    >>> budget, bounds = cb.Budget(4, 1e-5, "edge"), cb.Bounds(degree_floor=10)
    >>> isinstance(cb.release(graph, cb.ContractiveGraphLayer(), hops=1, budget=budget, bounds=bounds), Embeddings)
    True
    """

    state: Tensor  # [n, d], float64, rows in the unit ball
    certificate: Certificate


@needs_training("caribou.release")
def release(
    graph: Graph,
    layer: BoundedLayer,
    *,
    hops: int,
    budget: Budget,
    bounds: Bounds | None = None,
    start: Tensor | np.ndarray | None = None,
    seed: int = 0,
    noise: NoiseSource | None = None,
    ledger: LedgerLike | None = None,
    replace_fingerprint: bool = False,
) -> Embeddings:
    """Release X^(K) of ``graph`` under the whole ``budget``.

    Args:
        graph: the private graph.
        layer: one step of message passing, any of `caribou.layers`.
        hops: K.
        budget: epsilon, delta and the privacy unit.
        bounds: the public degree floor and cap (default: at node level the floor follows from n; at edge level it is 0).
        start: X^(0), [n, d] (default: the features). It must be public at edge level, and a row-wise function of each node's own
            data at node level.
        seed: the public seed, which chooses the edges that survive a degree cap.
        noise: the source of the noise (default: a fresh key from the operating system).
        ledger: charge the cost under ``graph.name`` before any noise is drawn, or refuse.
        replace_fingerprint: declares that a graph whose content has changed is still about the same people.

    Returns:
        The state, [n, d], and its certificate.

    >>> import caribou as cb
    >>> graph = cb.datasets.load("csbm", nodes=200, seed=1)
    >>> result = cb.release(graph, cb.ContractiveGraphLayer(contraction=0.8), hops=8,
    ...                     budget=cb.Budget(4, 1e-5, "edge"), bounds=cb.Bounds(degree_floor=10))
    >>> tuple(result.state.shape), result.certificate.status
    ((200, 32), 'private')
    """
    from caribou.graph import Graph
    from caribou.layers import BoundedLayer
    from caribou.mechanisms.message_passing import check_pairing, propagate, start_of
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.privacy.calibration import budget_mu, calibrate_propagation
    from caribou.privacy.sensitivity import Bounds, declared_bounds
    from caribou.randomness import Streams

    noise = noise or NoiseSource.secure()
    _check_types(
        graph=(graph, Graph),
        layer=(layer, BoundedLayer),
        budget=(budget, Budget),
        bounds=(bounds, (Bounds, type(None))),
        noise=(noise, NoiseSource),
        ledger=(ledger, (Ledger, str, os.PathLike, type(None))),
    )
    n = graph.num_nodes
    bounds = bounds or declared_bounds(budget.unit, nodes=n)
    if bounds.nodes not in (None, n):
        raise InputError(f"nodes must be the number of nodes of the graph, {n}, got {bounds.nodes}")
    warn_of_large_delta(budget, n)
    bounds = Bounds(bounds.degree_floor, bounds.degree_cap, n, bounds.declared_degree)
    x0 = start_of(graph, start)
    columns = x0.shape[-1] if x0.dim() == 2 else 1
    sensitivity = layer.sensitivity(budget.unit, bounds)
    arithmetic = sensitivity.arithmetic(nodes=graph.num_nodes, columns=max(1, columns))
    calibrated = calibrate_propagation(sensitivity, hops=hops, mu=budget_mu(budget), arithmetic=arithmetic)
    operator = layer.operator(graph, bounds, Streams(seed).sampling)
    check_pairing(layer, operator, x0, calibrated)  # before the ledger: a bad argument must not cost budget
    plan = embeddings_plan(budget, calibrated, start="features" if start is None else "given by the curator")
    if start is None:
        plan = with_declarations(plan, graph)
    released = execute(
        plan,
        graph,
        lambda source: Drawn(propagate(layer, operator, x0, calibrated, source)),
        noise=noise,
        ledger=ledger,
        replace_fingerprint=replace_fingerprint,
    )
    return Embeddings(released.value, released.certificate)


def embeddings_plan(budget: Budget, calibrated: Any, *, start: str, resumable: bool = False) -> ReleasePlan:
    """The plan of a release of X^(K), in memory or from files. ``start``: where X^(0) comes from, in words."""
    size = calibrated.arithmetic
    return ReleasePlan(
        budget,
        (message_passing_record(calibrated),),
        released=(f"the last state X^(K), {size.nodes} x {size.columns}, and whatever is computed from it",),
        kind=ReleaseKind.EMBEDDINGS,
        public_parameters={"start": start, "nodes": size.nodes},
        resumable=resumable,
    )


def _check_types(**fields: tuple[object, type | tuple[type, ...]]) -> None:
    """The border: whatever is not of the right type is named, without showing it (it may be private)."""
    for name, (value, kinds) in fields.items():
        if not isinstance(value, kinds):
            wanted = kinds.__name__ if isinstance(kinds, type) else kinds[0].__name__
            raise InputError(f"{name} must be a {wanted}, got {type(value).__name__}")
