"""TPC-H: load in timed phases, plans, a power run between the refresh functions, a throughput run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pgstrata.server.features import NEWEST, Features
from pgstrata.tpc import data
from pgstrata.tpc.load import Indexing, copy, cost, create, load_phases, make_data
from pgstrata.tpc.runs import QueryRuns
from pgstrata.tpch import schema
from pgstrata.tpch.options import TpchOptions
from pgstrata.tpch.refresh import KEYS, file_stem, new_orders
from pgstrata.tpch.schema import TPCH
from pgstrata.tpch.sequence import order_of
from pgstrata.workload.core.language import (
    Admin,
    CopyFile,
    Headline,
    Op,
    Phase,
    Role,
    Script,
    Set,
    Sql,
    Step,
    Var,
    Work,
)
from pgstrata.workload.core.options import RunCost

if TYPE_CHECKING:
    from pgstrata.page.blocks import Section
    from pgstrata.page.results import RunSet, WorkloadResults

_ORDER_SECONDS = 0.003
"""Of inserting or deleting an order, about."""


class Tpch:
    """TPC-H: 8 tables, 22 analytical queries, two refresh functions."""

    name = TPCH.name
    summary = "TPC-H: 22 analytical queries between both refresh functions, as TPC-DS otherwise"
    Options = TpchOptions
    scales: Mapping[str, Mapping[str, Any]] = {
        "count": {"scale": 0.01, "streams": 0, "plans": "none", "answers": False},
        "quick": {"scale": 0.1, "time_limit": 20, "streams": 0},
        "small": {"scale": 0.1, "time_limit": 60},
        "medium": {"scale": 1, "time_limit": 300},
        "large": {"scale": 10},
    }

    def phases(self, options: TpchOptions, server: Features) -> list[Phase]:
        o = options
        runs = QueryRuns(TPCH, o, server, lambda stream: order_of(stream, o.numbers))
        refreshed = o.refresh and bool(o.passes)
        after_rf1, after_rf2 = ("rf1", "rf2") if refreshed else ("", "")
        rf1, rf2 = _refresh(o) if refreshed else ([], [])
        return [
            Work("data", partial(make_data, TPCH, o.scale)),
            Admin("create tables", create(TPCH) + (schema.refresh_tables() if refreshed else [])),
            *load_phases(TPCH, o, _indexing(o)),
            *([_refresh_rows(o)] if refreshed else []),
            *(runs.answers(after_rf1) if o.passes else []),
            *(runs.answers(after_rf2) if o.streams and (refreshed or not o.passes) else []),
            *runs.before(),
            *rf1,
            *runs.power(after_rf1),
            *rf2,
            *runs.throughput(after_rf2),
        ]

    def report(self, results: RunSet, workload: WorkloadResults) -> Section | None:
        """Returns the workload's section of the report."""
        from pgstrata.tpch.report import tpch  # what draws is loaded where something is drawn

        return tpch(results, workload)

    def estimate(self, options: TpchOptions) -> RunCost:
        return cost(TPCH, options, self.phases(options, NEWEST))


def _indexing(o: TpchOptions) -> list[Indexing]:
    indexings = [Indexing("keys", "key", schema.keys), Indexing("indexes", "index", schema.indexes)]
    return indexings[: {"none": 0, "primary": 1, "keys": 2}[o.indexes]]


# --- the refresh functions --------------------------------------------------------------------


def _refresh_rows(o: TpchOptions) -> Step:
    """Returns the step that loads the rows of RF1 into tables of their own, which is no part of RF1: the
    specification leaves open where the rows come from."""
    stems = [file_stem(table) for table in KEYS]
    ops: list[Op] = [
        CopyFile(copy(stem), str(data.file(TPCH, o.scale, stem)), name=f"copy {stem}") for stem in stems
    ]
    ops += [Sql.verbatim(f"ANALYZE {stem}", name=f"analyze {stem}") for stem in stems]
    return Step(
        "refresh rows",
        [Role("load", 1, [Script(*ops)], operations=1)],
        Headline("load", "operations", "loads/h", fixed=1.0),
        tables=stems,
        group="TPC-H load",
        measured=False,
        load=True,
        uncounted="it is one operation",
        estimated_seconds=1.0,
    )


def _refresh(o: TpchOptions) -> tuple[list[Phase], list[Phase]]:
    """Returns the phases of RF1 and of RF2, an order in each transaction."""
    inserts = [
        Sql(
            f"INSERT INTO {table} SELECT * FROM {file_stem(table)} WHERE {key} = {{key}}",
            name=f"insert {table}",
            key=Var("key", "int8"),
        )
        for table, key in KEYS.items()
    ]
    deletes = [
        Sql(f"DELETE FROM {table} WHERE {key} = {{key}}", name=f"delete {table}", key=Var("key", "int8"))
        for table, key in reversed(list(KEYS.items()))
    ]
    return (
        [_refresh_step(o, "rf1", inserts, 1, "Inserts new orders, each with its positions.")],
        [_refresh_step(o, "rf2", deletes, 0, "Deletes as many old orders, each with its positions.")],
    )


def _refresh_step(o: TpchOptions, name: str, statements: Sequence[Op], eighth: int, summary: str) -> Step:
    """Returns the step of a refresh function. eighth: of the keys, as `order_key` has it."""
    ops: list[Op] = [
        Set("order", ":order + 1"),
        Set("key", f":order / 8 * 32 + {8 * eighth} + :order % 8"),
        Sql.verbatim("BEGIN", name="begin"),
        *statements,
        Sql.verbatim("COMMIT", name="commit"),
    ]
    orders = new_orders(o.scale)
    return Step(
        name,
        [
            Role(
                "refresh",
                1,
                [Script(*ops)],
                mode="prepared",
                operations=orders,
                variables={"order": 0},
            )
        ],
        Headline("refresh", "operations", "orders/s"),
        tables=list(KEYS),
        group="TPC-H refresh functions",
        estimated_seconds=1 + orders * _ORDER_SECONDS,
        summary=summary,
    )
