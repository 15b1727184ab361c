"""A server on which HammerDB and pgstrata do TPROC-C in turns: both databases, both clients."""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from tproc_c_calls import HAMMERDB, OURS

from pgstrata.driver.client import Driver
from pgstrata.driver.events import Failure
from pgstrata.errors import DriverError, ServerError
from pgstrata.measure.run.settle import run_admin
from pgstrata.measure.step import driver_spec
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import ConfigFile, resolve
from pgstrata.server.find.acquire import acquire
from pgstrata.server.system.account import server_account
from pgstrata.tproc_c.schema import COLUMNS
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Admin, Step, Work, WorkContext

Connection = psycopg.Connection[Any]

CONFIG = """
shared_buffers = 4GB
max_wal_size = 16GB
checkpoint_timeout = 3600s
synchronous_commit = off
autovacuum = off
max_connections = 50
shared_preload_libraries = pg_stat_statements
pg_stat_statements.track = none
"""

MODULES = {
    "ticklecharts-3.2.tm": "package provide ticklecharts 3.2\n",
    "tpcccommon-1.1.tm": "set file [open {hammerdb}/modules/tpcccommon-1.0.tm]\n"
    "eval [string map {{{{tpcccommon 1.0}} {{tpcccommon 1.1}}}} [read $file]]\nclose $file\n"
    "proc ::pg_notice_handler args {{}}\n",
}
"""What Debian lacks: a library that draws charts, and a command that prints notices."""

BUILD = """
diset tpcc pg_count_ware 1
diset tpcc pg_num_vu 1
buildschema
"""

RUN = """
diset tpcc pg_driver timed
diset tpcc pg_rampup 10000
diset tpcc pg_duration 1
diset tpcc pg_total_iterations 1000000000
diset tpcc pg_vacuum false
diset tpcc pg_allwarehouse false
loadscript
vuset vu 1
vuset logtotemp 0
vucreate
vurun
"""
"""A ramp-up without end: the caller stops and continues the process, and measures. One virtual user:
threads of Debian's libpgtcl spoil each other's statements, so each user is a process of its own."""

CONNECT = """
dbset db pg
dbset bm TPC-C
diset connection pg_host {host}
diset connection pg_port {port}
diset connection pg_sslmode disable
diset tpcc pg_superuser postgres
diset tpcc pg_defaultdbase postgres
diset tpcc pg_user hammerdb
diset tpcc pg_dbase hammerdb
diset tpcc pg_storedprocs true
"""


