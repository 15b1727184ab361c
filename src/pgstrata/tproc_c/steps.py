"""TPROC-C: warehouses loaded, then the mix or single kinds of transactions by number of virtual users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pgstrata.numbers import plural
from pgstrata.server.features import NEWEST, Feature, Features
from pgstrata.step_names import point_name
from pgstrata.tproc_c import conditions, schema
from pgstrata.tproc_c.data import FORMAT, Rows
from pgstrata.tproc_c.options import MIX, StepName, TprocCOptions
from pgstrata.tproc_c.rules import SIZES, WEIGHTS, Transaction
from pgstrata.tproc_c.transactions import Terminal, script
from pgstrata.workload.core.curve import curve_phases
from pgstrata.workload.core.language import (
    Admin,
    CopyFile,
    Headline,
    Op,
    Phase,
    Role,
    Script,
    Settle,
    Sql,
    Step,
    Work,
    WorkContext,
)
from pgstrata.workload.core.options import RunCost, need_feature
from pgstrata.workload.core.scripts import RETRIED
from pgstrata.workload.core.shares import each_its_own, spread

if TYPE_CHECKING:
    from pgstrata.page.blocks import Section
    from pgstrata.page.results import RunSet, WorkloadResults

_READS = ("order-status", "stock-level")

_MAX_TRIES = 1000
"""Of a transaction that deadlocks."""

# Orders of magnitude of a small current server: bytes loaded and indexed per second and connection.
_COPY, _INDEX = 20e6, 40e6

_GROWTH_BYTES = 5_000_000
"""New rows and write-ahead log of a second of the mix, of all virtual users together."""


class TprocC:
    """Order entry by the rules of TPC-C."""

    name = "tproc-c"
    summary = "TPROC-C: order entry by TPC-C's rules, as HammerDB runs it; NOPM and TPM by virtual users"
    Options = TprocCOptions
    scales: Mapping[str, Mapping[str, Any]] = {
        "count": {
            "warehouses": 2,
            "clients": 1,
            "size": "tiny",
            "transactions": [MIX, *WEIGHTS],
            "load_connections": 1,
            "seconds": 1,
        },
        "quick": {"warehouses": 1, "clients": [1, 2], "seconds": 3, "warmup": 0.5},
        "demo": {"warehouses": 2, "clients": [1, 2], "seconds": 10, "warmup": 2},
        "small": {},
        "medium": {"warehouses": 100, "clients": [1, 2, 4, 8, 16], "load_connections": 4, "seconds": 120},
        "large": {"warehouses": 1000, "clients": [8, 16, 32, 64], "load_connections": 8, "seconds": 300},
    }

    def phases(self, options: TprocCOptions, server: Features) -> list[Phase]:
        o = options
        need_feature(server, Feature.CONCAT, "tproc-c", "its functions call concat_ws()")
        facts: dict[str, Any] = {}
        phases: list[Phase] = []
        for warehouses in o.warehouses:
            phases += _load(o, warehouses)
            for name in o.transactions:
                at = partial(_phases, o, name, warehouses, facts)
                phases += curve_phases(f"{name}{_suffix(o, warehouses)}", o.clients, o.refine, at)
        return phases

    def only(self, steps: Sequence[str], seconds: float) -> Mapping[str, Any]:
        """Returns the options for these steps: they share their data; their length can be chosen."""
        return {"seconds": seconds}

    def report(self, results: RunSet, workload: WorkloadResults) -> Section | None:
        """Returns the workload's section of the report."""
        from pgstrata.tproc_c.report import tproc_c  # what draws is loaded where something is drawn

        return tproc_c(results, workload)

    def estimate(self, options: TprocCOptions) -> RunCost:
        o = options
        steps = [p for p in self.phases(o, NEWEST) if isinstance(p, Step)]
        seconds = sum(s.expected_seconds for s in steps)
        data = max(o.warehouses) * Rows(o.seed, SIZES[o.size]).warehouse_bytes
        # Tables and indexes take half as much again as their text; the write-ahead log of the load.
        return RunCost(seconds, int(data * 2.5 + seconds * _GROWTH_BYTES + (1 << 30)))


# --- the load ---------------------------------------------------------------------------------------


def _suffix(o: TprocCOptions, warehouses: int) -> str:
    return f"-w{warehouses}" if len(o.warehouses) > 1 else ""


