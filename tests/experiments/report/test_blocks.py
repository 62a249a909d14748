"""Tables in every form that they are written in."""

from __future__ import annotations

from caribou.experiments.report.blocks import NOT_RUN, Entry, Table
from caribou.experiments.report.page import Item, Section, render


def shown(table: Table) -> str:
    item = Item("i", "I", "", (), lambda found: [table])
    return render([Section(item, (table,), 1, (), 0, 0, (), ())], [], "laptop")


def test_half_widths_and_the_papers_figures_are_columns_of_their_own() -> None:
    rows = (
        (
            Entry("gap"),
            Entry("80.2 ± 4.7", 0.802, "84.3", seeds=3),
            Entry(NOT_RUN, paper="1.0"),
            Entry("60.0", seeds=1),
        ),
    )
    table = Table("t", "T", ("method", "a", "b", "c"), (("ε = ∞", rows),), "50 % of it.")
    assert table.to_csv().splitlines() == [
        "group,method,a,a (half width),a (paper),b,b (paper),c",
        "ε = ∞,gap,80.2,4.7,84.3,not run,1.0,60.0",
    ]
    html = shown(table)
    assert "<i>not run</i><small>paper 1.0</small>" in html
    assert '60.0</span> <small class="few">(1 seed)</small>' in html
    assert "80.2 ± 4.7</span><small>paper" in html
    latex = table.to_latex()
    assert r"$\varepsilon$ = $\infty$" in latex
    assert latex.startswith("% T. 50 % of it.\n")
    assert r"80.2 $\pm$ 4.7 \,(paper 84.3)" in latex
