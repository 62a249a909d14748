"""``caribou certificate``: print the certificate of a run, show it as a page for whoever signs, or sign it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from caribou.cli.command import argument, command, option, record, switch
from caribou.errors import CaribouError, InputError
from caribou.machine.files import atomic_write
from caribou.privacy.certificate import Certificate
from caribou.privacy.signature import NOT_CHECKED, signature_path

PAGE = "certificate.html"


@record
class CertificateOptions:
    """What caribou certificate takes."""

    run: Path = argument("The folder that caribou train --out wrote, or a certificate in JSON.")
    markdown: bool = switch("For people, instead of JSON.")
    html: Path | None = option("Write the release page, for whoever signs, to this file.")
    ledger: Path | None = option("Show what this ledger has on the data set.", needs="--html")
    audit: Path | None = option("The folder of caribou audit --out.", needs="--html")
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
    from caribou.model.verify import verify

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
    from caribou.pages.release import known_release, release_page

    key, audit = given.key, given.audit
    release = replace(
        known_release(given.run, found, given.ledger),
        signature=NOT_CHECKED if key is None else signature_of(given.run, data, signature_path(path), key),
        audit=None if audit is None else audit_figures(audit),
        purpose=given.purpose,
        owner=given.owner,
    )
    write_page(html, lambda: release_page(release))
    typer.echo(f"{html}: {found.status}, {'verified' if release.is_trusted else 'NOT VERIFIED'}")
    if not release.is_trusted:
        raise typer.Exit(EXIT_CLAIM_FAILS)


def write_release_page(folder: Path, ledger: Path | None) -> None:
    """The release page of a run that was just saved, beside its certificate. What was paid for is safe if that fails."""
    from caribou.pages.release import known_release, release_page

    try:
        found = Certificate.load(folder / "certificate.json")
        atomic_write(folder / PAGE, release_page(known_release(folder, found, ledger)))
    except (OSError, CaribouError) as error:
        typer.echo(f"warning: no release page: {error}; caribou certificate {folder} --html FILE writes one", err=True)
