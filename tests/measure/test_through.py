"""What stands between driver and server: poolers, started for a run, and addresses of others."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from pgstrata.driver.client import Driver
from pgstrata.driver.spec import EngineChoice
from pgstrata.errors import ServerError, UsageError
from pgstrata.measure.step import driver_spec
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.cluster.foreign import ForeignCluster
from pgstrata.server.config.resolve import resolve
from pgstrata.server.connect.pooler import Through, check_through, find_through
from pgstrata.server.connect.poolers import KINDS, PORT, Place
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from pgstrata.workload.core.language import Headline, Role, Script, Sql, Step
from support.program import Program, Running

CANARY = "c4naryPa55"


@pytest.mark.parametrize(
    ("through", "settings", "managed", "sentence"),
    [
        ("pgpool2", {"port": "1"}, True, "port is pgstrata's own"),
        ("pgpool2", {"backend_port1": "1"}, True, "backend_port1 is pgstrata's own"),
        ("pgpool2:", {}, True, "is nothing that pgstrata can start"),
        ("pgcat", {}, True, "'pgcat' is nothing that pgstrata can start"),
        ("odyssey", {"pool": "often"}, True, "pool = often"),
        ("odyssey", {"storage_user": "x"}, True, "storage_user is pgstrata's own"),
        ("pgbouncer", {}, False, "only before servers that it starts itself"),
        ("host=h port=6432", {}, True, "`through` is an address"),
        (
            "host=h port=6432",
            {"pool_mode": "session"},
            False,
            "`pooler` is for a pooler that pgstrata starts",
        ),
        ("host=h prt=6432", {}, False, "no parameter prt"),
        ("pgbouncer", {"listen_port": "1"}, True, "listen_port is pgstrata's own"),
        ("pgbouncer", {"pool_mode": "often"}, True, "pool_mode = often"),
        ("pgbouncer", {"x = 1\ny": "2"}, True, "no name of a setting"),
        ("pgbouncer", {"server_reset_query": "x\nauth_type = any"}, True, "more than one line"),
    ],
)
def test_what_cannot_stand_between_is_refused(
    through: str, settings: Mapping[str, str], managed: bool, sentence: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check_through(through, settings, managed=managed)
    assert sentence in caught.value.message
    check_through("pgbouncer", {"pool_mode": "transaction"}, managed=True)
    check_through(f"postgresql://u:{CANARY}@h:6432/", {}, managed=False)


@pytest.mark.program
def test_a_pooler_that_is_not_there_or_is_something_else_is_named(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ServerError, match="does not run"):
        find_through(f"pgbouncer:{place}/nowhere", {})
    with pytest.raises(ServerError, match="is no pgbouncer"):
        find_through("pgbouncer:/bin/echo", {})
    with pytest.raises(ServerError, match="is no pgpool2"):
        find_through("pgpool2:/bin/echo", {})
    with pytest.raises(ServerError, match="is no odyssey"):
        find_through("odyssey:/bin/echo", {})
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setattr("pgstrata.server.connect.pooler.SYSTEM", str(place))
    for kind in KINDS.values():
        with pytest.raises(ServerError, match="the program is not there") as caught:
            find_through(kind.name, {})
        assert caught.value.hint.startswith(kind.install)
    address = find_through(f"postgresql://u:{CANARY}@h:6432/d", {})
    assert address and CANARY not in address.name and address.name.startswith("user=u")


@pytest.mark.parametrize(
    ("version", "settings", "keeps"),
    [
        ("1.18.0", {}, True),
        ("1.18.0", {"pool_mode": "transaction"}, False),
        ("1.21.0", {"pool_mode": "transaction"}, False),
        ("1.21.0", {"pool_mode": "transaction", "max_prepared_statements": "100"}, True),
        ("1.24.1", {"pool_mode": "transaction"}, True),
        ("1.24.1", {"pool_mode": "transaction", "max_prepared_statements": "0"}, False),
    ],
)
def test_prepared_statements_are_kept_where_pgbouncer_keeps_them(
    version: str, settings: Mapping[str, str], keeps: bool
) -> None:
    assert Through("pgbouncer", version, settings).prepares == keeps


def test_prepared_statements_are_kept_where_odyssey_is_told_to() -> None:
    assert Through("odyssey", "1.5.3", {}).prepares, "it keeps sessions"
    assert not Through("odyssey", "1.5.3", {"pool": "transaction"}).prepares
    kept = {"pool": "transaction", "pool_reserve_prepared_statement": "yes"}
    assert Through("odyssey", "1.5.3", kept).prepares


def test_settings_of_odyssey_go_where_they_belong(tmp_path: Path) -> None:
    settings = {"pool": "transaction", "pool_size": "3", "workers": "2", "pool_discard_query": 'SET x = "y"'}
    (file,) = KINDS["odyssey"].configure(Place(tmp_path, tmp_path / "s", 5433, "me", None), settings)
    program, _, route = Path(file).read_text().partition("listen {")
    assert "workers 2\n" in program and "pool" not in program and 'unix_socket_mode "0700"' in program
    assert "port 5433\n" in route and 'pool "transaction"\npool_size 3\n' in route
    assert 'pool_discard_query "SET x = \\"y\\""\n' in route


OPTIONS = 'scale = 1, seconds = 1, clients = 3, warmup = 0, builtin = "select-only"'


def campaign(place: Path, *variants: str, options: str = "") -> Path:
    tables = "".join(f'[[variants]]\nserver = "pg:17"\n{variant}\n' for variant in variants)
    file = place / "campaign.toml"
    file.write_text(
        f'{tables}[[workloads]]\nname = "pgbench"\noptions = {{ {OPTIONS}{options} }}\n', encoding="utf-8"
    )
    return file


def test_a_run_goes_through_pgbouncer_and_says_what_it_cost(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    modes = [f'through = "pgbouncer"\npooler = {{ pool_mode = "{m}" }}' for m in ("session", "transaction")]
    file = campaign(place, "", *modes, options=', modes = ["extended"]')
    # In turns: what each part of the step has seen is added up.
    file.write_text(f'order = "interleaved"\nslice_seconds = 0.02\n{file.read_text()}')
    done = pgstrata("run", file)
    assert done.returncode == 0, done.stdout + done.stderr
    direct, session, transaction = Results(place / "results").runs()
    assert [run.variant.partition(".pgbouncer")[2] for run in (direct, session, transaction)] == [
        "",
        "",
        "-transaction",
    ]
    assert direct.record.through is None and direct.record.steps[-1].pooler_cpu_seconds is None
    for run, mode in ((session, "session"), (transaction, "transaction")):
        through, step = run.record.through, run.record.steps[-1]
        assert through and through.name == "pgbouncer" and through.settings == {"pool_mode": mode}
        assert step.operations and step.rate and step.server_cpu_seconds
        assert step.pooler_cpu_seconds and step.pooler_cpu_seconds > 0
        assert step.headline.cpu_seconds is None
        assert any("a pooler does not tell" in note for note in step.notes)
    cpu = next((place / "results").rglob("cpu.csv")).read_text()
    assert "pooler [s]" in cpu.splitlines()[0]
    page = next((place / "results").rglob("*.html")).read_text()
    assert "through pgbouncer" in page


def on_this_machine(pooler: str) -> None:
    try:
        find_through(pooler, {})
    except ServerError as error:
        pytest.skip(error.message)


@pytest.fixture
def pgpool() -> None:
    on_this_machine("pgpool2")


@pytest.fixture
def odyssey() -> None:
    on_this_machine("odyssey")


def test_a_run_goes_through_odyssey_with_its_prepared_statements(
    place: Path, odyssey: None, pgstrata: Program, pg17: Server
) -> None:
    session, shared = (
        'through = "odyssey"\npooler = { workers = 2 }',
        'through = "odyssey"\npooler = { pool = "transaction", pool_size = 2KEEPS }',
    )
    keeps = ', pool_reserve_prepared_statement = "yes"'
    prepared = ', modes = ["prepared"]'
    forgetful = campaign(place, shared.replace("KEEPS", ""), options=prepared)
    done = pgstrata("run", forgetful)
    assert done.returncode == 2 and "prepares its statements, which odyssey" in done.stderr
    assert "pool_reserve_prepared_statement" in done.stderr
    done = pgstrata("run", campaign(place, session, shared.replace("KEEPS", keeps), options=prepared))
    assert done.returncode == 0, done.stdout + done.stderr
    runs = Results(place / "results").runs()
    assert [run.variant for run in runs] == ["pg17.11.odyssey", "pg17.11.odyssey-transaction"]
    for run in runs:
        through, step = run.record.through, run.record.steps[-1]
        assert through and through.name == "odyssey" and through.version[0].isdigit()
        assert step.operations and step.pooler_cpu_seconds and step.pooler_cpu_seconds > 0.01
    assert "through odyssey" in next((place / "results").rglob("*.html")).read_text()


def test_what_odyssey_does_not_understand_is_said_in_its_words(
    place: Path, odyssey: None, pgstrata: Program, pg17: Server
) -> None:
    done = pgstrata("run", campaign(place, 'through = "odyssey"\npooler = { no_such_thing = 1 }'))
    assert done.returncode == 1 and "odyssey ended while it started" in done.stderr, done.stderr
    # Releases differ in whether they name it, or the line.
    assert "no_such_thing" in done.stderr or "odyssey.conf:1 unknown parameter" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_goes_through_pgpool_with_its_prepared_statements(
    place: Path, pgpool: None, pgstrata: Program, pg17: Server
) -> None:
    pooler = 'through = "pgpool2"\npooler = { num_init_children = 4 }'
    done = pgstrata("run", campaign(place, pooler, options=', modes = ["prepared"]'))
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = Results(place / "results").runs()
    through, step = run.record.through, run.record.steps[-1]
    assert run.variant == "pg17.11.pgpool2"
    assert through and through.name == "pgpool2" and through.version[0].isdigit()
    assert through.settings == {"num_init_children": "4"}
    # Its processes, not only the one that started them.
    assert step.operations and step.pooler_cpu_seconds and step.pooler_cpu_seconds > 0.01
    assert "through pgpool2" in next((place / "results").rglob("*.html")).read_text()
    few = campaign(place, 'through = "pgpool2"\npooler = { num_init_children = 2 }')
    done = pgstrata("run", few, "--fresh")
    assert done.returncode == 2 and "pgpool2 has room for 2 sessions" in done.stderr
    assert "num_init_children = 3" in done.stderr


def test_pgpool_ends_with_its_processes_whatever_ends_pgstrata(
    place: Path, pgpool: None, pg17: Server
) -> None:
    file = campaign(place, 'through = "pgpool2"')
    file.write_text(file.read_text().replace("seconds = 1", "seconds = 60"))
    running = Running(place, ["run", str(file), "--data-dir", str(place)])
    running.wait_for(lambda: running.child("pgstrata-driver"))
    pooler = running.wait_for(lambda: running.child("pgpool"))
    its = [pooler, *pooler.children(recursive=True)]
    assert len(its) > 30
    os.kill(running.process.pid, signal.SIGKILL)
    running.end()
    _, alive = psutil.wait_procs(its, timeout=30)
    assert not alive


def test_a_pooler_that_drops_connections_fails_the_run_with_its_words(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    (place / "slow.sql").write_text("SELECT pg_sleep(5);\n")
    file = campaign(place, 'through = "pgbouncer"\npooler = { query_timeout = 1 }')
    text = file.read_text().replace(
        OPTIONS, 'scale = 1, seconds = 20, warmup = 0, clients = 1, scripts = ["slow.sql"]'
    )
    file.write_text(text)
    done = pgstrata("run", file)
    assert done.returncode == 1, done.stdout + done.stderr
    (run,) = Results(place / "results").runs()
    assert run.record.status == "failed" and run.record.error
    assert "query_timeout" in run.record.error.message or "query timeout" in run.record.error.message


def test_what_a_pooler_cannot_do_for_a_workload_is_said_before_anything_starts(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    through = 'through = "pgbouncer"\n'
    too_many = campaign(place, through)
    too_many.write_text(too_many.read_text().replace("clients = 3", "clients = 21"))
    done = pgstrata("run", too_many)
    assert done.returncode == 2 and "has 21 connections" in done.stderr
    assert "default_pool_size = 21" in done.stderr
    # READ ONLY for a session, and whose session that is changes with each transaction.
    (place / "look.sql").write_text("SELECT 1;\n")
    own_file = campaign(place, f'{through}pooler = {{ pool_mode = "transaction" }}')
    workload = own_file.read_text().replace('"pgbench"', '"custom"').replace(OPTIONS, "LOOK")
    look = 'steps = [{ scripts = ["look.sql"], clients = 1, reads_only = true, seconds = 1 }]'
    own_file.write_text(workload.replace("LOOK", look))
    done = pgstrata("run", own_file)
    assert done.returncode == 2 and "begins each connection with statements of its own" in done.stderr
    version = find_through("pgbouncer", {})
    assert version
    if not Through("pgbouncer", version.version, {"pool_mode": "transaction"}).prepares:
        file = campaign(
            place, f'{through}pooler = {{ pool_mode = "transaction" }}', options=', modes = ["prepared"]'
        )
        done = pgstrata("run", file)
        assert done.returncode == 2 and "prepares its statements, which pgbouncer" in done.stderr
    counted = pgstrata("count", campaign(place, through, ""))
    assert counted.returncode == 2 and "counts are of a backend" in counted.stderr, counted.stderr
    assert not (place / "results").exists() or not Results(place / "results").runs()


@pytest.mark.parametrize("name", ["pgbouncer", "pgpool2", "odyssey"])
def test_a_pooler_starts_again_with_its_server(place: Path, name: str, pg17: Server) -> None:
    on_this_machine(name)
    config = resolve([], pg17.version_num, 1 << 30)
    with Cluster(pg17, config, place / "c", through=find_through(name, {})) as cluster:
        cluster.create()
        for _ in range(3):
            cluster.start()
            assert cluster.pooler is not None
            with cluster.pooler.conninfo("postgres").connect() as session:
                assert session.execute("SELECT 1").fetchone() == (1,)
            cluster.stop()
            assert list(cluster.socket_dir.iterdir()) == []


@pytest.mark.parametrize("name", ["pgbouncer", "odyssey"])
def test_a_pooler_that_dies_ends_the_run_with_its_name(place: Path, name: str, pg17: Server) -> None:
    on_this_machine(name)
    file = campaign(place, f'through = "{name}"')
    file.write_text(file.read_text().replace("seconds = 1", "seconds = 60"))
    running = Running(place, ["run", str(file), "--data-dir", str(place)])
    running.wait_for(lambda: running.child("pgstrata-driver"))
    pooler = running.wait_for(lambda: running.child(name))
    os.kill(pooler.pid, signal.SIGKILL)
    assert running.end() == 1
    assert f"{name} died" in running.printed and "Traceback" not in running.printed


def test_the_driver_goes_to_the_address_before_a_running_server(place: Path, pg17: Server) -> None:
    config = resolve([], pg17.version_num, 1 << 30)
    with Cluster(pg17, config, place / "c", through=find_through("pgbouncer", {})) as cluster:
        cluster.create()
        cluster.start()
        assert cluster.pooler is not None and cluster.pooler.pid and cluster.pooled
        words = f"host={cluster.socket_dir} user=postgres dbname=postgres port="
        server = acquire(f"dsn:{words}{cluster.port}")
        address = find_through(f"{words}{PORT}", {})
        foreign = ForeignCluster(server, address)
        assert foreign.pooled and foreign.connection().port == PORT
        with foreign.connect() as session:
            assert session.info.port == cluster.port
        # A driver that ends as it should asks nobody to cancel anything.
        role = Role("q", 2, [Script(Sql("SELECT 1", name="one"))], operations=5)
        step = Step("short", [role], Headline("q", "operations", "queries/s"), seconds=None)
        engines: list[EngineChoice] = ["io_uring", "blocking"]
        for engine in engines * 3:
            with Driver(driver_spec(step, foreign.connection(), 1, engine)) as driver:
                driver.ready()
                driver.start()
                list(driver.events())
                driver.close()
        assert cluster.pooler and "cancel request" not in cluster.pooler.log_tail(1000)
        pooler = cluster.pooler.pid
        cluster.stop("fast")
        assert cluster.pooler.pid is None and not psutil.pid_exists(pooler)
        with pytest.raises(ServerError, match="nobody answers there"):
            foreign.connection()
