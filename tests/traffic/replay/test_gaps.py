"""What a replay says nothing about: statements that went well in the log and fail everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pgstrata.page.results import read_results
from pgstrata.store import Results, RunKey
from pgstrata.store.record import LatenessRecord, ReplayFailureRecord, ReplayRecord, Slice, StatementRecord
from pgstrata.traffic.captured import Database, Header, Shape
from pgstrata.traffic.replay.coverage import ROLES, Coverage, NotAsked, coverage_of, facts_of
from pgstrata.traffic.replay.gaps import Gap, gaps
from pgstrata.traffic.replay.judged import judged
from pgstrata.traffic.replay.options import ReplayOptions
from pgstrata.workload.custom.reaches import Reaching
from support.records import circumstances, comparison_record, role_record, step_record

OLD, NEW = "13", "17"
ROUNDS = 4
SHARES = (0.5, 0.3, 0.15, 0.05)
"""Of the log's time, by the number of the statement."""


def failure(number: int, count: int, now: str | None, **more: Any) -> ReplayFailureRecord:
    """Executions of a statement in all rounds that ended in the same way; they went well in the log."""
    of = {"then": None, "message": "no such thing", "statement": f"#{number} SELECT {number}", **more}
    return ReplayFailureRecord(number=number, count=count, now=now, **of)


def store(root: Path, variant: str, failures: list[ReplayFailureRecord], timed: bool) -> None:
    """Ten executions of each statement in a round."""
    errors = {n: sum(f.count for f in failures if f.number == n and f.now) for n in range(len(SHARES))}
    statements = tuple(
        StatementRecord(
            number=n, name=f"#{n} SELECT {n}", count=10 * ROUNDS, errors=errors[n], rows=40,
            seconds_total=1.0, seconds_max=0.1,
        )
        for n in range(len(SHARES))
    )  # fmt: skip
    rows = [
        {
            "part": part, "statement": statement.name, "calls": 10, "errors": statement.errors // ROUNDS,
            "rows": 10, "seconds": 0.1 + part / 1000, "max_seconds": 0.02,
        }
        for statement in statements
        for part in range(ROUNDS)
    ]  # fmt: skip
    lateness = LatenessRecord(**dict.fromkeys(LatenessRecord.__struct_fields__, 0.0))
    record = step_record(
        "replay",
        roles={"query": role_record(statements_by_name=statements)},
        slices=tuple(Slice(pair=n, seconds=1.0, rate=100.0) for n in range(1, ROUNDS + 1)),
        replay=ReplayRecord(lateness=lateness, sessions=1, lost=0, unsent=0, failures=tuple(failures)),
    )
    whole: Mapping[str, Any] = {
        **dict.fromkeys(("begin", "end", "sessions", "errors", "other_databases", "other_statements"), 0),
        **{"database": "shop", "statements": 40, "timed": 40 * timed, "masked": False, "speed": 0.0},
        **{"until": None, "left_out": [], "notes": [], "shares": list(SHARES if timed else (0.0,) * 4)},
    }
    run = Results(root).begin(RunKey("c", variant, "replay", 1))
    run.step(record, statements=rows)
    run.finish(
        circumstances(
            workload_name="replay",
            comparison=comparison_record(OLD, NEW, rounds=ROUNDS),
            base=OLD,
            facts=facts_of(Coverage(**whole)),
        )
    )


def not_replayed(
    root: Path, old: list[ReplayFailureRecord], new: list[ReplayFailureRecord], *, timed: bool = True
) -> list[Gap]:
    store(root, OLD, old, timed)
    store(root, NEW, new, timed)
    results = read_results(root)
    (step,) = results.workloads[0].steps
    of_both = gaps(results, step, judged(results, step))
    return [gap for gap in of_both if gap.what.startswith("Not replayed: ")]


def test_what_fails_everywhere_and_went_well_in_the_log_was_not_replayed(tmp_path: Path) -> None:
    missing = [failure(0, 40, "42P01"), failure(1, 20, "42P01"), failure(2, 40, "25P02")]
    (relations, transactions) = not_replayed(tmp_path, missing, missing)
    assert relations.what == "Not replayed: went well in the log, and fails here everywhere (42P01)"
    assert (relations.count, relations.example) == (15, "no such thing: SELECT 0")
    assert relations.share == pytest.approx(0.5 + 0.3 / 2)
    assert transactions.what.endswith("(25P02)") and transactions.share == pytest.approx(0.15)


def test_what_fails_on_one_side_in_the_log_or_for_the_role_is_no_such_gap(tmp_path: Path) -> None:
    here = [failure(0, 40, "42P01")]
    there = [failure(1, 40, "42P01")]
    both = [
        failure(2, 40, "42703", then="42703"),
        failure(3, 40, "42501", message="must be superuser to do this"),
    ]
    assert not_replayed(tmp_path, [*here, *both], [*there, *both]) == []


def test_without_times_executions_are_counted(tmp_path: Path) -> None:
    missing = [failure(0, 40, "42P01")]
    (gap,) = not_replayed(tmp_path, missing, missing, timed=False)
    assert gap.share == pytest.approx(0.25)


def test_other_roles_are_not_taken_where_one_role_owns_everything() -> None:
    header = Header(
        shapes=[Shape("SET LOCAL ROLE app", calls=5, seconds=0.5), Shape("SELECT $1", calls=5, seconds=1.5)],
        databases=[Database("shop", statements=10)],
        statements=10,
        seconds=2.0,
    )
    (database,) = header.databases
    options = ReplayOptions.model_construct(setup=("dump.sql",))
    covered = coverage_of(header, database, options, Reaching())
    assert covered.told_outside == [0] and covered.outside == []
    assert covered.left_out == [NotAsked(ROLES, 5, 0.25, "SET LOCAL ROLE app")]
    # A running server may have the roles, and with `allow_outside` a superuser executes everything.
    for others, reaching in ((ReplayOptions.model_construct(), Reaching()), (options, None)):
        covered = coverage_of(header, database, others, reaching)
        assert covered.told_outside == [] and covered.left_out == []
