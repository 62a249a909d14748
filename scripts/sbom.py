"""The bill of materials of this installation: CycloneDX 1.6 as JSON on stdout. `make sbom`.

Every package that is installed here, with its version, licence and what it needs. Those of hashes/ have as properties the SHA-256
of the files of which one was installed; which of them it was, nothing keeps.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HASHES = Path(__file__).parents[1] / "hashes"
PACKAGE = "caribou-gnn"


def component(found: Distribution, digests: list[str]) -> dict[str, Any]:
    """A package as a component."""
    name, version = canonicalize_name(found.name), found.version
    licence = found.metadata.get("License-Expression") or _classified(found) or found.metadata.get("License", "")[:60]
    return {
        "type": "application" if name == PACKAGE else "library",
        "bom-ref": _place(found),
        "name": name,
        "version": version,
        "purl": _place(found),
        **({"licenses": [{"license": {"name": licence}}]} if licence else {}),
        **({"properties": [{"name": "pinned:sha256", "value": digest} for digest in digests]} if digests else {}),
    }


def _classified(found: Distribution) -> str:
    """The licence as the classifiers of a package name it."""
    words = [
        line.rpartition(" :: ")[2] for line in found.metadata.get_all("Classifier") or () if line.startswith("License")
    ]
    return ", ".join(words)


def _place(found: Distribution) -> str:
    return f"pkg:pypi/{canonicalize_name(found.name)}@{quote(found.version)}"


def needs(found: Distribution, installed: dict[str, Distribution]) -> list[str]:
    """What of the installed packages a package needs, without its extras."""
    asked = map(Requirement, found.requires or ())
    names = {canonicalize_name(one.name) for one in asked if one.marker is None or one.marker.evaluate({"extra": ""})}
    return sorted(_place(installed[name]) for name in names & installed.keys())


def bill() -> dict[str, Any]:
    """The whole document. Its serial number follows from what is installed."""
    installed = {canonicalize_name(found.name): found for found in distributions()}
    listed = "\n".join(file.read_text(encoding="utf-8") for file in sorted(HASHES.glob("*.txt")))
    pinned = {
        canonicalize_name(name): re.findall(r"sha256:([0-9a-f]{64})", lines)
        for name, lines in re.findall(r"^([\w.-]+)==(.+(?:\n +--hash.+)*)", listed, re.MULTILINE)
    }
    ordered = sorted(installed.items())
    components = {name: component(found, pinned.get(name, [])) for name, found in ordered}
    serial = uuid.uuid5(uuid.NAMESPACE_URL, " ".join(_place(found) for _, found in ordered))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": components.pop(PACKAGE)},
        "components": list(components.values()),
        "dependencies": [{"ref": _place(found), "dependsOn": needs(found, installed)} for _, found in ordered],
    }


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=1)
    print()
