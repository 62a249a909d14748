"""Where the cost of a release from files is booked: a ledger that is there, or one that is made with its first entry."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from caribou.errors import LedgerError
from caribou.privacy.certificate import Certificate
from caribou.privacy.ledger import Ledger, ledger_text


class Booking:
    """A ledger and the name of the data set in it.

    A ledger that is there is opened at once, so that a damaged one is refused before any work is done. One that is not there is
    made when something is booked in it, so that a refused release leaves no file behind.
    """

    def __init__(self, ledger: Ledger | str | os.PathLike[str], name: str) -> None:
        self.name = ledger_text(dataset=name)
        if not isinstance(ledger, Ledger) and os.path.lexists(ledger):
            ledger = Ledger(ledger, create=False)
        self._ledger = ledger if isinstance(ledger, Ledger) else None
        self.path = ledger.path if isinstance(ledger, Ledger) else Path(os.path.abspath(ledger))
        if self._ledger is None and not (self.path.parent.is_dir() and os.access(self.path.parent, os.W_OK)):
            raise LedgerError(f"ledger {self.path}: must lie in a folder that exists and can be written")

    def holds(self, certificate: Certificate) -> bool:
        """Whether the certificate is booked."""
        if self._ledger is None:
            return False
        return any(release.certificate_id == certificate.certificate_id for release in self._ledger.releases())

    def charge(
        self, certificate: Certificate, content: Iterable[bytes], *, description: str, replace_fingerprint: bool
    ) -> None:
        """Book the certificate, or refuse; ``content``: the private content, for the keyed hash (`Ledger.fingerprint`)."""
        self._ledger = self._ledger or Ledger(self.path)
        self._ledger.charge(
            self.name,
            certificate.unit,
            certificate.events,
            description=description,
            fingerprint=self._ledger.fingerprint(content),
            replace_fingerprint=replace_fingerprint,
            certificate_id=certificate.certificate_id,
        )

    def mark_released(self, certificate: Certificate) -> None:
        """Note in the ledger that the release was made; a ledger that has gone since is an error, never made anew."""
        ledger = self._ledger or Ledger(self.path, create=False)
        for release in ledger.releases(self.name):
            if release.certificate_id == certificate.certificate_id:
                ledger.annotate(release.id, "released")
