"""`pgstrata upgrade`"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstrata.cli.arguments import DataDirOption, KeepSettingsOption, OtherLoadOption, SetsOption
from pgstrata.cli.output import TextOrJson, prints
from pgstrata.cli.quiet import progress_console
from pgstrata.traffic.commands.arguments import (
    EncodingOption,
    PrefixOption,
    SkipIdleOption,
    TimezoneOption,
    WindowOption,
)

if TYPE_CHECKING:
    from rich.console import Console

    from pgstrata.traffic.upgrade.question import Question


@prints(
    "pgstrata.traffic.upgrade.text:DecisionRecord",
    "pgstrata.traffic.upgrade.planned.text:PlannedUpgradeRecord",
    "pgstrata.cli.records:PlanRecord",
)
def upgrade(
    from_: Annotated[
        str, typer.Option("--from", metavar="VERSION", help="The version that there is: 13, 13.22, path:DIR.")
    ],
    to: Annotated[
        list[str],
        typer.Option(
            "--to",
            metavar="VERSION",
            help="The version to go to, SPEC=LABEL too. Repeatable, or with commas between.",
        ),
    ],
    dump: Annotated[
        list[Path],
        typer.Option(
            "--dump", metavar="FILE", help="The database, as pg_dump has written it; SQL too. Repeatable."
        ),
    ],
    log: Annotated[
        list[Path] | None,
        typer.Option(
            "--log",
            metavar="FILE",
            help="The server's log, a folder of it, a captured file, or - for standard input. Repeatable.",
        ),
    ] = None,
    statements: Annotated[
        str | None,
        typer.Option(
            "--statements",
            metavar="DSN|FOLDER",
            help="Without a log: pg_stat_statements and pg_stats of a server, or a folder of their files.",
        ),
    ] = None,
    database: Annotated[
        str | None, typer.Option("--database", metavar="NAME", help="In the log (default: the busiest).")
    ] = None,
    speed: Annotated[
        float,
        typer.Option("--speed", metavar="X", help="Times the pace of the log; 0: as fast as answers come."),
    ] = 1.0,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="S", help="Of each round (default: to the end of the log)."),
    ] = None,
    minutes: Annotated[
        float,
        typer.Option("--minutes", metavar="M", help="Most minutes of all rounds on all versions together."),
    ] = 60.0,
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", metavar="S", help="The same in seconds, instead.")
    ] = None,
    window: WindowOption = None,
    skip_idle: SkipIdleOption = False,
    rounds: Annotated[
        int | None,
        typer.Option("--rounds", metavar="N", help="Replay so often on each (default: until it is known)."),
    ] = None,
    margin: Annotated[
        str, typer.Option("--margin", metavar="SHARE", help="Smallest difference that counts: 5% or 0.05.")
    ] = "5%",
    other_load: OtherLoadOption = "25%",
    config: Annotated[
        str,
        typer.Option("--config", metavar="NAME[+NAME]", help="Config of all versions: a name, FILE.conf."),
    ] = "default",
    keep_setting: KeepSettingsOption = None,
    after_load: Annotated[
        list[str] | None,
        typer.Option(
            "--after-load",
            metavar="VERSION=FILE",
            help="SQL that one version executes after the load, say 17=migrate.sql. Repeatable.",
        ),
    ] = None,
    set_: SetsOption = None,
    prefix: PrefixOption = None,
    timezone: TimezoneOption = None,
    encoding: EncodingOption = "latin-1",
    data_dir: DataDirOption = None,
    allow_outside: Annotated[
        bool,
        typer.Option(
            "--allow-outside",
            help="Let dump and log reach other servers, files and programs: as a superuser, with a network.",
        ),
    ] = False,
    more: Annotated[
        float | None,
        typer.Option(
            "--more", metavar="M", help="Minutes of further rounds, beside those of the same command before."
        ),
    ] = None,
    checklist: Annotated[
        bool,
        typer.Option("--checklist", help="Only the checklist: the schema on all versions, nothing replayed."),
    ] = False,
    statistics_only: Annotated[
        Path | None,
        typer.Option(
            "--statistics-only",
            metavar="FILE",
            help="Planner statistics in the place of data: lists changed plans, replays nothing.",
        ),
    ] = None,
    without_extension: Annotated[
        list[str] | None,
        typer.Option(
            "--without-extension",
            metavar="NAME",
            help="Leave this extension out of the dump, with what depends on it. Repeatable.",
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="DIR", help="Folder of runs and page (default: upgrade/…)."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, show what would be done; measure nothing.")
    ] = False,
    format: Annotated[TextOrJson, typer.Option("--format", help="How to print.")] = TextOrJson.text,
) -> None:
    """Try an upgrade: what fails on the new version, answers otherwise, is to be done, is slower.

    First every version gets the definitions of the dump without rows: the checklist. Then the dump is loaded,
    and the log's sessions are replayed on each in turns, until it is known of every statement that matters
    whether it is slower, faster or the same, or the time is over. The rules of the answer:
    docs/guides/upgrade.md; what the log needs: docs/guides/capture.md. With --statistics-only both versions
    are asked for plans instead: docs/guides/plans-without-data.md.

    Exit codes: 0 go, or go with changes; 1 do not go yet, or something is proven slower; 3 cannot tell;
    2 the question was not valid. Plans alone never come to 0.

    \b
    Examples:
      pgstrata upgrade --from 13 --to 17 --dump app.dump --log postgresql.csv --checklist
      pgstrata upgrade --from 13 --to 17 --dump app.dump --log postgresql.csv
      pgstrata upgrade --from 13 --to 17 --to 18 --dump app.dump --log log/ --config postgresql.conf
      pgstrata upgrade --from 13 --to 17 --dump app.dump --log monday.traffic --speed 0 --rounds 12
      pgstrata upgrade --from 13 --to 17 --dump app.dump --log log/ --after-load 17=reindex.sql --format json
      pgstrata upgrade --from 13 --to 17 --dump app.dump --statements postgresql://me@db/app
      pgstrata upgrade --from 13 --to 17 --dump schema.sql --statistics-only stats.sql --log log/
    """

    from pgstrata.cli.compare import load_share, share
    from pgstrata.cli.ending import Interruption, stopped
    from pgstrata.cli.output import print_json
    from pgstrata.cli.run import show_plan
    from pgstrata.files.user_files import real_path
    from pgstrata.measure.interrupt import Interrupted, Interrupts
    from pgstrata.measure.progress import plain_lines
    from pgstrata.store import slug
    from pgstrata.traffic.upgrade.decision import decide
    from pgstrata.traffic.upgrade.page import goes_on, write_pages
    from pgstrata.traffic.upgrade.question import Question, targets_of
    from pgstrata.traffic.upgrade.text import decision_json, text
    from pgstrata.traffic.upgrade.tried import carry_out, prepare, rehearsed

    targets = targets_of(to)
    question = Question(
        base=from_,
        targets=targets,
        dumps=tuple(real_path(file) for file in dump),
        logs=tuple(file if str(file) == "-" else real_path(file) for file in log or []),
        folder=results or Path("upgrade") / slug(f"{from_}-to-{'-'.join(targets)}-{dump[0].stem}"),
        statements=statements,
        database=database,
        speed=speed,
        seconds=seconds,
        minutes=minutes if max_seconds is None else max_seconds / 60,
        rounds=rounds,
        margin=share("--margin", margin),
        other_load=load_share(other_load),
        config=config,
        keep_settings=tuple(keep_setting or ()),
        after_load=_by_version(after_load or []),
        sets=tuple(set_ or []),
        data_dir=str(data_dir) if data_dir else None,
        prefix=prefix,
        timezone=timezone,
        encoding=encoding,
        allow_outside=allow_outside,
        more=more,
        checklist_only=checklist,
        window=window,
        skip_idle=skip_idle,
        without_extensions=tuple(dict.fromkeys(without_extension or [])),
        statistics=real_path(statistics_only) if statistics_only is not None else None,
    )
    console = progress_console()
    if question.statistics is not None:
        raise typer.Exit(_plans_only(question, console, format, dry_run=dry_run))
    try:
        with Interrupts(plain_lines(console)) as interrupts:
            tried = prepare(question, console, interrupts)
        for note in tried.notes:
            plain_lines(console)(f"note: {note}")
        if dry_run:
            show_plan(tried.campaign, fresh=False, form=format)
            return
        with Interrupts(plain_lines(console)) as interrupts:
            tried = rehearsed(tried, console, interrupts)
        tried = carry_out(tried, console)
    except Interrupted as interrupted:
        print(stopped(), file=sys.stderr)
        raise Interruption(interrupted.exit_code) from interrupted
    decision = decide(tried)
    further = goes_on(decision)
    again = _again(sys.argv[1:], further) if further is not None else ""
    html, report = write_pages(decision, again)
    if format is TextOrJson.json:
        print_json(decision_json(decision, html, report, again))
    else:
        print(text(decision, again), end="")
    print(f"page: {html.resolve()}", file=sys.stderr)
    raise typer.Exit(decision.exit_code)


def _plans_only(question: Question, console: Console, format: TextOrJson, *, dry_run: bool) -> int:
    """Compares plans by statistics in the place of data, and returns the exit code."""
    from pgstrata.cli.ending import Interruption, stopped
    from pgstrata.cli.output import print_json
    from pgstrata.errors import UsageError
    from pgstrata.measure.interrupt import Interrupted, Interrupts
    from pgstrata.measure.progress import plain_lines
    from pgstrata.traffic.upgrade.planned.outcome import plan_upgrade
    from pgstrata.traffic.upgrade.planned.page import write_planned_page
    from pgstrata.traffic.upgrade.planned.text import planned_record, planned_text

    if dry_run:
        raise UsageError("--dry-run shows what would be measured, and --statistics-only measures nothing")
    try:
        with Interrupts(plain_lines(console)) as interrupts:
            planned = plan_upgrade(question, console, interrupts)
    except Interrupted as interrupted:
        print(stopped(), file=sys.stderr)
        raise Interruption(interrupted.exit_code) from interrupted
    proof = _with_data(sys.argv[1:])
    page = write_planned_page(planned, proof)
    if format is TextOrJson.json:
        print_json(planned_record(planned, page, proof))
    else:
        print(planned_text(planned, proof), end="")
    print(f"page: {page.resolve()}", file=sys.stderr)
    return planned.exit_code


def _with_data(arguments: list[str]) -> str:
    """Returns the same command with a dump that has data."""
    kept = _without(arguments, ("--statistics-only", "--dump"))
    return shlex.join(["pgstrata", *kept, "--dump", "DATA.dump"])


def _without(arguments: list[str], options: tuple[str, ...]) -> list[str]:
    """Returns arguments without these options and their values."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word in options:
            next(words, None)
        elif not word.startswith(tuple(f"{option}=" for option in options)):
            kept.append(word)
    return kept


def _again(arguments: list[str], minutes: float) -> str:
    """Returns the same command with more rounds."""
    return shlex.join(["pgstrata", *_without(arguments, ("--more",)), "--more", f"{minutes:g}"])


def _by_version(given: list[str]) -> dict[str, tuple[str, ...]]:
    """Returns the files by version, in their order: `17=a.sql`, `17=b.sql` → the files of 17. Raises
    UsageError."""
    from pgstrata.errors import UsageError
    from pgstrata.files.user_files import real_path, shown

    by_version: dict[str, tuple[str, ...]] = {}
    for text in given:
        version, equals, file = text.partition("=")
        if not equals or not file or not version:
            raise UsageError(
                f"--after-load {shown(text)}: no version and file", "write it --after-load 17=migrate.sql"
            )
        version = version.removeprefix("pg:")
        by_version[version] = (*by_version.get(version, ()), str(real_path(file)))
    return by_version


__all__ = ["upgrade"]
