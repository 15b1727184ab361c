"""Every command of pgstrata as a small command line, with the files that it needs.

Studies that disturb a command (by signals, another user, a full disk) draw from this list, so a new command
is studied as soon as it stands here. A test compares the list with the commands of the program.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import resolve
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from support.bench import TABLES, url
from support.interleaved import text as interleaved
from support.logs import MS, START, log, plain
from support.program import environment
from support.runs import make_campaign
from support.tree import commit, git, serving

RESULTS = "results"
"""Folder of commands that measure, relative to the workshop; `SEEN` is that of commands that read."""
SEEN = "seen"

PGBENCH = """
data_dir = "data"
[[variants]]
server = "{server}"
[[workloads]]
name = "pgbench"
[workloads.options]
scale = 1
builtin = ["select-only"]
modes = ["simple"]
clients = [2]
seconds = 2
"""
REPLAY = """
data_dir = "data"
servers = ["{server}"]
[[workloads]]
name = "replay"
options = {{ file = "app.traffic", setup = ["app.sql"], speed = 1, seconds = 3 }}
"""
TPCDS = """
data_dir = "data"
servers = ["{server}"]
[[workloads]]
name = "tpcds"
options = {{ scale = 0.01, queries = "3 7", streams = 1, time_limit = 60 }}
"""
DELAYED = "SELECT pg_sleep(current_setting('test.delay')::float8);\n"
DELAYED_SETS = (
    *('scripts=["delay.sql"]', "builtin=[]", "modes=simple", "clients=1", "warmup=0", "seconds=1"),
    *("initialise=false", "vacuum=false", "checkpoint=false", "reads_only=true"),
)
WATCH = """
repository = "repo"
branch = "v2"
since = "v1"
data_dir = "data"
[[series]]
workload = "pgbench"
steps = ["delay-simple-c1"]
by = "rate"
seconds = 1
set = {sets}
"""
DUMP = """
CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL);
INSERT INTO accounts SELECT i, 1000 FROM generate_series(1, 2000) i;
CREATE TABLE notes (id int PRIMARY KEY, note text);
COPY notes (id, note) FROM stdin;
1\t{secret}
2\tplain
\\.
"""


@dataclass(frozen=True)
class Command:
    """A command line that works in a workshop.

    seconds: about how long it takes on an idle machine; codes: exit codes of a whole run; fresh: needs an
    empty cache; measures: starts servers.
    """

    name: str
    arguments: tuple[str, ...]
    seconds: float
    codes: tuple[int, ...] = (0,)
    fresh: bool = False
    measures: bool = False
    env: dict[str, str] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """The command's name on the command line, with that of its group."""
        words = [word for word in self.arguments[:2] if word[:1] != "-" and word.replace("-", "").isalpha()]
        return " ".join(words[:2] if words[0] in GROUPS else words[:1])


GROUPS = ("servers", "data", "fleet", "config", "study")


@dataclass(frozen=True)
class Workshop:
    """A folder in which every command of `commands` works. bench: connection URL of a running server."""

    place: Path
    commands: tuple[Command, ...]

    def named(self, name: str) -> Command:
        (command,) = (command for command in self.commands if command.name == name)
        return command

    def only(self, *names: str) -> Workshop:
        """The same with these commands only."""
        return replace(self, commands=tuple(map(self.named, names)))

    def copy_to(self, folder: Path) -> None:
        """Copies the files of the commands, which name them by relative paths."""
        shutil.copytree(self.place, folder, symlinks=True, ignore=shutil.ignore_patterns("c"))


def spec(server: Server) -> str:
    """The server by its folder, so that an empty cache serves, too."""
    assert server.bin_dir is not None
    return f"path:{server.bin_dir.parent}"


