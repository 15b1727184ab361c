"""Counting: what callgrind writes, steps with marks, what is left out, and how many operations are
counted."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pgstrata.count.measure.callgrind import CallGraph, mean, own_processes, read_part
from pgstrata.count.measure.count import _length
from pgstrata.count.measure.left_out import timed, untimed
from pgstrata.count.measure.marks import Length, NotCountedError, apart, counted
from pgstrata.count.measure.rows import cycles, file_rows, function_rows, start_row, symbols_of
from pgstrata.count.measure.start import CountedPhase, plan_steps, settings_for
from pgstrata.driver.message import document
from pgstrata.driver.spec import LockstepSpec
from pgstrata.errors import ServerError
from pgstrata.server.config.known import KnownSettings
from pgstrata.server.features import NEWEST
from pgstrata.server.find.model import Server
from pgstrata.workload import catalog
from pgstrata.workload.core.language import (
    FixedRate,
    Headline,
    PgbenchScript,
    Role,
    Script,
    Sleep,
    Sql,
    Step,
)

PART = """# callgrind format
version: 1
events: Ir D1mr

ob=(1) /srv/bin/postgres
fl=(1) ???
fn=(1) exec_simple_query
0 100 2
cfn=(2) ExecutorRun
calls=4 0
0 900 3
cob=(2) /lib/libc.so.6
cfn=(3) memcpy
calls=2 0
0 50 0
cob=(1)
cfn=(4) pgstat_report_stat
calls=9 0
0 110 0

fn=(2)
0 900 3

fn=(4)
0 10 0
cfn=(5) pgstat_flush_io
calls=1 0
0 70 0
cfn=(6) GetCurrentTransactionStopTimestamp
calls=9 0
0 30 0

fn=(5)
0 70 0

fn=(6)
0 30 0

fn=(7) GetXLogBuffer
0 40 0
cfn=(8) AdvanceXLInsertBuffer.isra.0
calls=2 0
0 20 0

fn=(8)
0 20 0

ob=(2)
fn=(3)
0 50 0

