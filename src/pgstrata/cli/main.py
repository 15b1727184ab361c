"""The program `pgstrata`: its commands, and how it ends.

Exit codes: 0 all went well; 1 something failed (a run, a server, a check); 2 what was asked for is
not valid; 3 a check is unclear; 130 and 143 ended by Ctrl-C and by SIGTERM.
"""

from __future__ import annotations

import codecs
import io
import os
import signal
import sys
from collections.abc import Sequence

import typer

from pgstrata.cli.commands import Program, offered
from pgstrata.cli.ctrl_c import take_ctrl_c
from pgstrata.cli.ending import Interruption, ReaderGone, report_error
from pgstrata.errors import Interrupted, UsageError
from pgstrata.files.user_files import shown
from pgstrata.process_end import allow_process_end, exit_process

EPILOG = (
    "Exit codes: 0 all went well, 1 something failed, 2 the question was not valid, "
    "3 a check is unclear, 130 ended by Ctrl-C. PGSTRATA_TRACE=1 shows where an error came from."
)

COMPLETE = "_PGSTRATA_COMPLETE"
"""The variable by which a shell asks for completions."""

app = typer.Typer(
    name="pgstrata",
    cls=Program,
    help="Did PostgreSQL get slower — where, by how much, is it real, and why?",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        from pgstrata import __version__

        typer.echo(f"pgstrata {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


def invoke(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code; errors are printed, never raised."""
    try:
        return _invoke(arguments)
    except KeyboardInterrupt:
        return 130  # also while an error was being printed
    except Interrupted as interrupted:
        return interrupted.exit_code


def _invoke(arguments: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(
            args=_plain(given),
            prog_name="pgstrata",
            standalone_mode=False,
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except Interruption as interruption:
        return interruption.exit_code
    except Interrupted as interrupted:
        # Of a command that has nothing to say about it: it has cleaned up on the way.
        print("stopped", file=sys.stderr)
        return interrupted.exit_code
    except (BrokenPipeError, ReaderGone):
        # Whoever read our output has enough; nothing is left to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Exception as error:
        return _error_code(given, report_error(error))


def _error_code(given: Sequence[str], code: int) -> int:
    """Returns the exit code of an error: `code`, unless the command has another one for what is given."""
    command = offered().get(given[0]) if given else None
    codes = command.error_codes if command is not None else {}
    return next((other for option, other in codes.items() if option in given), code)


def _plain(arguments: list[str]) -> list[str]:
    """Returns the arguments. Raises UsageError unless each is text that can be printed, stored and handed to
    a server."""
    for argument in arguments:
        if "\0" in argument or any("\ud800" <= letter <= "\udfff" for letter in argument):
            raise UsageError(f"the argument {shown(argument)} is not UTF-8 text", "rename what it names")
    return arguments


def _prepare_streams() -> None:
    """Makes what was started without standard streams, or with ones that do not take every letter, safe to
    print to.

    A stream that is closed becomes /dev/null: the next file that is opened would have its number. A letter
    that the locale lacks is printed as JSON escapes it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number is this one
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8")
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error(__name__, _as_json_escapes)
        sys.stdout.reconfigure(errors=__name__)


def _as_json_escapes(error: UnicodeError) -> tuple[str, int]:
    """Handles an error of encoding: letters become `\\u2026`, in what is no JSON, too."""
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2)), error.end


def main() -> None:
    """Runs the command `pgstrata`, as its entry point."""
    _prepare_streams()
    # Whatever is made, also by programs that are started: other users may not write to it.
    os.umask(os.umask(0o022) | 0o022)
    allow_process_end()
    take_ctrl_c()
    if COMPLETE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    exit_process(invoke())
