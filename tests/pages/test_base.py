"""A page is one file that loads nothing, in which no text becomes markup."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from caribou.errors import InputError
from caribou.pages import base

HOSTILE = "</script><script>alert(1)</script> & <b>"


@pytest.fixture
def template(monkeypatch: pytest.MonkeyPatch) -> str:
    body = '{% extends "base.html" %}{% block body %}<h1>{{ heading }}</h1>{% endblock %}'
    whole = base.asset
    monkeypatch.setattr(base, "asset", lambda name: body if name == "mine.html" else whole(name))
    return "mine.html"


def test_a_page_holds_everything_and_loads_nothing(template: str) -> None:
    page = base.render(template, title="Mine", scripts=("page.js", "charts.js"), data={"x": 1}, heading="Hello")
    assert "<title>Mine</title>" in page
    assert "<h1>Hello</h1>" in page
    assert "const Charts" in page
    assert "--votes:" in page
    assert "default-src 'none'" in page
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"|@import|url\(', page) == []


def test_text_of_a_user_is_no_markup(template: str) -> None:
    page = base.render(template, title=HOSTILE, data={"note": HOSTILE}, heading=HOSTILE)
    assert "<script>alert" not in page
    assert "<b>" not in page
    written = re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)
    assert written is not None
    assert json.loads(written[1]) == {"note": HOSTILE}


def test_a_page_is_written_whole_to_a_file_of_its_kind(tmp_path: Path) -> None:
    base.write_page(tmp_path / "a.html", lambda: "ä")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == "ä"
    with pytest.raises(InputError, match=r"html must be a file that ends in \.html, got 'plan\.txt'"):
        base.write_page("plan.txt", pytest.fail)
    with pytest.raises(InputError, match="html must be in a folder that exists"):
        base.write_page(tmp_path / "a.html" / "b.html", pytest.fail)
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InputError, match="html must be a file that can be written"):
        base.write_page(tmp_path / "folder.html", str)


@pytest.mark.parametrize("letter", ["\u202e", "\u200b", "\n", "\x00", "\u2066"])
def test_words_of_others_are_set_apart_and_letters_that_hide_are_replaced(letter: str) -> None:
    assert base.declared(f"<b>a{letter}b") == '<code class="declared">&lt;b&gt;a\ufffdb</code>'
    assert base.declared(None) == "not stated"


def test_a_long_text_is_cut_and_says_so() -> None:
    assert "x" * base.LONGEST + " … (7 more)" in base.declared("x" * (base.LONGEST + 7))
    assert "more" not in base.declared("x" * base.LONGEST)
