"""Where tables lie: a path of this machine, or an address of an object store (``s3://``, ``gs://``, and whatever fsspec knows).

Credentials come from the environment, as the libraries of the stores look for them. An address that holds one is refused, and no
message shows a secret of the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from caribou.errors import DataError, InputError

_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


@dataclass(frozen=True)
class Place:
    """A file or folder: ``name`` for messages, ``path`` inside ``filesystem`` (of pyarrow)."""

    name: str
    path: str
    filesystem: Any

    @property
    def suffix(self) -> str:
        """The ending of the name, in small letters."""
        return PurePosixPath(self.path).suffix.lower()

    def kind(self) -> str:
        """``file``, ``folder`` or ``nothing``."""
        from pyarrow.fs import FileType

        with readable(self.name):
            found = self.filesystem.get_file_info(self.path).type
        return {FileType.File: "file", FileType.Directory: "folder"}.get(found, "nothing")

    def inside(self, *names: str) -> Place:
        """A file or folder of this folder."""
        return Place("/".join((self.name, *names)), "/".join((self.path, *names)), self.filesystem)

    def files(self) -> list[Place]:
        """All files of a folder and of its folders, in the order of their names; what begins with a point or _ is no data."""
        from pyarrow.fs import FileSelector, FileType

        root = self.path.rstrip("/")
        with readable(self.name):
            found = self.filesystem.get_file_info(FileSelector(root, recursive=True))
        start = len(root.strip("/"))  # some filesystems put a / in front of what they find
        paths = [info.path.lstrip("/")[start:].strip("/") for info in found if info.type == FileType.File]
        base = Place(self.name.rstrip("/"), root, self.filesystem)
        parts = sorted(path.split("/") for path in paths)
        return [base.inside(*names) for names in parts if not any(name[:1] in "._" for name in names)]

    def stamp(self) -> list[Any]:
        """Name, size, time of change and, of an object, its entity tag: enough to see that it is not what it was."""
        from pyarrow.fs import LocalFileSystem, PyFileSystem

        with readable(self.name):
            info, tag = self.filesystem.get_file_info(self.path), None
            if isinstance(self.filesystem, PyFileSystem):
                tag = self.filesystem.handler.fs.ukey(self.path)
            elif not isinstance(self.filesystem, LocalFileSystem):
                with self.filesystem.open_input_stream(self.path) as stream:
                    tag = (stream.metadata() or {}).get("ETag")
        return [self.name, info.size, info.mtime_ns, tag.decode(errors="replace") if isinstance(tag, bytes) else tag]

    def open(self) -> Any:
        """The file for reading at any place."""
        with readable(self.name):
            return self.filesystem.open_input_file(self.path)


def located(source: str | Path) -> Place:
    """The place that a path or an address names; nothing is read.

    >>> located("edges.parquet").suffix
    '.parquet'
    """
    from pyarrow.fs import LocalFileSystem

    text = str(source)
    if not _SCHEME.match(text):
        return Place(text, text, LocalFileSystem())
    _require_no_secret(text)
    scheme, _, rest = text.partition("://")
    if scheme.lower() == "file":
        if not rest.startswith("/"):
            raise InputError(f"file:// must be followed by an absolute path (file:///data/edges), got {text!r}")
        return Place(rest, rest, LocalFileSystem())
    with readable(text):
        return Place(text, rest.rstrip("/"), _filesystem(scheme.lower(), text, rest))


def is_address(source: str | Path) -> bool:
    """Whether a source is in an object store.

    >>> is_address("s3://bank/edges"), is_address("edges.npy")
    (True, False)
    """
    return bool(_SCHEME.match(str(source)))


def without_secrets(message: str) -> str:
    """A message of a library in one line, without credentials of the environment or of an address."""
    words = " ".join(message.split())
    for name in _SECRETS:
        if secret := os.environ.get(name):
            words = words.replace(secret, "***")
    return re.sub(r"://[^/\s@]*@", "://***@", words)


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Errors of a filesystem become one line that names the source."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{name}: cannot be read: {without_secrets(str(error))[:300]}") from None


def _require_no_secret(text: str) -> None:
    """User and password, a signature, a key: an address stands in shells, records and messages, and must hold none."""
    scheme, _, rest = text.partition("://")
    if "@" in rest.partition("/")[0] or "?" in rest or "#" in rest:
        shown = f"{scheme}://{re.split('[?#]', rest.rpartition('@')[2])[0]}"
        raise InputError(
            f"an address must hold neither credentials nor options (no @ before the path, no ? and no #), got one like {shown}: "
            "give them in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL; "
            "GOOGLE_APPLICATION_CREDENTIALS)"
        )


def _filesystem(scheme: str, text: str, rest: str) -> Any:
    from pyarrow import fs

    if not urlsplit(text).netloc and scheme in ("s3", "gs"):
        raise InputError(f"an address must name a bucket ({scheme}://BUCKET/FOLDER), got {text!r}")
    if scheme == "s3":
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if not region and not endpoint:
            region = fs.resolve_s3_region(rest.partition("/")[0])
        return fs.S3FileSystem(region=region or None, endpoint_override=endpoint or None)
    if scheme == "gs":
        return fs.GcsFileSystem()
    try:
        import fsspec

        found = fsspec.filesystem(scheme)
    except ImportError as error:
        raise InputError(f"{scheme}:// needs a package that is not installed: {error}") from None
    except ValueError:
        raise InputError(
            f"an address must begin with s3://, gs://, file:// or a scheme that fsspec knows, got {scheme}://"
        ) from None
    return fs.PyFileSystem(fs.FSSpecHandler(found))
