"""The load in timed phases, each over all tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pgstrata.tpc import data
from pgstrata.tpc.benchmark import Benchmark
from pgstrata.tpc.options import TpcOptions
from pgstrata.tpc.source import tables
from pgstrata.workload.core.language import (
    CopyFile,
    Headline,
    Op,
    Phase,
    Role,
    Script,
    Sql,
    Step,
    WorkContext,
)
from pgstrata.workload.core.options import RunCost
from pgstrata.workload.core.shares import each_its_own, spread

# Orders of magnitude of a small current server: raw bytes loaded per second and connection, indexed,
# vacuumed, analyzed.
_COPY, _INDEX, _VACUUM, _ANALYZE = 20e6, 30e6, 200e6, 400e6

T = TypeVar("T")


@dataclass(frozen=True)
class Indexing:
    """A phase that makes indexes. verb: what it does to a table, for names; of: its statements for one."""

    name: str
    verb: str
    of: Callable[[str], Sequence[str]]


def make_data(benchmark: Benchmark, scale: float, context: WorkContext) -> dict[str, Any]:
    """Makes the rows unless they are there. Returns what run.json keeps of them."""
    return {benchmark.name: data.make(benchmark, scale, context.say, context.check)}


def create(benchmark: Benchmark) -> list[str]:
    """Returns one CREATE TABLE for each table."""
    return [
        f"CREATE TABLE {table} ({', '.join(f'{c.name} {c.type}' for c in columns)})"
        for table, columns in tables(benchmark).items()
    ]


def copy(table: str) -> str:
    """Returns the COPY that takes the generator's rows, as every version understands it: options in
    parentheses came in 9.0."""
    return f"COPY {table} FROM STDIN WITH DELIMITER '|' NULL ''"


def load_phases(benchmark: Benchmark, o: TpcOptions, indexing: Sequence[Indexing]) -> list[Phase]:
    """Returns the phases of the load: COPY, the indexes, VACUUM and ANALYZE."""
    raw = benchmark.raw_bytes(o.scale)
    phase = partial(_phase, benchmark, o)

    def copied(table: str) -> list[Op]:
        file = str(data.file(benchmark, o.scale, table))
        return [CopyFile(copy(table), file, name=f"copy {table}")]

    def executed(verb: str, of: Callable[[str], Sequence[str]]) -> Callable[[str], list[Op]]:
        return lambda table: [Sql.verbatim(sql, name=f"{verb} {table}") for sql in of(table)]

    phases: list[Phase] = [phase("copy", copied, raw / _COPY)]
    phases += [phase(i.name, executed(i.verb, i.of), raw / _INDEX / len(indexing)) for i in indexing]
    if vacuum := {"freeze": "VACUUM FREEZE", "full": "VACUUM FULL"}.get(o.vacuum):
        of = executed("vacuum", lambda table: [f"{vacuum} {table}"])
        phases.append(phase("vacuum", of, raw / _VACUUM))
    of = executed("analyze", lambda table: [f"ANALYZE {table}"])
    return [*phases, phase("analyze", of, raw / _ANALYZE)]


def _phase(
    benchmark: Benchmark, o: TpcOptions, name: str, ops: Callable[[str], Sequence[Op]], seconds: float
) -> Step:
    """Returns one phase of the load over all tables, judged by how often it could be done in an hour."""
    shares = [share for share in spread_tables(benchmark, o.load_connections, ops) if share]
    return Step(
        name,
        [Role("load", len(shares), [Script(*each_its_own(shares))], operations=1)],
        Headline("load", "operations", "loads/h", fixed=1.0),
        tables=list(tables(benchmark)),
        group=f"{benchmark.title} load",
        uncounted="it is one operation on all tables",
        load=True,
        measured=o.judge_loads,
        estimated_seconds=1 + seconds / len(shares),
    )


def spread_tables(benchmark: Benchmark, connections: int, of: Callable[[str], Sequence[T]]) -> list[list[T]]:
    """Returns the results of `of` for each table, spread over connections."""
    shares = spread(list(tables(benchmark)), connections, lambda table: benchmark.weights.get(table, 0.1))
    return [[piece for table in share for piece in of(table)] for share in shares]


def cost(benchmark: Benchmark, o: TpcOptions, phases: Sequence[Phase]) -> RunCost:
    """Returns the cost of a run, its data included if it has to be made."""
    seconds = sum(p.estimated_seconds or 0.0 for p in phases if isinstance(p, Step))
    there = data.about(benchmark, o.scale) is not None
    raw = benchmark.raw_bytes(o.scale)
    # Tables a little larger than their text, indexes, the write-ahead log of the load, sorts on disk.
    return RunCost(seconds + (0 if there else raw / 50e6), int(raw * 2.6) + (1 << 30))


__all__ = ["Indexing", "copy", "cost", "create", "load_phases", "make_data", "spread_tables"]
