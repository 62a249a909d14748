"""How a CSV file is written: separator and encoding.

The separator is read off the line of titles, which is public, and said. The encoding of a file that is not UTF-8 is declared: one
that is guessed wrong would change names without a word.
"""

from __future__ import annotations

import codecs
import csv
from dataclasses import dataclass
from pathlib import Path

from caribou.tables.inspect import Finding, Findings, Problem
from caribou.tables.rules import ColumnRules, separator_word

SEPARATORS = (",", ";", "\t", "|")
UTF_8 = "utf-8-sig"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class CsvFormat:
    """``separator`` of cells, ``encoding`` of letters, and whether numbers stay ``text`` until they are read cell by cell."""

    separator: str = ","
    encoding: str = UTF_8
    text: bool = False


COMMAS = CsvFormat()
"""Commas and UTF-8."""


def csv_format(path: Path, rules: ColumnRules | None = None, findings: Findings | None = None) -> CsvFormat:
    """The format of a file: as declared, else as it shows. What must be declared is a problem; what was read off is a note."""
    rules, found = rules or ColumnRules(), findings or Findings(collect=False)
    if path.suffix.lower() != ".csv":
        return COMMAS
    encoding = _encoding(path, rules.encoding, found)
    separator = rules.separator or _separator(path, encoding, found)
    return CsvFormat(separator, encoding, text=rules.decimal is not None)


def _encoding(path: Path, declared: str | None, findings: Findings) -> str:
    """UTF-8 where the bytes are; else the declared encoding. Without one: a likely one, and a problem."""
    wrong = _not_utf_8(path)
    if wrong is None:
        return UTF_8
    if declared is not None:
        return declared
    row, data = wrong
    with open(path, "rb") as file:
        head = file.read(_CHUNK)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        likely, found = "utf-16", "the first bytes of UTF-16"
    elif b"\0" in head:
        return UTF_8  # no text at all: the reader says so
    else:
        likely = "cp1252" if any(0x80 <= byte <= 0x9F for byte in data) else "latin-1"
        found = f"the byte 0x{data[0]:02x} ({data[:1].decode(likely, 'replace')!r} in {likely})"
    place = f"{path}: row {row}" if row else f"{path}: line of titles"
    rule = f"encoding must be UTF-8 or declared, got {found}"
    findings.add(Problem(Finding.ENCODING, place, rule, flags=(f"--encoding {likely}",)))
    return likely


def _not_utf_8(path: Path) -> tuple[int, bytes] | None:
    """The row of the first byte that is not UTF-8 (0: the titles) and the bytes from there on; None: there is none."""
    decoder, rows = codecs.getincrementaldecoder("utf-8")(), 0
    with open(path, "rb") as file:
        while True:
            data = file.read(_CHUNK)
            try:
                decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                # the decoder kept what a chunk cut off: its object is that and the chunk
                return rows + error.object[: error.start].count(b"\n"), error.object[error.start :]
            if not data:
                return None
            rows += data.count(b"\n")


def _separator(path: Path, encoding: str, findings: Findings) -> str:
    try:
        with open(path, encoding=encoding, newline="") as file:
            lines = [line for line in (file.readline(_CHUNK), file.readline(_CHUNK)) if line.strip()]
    except (UnicodeError, LookupError):
        return SEPARATORS[0]  # the reader says what is wrong
    best = likely_separator(lines)
    words = f"{path}: cells are separated by {separator_word(best)!r}, as the line of titles shows"
    findings.note(Finding.SEPARATOR, words, int(best != SEPARATORS[0]), ("--separator SIGN",))
    return best


def likely_separator(lines: list[str]) -> str:
    """The sign that gives the first lines of a file the same number of cells, and most of them; of equal ones the comma.

    >>> likely_separator(["a;b", "1,5;2"])
    ';'
    """
    best, most = SEPARATORS[0], 0
    for sign in SEPARATORS:
        sizes = _sizes(lines, sign)
        if len(set(sizes)) == 1 and sizes[0] > most:
            best, most = sign, sizes[0]
    if most <= 1:
        # no sign divides both lines alike: a row may be damaged, and the titles decide
        best = max(SEPARATORS, key=lambda sign: max(_sizes(lines[:1], sign), default=0))
    return best


def _sizes(lines: list[str], separator: str) -> list[int]:
    """How many cells each line has."""
    try:
        return [len(row) for row in csv.reader(lines, delimiter=separator)]
    except csv.Error:
        return []
