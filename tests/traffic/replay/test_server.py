"""Replays on real servers: what is left, what was counted, when it happened, and what goes wrong."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from pgstrata.driver.client import Driver
from pgstrata.driver.events import Done, Event, Failure, Second
from pgstrata.errors import UsageError
from pgstrata.judge.costs import step_cost
from pgstrata.measure.step import driver_spec
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.features import NEWEST
from pgstrata.server.find.model import Server
from pgstrata.store.record import StatementRecord, StepRecord
from pgstrata.store.statement import statement_of
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import Captured, Header, Statement, Writer
from pgstrata.traffic.mask import Mask
from pgstrata.traffic.shapes import shape
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Step
from support.page import PageReader
from support.program import Program
from support.steps import database, run_step, running
from support.traffic import SCHEMA, SETTINGS, Calls, Shop, counted, state, take_logs

Json = dict[str, Any]


@dataclass
class Original:
    """What an application did. file: captured of its log; left: rows and sums of its tables; counted: calls
    by shape, of pg_stat_statements."""

    file: Path
    header: Header
    left: list[tuple[Any, ...]]
    counted: dict[str, Calls]
    seconds: float


def length(file: Path) -> float:
    """Seconds from the first statement's start to the last one's."""
    with Captured(file) as captured:
        starts = [s.start for entry in captured.sessions() for s in captured.statements(entry)]
    return (max(starts) - min(starts)) / 1e6


@pytest.fixture(scope="module")
def original(pg17: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Original]:
    folder = tmp_path_factory.mktemp("original")
    with running(pg17) as cluster, database(cluster, "shop") as admin:
        admin.execute(SCHEMA.encode())
        admin.execute("SELECT pg_stat_statements_reset()")
        cluster.stop()
        cluster.start(settings=SETTINGS)
        Shop(cluster, "shop", sessions=8, rounds=40, think=0.1).work()
        cluster.stop()
        take_logs(cluster, folder)
        cluster.start()
        with cluster.connect("shop") as connection:
            seen, left = counted(connection), state(connection)
    header = capture([folder / "postgresql.csv"], folder / "shop.traffic")
    other = capture([folder / "postgresql.json"], folder / "json.traffic")
    assert content_of(header) == content_of(other)
    yield Original(folder / "shop.traffic", header, left, seen, length(folder / "shop.traffic"))


def content_of(header: Header) -> tuple[Any, ...]:
    """What does not depend on the order in which the entries of several sessions stand in a log."""
    shapes = sorted(
        (shape.text, shape.calls, round(shape.seconds, 6), shape.errors) for shape in header.shapes
    )
    counts = (header.begin, header.end, header.sessions, header.statements, header.errors)
    return counts, header.most_sessions, header.left_out, header.notes, shapes


@pytest.fixture(scope="module")
def clusters(pg13: Server, pg17: Server) -> Iterator[dict[str, Cluster]]:
    with running(pg13) as old, running(pg17) as new:
        yield {"13": old, "17": new}


def replay(file: Path, **options: Any) -> Step:
    workload = catalog.find("replay")
    validated = workload.Options.model_validate({"file": str(file), "database": "shop", **options})
    step = workload.phases(validated, NEWEST)[-1]
    assert isinstance(step, Step)
    return step


def done_of(outcome: Any) -> Json:
    role: Json = outcome.role("replay")
    return role


@pytest.mark.parametrize("version", ["13", "17"])
@pytest.mark.parametrize("speed", [1, 0])
def test_what_the_original_left_is_left_again(
    original: Original, clusters: dict[str, Cluster], version: str, speed: float
) -> None:
    cluster = clusters[version]
    with database(cluster, "shop") as connection:
        connection.execute(SCHEMA.encode())
        connection.execute("SELECT pg_stat_statements_reset()")
        outcome = run_step(cluster, "shop", replay(original.file, speed=speed))
        seen = counted(connection)
        assert state(connection) == original.left
    done = done_of(outcome)
    header, replayed = original.header, done["replay"]
    # Statement by statement, as the server counts them: those that went well.
    pattern = re.compile("SELECT (id|owner|balance|nothing)|INSERT|UPDATE|DELETE")
    expected = {
        name: counted_calls.calls for name, counted_calls in original.counted.items() if pattern.match(name)
    }
    assert {
        name: counted_calls.calls for name, counted_calls in seen.items() if pattern.match(name)
    } == expected
    print(f"\n{version}, speed {speed}: ms of a call in the original, in the replay; ms to the client")
    to_client = {statement["name"].partition(" ")[2]: statement for statement in done["statements_by_name"]}
    for name in expected:
        mean = to_client[name]["seconds_total"] / to_client[name]["count"] * 1000
        print(f"{original.counted[name].each:8.3f} {seen[name].each:8.3f} {mean:8.3f}  {name[:90]}")
    if version == "17":
        rest = {name for name in seen if not re.match("SELECT|SET|CREATE|INSERT", name)}
        assert (
            all(seen[name].calls == original.counted[name].calls for name in rest)
            and "BEGIN" in rest
            and "COMMIT" in rest
        )
    # Those that failed then fail now, in the same way, and no other.
    assert all(failure["then"] == failure["now"] for failure in replayed["failures"]), replayed["failures"]
    assert sum(failure["count"] for failure in replayed["failures"]) == header.errors == done["errors"] > 50
    assert {failure["now"] for failure in replayed["failures"]} == {"23505", "42703", "22012"}
    assert done["operations"] + done["errors"] == header.statements
    assert (replayed["sessions"], replayed["lost"], replayed["unsent"]) == (header.sessions, 0, 0)
    by_number = {statement["number"]: statement["count"] for statement in done["statements_by_name"]}
    for number, logged_shape in enumerate(header.shapes):
        if logged_shape.calls:
            assert by_number[number] == logged_shape.calls
    # How late it was itself is told for each second, and adds up.
    lags = [second["roles"][0]["replay"] for second in outcome.seconds]
    assert sum(lag["sent"] for lag in lags) == replayed["lag"]["sent"] == header.statements
    assert max(lag["max"] for lag in lags) == replayed["lag"]["max"]
    lag = replayed["lag"]
    print(
        f"{outcome.done['seconds']:.3f} s, in the original {original.seconds:.3f} s; lag "
        f"{1000 * lag['p50']:.3f} ms p50, {1000 * lag['p99']:.3f} ms p99, {1000 * lag['max']:.3f} ms longest"
    )
    if speed:
        # The pace is the original's, but for what the replayer was late at the end, which it says.
        late = replayed["lag"]["max"]
        assert abs(outcome.done["seconds"] - original.seconds) < 0.01 * original.seconds + late + slowest(
            done
        )
    else:
        assert outcome.done["seconds"] < original.seconds


def slowest(done: Json) -> float:
    """Of the statements of a replay: the last one may have waited for the one before it."""
    return float(max(statement["seconds_max"] for statement in done["statements_by_name"]))


def test_ten_times_the_pace_and_a_part_of_it(original: Original, clusters: dict[str, Cluster]) -> None:
    with database(clusters["17"], "shop") as connection:
        connection.execute(SCHEMA.encode())
        whole = run_step(clusters["17"], "shop", replay(original.file, speed=2))
        assert whole.done["seconds"] < 0.8 * original.seconds
        part = run_step(clusters["17"], "shop", replay(original.file, speed=1, seconds=0.5))
        replayed = done_of(part)["replay"]
        assert 0.5 <= part.done["seconds"] < 0.5 * original.seconds
        assert 0 < replayed["unsent"] <= original.header.statements - replayed["lag"]["sent"]


def test_a_masked_file_is_replayed_as_one_that_is_not(
    original: Original, clusters: dict[str, Cluster], tmp_path: Path
) -> None:
    header = capture([original.file.parent / "postgresql.csv"], tmp_path / "m.traffic", mask=Mask())
    with database(clusters["17"], "shop") as connection:
        connection.execute(SCHEMA.encode())
        outcome = run_step(clusters["17"], "shop", replay(tmp_path / "m.traffic", speed=0))
    done = done_of(outcome)
    assert done["operations"] + done["errors"] == header.statements == original.header.statements
    # Other keys refer to no account, and what was there twice is not: nothing else is new.
    new = {failure["now"] for failure in done["replay"]["failures"] if failure["then"] is None}
    assert new <= {"23503", "25P02", "40P01"}, done["replay"]["failures"]


# --- files made by hand -----------------------------------------------------------------------


Asked = tuple[float, str] | tuple[float, str, int, tuple[str | None, ...]]


def written(path: Path, *sessions: Sequence[Asked]) -> Path:
    """A captured file of sessions, each with its statements: when, in seconds, text, protocol, parameters."""
    with Writer(path) as writer:
        for statements in sessions:
            begin = 10**15 + int(statements[0][0] * 1e6)
            session = writer.begin(begin, writer.database("shop"))
            for fields in statements:
                protocol, values = (fields[2], fields[3]) if len(fields) == 4 else (0, ())
                number = writer.shape(shape(fields[1]).text)
                start = 10**15 + int(fields[0] * 1e6)
                statement = Statement(
                    start, 100, protocol, number, fields[1], values, "", "DISCARD" in fields[1]
                )
                writer.add(session, statement, common=len(fields) == 4)
            writer.end(session)
        writer.finish(Header())
    return path


def failures_of(outcome: Any) -> dict[str, str | None]:
    return {
        failure["statement"].partition(" ")[2]: failure["now"]
        for failure in done_of(outcome)["replay"]["failures"]
    }


def test_what_a_log_may_hold(clusters: dict[str, Cluster], tmp_path: Path) -> None:
    """COPY without its rows, LISTEN, DDL, unknown types, statements that are dropped, large values."""
    large = "x" * 3_000_000
    file = written(
        tmp_path / "a",
        [
            (0.0, "CREATE TABLE t (a int, b jsonb, c text)"),
            (0.0, "LISTEN jobs"),
            (0.01, "COPY t FROM STDIN"),
            (0.01, "COPY t FROM STDIN", 1, ()),
            (0.02, "INSERT INTO t VALUES ($1, $2, $3)", 2, ("1", '{"a": [1]}', None)),
            (0.02, "INSERT INTO t VALUES ($1, $2, $3)", 2, ("2", None, large)),
            (0.03, "DISCARD ALL"),
            (0.03, "INSERT INTO t VALUES ($1, $2, $3)", 2, ("3", "{}", "")),
            (0.04, "ALTER TABLE t ADD d point"),
            (0.05, "UPDATE t SET d = $1 WHERE a = $2", 1, ("(1,2)", "3")),
            (0.05, "COPY t TO STDOUT"),
            (0.06, "SELECT pg_notify('jobs', 'x')"),
            (0.06, "BEGIN"),
            (0.06, "INSERT INTO t VALUES (4)"),
        ],
        [(0.04, f"SELECT length('{large}')"), (0.05, "SELECT $1", 1, ("a",)), (0.06, ";"), (0.06, "")],
    )
    with database(clusters["17"], "shop") as connection:
        outcome = run_step(clusters["17"], "shop", replay(file))
        rows = connection.execute("SELECT a, b, length(c), d::text FROM t ORDER BY a").fetchall()
    # The transaction that was open at the end is rolled back.
    assert rows == [(1, {"a": [1]}, None, None), (2, None, len(large), None), (3, {}, 0, "(1,2)")]
    assert failures_of(outcome) == {"COPY t FROM STDIN": "57014"}
    done = done_of(outcome)
    assert done["operations"] == 16 and done["errors"] == 2 and done["replay"]["unsent"] == 0


def test_statements_that_reach_outside_are_not_sent(clusters: dict[str, Cluster], tmp_path: Path) -> None:
    """The server never sees them, so that the transaction around them goes on."""
    target = tmp_path / "program.txt"
    file = written(
        tmp_path / "a",
        [
            (0.0, "CREATE TABLE t (a int)"),
            (0.01, "BEGIN"),
            (0.01, "INSERT INTO t VALUES (1)"),
            (0.01, f"COPY (SELECT 1) TO PROGRAM 'cat > {target}'"),
            (0.02, "SELECT dblink($1, $2)", 2, ("host=far", "SELECT 1")),
            (0.02, "INSERT INTO t VALUES (2)"),
            (0.02, "COMMIT"),
        ],
    )
    with database(clusters["17"], "shop") as connection:
        outcome = run_step(clusters["17"], "shop", replay(file))
        rows = connection.execute("SELECT a FROM t ORDER BY a").fetchall()
    assert rows == [(1,), (2,)] and not target.exists()
    done = done_of(outcome)
    assert (done["operations"], done["errors"], done["replay"]["unsent"]) == (5, 0, 0)
    assert failures_of(outcome) == {}
    whole = replay(file, allow_outside=True)
    assert whole.replay is not None and whole.replay.skip == ()


def test_a_prepared_statement_that_fails_at_first(clusters: dict[str, Cluster], tmp_path: Path) -> None:
    """It is prepared nevertheless, and its next execution needs no other; dropped, it is prepared again."""
    divide = "SELECT 1 / $1::int"
    file = written(
        tmp_path / "a",
        [
            (0.0, divide, 2, ("0",)),
            (0.0, divide, 2, ("1",)),
            (0.0, "SELECT * FROM nowhere WHERE a = $1", 2, ("1",)),
            (0.0, "SELECT * FROM nowhere WHERE a = $1", 2, ("1",)),
            (0.0, "DISCARD ALL", 2, ()),
            (0.0, divide, 2, ("2",)),
            (0.0, "DISCARD ALL", 2, ()),
            (0.0, divide, 2, ("3",)),
        ],
    )
    with database(clusters["17"], "shop"):
        outcome = run_step(clusters["17"], "shop", replay(file))
    failures = {(failure["now"], failure["count"]) for failure in done_of(outcome)["replay"]["failures"]}
    assert failures == {("22012", 1), ("42P01", 2)}


def test_sessions_that_wait_for_each_other(clusters: dict[str, Cluster], tmp_path: Path) -> None:
    """Locks are waited for as they were; a deadlock of the replay's own is one of its failures."""
    file = written(
        tmp_path / "a",
        [
            (0.0, "BEGIN"),
            (0.0, "SELECT pg_advisory_xact_lock(1)"),
            (0.3, "SELECT pg_advisory_xact_lock(2)"),
            (0.4, "COMMIT"),
        ],
        [
            (0.1, "BEGIN"),
            (0.1, "SELECT pg_advisory_xact_lock(2)"),
            (0.35, "SELECT pg_advisory_xact_lock(1)"),
            (0.45, "COMMIT"),
        ],
        [(0.2, "SELECT 1")],
    )
    with database(clusters["17"], "shop"):
        outcome = run_step(clusters["17"], "shop", replay(file))
    done = done_of(outcome)
    assert list(failures_of(outcome).values()) == ["40P01"] and done["outcomes"]["deadlock_failures"] == 1
    assert done["operations"] == 8
    # What waited for a lock is late by its session's doing, not by the replayer's.
    assert done["replay"]["lag"]["max"] < done["latency"]["max"]


