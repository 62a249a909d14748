"""The command line. Each command lives in `caribou.cli`; heavy libraries are imported when a command needs them.

Exit codes: 0 done; 1 tables need other flags (``inspect``); 2 bad input (one line on stderr); 3 a claim does not hold
(``verify``, ``audit``, a broken ledger); 4 some cells failed (``run``, ``reproduce``); 130 interrupted.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from caribou import __version__
from caribou.cli.audit import audit
from caribou.cli.certificate import certificate
from caribou.cli.datasets import datasets_app
from caribou.cli.doctor import doctor
from caribou.cli.extend import extend
from caribou.cli.inspect import inspect
from caribou.cli.ledger import ledger_app
from caribou.cli.methods import methods
from caribou.cli.plan import plan
from caribou.cli.predict import embed, predict
from caribou.cli.propagate import propagate
from caribou.cli.report import report
from caribou.cli.reproduce import reproduce
from caribou.cli.run import run
from caribou.cli.train import train
from caribou.cli.tune import tune
from caribou.cli.verify import verify
from caribou.errors import CaribouError, needs_training

_UsageError: Any = typer.BadParameter.__mro__[1]  # click's, which Typer does not export
EXIT_BAD_INPUT, EXIT_INTERRUPTED = 2, 130

app = typer.Typer(
    name="caribou",
    help="Private graph learning whose guarantee survives attack.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"caribou {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    methods_files: Annotated[
        list[Path] | None,
        typer.Option("--methods", help="A Python file with methods of your own (cb.register); may be repeated."),
    ] = None,
) -> None:
    """Private graph learning whose guarantee survives attack."""
    if methods_files:
        # an environment variable, because processes that a command starts must know them, too
        os.environ["CARIBOU_METHODS"] = os.pathsep.join(str(file.absolute()) for file in methods_files)


PANELS = {
    "Before anything is spent": (plan, methods, inspect),
    "Make a release": (train, tune, propagate, extend),
    "Use a run": (predict, embed),
    "Check a release": (certificate, verify, audit),
    "Compare methods": (run, report),
    "This installation": (doctor,),
}
for panel, commands in PANELS.items():
    for each in commands:
        app.command(rich_help_panel=panel)(each)
app.add_typer(datasets_app, name="datasets", rich_help_panel="Before anything is spent")
app.add_typer(ledger_app, name="ledger", rich_help_panel="Check a release")
app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    rich_help_panel="Compare methods",
)(reproduce)


def main() -> None:
    """The console script: errors of the user become one line on stderr and exit code 2."""
    try:
        with needs_training("this command"), warnings.catch_warnings():
            warnings.showwarning = _one_line
            code = app(standalone_mode=False)
    except CaribouError as error:
        _fail(in_shell_words(str(error)), EXIT_BAD_INPUT)
    except _UsageError as error:
        message = error.format_message()
        if not message:  # no arguments: the help was shown
            raise SystemExit(EXIT_BAD_INPUT) from None
        _fail(message + _given(error), EXIT_BAD_INPUT)
    except RecursionError:
        _fail("input must not be nested thousands of levels deep, got more than can be read", EXIT_BAD_INPUT)
    except MemoryError as error:
        _fail(f"what was asked for must fit into memory, got none that is free: {error}", EXIT_BAD_INPUT)
    except typer.Abort:
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader went away (``caribou ... | head``); keep the interpreter from complaining when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except OSError as error:
        _fail(f"file must be one that the system can use, got {error.filename!r}: {error.strerror}", EXIT_BAD_INPUT)
    if code == EXIT_INTERRUPTED:
        _fail(
            "interrupted; files are whole or absent, and what was charged in a ledger stays charged", EXIT_INTERRUPTED
        )
    raise SystemExit(code or 0)


def _given(error: Any) -> str:
    """The value of the option that an error is about; Typer names the option alone."""
    options = getattr(getattr(error, "param", None), "opts", ())
    for word, following in zip(sys.argv, [*sys.argv[1:], ""], strict=True):
        option, equals, value = word.partition("=")
        if option in options and "got" not in error.format_message():
            return f", got {value if equals else following!r}"
    return ""


_OTHER_NAMES = {"setting": "--set"}
"""Fields whose option has another name."""
_CALLS = {"model.release(graph, ledger=...)": "--release --ledger LEDGER"}
"""What a Python caller calls, as options."""
_KEYWORD = re.compile(r"\b(?P<name>[a-z_]+)=(?:True|\.\.\.)(?=[\s,;.)]|$)")
_IGNORED = re.compile(r"\bColumnRules\(ignore=(?P<titles>\[.+?\])\)")
"""What an error says to a Python caller: a keyword, or columns that are left out."""


def in_shell_words(message: str) -> str:
    """An error of the library for somebody who types commands: keywords become options of the command that was typed.

    One that begins with a field which is an option names it at the end. One that speaks of options already stays.
    """
    if "--" in message:
        return message
    translated = _with_options(message)
    if translated != message:
        return translated
    field = message.split(maxsplit=1)[0].rstrip(":") if message.split() else ""
    option = _option_of(field)
    return f"{message} ({option})" if option in _typed_options() else message


def _with_options(message: str) -> str:
    for call, typed in _CALLS.items():
        message = message.replace(call, typed)
    options = _typed_options()
    message = _IGNORED.sub(_left_out, message)
    return _KEYWORD.sub(lambda f: _option_of(f["name"]) if _option_of(f["name"]) in options else f[0], message)


def _left_out(found: re.Match[str]) -> str:
    return " ".join(f"--ignore {shlex.quote(title)}" for title in ast.literal_eval(found["titles"]))


def _typed_options() -> set[str]:
    """The options of the command that was typed."""
    command: Any = typer.main.get_command(app)
    for word in sys.argv[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    return {option for parameter in command.params for option in parameter.opts}


def _option_of(field: str) -> str:
    return _OTHER_NAMES.get(field, f"--{field.replace('_', '-')}")


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"error: {' '.join(message.split())}\n")
    raise SystemExit(code) from None


def _one_line(message: Warning | str, *_: object, **__: object) -> None:
    sys.stderr.write(f"warning: {' '.join(_with_options(str(message)).split())}\n")
