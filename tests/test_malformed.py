"""Malformed inputs of every kind: an answer or one sentence, no traceback, no panic, no wait without end.

A few of each kind run with every test. `make slow` takes a thousand of those that meet the whole command
line or the driver, and PGSTRATA_MALFORMED (100,000) of files that meet their reader alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from pgstrata.cli import main
from pgstrata.driver.message import document
from pgstrata.driver.path import find_driver
from pgstrata.errors import UsageError
from pgstrata.fulltext import queries
from pgstrata.server.features import NEWEST
from pgstrata.server.find import prebuilt
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Step
from support.malformed import NUMBERS, TEXTS, in_bytes, in_file, in_json, in_lines, not_longer
from support.malformed_files import READERS, SLOW
from support.runs import make_campaign, sum_anew

FEW, MANY = 15, 1000
ENDINGS = {0, 1, 2, 3}

CAMPAIGN = """
name = "study"
results = "results"
repeats = 2
order = "interleaved"
slice_seconds = 0.02
rounds = 4
until = "verdict"
max_seconds = 60.0
margin = 0.02
server_cpus = [0]
seed = 1
base = "a"
engine = "auto"
profile = { seconds = 5, frequency = 99, event = "auto", call_graph = "fp", stack_bytes = 8192 }
waits = 10
servers = ["pg:17", "pg:12"]
configs = ["cached-by-pg", ["cached-by-pg", "a1"]]
[[variants]]
server = "pg:17"
label = "a"
config = ["default"]
env = { LD_PRELOAD = "/lib/x.so" }
initdb = ["--data-checksums"]
memory = "2GB"
[[workloads]]
name = "insert"
label = "i"
scale = "quick"
[workloads.options]
rows = 1000
clients = 2
steps = ["100:range", "100:point"]
seconds = 1.5
[[workloads]]
name = "sysbench"
[workloads.options]
tables = 2
rows = 1000
steps = ["point-query", "update-*"]
read_seconds = 1
[[workloads]]
name = "pgbench"
[workloads.options]
scale = "50%"
clients = [1, 2]
modes = "simple prepared"
rate = 100
define = { x = 1 }
[[workloads]]
name = "tpcds"
[workloads.options]
scale = 0.01
queries = "1-3 9"
"""

FRAGMENT = """
# a config file
shared_buffers = 25%RAM
max_wal_size = 8GB
wal_compression = lz4
checkpoint_timeout = '30min'
autovacuum_vacuum_cost_delay = 500us
synchronous_commit off
log_line_prefix = 'it''s %m \\n'
my.setting = 'x'
random_page_cost = 1.1
checkpoint_segments = 32
"""

SCRIPT = r"""
\set aid random(1, 100000 * :scale)
\set x debug(greatest(1, :aid % 7, 0x1f) * -1.5e3)
\set y CASE WHEN :x > 3 AND NOT false THEN 1 ELSE hash_fnv1a(5, :aid) END
\if :x > 2
BEGIN;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid \gset p_
\elif :y is null
SELECT 1 \; SELECT 2 \aset
\else
\sleep :x us
\startpipeline
UPDATE t SET b = 'it''s', c = $$ text $$ WHERE d = :y;
\endpipeline
\endif
END;
"""


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing outside of the test's own folder is read or changed, and nobody is asked over the network."""
    # So deep that "../../../" does not leave the test's folder: commands write where they are told to.
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(prebuilt, "published", lambda every=False: ["12.22", "17.11"])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("malformed") / "results"
    make_campaign(folder, seconds=2)
    return folder


Try = Callable[[random.Random], None]
Said = pytest.CaptureFixture[str]


def asked(capsys: Said, arguments: list[str], shown: str = "") -> str:
    """Runs one command line in this process and holds its ending against the rules."""
    what = shown or repr(arguments)[:500]
    with not_longer(what):
        code = main.invoke(arguments)
    captured = capsys.readouterr()
    assert code in ENDINGS, what
    both = captured.out + captured.err
    for word in ("Traceback", "defect", "panicked", "\x1b"):
        assert word not in both, f"{what}: {both[:2000]}"
    if code == 2:
        begins = ("error: ", "left out: ") if arguments else "Usage: "
        assert captured.err.startswith(begins), what
    assert len(captured.err) < 40_000, what
    return captured.err


