"""`pgstrata bisect` on real servers: found, killed and gone on with, two at once; and what it refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from pgstrata.cli.main import invoke
from pgstrata.measure.two_servers import TooFewPairsError, TwoServers
from pgstrata.search.bisect import state as states
from pgstrata.search.bisect.hunt import TRIES, SearchResult, SearchSettings, result_of
from pgstrata.server.find.model import Server
from support.interrupts import load
from support.program import Program, Running, living_in
from support.schemas import check_printed
from support.tree import commit, git, repository

pytestmark = pytest.mark.program


def measured(place: Path) -> int:
    """How many measurements are on disk."""
    file = place / "search/bisect.json"
    return len(json.loads(file.read_text())["measured"]) if file.exists() else 0


@contextmanager
def other_load() -> Iterator[None]:
    """Something else has work for a quarter of the CPUs or more, which is enough to disturb a measurement."""
    number = max(1, len(os.sched_getaffinity(0)) // 4)
    with load(number):
        yield


def first_measured(place: Path, arguments: list[str]) -> Running:
    """A search that has one measurement on disk. On a machine with much else to do most pairs of its last try
    may have waited for a CPU: then it ends, says so, and is told to go on."""
    for _ in range(8):
        running = Running(place, arguments)
        if running.wait_for(partial(measured_or_ended, place, running)) == "measured":
            return running
        assert running.end() == 1
    raise AssertionError(running.printed)


def gone_on(pgstrata: Program, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The search as it ends: the same command goes on where pairs of a comparison waited for CPUs."""
    done = pgstrata(*arguments)
    assert "going on: 1 measurement there already" in done.stderr
    for _ in range(8):
        if "cannot be compared by the rate" not in done.stderr:
            break
        done = pgstrata(*arguments)
    return done


def measured_or_ended(place: Path, running: Running) -> str:
    if measured(place) == 1:
        return "measured"
    return "ended" if "cannot be compared by the rate" in running.printed else ""


