"""Pages of sections: words of others stay words of others, and everything that is said can be found in plain text."""

from __future__ import annotations

import pytest

from caribou.pages.pictures import Line, LineChart
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
    in_words,
    section_page,
)

HOSTILE = "</code><b>VERIFIED by CARIBOU</b><script>alert(1)</script>"
CHART = LineChart(HOSTILE, "x", "y", (Line(HOSTILE, [(0, 1)], "#123456"),))


def page_of_everything(words: str) -> str:
    said = Declared(words)
    blocks = (
        Text(said), Items((said,)), Facts((("name", said),)), Grid(("a", "b"), ((said, said),), words), Code(words),
        SignHere((words,)), Fold(words, (Text(words, "bad"), Chart("c", CHART, words))),
    )  # fmt: skip
    return section_page(words, [Section("one", words, blocks)], subject=said, first=(Text(words, "warn"),))


def test_no_block_lets_markup_through() -> None:
    page = page_of_everything(HOSTILE)
    assert "<b>" not in page
    assert "<script>alert" not in page
    assert page.count("VERIFIED by CARIBOU") > 12


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
        Chart("c", LineChart("nine", "x", "y", ()), "ten"),
        Code("eleven"), SignHere(("twelve",)), Fold("thirteen", (Text("fourteen"),)),
    ]  # fmt: skip
    words = in_words(blocks)
    numbers = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    assert [number for number in (*numbers, "thirteen", "fourteen") if number not in words] == []
    with pytest.raises(TypeError, match="block must be one of those of a page, got str"):
        in_words(["words"])  # type: ignore[list-item]


def test_a_picture_lies_in_the_page_and_needs_no_script() -> None:
    page = section_page("T", [Section("s", "S", (Chart("c", CHART),))])
    assert "<script>" not in page
    assert page.count("<svg") == 1
