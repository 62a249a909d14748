"""Known vulnerabilities of what constraints.txt pins, by pip-audit. `make vulnerabilities`.

python scripts/vulnerabilities.py PIP_AUDIT      the program

Exit code 1: some are known. Exit code 2: not every package could be looked up, so nothing is said.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FILE = Path(__file__).parents[1] / "constraints.txt"
UNKNOWN = "the database of known vulnerabilities cannot be asked: it needs a network"


def main(program: str) -> int:
    """Ask about every pinned version, and print what is found."""
    pinned = sorted(re.findall(r"^[\w.-]+==[^\s\\]+", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pinned.txt"
        file.write_text("\n".join(pinned), encoding="utf-8")
        command = [program, "--requirement", str(file), "--no-deps", "--disable-pip", "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        found = []
    asked = [one for one in found if "skip_reason" not in one]
    known = [f"{one['name']} {one['version']}: {each['id']}" for one in asked for each in one["vulns"]]
    if not asked:
        print(f"error: {UNKNOWN}", file=sys.stderr)
        return 2
    print("\n".join([*known, f"{len(asked)} of {len(pinned)} packages looked up, {len(known)} vulnerabilities known"]))
    return 1 if known else 2 if len(asked) < len(pinned) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