def _campaigns(tmp_path: Path, capsys: Said) -> Try:
    file = tmp_path / "c.toml"

    def attempt(dice: random.Random) -> None:
        text = in_lines(dice, CAMPAIGN) if dice.random() < 0.7 else CAMPAIGN
        data = in_bytes(dice, text.encode()) if dice.random() < 0.5 else text.encode()
        file.write_bytes(data)
        asked(capsys, ["run", "c.toml", "--dry-run"], f"campaign {data!r}")

    return attempt


def _config_files(tmp_path: Path, capsys: Said) -> Try:
    file = tmp_path / "f.conf"

    def attempt(dice: random.Random) -> None:
        lines = FRAGMENT.split("\n")
        for _ in range(dice.choice((1, 3))):
            at = dice.randrange(len(lines))
            lines[at] = f"{lines[at].partition('=')[0]}= {dice.choice((*NUMBERS, *TEXTS))}"
        data = in_bytes(dice, "\n".join(lines).encode()) if dice.random() < 0.5 else "\n".join(lines).encode()
        file.write_bytes(data)
        version = dice.choice(("pg:9.6.0", "pg:12.0", "pg:17.0", "pg:18.0"))  # in no cache: none is asked
        asked(capsys, ["config", "explain", "f.conf", "--server", version], f"config file {data!r}")

    return attempt


def _driver(arguments: list[str], data: bytes, what: str) -> tuple[int, str]:
    # Memory is bounded, so that one input cannot take the machine with it.
    command = f"ulimit -v 4000000; exec {find_driver()} {' '.join(arguments)}"
    with tempfile.TemporaryFile() as output, not_longer(what):
        # Standard input stays open: its end would end the driver, maybe before it has said why it ends.
        with subprocess.Popen(["sh", "-c", command], stdin=PIPE, stdout=output, stderr=output) as done:
            assert done.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                done.stdin.write(data)
                done.stdin.flush()
            done.wait(100)
            with contextlib.suppress(BrokenPipeError):
                done.stdin.close()
        output.seek(0)
        text = output.read().decode(errors="replace")
    assert done.returncode in (0, 1, 2), f"{what}: {done.returncode} {text[:2000]}"
    assert "panicked" not in text and "memory allocation" not in text, f"{what}: {text[:2000]}"
    return done.returncode, text


def _scripts(tmp_path: Path, capsys: Said) -> Try:
    file = tmp_path / "s.sql"

    def attempt(dice: random.Random) -> None:
        words = SCRIPT.split(" ")
        for _ in range(dice.choice((0, 1, 3))):
            words[dice.randrange(len(words))] = dice.choice((*NUMBERS, *TEXTS))
        text = " ".join(words).encode("utf-8", "surrogatepass")
        data = in_bytes(dice, text)
        file.write_bytes(data)
        more = ["--extended"] * dice.randrange(2) + ["--allow-shell"] * dice.randrange(2)
        code, output = _driver(["check", str(file), *more], b"", f"script {data!r}")
        if code:
            assert json.loads(output.split("\n")[0])["event"] == "error", data

    return attempt


def _specs(tmp_path: Path, capsys: Said) -> Try:
    specs: list[Any] = []
    connection = {"host": str(tmp_path / "none"), "port": 5432, "user": "u", "database": "d"}
    workloads = [catalog.find(name) for name in sorted(catalog.names())]
    for workload in (w for w in workloads if "quick" in w.scales):  # the others have no steps without files
        name = workload.name
        more = {"query_count": 20} if name == "fulltext" else {"queries": "1-3"} if name == "tpcds" else {}
        options = workload.Options.model_validate({**workload.scales["quick"], **more})
        steps = [p for p in workload.phases(options, NEWEST) if isinstance(p, Step)]
        specs += [{"version": 1, "connection": connection, **document(step.spec())} for step in steps]

    def attempt(dice: random.Random) -> None:
        spec = in_json(dice, dice.choice(specs))
        where = spec.get("connection") if isinstance(spec, dict) else None
        if isinstance(where, dict) and not str(where.get("host")).startswith("/"):
            where["host"] = str(tmp_path)  # no name is looked up, and nobody is connected to
        text = json.dumps(spec).encode()
        data = in_bytes(dice, text) if dice.random() < 0.2 else text
        code, output = _driver(["run"], data + b"\n", f"spec {data[:5000]!r}")
        assert code != 0, data[:5000]
        assert json.loads(output.split("\n")[0])["event"] == "error", data[:5000]

    return attempt


