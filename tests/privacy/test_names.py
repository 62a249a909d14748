"""Names of data sets: whatever the eye cannot tell apart is one name, or none."""

from __future__ import annotations

import unicodedata

import pytest

from caribou.errors import InputError
from caribou.privacy.names import dataset_name, look

PLAIN = (
    *(
        "survey",
        "csbm:nodes=300,seed=1",
        "Übung 2",
        "cafe\u0301",
        "調査データ",
        "설문 조사",
        "опрос",
        "सर्वे",
        "استبيان",
        "łódź",
    ),
    *("Straße", "copy (1)", "a_b/c.d", "ΑΒΓ δ", "Đà Nẵng", "2026-11 опрос", "x" * 500),
)


@pytest.mark.parametrize("name", PLAIN)
def test_names_of_many_languages_are_names(name: str) -> None:
    assert dataset_name(name) is name


@pytest.mark.parametrize(
    ("letter", "rule"),
    [
        *(
            (c, "hold")
            for c in "\u3164\u2800\ufe0f\u034f\u115f\u1160\uffa0\u200b\u00ad\u2060\u180b\u17b4\u00a0\u3000\t\x1b\udce4"
        ),
        *(
            (c, "hold")
            for c in '\u017f\uff53\U0001d42c\u0251\u01c3\u02bb\u00b5\u2044\u0489\u0640\u0663\u00bd<>"$;|*?\\`'
        ),
        *((c, "hold") for c in "\ua4d0\u13aa"),  # scripts whose letters look like Latin ones
        *((c, "have letters of one script") for c in "\u0435\u0430\u0456\u03bf\u0555\u10e7"),
    ],
    ids=ascii,
)
def test_what_cannot_be_seen_or_is_another_letter_is_refused_by_its_code_point(letter: str, rule: str) -> None:
    with pytest.raises(InputError) as caught:
        dataset_name(f"sur{letter}vey")
    assert caught.value.field == "dataset"
    assert str(caught.value.rule).startswith(rule)
    assert str(caught.value.value).startswith(f"U+{ord(letter):04X} ")
    assert str(caught.value).isascii(), "what is refused is shown as it can be read"


@pytest.mark.parametrize("wrong", ["", " survey", "survey ", "x" * 501, None, 3, b"survey"])
def test_a_name_is_text_of_one_line(wrong: object) -> None:
    with pytest.raises(InputError) as caught:
        dataset_name(wrong)
    assert (caught.value.field, caught.value.value) == ("dataset", wrong)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("survey", "SURVEY"),
        ("a  b", "a b"),
        ("café", "cafe\u0301"),
        ("KOT", "КОТ"),
        ("coco", "сосо"),
        ("ABE", "ΑΒΕ"),
        ("ilk", "ılk"),
        ("oo", "\u0585\u0585"),
        ("cohort-1", "cohort-l"),
        ("data0", "dataO"),
    ],
)
def test_names_that_look_alike_look_alike(one: str, other: str) -> None:
    assert one != other
    assert look(dataset_name(one)) == look(dataset_name(other))


def test_names_that_differ_to_the_eye_do_not_look_alike() -> None:
    names = [name for name in PLAIN if name.isprintable()]
    assert len({look(name) for name in names}) == len(names)
    assert look("cafe") != look("café")


def test_no_letter_that_is_drawn_as_nothing_passes() -> None:
    """Over all of Unicode: what has no ink, by its name, is no part of a name."""
    words = ("FILLER", "ZERO WIDTH", "INVISIBLE", "VARIATION SELECTOR", "JOINER", "BLANK", "INHERENT")
    for letter in map(chr, range(0x80, 0x110000)):
        if any(word in unicodedata.name(letter, "") for word in words):
            with pytest.raises(InputError):
                dataset_name(f"a{letter}")
            with pytest.raises(InputError):
                dataset_name(letter)
