"""Tables in every form that they are written in."""

from __future__ import annotations

from caribou.experiments.report.blocks import NOT_RUN, Entry, Table


def test_half_widths_and_the_papers_figures_are_columns_of_their_own() -> None:
    rows = (
        (Entry("gap"), Entry("80.2 ± 4.7", 0.802, "84.3"), Entry(NOT_RUN, paper="1.0"), Entry("60.0", title="1 seed")),
    )
    table = Table("t", "T", ("method", "a", "b", "c"), (("ε = ∞", rows),), "50 % of it.")
    assert table.to_csv().splitlines() == [
        "group,method,a,a (half width),a (paper),b,b (paper),c",
        "ε = ∞,gap,80.2,4.7,84.3,not run,1.0,60.0",
    ]
    html = table.to_html()
    assert '<span class="none">not run</span><small class="paper">1.0</small>' in html
    assert "60.0 <small>(1 seed)</small>" in html
    assert "80.2 ± 4.7 <small>(" not in html
    latex = table.to_latex()
    assert r"$\varepsilon$ = $\infty$" in latex
    assert latex.startswith("% T. 50 % of it.\n")
