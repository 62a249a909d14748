"""Commands and their options. A command takes one record: a plain class with a field for each of its options, and perhaps with
records in it that other commands have, too. An option that several commands take is written once.

    @record
    class PlayOptions:
        \"\"\"What caribou play takes.\"\"\"

        file: Path = argument("What is played.")
        loops: int = option("How often.", default=1)
        speaker: str | None = option("Where.")
        volume: float = option("How loud.", default=0.5, needs="--speaker")


    @command
    def play(given: PlayOptions) -> None:
        \"\"\"Play a file.\"\"\"
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Annotated, Any, TypeVar, dataclass_transform, get_origin, get_type_hints

import typer

from caribou.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True)
class Parameter:
    """One option of a command, or an argument: what Typer is told of it.

    ``default``: ``...`` if it must be given. ``needs``: another option, without which this one says nothing.
    """

    make: Callable[..., Any]
    help: str
    names: tuple[str, ...] = ()
    default: Any = None
    needs: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def flags(self, name: str) -> tuple[str, ...]:
        """How it is typed; a switch has no opposite."""
        return self.names or (f"--{name.replace('_', '-')}",)

    def info(self, name: str) -> Any:
        """As Typer takes it."""
        flags = () if self.make is typer.Argument else self.flags(name)
        words = self.help if self.needs is None else f"With {self.needs}: {self.help[0].lower()}{self.help[1:]}"
        return self.make(*flags, help=words, **self.more)


def argument(words: str, default: Any = ..., **more: Any) -> Any:
    """An argument as a field of a record."""
    return Parameter(typer.Argument, words, (), default, None, more)


def option(words: str, *names: str, default: Any = None, needs: str | None = None, **more: Any) -> Any:
    """An option as a field of a record; its name is that of the field, unless ``names`` are given."""
    return Parameter(typer.Option, words, names, default, needs, more)


def switch(words: str, *names: str, needs: str | None = None, **more: Any) -> Any:
    """An option without a value: False unless it is given."""
    return option(words, *names, default=False, needs=needs, **more)


def repeated(words: str, *names: str, **more: Any) -> Any:
    """An option that may be given many times, as a tuple of words."""
    return option(words, *names, default=(), **more)


def as_json() -> Any:
    """The switch of commands that print the same for programs."""
    return switch("One JSON object on stdout, everything else on stderr.", "--json")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """A class whose fields are options, as a frozen dataclass."""
    for name in cls.__annotations__:
        given = cls.__dict__.get(name)
        if isinstance(given, Parameter):
            required = given.default is ...
            setattr(cls, name, field(default=MISSING if required else given.default, metadata={"parameter": given}))
    return dataclass(frozen=True, kw_only=True)(cls)


def command(function: Callable[[Any], None]) -> Callable[..., None]:
    """A function of one record as Typer takes it: with an option for each field of the record, and of records in it."""
    (group,) = (hint for name, hint in get_type_hints(function).items() if name != "return")
    found = list(_parameters(group))

    @functools.wraps(function)
    def wrapper(**typed: Any) -> None:
        typed |= {name: tuple(typed[name] or ()) for name, known, _ in found if known.default == ()}
        _require_needed([(name, known, typed[name]) for name, known, _ in found])
        function(_filled(group, typed))

    declared = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default={...: inspect.Parameter.empty, (): None}.get(known.default, known.default),
            annotation=Annotated[_shell_type(kind), known.info(name)],
        )
        for name, known, kind in found
    ]
    wrapper.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {each.name: each.annotation for each in declared} | {"return": None}
    return wrapper


def _parameters(group: Any) -> Iterator[tuple[str, Parameter, Any]]:
    """Name, option and type of each field of a record, those of records in it in their place."""
    kinds = get_type_hints(group)
    for each in fields(group):
        if is_dataclass(kinds[each.name]):
            yield from _parameters(kinds[each.name])
        else:
            yield each.name, each.metadata["parameter"], kinds[each.name]


def _shell_type(kind: Any) -> Any:
    """Words that may be repeated are a list for Typer."""
    return list[str] | None if get_origin(kind) is tuple else kind


def _filled(group: Any, typed: dict[str, Any]) -> Any:
    kinds = get_type_hints(group)
    return group(
        **{
            each.name: _filled(kinds[each.name], typed) if is_dataclass(kinds[each.name]) else typed[each.name]
            for each in fields(group)
        }
    )


def _require_needed(typed: Sequence[tuple[str, Parameter, Any]]) -> None:
    """An option that says nothing without another one is an error."""
    given = {flag for name, known, value in typed if value != known.default for flag in known.flags(name)}
    for name, known, _ in typed:
        if known.needs is not None and known.needs not in given and given.intersection(known.flags(name)):
            raise InputError(f"{name} must go with {known.needs}, got no {known.needs}")