def test_a_session_that_the_server_ends(clusters: dict[str, Cluster], tmp_path: Path) -> None:
    file = written(
        tmp_path / "a",
        [(0.0, "SELECT pg_terminate_backend(pg_backend_pid())"), (0.1, "SELECT 2"), (0.2, "SELECT 3")],
        [(0.0, "SELECT 1"), (0.3, "SELECT 4")],
    )
    with database(clusters["17"], "shop"):
        outcome = run_step(clusters["17"], "shop", replay(file))
    done = done_of(outcome)
    assert (done["replay"]["lost"], done["replay"]["unsent"], done["operations"]) == (1, 2, 2)


def events_of(cluster: Cluster, step: Step, meanwhile: Any = None) -> list[Event]:
    """All events of a replay, failures among them. meanwhile: done when its first second is over."""
    events: list[Event] = []
    with Driver(driver_spec(step, cluster.connection("shop"), 1, "auto")) as driver:
        driver.ready()
        driver.start()
        for event in driver.events():
            events.append(event)
            if isinstance(event, Second) and event.second == 0 and meanwhile is not None:
                meanwhile(driver)
        driver.close()
    return events


def test_a_server_that_dies(pg17: Server, tmp_path: Path) -> None:
    file = written(tmp_path / "a", *[[(n / 50 + k / 10, "SELECT 1") for k in range(300)] for n in range(5)])
    with running(pg17) as cluster, database_that_dies(cluster):
        postmaster = psutil.Process(cluster.postmaster.pid or 0)

        def kill(driver: Driver) -> None:
            def later() -> None:
                time.sleep(0.5)
                # The postmaster before its children: it would mend what they have left, and go on.
                for process in [postmaster, *postmaster.children(recursive=True)]:
                    with suppress(psutil.NoSuchProcess):
                        process.send_signal(signal.SIGKILL)

            threading.Thread(target=later).start()

        events = events_of(cluster, replay(file), kill)
    errors = [event for event in events if isinstance(event, Failure)]
    assert len(errors) == 1 and errors[0].kind == "connection" and "lost" in errors[0].message
    done = events[-1]
    assert isinstance(done, Done) and done.roles[0].replay is not None
    assert 0 < done.roles[0].operations < 1500 and done.seconds < 30  # as the log
    assert done.roles[0].replay.lost == 5 and done.roles[0].replay.unsent > 500