@contextmanager
def workshop(place: Path, server: Server, secret: str = "nothing") -> Iterator[Workshop]:
    """Writes the files of all commands into `place` and keeps a server for `bench` meanwhile. secret: a value
    in the rows of the dump and in the statements of the log."""
    name = spec(server)
    _write_files(place, name, secret)
    _write_repository(place, server)
    with running(server, place) as cluster, silent_proxy() as proxy:
        with cluster.connect() as connection:
            connection.execute(TABLES)
        old = spec(acquire("pg:13"))
        yield Workshop(place, tuple(commands_of(name, old, url(cluster), proxy)))


@contextmanager
def running(server: Server, place: Path) -> Iterator[Cluster]:
    """A server below `place`."""
    with Cluster(server, resolve([], server.version_num, 1 << 30), place / "c") as cluster:
        cluster.create()
        cluster.start()
        yield cluster


@contextmanager
def silent_proxy() -> Iterator[str]:
    """The address of a proxy that accepts connections and says nothing: a download waits for it."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def _write_files(place: Path, server: str, secret: str) -> None:
    campaigns = {
        "one": PGBENCH.format(server=server),
        "windows": interleaved(server, ["point-query"], slice_=0.02, seconds=2),
        "rounds": interleaved(server, ["update-index"]),
        "frozen": interleaved(
            server, ["update-index"], more='turns = "frozen"\nwindow_seconds = 0.2', writes=2
        ),
        "replayed": REPLAY.format(server=server),
        "tpcds": TPCDS.format(server=server),
        "fleet": interleaved(
            server, ["point-query"], seconds=1, more="margin = 0.9\n[fleet]\nqualify_seconds = 2"
        ),
    }
    for name, text in campaigns.items():
        (place / f"{name}.toml").write_text(f'name = "{name}"\n{text}')
    for name, delay in (("quick", 0.002), ("slow", 0.016)):
        (place / f"{name}.conf").write_text(f"test.delay = '{delay}'\n")
    (place / "delay.sql").write_text(DELAYED)
    (place / "watch.toml").write_text(WATCH.format(sets=json.dumps(DELAYED_SETS)))
    (place / "hosts.txt").write_text("192.0.2.1\n")  # of RFC 5737: no machine has it
    (place / "queries").mkdir()
    (place / "queries/sleep.sql").write_text("select pg_sleep(0.2)\n")
    (place / "app.sql").write_text(DUMP.format(secret=secret))
    texts = (
        "SELECT balance FROM accounts WHERE id = {n}",
        f"SELECT id FROM notes WHERE note = '{secret}'",
    )
    statements = (
        plain(START + n * 20 * MS, 0.5, texts[n % 10 == 0].format(n=1 + n % 2000)) for n in range(50_000)
    )
    (place / "app.csv").write_text(log(statements))
    # A log of pgbench: client, transaction, microseconds, script, time.
    lines = (
        f"{n % 4} {n // 4 + 1} {500 + n % 90} 0 {1_790_000_000 + n // 500} {n % 500 * 2000}\n"
        for n in range(50_000)
    )
    (place / "pgbench_log.1").write_text("".join(lines))
    (place / "short.csv").write_text("".join((place / "app.csv").read_text().splitlines(True)[:300]))
    for name in ("app.sql", "app.csv", "short.csv"):
        (place / name).chmod(0o600)
    make_campaign(place / SEEN, repeats=2, seconds=10)
    for arguments in (
        ("capture", "short.csv", "-o", "app.traffic"),
        ("bundle", "--results", SEEN, "-o", "seen.pgstrata"),
    ):
        command = [sys.executable, "-m", "pgstrata", *arguments]
        subprocess.run(command, cwd=place, env=environment(), check=True, capture_output=True)


def _write_repository(place: Path, server: Server) -> None:
    """Two commits of a tree that installs `server`, tagged v1 and v2; the second one delays statements."""
    folder = serving(place / "repo", server, "test.delay = '0.002'")
    git(folder, "tag", "v1")
    (folder / "extra.conf").write_text("test.delay = '0.016'\n")
    (place / "slow.patch").write_text(git(folder, "diff") + "\n")
    commit(folder, "slower")
    git(folder, "tag", "v2")
    shutil.copytree(folder, place / "tree", ignore=shutil.ignore_patterns(".git"))


def _sets(values: Sequence[str]) -> list[str]:
    return [word for value in values for word in ("--set", value)]


def commands_of(server: str, old: str, address: str, proxy: str) -> Iterator[Command]:
    """Yields all commands. server, old: specs; address: URL of a running server; proxy: as `silent_proxy`."""
    data = ("--data-dir", "data")
    for name, seconds in (
        *(("one", 6.0), ("windows", 7.0), ("rounds", 12.0), ("frozen", 9.0), ("replayed", 8.0)),
        ("tpcds", 12.0),
    ):
        yield Command(f"run {name}", ("run", f"{name}.toml"), seconds, measures=True)
    yield Command(
        "compare-queries",
        ("compare-queries", "--server", f"{old},{server}", "queries", "--max-seconds", "4", *data),
        8.0,
        measures=True,
    )
    yield Command("demo", ("demo", "--results", RESULTS, *data), 100.0, measures=True)
    yield Command("run fleet", ("run", "fleet.toml", "--fleet", "local:2"), 25.0, measures=True)
    count = ("count", "--server", server, "--workload", "pgbench", *_sets(['builtin=["select-only"]']))
    yield Command(
        "count",
        (*count, "--engine", "valgrind", "--starts", "2", "--most-starts", "2", *data),
        30.0,
        measures=True,
    )
    search = (
        *("--workload", "pgbench", "--step", "delay-simple-c1", "--seconds", "1", "--no-profile"),
        *("--other-load", "100%", *_sets(DELAYED_SETS), *data),
    )
    yield Command(
        "bisect configs",
        (
            "bisect",
            "--server",
            server,
            "--configs",
            "./quick.conf,./slow.conf",
            *search,
            "--results",
            RESULTS,
        ),
        15.0,
        measures=True,
    )
    yield Command(
        "bisect commits",
        (
            *("bisect", "--repo", "repo", "--good", "v1", "--bad", "v2", *search),
            *("--config", "default", "--results", RESULTS),
        ),
        20.0,
        measures=True,
    )
    yield Command(
        "watch",
        ("watch", "watch.toml", "--once", "--results", f"{RESULTS}/watch"),
        25.0,
        codes=(0, 1, 3),
        measures=True,
    )
    patched = ("patch", "slow.patch", "--repo", "repo", "--base", "v1", "--workload", "pgbench")
    yield Command(
        "patch",
        (
            *(*patched, "--step", "delay-simple-c1", "--max-seconds", "6", "--other-load", "100%"),
            *(*_sets(DELAYED_SETS[:-1]), *data, "--config", "default", "--results", RESULTS),
        ),
        20.0,
        codes=(1, 3),
        measures=True,
    )
    yield Command(
        "upgrade",
        (
            *("upgrade", "--from", old, "--to", server, "--dump", "app.sql"),
            *("--log", "short.csv", "--rounds", "2", "--speed", "0", *data, "--results", RESULTS),
        ),
        15.0,
        codes=(0, 3),
        measures=True,
    )
    noise = ("noise", "--server", server, "--rows", "500", "--other-load", "100%", "--minutes", "0.08")
    yield Command(
        "noise",
        (*noise, "--slice-seconds", "0.25", *data, "--results", RESULTS),
        10.0,
        measures=True,
    )
    yield Command("bench", ("bench", "-c", "4", "-T", "6", "-P", "1", address), 7.0)
    yield Command("capture", ("capture", "app.csv", "-o", "new.traffic"), 4.0)
    yield Command("capture shown", ("capture", "app.traffic"), 0.6)
    yield Command("report", ("report", SEEN, "--out", f"{RESULTS}/report"), 4.0)
    pair = ("pg12.22.x10a", "pg17.11.x10a")
    yield Command("compare", ("compare", *pair, "--results", SEEN), 1.5)
    yield Command(
        "check", ("check", "--base", pair[0], "--fail-slower", "3%", "--results", SEEN), 1.5, codes=(0, 1, 3)
    )
    long = "select count(*) from range(300000) a, range(300000) b where a.range + b.range = 7"
    yield Command("query", ("query", long, "--results", SEEN), 30.0)
    yield Command("bundle", ("bundle", "-o", "new.pgstrata", "--results", SEEN), 3.0)
    yield Command("verify", ("verify", "seen.pgstrata"), 2.0)
    yield Command("site", ("site", f"{RESULTS}/site", "--results", SEEN), 5.0)
    # It would serve until it is interrupted (tests/watch/test_serve.py): here what it refuses.
    yield Command("serve", ("serve", "--results", SEEN, "--address", "192.0.2.1"), 1.0, codes=(1, 2))
    # So would this (tests/traffic/record).
    unused = ("--to", "postgresql://127.0.0.1:1", "--listen", "192.0.2.1:1", "-o", "new-recording")
    yield Command("record", ("record", *unused), 1.0, codes=(2,))
    # An assistant speaks to it until it leaves (tests/assist).
    yield Command("mcp", ("mcp", "--max-seconds", "1e9"), 1.0, codes=(2,))
    yield Command("import", ("import", "pgbench_log.1", "--variant", "pg17", "--results", RESULTS), 2.0)
    yield Command(
        "export-statistics",
        ("export-statistics", address, "-o", "new-statistics.sql"),
        2.0,
        codes=(0, 2),
    )
    yield Command("completion", ("completion", "bash"), 0.5)
    yield Command("schema", ("schema", "compare"), 0.7)
    yield Command("runs", ("runs", "--results", SEEN), 1.0)
    yield Command("show", ("show", "1", "--results", SEEN), 1.0, codes=(0, 2))
    yield Command("study show", ("study", "show", "--results", SEEN), 1.0, codes=(0, 1, 2))
    yield Command("study next", ("study", "next", "--results", SEEN), 1.0, codes=(0, 1, 2))
    yield Command("init", ("init", "new.toml", "--force"), 0.5)
    yield Command("doctor", ("doctor", *data), 2.0)
    yield Command("workloads", ("workloads",), 0.7)
    yield Command("steps", ("steps", "insert"), 0.7)
    yield Command("config list", ("config", "list"), 0.7)
    yield Command("config explain", ("config", "explain", "default", "--server", server), 0.7)
    yield Command("data list", ("data", "list"), 0.7)
    yield Command("data remove", ("data", "remove", "nothing"), 0.7, codes=(0, 1, 2))
    yield Command("servers list", ("servers", "list"), 0.7)
    yield Command("servers failed", ("servers", "failed", "nothing"), 0.7, codes=(0, 1, 2))
    yield Command("servers remove", ("servers", "remove", "9.9"), 0.7, codes=(1, 2))
    proxies = dict.fromkeys(("HTTPS_PROXY", "https_proxy", "http_proxy", "ALL_PROXY"), proxy)
    yield Command("servers fetch", ("servers", "fetch", "17"), 8.0, codes=(1,), fresh=True, env=proxies)
    yield Command(
        "servers build", ("servers", "build", "src:tree", "--build", "o2"), 4.0, fresh=True, measures=True
    )
    yield Command("fleet status", ("fleet", "status"), 1.5, codes=(0, 1, 2))
    yield Command("fleet up", ("fleet", "up", "ssh:hosts.txt"), 2.0, codes=(1, 2))
    yield Command("fleet down", ("fleet", "down"), 1.0, codes=(0, 1, 2))


def shown_names() -> set[str]:
    """The commands that the program lists, those of groups with the name of their group."""
    code = (
        "import json, typer.main; from pgstrata.cli.main import app; c = typer.main.get_command(app);"
        "print(json.dumps([f'{n} {m}' if hasattr(s, 'commands') else n for n, s in c.commands.items()"
        " for m in getattr(s, 'commands', {'': 0})]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))
