"""The protocol of an attack, and all attacks by name.

An attack is a frozen record of settings. It needs no base class: whatever has these members is an attack.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from caribou.audit.audited_method import AuditedMethod
from caribou.audit.catalogue import CATALOGUE, Promise
from caribou.audit.distinguish import Distinguish
from caribou.audit.findings import Findings, Terms
from caribou.audit.gmia import Gmia
from caribou.audit.linkteller import LinkTeller
from caribou.audit.lira import Lira
from caribou.audit.noise_replay import NoiseReplay
from caribou.audit.onerun import CanaryRun
from caribou.audit.similarity import Similarity
from caribou.privacy.budget import PrivacyUnit


class Attack(Protocol):
    """One attack on a method under audit."""

    @property
    def name(self) -> str:
        """As a user types it."""
        ...

    @property
    def promise(self) -> Promise:
        """What it puts to the test."""
        ...

    @property
    def units(self) -> frozenset[PrivacyUnit]:
        """The privacy units of the methods that it can be made on."""
        ...

    @property
    def needs_graph(self) -> bool:
        """Whether it attacks a graph of the user, and not worst-case pairs of its own."""
        ...

    def fits(self, audited: AuditedMethod, terms: Terms) -> int:
        """How often it fits the method on these terms, at most; fits from which the claim is read are shared by all attacks."""
        ...

    def seconds(self, audited: AuditedMethod, terms: Terms) -> float:
        """How long it will take, about."""
        ...

    def games(self, audited: AuditedMethod) -> int:
        """How many lower bounds it proves; each takes an equal share of the error of an audit."""
        ...

    def run(self, audited: AuditedMethod, terms: Terms) -> Findings:
        """Make the attack. A graph that does not suit it is an `InputError`."""
        ...


_ALL: tuple[Attack, ...] = (
    Distinguish(),
    NoiseReplay(),
    CanaryRun(),
    LinkTeller(),
    Similarity(),
    Gmia(),
    Lira(),
)
ATTACKS: Mapping[str, Attack] = {name: {attack.name: attack for attack in _ALL}[name] for name in CATALOGUE}
"""In the order in which an audit makes them."""
