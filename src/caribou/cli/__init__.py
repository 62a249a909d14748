"""The command line. Each command lives in `caribou.cli`; heavy libraries are imported when a command needs them.

Exit codes: 0 done; 1 tables need other flags (``inspect``); 2 bad input (one line on stderr); 3 a claim does not hold
(``verify``, ``audit``, a broken ledger); 4 some cells failed (``run``, ``reproduce``); 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from caribou import __version__
from caribou.cli.audit import audit
from caribou.cli.certificate import certificate
from caribou.cli.choose import choose
from caribou.cli.datasets import datasets_app
from caribou.cli.doctor import doctor
from caribou.cli.downstream import graphs, links
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


app.command()(plan)
app.add_typer(datasets_app, name="datasets")
app.command()(methods)
app.command()(inspect)
app.command()(train)
app.command()(tune)
app.command()(propagate)
app.command()(choose)
app.command()(predict)
app.command()(extend)
app.command()(embed)
app.command()(links)
app.command()(graphs)
app.command()(certificate)
app.command()(audit)
app.command()(verify)
app.command()(run)
app.command()(report)
app.command()(reproduce)
app.add_typer(ledger_app, name="ledger")
app.command()(doctor)


def main() -> None:
    """The console script: errors of the user become one line on stderr and exit code 2."""
    try:
        with needs_training("this command"), warnings.catch_warnings():
            warnings.showwarning = _one_line
            code = app(standalone_mode=False)
    except CaribouError as error:
        _fail(f"{error}{_flag_of(str(error))}", EXIT_BAD_INPUT)
    except _UsageError as error:
        message = error.format_message()
        if not message:  # no arguments: the help was shown
            raise SystemExit(EXIT_BAD_INPUT) from None
        _fail(message + _given(error), EXIT_BAD_INPUT)
    except typer.Abort:
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader went away (``caribou ... | head``); keep the interpreter from complaining when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
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


def _flag_of(message: str) -> str:
    """The option of the command that a message is about: it begins with a field. Nothing where it names a flag already."""
    if "--" in message:
        return ""
    command: Any = typer.main.get_command(app)
    for word in sys.argv[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    field = message.split(maxsplit=1)[0].rstrip(":") if message.split() else ""
    option = _OTHER_NAMES.get(field, f"--{field.replace('_', '-')}")
    return f" ({option})" if any(option in parameter.opts for parameter in command.params) else ""


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"error: {' '.join(message.split())}\n")
    raise SystemExit(code) from None


def _one_line(message: Warning | str, *_: object, **__: object) -> None:
    sys.stderr.write(f"warning: {' '.join(str(message).split())}\n")
