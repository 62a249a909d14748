"""A pre-commit hook: refuse files of more than 300 kB, but for packed records."""

from __future__ import annotations

import sys
from pathlib import Path

LIMIT_BYTES = 300_000
RECORDS = "reproduction/results/"


def too_large(names: list[str]) -> list[str]:
    """One line per file above the limit; what is not a regular file (deleted, a link to nowhere) is passed over."""
    sizes = {name: Path(name).stat().st_size for name in names if Path(name).is_file() and not name.startswith(RECORDS)}
    return [f"{name}: {size:,} bytes, at most {LIMIT_BYTES:,}" for name, size in sizes.items() if size > LIMIT_BYTES]


if __name__ == "__main__":
    findings = too_large(sys.argv[1:])
    for finding in findings:
        print(finding)
    sys.exit(1 if findings else 0)
