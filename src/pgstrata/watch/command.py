"""`pgstrata watch`"""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from pgstrata.cli.machines import FleetOption
from pgstrata.cli.output import TextOrJson, prints
from pgstrata.cli.quiet import progress_console

if TYPE_CHECKING:
    from pgstrata.watch.file import Watch
    from pgstrata.watch.known import Known

SHORTEST_PAUSE, LONGEST_PAUSE = 10.0, 7 * 86_400.0

WRITING_SHARE = 0.05
"""Most of a pass that writing its pages after each commit may take."""


@prints("pgstrata.watch.text:WatchRecord", "pgstrata.watch.command:DueRecord")
def watch(
    file: Annotated[Path, typer.Argument(metavar="WATCH.toml", help="The repository and what is measured.")],
    once: Annotated[
        bool, typer.Option("--once", help="End when nothing is due, for cron, systemd or CI.")
    ] = False,
    hours: Annotated[
        float | None,
        typer.Option(
            "--hours", metavar="H", help="Begin nothing new in a pass after so long (default: no limit)."
        ),
    ] = None,
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="Without --once: look for new commits so often.")
    ] = "10m",
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="DIR", help="Folder of the history (default: watch/NAME)."),
    ] = None,
    site: Annotated[
        Path | None,
        typer.Option("--site", metavar="OUT", help="Write the site, too, as `pgstrata site OUT` does."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what is due; build and measure nothing.")
    ] = False,
    fleet: FleetOption = None,
    format: Annotated[TextOrJson, typer.Option("--format", help="How to print.")] = TextOrJson.text,
) -> None:
    """Measure every commit of a branch, date each change, and search its commit.

    Each commit is compared with one fixed commit, the anchor: by instructions, which are exact on any
    machine, or by rate. The newest commit comes first, then those that are not measured yet. A change is an
    alarm, which is searched at once; it stays open until the file acknowledges it.

    Exit codes: 0 no open alarm; 1 an open alarm, or something failed; 2 the question was not valid; 3 a
    change whose commit is still searched.

    \b
    Examples:
      pgstrata watch master.toml --once --hours 6
      pgstrata watch master.toml --every 10m
      pgstrata watch master.toml --once --fleet tcp://scheduler:8786
    """
    from pgstrata.cli.machines import machines
    from pgstrata.errors import UsageError
    from pgstrata.numbers import parse_duration
    from pgstrata.store.lock import check_results
    from pgstrata.watch.file import read_watch
    from pgstrata.watch.site.write import check_folder

    if hours is not None and not 0 < hours <= 24 * 365:
        raise UsageError(f"--hours {hours:g} is not above 0 and at most 8760", "leave it out for no limit")
    pause = parse_duration(every)
    if pause is None or not SHORTEST_PAUSE <= pause <= LONGEST_PAUSE:
        raise UsageError(f"--every {every}: not a time from 10s to 7 days", "write 10m or 1h")
    asked = read_watch(file, results)
    if site is not None:
        check_folder(site)
    if fleet is not None:
        machines().check_fleet(fleet)
    if dry_run:
        check_results(asked.folder)
        _show_due(asked, format)
        return
    seconds = 3600 * hours if hours is not None else float("inf")
    printed: list[str] = []
    while True:
        known = _pass(asked, seconds, site, fleet)
        printed = _print(known, format, printed)
        if once:
            raise typer.Exit(_exit_code(known))
        _wait(pause)


def _pass(asked: Watch, seconds: float, site: Path | None, fleet: str | None) -> Known:
    from pgstrata.cli.ending import Interruption, stopped
    from pgstrata.cli.machines import machines
    from pgstrata.measure.interrupt import Interrupted, Interrupts
    from pgstrata.watch.errands import WatchErrands
    from pgstrata.watch.passing import Pass, pass_once

    written, took = time.monotonic(), 0.0

    def show(known: Known) -> None:
        nonlocal written, took
        begun = time.monotonic()
        if took <= WRITING_SHARE * (begun - written):
            _write(known, site)
            written = time.monotonic()
            took = written - begun

    def spread(this: Pass, interrupts: Interrupts) -> None:
        assert fleet is not None
        machines().do_errands(WatchErrands(this), fleet, progress_console(), interrupts)

    try:
        known = pass_once(asked, progress_console(), seconds, show, spread if fleet else None)
    except Interrupted as interrupted:
        print(stopped(), file=sys.stderr)
        raise Interruption(interrupted.exit_code) from interrupted
    for failure in known.failed:
        print(f"failed: {failure}", file=sys.stderr)
    page = _write(known, site)
    if known.measured:
        print(f"page: {page.resolve()}", file=sys.stderr)
    return known


def _write(known: Known, site: Path | None) -> Path:
    """Writes the page, and the site where one is asked for; returns the first page of what was asked for."""
    from pgstrata.watch.page import write_watch
    from pgstrata.watch.site.write import write_site

    page = write_watch(known)
    return page if site is None else write_site(site, [known]).page


def _print(known: Known, form: TextOrJson, before: list[str]) -> list[str]:
    """Prints what is known, unless it is what the pass before has printed; returns its lines."""
    from pgstrata.cli.output import print_json
    from pgstrata.watch import text

    lines = text.lines(known)
    if lines != before:
        if form is TextOrJson.json:
            print_json(text.watch_json(known))
        else:
            print(*lines, sep="\n", flush=True)
    return lines


def _exit_code(known: Known) -> int:
    states = {alarm.state for alarm in known.open_alarms}
    return 1 if known.failed or "found" in states else 3 if "open" in states else 0


def _wait(seconds: float) -> None:
    from pgstrata.cli.ending import Interruption
    from pgstrata.measure.interrupt import Interrupted, Interrupts

    try:
        with Interrupts():
            time.sleep(seconds)
    except Interrupted as interrupted:
        raise Interruption(interrupted.exit_code) from interrupted


class DueRecord(TypedDict):
    """What is due, as JSON. series: whether by rate or instructions; next: the commit, None if nothing is."""

    watch: str
    commits: int
    left: int
    series: dict[str, str]
    next: str | None
    history: str


def _show_due(asked: Watch, form: TextOrJson) -> None:
    from pgstrata.cli.output import print_json
    from pgstrata.numbers import counted
    from pgstrata.watch.known import commits_left
    from pgstrata.watch.passing import next_stop, read

    known, _ = read(asked, lambda text: print(text, file=sys.stderr), progress_console(), lambda: None)
    line = known.line
    due = next_stop(known)
    if form is TextOrJson.json:
        record: DueRecord = {
            "watch": asked.name,
            "commits": line.newest,
            "left": commits_left(known),
            "series": {name: series.by for name, series in known.series.items()},
            "next": due.id if due else None,
            "history": str(asked.folder),
        }
        print_json(record)
        return
    print(
        f"{asked.name}: {counted(line.newest, 'commit')} after {line.stops[0].name}, "
        f"{commits_left(known)} left to measure"
    )
    for name, series in known.series.items():
        print(f"  {name}, by {series.by}")
    print(f"next: {due.name} {due.subject}" if due else "nothing is due")
    print(f"history: {shlex.quote(str(asked.folder))}")


__all__ = ["watch"]