class database_that_dies:
    """A database of a server that is not there any more when it is to be dropped."""

    def __init__(self, cluster: Cluster) -> None:
        with cluster.connect() as admin:
            admin.execute("CREATE DATABASE shop")

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def test_stopping_and_statements_that_never_end(clusters: dict[str, Cluster], tmp_path: Path) -> None:
    forever = written(
        tmp_path / "a", [(0.0, "SELECT pg_sleep(1000)")], [(0.0, "SELECT 1"), (900.0, "SELECT 2")]
    )
    with database(clusters["17"], "shop") as connection:
        events = events_of(clusters["17"], replay(forever), lambda driver: driver.stop(within=0.3))
        done = events[-1]
        assert isinstance(done, Done) and not any(isinstance(event, Failure) for event in events)
        assert done.roles[0].replay is not None and done.roles[0].replay.unsent == 1
        short = replace(replay(forever, seconds=0.2), overtime=0.5)
        events = events_of(clusters["17"], short)
        [failure] = [event for event in events if isinstance(event, Failure)]
        assert "no statement has had an answer" in failure.message
        # Nothing of it goes on in the server.
        until = time.monotonic() + 30
        while time.monotonic() < until:
            sleeping = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(1000)%' "
                "AND state = 'active' AND pid <> pg_backend_pid()"
            ).fetchone()
            if sleeping == (0,):
                break
            time.sleep(0.1)
        assert sleeping == (0,)