@pytest.mark.timeout(3600)  # a dozen servers; the limit is for machines that are busy otherwise
def test_a_search_that_is_killed_goes_on_and_finds_the_slow_config(
    delays: list[str], place: Path, pgstrata: Program
) -> None:
    delays = [word.replace("100%", "99%") for word in delays]  # at 100% nothing is disturbed
    with other_load():
        running = first_measured(place, delays)
    assert len(json.loads((place / "search/bisect.json").read_text())["disturbed"]) >= TRIES - 1
    second = pgstrata(*delays)
    assert second.returncode == 1
    assert f"process {running.process.pid}" in second.stderr
    assert "Traceback" not in second.stderr
    running.wait_for_text("2: the bad end slow")
    running.wait_for(lambda: running.child("postgres"))
    running.process.send_signal(signal.SIGKILL)
    running.end()
    running.output.unlink()
    assert measured(place) == 1
    until = time.monotonic() + 60
    while living_in(place):
        assert time.monotonic() < until, living_in(place)
        time.sleep(0.1)

    done = gone_on(pgstrata, *delays, "--format", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["state"] == "found"
    assert [(g["first"]["id"], g["last"]["id"]) for g in answer["groups"]] == [("./slow.conf", "./slow.conf")]
    assert answer["effect"]["ratio"] < 0.6
    assert answer["groups"][0]["against_parent"]["ratio"] < 0.6
    assert {m["why"] for m in answer["measured"]} >= {"ends", "search", "culprit"}
    page = (place / "search/index.html").read_text()
    assert "since slow" in page and "effects" in page and "posterior" in page
    rows = (place / "search/tables/measurements.csv").read_text().count("\n") - 1
    assert rows == sum(m["by"] == "rate" for m in answer["measured"])

    again = pgstrata(*delays)
    assert again.returncode == 0 and "since slow" in again.stdout
    assert "no evidence: others used the CPUs" in again.stdout
    assert measured(place) == len(answer["measured"])
    other = pgstrata(*delays, "--seed", "2")
    assert other.returncode == 2 and "differs in seed" in other.stderr
    (place / "delay.sql").write_text("SELECT 1;\n")
    edited = pgstrata(*delays)
    assert edited.returncode == 2 and "differs in files" in edited.stderr


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.timeout(3600)
def test_a_search_by_instructions_finds_the_config_with_the_longer_path(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    # the same binaries; the second one writes a line of the log for each statement, and reads all ten rows
    for name, least, scan in (("quiet", -1, "off"), ("talks", 0, "on")):
        settings = f"log_min_duration_statement = {least}\nenable_seqscan = {scan}\n"
        (place / f"{name}.conf").write_text(settings)
    (place / "small.sql").write_text(
        "CREATE TABLE small (id int PRIMARY KEY, v int);\n"
        "INSERT INTO small SELECT i, i FROM generate_series(1, 10) i;\nANALYZE small;\n"
    )
    (place / "look.sql").write_text("SELECT v FROM small WHERE id = 7;\n")
    sets = ('setup=["small.sql"]', 'scripts=["look.sql"]', "clients=1", "warmup=0", "reads_only=true")
    searching = [
        *("bisect", "--server", pg17.spec, "--configs", "./quiet.conf,./talks.conf"),
        *("--workload", "custom", "--step", "look", "--by", "instructions", "--seconds", "0.5"),
        *("--no-profile", *(word for set_ in sets for word in ("--set", set_))),
        *("--data-dir", str(place / "data"), "--results", str(place / "search")),
    ]
    done = pgstrata(*searching, "--format", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["state"], answer["by"]) == ("found", "instructions")
    assert [group["last"]["position"] for group in answer["groups"]] == [1]
    assert "more instructions" in answer["answer"]
    assert answer["effect"]["low"] > 1
    counted = [m for m in answer["measured"] if m["by"] == "instructions"]
    assert len(counted) == 2
    # The ends are timed, too, unless this machine is too busy to tell, which is said then.
    timed = [m for m in answer["measured"] if m["by"] == "rate"]
    assert {m["why"] for m in timed} == {"ends"} or "not measured both ways" in done.stderr
    (plan,) = counted[0]["plans"]
    assert "Index Scan" in plan and plan.endswith("Seq Scan on small")
    assert " of other counts are used again" in done.stderr
    page = (place / "search/index.html").read_text()
    assert "What accounts for it" in page and "Seq Scan on small" in page
    table = (place / "search/tables/measurements.csv").read_text()
    assert "instructions" in table and "transactions/s" not in table
    again = pgstrata(*searching)
    assert again.returncode == 0 and "the plan of " in again.stdout
    other = pgstrata(*[word for word in searching if word not in ("--by", "instructions")])
    assert other.returncode == 2, "a search by the rate is another one"


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.timeout(3600)
def test_both_measures_say_that_fewer_instructions_are_slower(
    trade: list[str], place: Path, pgstrata: Program, pg17: Server
) -> None:
    searching = [
        *("bisect", "--server", pg17.spec, "--configs", "./counts.conf,./sleeps.conf", "--no-profile"),
        *("--seconds", "1", "--other-load", "100%", *trade),
        *("--data-dir", str(place / "data"), "--results", str(place / "search")),
    ]
    done = pgstrata(*searching, "--by", "both")
    assert done.returncode == 0, done.stderr
    first = done.stdout.strip().splitlines()[0]
    assert re.search(r"is [\d.]+ % slower \(.*\), though it has [\d.]+ % fewer instructions \(", first), first
    record = json.loads(pgstrata(*searching, "--by", "both", "--format", "json").stdout)
    assert (record["by"], record["disagrees"], record["state"]) == ("rate", True, "found")
    assert record["effect"]["high"] < 1 and record["other_way"]["high"] < 1
    assert first in (place / "search/index.html").read_text().replace("&#39;", "'")


def test_what_comes_is_shown_without_doing_it(delays: list[str], place: Path, pgstrata: Program) -> None:
    done = pgstrata(*delays, "--dry-run")
    assert done.returncode == 0
    assert "3 configs, quick1 … slow" in done.stdout
    assert "next: slow against quick1" in done.stdout
    assert not (place / "search").exists()


def test_a_search_out_of_time_says_that_nothing_is_known_yet(
    delays: list[str], place: Path, pgstrata: Program
) -> None:
    done = pgstrata(*delays, "--max-seconds", "0.001")
    assert done.returncode == 3, done.stderr
    assert "Nothing is known yet of slow against quick1" in done.stdout
    assert "the same command goes on" in done.stdout
    assert "Nothing has been measured yet" in (place / "search/index.html").read_text()


def test_several_scripts_are_several_steps(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    for name in ("one", "two"):
        (place / f"{name}.sql").write_text("SELECT 1;\n")
    line = ["bisect", "--releases", "pg:16,pg:17", "--dry-run", "--workload", "custom"]
    for scripts, steps, code in (
        ('["one.sql", "two.sql"]', ("one", "two", "one+two"), 0),
        ('["one.sql", "two.sql"]', ("three",), 2),
        ('["one.sql@2", "two.sql"]', ("one+two",), 0),
        ('["one.sql@2", "two.sql"]', ("one",), 2),
        ('["one.sql", 2]', ("one",), 2),
        ("[[", ("one",), 2),
    ):
        for step in steps:
            assert invoke([*line, "--set", f"scripts={scripts}", "--step", step]) == code, (scripts, step)
            assert "Traceback" not in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_step_that_cannot_be_counted_is_refused_before_anything_is_fetched(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))
    line = ["bisect", "--releases", "pg:16,pg:17", "--workload", "vector", "--step", "hnsw-build"]
    assert invoke([*line, "--by", "instructions", "--dry-run"]) == 2
    err = capsys.readouterr().err
    assert "hnsw-build cannot be counted: an index is built by several processes" in err
    assert "by the rate" in err
    assert not (place / "cache/servers").exists()


def test_scripts_of_ones_own_have_no_scale_and_can_be_counted(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    (place / "one.sql").write_text("SELECT 1;\n")
    line = ["bisect", "--releases", "pg:16,pg:17", "--by", "instructions", "--dry-run"]
    assert invoke([*line, "--workload", "custom", "--set", 'scripts=["one.sql"]', "--step", "one"]) == 0
    shown = capsys.readouterr().out
    assert "by counted instructions" in shown and " min in all: " in shown


@pytest.fixture
def repo(place: Path) -> Path:
    """Two commits, tagged v1 and v2, of a tree that is no PostgreSQL to be measured."""
    folder = repository(place / "repo")
    git(folder, "tag", "v1")
    (folder / "file").write_text("2\n")
    commit(folder, "two")
    git(folder, "tag", "v2")
    return folder


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ("--repo repo --good v1 --bad v22 --step point-query", "no commit 'v22'", "v2"),
        ("--repo repo --good v2 --bad v1 --step point-query", "v1 (--bad) is older", "--good v1"),
        ("--repo repo --good v1 --step point-query", "needs both ends", "--bad REF"),
        ("--repo nowhere --good v1 --bad v2 --step point-query", "there is no folder", ""),
        ("--step point-query", "nothing to search along", "--releases"),
        ("--repo repo --good v1 --bad v2 --step point-qery", "no step 'point-qery'", "point-query"),
        ("--repo repo --good v1 --bad v2 --step x --workload sysbensh", "no workload 'sysbensh'", "sysbench"),
        ("--repo repo --good v1 --bad v2 --step point-query --build 03", "no build called '03'", "o2"),
        ("--repo repo --good v1 --bad v2 --step point-query --config a1x", "a1x", ""),
        ("--repo repo --good v1 --bad v2 --step point-query --set row=1", "no workload here has", "rows"),
        ("--releases pg:17 --step point-query", "two ends", "--releases FIRST,SECOND"),
        ("--releases pg:13,pg:17 --repo repo --step point-query", "are 2 searches", ""),
        ("--configs a,b --step point-query", "needs a server", "--server pg:17"),
        ("--repo repo --good v1 --bad v2 --step point-query --smallest 3", "not a share", "3%"),
        ("--repo repo --good v1 --bad v2 --step point-query --seconds 0", "is not between", "20 is usual"),
        ("--repo repo --good v1 --bad v2 --step x --max-seconds -1", "-1 is not above 0", "no limit"),
        ("--repo foreign --good HEAD~1 --bad HEAD --step point-query", "not a source tree", "a clone"),
        ("--repo plain --good v1 --bad v2 --step point-query", "is not a git repository", "a clone"),
        ("--repo plain/file --good v1 --bad v2 --step point-query", "is a file", "a clone"),
        ("--repo repo --good -v1 --bad v2 --step point-query", "does not name a commit", "the hash"),
        ("--releases pg:17,pg:14 --step point-query", "pg:17 is newer than pg:14", "oldest first"),
        (
            "--good v1 --releases pg:13,pg:14 --step point-query",
            "--good and --bad go with --repo",
            "leave out",
        ),
    ],
)
def test_what_is_no_search_is_refused_in_a_sentence(
    options: str,
    message: str,
    hint: str,
    repo: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = repo.parent
    monkeypatch.chdir(place)
    (place / "plain").mkdir()
    (place / "plain/file").touch()
    (place / "foreign").mkdir()
    git(place / "foreign", "init", "-q")
    for subject in ("the first", "the second"):
        commit(place / "foreign", subject)
    assert invoke(["bisect", *options.split()]) == 2
    err = capsys.readouterr().err
    assert message in err and hint in err
    assert err.count("error:") == 1


def test_git_bisect_is_told_to_stop_never_that_a_mistake_is_bad(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo.parent)
    runner = ["bisect", "--runner", "--repo", "repo", "--step", "point-query"]
    assert invoke([*runner, "--good", "v9"]) == 128
    assert invoke(runner) == 128
    mistakes = (
        ["--bad", "v2"],
        ["--dry-run"],
        ["--by", "instructions"],
        ["--step", "insert"],
        ["--workload", "sysbnech"],
        ["--seconds", "0"],
        ["--other-load", "200%"],
        ["--setp", "insert"],
        ["--seconds", "20s"],
    )
    for more in mistakes:
        assert invoke([*runner, "--good", "v1", *more]) == 128, more
    assert invoke(["bisect", "--runner", "--repo", "repo", "--step", "pont-query", "--good", "v1"]) == 128
    assert "building" not in capsys.readouterr().err
    assert invoke([*runner, "--good", "v2"]) == 0
    assert "the good end itself" in capsys.readouterr().out


def test_a_commit_that_does_not_build_is_skipped_by_git_bisect(place: Path, pgstrata: Program) -> None:
    folder = repository(place / "repo")
    git(folder, "tag", "v1")
    (folder / "src/backend/main.c").write_text("this is no C\n")
    commit(folder, "broken")
    done = pgstrata(
        *("bisect", "--runner", "--repo", "repo", "--good", "v1", "--step", "point-query"),
        *("--data-dir", "data"),
        PGSTRATA_CACHE=str(place / "cache"),
    )
    assert done.returncode == 125, done.stderr
    assert "broken" in done.stdout


def test_a_commit_with_too_few_pairs_is_unclear_to_git_bisect(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside a busy neighbour: the next commit may have a quieter moment."""

    def disturbed(*unused: object) -> None:
        raise TooFewPairsError("point-query cannot be compared by the rate", "end other programs")

    monkeypatch.chdir(repo.parent)
    monkeypatch.setattr("pgstrata.search.bisect.runner.build_server", lambda *unused: None)
    monkeypatch.setattr(TwoServers, "measure", disturbed)
    runner = ["bisect", "--runner", "--repo", "repo", "--step", "point-query", "--good", "v1"]
    assert invoke(runner) == 125
    assert capsys.readouterr().out == "unclear: point-query cannot be compared by the rate\n"


def test_several_steps_are_a_search_each_and_one_that_fails_keeps_none_from_theirs(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[SearchSettings] = []

    def hunt(search: SearchSettings, *unused: object) -> SearchResult:
        asked.append(search)
        if search.work.step == "scan":
            raise TooFewPairsError("scan cannot be compared by the rate")
        return result_of(search, states.begin(search.folder, search.line, search.question()))

    monkeypatch.chdir(repo.parent)
    monkeypatch.setattr("pgstrata.search.bisect.hunt.hunt", hunt)
    ends = ["--repo", "repo", "--good", "v1", "--bad", "v2"]
    steps = ["--step", "point-query", "--step", "scan", "--step", "insert", "--step", "scan"]
    command = ["bisect", *ends, *steps, "--max-seconds", "60"]
    assert invoke(command) == 1
    output = capsys.readouterr()
    assert [search.work.step for search in asked] == ["point-query", "scan", "insert"]
    assert output.out.count("Nothing is known yet of ") == 2 and "scan cannot be compared" in output.err
    assert all(search.most_seconds is not None and search.most_seconds <= 60 for search in asked)
    pages = [Path(line.removeprefix("page: ")) for line in output.out.splitlines() if "page: " in line]
    assert len({page.parent for page in pages}) == 2 and all(page.is_file() for page in pages)

    assert invoke([*command, "--results", "found", "--format", "json"]) == 1
    records = json.loads(capsys.readouterr().out)
    assert [record["folder"] for record in records] == ["found/point-query", "found/insert"]

    assert invoke([*command, "--step", "scna"]) == 2
    assert len(asked) == 6, "a mistyped step is found before the first is searched"


def test_a_plan_is_printed_as_json(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo.parent)
    command = ["bisect", "--repo", "repo", "--good", "v1", "--bad", "v2", "--dry-run", "--format", "json"]
    for steps in (["--step", "scan"], ["--step", "scan", "--step", "point-query"]):
        line = [*command, *steps]
        assert invoke(line) == 0
        printed = capsys.readouterr().out
        check_printed(line, printed)
        record = json.loads(printed)
        first = record[0] if len(steps) > 2 else record
        assert first["step"] == "scan" and first["bad"]["subject"] == "two" and first["minutes"] > 0
        assert first["next"]["by"] in ("rate", "instructions") and first["stops"] == 2
    assert not Path("bisect").exists()
