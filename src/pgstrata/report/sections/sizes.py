"""How large the data were after a run: databases, tables with their dead rows, indexes with their density."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgstrata import numbers
from pgstrata.page.blocks import Cell, Column, Row, Section, Table, missing, words
from pgstrata.page.results import RunSet
from pgstrata.stats.metrics import GB
from pgstrata.store.record import Sizes, TableRecord

MOST_TABLES = 12
"""Of one run, the largest first: more are seldom looked at, and a schema may have thousands."""


def _gigabytes(value: float | None) -> Cell:
    return missing("not observed") if value is None else Cell(value / GB, numbers.significant(value / GB))


def sizes(results: RunSet) -> Section | None:
    """Returns the sizes of databases, and of the tables and indexes in them; None if nothing was observed."""
    rows: list[Row] = []
    for workload in results.workloads:
        for variant in results.variants:
            runs = [run for run in workload.runs if run.variant == variant]
            if not runs:
                continue
            run = runs[-1]
            sizes = run.record.sizes
            tables = sizes.tables.values()
            wal = [step.wal_bytes for step in run.steps if step.wal_bytes is not None]
            rows.append(
                Row(
                    [
                        words(variant),
                        words(workload.name),
                        _gigabytes(sizes.database_bytes),
                        _gigabytes(sizes.data_dir_bytes),
                        _gigabytes(sum(t.table_bytes for t in tables) if tables else None),
                        _gigabytes(sum(t.index_bytes for t in tables) if tables else None),
                        _gigabytes(sum(wal) if wal else None),
                    ],
                    variant=variant,
                )
            )
    if not rows:
        return None
    table = Table(
        name="sizes",
        title="Sizes at the end of a run — smaller is better",
        columns=[
            Column("variant", "Variant", align="left"),
            Column("workload", "Workload", align="left"),
            Column("database", "Database", "GB"),
            Column("data_folder", "Data folder", "GB"),
            Column("tables", "Tables", "GB"),
            Column("indexes", "Indexes", "GB"),
            Column("wal", "WAL written in the steps", "GB"),
        ],
        rows=rows,
        how="Sizes after the last step of the newest run, a GB being 1024³ bytes. The data folder holds the "
        "database, the WAL that was kept and everything else of the server.",
    )
    more = (growth(results), _tables(results), _indexes(results))
    described = (part for part in more if part is not None)
    return Section("sizes", "Data sizes", [table, *described])


def growth(results: RunSet) -> Table | None:
    """Returns a table of the sizes on disk when the data were loaded and at the end, side by side; None if no
    load was observed."""
    sizes: dict[tuple[str, str], Sizes] = {}
    for variant in results.variants:
        for run in results.runs_of(variant)[-1:]:
            loads = [step for step in run.steps if step.group == "load" and step.sizes.database_bytes]
            if loads:
                sizes[variant, "loaded"] = loads[-1].sizes
                sizes[variant, "at the end"] = run.record.sizes
    if not sizes:
        return None
    tables: dict[str, int] = {}
    for size in sizes.values():
        for name, table in size.tables.items():
            tables[name] = max(tables.get(name, 0), table.table_bytes + table.index_bytes)
    largest = sorted(tables, key=lambda name: -tables[name])[:MOST_TABLES]
    columns = list(sizes.values())
    rows: list[tuple[str, list[int | None]]] = [
        ("database", [column.database_bytes for column in columns]),
        ("all tables", [sum(t.table_bytes for t in column.tables.values()) for column in columns]),
        ("all indexes", [sum(t.index_bytes for t in column.tables.values()) for column in columns]),
    ]
    for name in largest:
        table_sizes = [column.tables.get(name) for column in columns]
        rows.append((f"table {name}", [None if t is None else t.table_bytes for t in table_sizes]))
        rows.append((f"indexes of {name}", [None if t is None else t.index_bytes for t in table_sizes]))
    return Table(
        name="growth",
        title="What lay on disk when all was loaded, and at the end",
        columns=[
            Column("what", "What", align="left"),
            *(Column(f"{variant} {when}", variant, when) for variant, when in sizes),
        ],
        rows=[Row([words(what), *map(_size, values)]) for what, values in rows],
        how="What rows and indexes take on disk in each version. The largest tables come first; at the end "
        "is after the last step, with what the workload has added and left behind.",
        notes=[f"Left out: {numbers.counted(len(tables) - MOST_TABLES, 'smaller table')}."]
        if len(tables) > MOST_TABLES
        else [],
    )


def _size(value: int | None) -> Cell:
    return missing("not observed") if value is None else Cell(value, numbers.size(value))


def _described(results: RunSet) -> Iterator[tuple[str, str, list[tuple[str, TableRecord]]]]:
    """Yields variant, workload and the largest tables after the last step of its newest run."""
    for workload in results.workloads:
        for variant in results.variants:
            runs = [run for run in workload.runs if run.variant == variant]
            steps = [step for step in runs[-1].steps if step.tables] if runs else []
            if steps:
                bytes_of = steps[-1].sizes.tables
                largest = sorted(
                    steps[-1].tables.items(),
                    key=lambda entry: -(bytes_of[entry[0]].table_bytes if entry[0] in bytes_of else 0),
                )
                yield variant, workload.name, largest[:MOST_TABLES]


def _tables(results: RunSet) -> Table | None:
    rows = [
        Row(
            [
                *(words(variant), words(workload), words(name)),
                _count(table.rows_estimate),
                _count(table.dead_estimate),
                _percent(table.bloat.table if table.bloat else {}, "dead_tuple_percent"),
                _percent(table.bloat.table if table.bloat else {}, "free_percent"),
            ],
            variant=variant,
        )
        for variant, workload, tables in _described(results)
        for name, table in tables
    ]
    if not rows:
        return None
    return Table(
        name="tables",
        title="Tables after the last step",
        columns=[
            *_whose(),
            Column("table", "Table", align="left"),
            Column("rows", "Rows"),
            Column("dead", "Dead rows"),
            Column("dead_share", "Dead", "%", rule=True),
            Column("free", "Free space", "%"),
        ],
        rows=rows,
        how="Rows and dead rows are the server's own estimates. Shares are measured with pgstattuple, of "
        f"tables up to 1 GiB where the server has it. The {MOST_TABLES} largest tables of the newest run.",
    )


def _indexes(results: RunSet) -> Table | None:
    rows = []
    for variant, workload, tables in _described(results):
        for _, table in tables:
            measured = table.bloat.indexes if table.bloat else {}
            for name, definition in table.indexes.items():
                figures = measured.get(name, {})
                shares = [_percent(figures, key) for key in ("avg_leaf_density", "leaf_fragmentation")]
                named = [words(variant), words(workload), words(name), words(definition)]
                rows.append(Row([*named, *shares], variant=variant))
    if not rows:
        return None
    return Table(
        name="indexes",
        title="Indexes after the last step",
        columns=[
            *_whose(),
            Column("index", "Index", align="left"),
            Column("definition", "Definition", align="left"),
            Column("density", "Leaf density", "%", rule=True),
            Column("fragmentation", "Leaf fragmentation", "%"),
        ],
        rows=rows,
        how="Measured with pgstatindex, of btree indexes whose table was read.",
    )


def _whose() -> list[Column]:
    return [Column("variant", "Variant", align="left"), Column("workload", "Workload", align="left")]


def _count(value: int | None) -> Cell:
    return missing("not observed") if value is None else Cell(value, numbers.count(value))


def _percent(values: Mapping[str, float | None], key: str) -> Cell:
    value = values.get(key)
    return missing("not observed") if value is None else Cell(value, numbers.significant(value))
