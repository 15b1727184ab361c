"""Loads as steps: each is repeated from the same data, and does the same work on all sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgstrata.loads.options import STEPS, LoadsOptions, StepName
from pgstrata.numbers import count, counted
from pgstrata.server.config.known import KnownSettings
from pgstrata.server.features import NEWEST, Feature, Features
from pgstrata.workload.core.language import (
    Admin,
    CopyRows,
    Fill,
    Headline,
    Op,
    Phase,
    Recovery,
    RecoveryKind,
    Role,
    Script,
    Settle,
    Sql,
    Step,
    Uniform,
)
from pgstrata.workload.core.options import RunCost, need_feature
from pgstrata.workload.core.shares import each_its_own

if TYPE_CHECKING:
    from pgstrata.page.blocks import Section
    from pgstrata.page.results import RunSet, WorkloadResults

TABLE = "loads"

_COLUMNS = "id bigint NOT NULL, k int NOT NULL, v int NOT NULL, t text NOT NULL"
_WORKERS = "max_parallel_maintenance_workers"
"""A setting from 11 on."""

# Orders of magnitude of a small current server: rows per second.
_SPEED: Mapping[StepName, float] = {
    "copy": 500e3,
    "index": 700e3,
    "index-parallel": 2e6,
    "vacuum": 1.5e6,
    "analyze": 2e6,
    "restore": 150e3,
    "crash-recovery": 150e3,
    "standby-replay": 300e3,
}

_BYTES_OF_ROW = 1100
"""Tables with their indexes, what the changes leave, and the write-ahead log."""


class Loads:
    """What people wait for beside queries."""

    name = "loads"
    summary = "COPY, index builds, VACUUM, ANALYZE, a restore, crash recovery, replay on a standby"
    Options = LoadsOptions
    scales: Mapping[str, Mapping[str, Any]] = {
        "count": {"rows": 5_000, "steps": ["copy", "index", "vacuum", "analyze"]},
        "quick": {"rows": 20_000},
        "demo": {"rows": 200_000},
        "small": {},
        "medium": {"rows": 10_000_000, "jobs": 4, "workers": 4},
        "large": {"rows": 100_000_000, "jobs": 8, "workers": 8},
    }

    def phases(self, options: LoadsOptions, server: Features) -> list[Phase]:
        o = options
        need_feature(server, Feature.WAL_NAMES, "loads", "older servers name what their log holds otherwise")
        phases_by_name: Mapping[StepName, Sequence[Phase]] = {
            "copy": [_copy(o)],
            "index": [_index(o, server, "index", "t", 0)],
            "index-parallel": [
                Admin("ask for workers", [f"ALTER TABLE {TABLE} SET (parallel_workers = {o.workers})"]),
                _index(o, server, "index-parallel", "k", o.workers),
            ],
            "vacuum": [
                _indexes("make dead rows", f"UPDATE {TABLE} SET v = v + 1 WHERE id % 5 = 0"),
                _vacuum(o),
            ],
            "analyze": [_analyze(o)],
            "restore": [Admin("create the tables of the restore", _empty(o)), _restore(o)],
            "crash-recovery": [_indexes("indexes"), _recovery(o, "crash")],
            "standby-replay": [_indexes("indexes"), _recovery(o, "standby")],
        }
        create = Admin("create table", [f"CREATE TABLE {TABLE} ({_COLUMNS}) WITH (autovacuum_enabled = off)"])
        phases: list[Phase] = [create]
        if "copy" not in o.steps:
            phases += [_copy(o, measured=False), Settle([TABLE], seconds=0)]
        for name in o.steps:
            phases += phases_by_name[name]
        return phases

    def only(self, steps: Sequence[str], seconds: float) -> Mapping[str, Any]:
        """Returns the options for these steps: each step makes what it needs, and its length is that of its
        work."""
        chosen = [name for name in STEPS if name in steps]
        return {"steps": chosen} if chosen else {}

    def report(self, results: RunSet, workload: WorkloadResults) -> Section | None:
        """Returns the workload's section of the report."""
        # What draws is loaded where something is drawn.
        from pgstrata.page.blocks import Section
        from pgstrata.page.judged_loads import judged_loads
        from pgstrata.page.results import anchor

        table = judged_loads(results, workload)
        title = f"Loads ({workload.name})"
        return None if table is None else Section(anchor("loads", workload.name), title, [table])

    def estimate(self, options: LoadsOptions) -> RunCost:
        steps = [phase for phase in self.phases(options, NEWEST) if isinstance(phase, Step)]
        seconds = sum(step.expected_seconds for step in steps)
        return RunCost(seconds, options.rows * _BYTES_OF_ROW + 500_000_000)


# --- steps of the driver ------------------------------------------------------------------------------


def _step(
    o: LoadsOptions,
    name: StepName,
    shares: Sequence[Sequence[Op]],
    summary: str,
    *,
    tables: Sequence[str] = (TABLE,),
    before: str = "",
    measured: bool = True,
) -> Step:
    """Returns a step that does its work once, judged by rows per second. before: statement of each
    connection."""
    return Step(
        name,
        [
            Role(
                "load",
                len(shares),
                [Script(*each_its_own(shares))],
                operations=1,
                start=[Sql.verbatim(before)] if before else [],
            )
        ],
        Headline("load", "operations", "rows/s", fixed=float(o.rows)),
        tables=tables,
        measured=measured,
        load=not measured,
        judged_load=measured,
        estimated_seconds=0.1 + o.rows / _SPEED[name],
        summary=summary,
    )


