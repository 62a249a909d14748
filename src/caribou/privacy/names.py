"""Names of data sets. A ledger knows people by the name of their data set, so two names that look alike would be two budgets.

A name is made of letters, digits, blanks and a few marks (`MARKS`). What the eye does not see, and letters that are other letters
in disguise (wide ones, mathematical ones, fillers), are refused. The letters of one word belong to one script. Names that are
left and still look alike, as a whole word in Cyrillic may look like one in Latin, are the same by `look`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from caribou.errors import InputError

MARKS = "-_.,:=+/@#&%()[]'"
LONGEST_NAME = 500

_LATIN = set("abcdefghijklmnopqrstuvwxyzßæœøłđðþı")
"""Latin letters without their accents. Others, of phonetic alphabets, look like these."""
_SCRIPTS = {
    *("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "GEORGIAN", "HEBREW", "ARABIC", "THAANA", "ETHIOPIC"),
    *("DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA"),
    *("THAI", "LAO", "TIBETAN", "MYANMAR", "KHMER", "HANGUL", "HIRAGANA", "KATAKANA", "BOPOMOFO", "CJK"),
}
"""Scripts of today's languages (recommended by Unicode's annex 31). Others hold whole alphabets that look like Latin."""
_WRITTEN_TOGETHER = ({"HIRAGANA", "KATAKANA", "CJK"}, {"HANGUL", "CJK"})
_UNSEEN = ("FILLER", "SELECTOR", "INHERENT", "JOINER", "BLANK")
"""Words in the Unicode names of letters and marks that show nothing."""
_LOOKS = str.maketrans(
    "авекмнорстухіјѕԁһԛԝ" + "αβεζηικμνορτυχ" + "օհոսցզ" + "ı01",
    "abekmhopctyxijsdhqw" + "abezhikmnoptyx" + "ohnugq" + "iol",
)
"""Small letters of Cyrillic, Greek and Armenian, a dotless i and two digits, as the Latin letters that they, or their capitals,
look like."""


def dataset_name(value: Any) -> str:
    """A name that can be told from others by looking at it; else an error that says which character is wrong.

    >>> dataset_name("csbm:nodes=300"), dataset_name("Übung 2")
    ('csbm:nodes=300', 'Übung 2')
    >>> dataset_name("\\u0435gg")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    caribou.errors.InputError: dataset must have letters of one script in a word, got U+0067 LATIN SMALL LETTER G ...
    """
    if not (isinstance(value, str) and value and value == value.strip() and len(value) <= LONGEST_NAME):
        raise InputError.of("dataset", f"be a name of 1 to {LONGEST_NAME} letters without outer blanks", value)
    scripts: set[str] = set()
    for letter in unicodedata.normalize("NFC", value):
        if letter in MARKS or letter in " 0123456789":
            scripts = set()
            continue
        if not _is_letter(letter):
            raise _refused(f"hold letters, digits, blanks and {MARKS} alone", letter, value)
        scripts.add(_script(letter))
        if len(scripts) > 1 and not any(scripts <= together for together in _WRITTEN_TOGETHER):
            raise _refused("have letters of one script in a word", letter, value)
    return value


def look(name: str) -> str:
    """What names that look alike have in common: the same for those that differ in case, blanks, Unicode form or script alone."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return " ".join(folded.translate(_LOOKS).split())


def _is_letter(letter: str) -> bool:
    name, kind = unicodedata.name(letter, ""), unicodedata.category(letter)
    if (
        unicodedata.normalize("NFKC", letter) != letter
        or _script(letter) not in _SCRIPTS
        or any(word in name for word in _UNSEEN)
    ):
        return False
    if _script(letter) == "LATIN":
        return unicodedata.normalize("NFD", letter)[0].lower() in _LATIN
    return kind in ("Lu", "Ll", "Lt", "Lo") or letter == "ー" or kind in ("Mn", "Mc")


def _script(letter: str) -> str:
    """The first word of the Unicode name: LATIN, CYRILLIC, CJK."""
    return re.split(r"[ -]", unicodedata.name(letter, ""))[0]


def _refused(rule: str, letter: str, value: str) -> InputError:
    point = f"U+{ord(letter):04X} {unicodedata.name(letter, 'without a name')}"
    return InputError(f"dataset must {rule}, got {point} in {value!a}; give another name (--name)")
