"""What every attack is asked, and what every attack answers: the same two records, whatever is attacked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from caribou.audit.evidence import Proof
from caribou.audit.metrics import AttackResult

Progress = Callable[[str, int, int, float], None]
"""Called with the name of a part, its steps done and planned, and the largest epsilon proven so far."""


@dataclass(frozen=True)
class Forecast:
    """What an attack will take, at most: fits, runs on both graphs of its games, and seconds."""

    attack: str
    fits: int
    runs: int
    seconds: float


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
    no game has tried; a verdict without a rejection says it.

    >>> Findings(skipped={"onerun": "it judges claims at edge level"}).proofs
    {}
    """

    measured: Mapping[str, AttackResult] = field(default_factory=dict)
    proofs: Mapping[str, Proof] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
