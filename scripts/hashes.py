"""Write the SHA-256 of every file that may be installed into hashes/, by what needs it. `make hashes`.

python scripts/hashes.py [INDEX]      default: the index that pip asks

The versions are those of constraints.txt: change one there, and run this in an environment that has it. Counted are wheels of
CPython 3.11 to 3.14 for Linux, macOS and Windows, and the source where there is no wheel. torch is left out: its builds with and
without CUDA share a version, and each has files of its own.
"""

from __future__ import annotations

import re
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
VERSIONS, HASHES = ROOT / "constraints.txt", ROOT / "hashes"
PACKAGE, WITHOUT_HASHES, BUILDS = "caribou-gnn", "torch", {"setuptools"}
PARTS = {"core": (), "train": ("train",), "work": ("train", "docs", "test", "dev")}
"""Files, and the extras whose packages are in them or in a file before."""
WORDS = {
    "core": "the core and what builds it",
    "train": "training, but torch",
    "work": "tests, documentation and checks",
}
HEADER = "# Written by `make hashes` from constraints.txt: {}.\n"
_LINK = re.compile(r'href="[^"]*#sha256=(?P<digest>[0-9a-f]{64})"[^>]*>(?P<name>[^<]+)</a>')
_PYTHON = re.compile(r"-((py2\.)?py3|cp3(?P<k>1[1-4])-cp3(?P=k)|cp3\d+-abi3|cp31[1-4]-none)-")
_SYSTEM = re.compile(
    r"-(any|manylinux\w*(x86_64|aarch64)[.\w]*|macosx\w*(x86_64|arm64|universal2)[.\w]*|win_amd64)\.whl$"
)


def pins(text: str) -> dict[str, str]:
    """The versions of a file of constraints, by name."""
    return dict(re.findall(r"^([\w.-]+)==([^\s\\]+)", text, flags=re.MULTILINE))


def needed(extras: Iterable[str]) -> set[str]:
    """All that the package needs with these extras here, by canonical names; other systems need no more than is pinned."""
    found: set[str] = set()
    waiting = [(PACKAGE, frozenset(extras))]
    while waiting:
        name, wanted = waiting.pop()
        try:
            lines = requires(name) or []
        except PackageNotFoundError:  # of another system
            continue
        for one in map(Requirement, lines):
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in (*wanted, "")):
                key = canonicalize_name(one.name)
                if key not in found or one.extras:
                    found.add(key)
                    waiting.append((key, frozenset(one.extras)))
    return found


def digests(name: str, version: str, page: str) -> list[str]:
    """The SHA-256 of the files of a version that somebody may install, from its page in an index."""
    files = {found["name"]: found["digest"] for found in _LINK.finditer(page)}
    start = re.compile(rf"{re.sub('[-_.]+', '[-_.]+', name)}-{re.escape(version)}(-|\.tar\.gz$|\.zip$)", re.IGNORECASE)
    own = {file: digest for file, digest in files.items() if start.match(file)}
    wheels = [digest for file, digest in own.items() if _PYTHON.search(file) and _SYSTEM.search(file)]
    return sorted(wheels or own.values())


def written(versions: dict[str, str], hashes: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """The files by their names. ``hashes``: by package; a package that has none is left out."""
    left = {name for name in versions if hashes[name]}
    for part, extras in PARTS.items():
        names = needed(extras) | BUILDS
        own = [name for name in versions if name in left and (part == "work" or canonicalize_name(name) in names)]
        left -= set(own)
        lines = [
            " \\\n    ".join([f"{name}=={versions[name]}", *(f"--hash=sha256:{one}" for one in hashes[name])])
            for name in own
        ]
        yield f"{part}.txt", HEADER.format(WORDS[part]) + "\n".join(lines) + "\n"


def main(index: str) -> None:
    """Read the index, and write the files."""
    versions = pins(VERSIONS.read_text(encoding="utf-8"))

    def asked(name: str) -> list[str]:
        if name == WITHOUT_HASHES:
            return []
        with urllib.request.urlopen(f"{index.rstrip('/')}/{canonicalize_name(name)}/") as answer:
            found = digests(name, versions[name], answer.read().decode())
        if not found:
            raise SystemExit(f"index must have files of {name} {versions[name]}, got none")
        return found

    with ThreadPoolExecutor(8) as pool:
        hashes = dict(zip(versions, pool.map(asked, versions), strict=True))
    for name, text in written(versions, hashes):
        (HASHES / name).write_text(text, encoding="utf-8")
    print(f"{HASHES.name}: {len(versions)} packages, {sum(map(len, hashes.values()))} files")


if __name__ == "__main__":
    from pip._internal.models.index import PyPI

    main(sys.argv[1] if len(sys.argv) > 1 else PyPI.simple_url)
