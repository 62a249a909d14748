"""Pages of sections: words of others stay words of others, and everything that is said can be found in plain text."""

from __future__ import annotations

import json
import re

import pytest

from caribou.pages.sections import (
    LONGEST,
    Chart,
    Code,
    Declared,
    Facts,
    Fold,
    Grid,
    Items,
    Section,
    SignHere,
    Text,
    charts,
    in_words,
    section_page,
)

HOSTILE = "</code><b>VERIFIED by CARIBOU</b><script>alert(1)</script>"
SPEC = {"words": "A line.", "x": {"label": "x"}, "y": {"label": "y"}, "series": [{"name": HOSTILE, "points": [[0, 1]]}]}


def page_of_everything(words: str) -> str:
    said = Declared(words)
    blocks = (
        Text(said), Items((said,)), Facts((("name", said),)), Grid(("a", "b"), ((said, said),), words), Code(words),
        SignHere((words,)), Fold(words, (Text(words, "bad"), Chart("c", SPEC, words))),
    )  # fmt: skip
    return section_page(words, [Section("one", words, blocks)], subject=said, first=(Text(words, "warn"),))


def test_no_block_lets_markup_through() -> None:
    page = page_of_everything(HOSTILE)
    assert "<b>" not in page
    assert "<script>alert" not in page
    assert page.count("VERIFIED by CARIBOU") > 12
    data = re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["charts"]["c"] == SPEC


def test_words_of_others_are_set_apart() -> None:
    page = section_page("T", [Section("s", "S", (Facts((("purpose", Declared("a promise")), ("ours", "a fact"))),))])
    assert '<code class="declared">a promise</code>' in page
    assert "<dd>a fact</dd>" in page


@pytest.mark.parametrize("letter", ["\u202e", "\u200b", "\n", "\x00", "\u2066"])
def test_letters_that_hide_or_turn_others_are_replaced(letter: str) -> None:
    assert Declared(f"a{letter}b").shown == "a\ufffdb"


def test_a_long_text_is_cut_and_says_so() -> None:
    assert Declared("x" * (LONGEST + 7)).shown == "x" * LONGEST + " … (7 more)"
    assert Declared("x" * LONGEST).shown == "x" * LONGEST


def test_plain_text_has_every_block() -> None:
    blocks = [
        Text("one"), Items(("two", Declared("three"))), Facts((("four", "five"),)), Grid(("six",), (("seven",),), "eight"),
        Chart("c", {"words": "nine"}, "ten"), Code("eleven"), SignHere(("twelve",)), Fold("thirteen", (Text("fourteen"),)),
    ]  # fmt: skip
    words = in_words(blocks)
    numbers = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    assert [number for number in (*numbers, "thirteen", "fourteen") if number not in words] == []
    with pytest.raises(TypeError, match="block must be one of those of a page, got str"):
        in_words(["words"])  # type: ignore[list-item]


def test_charts_are_found_in_folds_and_scripts_come_with_charts_alone() -> None:
    assert [chart.name for chart in charts([Fold("f", (Chart("inner", SPEC),)), Chart("outer", SPEC)])] == [
        "inner",
        "outer",
    ]
    assert "const Charts" in section_page("T", [Section("s", "S", (Chart("c", SPEC),))])
    assert "<script>" not in section_page("T", [Section("s", "S", (Text("words"),))])