totals: 1220 5
"""


def part(path: Path, text: str = PART) -> CallGraph:
    path.write_text(text)
    return read_part(path)


def test_a_part_is_read_with_functions_libraries_and_calls(tmp_path: Path) -> None:
    graph = part(tmp_path / "part")
    server, libc = "/srv/bin/postgres", "/lib/libc.so.6"
    assert graph.totals == [1220, 5]  # what was called is not counted twice
    assert graph.exclusive[server, "ExecutorRun"] == 900
    assert graph.exclusive[libc, "memcpy"] == 50
    assert graph.arcs[(server, "exec_simple_query"), (libc, "memcpy")].calls == 2
    assert graph.inclusive()[server, "exec_simple_query"] == 1160
    assert graph.count("D1mr") == 5


WITH_FILES = """events: Ir
ob=(1) /srv/bin/postgres
fl=(1) /build/postgresql-17.11/src/backend/tcop/postgres.c
fn=(1) exec_simple_query
0 60
fi=(2) /build/postgresql-17.11/src/include/utils/palloc.h
0 30
fe=(1)
0 10
cfi=(3) /build/postgresql-17.11/src/backend/executor/execMain.c
cfn=(2) ExecutorRun
calls=1 0
0 200
cob=(2) /lib/libc.so.6
cfi=(4) ???
cfn=(3) memcpy
calls=1 0
0 50
fl=(3)
fn=(2)
0 200
fl=(5) /home/me/extension/fast.c
fn=(4) fast
0 7
fl=(6) ./contrib/pg_trgm/trgm_op.c
fn=(5) similarity
0 3
ob=(2)
fl=(4)
fn=(3)
0 50
totals: 360
"""


def test_instructions_are_known_by_source_file_and_inlined_code_by_its_own(tmp_path: Path) -> None:
    counted = part(tmp_path / "part", WITH_FILES)
    rows = {row["file"] or row["object"]: row["instructions"] for row in file_rows("query", [counted] * 2)}
    assert rows == {
        "src/backend/executor/execMain.c": 200,
        "src/backend/tcop/postgres.c": 70,
        "/lib/libc.so.6": 50,
        "src/include/utils/palloc.h": 30,
        "fast.c": 7,
        "contrib/pg_trgm/trgm_op.c": 3,
    }
    assert file_rows("query", [part(tmp_path / "other")]) == []  # without debug information


def test_files_make_up_what_is_judged(tmp_path: Path) -> None:
    text = PART.replace("fl=(1) ???", "fl=(1) src/backend/tcop/postgres.c")
    counted = part(tmp_path / "part", text)
    judged = sum(untimed(counted).values())
    assert judged < counted.instructions  # a report of statistics is left out
    assert sum(row["instructions"] for row in file_rows("query", [counted])) == pytest.approx(judged)
    operation = counted.without(part(tmp_path / "mark", text)).per(3)
    assert operation.sources == {}


def test_the_difference_of_two_parts_is_an_operation(tmp_path: Path) -> None:
    whole = part(tmp_path / "part")
    mark = part(
        tmp_path / "mark", "events: Ir D1mr\nob=/srv/bin/postgres\nfn=ExecutorRun\n0 100 1\ntotals: 100 1\n"
    )
    operation = whole.without(mark).per(4)
    assert operation.totals == [280, 1]
    assert operation.exclusive["/srv/bin/postgres", "ExecutorRun"] == 200
    assert mean([operation, operation]).exclusive == operation.exclusive


def test_a_part_that_was_cut_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="is cut"):
        part(tmp_path / "part", PART.partition("totals")[0])


def test_a_part_without_events_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="its list of events is empty"):
        part(tmp_path / "part", "events\ntotals: 0\n")


def test_processes_of_the_server_are_known_by_what_they_never_leave(tmp_path: Path) -> None:
    text = "events: Ir\nob=postgres\nfn=main\n0 7\ncfn=CheckpointerMain\ncalls=1 0\n0 500\ntotals: 507\n"
    assert own_processes(part(tmp_path / "part", text)) == {"checkpointer": 500}
    assert own_processes(part(tmp_path / "other", PART)) == {}


# --- steps with marks -------------------------------------------------------------------------


def step(*roles: Role, **more: object) -> Step:
    return Step("s", list(roles), Headline(roles[0].name, "operations", "queries/s"), **more)  # type: ignore[arg-type]


def test_a_step_of_fixed_duration_gets_a_number_of_operations() -> None:
    role = Role("query", 4, [Script(Sql("SELECT 1"))], rate=FixedRate(10))
    countable = counted(step(role, seconds=60.0, warmup=5.0), Length(10, 100))
    assert countable.step.seconds is None
    assert countable.step.warmup == 0
    spec = document(countable.step.spec())["roles"][0]
    assert (spec["clients"], spec["operations"], spec["rate"]) == (1, 110, None)
    after = spec["scripts"][0]["ops"][1:]
    conditions = [condition for condition, _ in after[1]["if"]]
    assert [c.rpartition("= ")[2] for c in conditions] == ["10", "110"]
    assert [len(ops) for _, ops in after[1]["if"]] == [3, 1]


def test_a_load_is_done_whole_and_its_one_operation_counted_from_the_first_instruction() -> None:
    countable = counted(step(Role("load", 1, [Script(Sql("CREATE INDEX"))], operations=1)), Length(10, 100))
    assert countable.lengths == {"load": Length(0, 1)}
    script = document(countable.step.spec())["roles"][0]["scripts"][0]
    assert len(script["before"][0]["if"][0][1]) == 3  # the marks come before it
    many = counted(step(Role("insert", 1, [Script(Sql("INSERT"))], operations=40)), Length(25, 100))
    assert many.lengths == {"insert": Length(10, 30)}
    assert many.step.roles[0].operations == 40


def test_roles_lose_their_rate_and_take_turns() -> None:
    def role(name: str, rate: FixedRate | None) -> Role:
        return Role(name, 1, [Script(Sql("SELECT 1"))], rate=rate)

    fixed = FixedRate(10)
    roles = [role("query", None), role("insert", fixed), role("delete", fixed)]
    countable = counted(
        step(*roles, seconds=9.0, lockstep=[LockstepSpec(roles=["insert", "delete"], ahead=8)]), Length(1, 9)
    )
    assert countable.step.lockstep == [LockstepSpec(roles=["query", "insert", "delete"], ahead=0)]
    assert {r.operations for r in countable.step.roles} == {10}
    assert not counted(step(role("query", None), seconds=9.0), Length(1, 9)).step.lockstep


def test_a_step_that_needs_several_connections_or_the_clock_is_left_out_with_its_reason() -> None:
    streams = step(Role("query", 3, [Script(Sql("SELECT 1"))], operations=1))
    with pytest.raises(NotCountedError, match="several connections"):
        counted(streams, Length(1, 1))
    sleeper = Role("htap", 1, [Script(Sql("BEGIN"), Sleep("1"), Sql("COMMIT"))])
    countable = counted(step(Role("query", 1, [Script(Sql("SELECT 1"))]), sleeper), Length(1, 1))
    assert set(countable.lengths) == {"query"}
    assert "htap" in countable.left


def test_a_script_of_pgbench_is_marked_in_its_own_language() -> None:
    script = PgbenchScript("SELECT 1;", "mine")
    countable = counted(step(Role("query", 1, [script], prepare="lazy")), Length(5, 20))
    text = document(countable.step.spec())["roles"][0]["scripts"][0]["text"]
    assert text.startswith("SELECT 1;\n\\set")
    assert text.count("SELECT pg_backend_pid();") == 4
    assert "= 25" in text


@pytest.mark.long
def test_every_query_of_tpcds_is_a_step_of_its_own_and_the_streams_are_left_out() -> None:
    workload = catalog.find("tpcds")
    options = workload.Options.model_validate(
        {"scale": 0.01, "queries": "1 42", "streams": 2, "answers": False}
    )
    plan = plan_steps(
        workload.phases(options, NEWEST), lambda name: True, lambda name: Length(1, 5), marks=True
    )
    assert [phase.step.name for phase in plan.steps] == ["power.q01", "power.q42"]
    assert "several streams" in plan.left_out["throughput"]
    assert "copy" in plan.left_out  # the data are loaded, without being counted
    assert "copy" in [p.name for p in plan.phases if isinstance(p, Step)]
    query = document(plan.steps[0].step.spec())["roles"][0]
    assert query["start"][-1]["sql"] == ["SET statement_timeout = 0"]


@pytest.mark.parametrize(
    "name", sorted(set(catalog.names()) - {"custom", "replay"})
)  # they have what their files say
def test_every_workload_has_steps_that_one_client_can_run(name: str) -> None:
    workload = catalog.find(name)
    options = workload.Options.model_validate(dict(catalog.scale(workload, "count")))
    plan = plan_steps(workload.phases(options, NEWEST), lambda n: True, lambda n: Length(1, 5), marks=True)
    assert plan.steps
    assert isinstance(plan.phases[-1], CountedPhase)
    assert apart(plan.steps[0].step) == [plan.steps[0].step]
    if name == "sysbench":
        assert len(plan.steps) == 47


def test_what_comes_behind_the_last_step_that_is_wanted_is_left_out_and_nothing_else() -> None:
    workload = catalog.find("sysbench")
    options = workload.Options.model_validate(dict(catalog.scale(workload, "count")))
    plan = plan_steps(workload.phases(options, NEWEST), lambda n: True, lambda n: Length(1, 5), marks=True)
    names = [phase.step.name for phase in plan.steps]
    part = plan.until("update-index")
    assert [phase.step.name for phase in part.steps] == names[: names.index("update-index") + 1]
    assert part.phases == plan.phases[: len(part.phases)]
    assert plan.until(None) is plan and plan.until(names[-1]).phases == plan.phases


def test_the_number_of_operations_is_round_and_the_same_for_about_the_same_cost() -> None:
    def of(instructions: float) -> Length:
        return _length({"query": CallGraph(totals=[instructions])})

    assert of(43_000) == of(46_000) == Length(50, 200)
    assert of(1e8) == Length(3, 5)
    assert of(1e9) == Length(1, 1)
    assert of(10) == Length(250, 1000)


# --- what is stored ---------------------------------------------------------------------------


def test_a_row_says_simulated_where_it_was(tmp_path: Path) -> None:
    graph = part(tmp_path / "part")
    row = start_row("query", 1, 4, graph, timed(graph))
    assert (row["instructions"], row["timed_instructions"]) == (1130, 90)  # a report, and a page of WAL
    assert row["simulated_l1_misses"] == 5
    assert row["simulated_cycles"] == cycles(1220, 5, 0, 0) == 1270
    assert "simulated_cycles" not in start_row("query", 1, 4, CallGraph(), 0.0)
    instructions = {r["function"]: r["instructions"] for r in function_rows("query", [graph])}
    assert instructions["ExecutorRun"] == 900 and instructions["memcpy"] == 50
    assert instructions["AdvanceXLInsertBuffer.isra.0"] == 0, "told apart, so it accounts for no difference"


def test_settings_while_counting_are_those_the_version_has() -> None:
    assert settings_for(KnownSettings(170_000), {})["jit"] == "off"
    assert "jit" not in settings_for(KnownSettings(90_600), {})
    assert "max_parallel_workers_per_gather" not in settings_for(KnownSettings(90_000), {})
    assert settings_for(KnownSettings(80_400), {})["checkpoint_segments"]
    assert settings_for(KnownSettings(80_100), {})["checkpoint_timeout"] == "3600"  # it knows no units


def test_more_buffers_than_a_server_under_valgrind_can_look_at_are_bounded() -> None:
    assert settings_for(KnownSettings(170_000), {"shared_buffers": "6026MB"})["shared_buffers"] == "1GB"
    assert "shared_buffers" not in settings_for(KnownSettings(170_000), {"shared_buffers": "512MB"})
    assert "shared_buffers" not in settings_for(KnownSettings(170_000), {})
    assert settings_for(KnownSettings(80_100), {"shared_buffers": "2GB"})["shared_buffers"] == "131072"


def test_a_stripped_binary_has_only_names_of_what_it_exports(pg17: Server, tmp_path: Path) -> None:
    assert pg17.bin_dir is not None
    assert symbols_of(pg17.bin_dir) == "all"
    strip = shutil.which("strip")
    if strip is None:
        pytest.skip("no strip")
    subprocess.run([strip, "-o", tmp_path / "postgres", pg17.bin_dir / "postgres"], check=True)
    assert symbols_of(tmp_path) == "exported"
    assert symbols_of(tmp_path / "none") == "none"
