"""Loads on real servers: what they do, what is recorded, which word a planted difference gets, and stops."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pgstrata.errors import ServerError
from pgstrata.loads.options import STEPS, LoadsOptions
from pgstrata.loads.steps import Loads
from pgstrata.measure import recovery
from pgstrata.measure.recovery import recoverable, replay, write_log
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.features import NEWEST
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from pgstrata.workload.core.language import Recovery, Step
from support.bench import url
from support.cluster import cluster as shared
from support.program import Program, Running, living_in
from support.queries import step_of, until

cluster = shared
ROWS = 4000


@contextmanager
def served(server: Server) -> Iterator[Cluster]:
    """A running cluster of the defaults, with fsync off."""
    folder = Path(tempfile.mkdtemp(prefix="pgs", dir="/tmp"))
    folder.chmod(0o755)
    try:
        with Cluster(server, Resolved("test", settings={"fsync": "off"}), folder / "c") as cluster:
            cluster.create()
            cluster.start()
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def recovering(kind: str) -> Step:
    phases = Loads().phases(LoadsOptions(rows=ROWS, steps=(f"{kind}",)), NEWEST)
    return step_of(phases, kind)


def contents(cluster: Cluster) -> tuple[int, int]:
    """Rows, and the sum of their ids."""
    with cluster.connect() as session:
        row = session.execute("SELECT count(*), sum(id)::bigint FROM loads").fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


@pytest.mark.parametrize("version", ["10", "13", "18"])
@pytest.mark.parametrize("name", ["crash-recovery", "standby-replay"])
@pytest.mark.server
def test_every_round_replays_the_same_log(version: str, name: str) -> None:
    step = recovering(name)
    assert step.recovery is not None
    with served(acquire(f"pg:{version}")) as cluster:
        until(cluster, "postgres", Loads().phases(LoadsOptions(rows=ROWS, steps=(name,)), NEWEST), name)
        before = contents(cluster)
        with recoverable(step, cluster):
            log = write_log(step, cluster, "postgres")
            assert cluster.postmaster.pid is None and log.bytes > 100 * ROWS
            results = []
            for _ in range(2):
                cluster.restore()
                results.append(replay(step, 1, cluster, log))
                if name == "crash-recovery":
                    after = contents(cluster)
                    cluster.stop("fast")
                else:
                    assert cluster.postmaster.pid is None
        after = contents(cluster)
        assert not cluster.data_folder.snapshot.exists()
        with cluster.connect() as session:
            ended = session.execute("SELECT pg_is_in_recovery()").fetchone()
            assert ended == (False,)
            session.execute("DROP TABLE loads")
    deleted = [i for i in range(1, ROWS + 1) if i % 8 == (1 if name == "crash-recovery" else 3)]
    assert before == (ROWS, sum(range(1, ROWS + 1)))
    assert after[0] == ROWS - len(deleted) + ROWS // 8 and after[1] > before[1] - sum(deleted)
    for result in results:
        record = result.record
        assert record.rate and record.seconds > 0 and record.engine == "none"
        assert record.rate == pytest.approx(step.headline.fixed / record.seconds)  # type: ignore[operator]
        load = record.judged_load
        assert load is not None and load.replayed_bytes == log.bytes and load.executions == 1
        assert record.server_cpu_seconds and record.server_cpu_seconds > 0
        if name == "crash-recovery":
            assert load.redo_seconds is not None and load.redo_seconds <= record.seconds
            assert load.sync_seconds is not None


def test_a_log_that_cannot_be_written_or_replayed(pg17: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    step = recovering("crash-recovery")
    with served(pg17) as cluster:
        cluster.stop("fast")
        cluster.data_folder.save()
        wrong = replace(step, recovery=Recovery("crash", ["INSERT INTO nowhere VALUES (1)"]))
        with pytest.raises(ServerError, match=r'crash-recovery: the log .* is not written: .*"nowhere"'):
            write_log(wrong, cluster, "postgres")
        assert cluster.postmaster.pid is None
        fine = Recovery("crash", ["CREATE TABLE t AS SELECT generate_series(1, 1000) g"])
        cluster.restore()
        log = write_log(replace(step, recovery=fine), cluster, "postgres")
        cluster.restore()
        with pytest.raises(ServerError, match="after its recovery the server lacks changes"):
            replay(replace(step, recovery=fine), 1, cluster, replace(log, end="FF/0"))
        cluster.stop("immediate")
        monkeypatch.setattr(recovery, "REPLAY_SECONDS", 0.5)
        held = replace(step, recovery=replace(fine, kind="standby", changes=["CREATE TABLE u (i int)"]))
        log = write_log(held, cluster, "postgres")
        cluster.restore()
        with pytest.raises(ServerError, match=r"are not replayed in 0 s"):
            replay(held, 1, cluster, replace(log, end="FF/0"))
        cluster.stop("immediate")
        cluster.log_file.unlink()
        cluster.restore()
        with pytest.raises(
            ServerError, match=r"crash-recovery: the replay cannot be followed: .*No such file"
        ):
            replay(replace(step, recovery=fine), 1, cluster, log)


def test_a_standby_that_dies_while_it_replays(pg17: Server) -> None:
    step = recovering("standby-replay")
    held = replace(step, recovery=Recovery("standby", ["CREATE TABLE u (i int)"]))
    with served(pg17) as cluster:
        cluster.stop("fast")
        cluster.save()
        log = write_log(held, cluster, "postgres")
        cluster.restore()
        killer = threading.Thread(target=_end_when_following, args=[cluster])
        killer.start()
        with pytest.raises(ServerError, match="standby-replay: the replay cannot be followed: "):
            replay(held, 1, cluster, replace(log, end="FF/0"))
        killer.join()


def _end_when_following(cluster: Cluster) -> None:
    """Quits the server once it has been given its log."""
    log = cluster.data_folder.path / "pg_wal" / "held"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and not list(log.glob("0*"))):
        time.sleep(0.01)
    cluster.postmaster.quit()


@pytest.mark.parametrize("version", ["10", "18"])
def test_the_program_does_all_steps(place: Path, pgstrata: Program, version: str) -> None:
    done = pgstrata(
        "run", f"pg:{version}", "--workload", "loads", "--scale", "quick", "--set", f"rows={ROWS}"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = Results(place / "results").runs()
    steps = {step.name: step for step in run.steps}
    assert list(steps) == list(STEPS) and all(step.measured and step.rate for step in run.steps)
    loads = {name: step.judged_load for name, step in steps.items()}
    assert all(load is not None and load.executions == 1 for load in loads.values())
    build = loads["index-parallel"]
    assert build is not None and build.temp_bytes is not None
    if version == "18":
        assert build.temp_bytes > 0, "workers share their sorted rows in temporary files"
        assert loads["index"] and loads["index"].temp_bytes == 0
    assert run.record.driver_version
    (table,) = (place / "results").rglob("loads.csv")
    assert len(table.read_text().splitlines()) == 1 + len(STEPS)
    shown = pgstrata("steps", "loads", "--format", "json")
    assert [row["step"] for row in json.loads(shown.stdout)] == list(STEPS)


PLANTED = """
name = "planted"
order = "interleaved"
turns = "rounds"
until = "time"
rounds = 4
placement = "free"
[[variants]]
server = "pg:17"
label = "base"
[[variants]]
server = "pg:17"
label = "twin"
[[variants]]
server = "pg:17"
label = "slow"
config = ["default", "slow.conf"]
[[workloads]]
name = "loads"
options = { rows = 20000, steps = "index crash-recovery standby-replay" }
"""


def test_a_planted_difference_is_slower_or_unclear_and_never_faster(place: Path, pgstrata: Program) -> None:
    # Sorts go to temporary files; the log has a copy of each changed page, which a replay compares.
    (place / "slow.conf").write_text("maintenance_work_mem = 1MB\nwal_consistency_checking = all\n")
    (place / "planted.toml").write_text(PLANTED)
    done = pgstrata("run", "planted.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    runs = Results(place / "results").runs()
    for step in (step for run in runs for step in run.steps if step.measured):
        assert step.turns == "rounds" and step.judged_load is not None
        assert step.judged_load.executions == len(step.slices) == 4
    base, twin, slow = (
        {step.name: step.judged_load for step in run.steps if step.judged_load}
        for name in ("base", "twin", "slow")
        for run in runs
        if run.variant == name
    )
    assert base["index"].temp_bytes == twin["index"].temp_bytes == 0 < (slow["index"].temp_bytes or 0)
    for step_name in ("crash-recovery", "standby-replay"):
        replayed = [side[step_name].replayed_bytes or 0 for side in (base, twin, slow)]
        assert abs(replayed[1] / replayed[0] - 1) < 0.05 and replayed[2] > 5 * replayed[0]
    for other, wrong in (("twin", {"slower", "faster"}), ("slow", {"faster"})):
        # The machine is not quiet: an interval of 99.9 %.
        compared = pgstrata("compare", "base", other, "--confidence", "0.999", "--format", "json")
        (against,) = json.loads(compared.stdout)
        words = {row["step"]: row["word"] for row in against["steps"]}
        assert set(words) == {"index", "crash-recovery", "standby-replay"}
        assert not wrong & set(words.values()), (other, compared.stdout)


@pytest.mark.program
@pytest.mark.parametrize("name", ["copy", "crash-recovery", "standby-replay"])
def test_ctrl_c_leaves_nothing(place: Path, pgstrata: Program, name: str) -> None:
    text = PLANTED.replace('"index crash-recovery standby-replay"', f'"{name}"')
    (place / "c.toml").write_text(text.replace("rounds = 4", "rounds = 500"))
    (place / "slow.conf").write_text("")
    data = place / "data"
    running = Running(place, ["run", "c.toml", "--data-dir", str(data)])
    running.wait_for_text(f"  {name}")
    running.process.send_signal(2)
    assert running.end() == 130, running.printed
    assert not living_in(place)
    assert not [run for run in Results(place / "results").runs() if run.done]
    if list(data.iterdir()):  # files are not deleted within five seconds on a busy disk
        assert "the next start removes what is left" in running.printed
        again = pgstrata(
            "run", "pg:17", "--workload", "loads", "--data-dir", data, "--set", "rows=1000",
            "--set", "steps=analyze",
        )  # fmt: skip
        assert again.returncode == 0, again.stdout + again.stderr
    assert not list(data.iterdir())


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        ("replicas = 1", "crash-recovery is of one server, without replicas"),
        ('config = "minimal.conf"', "standby-replay needs a log that a standby can replay"),
    ],
)
def test_what_recovery_does_not_go_with(place: Path, pgstrata: Program, variant: str, words: str) -> None:
    (place / "minimal.conf").write_text("wal_level = minimal\nmax_wal_senders = 0\n")
    (place / "c.toml").write_text(
        f'[[variants]]\nserver = "pg:17"\n{variant}\n[[workloads]]\nname = "loads"\n'
    )
    done = pgstrata("run", "c.toml")
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2 and words in output and "Traceback" not in output


def test_a_running_server_is_not_crashed(place: Path, pgstrata: Program, cluster: Cluster) -> None:
    done = pgstrata("run", f"dsn:{url(cluster)}", "--workload", "loads", "--scale", "quick")
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2 and "crash-recovery would crash a running server (dsn:)" in output
    done = pgstrata(
        "run", f"dsn:{url(cluster)}", "--workload", "loads", "--set", "rows=1000",
        "--set", "steps=copy index vacuum",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    with cluster.connect() as session:
        left = session.execute("SELECT datname FROM pg_database WHERE datname LIKE 'pgstrata%'").fetchall()
    assert not left