def test_files_that_cannot_be_replayed(
    clusters: dict[str, Cluster], original: Original, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="needs a captured file"):
        catalog.find("replay").phases(catalog.find("replay").Options(), NEWEST)
    with pytest.raises(UsageError, match="no session in database nowhere") as caught:
        replay(original.file, database="nowhere")
    assert "shop" in caught.value.hint
    whole = bytearray(original.file.read_bytes())
    (tmp_path / "a").write_bytes(whole)
    step = replay(tmp_path / "a", speed=0)
    with database(clusters["17"], "shop") as connection:
        connection.execute(SCHEMA.encode())
        for place in (60, 2000):  # of a block of statements
            damaged = bytearray(whole)
            damaged[place : place + 8] = b"\xff" * 8
            (tmp_path / "a").write_bytes(damaged)
            with pytest.raises(Exception, match="damaged"):
                run_or_raise(clusters["17"], step)
        (tmp_path / "a").write_bytes(whole[:-10])
        with pytest.raises(Exception, match="its end is missing"):
            run_or_raise(clusters["17"], step)


def run_or_raise(cluster: Cluster, step: Step) -> None:
    from pgstrata.driver.client import driver_failure

    for event in events_of(cluster, step):
        if isinstance(event, Failure):
            raise driver_failure(event)


