"""`pgstrata compare-queries`"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from pgstrata.cli import run
from pgstrata.cli.arguments import (
    BaseOption,
    BuildsOption,
    ConfigsOption,
    DataDirOption,
    DryRunOption,
    FreshOption,
    KeepSettingsOption,
    LoadLimitOption,
    MarginOption,
    NameOption,
    NoReportOption,
    RunsOption,
    ServersOption,
    SettingsOption,
    WhySecondsOption,
)
from pgstrata.cli.output import TextOrJson, prints


@prints("pgstrata.cli.records:RunOutcome", "pgstrata.cli.records:PlanRecord")
def compare_queries(
    query: Annotated[
        list[Path],
        typer.Argument(metavar="QUERY…", help="Files of one query each, and folders of such .sql files."),
    ],
    server: ServersOption = None,
    build: BuildsOption = None,
    config: ConfigsOption = None,
    set_guc: SettingsOption = None,
    keep_setting: KeepSettingsOption = None,
    setup: Annotated[
        list[Path] | None,
        typer.Option(
            "--setup",
            metavar="FILE",
            help="Loads the data: SQL files, dumps of pg_dump, files of rows, in this order. Repeatable.",
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option("--limit", metavar="S", help="Cancel a query after S seconds (default: 300)."),
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option("--max-seconds", metavar="S", help="Most seconds for all queries (default: 240)."),
    ] = None,
    why_seconds: WhySecondsOption = None,
    margin: MarginOption = None,
    other_load: LoadLimitOption = None,
    base: BaseOption = None,
    name: NameOption = None,
    results: RunsOption = None,
    data_dir: DataDirOption = None,
    dry_run: DryRunOption = False,
    fresh: FreshOption = False,
    no_report: NoReportOption = False,
    form: Annotated[
        TextOrJson,
        typer.Option("--format", help="json: one object; progress on standard error."),
    ] = TextOrJson.text,
) -> None:
    """Tell for each query whether it is slower, faster or the same on another server or configuration.

    Loads the data into each server, then executes the queries one at a time, taking turns between the
    servers, until each is known. Also compares the answers.

    \b
    Examples:
      pgstrata compare-queries --server pg:14,pg:17 --setup app.dump slow.sql
      pgstrata compare-queries --server pg:14,pg:17 --setup schema.sql --setup orders.csv queries/
      pgstrata compare-queries --server pg:17 --config default --config default+jit=off slow.sql
    """
    _check_servers(query, server)
    _warn_of_files(query, setup or [])
    sets = [
        # JSON's lists of text are TOML's
        f"{option}={json.dumps([os.path.abspath(path) for path in paths])}"  # noqa: PTH100
        for option, paths in (("queries", query), ("setup", setup or []))
    ]
    if limit is not None:
        sets.append(f"time_limit={limit}")
    run.run(
        server=server,
        build=build,
        config=config,
        set_guc=set_guc,
        keep_setting=keep_setting,
        workload=["custom"],
        set_=sets,
        results=results,
        name=name or "queries",
        base=base,
        data_dir=data_dir,
        until="verdict",
        max_seconds=max_seconds,
        why_seconds=why_seconds,
        margin=margin,
        other_load=other_load,
        dry_run=dry_run,
        fresh=fresh,
        no_report=no_report,
        form=form,
    )


def _warn_of_files(paths: list[Path], setup: list[Path]) -> None:
    """Says which files hold no query that can be compared."""
    from pgstrata.errors import UsageError
    from pgstrata.files.user_files import shown
    from pgstrata.workload.custom.queries import read_queries

    try:
        broken = read_queries(paths, [str(path) for path in setup]).broken
    except (OSError, UsageError):
        return  # the campaign says what is missing, and what else is wrong
    for name, why in broken.items():
        print(f"warning: {shown(name)} is left out: {shown(why)}", file=sys.stderr)


def _check_servers(queries: list[Path], servers: list[str] | None) -> None:
    """Raises UsageError if a server stands among the queries, or if there is no server."""
    from pgstrata.campaign.named_servers import KINDS
    from pgstrata.errors import UsageError
    from pgstrata.files.user_files import in_command, shown

    for query in map(str, queries):
        kind, colon, _ = query.partition(":")
        if colon and kind in KINDS:
            raise UsageError(
                f"{shown(query)} is a server, where a file of a query is expected",
                f"write --server {in_command(query)}",
            )
    if not servers:
        raise UsageError(
            "no server to execute the queries on",
            "name two (--server pg:14 --server pg:17), or one server with two --config",
        )
