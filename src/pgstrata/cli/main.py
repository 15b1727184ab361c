"""The program `pgstrata`: its commands, and how it ends.

Exit codes: 0 all went well; 1 something failed (a run, a server, a check); 2 what was asked for is
not valid; 3 a check is unclear; 130 and 143 ended by Ctrl-C and by SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

import typer

from pgstrata.cli import (
    bench,
    bisect,
    capture,
    compare,
    config,
    count,
    data,
    doctor,
    fleet,
    init,
    noise,
    patch,
    query,
    report,
    run,
    runs,
    servers,
    show,
    steps,
    study,
    upgrade,
    workloads,
)
from pgstrata.cli.ending import Interruption, report_error
from pgstrata.cli.quiet import with_quiet
from pgstrata.errors import PgstrataError, UsageError
from pgstrata.files.user_files import shown
from pgstrata.process_end import allow_process_end

EPILOG = (
    "Exit codes: 0 all went well, 1 something failed, 2 the question was not valid, "
    "3 a check is unclear, 130 ended by Ctrl-C. PGSTRATA_TRACE=1 shows where an error came from."
)

app = typer.Typer(
    name="pgstrata",
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


app.command("run", short_help="Run a campaign, or go on with one.")(run.run)
app.command(
    "bench",
    short_help="Run pgbench scripts against a running server.",
    context_settings={"help_option_names": ["--help"]},  # -h names the host, as to pgbench
)(bench.bench)
app.command("init", short_help="Write a commented campaign.")(init.init)
app.command("report", short_help="Write the report of a campaign.")(report.report)
app.command("runs", short_help="List the runs.")(runs.runs)
app.command("show", short_help="Show one run.")(show.show)
app.command("compare", short_help="Slower, faster, same or unclear?")(compare.compare)
app.command("check", short_help="For scripts: fail where something is slower.")(compare.check)
app.command("count", short_help="Instructions per operation, not time.")(count.count)
app.command("bisect", short_help="Find the commit that made it slower.")(bisect.bisect)
app.command("patch", short_help="What does a patch do to the speed?")(patch.patch)
app.command("capture", short_help="Your traffic, from a server's logs into one file.")(capture.capture)
app.command("upgrade", short_help="Your dump and log on old and new: what is slower?")(upgrade.upgrade)
app.command("noise", short_help="What differences can this machine see?")(noise.noise)
app.add_typer(study.app, name="study", short_help="Studies of configurations.")
app.command("query", short_help="Ask the runs anything in SQL.")(query.query)
app.add_typer(servers.app, name="servers", short_help="List, fetch, remove servers.")
app.add_typer(data.app, name="data", short_help="List, remove data in the cache.")
app.add_typer(fleet.app, name="fleet", short_help="Machines for campaigns: up, status, down.")
app.add_typer(config.app, name="config", short_help="Config fragments, and what a version makes of them.")
app.command("doctor", short_help="Is this machine fit to measure?")(doctor.doctor)
app.command("workloads", short_help="List workloads and their options.")(workloads.workloads)
app.command("steps", short_help="List the steps of a workload.")(steps.steps)

with_quiet(app)


def invoke(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code; errors are printed, never raised."""
    try:
        code = app(
            args=_plain(list(sys.argv[1:] if arguments is None else arguments)),
            prog_name="pgstrata",
            standalone_mode=False,
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except Interruption as interruption:
        return interruption.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has enough; nothing is left to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except PgstrataError as error:
        return report_error(error)
    except Exception as error:
        return report_error(error)


def _plain(arguments: list[str]) -> list[str]:
    """The arguments, all of them text that can be printed, stored and handed to a server."""
    for argument in arguments:
        if "\0" in argument or any("\ud800" <= letter <= "\udfff" for letter in argument):
            raise UsageError(f"the argument {shown(argument)} is not UTF-8 text", "rename what it names")
    return arguments


def main() -> None:
    """Entry point of the command `pgstrata`."""
    # Whatever is made, also by programs that are started: other users may not write to it.
    os.umask(os.umask(0o022) | 0o022)
    allow_process_end()
    sys.exit(invoke())
