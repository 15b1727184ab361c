"""Workload `replay`: a captured file's sessions as one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from pgstrata.errors import ServerError, UsageError, server_said
from pgstrata.files.user_files import shown
from pgstrata.server.config.settings import major_name, major_of
from pgstrata.server.features import NEWEST, Features
from pgstrata.traffic.captured import Captured, Database, Header
from pgstrata.traffic.replay.alone import alone_statements
from pgstrata.traffic.replay.coverage import coverage_of, facts_of
from pgstrata.traffic.replay.options import ReplayOptions
from pgstrata.traffic.replay.samples import replayed_samples
from pgstrata.workload.core.language import (
    Admin,
    Headline,
    Phase,
    ReplayedSessions,
    Role,
    Settle,
    Step,
    Work,
    WorkContext,
)
from pgstrata.workload.core.options import RunCost, WorkloadOptions
from pgstrata.workload.custom.setup import setup
from pgstrata.workload.custom.sql import Copy, items

if TYPE_CHECKING:
    from pgstrata.page.blocks import Section
    from pgstrata.page.results import RunSet, WorkloadResults

NAME = "replay"

BYTES_PER_BYTE = 2.5
"""Of a data folder for each byte of rows: indexes, and room that updates leave."""

BYTES_PER_STATEMENT = 1000.0
"""That a statement writes at most, the write-ahead log included: for estimates only."""


class Replay:
    """What sessions asked of a server, asked again: pace, order and transactions as they were."""

    name = NAME
    summary = "a captured file's sessions, at the pace of the original or as fast as they go"
    Options: type[WorkloadOptions] = ReplayOptions
    scales: Mapping[str, Mapping[str, Any]] = {}

    def phases(self, options: ReplayOptions, server: Features) -> list[Phase]:
        """Raises UsageError where the file is none, or has no session in the database."""
        later = after_load(options, server)
        if later and not options.setup:
            raise UsageError(
                "`after_load` is for data that `setup` has loaded", "name what makes the data: setup = …"
            )
        setup_plan = setup(options.of_setup(), server, later)
        header = header_of(options)
        phases = list(setup_plan.phases)
        if options.setup:
            phases += [Admin("vacuum", ["VACUUM"]), Work("analyze", _analyze, {}), Settle([], 0)]
        reaching = None if options.allow_outside else setup_plan.confinement.reaching
        covered = coverage_of(header, database_of(options, header), options, reaching)
        phases.append(Work("captured", lambda context: facts_of(covered), {}))
        step = replay_step(options, header, setup_plan.tables, tuple(covered.told_outside))
        confined = setup_plan.confinement.has_role
        alone = partial(
            alone_statements, Path(options.file), database_of(options, header).name, NAME, confined
        )
        return [*phases, replace(step, confined=confined, alone=alone)]

    def extensions(self, options: ReplayOptions) -> Sequence[str]:
        """Returns the extensions that the files of `setup` create."""
        return setup(options.of_setup(), NEWEST).extensions

    def report(self, results: RunSet, workload: WorkloadResults) -> Section | None:
        """Returns the workload's section of the report."""
        from pgstrata.traffic.replay.report import (  # what draws is loaded where something is drawn
            replays,
        )

        return replays(results, workload)

    def estimate(self, options: ReplayOptions) -> RunCost:
        """Returns the length of load and replay; bytes from those of the rows and the number of
        statements."""
        setup_plan = setup(options.of_setup(), NEWEST)
        header = header_of(options)
        steps = [phase for phase in setup_plan.phases if isinstance(phase, Step)]
        seconds = sum(step.estimated_seconds or 0.0 for step in steps) + seconds_of(options, header)
        written = min(header.statements * BYTES_PER_STATEMENT, 2.0**30)
        return RunCost(seconds, int(setup_plan.bytes * BYTES_PER_BYTE + written + 60e6))


def _analyze(context: WorkContext) -> Mapping[str, Any]:
    """Executes ANALYZE by itself: its time is what an upgrade has to wait for. Raises ServerError."""
    try:
        with context.connect() as connection:
            connection.execute("ANALYZE")
    except psycopg.Error as error:
        raise ServerError(f"ANALYZE failed: {server_said(error)}") from error
    return {}


def after_load(options: ReplayOptions, server: Features) -> list[str]:
    """Returns the statements that a server of this version executes when all is loaded. Raises UsageError for
    rows of COPY, which belong into `setup`."""
    statements: list[str] = []
    for name in options.after_load.get(major_name(major_of(server.version_num)), ()):
        for item in items(Path(name)):
            if isinstance(item, Copy):
                raise UsageError(
                    f"{shown(name)} has rows behind COPY, which `after_load` does not load",
                    "put them into a file of `setup`",
                )
            statements.append(item.text)
    return statements


def header_of(options: ReplayOptions) -> Header:
    """Returns the header of the captured file. Raises UsageError if no file is named."""
    if not options.file:
        raise UsageError(
            "a replay needs a captured file", "make one: pgstrata capture LOG… -o FILE; file = …"
        )
    with Captured(Path(options.file)) as captured:
        return captured.header


def database_of(options: ReplayOptions, header: Header) -> Database:
    """Returns the database whose sessions are replayed. Raises UsageError if there is none of that name."""
    if options.database is None:
        return max(header.databases, key=lambda database: database.statements)
    for database in header.databases:
        if database.name == options.database:
            return database
    names = ", ".join(shown(database.name) for database in header.databases[:20])
    raise UsageError(
        f"{shown(options.file)} has no session in database {shown(options.database)}", f"it has: {names}"
    )


def seconds_of(options: ReplayOptions, header: Header) -> float:
    """Returns the expected seconds of the replay."""
    if options.speed:
        length = (header.end - header.begin) / 1e6 / options.speed
    else:
        length = header.seconds / max(1, header.most_sessions)
    return length if options.seconds is None else min(length, options.seconds)


def replay_step(
    options: ReplayOptions, header: Header, tables: Sequence[str], skip: tuple[int, ...] = ()
) -> Step:
    """Returns the step of a replay, judged by the statements for each second that they take together: their
    number is the log's doing, not the server's. skip: numbers of the statements that are not sent."""
    database = database_of(options, header)
    sessions = max(1, database.most_sessions)
    return Step(
        NAME,
        [Role(NAME, sessions, [])],
        Headline(NAME, "operations", "statements/s of their time", busy=True),
        seconds=options.seconds,
        tables=tables,
        reads_only=header.reads_only,
        estimated_seconds=seconds_of(options, header),
        overtime=options.overtime,
        uncounted="how many statements are asked at a time is part of it",
        replay=ReplayedSessions(
            str(Path(options.file).absolute()), options.speed or None, database.name, sessions, skip
        ),
        samples=partial(replayed_samples, Path(options.file), database.name, NAME),
    )


__all__ = ["Replay", "database_of", "header_of", "replay_step"]