def _rows(table: str, rows: int, k: int, v: int) -> CopyRows:
    """Returns COPY of rows. k, v: highest values of these columns."""
    return CopyRows(
        f"COPY {table} FROM STDIN",
        rows,
        "{row}\t{k}\t{v}\t{t}",
        name="copy",
        k=Uniform(1, k),
        v=Uniform(1, v),
        t=Fill(40, 80, 0.5),
    )


def _copy(o: LoadsOptions, *, measured: bool = True) -> Step:
    summary = f"COPY of {count(o.rows)} rows into an empty table without indexes."
    return _step(o, "copy", [[_rows(TABLE, o.rows, o.rows, 1000)]], summary, measured=measured)


def _index(o: LoadsOptions, server: Features, name: StepName, column: str, workers: int) -> Step:
    has_workers = KnownSettings(server.version_num, server.programs).has(_WORKERS)
    before = f"SET {_WORKERS} = {workers}" if has_workers else ""
    how = f"with {counted(workers, 'parallel worker')}" if workers else "in one process"
    return _step(
        o,
        name,
        [[Sql(f"CREATE INDEX {TABLE}_{column} ON {TABLE} ({column})", name=name)]],
        f"CREATE INDEX on column {column} ({'text' if column == 't' else 'int'}) {how}.",
        before=before,
    )


def _vacuum(o: LoadsOptions) -> Step:
    summary = "VACUUM of the table and three indexes after a fifth of its rows was updated."
    return _step(o, "vacuum", [[Sql(f"VACUUM {TABLE}", name="vacuum")]], summary)


def _analyze(o: LoadsOptions) -> Step:
    return _step(o, "analyze", [[Sql(f"ANALYZE {TABLE}", name="analyze")]], "ANALYZE of the table.")


def _restored(o: LoadsOptions) -> list[str]:
    return [f"restored_{number}" for number in range(1, o.jobs + 1)]


def _empty(o: LoadsOptions) -> list[str]:
    return [f"CREATE TABLE {table} ({_COLUMNS}) WITH (autovacuum_enabled = off)" for table in _restored(o)]


def _restore(o: LoadsOptions) -> Step:
    """Returns a step that restores as pg_restore does with several jobs: rows in a transaction of their own,
    then keys and indexes."""

    def share(table: str, rows: int) -> list[Op]:
        return [
            Sql("BEGIN", name="begin"),
            Sql(f"TRUNCATE {table}", name="truncate"),
            _rows(table, rows, rows, rows),
            Sql("COMMIT", name="commit"),
            Sql(f"ALTER TABLE {table} ADD PRIMARY KEY (id)", name="primary key"),
            Sql(f"CREATE INDEX ON {table} (t)", name="index t"),
            Sql(f"CREATE INDEX ON {table} (k)", name="index k"),
            Sql(f"ALTER TABLE {table} ADD FOREIGN KEY (v) REFERENCES {table} (id)", name="foreign key"),
        ]

    tables = _restored(o)
    each, more = divmod(o.rows, o.jobs)
    shares = [share(table, each + (number < more)) for number, table in enumerate(tables)]
    summary = f"COPY, keys and indexes on {counted(o.jobs, 'connection')}, as pg_restore does it."
    return _step(o, "restore", shares, summary, tables=tables)


# --- what is replayed ---------------------------------------------------------------------------------


def _indexes(name: str, *more: str) -> Admin:
    """Makes the indexes that are not there yet, then executes more."""
    columns = ("id", "t", "k")
    texts = [f"CREATE INDEX IF NOT EXISTS {TABLE}_{column} ON {TABLE} ({column})" for column in columns]
    return Admin(name, [*texts, *more])


def changes(o: LoadsOptions, kind: RecoveryKind) -> tuple[list[str], int]:
    """Returns statements that write a log, and how many rows they change whatever has run before."""
    crash = kind == "crash"
    first, rest = (o.rows, 1) if crash else (o.rows + o.rows // 8, 3)
    statements = [
        f"UPDATE {TABLE} SET v = v + 1 WHERE id <= {o.rows} AND id % 4 = 0",
        f"DELETE FROM {TABLE} WHERE id <= {o.rows} AND id % 8 = {rest}",
        f"INSERT INTO {TABLE} SELECT {first} + g, g * 7919::bigint % {o.rows}, g % 1000, "
        f"md5(g::text) || md5(g::text) FROM generate_series(1, {o.rows // 8}) g",
    ]
    return statements, o.rows // 4 + (o.rows - rest) // 8 + 1 + o.rows // 8


def _recovery(o: LoadsOptions, kind: RecoveryKind) -> Step:
    name: StepName = "crash-recovery" if kind == "crash" else "standby-replay"
    statements, rows = changes(o, kind)
    how = (
        "Start of a server that was stopped at once, without the sync of its files"
        if kind == "crash"
        else "Replay on a standby that was held back"
    )
    return Step(
        name,
        [Role("recovery", 1, [], operations=1)],
        Headline("recovery", "operations", "changed rows/s", fixed=float(rows)),
        judged_load=True,
        recovery=Recovery(kind, statements),
        uncounted="a server that replays its log has no connection to be counted",
        estimated_seconds=0.5 + rows / _SPEED[name],
        summary=f"{how}: {count(rows)} changed rows.",
    )


__all__ = ["Loads", "changes"]
