"""Records of options: which options a command has, and what it refuses before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from caribou.cli.command import argument, command, option, record, repeated, switch
from caribou.errors import InputError


@record
class Inner:
    """Options in a record that is in a record."""

    size: int = option("How large.", default=3)
    words: tuple[str, ...] = repeated("Some words.", "--word")


@record
class Outer:
    """A record with a record in it."""

    name: str = argument("The name.")
    first: str | None = option("The first.")
    inner: Inner
    out: Path = option("Where.", default=...)
    last: bool = switch("The last.", needs="--first")


SEEN: list[Outer] = []
app = typer.Typer(add_completion=False)


@app.command()
@command
def keep(given: Outer) -> None:
    """Keep what is typed."""
    SEEN.append(given)


def test_a_record_of_options_stands_for_its_options() -> None:
    many = ["x", "--out", "o", "--size", "5", "--word", "u", "--word", "v", "--first", "b", "--last"]
    for words in (["x", "--out", "o"], many):
        assert CliRunner().invoke(app, words).exit_code == 0
    assert [
        Outer(name="x", inner=Inner(), out=Path("o")),
        Outer(name="x", first="b", inner=Inner(size=5, words=("u", "v")), out=Path("o"), last=True),
    ] == SEEN
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert shown.index("--first") < shown.index("--size") < shown.index("--word") < shown.index("--last")
    assert "With --first: the last." in shown


def test_what_says_nothing_alone_and_what_must_be_given() -> None:
    refused = CliRunner().invoke(app, ["x", "--out", "o", "--last"]).exception
    assert isinstance(refused, InputError)
    assert (refused.field, refused.rule) == ("last", "go with --first")
    assert CliRunner().invoke(app, ["x"]).exit_code == 2


def test_two_records_with_an_option_of_one_name_are_refused() -> None:
    @record
    class Both:
        """Which of them would --size be?"""

        one: Inner
        size: int = option("Another size.", default=1)

    def both(given: Both) -> None:
        """Never made."""

    both.__annotations__ = {"given": Both}
    with pytest.raises(ValueError, match="duplicate parameter name: 'size'"):
        command(both)
