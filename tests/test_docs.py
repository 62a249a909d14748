"""The documentation is tested: examples run, links exist, generated pages are fresh, figures come from the tool."""

from __future__ import annotations

import contextlib
import doctest
import enum
import importlib.util
import inspect
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import caribou
from caribou.datasets import available
from caribou.experiments.records import latest, read
from caribou.methods import Method
from caribou.privacy.accounting import (
    attack_rate,
    epsilon_for_rate,
    epsilon_of,
    gdp_mu,
    largest_true_positive_rate,
)
from caribou.privacy.events import EpsilonDelta, Event, Gaussian
from caribou.privacy.filters import total_epsilon
from cli_support import run

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(DOCS.rglob("*.md"))
RUNNABLE = [
    ROOT / "README.md",
    *(
        DOCS / name
        for name in (
            "index.md",
            "getting-started.md",
            "embeddings.md",
            "ledger.md",
            "certificates.md",
            "training.md",
            "months.md",
            "plan-a-year.md",
            "planner.md",
            "downstream.md",
            "auditing.md",
            "epsilon.md",
            "own-data.md",
        )
    ),
]

_FENCE = re.compile(r"^```(?P<kind>\w*)(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_EXIT_CODE = re.compile(r"#\s*exit code (\d+)")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page, and the ``text`` block that follows it directly, if any."""

    kind: str
    title: str | None
    body: str
    line: int
    output: str | None


def blocks(text: str) -> list[Block]:
    found = list(_FENCE.finditer(text))
    result = []
    for k, match in enumerate(found):
        following = found[k + 1] if k + 1 < len(found) else None
        output = None
        if following is not None and following["kind"] == "text":
            gap = text[match.end() : following.start()]
            output = following["body"] if not gap.strip() else None
        title = re.search(r'title="([^"]+)"', match["info"])
        line = text.count("\n", 0, match.start()) + 1
        result.append(Block(match["kind"], title and title[1], match["body"], line, output))
    return result


def without_fences(text: str) -> str:
    return _FENCE.sub("", text)


def expect(output: str | None, printed: str, place: str) -> None:
    """Compare what was printed with the block that shows it; ``...`` stands for anything."""
    if output is None:
        return
    wanted, got = ("\n".join(line.rstrip() for line in text.splitlines()) + "\n" for text in (output, printed))
    checker = doctest.OutputChecker()
    assert checker.check_output(wanted, got, doctest.ELLIPSIS), f"{place}: the page shows\n{wanted}\nit prints\n{got}"


def run_command(line: str) -> str:
    """Run one ``caribou`` line; its exit code is 0, or the one that the line names.

    In this process: fifty processes that load torch took longer than all that they did. `tests/cli/test_cli.py` runs the script.
    """
    wanted = int(code[1]) if (code := _EXIT_CODE.search(line)) else 0
    _, *arguments = shlex.split(line, comments=True)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("CARIBOU_", "FORCE_COLOR"))]:
            patch.delenv(name)
        patch.setenv("COLUMNS", "100")
        patch.setenv("NO_COLOR", "1")
        done = run(*arguments)
    assert done.returncode == wanted, f"`{line}` ended with {done.returncode}, not {wanted}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CARIBOU_DATA", raising=False)
    monkeypatch.delenv("CARIBOU_LEDGER", raising=False)
    if page.name == "certificates.md":
        # This page talks about a certificate that the reader has.
        (tmp_path / "certificate.json").write_text(example_certificate().to_json())
    names: dict[str, object] = {}
    ran = 0
    for block in blocks(page.read_text(encoding="utf-8")):
        place = f"{page.name}:{block.line}"
        if block.kind == "csv" and block.title is not None:
            Path(block.title).write_text(block.body, encoding="utf-8")
        elif block.kind == "python" and not block.body.startswith("# not run"):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block.body, place, "exec"), names)
            expect(block.output, printed.getvalue(), place)
            ran += 1
        elif block.kind == "bash":
            lines = [line for line in block.body.replace("\\\n", " ").splitlines() if line.startswith("caribou ")]
            expect(block.output, "".join(run_command(line) for line in lines), place)
            ran += len(lines)
    assert ran > 0


