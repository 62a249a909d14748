"""CSV files of other countries: the separator is read off, the encoding and the decimal mark are declared, and both are said."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from caribou.datasets import read_graph
from caribou.errors import DataError, InputError
from caribou.tables.csv_format import CsvFormat, csv_format
from caribou.tables.inspect import Finding, Findings
from caribou.tables.rules import ColumnRules
from table_support import RULES, bank, content


def european(folder: Path, encoding: str = "latin-1") -> tuple[Path, Path]:
    """The bank as a spreadsheet of another country writes it."""
    edges, nodes = bank()
    nodes["ort"] = ["Zürich" if k % 2 else "Köln" for k in range(len(nodes))]
    nodes["income"] = [None if k % 7 == 0 else f"{k}.000,25" for k in range(len(nodes))]
    nodes["share"] = [f"{k},5 %" for k in range(len(nodes))]
    for name, frame in (("edges", edges), ("nodes", nodes)):
        frame.to_csv(folder / f"{name}.csv", index=False, sep=";", encoding=encoding)
    return folder / "edges.csv", folder / "nodes.csv"


EUROPE = ColumnRules(
    **{
        **RULES.to_dict(),
        "categories": {"segment": ("business", "private"), "ort": ("Köln", "Zürich")},
        "ranges": {"age": (18, 95), "share": (0, 1)},
        "decimal": ",",
        "percent": ["share"],
        "encoding": "latin-1",
    }
)


@pytest.mark.filterwarnings("ignore:.*(are not used|are separated)")
def test_a_table_of_another_country_is_the_same_graph(tmp_path: Path) -> None:
    there = read_graph(*european(tmp_path), rules=EUROPE)
    edges, nodes = bank()
    nodes["ort"] = ["Zürich" if k % 2 else "Köln" for k in range(len(nodes))]
    nodes["income"] = [None if k % 7 == 0 else 1000 * k + 0.25 for k in range(len(nodes))]
    nodes["share"] = [k + 0.5 for k in range(len(nodes))]
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    files = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    with pytest.raises(
        DataError, match=r"'income' must hold plain numbers, got '1000.25' \(1000.25\?\).* give --decimal \."
    ):
        read_graph(*files, rules=EUROPE)
    here = read_graph(*files, rules=EUROPE.joined(ColumnRules(decimal=".")))
    assert content(there) == content(here), "a file that is UTF-8 is read as UTF-8, whatever is declared for others"
    assert "ort=Zürich" in (there.feature_names or ())
    assert ColumnRules.from_dict(there.column_rules.to_dict()) == EUROPE, "the next month is read in the same way"


def test_what_must_be_declared_is_told_at_once(tmp_path: Path) -> None:
    from caribou.datasets.files import inspect_tables
    from caribou.tables.read import Titles

    edges, nodes = european(tmp_path)
    found = inspect_tables(edges, nodes, Titles(), "bank", None, RULES).inspection
    assert {problem.kind: problem.flags[0] for problem in found.problems} == {
        Finding.ENCODING: "--encoding latin-1",
        Finding.NUMERALS: "--decimal , --percent share",
        Finding.TEXT: "--category ort",
    }
    assert "row 1: encoding must be UTF-8 or declared, got the byte 0xf6 ('ö' in latin-1)" in found.problems[0].words
    notes = [note.words for note in found.notes if note.kind is Finding.SEPARATOR]
    assert len(notes) == 2
    assert "separated by ';', as the line of titles shows" in notes[0]
    with (
        pytest.raises(DataError, match=r"--encoding latin-1.*--decimal ,"),
        pytest.warns(UserWarning, match="separated"),
    ):
        read_graph(edges, nodes, rules=RULES)


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2,5\n", ";"),
        ("a\tb\n1\t2\n", "\t"),
        ("a|b\n1|2\n", "|"),
        ("id\n7\n", ","),
        ('"x, y";z;u\n1,5;2;3\n', ";"),
        ("a;b;c\n1;2\n", ";"),
        ("a,b\n", ","),
    ],
)
def test_the_line_of_titles_shows_the_separator(text: str, separator: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert csv_format(path).separator == separator
    assert csv_format(path, ColumnRules(separator="tab")) == CsvFormat("\t")


def test_the_likely_encoding_is_named_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for data, flag in (
        ("id;€\n1;2\n".encode("cp1252"), "--encoding cp1252"),
        ("id;ü\n1;2\n".encode("latin-1"), "--encoding latin-1"),
        ("id;ü\n1;2\n".encode("utf-16"), "--encoding utf-16"),
    ):
        path.write_bytes(data)
        findings = Findings()
        csv_format(path, None, findings)
        assert [problem.flags for problem in findings.problems] == [(flag,)]
        assert csv_format(path, ColumnRules(encoding=flag.split()[1])).separator == ";"
    path.write_text("id,ü\n1,2\n" * 200_000, encoding="utf-8")  # letters across the chunks
    assert csv_format(path, None, Findings()) == CsvFormat()


def test_rules_of_files_that_mean_nothing_are_refused() -> None:
    for rules, message in (
        ({"decimal": ";"}, r"decimal must be a comma or a point, got ';' \(--decimal ,\)"),
        ({"separator": "xy"}, r"separator must be one sign such as ; or the word tab, got 'xy' \(--separator"),
        ({"separator": "1"}, r"separator must be one sign"),
        ({"encoding": "klingon"}, r"encoding must be one that Python knows, got 'klingon' \(--encoding latin-1"),
        ({"encoding": "base64"}, r"encoding must be one that Python knows"),
        (
            {"aliases": {"a": "b", "b": "c"}},
            r"alias must stand for a word that is no alias itself, got 'a' for 'b'",
        ),
        ({"aliases": {"a": ""}}, r"alias must be two words that are not empty, got \('a', ''\) \(--alias WORD=CLASS\)"),
        ({"percent": ["a"], "categories": {"a": None}}, r"got 'a' in --category and --percent"),
    ):
        with pytest.raises(InputError, match=message):
            ColumnRules(**rules)
    run = ColumnRules(separator=";", encoding="latin-1", decimal=",", aliases={"A": "a"})
    later = run.joined(ColumnRules(separator="tab", encoding="cp1252"))
    assert (later.separator, later.encoding, later.decimal) == ("\t", "cp1252", ","), (
        "a file is written as it is written"
    )
    with pytest.raises(InputError, match=r"alias of 'A' must be those of the run, 'a', got 'b' \(leave out --alias A"):
        run.joined(ColumnRules(aliases={"A": "b"}))


@pytest.mark.filterwarnings("ignore:.*(are not used|are separated)")
def test_thousands_are_no_decimals_in_any_column(tmp_path: Path) -> None:
    """Where a mark is declared, pandas reads no number: it would take 1.234 for 1.234."""
    (tmp_path / "e.csv").write_text("a;b\n1;2\n")
    (tmp_path / "n.csv").write_text("id;x;z\n1;1.234;0,5\n2;5.678;1\n")
    graph = read_graph(tmp_path / "e.csv", tmp_path / "n.csv", rules=ColumnRules(decimal=","))
    assert graph.features.tolist() == [[1234.0, 0.5], [5678.0, 1.0]]
    assert pd.read_csv(tmp_path / "n.csv", sep=";")["x"][0] == 1.234
