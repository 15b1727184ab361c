"""What planning on both versions comes to, and doing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import psutil
from rich.console import Console

from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown
from pgstrata.judge.plan_detail import detail, differences, root_of
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.progress import plain_lines
from pgstrata.server.cluster.cluster import clear_leftovers
from pgstrata.server.cluster.storage import cluster_root
from pgstrata.server.config.resolve import Resolved, find_config_file, resolve, stack_of
from pgstrata.server.find.model import Server
from pgstrata.store.record import QueryPlan
from pgstrata.traffic.replay.statistics import read_statements
from pgstrata.traffic.upgrade.campaign import labels
from pgstrata.traffic.upgrade.planned.asked import Asked, AskedStatement, of_log, of_statistics
from pgstrata.traffic.upgrade.planned.calls import PlannerStatistics, read_statistics
from pgstrata.traffic.upgrade.planned.plans import NoPlan, plans_of
from pgstrata.traffic.upgrade.planned.restore import Restored, restore
from pgstrata.traffic.upgrade.planned.sizes import stretch, wanted_sizes
from pgstrata.traffic.upgrade.question import Question
from pgstrata.traffic.upgrade.schema import defined_schema
from pgstrata.traffic.upgrade.tried import captured_file, left_out, load_options, servers_of

OVERRIDES = {"autovacuum": "off", "shared_buffers": "128MB", "huge_pages": "off"}
"""Autovacuum would read the sparse files and write other statistics; the planner looks at neither of the
others, and production's memory may not be here."""


@dataclass(frozen=True)
class Changed:
    """A statement with another plan on the new version."""

    statement: AskedStatement
    base: QueryPlan
    other: QueryPlan

    @cached_property
    def lines(self) -> Sequence[tuple[str, str]]:
        """The lines that only one plan has: of the old version, of the new one."""
        return differences(detail(self.base.plan), detail(self.other.plan))

    @property
    def costs(self) -> tuple[float | None, float | None]:
        """Estimates of both versions, each in its own model."""
        return cost_of(self.base), cost_of(self.other)


def cost_of(plan: QueryPlan) -> float | None:
    """Returns the estimated cost of a plan in units of a sequential page."""
    value = (root_of(plan.plan) or {}).get("Total Cost")
    return float(value) if isinstance(value, int | float) else None


@dataclass(frozen=True)
class PlannedVersion:
    """A new version against the old one. changed: those with most time first; refused: with the server's
    words; unknown: statements without a plan on one of the two, and why."""

    label: str
    server: Server
    changed: Sequence[Changed]
    same: Sequence[AskedStatement]
    refused: Sequence[tuple[AskedStatement, str]]
    unknown: Sequence[tuple[AskedStatement, str]]


@dataclass(frozen=True)
class PlannedServer:
    """What one server has of schema and statistics, and its plans."""

    label: str
    server: Server
    restored: Restored
    definitions_refused: Mapping[str, str]
    plans: Mapping[int, QueryPlan | NoPlan] = field(repr=False)


@dataclass(frozen=True)
class PlannedUpgrade:
    """An upgrade whose plans were compared. servers: the old one first; captured: the log's file, None where
    statements were read from statistics."""

    question: Question
    asked: Asked
    statistics: PlannerStatistics
    servers: Sequence[PlannedServer]
    notes: Sequence[str]
    captured: Path | None = None

    @cached_property
    def versions(self) -> Sequence[PlannedVersion]:
        """The new versions."""
        base, *others = self.servers
        return [_compared(self.asked, base, other) for other in others]

    @property
    def exit_code(self) -> int:
        """1 where a new version refuses a statement that the old one plans, else 3: plans prove no time."""
        return 1 if any(version.refused for version in self.versions) else 3


def _compared(asked: Asked, base: PlannedServer, other: PlannedServer) -> PlannedVersion:
    changed: list[Changed] = []
    same: list[AskedStatement] = []
    refused: list[tuple[AskedStatement, str]] = []
    unknown: list[tuple[AskedStatement, str]] = []
    for statement in asked.statements:
        ours, theirs = base.plans.get(statement.number), other.plans.get(statement.number)
        if isinstance(ours, QueryPlan) and isinstance(theirs, QueryPlan):
            if detail(ours.plan) == detail(theirs.plan):
                same.append(statement)
            else:
                changed.append(Changed(statement, ours, theirs))
        elif isinstance(ours, QueryPlan) and isinstance(theirs, NoPlan) and theirs.refused:
            refused.append((statement, theirs.why))
        else:
            unknown.append((statement, _why((base, ours), (other, theirs)) or statement.why))
    return PlannedVersion(other.label, other.server, changed, same, refused, unknown)


def _why(*answers: tuple[PlannedServer, QueryPlan | NoPlan | None]) -> str:
    """Returns the reason of the first server without a plan; empty if there is none."""
    return next((f"{server.label}: {plan.why}" for server, plan in answers if isinstance(plan, NoPlan)), "")


def plan_upgrade(question: Question, console: Console, interrupts: Interrupts) -> PlannedUpgrade:
    """Gives schema and statistics to every version and asks all for their plans, one after the other.

    Raises UsageError for files that are not what they should be, ServerError for a server that is not to be
    had, StoreError where nothing can be written, Interrupted.
    """
    say = plain_lines(console)
    assert question.statistics is not None
    statistics = read_statistics(question.statistics)
    servers = servers_of(question, say, interrupts)
    captured = captured_file(question, say, interrupts) if question.statements is None else None
    asked = _statements(question, captured)
    options = load_options(question, left_out(question, servers, say, interrupts))
    root = cluster_root(question.data_dir)
    for text in clear_leftovers(root):
        say(f"cleared what an earlier pgstrata left: {text}")
    wanted = [statement for statement in asked.statements if statement.sample is not None]
    if not wanted:
        raise UsageError(f"{asked.source}: no statement in it can be planned", "name another log: --log")
    done = []
    all_servers = [servers.base, *(server for _, server in servers.targets)]
    for label, server in zip(labels(question, servers), all_servers, strict=True):
        config = _config(question, server)
        with defined_schema(server, config, options, root, say, interrupts.check, OVERRIDES) as schema:
            say(f"  statistics of tables and indexes: {len(statistics.relations):,}")
            restored = restore(schema, statistics, interrupts.check)
            sizes = wanted_sizes(schema.cluster)
            schema.cluster.stop()
            stretch(schema.cluster, sizes, interrupts.check)
            schema.cluster.start(settings=OVERRIDES)
            say(f"  plans of statements: {len(wanted):,}")
            plans = plans_of(schema, wanted, interrupts.check)
            done.append(PlannedServer(label, server, restored, schema.refused, plans))
    return PlannedUpgrade(question, asked, statistics, done, servers.notes, captured)


def _config(question: Question, server: Server) -> Resolved:
    return resolve(
        [find_config_file(name, None) for name in stack_of(question.config)],
        server.version_num,
        psutil.virtual_memory().total,
        server.build,
        programs=server.programs,
        keep=[name.lower() for name in question.keep_settings],
    )


def _statements(question: Question, captured: Path | None) -> Asked:
    if captured is None:
        assert question.statements is not None  # Question.check
        statistics = read_statements(question.statements)
        return of_statistics(statistics, f"pg_stat_statements of {shown(statistics.database)}")
    names = ", ".join(log.name for log in question.logs)
    return of_log(captured, question.database, names)


__all__ = [
    "Changed",
    "PlannedServer",
    "PlannedUpgrade",
    "PlannedVersion",
    "cost_of",
    "plan_upgrade",
]
