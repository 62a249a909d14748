"""The catalogue of attacks: what each sees, which promise it tests, and whether it can reject a claim.

It imports nothing heavy, so that `caribou audit --list` answers at once. `caribou.audit.auditor.ATTACKS` loads the attacks by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from caribou._validate import MAX_RUNS, MAX_WORKERS, integer, open_unit_interval
from caribou.errors import InputError
from caribou.privacy.budget import PrivacyUnit


class Promise(StrEnum):
    """Which promise an attack puts to the test."""

    CLAIM = "claim"
    """The claimed epsilon or mu itself: the attack proves a lower bound, and may reject the claim."""
    POST_PROCESSING = "post-processing"
    """That private values leave through the noise alone, and move by no more than it hides."""
    RATES = "rates"
    """The true positive rates that a certificate allows: the attack draws who is a member, and measures."""
    NONE = "none"
    """No promise: the data decide who is a member, so that public data alone may tell as much as a leak."""


TESTED: Mapping[Promise, str] = {
    Promise.CLAIM: "the claim",
    Promise.POST_PROCESSING: "whether private values leave through the noise alone, and how far they move under it",
    Promise.RATES: "the rates that the certificate allows: it measures",
    Promise.NONE: "no promise: it measures",
}
"""What an attack tests, in words."""


@dataclass(frozen=True)
class Entry:
    """One attack. ``home``: module and class; ``sees``: what the adversary gets; ``runs``: how many it takes, in words."""

    home: str
    sees: str
    promise: Promise
    units: frozenset[PrivacyUnit]
    needs_graph: bool
    runs: str

    @property
    def rejects(self) -> bool:
        """Whether it can reject a claim."""
        return self.promise in (Promise.CLAIM, Promise.POST_PROCESSING)

    def cells(self, name: str) -> tuple[str, ...]:
        """The row of a table: `COLUMNS`."""
        units = ", ".join(sorted(unit.value for unit in self.units))
        rejects = "yes" if self.rejects else "no"
        return name, self.sees, units, TESTED[self.promise], rejects, "yes" if self.needs_graph else "no", self.runs


MIN_RUNS = 40
"""Of a game, on each graph."""
COLUMNS = ("attack", "the adversary sees", "unit", "tests", "can reject", "needs a graph", "typical runs")
BOTH, EDGE = frozenset(PrivacyUnit), frozenset({PrivacyUnit.EDGE})
CATALOGUE: Mapping[str, Entry] = {
    "distinguish": Entry(
        "distinguish:Distinguish",
        "everything handed out: weights, released arrays, predictions, certificate",
        Promise.CLAIM,
        BOTH,
        False,
        "200 to 3,800 per graph (Gaussian), 920 to 56,000 (pure)",
    ),
    "noise-replay": Entry(
        "noise_replay:NoiseReplay",
        "everything handed out, and every value under the noise",
        Promise.POST_PROCESSING,
        BOTH,
        False,
        "2 fits and 132 predictions, or two fits per pair",
    ),
    "onerun": Entry(
        "onerun:CanaryRun",
        "tables with a row per node, lists of pairs, and how far an edge moves them",
        Promise.CLAIM,
        EDGE,
        True,
        "9 fits",
    ),
    "linkteller": Entry(
        "linkteller:LinkTeller", "predictions, asked with changed features", Promise.NONE, BOTH, True, "3 fits"
    ),
    "gmia": Entry("gmia:Gmia", "predictions, and a shadow model of its own", Promise.NONE, BOTH, True, "6 fits"),
    "lira": Entry(
        "lira:Lira", "predictions of fits with and without each target", Promise.RATES, BOTH, True, "16 fits"
    ),
}
"""In the order in which an audit makes them. Attacks read their own facts here."""


def check_order(attacks: Sequence[str], runs: int | None, confidence: float, workers: int | None) -> None:
    """Whether an audit can be made as it is asked for; `caribou.audit.auditor.Audit` says what the arguments are.

    >>> check_order(("lira",), 10, 0.95, None)
    Traceback (most recent call last):
        ...
    caribou.errors.InputError: runs must be a whole number in [40, 10000000], got 10
    """
    unknown = sorted(set(attacks) - set(CATALOGUE))
    if unknown or not attacks:
        raise InputError(f"attack must be one of {', '.join(CATALOGUE)}, got {', '.join(unknown) or 'none'}")
    open_unit_interval(confidence=confidence)
    if runs is not None:
        integer(at_least=MIN_RUNS, at_most=MAX_RUNS, runs=runs)
    if workers is not None:
        integer(at_least=1, at_most=MAX_WORKERS, workers=workers)
