"""The planner: numbers in Python, and a page whose every control moves figures that are the library's."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import caribou as cb
from browser_support import AXE, WIDTHS, Tab, needs_browser
from caribou.errors import InputError
from caribou.methods import METHODS, method_info
from caribou.pages import grid
from caribou.pages.planner import NOISE
from caribou.privacy.accounting import pure_epsilon
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.events import EpsilonDelta, Gaussian
from caribou.privacy.months import monthly_plans
from caribou.privacy.plan import attack_success, exact_mu
from caribou.privacy.sizes import Sizes
from cli_support import run

SIZES = Sizes(200, 16, classes=4, train=140, val=20, test=40)


# -- in Python -----------------------------------------------------------------------------------------------------


def test_a_plan_in_python_is_that_of_the_command() -> None:
    made = cb.plan(2, 1e-6, "node", nodes=500, degree_floor=30, declared_degree=40, hops=[4, 1])
    flags = "--unit node --epsilon 2 --delta 1e-6 --nodes 500 --degree-floor 30 --declared-degree 40 --hops 1,4"
    assert made.to_dict() == json.loads(run("plan", *flags.split(), "--json").stdout)
    assert made.months(6) == monthly_plans(Budget(2, 1e-6, "node"), 6)
    assert "<td>" in made._repr_html_()


def test_bad_pages_are_refused(tmp_path: Path) -> None:
    made = cb.plan(4)
    with pytest.raises(InputError, match="unit must be node for mlp-dp, got edge"):
        made.html(tmp_path / "a.html", method="mlp-dp")
    with pytest.raises(InputError, match="months must be"):
        made.html(tmp_path / "a.html", months=0)
    for flags, message in (
        ("--html plan.txt", "html must be a file that ends in .html"),
        ("--html no/folder/plan.html", "html must be in a folder that exists"),
    ):
        done = run("plan", *flags.split(), cwd=tmp_path)
        assert done.returncode == 2, done
        assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", NOISE)
def test_the_noise_of_a_method_is_what_its_plan_says(method: str) -> None:
    info, budget = method_info(method), Budget(3.0, 1e-6, method_info(method).unit)
    assert info.unit is budget.unit
    cost = info.create().plan(SIZES, budget).cost
    if NOISE[method] == "gaussian":
        assert exact_mu(cost) == pytest.approx(budget_mu(budget), rel=1e-6)
    else:
        assert pure_epsilon(cost) == pytest.approx(3.0, rel=1e-6)


def test_no_method_with_a_curve_in_closed_form_is_left_out() -> None:
    private = {name for name, info in METHODS.items() if info.private and not info.data_independent}
    assert private - set(NOISE) == {"sage-ndp"}
    for method, names in ((name, info.controls) for name, info in METHODS.items()):
        assert set(names) <= method_info(method).create().settings().keys(), method


# -- in the browser ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("planner") / "plan.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "EPSILONS", (0.3, 2.0, 8.0))
        made = cb.plan(4, degree_floor=15, nodes=200)
        made.html(path)
    return path


@pytest.fixture(scope="module")
def tab(page: Path, look: Callable[[Path], Tab]) -> Tab:
    return look(page)


@pytest.fixture
def fresh(tab: Tab) -> Tab:
    """The page with its first settings."""
    tab.run("document.getElementById('reset').click()")
    tab.resize(1400)
    return tab


def shown(tab: Tab, name: str) -> float:
    return float(tab.run(f"document.getElementById('out-{name}').dataset.value"))


def move(tab: Tab, control: str, value: object) -> None:
    """A slider to a position by its value, another control as it is."""
    tab.enter(control, tab.run(f"(Page.data().positions[{json.dumps(control)}] ?? []).indexOf({json.dumps(value)})"))


def choose(tab: Tab, control: str, words: str) -> None:
    """An entry of a list by a part of its words."""
    options = tab.run(f"[...document.getElementById({json.dumps(control)}).options].map((option) => option.text)")
    tab.enter(control, next(k for k, text in enumerate(options) if words in text))


@needs_browser
def test_the_page_shows_what_the_library_says(fresh: Tab) -> None:
    def compare(made: cb.Plan, kind: str) -> None:
        row = made.rows[0]
        event = Gaussian(1 / budget_mu(made.budget)) if kind == "gaussian" else EpsilonDelta(made.budget.epsilon)
        rates = attack_success([event], made.budget.delta)
        expected = {
            "epsilon": made.budget.epsilon,
            "mu": row.mu,
            "sensitivity": row.sensitivity,
            "kappa": row.kappa,
            "noise": row.noise_std,
            "linear": row.linear_gdp_noise_multiplier * row.sensitivity,
            "presence": rates["presence"]["0.01"],
            "replacement": rates["replacement"]["0.01"],
        }
        for name, value in expected.items():
            assert shown(fresh, name) == pytest.approx(value, rel=1e-4), name

    compare(cb.plan(4, degree_floor=15, nodes=200, hops=[8]), "pure")
    for control, value in {"epsilon": 0.3, "hops": 64, "contraction": 0.5}.items():
        move(fresh, control, value)
    choose(fresh, "bounds-edge", "floor 50")
    choose(fresh, "method-edge", "caribou-edp")
    compare(cb.plan(0.3, degree_floor=50, nodes=200, hops=[64], contraction=0.5), "gaussian")
    fresh.enter("unit-node", 1)
    choose(fresh, "bounds-node", "cap 20")
    move(fresh, "t", 50)
    made = cb.plan(0.3, unit="node", degree_cap=20, nodes=200, hops=[64], contraction=0.5)
    compare(made, "gaussian")
    assert shown(fresh, "node") == pytest.approx(dict(made.epsilon_by_degree)[50], rel=1e-4)
    cells = "[...document.querySelectorAll('#year-table tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    rows = fresh.run(cells)
    assert [row[0] for row in rows] == [plan.way for plan in made.months(12)]
    assert [float(row[1]) for row in rows] == pytest.approx([plan.first for plan in made.months(12)], rel=6e-3)


@needs_browser
def test_a_rate_takes_the_largest_epsilon_that_keeps_it(fresh: Tab) -> None:
    fresh.enter("rate", 60)
    assert (shown(fresh, "epsilon"), shown(fresh, "presence") <= 0.6) == (4, True)
    fresh.enter("rate", 54)
    assert shown(fresh, "epsilon") == 2
    fresh.enter("rate", 1)
    assert shown(fresh, "epsilon") == 0.3
    assert "No epsilon of this page is so small" in fresh.run("document.getElementById('rate-hint').textContent")


@needs_browser
def test_every_control_moves_something_and_reset_takes_it_back(fresh: Tab) -> None:
    text = "document.querySelector('.short').innerText + document.querySelector('.out').innerText"
    first, moved = fresh.run(text), set()
    controls = set(fresh.run("[...document.querySelectorAll('input, select')].map((e) => e.id)")) - {"unit-edge"}
    for unit in ("unit-edge", "unit-node"):
        before = fresh.run(text)
        fresh.enter(unit, 1)
        moved |= {unit} if fresh.run(text) != before else set()
        visible = "[...document.querySelectorAll('input:not([type=radio]), select')].filter((e) => e.offsetParent)"
        for field in fresh.run(f"{visible}.map((e) => e.id)"):
            before, old = fresh.run(text), fresh.run(f"document.getElementById('{field}').value")
            fresh.enter(field, 1 if field == "rate" or old == "0" else 0)
            moved |= {field} if fresh.run(text) != before else set()
            fresh.enter(field, old)
    assert controls - moved == set()
    fresh.run("document.getElementById('reset').click()")
    fresh.wait(f"{text} === {json.dumps(first)}")
    assert fresh.complaints() == []


@needs_browser
def test_sliders_obey_the_keyboard_and_say_their_value(fresh: Tab) -> None:
    fresh.run("document.getElementById('hops').focus()")
    fresh.press("ArrowRight", 39)
    assert fresh.run("document.getElementById('hops').getAttribute('aria-valuetext')") == "16"
    assert fresh.run("document.getElementById('hops-shown').textContent") == "16"
    assert shown(fresh, "kappa") == pytest.approx(cb.plan(4, hops=[16]).rows[0].kappa, rel=1e-4)
    reached = set()
    fresh.run("document.activeElement.blur()")
    for _ in range(30):
        fresh.press("Tab", 9)
        reached.add(
            fresh.run("document.activeElement.id || document.activeElement.className || document.activeElement.tagName")
        )
    assert {"skip", "unit-edge", "epsilon", "method-edge", "reset", "command-plan", "BUTTON"} <= reached


@needs_browser
def test_the_lines_to_take_along_do_what_the_page_says(fresh: Tab, tmp_path: Path) -> None:
    choose(fresh, "method-edge", "caribou-edp")
    move(fresh, "hops", 3)
    move(fresh, "epsilon", 2.0)
    line = fresh.run("document.getElementById('command-plan').textContent")
    done = run(*shlex.split(line)[1:], "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"][0]["noise_std"] == pytest.approx(shown(fresh, "noise"), rel=1e-4)
    python: dict[str, Any] = {}
    exec(fresh.run("document.getElementById('python').textContent"), python)
    assert python["plan"].rows[0].noise_std == pytest.approx(shown(fresh, "noise"), rel=1e-4)
    stated = python["model"].certificate.attack_success
    assert stated["presence"]["0.01"] == pytest.approx(shown(fresh, "presence"), rel=1e-4)
    assert stated["replacement"]["0.01"] == pytest.approx(shown(fresh, "replacement"), rel=1e-4)
    train = shlex.split(fresh.run("document.getElementById('command-train').textContent"))
    assert run(*train[1:], cwd=tmp_path).returncode == 0
    settings = json.loads((tmp_path / "run" / "certificate.json").read_text())["public_parameters"]
    assert settings["hops"] == 3


@needs_browser
@pytest.mark.parametrize("unit", ["unit-edge", "unit-node"])
def test_nothing_sticks_out_and_everybody_can_read_it(fresh: Tab, unit: str) -> None:
    fresh.enter(unit, 1)
    fresh.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    for width in WIDTHS:
        fresh.resize(width)
        assert fresh.overflowing() == [], width
        assert fresh.cut_text() == [], width
    fresh.run("document.querySelectorAll('details').forEach((d) => (d.open = false))")
    assert fresh.complaints() == []
    if AXE.exists():
        fresh.scheme("light" if unit == "unit-edge" else "dark")
        assert fresh.violations() == []