def _runs(results: Path, tmp_path: Path, capsys: Said) -> Try:
    def attempt(dice: random.Random) -> None:
        copied = tmp_path / "results"
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(results, copied)
        run = dice.choice(sorted(copied.glob("*/*/*/1-*")))
        what = "run.json"
        if dice.random() < 0.6:
            record = in_json(dice, json.loads((run / "run.json").read_text()))
            (run / "run.json").write_text(json.dumps(record))
        else:
            names = sorted(p for p in run.rglob("*") if p.is_file())
            chosen = dice.choice(names)
            what = chosen.name
            in_file(dice, chosen)
            # Damage that the check sums do not show has to be borne, too.
            if dice.random() < 0.5 and all(p.is_file() and not p.is_symlink() for p in names):
                sum_anew(run)
        commands = [
            ["runs"],
            ["query", "select count(*), sum(rate), max(started) from steps join runs using (run_id)"],
            ["query", "select max(histogram), sum(operations), max(max_seconds) from series"],
            ["compare", "pg12.22.x10a", "pg17.11.x10a"],
            ["show", str(run)],
            ["check", "--base", "pg12.22.x10a", "--fail-slower", "3%"],
            ["study", "show"],
        ]
        wanted = dice.sample(commands, 2) + ([["report"]] if dice.random() < 0.05 else [])
        for command in wanted:
            asked(capsys, command, f"{command} after damage to {what} in {run}")

    return attempt


def _query_files(tmp_path: Path, capsys: Said) -> Try:
    file = tmp_path / "q.txt"

    def attempt(dice: random.Random) -> None:
        text = "\n".join(
            dice.choice(("backup & !dump", "a <-> b", *TEXTS)) for _ in range(dice.randrange(20))
        )
        data = in_bytes(dice, text.encode("utf-8", "surrogatepass") or b"x")
        file.write_bytes(data)
        with not_longer(f"query file {data!r}"):
            try:
                read_queries = queries.from_file(file, dice.choice((1, 5, 1000)))
            except UsageError as error:
                assert "no queries" in error.message
            else:
                assert all(q == q.strip() and q and "\0" not in q for q in read_queries), data
        arguments = [
            "run",
            "--server",
            "pg:17",
            "--workload",
            "fulltext",
            "--set",
            "queries=q.txt",
            "--dry-run",
        ]
        asked(capsys, [*arguments, "--set", "messages=1"], f"query file {data!r}")

    return attempt


COMMANDS: list[tuple[list[str], list[str], list[str]]] = [
    # what is always there, options with a value, options without
    (
        ["run", "--dry-run"],
        [
            "--server",
            "--config",
            "--workload",
            "--script",
            "--scale",
            "--set",
            "--results",
            "--name",
            "--repeats",
            "--base",
            "--data-dir",
            "--seed",
            "--waits",
        ],
        ["--profile", "--fresh", "--no-report"],
    ),
    (
        ["bench", "host=/nowhere"],
        ["-f", "-b", "-c", "-j", "-T", "-t", "-M", "-D", "-R", "-s", "-P", "--max-tries", "--random-seed"],
        ["-S", "-N", "-r", "-n", "--allow-shell"],
    ),
    (["report"], ["--results", "--campaign", "--base", "--out", "--threshold"], []),
    (["runs"], ["--results", "--campaign", "--format"], []),
    (["show"], ["--results", "--format"], []),
    (["query", "select 1"], ["--results", "--format"], []),
    (
        ["compare"],
        ["--results", "--campaign", "--step", "--margin", "--confidence", "--format"],
        ["--across-hosts"],
    ),
    (["check"], ["--base", "--fail-slower", "--other", "--results", "--confidence", "--format"], []),
    # A server that is not there: what is valid would begin to measure.
    (
        ["noise", "--server", "path:/nowhere"],
        [
            "--config",
            "--step",
            "--clients",
            "--rows",
            "--minutes",
            "--slice-seconds",
            "--data-dir",
            "--format",
        ],
        [],
    ),
    (["study", "show"], ["--results", "--campaign", "--step"], []),
    (["study", "next"], ["--out", "--results", "--campaign", "--step"], []),
    (["config", "explain"], ["--server", "--format"], []),
    (["workloads"], ["--format"], []),
    (["servers", "remove"], [], []),
    (["servers", "list"], ["--format"], []),
    (["init"], [], ["--force"]),
    ([], ["--version", "--help"], ["-h", "--nonsense"]),
]


