"""The program `bpfa`: its commands, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

try:
    import typer
except ImportError as error:
    raise SystemExit(f"bpfa: {error}; the command line needs more: pip install 'bpfa[cli]'") from None

import bpfa
from bpfa.cli import demo, doctor, images, report, tables
from bpfa.cli.options import LIBRARY_NAMES

__all__ = ["main"]

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

# What a user can cause: wrong arguments, and files that are not there, not readable or of another kind.
USERS_ERRORS = (
    ValueError,
    TypeError,
    FileNotFoundError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)

OPTION_NAMES = {name: option.replace("_", "-") for option, name in LIBRARY_NAMES.items()}

app = typer.Typer(
    name="bpfa",
    help="Beta process factor analysis: fill in images and tables, and see how sure to be of every entry.",
    epilog="Exit status: 0 all is written, 1 a failure, 2 wrong usage or input, 130 interrupted.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    images.inpaint,
    images.denoise,
    tables.fit,
    tables.transform,
    tables.impute,
    report.report,
    doctor.doctor,
    demo.demo,
):
    app.command()(command)


def _version(asked: bool) -> None:
    if asked:
        print(f"bpfa {bpfa.__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Hold the options that go before a command."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run `bpfa` and exit with its status.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    with warnings.catch_warnings():
        _show_warnings_in_a_line()
        status = _status(given)
    sys.exit(status)


def _status(arguments: list[str]) -> int:
    """Run a command and return its exit status; every error is one line on standard error."""
    try:
        status: Any = app(arguments or ["--help"], prog_name="bpfa", standalone_mode=False, obj=arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:
        # Who reads has seen enough. Python would complain once more when it closes the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        return _complain(error)
    if status == INTERRUPTED:
        _line("interrupted; no output was written")
    return int(status or OK)


def _complain(error: Exception) -> int:
    """Say what went wrong and return the exit status."""
    if os.environ.get("BPFA_DEBUG"):
        traceback.print_exception(error)
    # Errors of usage, whose class is called differently in versions of typer.
    if hasattr(error, "format_message"):
        command = getattr(getattr(error, "ctx", None), "command_path", "bpfa")
        _line(f"{error.format_message().rstrip('.')}; see '{command} --help'")
        return BAD_INPUT
    if isinstance(error, MemoryError):
        _line(f"out of memory ({error}); use fewer --components, a smaller --patch or a larger --stride")
        return FAILED
    if isinstance(error, OSError) and error.strerror and error.filename:
        _line(f"{error.filename}: {error.strerror}")
    elif isinstance(error, (*USERS_ERRORS, OSError, ImportError, ArithmeticError)):
        _line(_with_options(str(error)))
    else:
        _line(f"{type(error).__name__}: {error}. This is a bug: BPFA_DEBUG=1 shows where, for a report of it")
    return BAD_INPUT if isinstance(error, USERS_ERRORS) else FAILED


def _with_options(text: str) -> str:
    """Return a message in which the argument that it begins with is called as on the command line."""
    name, equals, rest = text.partition("=")
    if not equals or name not in OPTION_NAMES:
        return text
    # A flag is there or not, and has no value.
    return f"--{OPTION_NAMES[name]}{rest.removeprefix('True') if rest.startswith('True') else ' ' + rest}"


def _line(text: str) -> None:
    print(f"bpfa: {' '.join(text.split())}", file=sys.stderr)


def _show_warnings_in_a_line() -> None:
    """Show warnings for users as a line each, and no warnings for developers."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if category in (UserWarning, RuntimeWarning):
            _line(f"warning: {message}")

    warnings.simplefilter("default")
    warnings.showwarning = show