def tcl(arguments: argparse.Namespace, cluster: Cluster, text: str, folder: Path) -> subprocess.Popen[bytes]:
    """Starts HammerDB with a script, as the account of servers where this is root."""
    file = folder / "script.tcl"
    values = {"host": cluster.socket_dir, "port": cluster.port, **vars(arguments)}
    file.write_text((CONNECT + text).format(**values))
    for name, module in MODULES.items():
        (folder / name).write_text(module.format(**values))
    account = server_account()
    who: dict[str, Any] = {}
    if account is not None:
        who = {"user": account.uid, "group": account.gid, "extra_groups": account.groups}
        for path in (folder, file):
            os.chown(path, account.uid, account.gid)
    with (folder / "hammerdb.log").open("ab") as log:
        return subprocess.Popen(
            ["tclsh", "./hammerdbcli", "auto", str(file)],
            cwd=arguments.hammerdb,
            env={
                "PATH": os.environ["PATH"],
                "TMP": str(folder),
                "HOME": str(folder),
                "TCL8_6_TM_PATH": str(folder),
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            **who,
        )


def built(arguments: argparse.Namespace, cluster: Cluster, folder: Path) -> None:
    """Lets HammerDB make its tables with one warehouse, and copies it to all others. Raises SystemExit where
    that failed."""
    tcl(arguments, cluster, BUILD, folder).wait(timeout=3600)
    try:
        with cluster.connect(HAMMERDB) as connection:
            rows = numbers_of(connection, "SELECT count(*) FROM warehouse, pg_proc WHERE proname = 'slev'")
            for table in COLUMNS:
                connection.execute(copied(connection, table, arguments.warehouses).encode())
    except (psycopg.Error, ServerError) as error:
        raise SystemExit(f"HammerDB has not made its tables: {error}\n{log_end(folder)}") from error
    if rows != [1]:
        raise SystemExit(f"HammerDB has not made its procedures:\n{log_end(folder)}")


def copied(connection: Connection, table: str, warehouses: int) -> str:
    """Returns the statement that copies the rows of warehouse 1 to all others."""
    query = f"SELECT attname FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0"
    names = numbers_of(connection, f"{query} AND NOT attisdropped ORDER BY attnum")
    if not any(name.endswith("w_id") for name in names):
        return "SELECT 1"
    values = ", ".join("w" if name.endswith("w_id") else name for name in names)
    rows = f"SELECT {values} FROM {table}, generate_series(2, {warehouses}) w"
    return f"INSERT INTO {table} ({', '.join(names)}) {rows}"


def steps(
    arguments: argparse.Namespace,
    cluster: Cluster,
    only: Sequence[str] = (),
    *,
    code: str = "functions",
    database: str = OURS,
) -> Step:
    """Loads our tables as a campaign would, and returns the step that is measured. only: names of phases that
    are done, where not all."""
    workload = catalog.find("tproc-c")
    options = {
        "warehouses": arguments.warehouses,
        "clients": arguments.users,
        "code": code,
        "conditions": "none",
        "seconds": 86_400,
        "warmup": 0,
    }
    context = WorkContext(lambda **_: cluster.connect(database), lambda text: None, lambda: None)
    for phase in workload.phases(workload.Options.model_validate(options), cluster.server.features):
        if isinstance(phase, Step) and phase.measured:
            return phase
        if only and getattr(phase, "name", "") not in only:
            continue
        if isinstance(phase, Step):
            loaded(cluster, phase, database)
        elif isinstance(phase, Admin):
            run_admin(cluster, phase, database)
        elif isinstance(phase, Work):
            phase.do(context)
    raise SystemExit("the workload has no step")


def loaded(cluster: Cluster, step: Step, database: str) -> None:
    """Runs a step of the load to its end."""
    with Driver(driver_spec(step, cluster.connection(database), 1, "auto")) as driver:
        driver.ready()
        driver.start()
        for event in driver.events():
            if isinstance(event, Failure):
                raise SystemExit(event.message)
        driver.close()


def cpu_seconds(files: Iterable[Path]) -> float:
    """Returns the CPU of threads by their files `schedstat`."""
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


@dataclass
class Side:
    """A client that is stopped but in its slices. pids: of its processes; database: its rows; before: process
    ids of connections that are not its own; folder: where HammerDB's output is."""

    pids: Sequence[int]
    database: Connection
    before: Sequence[int] = ()
    folder: Path | None = None

    def __post_init__(self) -> None:
        self.backends = [pid for pid in backends(self.database) if pid not in self.before]

    def orders(self) -> int:
        """Returns how many orders have been placed, in the districts' own numbers."""
        return int(numbers_of(self.database, "SELECT sum(d_next_o_id) FROM district")[0])

    def connections(self) -> int:
        """Returns how many connections of the client execute transactions."""
        texts = numbers_of(self.database, self._activity("query"))
        return sum("_transaction" in text or text.startswith("call ") for text in texts)

    def _activity(self, column: str) -> str:
        pids = ", ".join(map(str, self.backends))
        return f"SELECT {column} FROM pg_stat_activity WHERE pid IN ({pids})"

    def last_words(self) -> str:
        """Returns the end of what HammerDB has printed."""
        return "" if self.folder is None else log_end(self.folder)

    def client_seconds(self) -> float:
        """Returns the CPU of all threads of the client."""
        tasks = (Path(f"/proc/{pid}/task").glob("*/schedstat") for pid in self.pids)
        return cpu_seconds(file for files in tasks for file in files)

    def server_seconds(self) -> float:
        """Returns the CPU of the server processes of the client's connections."""
        return cpu_seconds(Path(f"/proc/{pid}/schedstat") for pid in self.backends)

    def go(self) -> None:
        """Continues the client."""
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)

    def stop(self) -> None:
        """Stops the client, and waits until its transactions have ended in the server."""
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)
        for _ in range(200):
            if set(numbers_of(self.database, self._activity("state"))) == {"idle"}:
                return
            time.sleep(0.01)


@contextmanager
def working(
    arguments: argparse.Namespace, cluster: Cluster, of_driver: Mapping[str, tuple[str, Step]], folder: Path
) -> Iterator[dict[str, Side]]:
    """All clients connected and stopped; afterwards they have ended. of_driver: databases and steps of our
    driver by side."""
    with ExitStack() as stack:
        sides = {
            name: stack.enter_context(driving(cluster, database, step))
            for name, (database, step) in of_driver.items()
        }
        rows = stack.enter_context(cluster.connect(HAMMERDB))
        before = backends(rows)
        processes = connected(arguments, cluster, rows, folder)
        stack.callback(end, processes)
        (theirs := Side([process.pid for process in processes], rows, before, folder)).stop()
        yield {HAMMERDB: theirs, **sides}