def _options(results: Path, tmp_path: Path, capsys: Said) -> Try:
    shutil.copytree(results, "results")
    variants = ["pg12.22.x10a", "pg17.11.x10a", "pg:17", "insert", "l.i1", "results", "table", "json", "5"]

    def attempt(dice: random.Random) -> None:
        fixed, valued, plain = dice.choice(COMMANDS)
        arguments = list(fixed)
        for _ in range(dice.choice((0, 1, 1, 2, 4))):
            if valued and dice.random() < 0.85:
                arguments += [
                    dice.choice(valued),
                    dice.choice((*NUMBERS, *TEXTS, *variants, "a\0b", "\udcff")),
                ]
            elif plain:
                arguments.append(dice.choice(plain))
            else:
                arguments.append(dice.choice((*NUMBERS, *TEXTS, *variants)))
        if dice.random() < 0.3:
            arguments.insert(len(fixed), dice.choice((*TEXTS, *variants)))
        asked(capsys, arguments)

    return attempt


KINDS = ["campaign", "fragment", "script", "spec", "run", "query file", "options"]


def malformed(kind: str, count: int, results: Path, tmp_path: Path, capsys: Said) -> None:
    match kind:
        case "campaign":
            attempt = _campaigns(tmp_path, capsys)
        case "fragment":
            attempt = _config_files(tmp_path, capsys)
        case "script":
            attempt = _scripts(tmp_path, capsys)
        case "spec":
            attempt = _specs(tmp_path, capsys)
        case "run":
            attempt = _runs(results, tmp_path, capsys)
        case "query file":
            attempt = _query_files(tmp_path, capsys)
        case _:
            attempt = _options(results, tmp_path, capsys)
    for number in range(count):
        attempt(random.Random(f"{kind}/{number}"))


@pytest.mark.program
@pytest.mark.parametrize("kind", KINDS)
def test_a_few_malformed_inputs(kind: str, results: Path, tmp_path: Path, capsys: Said) -> None:
    malformed(kind, FEW, results, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_malformed_inputs(kind: str, results: Path, tmp_path: Path, capsys: Said) -> None:
    malformed(kind, MANY, results, tmp_path, capsys)


# --- readers alone ----------------------------------------------------------------------------

MANY_FILES = int(os.environ.get("PGSTRATA_MALFORMED", "100000"))
FEW_FILES = 300
MOST_MEMORY = 512 << 20


def read_malformed(kind: str, count: int, place: Path) -> None:
    """Reads so many malformed files of a kind. Memory grows by no more than `MOST_MEMORY` meanwhile."""
    attempt = READERS[kind](place)
    count = max(FEW, count // SLOW.get(kind, 1))
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew (proc(5))
    before = memory("VmRSS")
    for number in range(count):
        with not_longer(f"{kind} {number}"):
            attempt(random.Random(f"{kind}/{number}"))
    assert memory("VmHWM") - before <= MOST_MEMORY


def memory(name: str) -> int:
    return int(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0]) << 10


@pytest.mark.program
@pytest.mark.parametrize("kind", READERS)
def test_a_few_malformed_files(kind: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))
    (place / "files").mkdir(mode=0o755)
    read_malformed(kind, FEW_FILES, place / "files")


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("kind", READERS)
def test_many_malformed_files(kind: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))
    (place / "files").mkdir(mode=0o755)
    read_malformed(kind, MANY_FILES, place / "files")
