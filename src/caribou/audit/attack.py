"""What an attack is: what it is asked, what it answers, and what all attacks share.

An attack is a frozen record of its settings. What it sees and which promise it tests stands in the `CATALOGUE`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from caribou._validate import MAX_RUNS, integer
from caribou.audit.catalogue import CATALOGUE, Entry
from caribou.audit.evidence import Proof
from caribou.audit.metrics import AttackResult

if TYPE_CHECKING:
    from caribou.audit.audited_method import AuditedMethod

Progress = Callable[[str, int, int, float], None]
"""Called with the name of a part, its steps done and planned, and the largest epsilon proven so far."""


@dataclass(frozen=True)
class Forecast:
    """What an attack will take, at most: fits, and runs on both graphs of its games; fits for the claim are shared by all."""

    fits: int
    runs: int = 0


def no_progress(name: str, done: int, planned: int, epsilon: float) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class Terms:
    """The terms on which an attack is made.

    ``runs``: None = as many as the attack takes by default. ``confidence``: of each lower bound that it proves. ``workers``:
    processes that may play runs side by side. ``progress``: called as the attack goes on.

    >>> Terms(runs=400).confidence
    0.95
    """

    runs: int | None = None
    confidence: float = 0.95
    workers: int = 1
    progress: Progress = no_progress


@dataclass(frozen=True, eq=False)
class Findings:
    """What an attack found, by the name of its part: rates that it ``measured``, and lower bounds that it proved (``proofs``).

    ``skipped``: parts that were not made, and why. ``notes``: what else a reader must know, one sentence each. ``untried``: what
    no game has tried; a verdict without a rejection says it. ``broken``: promises that are broken, whatever games show.

    >>> Findings(skipped={"onerun": "it judges claims at edge level"}).proofs
    {}
    """

    measured: Mapping[str, AttackResult] = field(default_factory=dict)
    proofs: Mapping[str, Proof] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()


class Attack(ABC):
    """One attack on a method under audit.

    ``name``: as a user types it. An attack that is not in the catalogue states its own ``facts``.
    """

    name: ClassVar[str]

    @property
    def facts(self) -> Entry:
        """What it sees, which promise it tests, and what it can be made on."""
        return CATALOGUE[self.name]

    @abstractmethod
    def forecast(self, audited: AuditedMethod, terms: Terms) -> Forecast:
        """What it takes on these terms, if no game stops early."""

    @abstractmethod
    def run(self, audited: AuditedMethod, terms: Terms) -> Findings:
        """Make the attack. A graph that does not suit it is an `InputError`."""

    def games(self, audited: AuditedMethod) -> int:
        """How many lower bounds it proves; each takes an equal share of the error of an audit."""
        return 0


class MeasuringAttack(Attack):
    """An attack that fits the method on the graph of the user several times, and measures rates. It proves no bound."""

    default_runs: ClassVar[int] = 3
    least_runs: ClassVar[int] = 1
    fits_per_run: ClassVar[int] = 1

    def forecast(self, audited: AuditedMethod, terms: Terms) -> Forecast:
        """The same number of fits in every run."""
        return Forecast(self.fits_per_run * (terms.runs or self.default_runs))

    def wanted_runs(self, terms: Terms) -> int:
        """How many runs these terms ask for."""
        return (
            self.default_runs
            if terms.runs is None
            else integer(at_least=self.least_runs, at_most=MAX_RUNS, runs=terms.runs)
        )

    def each_run(self, terms: Terms) -> Iterator[int]:
        """The numbers of the runs; progress is told after each."""
        runs = self.wanted_runs(terms)
        for run in range(runs):
            yield run
            terms.progress(self.name, run + 1, runs, 0.0)