@contextmanager
def driving(cluster: Cluster, database: str, step: Step) -> Iterator[Side]:
    """Our driver connected and stopped; afterwards it has ended."""
    spec = driver_spec(step, cluster.connection(database), random.getrandbits(32), "auto")
    with cluster.connect(database) as rows, Driver(spec, silence=86_400) as driver:
        before = backends(rows)
        driver.ready()
        driver.start()
        threading.Thread(target=heard, args=[driver], daemon=True).start()
        (side := Side([driver.pid], rows, before)).stop()
        try:
            yield side
        finally:
            driver.kill()


def backends(rows: Connection) -> list[int]:
    """Returns the process ids of all other connections to a database."""
    query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    return numbers_of(rows, f"{query} AND backend_type = 'client backend' AND pid <> pg_backend_pid()")


def heard(driver: Driver) -> None:
    """Reads what our client says, and prints its failures, until it is ended."""
    with suppress(DriverError, OSError, ValueError):  # its end closes what is read here
        for event in driver.events():
            if isinstance(event, Failure):
                print(event.message, flush=True)


def connected(
    arguments: argparse.Namespace, cluster: Cluster, rows: Connection, folder: Path
) -> list[subprocess.Popen[bytes]]:
    """Starts HammerDB's virtual users, again until no two have drawn the same warehouse, as ours never do.
    Raises SystemExit where they place no orders."""
    placed = "SELECT d_w_id, sum(d_next_o_id) FROM district GROUP BY 1"
    for _ in range(20):
        before = dict(rows.execute(placed).fetchall())
        processes = []
        for number in range(arguments.users):
            (user_folder := folder / str(number)).mkdir(exist_ok=True)
            processes.append(tcl(arguments, cluster, RUN, user_folder))
        used: list[int] = []
        for _ in range(600):
            used = [w for w, orders in rows.execute(placed).fetchall() if orders > before[w] + 20]
            if len(used) >= arguments.users:
                return processes
            time.sleep(0.1)
        end(processes)
        if not used:
            break
    raise SystemExit(f"HammerDB does not work:\n{log_end(folder)}")


def end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Ends processes at once."""
    for process in processes:
        process.kill()
        process.wait()


def log_end(folder: Path) -> str:
    """Returns the end of what HammerDB has printed."""
    return "\n".join(file.read_text(errors="replace")[-2000:] for file in folder.rglob("hammerdb.log"))


def numbers_of(connection: Connection, query: str) -> list[Any]:
    """Returns the first column of a query."""
    return [row[0] for row in connection.execute(query.encode()).fetchall()]


@contextmanager
def serving(arguments: argparse.Namespace) -> Iterator[tuple[Cluster, Path]]:
    """A server with both databases, loaded or copied from --keep, and a folder for HammerDB."""
    server = acquire(arguments.server)
    config = resolve([ConfigFile("benchmark", CONFIG, None)], server.version_num, 16 << 30)
    kept = arguments.keep if arguments.keep and arguments.keep.exists() else None
    with (
        tempfile.TemporaryDirectory(prefix="pgs", dir="/var/tmp") as folder,
        Cluster(server, config, Path(folder) / "c") as cluster,
    ):
        Path(folder).chmod(0o755)  # as root the server runs as another account, which has to get into it
        (scratch := Path(folder) / "hammerdb").mkdir()
        cluster.create(copy_of=kept)
        cluster.start()
        if kept is None:
            load(arguments, cluster, scratch)
        yield cluster, scratch


def load(arguments: argparse.Namespace, cluster: Cluster, scratch: Path) -> None:
    """Fills both databases, and keeps the data folder where that is asked for."""
    built(arguments, cluster, scratch)
    with cluster.connect() as admin:
        admin.execute("CREATE DATABASE ours")
    steps(arguments, cluster)
    for name in (HAMMERDB, OURS):
        with cluster.connect(name) as admin:
            admin.execute("CREATE EXTENSION pg_stat_statements")
            admin.execute("VACUUM ANALYZE")
    with cluster.connect() as admin:
        admin.execute("CHECKPOINT")
    if arguments.keep:
        assert cluster.data_folder.path is not None
        cluster.stop()
        subprocess.run(["cp", "-a", str(cluster.data_folder.path), str(arguments.keep)], check=True)
        cluster.start()
