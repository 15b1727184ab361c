"""Sections on queries: pure arithmetic, plans side by side, and the blocks of invented runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pgstrata.fulltext.report import fulltext
from pgstrata.judge.plan_text import MARK, outline, side_by_side
from pgstrata.judge.queries import Timing, common, faster, geometric_mean, shift, timings, total
from pgstrata.page.blocks import Chart, Listing, Section, Table
from pgstrata.page.results import read_results
from pgstrata.store import Results, RunKey
from pgstrata.store.record import Sizes, TableSizes
from pgstrata.tpcds.report import tpcds
from pgstrata.workload.custom.report import custom
from support.records import circumstances, step_record


def row(query: str, seconds: float, **more: Any) -> dict[str, Any]:
    return {
        "query": query, "seconds": seconds, "answer": None, "timed_out": False, "sqlstate": None,
        "error": None, **more,
    }  # fmt: skip


def test_executions_become_one_timing() -> None:
    by_query = timings(
        [
            row("q1", 3.0, answer="same"),
            row("q1", 1.0, answer="same"),
            row("q1", 2.0, answer="different"),
            row("q2", 10.0, timed_out=True, error="cancelled", answer="not run"),
            row("q3", 0.1, error="no such thing", sqlstate="42883", answer="not run"),
        ]
    )
    assert by_query["q1"] == Timing(2.0, 3, False, "different", None, None)
    assert (by_query["q2"].seconds, by_query["q2"].timed_out) == (10.0, True)
    assert (by_query["q3"].seconds, by_query["q3"].sqlstate) == (None, "42883")


BASE = {"a": Timing(1.0, 1), "b": Timing(4.0, 1), "c": Timing(0.0005, 1), "d": Timing(None, 1)}
OTHER = {"a": Timing(2.0, 1), "b": Timing(2.0, 1), "c": Timing(1.0, 1), "d": Timing(1.0, 1)}


def test_only_what_every_variant_ran_is_compared() -> None:
    same = common({"base": BASE, "other": OTHER})
    assert same == ["a", "b", "c"]
    assert total(BASE, ["a", "b"]) == 5.0
    assert geometric_mean(BASE, ["a", "b"]) == pytest.approx(2.0)
    assert geometric_mean(BASE, []) is None
    assert faster(BASE["a"], OTHER["a"]) == 0.5
    assert faster(BASE["d"], OTHER["d"]) is None
    cut = Timing(60.0, 1, timed_out=True)
    assert faster(cut, cut) is None  # how long either would have taken nobody knows
    assert faster(cut, BASE["b"]) == 15.0
    assert common({}) == []


def test_queries_below_a_millisecond_are_counted_apart() -> None:
    change = shift(BASE, OTHER, (0.95, 1.05))
    assert change is not None
    assert (change.queries, change.slower, change.faster, change.even) == (3, 1 / 3, 1 / 3, 0.0)
    assert change.unsure == pytest.approx(1 / 3)
    assert shift(BASE, {}, (0.95, 1.05)) is None


SCAN = {"Node Type": "Seq Scan", "Relation Name": "t", "Plan Rows": 1000}
PLAN = [{"Plan": {"Node Type": "Sort", "Actual Rows": 10, "Actual Loops": 1, "Plans": [SCAN]}}]
OTHER_PLAN = {
    "Plan": {
        "Node Type": "Sort", "Actual Rows": 10, "Actual Loops": 1,
        "Plans": [{"Node Type": "Index Scan", "Index Name": "i", "Relation Name": "t", "Actual Rows": 2,
                   "Actual Loops": 5}],
    }
}  # fmt: skip


def test_plans_are_outlined_and_stand_side_by_side() -> None:
    assert outline(PLAN) == ["Sort  10 rows", "  Seq Scan on t  ~1,000 rows"]
    assert outline(OTHER_PLAN) == ["Sort  10 rows", "  Index Scan by i on t  2 rows × 5"]
    assert outline(None) == outline([]) == []
    lines = side_by_side(outline(PLAN), outline(OTHER_PLAN), ("old", "new")).splitlines()
    assert lines[0].split() == ["old", "new"]
    assert MARK not in lines[2] and lines[2].split()[0] == "Sort"
    assert MARK in lines[3]
    assert "Seq Scan" in lines[3] and "Index Scan" in lines[3]


def run(root: Path, variant: str, queries: list[dict[str, Any]], facts: dict[str, Any], *steps: str) -> None:
    builder = Results(root).begin(RunKey("c", variant, "w", 1))
    for order, name in enumerate(steps, 1):
        own_queries = [q for q in queries if q.pop("step", steps[-1]) == name] if name == steps[-1] else []
        builder.step(
            step_record(
                name, order=order, seconds=10.0 * order, rate_unit="x/h",
                sizes=Sizes(tables={"t": TableSizes(table_bytes=3_000_000_000, index_bytes=1_000_000_000)}),
            ),
            queries=[
                {"stream": 1, "execution": 1, "start": 0.0, "rows": 1, "digest": "x", **q}
                for q in own_queries
            ],
        )  # fmt: skip
    builder.plans({"plans": [{"name": "q1", "plan": (PLAN if variant == "pg1" else [OTHER_PLAN])[0]}]})
    builder.finish(circumstances(facts=facts))


def tables_of(section: Section) -> dict[str, Table]:
    return {block.name: block for block in section.blocks if isinstance(block, Table)}


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in r.cells] for r in table.rows]


def test_answers_of_files_are_held_against_those_of_the_base(tmp_path: Path) -> None:
    def answered(**digests: str | None) -> list[dict[str, Any]]:
        lacking = {"error": "no such table", "sqlstate": "42P01"}
        return [
            row(name, 1.0, digest=digest, **({} if digest else lacking)) for name, digest in digests.items()
        ]

    steps = ("load.shop.rows", "load.shop.indexes", "queries")
    run(tmp_path, "pg1", answered(q1="a", q2="b", q3=None) + answered(q2="c"), {}, *steps)
    run(tmp_path, "pg2", answered(q1="a", q2="b", q3="d"), {}, *steps)
    run(tmp_path, "pg3", answered(q1="x", q2=None, q3="d"), {}, *steps)
    results = read_results(tmp_path)
    (workload,) = results.workloads
    section = custom(results, workload)
    assert section is not None
    tables = tables_of(section)
    assert [(r[0], r[1], r[-1]) for r in texts(tables["custom-queries"])] == [
        ("q1", "pg1", "same"),
        ("q1", "pg2", "same"),
        ("q1", "pg3", "different"),
        ("q2", "pg1", "different"),  # its own executions differ
        ("q2", "pg2", "different"),
        ("q2", "pg3", "not run"),
        ("q3", "pg1", "not run"),
        ("q3", "pg2", "not checked"),
        ("q3", "pg3", "not checked"),
    ]
    assert [r[0] for r in texts(tables["load-phases"])] == ["pg1", "pg2", "pg3"]
    assert [c.title for c in tables["load-phases"].columns] == [
        *("Variant", "shop.rows", "shop.indexes", "Together"),
    ]
    assert [r[:2] for r in texts(tables["custom-rejected"])] == [["pg1", "q3"], ["pg3", "q2"]]
    assert tables["custom-rejected"].title == "Queries that were rejected or left out"


def test_tpcds_says_what_was_compared_and_what_changed(tmp_path: Path) -> None:
    facts = {"tpcds": {"raw_bytes": 2e9}}
    steps = ("copy", "analyze", "power")
    base = [row("q1", 1.0, answer="same"), row("q2", 2.0, answer="same")]
    other = [
        row("q1", 2.0, answer="different"),
        row("q2", 1.0, error="<b>no</b> such function", sqlstate="42883", answer="not run"),
    ]
    run(tmp_path, "pg1", base, facts, *steps)
    run(tmp_path, "pg2", other, facts, *steps)
    results = read_results(tmp_path)
    (workload,) = results.workloads
    section = tpcds(results, workload)
    assert section is not None and fulltext(results, workload) is None
    tables = tables_of(section)
    assert tables["tpcds-totals"].title.endswith("1 of 2 was run by every variant")
    assert [r[:3] for r in texts(tables["tpcds-totals"])] == [
        ["pg1", "1.00", "1.00"],
        ["pg2", "2.00", "0.500"],
    ]
    assert [r[-3:] for r in texts(tables["tpcds-totals"])] == [["2", "0", "0"], ["0", "1", "1"]]
    assert texts(tables["tpcds-size"])[0][2:] == ["1.50", "0.500", "2.00"]
    assert texts(tables["load-phases"])[0] == ["pg1", "10.0", "20.0", "30.0"]
    assert texts(tables["tpcds-rejected"]) == [["pg2", "q2", "42883", "<b>no</b> such function"]]
    assert [r[:2] for r in texts(tables["tpcds-plans"])] == [["q1", "pg2"]]
    (listing,) = [b for b in section.blocks if isinstance(b, Listing)]
    assert "Seq Scan on t" in listing.text and "Index Scan by i on t" in listing.text
    heat = next(b for b in section.blocks if isinstance(b, Chart) and b.data[0]["type"] == "heatmap")
    assert heat.data[0]["text"] == [["0.500 ≠"], ["✕"]]
    # Of single executions nothing is proven, and a colour means proven; thresholds are asked for.
    assert all(row.cells[3].mark == "" for row in tables["tpcds-queries"].rows)
    assert [row.cells[2].mark for row in tables["tpcds-totals"].rows] == ["", ""]
    marked = read_results(tmp_path, thresholds=(0.95, 1.05))
    again = tpcds(marked, marked.workloads[0])
    assert again is not None
    assert [row.cells[2].mark for row in tables_of(again)["tpcds-totals"].rows] == ["even", "bad"]
    heat = next(b for b in again.blocks if isinstance(b, Chart) and b.data[0]["type"] == "heatmap")
    assert heat.data[0]["text"] == [["0.500 ▼≠"], ["✕"]]


def test_fulltext_says_what_got_slower(tmp_path: Path) -> None:
    facts = {"fulltext": {"messages": 1}, "fulltext_pending": {"bytes": 8192}}
    base = [row("1 a", 0.1), row("2 b", 0.0001), row("3 c", 0.2)]
    other = [row("1 a", 0.2), row("2 b", 0.0002), row("3 c", 0.2)]
    for variant, queries in (("pg1", base), ("pg2", other)):
        run(tmp_path, variant, queries, facts, "load.gin", "load.plain", "index.gin", "query.gin")
    results = read_results(tmp_path)
    (workload,) = results.workloads
    section = fulltext(results, workload)
    assert section is not None and tpcds(results, workload) is None
    tables = tables_of(section)
    (shifted,) = texts(tables["fulltext-shifts"])
    assert shifted[:3] == ["GIN", "pg2", "3"]
    assert [c.value for c in tables["fulltext-shifts"].rows[0].cells[3:]] == [1 / 3, 0.0, 1 / 3, 1 / 3]
    assert texts(tables["fulltext-totals"])[1][:3] == ["GIN", "pg2", "0.400"]
    assert texts(tables["fulltext-indexes"])[0][-1] == "8 KiB"
    scatter = next(b for b in section.blocks if isinstance(b, Chart) and b.data[0]["type"] == "scatter")
    assert scatter.data[0]["x"] == [0.1, 100, 200]
    assert scatter.data[0]["y"] == [2, 2, 1]
    loads = next(b for b in section.blocks if isinstance(b, Chart) and "loaded" in b.title)
    assert list(loads.data[0]["x"]) == ["GIN in place", "GIN afterwards"]
    assert loads.data[0]["y"] == [10, 50]
