"""The site as readers get it: it builds without a warning, loads nothing, and works from disk in a real browser."""

from __future__ import annotations

import fcntl
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from browser_support import WIDTHS, Tab, needs_axe, needs_browser

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SOURCES = ("docs", "scripts/hooks", "src/caribou/pages", "mkdocs.yml")
LOOKED_AT = ["index", "gallery", "privacy", "reproduction", "training"]
"""The first page, pictures and a frame, formulas, wide tables, tables of sentences."""


def hook(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / "hooks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- hooks ------------------------------------------------------------------------------------------------------------


def test_indices_and_powers_get_their_place() -> None:
    for text, made in [
        ("s'_u = C_L X^(0)", "s'<sub>u</sub> = C<sub>L</sub> X<sup>(0)</sup>"),
        ("S^(-1/2) and 2^-53, e^ε_i", "S<sup>-1/2</sup> and 2<sup>-53</sup>, e<sup>ε<sub>i</sub></sup>"),
        ("||W||_2 &lt; 1, x_i², deg_i", "||W||<sub>2</sub> &lt; 1, x<sub>i</sub>², deg<sub>i</sub>"),
        ("e^(-ε (max s - s_k)) Z_(k-1)", "e<sup>-ε (max s - s<sub>k</sub>)</sup> Z<sub>k-1</sub>"),
        ("noise_std, own_share, a-b, 1.5", "noise_std, own_share, a-b, 1.5"),
    ]:
        assert hook("formulas").raised(text) == made


def test_code_formulas_and_headings_stay_as_they_are() -> None:
    formulas = hook("formulas")
    page = "<h2>a_b</h2><pre><code>x_i</code></pre><p>x_i <code>x_i</code> <math><mi>x_i</mi></math></p>"
    assert formulas.on_page_content(page) == page.replace("<p>x_i ", "<p>x<sub>i</sub> ")


def test_every_formula_of_the_pages_becomes_mathml() -> None:
    pytest.importorskip("latex2mathml", reason="latex2mathml is not installed (extra: docs)")
    formulas, found = hook("formulas"), 0
    for page in sorted(DOCS.rglob("*.md")):
        for source in re.findall(r"^```math\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            made = formulas.mathml(source)
            assert made.startswith("<math"), page.name
            # what the converter does not know stays in its letters
            assert not re.search(r"\\[A-Za-z]|<mi>&(?:amp;)?</mi>", made), (page.name, source)
            assert ("<mtable" in made) == ("aligned" in source)
            found += 1
    assert found > 20


def test_a_dark_picture_has_the_colours_of_a_dark_ground() -> None:
    pages = hook("site_pages")
    light = (DOCS / "images" / "accuracy.svg").read_text(encoding="utf-8")
    dark = pages.dark_pictures(DOCS)["images/accuracy-dark.svg"]
    for name in ("votes", "caribou", "mlp"):
        assert pages.COLOURS[name] in light
        assert pages.COLOURS[name] not in dark
        assert pages.DARK_COLOURS[name] in dark
    assert "images/pipeline-dark.svg" not in pages.dark_pictures(DOCS), "drawn by hand, with a ground of its own"


# -- the site ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` built, if nothing has changed since; else built here, once for all workers."""
    if any(importlib.util.find_spec(name) is None for name in ("mkdocs", "latex2mathml")):
        pytest.skip("mkdocs or latex2mathml is not installed (extra: docs)")
    built = ROOT / "site" / "sitemap.xml"
    files = [path for name in SOURCES for path in (ROOT / name, *(ROOT / name).rglob("*")) if path.is_file()]
    if built.exists() and built.stat().st_mtime > max(path.stat().st_mtime for path in files):
        return built.parent
    temporary = tmp_path_factory.getbasetemp()
    shared = temporary.parent if temporary.name.startswith("popen-") else temporary
    folder = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "sitemap.xml").exists():
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
            assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_site_builds_without_warnings_and_loads_nothing(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(https?://[^"]+)"', text)
        assert not loaded, f"{page.name} must load nothing from the network"
        assert page.stat().st_size < 1_000_000, page.name


@pytest.mark.slow
def test_framed_pages_are_there(site: Path) -> None:
    for page in ("planner", "certificates", "gallery"):
        text = (site / f"{page}.html").read_text(encoding="utf-8")
        frames = re.findall(r'<iframe src="([^"]+)" title="[^"]+"', text)
        assert frames
        for frame in frames:
            assert (site / frame).exists()
            assert f'<a href="{frame}">' in text, "a link opens it alone"
    assert "epsilon = 4" in (site / "pages" / "release.html").read_text(encoding="utf-8")
    assert "epsilon-shown" in (site / "pages" / "planner.html").read_text(encoding="utf-8")


def sticking_out(tab: Tab) -> list[str]:
    """Parts of the content that are wider than the screen, and not inside a box that scrolls."""
    return tab.run(
        """[...document.querySelectorAll(".md-content *")].filter((e) => {
            const box = e.getBoundingClientRect();
            if (box.width === 0 || (box.right <= innerWidth + 1 && box.left >= -1)) return false;
            return !e.closest(".md-typeset__scrollwrap, .formula, pre, .md-clipboard, .md-code__nav");
        }).map((e) => `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`)
        .concat(document.documentElement.scrollWidth > innerWidth ? ["the page scrolls sideways"] : [])"""
    )


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("name", LOOKED_AT)
def test_nothing_sticks_out_and_nothing_complains(name: str, site: Path, look: Callable[[Path], Tab]) -> None:
    tab = look(site / f"{name}.html")
    for width in WIDTHS:
        tab.resize(width)
        assert (width, sticking_out(tab)) == (width, [])
    assert tab.complaints() == []


@pytest.mark.slow
@needs_browser
@needs_axe
@pytest.mark.parametrize("name", ["index", "gallery", "training"])
def test_pages_can_be_read_by_everybody(name: str, site: Path, look: Callable[[Path], Tab]) -> None:
    tab = look(site / f"{name}.html")
    for scheme, width in (("default", WIDTHS[0]), ("slate", WIDTHS[-1])):
        tab.run(f"document.body.setAttribute('data-md-color-scheme', '{scheme}')")
        tab.resize(width)
        assert (scheme, width, tab.violations()) == (scheme, width, [])


@pytest.mark.slow
@needs_browser
def test_one_picture_of_each_pair_is_shown(site: Path, look: Callable[[Path], Tab]) -> None:
    tab = look(site / "index.html")
    shown = "[...document.querySelectorAll('img')].filter((i) => i.offsetWidth > 0).map((i) => i.src.split('/').at(-1))"
    for scheme, ending in (("default", ".svg#only-light"), ("slate", "-dark.svg#only-dark")):
        tab.run(f"document.body.setAttribute('data-md-color-scheme', '{scheme}')")
        for width, name in ((390, "accuracy-narrow"), (1400, "accuracy")):
            tab.resize(width)
            assert tab.run(shown) == [f"{name}{ending}"]
    assert tab.run("[...document.querySelectorAll('img')].every((i) => i.naturalWidth > 0 && i.alt.length > 20)")


@pytest.mark.slow
@needs_browser
def test_the_search_works_from_disk(site: Path, look: Callable[[Path], Tab]) -> None:
    tab = look(site / "index.html")
    tab.run("document.querySelector('.md-search__input').focus()")
    tab.run(
        """(() => { const box = document.querySelector(".md-search__input");
            box.value = "shifted interpolation";
            box.dispatchEvent(new Event("keyup", { bubbles: true }));
            box.dispatchEvent(new Event("input", { bubbles: true })); })()"""
    )
    tab.wait("document.querySelectorAll('.md-search-result__link').length > 0")
    links = tab.run("[...document.querySelectorAll('.md-search-result__link')].map((link) => link.href)")
    assert any("privacy.html" in link for link in links)
    assert tab.complaints() == []
