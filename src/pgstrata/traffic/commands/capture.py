"""`pgstrata capture`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstrata.cli.output import TextOrJson, prints
from pgstrata.errors import UsageError
from pgstrata.files.user_files import in_command, shown
from pgstrata.traffic.commands.arguments import (
    EncodingOption,
    PrefixOption,
    SkipIdleOption,
    TimezoneOption,
    WindowOption,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgstrata.traffic.captured import Header, LeftOut

SHOWN_SHAPES = 10
SHOWN_LEFT_OUT = 25
MOST_CALLS = 100_000_000


@prints("pgstrata.traffic.captured:Header")
def capture(
    logs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[LOG…]",
            help="Files or folders of a server's log, in any order, packed or not; - is standard input.",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The captured file. Without it: LOG is one, and is shown."
        ),
    ] = None,
    from_statistics: Annotated[
        str | None,
        typer.Option(
            "--from-statistics",
            metavar="DSN|FOLDER",
            help="Instead of a log: pg_stat_statements and pg_stats of a server, or a folder of their files.",
        ),
    ] = None,
    calls: Annotated[
        int | None,
        typer.Option(
            "--calls", min=1, max=MOST_CALLS, help="From statistics: calls in the file (default 100,000)."
        ),
    ] = None,
    sessions: Annotated[
        int | None,
        typer.Option(
            "--sessions", min=1, max=1000, help="From statistics: sessions; default: as busy as the original."
        ),
    ] = None,
    reads_only: Annotated[
        bool,
        typer.Option("--reads-only", help="From statistics: only statements that change nothing."),
    ] = False,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="From statistics: the same seed draws the same values.")
    ] = 1,
    sample: Annotated[
        bool,
        typer.Option(
            "--sample/--no-sample",
            help="From statistics of a server: reads rows of its tables, for values that belong together.",
        ),
    ] = True,
    export_script: Annotated[
        bool,
        typer.Option("--export-script", help="Prints a script for psql that makes FOLDER's files, and ends."),
    ] = False,
    mask: Annotated[
        bool,
        typer.Option(
            "--mask", help="Other values for all values: same type and length, equal where they were."
        ),
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="VALUE",
            help="With --mask: a value that stays, say a label of an enum; repeated.",
        ),
    ] = None,
    window: WindowOption = None,
    skip_idle: SkipIdleOption = False,
    prefix: PrefixOption = None,
    timezone: TimezoneOption = None,
    encoding: EncodingOption = "latin-1",
    format: Annotated[TextOrJson, typer.Option("--format", help="How to print.")] = TextOrJson.text,
) -> None:
    """Capture the statements of sessions, from logs or statistics, in one file that can be replayed.

    The log needs log_min_duration_statement = 0 and log_parameter_max_length = -1, better with
    log_connections and log_disconnections. csvlog, jsonlog and text are understood, also within syslog,
    journals, containers' logs and what clouds export; a log_line_prefix is recognized. Every entry of the log
    is accounted for: replayed, left out with a reason and its share of the time, or damaged.

    Without a log, pg_stat_statements says how often each statement was called, and pg_stats which values the
    columns have that it compares: --from-statistics draws a synthetic file from both.

    \b
    Examples:
      pgstrata capture /var/log/postgresql/*.csv -o monday.traffic
      pgstrata capture log/ -o monday.traffic --mask --keep open --keep paid
      journalctl -o json --all -u postgresql | pgstrata capture - -o monday.traffic
      pgstrata capture postgresql.log --prefix '%t:%r:%u@%d:[%p]:' -o monday.traffic
      pgstrata capture --from-statistics postgresql://me@db/shop -o shop.traffic
      pgstrata capture --export-script > export.sql; psql -d shop -f export.sql
      pgstrata capture --from-statistics . -o shop.traffic --mask
      pgstrata capture monday.traffic
      pgstrata capture monday.traffic --window 10:00-10:20 -o rush.traffic
    """
    from pgstrata.cli.output import print_json
    from pgstrata.files.user_files import user_path
    from pgstrata.traffic.captured import Captured
    from pgstrata.traffic.mask import Mask

    if keep and not mask:
        raise UsageError("--keep says which values --mask leaves as they are", "add --mask")
    masking = Mask(keep=keep or ()) if mask else None
    if export_script:
        from pgstrata.traffic.synthetic.files import export_script as script

        print(script(), end="")
        return
    if from_statistics is not None:
        if logs:
            raise UsageError("a file is made of logs or of statistics, not of both", "name one of them")
        if to is None:
            raise UsageError("it is not said where the captured file goes", "name it: -o FILE")
        from pgstrata.traffic.replay.statistics import capture_statistics

        header = capture_statistics(
            from_statistics,
            user_path(to),
            calls=calls,
            sessions=sessions,
            mask=masking,
            reads_only=reads_only,
            seed=seed,
            sample=sample,
        )
    elif not logs:
        raise UsageError("there is no log to read", "name one, a captured file, or --from-statistics")
    elif calls is not None or sessions is not None or reads_only or not sample:
        raise UsageError(
            "--calls, --sessions, --reads-only and --no-sample are of --from-statistics",
            "a log has calls of its own",
        )
    elif to is None:
        if window is not None or skip_idle:
            raise UsageError("it is not said where the part of the log goes", "name it: -o FILE")
        if len(logs) > 1 or str(logs[0]) == "-":
            raise UsageError("it is not said where the captured file goes", "name it: -o FILE")
        with Captured(user_path(logs[0])) as captured:
            header = captured.header
    else:
        from pgstrata.traffic.window import capture_part

        header = capture_part(
            logs,
            user_path(to),
            window=window,
            skip_idle=skip_idle,
            mask=masking,
            prefix=prefix,
            timezone=timezone,
            encoding=encoding,
            say=(lambda text: print(text, file=sys.stderr)) if sys.stderr.isatty() else None,
        )
    if format is TextOrJson.json:
        import msgspec

        print_json(msgspec.to_builtins(header))
        return
    _print(header)
    if to is not None:
        print(f"next:        pgstrata upgrade --from OLD --to NEW --dump DUMP --log {in_command(to)}")


def _print(header: Header) -> None:
    from pgstrata import numbers
    from pgstrata.cli.output import aligned
    from pgstrata.measure.step_records import iso

    span = (header.end - header.begin) / 1e6
    if header.synthetic:
        print(f"length:      {numbers.duration(span)}")
    else:
        print(f"from:        {iso(header.begin / 1e6)} to {iso(header.end / 1e6)}, {numbers.duration(span)}")
    print(f"sessions:    {header.sessions:,}, at most {header.most_sessions:,} at the same time")
    rate = numbers.significant(header.statements / span) if span else numbers.UNKNOWN
    print(
        f"statements:  {header.statements:,}, {rate} per second; {header.errors:,} failed; "
        f"{header.prepared:,} prepared, {header.extended:,} with parameters, {header.simple:,} plain"
    )
    print(f"time:        {numbers.duration(header.seconds)} of all statements together")
    if (balance := header.balance) is not None:
        print(
            f"entries:     {balance.entries:,} in the log: {balance.replayed:,} replayed, "
            f"{balance.left_out:,} left out, {balance.damaged:,} damaged, {balance.server:,} of no client"
        )
    unmasked = "drawn" if header.synthetic else "as they are in the log"
    kept = "masked" if header.masked else f"{unmasked}: keep the file as you keep the {_origin(header)}"
    reading = sum(shape.calls for shape in header.shapes if shape.reads)
    if header.synthetic:
        print(f"reads:       {reading:,} of the statements are known to change nothing")
    print(f"values:      {kept}")
    print(
        f"read:        {header.source}, {', '.join(header.files[:5])}{' …' if len(header.files) > 5 else ''}"
    )
    if len(header.databases) > 1:
        print()
        columns = ("database", "sessions", "statements", "seconds")
        for line in aligned(
            columns,
            [(d.name, d.sessions, d.statements, numbers.significant(d.seconds)) for d in header.databases],
        ):
            print(line)
    print()
    shapes = sorted(header.shapes, key=lambda shape: (-shape.seconds, -shape.calls))[:SHOWN_SHAPES]
    whole = header.seconds + sum(left_out.seconds for left_out in (*header.left_out, *header.damaged))
    rows = [
        (
            _share(shape.seconds, whole),
            shape.calls,
            numbers.milliseconds(shape.seconds / shape.calls),
            _in_line(shape.text),
        )
        for shape in shapes
        if shape.calls
    ]
    for line in aligned(("% of time", "calls", "ms each", "statement"), rows):
        print(line)
    _print_parts("left out", header.left_out, whole)
    _print_parts("damaged, and not replayed", header.damaged, whole)
    for note in header.notes:
        print(f"note: {note}")


def _print_parts(title: str, parts: Sequence[LeftOut], whole: float) -> None:
    from pgstrata.cli.output import aligned

    if not parts:
        return
    print(f"\n{title}:")
    rows = [
        (_share(part.seconds, whole), part.count, part.entries, _in_line(part.why), _in_line(part.example))
        for part in parts[:SHOWN_LEFT_OUT]
    ]
    for line in aligned(("% of time", "count", "entries", "what", "example"), rows):
        print(line)
    if rest := parts[SHOWN_LEFT_OUT:]:
        share = _share(sum(part.seconds for part in rest), whole)
        print(f"{len(rest):,} more, {share} % of the time: --format json")


def _origin(header: Header) -> str:
    return "data" if header.synthetic else "log"


def _share(seconds: float, whole: float) -> float:
    return round(100 * seconds / whole, 2) if whole else 0.0


def _in_line(text: str) -> str:
    from pgstrata.cli.output import WIDEST

    return shown(" ".join(text.split()), WIDEST - 1)


__all__ = ["capture"]
