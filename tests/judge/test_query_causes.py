"""What the turns of three say of a query's cause, and which of several remedies is named."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec import structs

from pgstrata.judge.compare import compare_all
from pgstrata.judge.plan_detail import detail, differences
from pgstrata.judge.plan_times import (
    executed_estimates,
    moved,
    node_times,
    spilled_kilobytes,
    wrong_estimates,
)
from pgstrata.judge.query_causes import QueryCause, best_trial, judge_cause, look
from pgstrata.judge.single_queries import PhaseTimes
from pgstrata.page.blocks import Cell
from pgstrata.report.sections.query_causes import Explained, remedies_as_sql
from pgstrata.stats.criterion import Criterion
from pgstrata.store import Run
from pgstrata.store.choose import Side
from pgstrata.store.record import (
    QueryCauseRecord,
    QueryPairs,
    QueryTurns,
    RemedyKind,
    RemedyTrial,
    Slice,
    TrialTurns,
)
from support.records import comparison_record, step_record, stored_run

DIFFER = (("Index Scan by i on t", "Seq Scan on t"),)
FORCED = ("SET LOCAL enable_seqscan = off",)


def turns(seconds: float, pairs: int = 20, seed: int = 1, scatter: float = 0.003) -> tuple[Slice, ...]:
    """Turns of a query that takes so long, give or take 0.3 %."""
    dice = random.Random(seed)
    times = [seconds * dice.lognormvariate(0, scatter) for _ in range(pairs)]
    return tuple(Slice(pair=n, seconds=time, rate=1 / time) for n, time in enumerate(times, 1))


def cause(base: float, new: float, forced: float, /, **more: Any) -> QueryCause:
    planning_ms: tuple[float, float] | None = more.pop("planning_ms", None)
    options: dict[str, Any] = {
        "name": "q",
        "differences": DIFFER,
        "old_plan": FORCED,
        "asked": 7,
        "base": turns(base, seed=1),
        "new": turns(new, seed=2),
        "forced": turns(forced, seed=3),
    }
    record = QueryCauseRecord(**(options | more))
    planning = (
        None if planning_ms is None else PhaseTimes(planning_ms[0] / 1e3, planning_ms[1] / 1e3, "unclear")
    )
    verdict = look(turns(base, seed=4), turns(new, seed=5), 1.0, Criterion())
    return judge_cause(record, ("pg13", "pg17"), verdict, 1.0, Criterion(), base, planning)


def test_the_planner_where_the_old_plan_is_as_fast_as_before() -> None:
    query_cause = cause(0.1, 0.31, 0.1)
    assert query_cause.word == "planner"
    assert query_cause.sentence.startswith(
        "the planner: with the plan of pg13 (SET LOCAL enable_seqscan = off) pg17 is the same as pg13, "
    )
    assert ", with its own plan 3.1" in query_cause.sentence


def test_the_executor_where_the_old_plan_is_no_faster() -> None:
    query_cause = cause(0.1, 0.2, 0.2)
    assert query_cause.word == "executor"
    assert query_cause.sentence.startswith("the executor, though the plan differs: with the plan of pg13")


def test_both_where_each_has_a_part() -> None:
    assert cause(0.1, 0.4, 0.2).word == "both"


def test_not_known_where_the_turns_do_not_tell() -> None:
    few = {"base": turns(0.1, 2, seed=1), "forced": turns(0.15, 2, seed=2), "new": turns(0.2, 2, seed=3)}
    query_cause = cause(0.1, 0.2, 0.15, **few)
    assert query_cause.word == "unknown" and query_cause.sentence.startswith(
        "not known: with the plan of pg13"
    )


def test_a_part_where_the_rest_is_not_known() -> None:
    """The new plan is much slower than the old one; the base differs too much between its turns."""
    wild = {"base": turns(0.1, 8, seed=1, scatter=0.7), "forced": turns(0.1, 8, seed=2)}
    query_cause = cause(0.1, 0.4, 0.1, **wild, new=turns(0.4, 8, seed=3))
    assert query_cause.word == "partly planner"
    assert query_cause.sentence.startswith("the planner, at least in part: ")


def test_a_remedy_with_the_old_plan_tells_more_of_the_planners_part() -> None:
    few = {"base": turns(0.1, 3, seed=1, scatter=0.2), "forced": turns(0.1, 3, seed=2, scatter=0.2)}
    few["new"] = turns(0.14, 3, seed=3, scatter=0.2)
    assert cause(0.1, 0.14, 0.1, **few).word == "unknown"
    assert cause(0.1, 0.14, 0.1, **few, remedies=(trial("setting", 0.14, 0.1),)).word == "unknown"
    longer = trial("setting", 0.14, 0.1, plan_is_old=True)
    assert cause(0.1, 0.14, 0.1, **few, remedies=(longer,)).word == "partly planner"


def disturbed(seconds: float, pairs: int = 20, seed: int = 1) -> tuple[Slice, ...]:
    """Turns beside other programs: an execution needs so much CPU, and waits for up to as long again."""
    dice = random.Random(seed)
    clocks = [seconds * dice.uniform(1.1, 2.0) for _ in range(pairs)]
    return tuple(
        Slice(pair=n, seconds=clock, rate=1 / clock, cpu_seconds=seconds, other_load=0.9)
        for n, clock in enumerate(clocks, 1)
    )


def judged_beside(base: float, new: float, forced: float) -> QueryCause:
    record = QueryCauseRecord(
        name="q",
        differences=DIFFER,
        old_plan=FORCED,
        base=disturbed(base, seed=1),
        new=disturbed(new, seed=2),
        forced=disturbed(forced, seed=3),
    )
    verdict = look(record.base, record.new, 0.25, Criterion())
    return judge_cause(record, ("pg13", "pg17"), verdict, 0.25, Criterion(), base)


def test_large_factors_have_their_cause_beside_other_programs() -> None:
    cause = judged_beside(0.001, 0.3, 0.001)
    assert cause.word == "planner"
    assert cause.sentence.endswith("(by CPU time: others used the CPUs in 20 of 20 pairs)")
    assert judged_beside(0.001, 0.3, 0.3).word == "executor"
    assert judged_beside(0.001, 0.1, 0.012).word == "both"
    assert judged_beside(0.001, 0.012, 0.001).word == "partly planner", "waits may hide an executor's part"
    assert judged_beside(0.001, 0.002, 0.001).word == "unknown"


def test_a_remedy_is_proven_beside_other_programs() -> None:
    helps = TrialTurns(name="q", without=disturbed(0.3, seed=2), with_it=disturbed(0.001, seed=4))
    nothing = TrialTurns(name="q", without=disturbed(0.3, seed=2), with_it=disturbed(0.29, seed=5))
    trials = [
        RemedyTrial(kind="analyze", sql=("ANALYZE t",), turns=nothing),
        RemedyTrial(kind="index", sql=("CREATE INDEX i ON t (a)",), turns=helps),
    ]
    assert best_trial(trials, 0.25, Criterion()) is trials[1]
    assert best_trial(trials[:1], 0.25, Criterion()) is None


def test_disturbed_turns_without_cpu_times_prove_nothing() -> None:
    base, other = (
        tuple(structs.replace(part, cpu_seconds=None) for part in disturbed(seconds, seed=seed))
        for seed, seconds in enumerate((0.001, 0.3))
    )
    verdict = look(base, other, 0.25, Criterion())
    assert (verdict.word, verdict.aside, verdict.is_bounded) == ("unclear", True, False)


def test_the_planner_of_a_query_that_became_faster() -> None:
    assert cause(0.31, 0.1, 0.31).word == "planner"


def test_a_missing_index_is_called_that() -> None:
    query_cause = cause(0.1, 1.0, 0.1, old_plan=("CREATE INDEX i ON t (a)",))
    assert query_cause.word == "schema"
    assert query_cause.sentence.startswith("the plan, for want of an index: ")


def test_the_same_plan_is_the_executors() -> None:
    query_cause = cause(0.1, 0.131, 0.1, differences=(), old_plan=(), base=(), new=(), forced=())
    assert query_cause.word == "executor"
    assert query_cause.sentence.startswith("the executor: the same plan takes 1.31 (1.")
    assert query_cause.sentence.endswith(") times as long on pg17 as on pg13")


def test_the_time_to_plan_is_no_executors() -> None:
    same: dict[str, Any] = {"differences": (), "old_plan": (), "base": (), "new": (), "forced": ()}
    query_cause = cause(0.001, 0.002, 0.001, **same, planning_ms=(0.2, 1.15))
    assert query_cause.word == "planning"
    assert query_cause.sentence.startswith("the time to plan it: the same plan takes 2.00 (")
    assert query_cause.sentence.endswith("; to plan it takes 0.200 ms on pg13, 1.15 ms on pg17")
    assert cause(0.001, 0.002, 0.001, **same, planning_ms=(0.2, 0.7)).word == "executor and planning"
    assert cause(0.001, 0.002, 0.001, **same, planning_ms=(0.2, 0.25)).word == "executor"
    # On a busy machine turns take longer, and the protocol does not tell phases apart.
    explained = {"planning_seconds": (0.0002, 0.0012), "execution_seconds": (0.0003, 0.0004)}
    assert cause(0.001, 0.004, 0.001, **same, **explained).word == "planning"
    both = cause(0.001, 0.002, 0.001, **same, planning_ms=(0.2, 0.25), **explained)
    assert both.word == "executor", "the protocol tells it of the very turns"


def test_statistics_that_bring_the_old_plan_are_the_planners() -> None:
    query_cause = cause(0.1, 1.0, 0.1, old_plan=('CREATE STATISTICS "t_a_b" ON a, b FROM t', "ANALYZE t"))
    assert (
        query_cause.word == "planner"
        and "ON a, b FROM t; ANALYZE t) pg17 is the same" in query_cause.sentence
    )


def test_no_setting_brings_the_old_plan() -> None:
    query_cause = cause(0.1, 0.2, 0.1, old_plan=(), base=(), new=(), forced=(), asked=412)
    assert query_cause.word == "unknown"
    assert query_cause.sentence == (
        "not known: the plan differs (Index Scan by i on t → Seq Scan on t), and nothing tried brings "
        "the plan of pg13 (412 plans asked for)"
    )


def test_a_variant_that_runs_into_its_limit_with_its_own_plan() -> None:
    limited = QueryTurns(name="q", end="limited")
    ended = QueryTurns(name="q", seconds=0.1)
    record = QueryCauseRecord(
        name="q", differences=DIFFER, old_plan=FORCED, base=turns(0.1), forced=turns(0.11, seed=2)
    )

    def run(variant: str, query: QueryTurns, **more: Any) -> Run:
        pairs = QueryPairs(queries=(query,), seconds=1.0, budget_seconds=1.0, limit_seconds=60.0)
        step = step_record("queries", rate_unit="queries/s", query_pairs=pairs, **more)
        return stored_run(variant, 1, step, comparison=comparison_record("old", "new", until="verdict"))

    sides = Side("old", (run("old", ended),)), Side("new", (run("new", limited, query_causes=(record,)),))
    (comparison,) = compare_all(sides[0], [sides[1]])
    (query,) = comparison.steps[0].queries
    assert query.verdict.word == "slower" and query.cause is not None
    assert query.cause.word == "planner"
    assert query.cause.sentence.endswith("with its own plan it runs into its limit")
    assert query.record()["cause"]["word"] == "planner"


# --- remedies ---------------------------------------------------------------------------------


def trial(kind: RemedyKind, without: float, with_it: float, **more: Any) -> RemedyTrial:
    both = TrialTurns(name="q", without=turns(without, seed=6), with_it=turns(with_it, seed=7))
    return RemedyTrial(kind=kind, sql=(f"{kind} it",), turns=both, **more)


def test_the_simplest_of_the_best_remedies_is_named() -> None:
    trials = (trial("index", 1.0, 0.5), trial("setting", 1.0, 0.1), trial("analyze", 1.0, 0.105))
    query_cause = cause(0.1, 1.0, 0.1, remedies=trials)
    assert query_cause.remedy is not None and query_cause.remedy.kind == "analyze"
    assert query_cause.advice.startswith("analyze it: the query takes 0.105 (0.10")
    assert best_trial(trials, 1.0, Criterion()) is trials[2]


def test_what_is_not_proven_is_no_remedy() -> None:
    trials = (trial("index", 1.0, 1.0), trial("analyze", 1.0, 1.4))
    query_cause = cause(0.1, 1.0, 0.1, remedies=trials)
    assert query_cause.remedy is None and best_trial(trials, 1.0, Criterion()) is None
    assert query_cause.advice == "nothing proven (2 remedies tried)"
    assert best_trial((), 1.0, Criterion()) is None


def test_a_remedy_among_many_needs_stronger_proof() -> None:
    index_trial = trial("index", 1.0, 0.7)
    few = TrialTurns(name="q", without=index_trial.turns.without[:3], with_it=index_trial.turns.with_it[:3])
    weak = RemedyTrial(kind="index", sql=("a",), turns=few)
    others = [
        RemedyTrial(kind="analyze", sql=(str(n),), turns=trial("analyze", 1, 1).turns) for n in range(40)
    ]
    alone = look(few.without, few.with_it, 1.0, Criterion())
    among = look(few.without, few.with_it, 1.0, Criterion(), 41)
    assert among.high > alone.high and among.low < alone.low
    assert best_trial((weak, *others), 1.0, Criterion()) in (weak, None)


def test_a_query_written_in_another_way_is_named_on_one_line() -> None:
    text = "WITH x AS MATERIALIZED (\n  SELECT 1 -- why\n) SELECT * FROM x"
    how = ("WITH x AS MATERIALIZED (…)", "SET LOCAL jit = off")
    both = trial("rewrite", 1.0, 0.1).turns
    remedy = RemedyTrial(kind="rewrite", sql=("SET LOCAL jit = off", text), turns=both, plan_is_old=True)
    query_cause = cause(0.1, 1.0, 0.1, old_plan=how, remedies=(remedy,))
    assert (
        query_cause.word == "planner"
        and "(WITH x AS MATERIALIZED (…); SET LOCAL jit = off)" in query_cause.sentence
    )
    assert query_cause.advice.startswith(
        "SET LOCAL jit = off; WITH x AS MATERIALIZED ( SELECT 1 ) SELECT * FROM x: the query takes 0.0"
    )
    assert query_cause.advice.endswith("; other queries: none sees it")
    lines = remedies_as_sql(
        [Explained("pg12", "q", "slower", Cell(None, ""), 0.95, query_cause)]
    ).splitlines()
    assert lines[0] == "-- q on pg12, instead of the query"
    assert lines[1:] == ["SET LOCAL jit = off;", *f"{text};".splitlines()]


def test_a_setting_comes_before_another_text() -> None:
    trials = (trial("rewrite", 1.0, 0.1), trial("setting", 1.0, 0.1))
    assert best_trial(trials, 1.0, Criterion()) is trials[1]


def test_its_effect_on_other_queries_is_told() -> None:
    effects = (
        TrialTurns(name="a", without=turns(1.0), with_it=turns(1.3, seed=2)),
        TrialTurns(name="b", without=turns(1.0), with_it=turns(1.0, seed=2)),
    )
    query_cause = cause(0.1, 1.0, 0.1, remedies=(trial("index", 1.0, 0.1, others=effects),))
    assert "; other queries: 1 slower (a 1.3" in query_cause.advice and ", 1 the same" in query_cause.advice
    setting = cause(0.1, 1.0, 0.1, remedies=(trial("setting", 1.0, 0.1),))
    assert setting.advice.endswith("; other queries: none sees it")


def test_a_remedy_for_what_ran_into_its_limit() -> None:
    both = TrialTurns(name="q", with_it=turns(1.0, 3))
    ends = RemedyTrial(kind="analyze", sql=("ANALYZE t",), turns=both, limit_without=60.0)
    query_cause = cause(0.1, 1.0, 0.1, remedies=(ends,))
    assert query_cause.remedy is not None and query_cause.remedy.at_most
    assert "of its time at most" in query_cause.advice
    never = RemedyTrial(kind="analyze", sql=("x",), turns=TrialTurns(name="q"), limit_without=60.0)
    assert cause(0.1, 1.0, 0.1, remedies=(never,)).remedy is None


def test_faster_queries_need_no_remedy() -> None:
    assert cause(0.31, 0.1, 0.31).advice == ""


# --- plans ------------------------------------------------------------------------------------


def node(kind: str, *below: dict[str, Any], **keys: Any) -> dict[str, Any]:
    names = {key.replace("_", " "): value for key, value in keys.items()}
    return {"Node Type": kind, **names, **({"Plans": list(below)} if below else {})}


def plan(root: dict[str, Any], **top: Any) -> list[dict[str, Any]]:
    return [{"Plan": root, **{key.replace("_", " "): value for key, value in top.items()}}]


@pytest.mark.parametrize(
    ("keys", "other"),
    [
        ({"Index_Cond": "(t.a = 1)"}, {"Index_Cond": "((t.a = 1) AND (t.b = 2))"}),
        ({"Sort_Key": ["t.a"]}, {"Sort_Key": ["t.a DESC"]}),
        ({"Cache_Key": "t.a"}, {"Cache_Key": "t.b"}),
        ({"Workers_Planned": 1}, {"Workers_Planned": 2}),
        ({"Run_Condition": "(x <= 1)"}, {}),
        ({"Parallel_Aware": True}, {"Parallel_Aware": False}),
    ],
)
def test_conditions_keys_and_workers_are_part_of_a_plan(keys: Any, other: Any) -> None:
    assert detail(plan(node("X", **keys))) != detail(plan(node("X", **other)))


def test_what_versions_write_otherwise_is_the_same() -> None:
    ours = node(
        "Index Scan", Index_Cond="((t.b = $0) AND (t.a = 1))", Total_Cost=1.0, Filter="(x)", Alias="t"
    )
    theirs = node(
        "Index Scan", Index_Cond="((t.a = 1) AND (t.b = (InitPlan 1).col1))", Total_Cost=9.0, Alias="t"
    )
    assert detail(plan(ours)) == detail(plan(theirs))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(id IS NOT NULL)", None),
        ("((t.a = 1) AND (t.id IS NOT NULL))", "(t.a = 1)"),
        ("((a = 1) AND (id IS NOT NULL) AND (b < 2))", "((a = 1) AND (b < 2))"),
    ],
)
def test_a_condition_that_a_newer_planner_leaves_off_is_no_other_plan(old: str, new: str | None) -> None:
    """max(id) of a NOT NULL column: up to 16 the index has a condition, which is true for all rows."""
    theirs = {} if new is None else {"Index_Cond": new}
    assert detail(plan(node("Index Scan", Index_Cond=old))) == detail(plan(node("Index Scan", **theirs)))
    of_subquery = plan(node("Result", **{"One-Time Filter": "($0 IS NOT NULL)"}))
    assert detail(of_subquery) != detail(plan(node("Result")))


def test_compilation_is_part_of_a_plan() -> None:
    quiet, compiled = plan(node("X")), plan(node("X"), JIT={"Functions": 3, "Options": {"Inlining": True}})
    assert detail(quiet) == ("X",) and detail(compiled) == ("X", "JIT Inlining")
    assert differences(detail(quiet), detail(compiled)) == [("", "JIT Inlining")]
    assert detail("no plan") == () == detail([])


def test_the_own_time_of_a_node() -> None:
    scan = node("Seq Scan", Relation_Name="t", Actual_Total_Time=30.0, Actual_Loops=3, Shared_Hit_Blocks=70)
    gather = node(
        "Gather", scan, Actual_Total_Time=40.0, Actual_Loops=1, Workers_Launched=2, Shared_Hit_Blocks=70
    )
    times = node_times(plan(gather, Planning_Time=1.5))
    assert [(n.title, n.milliseconds, n.buffers) for n in times] == [
        ("Gather", pytest.approx(10.0), 0),
        ("Seq Scan on t", pytest.approx(30.0), 70),
        ("Planning", 1.5, 0),
    ]


def test_nodes_that_moved_come_with_both_times() -> None:
    def executed(sort: float, scan: float) -> Any:
        below = node("Seq Scan", Relation_Name="t", Actual_Total_Time=scan, Actual_Loops=1)
        return plan(node("Sort", below, Actual_Total_Time=sort + scan, Actual_Loops=1))

    ((ours, theirs),) = moved(executed(10, 20), executed(60, 20))
    assert ours is not None and theirs is not None
    assert (theirs.title, ours.milliseconds, theirs.milliseconds) == ("Sort", 10, 60)
    assert moved(executed(10, 20), executed(10, 20)) == []


def test_wrong_estimates_name_their_columns() -> None:
    scan = node(
        "Seq Scan", Relation_Name="t", Schema="public", Alias="t",
        Filter="((t.a = 1) AND (t.b = 'x.y'::text))", Plan_Rows=1, Actual_Rows=600, Actual_Loops=1,
    )  # fmt: skip
    (wrong,) = wrong_estimates(plan(scan))
    assert (wrong.relation, wrong.columns, wrong.factor) == (("public", "t"), ("t.a", "t.b"), 600)
    right = {**scan, "Plan Rows": 500}
    assert wrong_estimates(plan(right)) == []
    assert wrong_estimates(plan(node("Limit", scan))) == [], "a Limit ends it early"


def test_an_early_end_spoils_what_streams_and_not_what_is_read_whole() -> None:
    def executed(kind: str, *below: Any, **more: Any) -> Any:
        return node(kind, *below, Plan_Rows=9, Actual_Rows=5, Actual_Loops=1, **more)

    def titles(root: Any) -> list[str]:
        return [estimate.title for estimate in executed_estimates(plan(root))]

    scan = executed("Seq Scan")
    assert titles(executed("Limit", scan)) == ["Limit"]
    assert titles(executed("Limit", executed("Sort", scan))) == ["Limit", "Seq Scan"]
    assert titles(executed("Limit", executed("Aggregate", scan, Strategy="Hashed"))) == ["Limit", "Seq Scan"]
    assert titles(executed("Limit", executed("Aggregate", scan, Strategy="Sorted"))) == ["Limit"]
    assert titles(executed("Merge Join", executed("Sort", scan), executed("Index Scan"))) == [
        "Merge Join",
        "Seq Scan",
    ]
    empty = node("Hash", Plan_Rows=9, Actual_Rows=0, Actual_Loops=1)
    assert titles(executed("Hash Join", scan, empty)) == ["Hash Join", "Hash"]
    assert titles(executed("Hash Join", scan, executed("Hash"))) == ["Hash Join", "Seq Scan", "Hash"]
    assert titles(executed("Nested Loop", scan, executed("Index Scan"), Join_Type="Semi")) == [
        "Nested Loop Semi",
        "Seq Scan",
    ]


def test_memory_that_a_sort_or_hash_lacked() -> None:
    assert spilled_kilobytes(plan(node("Sort", Sort_Space_Type="Disk", Sort_Space_Used=1000))) == 3000
    assert spilled_kilobytes(plan(node("Hash", Hash_Batches=4, Peak_Memory_Usage=1000))) == 8000
    assert spilled_kilobytes(plan(node("Sort", Sort_Space_Type="Memory", Sort_Space_Used=1000))) == 0
