"""Move live records and trials (lines of JSON) into their archives (``make pack-records``; ``python reproduction/pack.py``).

python reproduction/pack.py [FOLDER ...]      default: the records and the trials of the paper's evaluation
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from caribou.experiments.journal import LINES, archive_of, pack

HERE = Path(__file__).resolve().parent


def pack_folders(folders: Iterable[Path]) -> list[str]:
    """Pack every journal that has lines; one line of words for each."""
    words = []
    for file in (file for folder in folders for file in sorted(folder.glob(f"[!.]*{LINES}"))):
        before = file.stat().st_size
        count = pack(file)
        size = archive_of(file).stat().st_size
        words.append(f"{archive_of(file)}: {count} records in {size:,} bytes, {before:,} bytes of lines removed")
    return words


if __name__ == "__main__":
    given = [Path(word) for word in sys.argv[1:]] or [HERE / "results", HERE / "experiments" / "trials"]
    print("\n".join(pack_folders(given)) or "nothing to pack")