def _load(o: TprocCOptions, warehouses: int) -> list[Phase]:
    rows = Rows(o.seed, SIZES[o.size])

    def make(context: WorkContext) -> Mapping[str, Any]:
        rows.make(warehouses, context.check)
        return {}

    def copy(table: str, number: int) -> Op:
        file = str(rows.file(table, number))
        return CopyFile(f"COPY {table} FROM STDIN", file, name=f"copy {table}")

    copies = [
        [copy(table, number) for table in schema.TABLES if (table == "item") == (number == 0)]
        for number in range(warehouses + 1)
    ]
    indexes = [[Sql.verbatim(text, name=text)] for table in schema.TABLES for text in schema.indexes(table)]
    size = warehouses * rows.warehouse_bytes
    code = ["functions.sql", *(["sets.sql"] if o.code == "sets" else [])]
    functions = [files("pgstrata.tproc_c").joinpath(name).read_text("utf-8") for name in code]
    made_of = {"format": FORMAT, "seed": o.seed, "size": o.size, "warehouses": warehouses}
    suffix = _suffix(o, warehouses)
    return [
        Work(f"rows of {warehouses} {plural('warehouse', warehouses)}", make, depends_on=made_of),
        Admin("create tables", schema.create()),
        _loading(o, f"load{suffix}", copies, "warehouses/s", float(warehouses), size / _COPY),
        _loading(o, f"keys{suffix}", indexes, "warehouses/s", float(warehouses), size / _INDEX),
        Admin("create functions", functions),
        Settle(schema.TABLES, seconds=0),
        *_conditions(o, f"load{suffix}", {}, is_last=False),
    ]


def _loading(
    o: TprocCOptions, name: str, work: Sequence[Sequence[Op]], unit: str, amount: float, seconds: float
) -> Step:
    """Returns a step in which connections share pieces of work; each piece stays with one of them."""
    connections = min(o.load_connections, len(work))
    shares = [[op for piece in share for op in piece] for share in spread(work, connections, len)]
    return Step(
        name,
        [Role("load", connections, [Script(*each_its_own(shares))], operations=1)],
        Headline("load", "operations", unit, fixed=amount),
        tables=schema.TABLES,
        group="load",
        measured=False,
        load=True,
        estimated_seconds=1 + seconds / connections,
    )


# --- the transactions ---------------------------------------------------------------------------------


def _phases(
    o: TprocCOptions, name: StepName, warehouses: int, facts: dict[str, Any], clients: int
) -> list[Phase]:
    """Returns what measures transactions with a number of virtual users."""
    step = _step(o, name, warehouses, clients)
    is_last = (name, clients) == (o.transactions[-1], o.clients[-1])
    before = [Admin("checkpoint", ["CHECKPOINT"])] if o.checkpoint else []
    return [*before, step, *_conditions(o, step.name, facts, is_last=is_last)]


def _step(o: TprocCOptions, name: StepName, warehouses: int, clients: int) -> Step:
    """Returns a step; steps of one group differ in the number of virtual users only."""
    terminal = Terminal(o, warehouses, clients)
    chosen: Sequence[Transaction] = tuple(WEIGHTS) if name == "mix" else (name,)
    role = Role(
        "query",
        clients,
        [script(terminal, transaction) for transaction in chosen],
        mode=o.mode,
        declare_types=True,
        retry_sqlstates=RETRIED,
        max_tries=_MAX_TRIES,
        start=terminal.home(),
    )
    full = f"{name}{_suffix(o, warehouses)}"
    what = "The five transactions in their mix" if name == MIX else f"The transaction {name} alone"
    many = f"{clients} virtual {plural('user', clients)} and {warehouses} {plural('warehouse', warehouses)}"
    return Step(
        point_name(full, clients) if len(o.clients) > 1 else full,
        [role],
        Headline("query", "operations", "transactions/min"),
        seconds=o.seconds,
        warmup=o.warmup,
        tables=schema.TABLES,
        group=full,
        reads_only=name in _READS,
        summary=f"{what}: {many}.",
    )


def _conditions(o: TprocCOptions, step: str, facts: dict[str, Any], *, is_last: bool) -> list[Phase]:
    """Returns what checks the data after a step. facts: what was found out after the steps before."""
    if o.conditions == "none":
        return []
    numbers = tuple(conditions.queries()) if o.conditions == "all" and is_last else conditions.FIRST_FOUR

    def work(context: WorkContext) -> Mapping[str, Any]:
        facts[step] = conditions.check(context, step, numbers)
        return {"tproc_c": dict(facts)}

    return [Work(f"conditions after {step}", work)]


__all__ = ["TprocC"]