def commands(page: Path) -> list[str]:
    """The ``caribou`` lines of a page."""
    found = [
        block.body.replace("\\\n", " ") for block in blocks(page.read_text(encoding="utf-8")) if block.kind == "bash"
    ]
    return [" ".join(line.split()) for body in found for line in body.splitlines() if line.startswith("caribou ")]


def test_commands_of_the_gallery_run_or_are_run_for_another_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its slow ones are those of README.md, letter by letter."""
    monkeypatch.chdir(tmp_path)
    elsewhere = {line for page in RUNNABLE for line in commands(page)}
    own = commands(DOCS / "gallery.md")
    assert len([line for line in own if line in elsewhere]) >= 5
    for line in own:
        if line not in elsewhere:
            run_command(line)


def example_certificate() -> caribou.Certificate:
    graph = caribou.datasets.load("chain-s")
    layer = caribou.ContractiveGraphLayer(contraction=0.8)
    bounds = caribou.Bounds(degree_floor=2)
    return caribou.release(graph, layer, hops=8, budget=caribou.Budget(4), bounds=bounds).certificate


def test_attack_table_comes_from_the_accountant() -> None:
    text = (DOCS / "certificates.md").read_text(encoding="utf-8")
    for epsilon in (0.5, 1, 2, 4, 8):
        mu = gdp_mu(epsilon=epsilon, delta=1e-5)
        rates = [
            largest_true_positive_rate([Gaussian(1 / mu)], delta=1e-5, false_positive_rate=fpr) for fpr in (0.001, 0.01)
        ]
        row = f"| {epsilon:g} | {mu:.4f} | {100 * rates[0]:.2f} % | {100 * rates[1]:.2f} % |"
        assert row in text


def test_risk_tables_come_from_the_accountant() -> None:
    text = (DOCS / "epsilon.md").read_text(encoding="utf-8")
    for tpr in (0.02, 0.05, 0.1, 0.2, 0.5):
        kinds: list[dict[str, Any]] = [{}, {"gaussian": True}, {"gaussian": True, "steps": 2}]
        figures = [epsilon_for_rate(true_positive_rate=tpr, false_positive_rate=0.01, delta=1e-5, **k) for k in kinds]
        assert table_row(f"{100 * tpr:g} of 100", [f"{epsilon:.2f}" for epsilon in figures]) in text
    for epsilon in (0.5, 1, 2, 4, 8):
        rates = [
            attack_rate(epsilon=epsilon, delta=1e-5, false_positive_rate=0.01, gaussian=gaussian, steps=steps)
            for steps in (1, 2)
            for gaussian in (False, True)
        ]
        assert table_row(f"{epsilon:g}", [f"{100 * rate:.1f}" for rate in rates]) in text


def table_row(name: str, values: list[str]) -> str:
    return f"| {name} | {' | '.join(values)} |"


def test_cost_of_choosing_releases_one_after_the_other() -> None:
    """Every figure of the table is the largest that is accepted, up to its last digit: as fixed in advance, and by filters."""
    text = (DOCS / "privacy.md").read_text(encoding="utf-8")
    pattern = r"^\| (?=\d+ (?:pure|Gaussian))(.*?) \| (.*?) \| (.*?) \| (.*?) \|$"
    rows = re.findall(pattern, text, re.MULTILINE)
    assert len(rows) == 7

    def event(kind: str, epsilon: float) -> Event:
        return Gaussian(1 / gdp_mu(epsilon=epsilon, delta=1e-5)) if kind == "Gaussian" else EpsilonDelta(epsilon)

    for name, *cells in rows:
        for total, cell in zip((1.0, 4.0, 8.0), cells, strict=True):
            numbers = [float(number) for number in re.findall(r"\d\.\d{3}", cell)]
            assert len(numbers) == 2
            kinds = [kind for count, kind in re.findall(r"(\d+) (pure|Gaussian)", name) for _ in range(int(count))]
            for number, cost in zip(numbers, (fixed_cost, filtered_cost), strict=True):
                low, high = (cost([event(k, number + d) for k in kinds], total) for d in (-6e-4, 6e-4))
                assert low <= total * (1 + 1e-9) <= high * (1 + 1e-9), (name, cell)
            assert numbers[1] <= numbers[0]


def fixed_cost(events: list[Event], total: float) -> float:
    return epsilon_of(events, 1e-5)


def filtered_cost(events: list[Event], total: float) -> float:
    return total_epsilon([[event] for event in events], caribou.Budget(total))


EDGE_ROWS = {
    "Cora": "cora",
    "PubMed": "pubmed",
    "Amazon Photo": "photo",
    "Amazon Computers": "computers",
    "Facebook100 Berkeley13": "berkeley13",
    "chains of 8 nodes (`chain-s:75`)": "chain-s:75",
    "chains of 15 nodes (`chain-l:75`)": "chain-l:75",
}


def accuracies(method: str) -> dict[tuple[str, object], float]:
    """Mean test accuracy in % by data set and epsilon, from the records of edge-accuracy."""
    found: dict[tuple[str, object], list[float]] = {}
    for record in latest(read(ROOT / "reproduction" / "results", "edge-accuracy")[0]):
        if record.status == "ok" and record.cell["method"] == method:
            key = record.cell["dataset"], record.cell["epsilon"]
            found.setdefault(key, []).append(100 * record.measures["test_accuracy"])
    return {key: sum(values) / len(values) for key, values in found.items()}


def test_votes_table_comes_from_the_records() -> None:
    votes, features = accuracies("votes-edp"), accuracies("mlp")
    text = (DOCS / "training.md").read_text(encoding="utf-8")
    for title, dataset in EDGE_ROWS.items():
        row = [f"{votes[dataset, epsilon]:.1f}" for epsilon in (1, 2, 4, 8, 16, 32)]
        assert table_row(title, row) in text
    words = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"test accuracy on Cora is {votes['cora', 4]:.0f} % and on Amazon Photo {votes['photo', 4]:.0f} %" in words
    assert f"the features alone give {features['cora', 'inf']:.0f} % and {features['photo', 'inf']:.0f} %" in words


def test_data_table_is_the_table_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CARIBOU_DATA", raising=False)
    text = (DOCS / "data.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|", text, re.MULTILINE)
    shown = {name: tuple(int(value.replace(",", "")) for value in values) for name, *values in rows}
    assert shown == {info.name: (info.nodes, info.edges, info.features, info.classes) for info in available()}


def test_cli_reference_is_fresh() -> None:
    environment = dict(os.environ, COLUMNS="37", TERM="xterm-256color", FORCE_COLOR="1", CARIBOU_LEDGER="elsewhere")
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "cli_reference.py")],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment,
        check=True,
    )
    stored = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert stored == done.stdout, "docs/cli.md is not what `--help` says now: run `make cli-reference`"


def test_settings_reference_is_fresh() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "settings_reference.py")]
    done = subprocess.run(script, capture_output=True, text=True, encoding="utf-8", check=True)
    stored = (DOCS / "settings.md").read_text(encoding="utf-8")
    assert stored == done.stdout, "docs/settings.md is not what the methods say now: run `make settings-reference`"


def test_tests_that_the_page_of_tests_names_exist() -> None:
    named = set(re.findall(r"`((?:\w+/)*test_\w+\.py)`", (DOCS / "testing.md").read_text(encoding="utf-8")))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / "tests" / name).is_file()] == [], "run: make test-counts"


def test_relative_links_exist() -> None:
    missing = []
    for page in PAGES:
        for target in _LINK.findall(without_fences(page.read_text(encoding="utf-8"))):
            path, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            file = page if not path else page.parent / path
            if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
                missing.append((page.name, target))
    assert not missing


def anchors(page: Path) -> set[str]:
    """The ids that the headings of a page get."""
    from markdown.extensions.toc import slugify

    headings = re.findall(r"^#+ (.+)$", without_fences(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {slugify(heading.replace("`", ""), "-") for heading in headings}


def test_public_names_are_documented() -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    for name in sorted(set(caribou.__all__) - {"__version__", "datasets"}):
        assert re.search(rf"^::: caribou\.{name}$", text, re.MULTILINE), f"docs/api.md must show caribou.{name}"
        doc = getattr(caribou, name).__doc__
        assert doc, f"caribou.{name} needs a docstring"
        assert not doc.startswith(f"{name}("), f"caribou.{name} has only the docstring that dataclass makes"


def api_names() -> list[str]:
    """Every single name that the page of the API shows; a module with ``members`` is not one."""
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    return re.findall(
        r"^::: (caribou(?:\.\w+)*\.[A-Za-z_]+)$(?!\n +options:\n(?: +.*\n)* +members)", text, re.MULTILINE
    )


def resolved(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def parameters(value: Any) -> list[str]:
    """What a function or a constructor takes; nothing for an enum, an error or a protocol, which nobody constructs."""
    if isinstance(value, type) and (issubclass(value, enum.Enum | Exception) or getattr(value, "_is_protocol", False)):
        return []
    if isinstance(value, type) and issubclass(value, caribou.Model):
        value = value.__init__  # settings of a method stand in its own docstring, and in docs/settings.md
    return [name for name in inspect.signature(value).parameters if name not in ("self", "cls")]


def lacks(value: Any, doc: str) -> list[str]:
    """Parameters, result, shapes that a docstring does not name."""
    found = [name for name in parameters(value) if not re.search(rf"\b{name}\b", doc)]
    if inspect.isfunction(value):
        found += [] if "Returns:" in doc else ["Returns"]
        arrays = [
            a for a in map(str, value.__annotations__.values()) if re.fullmatch(r"(np\.ndarray|Tensor)( \| None)?", a)
        ]
        found += ["Shapes"] if arrays and not re.search(r"\[\w+(, [^\]]+)?\]", doc) else []
    return found


WITHOUT_EXAMPLE = {
    *("caribou.methods.Method", "caribou.layers.BoundedLayer", "caribou.audit.targets.AuditTarget"),  # to be filled
    *("caribou.audit.attack.Attack", "caribou.release.Released"),  # a protocol; shown by `execute`
}


def test_public_names_state_arguments_result_shapes_and_an_example() -> None:
    for name in api_names():
        value = resolved(name)
        doc = inspect.getdoc(value) or ""
        assert not lacks(value, doc), f"the docstring of {name} lacks {', '.join(lacks(value, doc))}"
        assert (">>>" in doc) != (name in WITHOUT_EXAMPLE), f"the docstring of {name} needs an example"


@pytest.mark.parametrize("owner", [caribou.Graph, caribou.Model, Method])
def test_methods_of_public_classes_name_their_arguments(owner: type) -> None:
    for name, member in vars(owner).items():
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function) and not name.startswith("_"):
            doc = inspect.getdoc(function) or ""
            missing = [p for p in parameters(function) if not re.search(rf"\b{p}\b", doc)]
            assert not missing, f"the docstring of {owner.__name__}.{name} lacks {', '.join(missing)}"


def test_a_docstring_that_lacks_something_is_found() -> None:
    def function(x: np.ndarray, other: int) -> np.ndarray:
        """Something about x."""
        return x * other

    assert lacks(function, function.__doc__ or "") == ["other", "Returns", "Shapes"]
    assert len(api_names()) > 50


def test_no_page_speaks_of_its_workshop() -> None:
    pages = [*PAGES, ROOT / "mkdocs.yml", ROOT / "CITATION.cff", *DOCS.rglob("*.svg"), *DOCS.rglob("*.css")]
    forbidden = ("../shared", "/work/")
    found = [(page.name, word) for page in pages for word in forbidden if word in page.read_text(encoding="utf-8")]
    assert not found


def test_versions_agree() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {caribou.__version__}\n" in citation
    assert f"## [{caribou.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_pictures_are_accessible() -> None:
    from xml.etree import ElementTree

    space = "{http://www.w3.org/2000/svg}"
    pictures = sorted((DOCS / "images").glob("*.svg"))
    assert pictures
    for picture in pictures:
        root = ElementTree.parse(picture).getroot()
        for child in ("title", "desc"):
            element = root.find(space + child)
            assert element is not None, picture.name
            assert element.text, picture.name