def test_memory_is_that_of_the_open_sessions(clusters: dict[str, Cluster], tmp_path: Path) -> None:
    """A file many times longer takes no more of it, once every buffer has its size."""
    peaks, sizes = [], []
    for count in (20_000, 120_000):
        with Writer(tmp_path / str(count)) as writer:
            number = writer.shape("SELECT $1")
            session = writer.begin(0, writer.database("shop"))
            for n in range(count):
                text = f"SELECT '{n} {str(n) * 40}'"
                writer.add(session, Statement(n, 1, 0, number, text), common=False)
            writer.end(session)
            writer.finish(Header())
        with database(clusters["17"], "shop"):
            outcome = run_step(clusters["17"], "shop", replay(tmp_path / str(count), speed=0))
        assert done_of(outcome)["operations"] == count
        peaks.append(outcome.done["driver_peak_rss_bytes"])
        sizes.append(count * 200)
    assert peaks[1] - peaks[0] < 0.2 * (sizes[1] - sizes[0]), peaks


def server_of(server: Server) -> str:
    assert server.bin_dir is not None
    return f"path:{server.bin_dir}"


def test_a_campaign_of_a_captured_file(
    pg13: Server, pg17: Server, original: Original, pgstrata: Program, place: Path
) -> None:
    """Each variant loads the data and replays; in rounds, as the replay writes."""
    (place / "schema.sql").write_text(SCHEMA)
    (place / "shop.traffic").write_bytes(original.file.read_bytes())
    (place / "a.toml").write_text(
        f"""
servers = ["{server_of(pg13)}", "{server_of(pg17)}"]
order = "interleaved"
rounds = 2

[[workloads]]
name = "replay"
[workloads.options]
file = "shop.traffic"
setup = "schema.sql"
speed = 0
"""
    )
    done = pgstrata("run", "a.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    runs = [json.loads(path.read_text()) for path in place.glob("results/*/*/*/*/run.json")]
    assert len(runs) == 2
    for run in runs:
        step = next(step for step in run["steps"] if step["name"] == "replay")
        assert len(step["slices"]) == 2 and step["rate"] > 0
        replayed = step["replay"]
        assert replayed["sessions"] == 2 * original.header.sessions and replayed["lost"] == 0
        assert all(failure["then"] == failure["now"] for failure in replayed["failures"]), replayed[
            "failures"
        ]
        assert step["roles"]["replay"]["errors"] == 2 * original.header.errors
        taken = sum(statement["seconds_total"] for statement in step["roles"]["replay"]["statements_by_name"])
        assert step["rate"] == pytest.approx(step["operations"] / taken)
        # What it cost is divided by the statements there were, not by that rate.
        record = msgspec.convert(step, StepRecord)
        cpu = (record.server_cpu_seconds or 0.0) / step["operations"] * 1e6
        assert step_cost(record).cpu == pytest.approx(cpu)
    rows = pgstrata(
        "query", "select sum(sent), max(max_seconds) from lateness", "--format", "csv"
    ).stdout.split()
    assert int(rows[1].partition(",")[0]) == 4 * original.header.statements
    page = next(place.glob("results/**/*.html")).read_text()
    assert "How late the replay itself was" in page


def test_keys_that_a_sequence_has_given_otherwise(pg17: Server, pgstrata: Program, place: Path) -> None:
    """The dump is newer than the log: its sequence goes on elsewhere. What failed by it is told as new, and
    what finds no row any more as that."""
    (place / "schema.sql").write_text(
        "CREATE TABLE parents (id serial PRIMARY KEY, name text);\n"
        "CREATE TABLE children (parent int NOT NULL REFERENCES parents, note text);\n"
        "INSERT INTO parents (name) SELECT 'old' FROM generate_series(1, 9);\n"
        "DELETE FROM parents WHERE id < 9;\n"
    )
    written(
        place / "shop.traffic",
        [
            (0.0, "INSERT INTO parents (name) VALUES ($1)", 2, ("a",)),
            (0.1, "UPDATE parents SET name = $1 WHERE id = $2", 2, ("b", "1")),
            (0.1, "UPDATE parents SET name = $1 WHERE id = $2", 2, ("c", "2")),
            (0.1, "INSERT INTO children VALUES ($1, $2)", 2, ("1", "x")),
            (0.1, "INSERT INTO children VALUES ($1, $2)", 2, ("10", "x")),
            (0.2, "SELECT name FROM parents WHERE id = $1", 2, ("1",)),
            (0.2, "SELECT name FROM parents WHERE id = $1", 2, ("9",)),
        ],
    )
    (place / "a.toml").write_text(
        f'servers = ["{server_of(pg17)}"]\n[[workloads]]\nname = "replay"\n'
        '[workloads.options]\nfile = "shop.traffic"\nsetup = "schema.sql"\nspeed = 0\n'
    )
    done = pgstrata("run", "a.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    (run_file,) = place.glob("results/*/*/*/*/run.json")
    step = next(
        candidate for candidate in json.loads(run_file.read_text())["steps"] if candidate["name"] == "replay"
    )
    statements = [
        statement_of(msgspec.convert(record, StatementRecord))
        for record in step["roles"]["replay"]["statements_by_name"]
    ]
    texts = {statement.name: statement.text for statement in statements}
    (failure,) = step["replay"]["failures"]
    assert (failure["then"], failure["now"]) == (None, "23503")
    (failed,) = [statement for statement in statements if statement.number == failure["number"]]
    assert failed.text == "INSERT INTO children VALUES ($1, $2)" and failed.name == failure["statement"]
    rows = {texts[record["name"]]: record["rows"] for record in step["roles"]["replay"]["statements_by_name"]}
    assert rows == {
        "INSERT INTO parents (name) VALUES ($1)": 1,
        "UPDATE parents SET name = $1 WHERE id = $2": 0,
        "INSERT INTO children VALUES ($1, $2)": 1,
        "SELECT name FROM parents WHERE id = $1": 1,
    }
    page = next(place.glob("results/**/*.html")).read_text()
    assert "1 statement never found a row on" in page
    assert "the log does not say whether" in page and "UPDATE parents SET name" in page
    # How many in all, and of each statement: two updates, and one of two questions.
    nothing = {texts[name]: count for name, count in step["replay"]["found_nothing"].items()}
    assert nothing["UPDATE parents SET name = $1 WHERE id = $2"] == 2
    assert nothing["SELECT name FROM parents WHERE id = $1"] == 1
    reader = PageReader(next(place.glob("results/**/*.html")))
    (table,) = [
        page_table
        for page_table in reader.tables
        if page_table.caption.startswith("Statements that found no row")
    ]
    assert sorted([cell.text for cell in row] for row in table.rows) == [
        ["SELECT name FROM parents WHERE id = $1", "2", "1"],
        ["UPDATE parents SET name = $1 WHERE id = $2", "2", "2"],
    ]
    assert "75 % of the 4 executions that look for rows, of 2 statements" in " ".join(reader.text)
