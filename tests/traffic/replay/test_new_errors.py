"""What a new version rejects, told apart from what comes of the order in which sessions met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgstrata.page.results import read_results
from pgstrata.store import Results, RunKey
from pgstrata.store.record import LatenessRecord, ReplayFailureRecord, ReplayRecord, Slice
from pgstrata.traffic.replay.blocks import error_blocks
from pgstrata.traffic.replay.judged import BY_ORDER, Judged, judged
from support.records import circumstances, comparison_record, step_record

OLD, NEW = "13", "17"
STATEMENT = "#1 INSERT INTO t VALUES ($1)"


@dataclass(frozen=True)
class Failed:
    """Errors of one statement on one side: in each round so many, of 10 executions, all with one code."""

    sqlstate: str
    by_round: Sequence[int]
    statement: str = STATEMENT


def store(root: Path, variant: str, failures: Sequence[Failed], rounds: int) -> None:
    run = Results(root).begin(RunKey("c", variant, "replay", 1))
    recorded = tuple(
        ReplayFailureRecord(
            statement=failure.statement,
            then=None,
            now=failure.sqlstate,
            count=sum(failure.by_round),
            message="no",
        )
        for failure in failures
        if any(failure.by_round)
    )
    errors: Mapping[tuple[str, int], int] = {}
    for failure in failures:
        for part, count in enumerate(failure.by_round):
            key = (failure.statement, part)
            errors = {**errors, key: errors.get(key, 0) + count}
    names = dict.fromkeys([STATEMENT, *(failure.statement for failure in failures)])
    rows = [
        {
            "part": part, "statement": name, "calls": 10, "errors": errors.get((name, part), 0), "rows": 0,
            "seconds": 0.1 + part / 1000, "max_seconds": 0.02,
        }
        for name in names
        for part in range(rounds)
    ]  # fmt: skip
    lateness = LatenessRecord(**dict.fromkeys(LatenessRecord.__struct_fields__, 0.0))
    record = step_record(
        "replay",
        slices=tuple(Slice(pair=n, seconds=1.0, rate=100.0) for n in range(1, rounds + 1)),
        replay=ReplayRecord(lateness=lateness, sessions=1, lost=0, unsent=0, failures=recorded),
    )
    run.step(record, statements=rows)
    run.finish(
        circumstances(workload_name="replay", comparison=comparison_record(OLD, NEW, rounds=rounds), base=OLD)
    )


def judged_errors(root: Path, old: Sequence[Failed], new: Sequence[Failed], rounds: int = 4) -> Judged:
    store(root, OLD, old, rounds)
    store(root, NEW, new, rounds)
    results = read_results(root)
    return judged(results, results.workloads[0].steps[0])[NEW]


def test_what_fails_in_every_round_and_never_before_is_new(tmp_path: Path) -> None:
    judged = judged_errors(tmp_path, [], [Failed("42601", (10, 10, 10, 10))])
    (error,) = judged.new_errors
    assert (error.sqlstate, error.count, error.apart) == ("42601", 40, "")
    assert not judged.apart_errors and not judged.gone_errors


@pytest.mark.parametrize("by_round", [(10, 10, 10, 0), (40, 0, 0, 0)])
def test_executions_are_no_rounds(tmp_path: Path, by_round: Sequence[int]) -> None:
    """30 and 40 failures in 4 rounds, none in one of them."""
    judged = judged_errors(tmp_path, [], [Failed("22012", by_round)])
    assert not judged.new_errors
    (error,) = judged.apart_errors
    assert error.apart == f"in {sum(n > 0 for n in by_round)} of 4 rounds only"


@pytest.mark.parametrize("sqlstate", sorted(BY_ORDER))
def test_errors_of_order_are_told_apart_even_in_every_round(tmp_path: Path, sqlstate: str) -> None:
    judged = judged_errors(tmp_path, [], [Failed(sqlstate, (1, 1, 1, 1))])
    assert not judged.new_errors
    (error,) = judged.apart_errors
    assert error.apart == BY_ORDER[sqlstate]


def test_a_statement_behind_an_error_that_both_versions_have_is_not_rejected_by_one(tmp_path: Path) -> None:
    """As 25P02 after a 23503 that came on both, in transactions that met in another order."""
    both = Failed("23503", (1, 1, 1, 1), "#2 INSERT INTO u VALUES ($1)")
    judged = judged_errors(tmp_path, [both], [both, Failed("25P02", (1, 1, 1, 1))])
    assert not judged.new_errors
    assert [error.sqlstate for error in judged.apart_errors] == ["25P02"]


def test_a_statement_that_fails_on_both_in_part_with_another_code_is_told_apart(tmp_path: Path) -> None:
    judged = judged_errors(tmp_path, [Failed("22003", (1, 0, 0, 0))], [Failed("22012", (1, 1, 1, 1))])
    assert not judged.new_errors
    assert "on the other version, too" in judged.apart_errors[0].apart
    # Where nothing of it goes well any more, the version is why.
    always = judged_errors(
        tmp_path / "b", [Failed("22003", (1, 0, 0, 0))], [Failed("42601", (10, 10, 10, 10))]
    )
    assert [error.sqlstate for error in always.new_errors] == ["42601"]


def test_the_same_holds_for_errors_that_are_gone(tmp_path: Path) -> None:
    judged = judged_errors(tmp_path, [Failed("42601", (10,) * 4), Failed("40001", (1,) * 4)], [])
    assert [error.sqlstate for error in judged.gone_errors] == ["42601"]


def test_the_page_says_why_an_error_does_not_count(tmp_path: Path) -> None:
    judged = judged_errors(tmp_path, [], [Failed("25P02", (1, 1, 1, 1))])
    blocks = error_blocks(OLD, {NEW: judged})
    text = repr(blocks)
    assert "17 fails with nothing in every round that 13 does not fail with." in text
    assert BY_ORDER["25P02"] in text and "do not decide the exit code" in text
