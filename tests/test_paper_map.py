"""The map of the paper leads somewhere: its files, names, anchors and commands exist, and its claims have a row."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from reproduction.items import ITEMS as PROGRAM_ITEMS

from caribou.cli import app
from caribou.experiments.grid import available
from caribou.methods import METHODS, method_info

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = DOCS / "paper-map.md"


METHODS_OF_THE_ARTIFACT = [
    *("mlp", "mlp-dp", "gap-inf", "gap-edp", "gap-ndp", "sage-inf", "sage-edp", "sage-ndp"),
    *("dpdgc-inf", "dpdgc-edp", "dpdgc-ndp", "caribou-inf", "caribou-edp", "caribou-ndp"),
]
ITEMS = [
    *("pu-1", "pu-2", "pu-3", "crv-eps", "crv-k", "crv-d", "crv-h"),
    *("ov-e", "ov-n", "aud", "noise", "failure", "larger", "table-1"),
]

_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_PATH = re.compile(r"/|\.(py|md|toml|csv|json)\b")


def rows(text: str) -> list[list[str]]:
    """The rows of all tables of a page, without titles and rules."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [line for line in lines if line[0] not in ("in the paper", "in the artifact")]


def ours(text: str) -> list[str]:
    """What stands as code anywhere but in the first column, which is the paper's."""
    return [span for row in rows(text) for cell in row[1:] for span in _CODE.findall(cell)]


def commands(text: str) -> list[list[str]]:
    """The words of every `caribou` command of a page."""
    spans = [span for span in _CODE.findall(text) if span.startswith("caribou ")]
    return [shlex.split(span)[1:] for span in spans]


def defines(path: Path, name: str) -> bool:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return any(isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == name for n in nodes)


def missing(spans: list[str]) -> list[str]:
    """The paths, and names in files, that do not exist."""
    found = []
    for span in spans:
        if _PATH.search(span) and not span.startswith(("caribou ", "make ")):
            path, _, name = span.partition("::")
            file = ROOT / path
            if not file.exists() or path.endswith("/") != file.is_dir() or (name and not defines(file, name)):
                found.append(span)
    return found


def cli(*names: str) -> Any:
    """A command of the program by its words."""
    command: Any = typer.main.get_command(app)
    for name in names:
        command = command.commands[name]
    return command


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_modules_and_claims_have_a_row(page: str) -> None:
    for words in ("CAM", "PAM", "PDM", "C1:", "C2:", *(f"takeaway {k}:" for k in (1, 2, 3, 4))):
        assert sum(row[0].startswith(words) for row in rows(page)) == 1, words


def test_files_and_names_exist(page: str) -> None:
    spans = ours(page)
    assert sum("::" in span for span in spans) > 30
    assert not missing(spans)


@pytest.mark.parametrize("name", ["paper-map.md", "field.md"])
def test_commands_exist(name: str) -> None:
    """Every command, its options, methods and experiments; items of `reproduce` have a test of their own."""
    experiments = {experiment.name for experiment in available(ROOT / "reproduction" / "experiments")}
    found = commands((DOCS / name).read_text(encoding="utf-8"))
    assert found
    for command, *rest in found:
        if command == "reproduce":
            continue
        options = {option for parameter in cli(command).params for option in parameter.opts}
        assert {word for word in rest if word.startswith("--")} <= options, (command, rest)
        if command == "train":
            method_info(rest[0])
        if command == "run":
            assert rest[0] in experiments, rest


def test_all_items_are_named_and_no_other(page: str) -> None:
    named = [rest for command, *rest in commands(page) if command == "reproduce"]
    assert {tuple(rest) for rest in named} == {(item,) for item in ITEMS}


def test_items_exist_in_the_program() -> None:
    assert set(ITEMS) <= {item.name for item in PROGRAM_ITEMS}


def test_method_names_of_the_artifact_are_ours(page: str) -> None:
    assert len(METHODS_OF_THE_ARTIFACT) == 14
    assert set(METHODS_OF_THE_ARTIFACT) <= set(METHODS)
    last = rows(page.partition("The fourteen method names")[2])
    assert [name for row in last for name in _CODE.findall(row[0])] == METHODS_OF_THE_ARTIFACT
    for row in last:
        for name in _CODE.findall(row[0]):
            module = METHODS[name].home.partition(":")[0]
            assert f"src/{module.replace('.', '/')}.py" in row[1], name


def test_defaults_are_as_the_map_says(page: str) -> None:
    """The row about `Caribou` states them: if they change, it must."""
    defaults: Any = method_info("caribou-edp").create()
    assert "The defaults are the paper's pipeline with K = 2, C_L = 0.9, α₁ = 1, β = 1." in page
    assert (defaults.hops, defaults.contraction, defaults.alpha1, defaults.beta) == (2, 0.9, 1.0, 1.0)
    assert defaults.messages == "embeddings"
