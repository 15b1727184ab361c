"""More, fewer, same or unclear of counts, and the functions that account for a difference."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pgstrata.judge.instructions import (
    CountVerdict,
    by_line,
    compare_counts,
    estimate_counts,
    function_changes,
    line_of,
    precise,
    sentence,
)
from pgstrata.stats.verdict import interval, judge, p_value
from pgstrata.store.choose import Side
from pgstrata.store.names import RunKey
from pgstrata.store.read import Run, read_run
from pgstrata.store.record import CountedRole, CountedStep, CountRecord
from support_runs import make_run


def word(base: list[float], other: list[float], margin: float = 0.002) -> str:
    found = estimate_counts(base, other)
    return judge(found, interval(found), p_value(found), margin=margin).word


@pytest.mark.parametrize(
    ("base", "other", "expected"),
    [
        ([1000, 1000.1, 999.9], [1005, 1005.1, 1004.9], "slower"),
        ([1000, 1000.1, 999.9], [995, 995.1, 994.9], "faster"),
        ([1000, 1000.1, 999.9], [1001, 1001.1, 1000.9], "same"),
        ([1000, 1010, 990], [1004, 994, 1014], "unclear"),
        ([1000], [1100], "unclear"),  # one start each has no interval
    ],
)
def test_words_of_counts(base: list[float], other: list[float], expected: str) -> None:
    assert word(base, other) == expected


def test_starts_that_agree_by_chance_do_not_prove_the_last_instruction() -> None:
    found = estimate_counts([1e6, 1e6], [1e6 + 1, 1e6 + 1])
    low, high = interval(found)
    assert low < 0 < high
    assert p_value(found) > 0.05


def test_starts_are_added_until_the_interval_reaches_half_the_margin() -> None:
    assert precise(estimate_counts([1000, 1000.1], [1000, 1000.1]), 0.002)
    assert not precise(estimate_counts([1000, 1002], [1000, 1002]), 0.002)
    assert not precise(estimate_counts([1000], [1000]), 0.002)


def test_libraries_are_one_line_and_copies_of_a_function_are_it() -> None:
    assert line_of("/lib/x86_64-linux-gnu/libc.so.6", "memcpy") == "library libc"
    assert line_of("/usr/lib/libLLVM-14.so.1", "foo") == "library libLLVM-14"
    assert line_of("/srv/bin/postgres", "fasthash64.constprop.14") == "fasthash64"
    assert line_of("/srv/bin/postgres", "0x0000000000123") == "code without a name in postgres"
    assert line_of("/tmp/burn.so", "burn") == "burn"


def test_differences_of_functions_add_up_and_new_and_gone_ones_are_named() -> None:
    base, other = {"hash_any": 100.0, "scan": 900.0}, {"hash_bytes": 110.0, "scan": 921.0}
    found = function_changes(base, other)
    assert sum(c.difference for c in found) == sum(other.values()) - sum(base.values())
    assert [(c.function, c.state) for c in found] == [
        ("hash_bytes", "new"),
        ("hash_any", "gone"),
        ("scan", ""),
    ]
    assert math.isclose(found[2].share, 0.021)


def test_functions_of_other_steps_and_roles_do_not_count() -> None:
    import polars as pl

    rows = [
        ("a", "query", "f", 1.0),
        ("a", "insert", "f", 2.0),
        ("b", "query", "f", 4.0),
        ("a", "query", "g", 8.0),
    ]
    table = pl.DataFrame(rows, schema=["step", "role", "function", "instructions"], orient="row")
    assert by_line(table.with_columns(object=pl.lit("postgres")), "a", "query") == {"f": 1.0, "g": 8.0}


def test_the_sentence_names_what_moved_the_same_way() -> None:
    verdict = CountVerdict(
        workload="sysbench", step="point-query", role="query", headline=True, base=1000.0, other=1031.0,
        word="more", ratio=1.031, low=1.03, high=1.032, margin=0.002, confidence=0.95, starts=(3, 3),
        p_value=0.0, adjusted_p=0.0, reason="",
    )  # fmt: skip
    changes = function_changes({"ExecInitExpr": 100.0, "scan": 900.0}, {"ExecInitExpr": 133.0, "scan": 898.0})
    assert sentence(verdict, changes) == "3.1 % more instructions, of them 3.3 % in ExecInitExpr"


def counted_run(root: Path, variant: str, **how: Any) -> Run:
    """A run that counted 1000 instructions for each query."""
    run = read_run(make_run(root, RunKey("mine", variant, "insert.counted", 1), **how))
    assert isinstance(run, Run)
    role = CountedRole(operations=100, instructions=(1000.0, 1000.0), timed=(0.0, 0.0))
    step = CountedStep(
        name="qr100", order=1, group="", reads_only=True, role="query", warm=25, roles={"query": role}
    )
    record = CountRecord(
        engine="valgrind", tool="", event="", margin=0.002, settings={}, symbols="all", steps=(step,)
    )
    return replace(run, record=structs.replace(run.record, steps=(), counted=record))


@pytest.mark.parametrize(
    ("how", "word"),
    [({}, "same"), ({"options": {"rows": 7}}, "unclear"), ({"seed": 2}, "unclear"), ({"seconds": 9}, "same")],
)
def test_counts_of_other_work_are_not_judged(tmp_path: Path, how: dict[str, Any], word: str) -> None:
    base = Side("base", (counted_run(tmp_path, "pg16.10-base"),))
    other = Side("other", (counted_run(tmp_path, "pg17.1-base", **how),))
    verdict = compare_counts(base, [other])[0].steps[0]
    assert verdict.word == word
    assert ("other work" in verdict.reason) == (word == "unclear")
