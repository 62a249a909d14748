"""A hook of mkdocs: pages that the site shows in a frame, made by the library when the site is built, and dark pictures.

The planner is for 1,000 nodes. The release page and the ledger are those of a real run on the generated
bank of README.md. Pictures of Matplotlib get a twin in the colours of a dark ground, and a page shows the one that fits.
"""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from caribou.pages.palette import COLOURS, DARK_COLOURS, OTHER_COLOUR, OTHER_DARK_COLOUR
from caribou.pages.pictures import INK

ROOT = Path(__file__).parents[2]
PLANNER, RELEASE, LEDGER = "pages/planner.html", "pages/release.html", "pages/ledger.html"
COMMANDS = """
datasets write fraud bank
ledger budget transfers --epsilon 8 --unit edge --per year --ledger ledger.sqlite
train votes-edp --graph bank/transfers.csv --nodes bank/accounts.csv --epsilon 4 --out fraud-run --ledger ledger.sqlite
    --drop-unknown-ids --unknown unknown --ignore opened --category segment --fill "*=indicator"
certificate fraud-run --html release.html --ledger ledger.sqlite --purpose "fraud scores" --owner "a generated bank"
ledger show --html ledger.html --ledger ledger.sqlite
"""
"""What makes the samples; a line that is indented goes on with the one before."""
DARK_INK, GRID, DARK_GRID = "#f5f5f4", "#78716c", "#a8a29e"
_IMAGE = re.compile(r'<img [^>]*src="(?P<path>[^"]+)\.svg"[^>]*>')


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the pages and the dark pictures to the files of the site."""
    from mkdocs.structure.files import File

    for name, text in {**sample_pages(), **dark_pictures(Path(config.docs_dir))}.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_content(text: str, page: Any, files: Any, **_: Any) -> str:
    """Every picture that has a dark twin, as both: the theme shows one of them."""
    from posixpath import dirname, join, normpath

    def both(found: re.Match[str]) -> str:
        path = found["path"]
        if files.get_file_from_path(normpath(join(dirname(page.file.dest_uri), f"{path}-dark.svg"))) is None:
            return found[0]
        light, dark = (
            found[0].replace(f"{path}.svg", target)
            for target in (f"{path}.svg#only-light", f"{path}-dark.svg#only-dark")
        )
        return light + dark

    return _IMAGE.sub(both, text)


@functools.cache
def sample_pages() -> dict[str, str]:
    """The pages by their place in the site."""
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS.replace("\n    ", " ").strip().splitlines():
            run(shlex.split(command), folder)
        found = {name: (Path(folder) / Path(name).name).read_text(encoding="utf-8") for name in (RELEASE, LEDGER)}
    return {PLANNER: planner(), **found}


def run(arguments: list[str], folder: str) -> None:
    """One command of ``caribou``, in a process of its own; what it prints is shown only if it fails."""
    program = [sys.executable, "-c", "from caribou.cli import main; main()", *arguments]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"caribou {shlex.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def planner() -> str:
    """The planner for a graph of 1,000 nodes."""
    import caribou as cb
    from caribou.pages.planner import page

    return page(cb.plan(4, 1e-5, nodes=1000))


def dark_pictures(docs: Path) -> dict[str, str]:
    """The dark twins of all pictures that Matplotlib drew."""
    found = {}
    for path in sorted((docs / "images").glob("*.svg")):
        drawn = path.read_text(encoding="utf-8")
        if "Matplotlib" in drawn:
            found[f"images/{path.stem}-dark.svg"] = darkened(drawn)
    return found


def darkened(drawn: str) -> str:
    """A picture in the colours of a dark ground.

    >>> darkened("stroke: #1269eb; fill: #1c1917")
    'stroke: #699ceb; fill: #f5f5f4'
    """
    pairs = {colour: DARK_COLOURS[name] for name, colour in COLOURS.items()}
    pairs |= {OTHER_COLOUR: OTHER_DARK_COLOUR, INK: DARK_INK, GRID: DARK_GRID}
    for light, dark in pairs.items():
        drawn = drawn.replace(light, dark)
    return drawn
