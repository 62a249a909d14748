"""``caribou certificate``: print the certificate of a run, show it as a page for whoever signs, or sign it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from caribou.cli.command import argument, command, option, record, switch
from caribou.errors import CaribouError, CertificateError, InputError
from caribou.machine.files import atomic_write
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.certificate import Certificate
from caribou.privacy.signature import NOT_CHECKED, signature_path

if TYPE_CHECKING:
    from caribou.pages.release import PublishedQuality, Quality, Release

METRICS, PAGE = "metrics.json", "certificate.html"
PUBLISHED, PUBLISHED_CERTIFICATE = "published-metrics.json", "published-metrics.certificate.json"


@record
class CertificateOptions:
    """What caribou certificate takes."""

    run: Path = argument("The folder that caribou train --out wrote, or a certificate in JSON.")
    markdown: bool = switch("For people, instead of JSON.")
    html: Path | None = option("Write the release page, for whoever signs, to this file.")
    ledger: Path | None = option("Show what this ledger has on the data set.", needs="--html")
    audit: Path | None = option("The folder of caribou audit --out.", needs="--html")
    metrics: Path | None = option(
        "What caribou train --json printed. At node level it is marked as curator only.", needs="--html"
    )
    key: Path | None = option("Check the signature with this public key (PEM).", needs="--html")
    purpose: str | None = option("What the release is for.", needs="--html")
    owner: str | None = option("Who owns the data.", needs="--html")
    sign: Path | None = option("Sign it with this private key (PEM, Ed25519) and write the signature beside it.")


@command
def certificate(given: CertificateOptions) -> None:
    """Print the certificate of a run, write its release page, or sign it. caribou verify RUN recomputes it.

    The release page says in plain words what is protected and what is not. Exit code 3: the certificate does not verify; the page
    is written all the same, and says so first.

    The signature is written to certificate.json.sig. The passphrase of an encrypted key is taken from CARIBOU_KEY_PASSPHRASE. A
    certificate that does not verify is not signed.

    Example: caribou certificate run --html release.html
    """
    from caribou.cli.verify import certificate_file, read_bytes

    if sum((given.markdown, given.html is not None, given.sign is not None)) > 1:
        raise InputError(
            "markdown, html and sign must not go together: give one of --markdown, --html FILE and --sign KEY"
        )
    path = certificate_file(given.run)
    data = read_bytes(path)
    found = Certificate.from_json(data, source=str(path))
    if given.html is not None:
        _write_page(given, path, data, found, given.html)
    elif given.sign is None:
        typer.echo(found.to_markdown() if given.markdown else found.to_json(), nl=False)
    else:
        _sign(given.run, path, data, found, given.sign)


def _sign(run: Path, path: Path, data: bytes, found: Certificate, key: Path) -> None:
    from caribou.cli.verify import read_bytes
    from caribou.model.state import RECORD
    from caribou.privacy.signature import write_signature

    _require_verified(found, path)
    if run.is_dir():
        # the record holds the digests of all arrays: a signed certificate beside other arrays would vouch for them
        record = run / RECORD
        write_signature(record, read_bytes(record), key)
    target, signer = write_signature(path, data, key)
    typer.echo(f"signed {path} as {signer}: {target}")


def _require_verified(found: Certificate, path: Path) -> None:
    """A signature vouches for a claim. What claims nothing (no privacy) may be signed, too."""
    from caribou.privacy.verify import verify

    failing = [check for check in verify(found).checks if not check.passed] if found.is_private else []
    if failing:
        raise InputError(
            f"certificate must verify to be signed, got {path}, in which {failing[0].name} fails; see caribou verify"
        )


# -- the release page -------------------------------------------------------------------------------------------------


def _write_page(given: CertificateOptions, path: Path, data: bytes, found: Certificate, html: Path) -> None:
    from caribou.cli.verify import EXIT_CLAIM_FAILS, signature_of
    from caribou.pages.audit import audit_figures
    from caribou.pages.base import write_page
    from caribou.pages.release import Quality, release_page

    key, audit = given.key, given.audit
    release = replace(
        known_release(given.run, found, given.ledger),
        signature=NOT_CHECKED if key is None else signature_of(given.run, data, signature_path(path), key),
        audit=None if audit is None else audit_figures(_document(audit / "audit.json", "audit")),
        purpose=given.purpose,
        owner=given.owner,
    )
    if given.metrics is not None:
        release = replace(release, quality=Quality.read(_document(given.metrics, "metrics"), found))
    write_page(html, release_page(release))
    typer.echo(f"{html}: {found.status}, {'verified' if release.is_trusted else 'NOT VERIFIED'}")
    if not release.is_trusted:
        raise typer.Exit(EXIT_CLAIM_FAILS)


def write_release_page(folder: Path, ledger: Path | None) -> None:
    """The release page of a run that was just saved, beside its certificate. What was paid for is safe if that fails."""
    from caribou.pages.release import release_page

    try:
        found = Certificate.load(folder / "certificate.json")
        atomic_write(folder / PAGE, release_page(known_release(folder, found, ledger)))
    except (OSError, CaribouError) as error:
        typer.echo(f"warning: no release page: {error}; caribou certificate {folder} --html FILE writes one", err=True)


def known_release(run: Path, found: Certificate, ledger: Path | None) -> Release:
    """What the folder of a run, or a certificate alone, and a ledger tell about a release."""
    from caribou.model.state import read_state
    from caribou.pages.release import Account, Release
    from caribou.privacy.ledger import Ledger
    from caribou.privacy.verify import verify

    saved = read_state(run) if run.is_dir() else None
    account = None
    if ledger is not None:
        name = None if saved is None else saved.dataset
        account = Account.of(Ledger(ledger, create=False), found, name, datetime.now(UTC))
    return Release(
        found,
        verify(found),
        run=saved,
        account=account,
        quality=kept_metrics(run, found),
        published=published_metrics(run),
    )


def _document(path: Path, field: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{field} must be a JSON file that can be read (--{field}), got {str(path)!r}: {error}"
        ) from error


def keep_metrics(folder: Path, found: Certificate, test_metrics: dict[str, Any]) -> None:
    """Store metrics beside a run, for its page: at edge level, where labels are public. At node level nothing is kept."""
    if found.unit is PrivacyUnit.EDGE:
        about = {"certificate": {"certificate_id": found.certificate_id}, "accuracies_may_be_published": True}
        atomic_write(folder / METRICS, json.dumps({**about, "test_metrics": test_metrics}, indent=2) + "\n")


def kept_metrics(run: Path, found: Certificate) -> Quality | None:
    """The metrics beside a run, if train kept any: never those that are for the curator alone."""
    from caribou.pages.release import Quality

    if not (run / METRICS).is_file():
        return None
    quality = Quality.read(_document(run / METRICS, "metrics"), found)
    return None if quality.curator_only else quality


def published_metrics(run: Path) -> PublishedQuality | None:
    """Metrics with noise beside a run, with their own certificate."""
    from caribou.pages.release import PublishedQuality
    from caribou.privacy.verify import verify

    if not ((run / PUBLISHED).is_file() and (run / PUBLISHED_CERTIFICATE).is_file()):
        return None
    shown = _document(run / PUBLISHED, "published-metrics")
    own = Certificate.load(run / PUBLISHED_CERTIFICATE)
    if not isinstance(shown, dict) or shown.get("certificate_id") != own.certificate_id:
        raise CertificateError(f"{run / PUBLISHED} must be about the certificate beside it, got another")
    return PublishedQuality(shown, own, verify(own).passed)
