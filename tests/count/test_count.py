"""`pgstrata count` on real servers: what is counted, stored, compared and asked; and what goes wrong."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pgstrata.count.measure.engine import drive
from pgstrata.count.measure.marks import Length, counted
from pgstrata.count.measure.perf import PAGE_FAULTS, PerfEngine, counters_missing
from pgstrata.measure.step import driver_spec
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import resolve
from pgstrata.server.find.model import Server
from pgstrata.source.build import BuiltServer
from pgstrata.workload.core.language import Headline, Role, Script, Sql, Step, Uniform
from support.built import QUICK
from support.page import PageReader
from support.program import Program, Running, living_in

needs_valgrind = pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")

SMALL = ("--workload", "pgbench", "--set", 'builtin=["select-only"]', "--set", 'modes=["prepared"]')
QUICK_COUNT = ("--starts", "2", "--most-starts", "2", "--engine", "valgrind")


@needs_valgrind
def test_a_longer_code_path_is_counted_named_stored_and_asked_for(
    pgstrata: Program, place: Path, pg17: Server
) -> None:
    # the same binaries; the second one writes a line of the log for each statement
    (place / "talk.conf").write_text("log_min_duration_statement = 0\n")
    (place / "mine.toml").write_text(
        '[[variants]]\nserver = "pg:17"\nlabel = "quiet"\n'
        '[[variants]]\nserver = "pg:17"\nconfig = ["default", "talk.conf"]\nlabel = "talk"\n'
        '[[workloads]]\nname = "pgbench"\nscale = "count"\n'
        'options = { builtin = ["select-only"], modes = ["prepared"] }\n'
    )
    done = pgstrata("count", "mine.toml", *QUICK_COUNT, "--callers", "errstart")
    assert done.returncode == 0, done.stderr
    assert "select-only-prepared-c1" in done.stdout
    assert "more" in done.stdout
    assert "dopr" in done.stdout, done.stdout  # which puts the line together
    assert "callers of errstart" in done.stdout
    written = PageReader(place / "results/mine.report/index.html")
    assert f"report: {place / 'results/mine.report/index.html'}" in done.stdout
    assert "talk: more instructions at 1 of 1 step against quiet." in " ".join(written.all_text.split())

    run = json.loads(next(place.glob("results/mine/*/pgbench.counted/1-*/run.json")).read_text())
    assert run["steps"] == []  # no rate
    step = run["counted"]["steps"][0]
    assert len(step["roles"]["query"]["instructions"]) == 2
    low, high = sorted(step["roles"]["query"]["instructions"])
    assert high / low < 1.003
    assert run["counted"]["settings"]["jit"] == "off"
    assert "checkpointer" in run["counted"]["processes"]

    json_ = pgstrata("compare", "quiet", "talk", "--by", "instructions", "--format", "json")
    verdict = json.loads(json_.stdout)[0]["steps"][0]
    assert verdict["word"] == "more"
    assert verdict["low"] > 1.002

    check = pgstrata("check", "--base", "quiet", "--fail-slower", "0.5%", "--by", "instructions")
    assert check.returncode == 1, check.stderr
    assert "more instructions" in check.stderr
    timed = pgstrata("check", "--base", "quiet", "--fail-slower", "3%")
    assert timed.returncode == 2  # a count says nothing about time
    asked = pgstrata(
        "query", "select count(*) n from functions where function = 'ExecutorRun'", "--format", "csv"
    )
    assert asked.stdout.split()[-1] == "2"
    study = pgstrata("study", "show", "--by", "instructions")
    assert "talk against quiet" in study.stdout, study.stderr
    report = pgstrata("report", "results")
    assert report.returncode == 0, report.stderr
    (variants,) = place.glob("results/mine.report/**/variants.csv")
    finished = {row["variant"]: row["runs"] for row in csv.DictReader(variants.open())}
    assert set(finished.values()) == {"1"}, finished
    page = (place / "results/mine.report/index.html").read_text()
    assert "Instructions per operation" in page
    assert "transactions/s" not in page  # no page mixes counts and rates
    again = pgstrata("count", "mine.toml", *QUICK_COUNT)
    assert "counted already" in again.stderr
    other = pgstrata("count", "mine.toml", *QUICK_COUNT, "--step", "no-such")
    assert other.returncode == 2
    assert "select-only-prepared-c1" in other.stderr
    assert living_in(place) == []


PLANTED = "\n".join(
    (
        "--- a/src/backend/utils/activity/pgstat.c",
        "+++ b/src/backend/utils/activity/pgstat.c",
        "@@ -592,6 +592,9 @@",
        " \tpgstat_assert_is_up();",
        " \tAssert(!IsTransactionOrTransactionBlock());",
        " ",
        "+\tfor (int turn = 0; turn < 1000; turn++)",
        '+\t\t__asm__ volatile("" : "+r" (turn));',
        "+",
        ' \t/* "absorb" the forced flush even if there\'s nothing to flush */',
        " \tif (pgStatForceNextFlush)",
        " \t{",
        "",
    )
)
"""An empty loop where a backend looks after each transaction whether to report its statistics."""


@needs_valgrind
def test_a_loop_where_statistics_are_reported_is_more_and_is_named(
    pgstrata: Program, place: Path, pg17_built: BuiltServer, built_variant: str
) -> None:
    (place / "planted.patch").write_text(PLANTED)
    # The server that other tests share, and it with the patch: the cache of the compiler has its other files.
    planted = built_variant.replace("quick", "planted").replace('label = "built"', 'label = "planted"')
    planted = planted.replace(f'cflags = "{QUICK}"', f'cflags = "{QUICK}"\npatches = ["planted.patch"]')
    (place / "mine.toml").write_text(
        built_variant + planted + '[[workloads]]\nname = "pgbench"\nscale = "count"\n'
        'options = { builtin = ["select-only"], modes = ["prepared"] }\n'
    )
    done = pgstrata("count", "mine.toml", *QUICK_COUNT, "--format", "json")
    assert done.returncode == 0, done.stderr
    (verdict,) = json.loads(done.stdout)[0]["steps"]
    assert verdict["word"] == "more", verdict
    # four or five instructions for each of 1,000 turns without optimization
    assert 3900 < verdict["other"] - verdict["base"] < 7200
    shares = verdict["left_out"]
    assert shares["base"] < 0.02 and shares["other"] < 0.02
    again = pgstrata("count", "mine.toml", *QUICK_COUNT).stdout
    assert "pgstat_report_stat" in again
    assert "by source file: src/backend/utils/activity/pgstat.c +" in again
    page = PageReader(place / "results/mine.report/index.html")
    assert "src/backend/utils/activity/pgstat.c" in page.all_text


@needs_valgrind
def test_a_campaign_counts_beside_its_timed_runs(pgstrata: Program, place: Path, pg17: Server) -> None:
    (place / "mine.toml").write_text(
        'count = { engine = "valgrind", starts = 2, most_starts = 2 }\n'
        '[[variants]]\nserver = "pg:17"\nlabel = "a"\n'
        '[[variants]]\nserver = "pg:17"\nconfig = ["default", "a17"]\nlabel = "b"\n'
        '[[workloads]]\nname = "pgbench"\nscale = "count"\n'
        'options = { builtin = ["select-only"], modes = ["prepared"], seconds = 0.5, warmup = 0 }\n'
    )
    done = pgstrata("run", "mine.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    kinds = {path.parent.parent.name for path in place.glob("results/mine/[ab]/*/1-*/run.json")}
    assert kinds == {"pgbench", "pgbench.counted"}
    page = (place / "results/mine.report/index.html").read_text()
    assert "Instructions per operation" in page
    again = pgstrata("run", "mine.toml", "--no-report")
    assert again.returncode == 0
    assert len(list(place.glob("results/mine/*/*/1-*/run.json"))) == 4, "nothing is counted twice"


@needs_valgrind
def test_a_query_that_the_server_rejects_is_left_out_and_the_others_are_counted(
    pgstrata: Program, place: Path
) -> None:
    (place / "queries").mkdir()
    (place / "queries" / "good.sql").write_text("SELECT count(*) FROM pg_class")
    (place / "queries" / "bad.sql").write_text("SELECT * FROM nowhere")
    (place / "mine.toml").write_text(
        'servers = ["pg:17"]\n[[workloads]]\nname = "custom"\n[workloads.options]\nqueries = "queries"\n'
    )
    done = pgstrata("count", "mine.toml", *QUICK_COUNT)
    assert done.returncode == 0, done.stderr
    (file,) = place.glob("results/*/*/*/1-*/run.json")
    counted = json.loads(file.read_text())["counted"]
    assert [step["name"] for step in counted["steps"]] == ["queries.good"]
    assert 'relation "nowhere" does not exist' in counted["left_out"]["queries.bad"]


@needs_valgrind
@pytest.mark.slow
def test_a_server_counted_against_itself_is_the_same(pgstrata: Program) -> None:
    done = pgstrata(
        "noise", "--server", "pg:17", "--rows", "1000", "--by", "instructions", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["word"] == "same"
    assert verdict["start_spread"] < 0.0003  # as the documentation says of steps that read


def test_without_valgrind_and_counters_it_says_what_to_install(pgstrata: Program) -> None:
    done = pgstrata("count", "--server", "pg:17", "--engine", "valgrind", PATH="/nonexistent")
    assert done.returncode == 2
    assert "install valgrind" in done.stderr
    if counters_missing():
        perf = pgstrata("count", "--server", "pg:17", "--engine", "perf")
        assert perf.returncode == 2
        assert "counter" in perf.stderr


def test_a_step_that_is_not_there_is_refused_with_those_that_are(pgstrata: Program) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    done = pgstrata("count", "--server", "pg:17", "--step", "no-such")
    assert done.returncode == 2
    assert "point-query" in done.stderr
    done = pgstrata("count", "--server", "pg:17", "--step", "pont-query")
    assert "no step pont-query" in done.stderr and "did you mean `point-query`?" in done.stderr


def test_a_server_that_does_not_start_under_valgrind_is_unclear(pgstrata: Program, place: Path) -> None:
    # a valgrind that breaks down, as one does on instructions it does not know
    program = place / "bin" / "valgrind"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\n[ "$2" = --version ] && echo valgrind-3.0.0 && exit\necho "unhandled" >&2; exit 1\n'
    )
    program.chmod(0o755)
    done = pgstrata(
        "count",
        "--server",
        "pg:17",
        "--server",
        "pg:12",
        *SMALL,
        *QUICK_COUNT,
        PATH=f"{program.parent}:/usr/bin:/bin",
    )
    assert done.returncode == 1
    assert "under valgrind" in done.stderr
    run = json.loads(next(place.glob("results/*/pg17*/pgbench.counted/1-*/run.json")).read_text())
    assert run["status"] == "failed"
    assert "unhandled" in run["error"]["log_tail"]
    assert living_in(place) == []


@needs_valgrind
def test_what_is_ended_in_the_middle_keeps_its_starts_and_goes_on(pgstrata: Program, place: Path) -> None:
    (place / "data").mkdir()
    # as many starts are made side by side as there are CPUs: one is left
    starts = str(max(2, psutil.cpu_count() or 1) + 1)
    command = ["count", "--server", "pg:17", *SMALL, "--starts", starts, "--most-starts", starts]
    command += ["--engine", "valgrind", "--data-dir", str(place / "data")]
    running = Running(place, command)
    running.wait_for(lambda: list(place.glob("results/*/*/*/.1.kept/01.start")))
    running.process.terminate()
    assert running.process.wait(60) == 143
    assert "goes on" in running.printed
    assert list((place / "data").glob("count-*")) == []
    assert living_in(place) == []
    assert [path.name for path in place.glob("results/*/*/*/*")] == [".1.kept"]
    done = pgstrata(*command)
    assert done.returncode == 0, done.stderr
    assert "of a stopped count " in done.stderr
    assert "start 1 of" not in done.stderr
    assert not list(place.glob("results/*/*/*/.1.kept"))


@pytest.fixture
def cluster(place: Path, pg17: Server) -> Iterator[Cluster]:
    with Cluster(pg17, resolve([], pg17.version_num, 8 << 30), place / "c") as new_cluster:
        new_cluster.create()
        new_cluster.start()
        yield new_cluster


def test_counters_of_the_kernel_are_opened_and_subtracted(cluster: Cluster, place: Path) -> None:
    # this machine may have no counter of instructions: a software event takes the same way
    engine = PerfEngine(PAGE_FAULTS, "page-faults")
    # each operation reads a megabyte it has just been given
    statement = Sql("SELECT length(repeat('x', 1000000 + {n}))", n=Uniform(1, 9))
    role = Role("query", 1, [Script(statement)])
    step = Step("s", [role], Headline("query", "operations", "queries/s"), seconds=1.0)
    countable = counted(step, Length(5, 20), marks=False)
    spec = driver_spec(countable.step, cluster.connection("postgres"), 1, "blocking")
    graphs = engine.count(countable.step, countable.lengths, spec, place)
    per_operation = graphs["query"].instructions / 20
    assert per_operation > 100  # of 4 kB
    assert drive(spec)["query"] > 0
