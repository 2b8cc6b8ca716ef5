"""The program `bpfa`: its commands, and how their errors are reported."""

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
    raise SystemExit(f"bpfa: {error}; the command line needs it: pip install 'bpfa[cli]'") from None

import bpfa
from bpfa.cli import demo, doctor, images, live, report, tables
from bpfa.cli.options import in_terms_of_options
from bpfa.cli.signals import INTERRUPTED, SIGNALS, EndedWithOutput, status_of
from bpfa.data.remote import RowsLostError

__all__ = ["main"]

OK, FAILED, BAD_INPUT = 0, 1, 2

# Errors that a user can cause: wrong arguments, and files that do not exist, cannot be read, or are not what
# they should be.
USERS_ERRORS = (
    ValueError,
    TypeError,
    FileNotFoundError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)

app = typer.Typer(
    name="bpfa",
    help="Beta process factor analysis: fill in images and tables, and learn how certain each entry is.",
    epilog="Exit status: 0 success, 1 failure, 2 wrong usage or input, 130 interrupted, 143 or 129 ended by "
    "SIGTERM or SIGHUP.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    images.inpaint,
    images.denoise,
    live.live,
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
    """Declare the options that come before the name of a command."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run `bpfa` and exit with its status.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments of the process by default.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    with warnings.catch_warnings():
        _show_each_warning_in_one_line()
        status = _status(given)
    sys.exit(status)


def _status(arguments: list[str]) -> int:
    """Run a command and return its exit status; every error becomes one line on standard error."""
    try:
        status: Any = app(arguments or ["--help"], prog_name="bpfa", standalone_mode=False, obj=arguments)
        sys.stdout.flush()
    except EndedWithOutput as ended:
        return ended.status
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed the pipe. Python would report the same error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        return _report_error(error)
    if status in (INTERRUPTED, *map(status_of, SIGNALS)):
        _print_line("interrupted; no finished output was written")
    return int(status or OK)


def _report_error(error: Exception) -> int:
    """Print what went wrong, and return the exit status."""
    if os.environ.get("BPFA_DEBUG"):
        traceback.print_exception(error)
    # An error of usage. Its class is in different places in different versions of typer.
    if hasattr(error, "format_message"):
        command = getattr(getattr(error, "ctx", None), "command_path", "bpfa")
        message = error.format_message().rstrip(".")
        _print_line(f"{message}{' See' if message.endswith('?') else '; see'} '{command} --help'")
        return BAD_INPUT
    if isinstance(error, MemoryError):
        way_out = "use fewer --components, a smaller --patch or a larger --stride"
        _print_line(f"out of memory ({error}); {way_out}")
        return FAILED
    if isinstance(error, OSError) and error.strerror and error.filename:
        _print_line(f"{error.filename}: {error.strerror}")
    elif isinstance(
        error, (*USERS_ERRORS, OSError, ImportError, ArithmeticError, RowsLostError)
    ) or _is_about_device(error):
        _print_line(in_terms_of_options(str(error)))
    else:
        way_out = "This is a bug, please report it; BPFA_DEBUG=1 shows where it is"
        _print_line(f"{type(error).__name__}: {error}. {way_out}")
    return BAD_INPUT if isinstance(error, USERS_ERRORS) else FAILED


def _is_about_device(error: Exception) -> bool:
    """Return whether the machine lacks the device that was asked for, which is no bug."""
    return isinstance(error, RuntimeError) and str(error).startswith("device=")


def _print_line(text: str) -> None:
    print(f"bpfa: {' '.join(text.split())}", file=sys.stderr)


def _show_each_warning_in_one_line() -> None:
    """Show each warning that concerns users in one line, and hide those that concern developers."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if category in (UserWarning, RuntimeWarning):
            _print_line(f"warning: {message}")

    warnings.simplefilter("default")
    warnings.showwarning = show
