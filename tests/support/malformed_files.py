"""Malformed files for every reader: one try writes a file and reads it, and fails for any error but ours.

A name of `READERS` is a kind of file; its function makes what it needs once, in a folder of its own.
"""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import random
import re
import struct
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pgstrata.campaign.file.reading import read_campaign
from pgstrata.count.measure.callgrind import own_processes, read_part
from pgstrata.errors import LONGEST, PgstrataError
from pgstrata.files.bounded import BoundError
from pgstrata.fulltext.corpus import sources
from pgstrata.imports.recognize import named, read_files
from pgstrata.imports.storing import runs_of
from pgstrata.judge.stacks import callers_in, in_samples, stacks_in, where_they_end
from pgstrata.server.config.conf_file import ConfigFile, assignments, with_included
from pgstrata.server.config.resolve import explain
from pgstrata.source.patch import apply_patch
from pgstrata.store import Results, histogram
from pgstrata.store.read import Run, read_run
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import Captured
from pgstrata.traffic.logs.files import find
from pgstrata.traffic.synthetic import files as statistics
from pgstrata.vector.data import VectorData
from pgstrata.workload.custom import files as setup_files
from support.captured import mutated
from support.foreign_results import of_every_format
from support.logs import FORMS, START, Told, extended, log, plain
from support.malformed import NUMBERS, TEXTS, in_bytes, in_json, in_lines
from support.runs import make_campaign, sum_anew

Try = Callable[[random.Random], None]


@contextmanager
def refused(what: Callable[[], str]) -> Iterator[None]:
    """Lets pass what a reader says of a file: short printable lines, one for each problem.

    what: tells of the input.
    """
    try:
        yield
    except PgstrataError as error:
        for line in (*error.message.split("\n"), error.hint):
            assert line.isprintable() and len(line) < LONGEST + 100, f"{what()}: {line!r}"
        assert error.message, what()
    except BoundError as error:
        assert str(error).isprintable(), f"{what()}: {error!s}"
    except AssertionError:
        raise
    except BaseException as error:
        error.add_note(what())
        raise


def shown(data: bytes) -> Callable[[], str]:
    return lambda: f"the file {data[:3000]!r}"


def in_packed(dice: random.Random, data: bytes) -> bytes:
    """Damage before or after packing, or what inflates to much."""
    match dice.randrange(20):
        case 0:
            return gzip.compress(data + bytes(8 << 20), 1)
        case 1 | 2 | 3 | 4:
            return in_bytes(dice, gzip.compress(data, 1))
    return gzip.compress(in_bytes(dice, data), 1)


# --- logs, captured files ---------------------------------------------------------------------


def _entries() -> list[Told]:
    texts = ("SELECT 1", "INSERT INTO t VALUES ('it''s\n\tü', 2)", "UPDATE t SET a = $1 WHERE b = $2")
    entries = [plain(START + n * 1000, 1.5, text) for n, text in enumerate(texts)]
    entries += extended(START + 9000, 3, texts[2], ["1", None])
    failed = Told(START + 20_000, "no such table", severity="ERROR", sqlstate="42P01", query=texts[0])
    return [*entries, failed, replace(entries[0], message="disconnection: session time: 0:00:01.000 user=a")]


def _logs(folder: Path) -> Try:
    texts = {form: log(_entries(), form).encode() for form in FORMS}
    number = 0

    def attempt(dice: random.Random) -> None:
        nonlocal number
        form = dice.choice(sorted(texts))
        data = in_packed(dice, texts[form]) if dice.random() < 0.2 else in_bytes(dice, texts[form])
        file, to = folder / "log", folder / f"{number}.traffic"
        file.write_bytes(data)
        with refused(shown(data)):
            logs = find([file])
            for _ in logs.entries():
                pass
        if dice.random() < 0.1:
            number += 1
            with refused(shown(data)):
                capture([file], to)
            to.unlink(missing_ok=True)

    return attempt


def _captured(folder: Path) -> Try:
    file = folder / "captured"

    def attempt(dice: random.Random) -> None:
        data = mutated(dice)
        file.write_bytes(data)
        with refused(shown(data)), Captured(file) as traffic:
            for entry in traffic.sessions():
                for _ in traffic.statements(entry):
                    pass

    return attempt


# --- dumps ------------------------------------------------------------------------------------

DUMP = r"""-- PostgreSQL database dump
\restrict abc
-- Dumped from database version 17.2
SELECT pg_catalog.set_config('search_path', '', false);
/* a /* b; */ ; */ SELECT 'a;''b', E'\';', "x;y", $$;$$, $q$;$$;$q$;
CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END;
COPY public.t (a, b) FROM stdin;
1	;'
\\.	2
\.

COPY nothing FROM stdin;
\.
SELECT 'é' -- the end
"""


def _toc() -> bytes:
    """The head of an archive of pg_dump (pg_backup_archiver.h), and nothing that is right behind it."""
    return b"PGDMP\x01\x10\x00\x04\x08\x01" + struct.pack("<30i", *range(30)) + b"\0" * 100


def _dumps(folder: Path) -> Try:
    file = folder / "dump"
    number = 0
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name in ("toc.dat", "1.dat"):
            member = tarfile.TarInfo(name)
            member.size = len(_toc())
            archive.addfile(member, io.BytesIO(_toc()))

    def attempt(dice: random.Random) -> None:
        nonlocal number
        number += 1
        # pg_restore is another process: it is asked now and then.
        kind = dice.choice(("head", "tar")) if dice.random() < 0.003 else "sql"
        data = {"sql": DUMP.encode(), "head": _toc(), "tar": tar.getvalue()}[kind]
        data = in_bytes(dice, data)
        file.write_bytes(data)
        with refused(shown(data)):
            for _ in setup_files.read(file, f"malformed-{number}").items:
                pass

    return attempt


# --- configuration ----------------------------------------------------------------------------

CONFIGURATION = """# a config file
shared_buffers = 25%RAM
max_wal_size = 8GB
checkpoint_timeout = '30min'
autovacuum_vacuum_cost_delay = 500us
synchronous_commit off
log_line_prefix = 'it''s %m \\n'
my.setting = 'x'
random_page_cost = 1.1
include_if_exists 'other.conf'
checkpoint_segments = 32
"""

CAMPAIGN = """name = "study"
repeats = 2
slice_seconds = 0.02
until = "verdict"
margin = 0.02
server_cpus = [0]
profile = { seconds = 5, frequency = 99, event = "auto", call_graph = "fp", stack_bytes = 8192 }
servers = ["pg:17", "pg:12"]
configs = ["cached-by-pg"]
[[workloads]]
name = "pgbench"
[workloads.options]
scale = "50%"
clients = [1, 2]
rate = 100
"""


def _configurations(folder: Path) -> Try:
    file = folder / "f.conf"
    (folder / "other.conf").write_text("work_mem = 4MB\n")

    def attempt(dice: random.Random) -> None:
        lines = CONFIGURATION.split("\n")
        at = dice.randrange(len(lines))
        lines[at] = f"{lines[at].partition('=')[0]}= {dice.choice((*NUMBERS, *TEXTS))}"
        text = in_bytes(dice, "\n".join(lines).encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
        file.write_text(text)
        with refused(shown(text.encode())):
            config_file = with_included(ConfigFile("f.conf", text, file))
            assignments(config_file)
            explain([config_file], dice.choice((90600, 120000, 170000)), 1 << 30)

    return attempt


def _campaigns(folder: Path) -> Try:
    file = folder / "c.toml"

    def attempt(dice: random.Random) -> None:
        text = in_lines(dice, CAMPAIGN) if dice.random() < 0.7 else CAMPAIGN
        data = text.encode("utf-8", "surrogatepass")
        data = in_bytes(dice, data) if dice.random() < 0.5 else data
        file.write_bytes(data)
        with refused(shown(data)):
            read_campaign(file)

    return attempt


# --- results ----------------------------------------------------------------------------------


def _run(folder: Path) -> Run:
    make_campaign(folder / "results", seconds=2)
    return Results(folder / "results").runs()[0]


def _records(folder: Path) -> Try:
    run = _run(folder)
    files = {
        name: (run.folder / name).read_bytes()
        for name in ("run.json", "histograms.json", "settings.json", "plans.json")
        if (run.folder / name).exists()
    }

    def attempt(dice: random.Random) -> None:
        name = dice.choice(("run.json", *files))
        if dice.random() < 0.6:
            data = json.dumps(in_json(dice, json.loads(files[name]))).encode()
        else:
            data = in_bytes(dice, files[name])
        (run.folder / name).write_bytes(data)
        try:
            with refused(shown(data)):
                if name != "run.json":
                    sum_anew(run.folder)
                read_back = read_run(run.folder)
                if isinstance(read_back, Run):
                    for by_role in read_back.histograms.values():
                        for text in by_role.values():
                            histogram.decode(text)
                    _ = read_back.settings(), read_back.defaults(), read_back.plans(), read_back.scripts
                else:
                    assert read_back.reason.isprintable() and len(read_back.reason) <= 301, read_back.reason
        finally:
            (run.folder / name).write_bytes(files[name])

    return attempt


def _histograms(folder: Path) -> Try:
    dice = random.Random("histograms")
    whole = [
        histogram.histogram_of(dice.randrange(1, 10**6) for _ in range(n)).encode() for n in (0, 1, 50, 5000)
    ]

    def attempt(dice: random.Random) -> None:
        texts = list(whole)
        place = dice.randrange(len(texts))
        text = texts[place].encode()
        if dice.random() < 0.5:
            inner = in_bytes(dice, zlib.decompress(base64.b64decode(text)[8:]))
            packed = zlib.compress(inner + bytes(dice.choice((0, 0, 0, 4 << 20))), 1)
            text = base64.b64encode(struct.pack(">II", 0x1C849314, len(packed)) + packed)
        texts[place] = (
            in_bytes(dice, text).decode("utf-8", "replace") if dice.random() < 0.5 else text.decode()
        )
        for read in (histogram.decode, lambda text: histogram.total([*texts, text])):
            with refused(lambda: f"the histogram {texts[place]!r}"):
                read(texts[place]).percentiles((50, 99))

    return attempt


def _tables(folder: Path) -> Try:
    run = _run(folder)
    file = run.folder / "series.parquet"
    sound = file.read_bytes()

    def attempt(dice: random.Random) -> None:
        data = bytearray(sound)
        for _ in range(dice.choice((1, 3, 50))):
            data[dice.randrange(len(data))] = dice.randrange(256)
        file.write_bytes(bytes(data) if dice.random() < 0.8 else in_bytes(dice, sound))
        with refused(lambda: f"the table {bytes(data)!r}"):
            table = run.table("series")
            histogram.total([text for text in table["histogram"] if text is not None][:50])

    return attempt


# --- profiles, counted call graphs, statistics, vectors, mail, patches ------------------------


def _profiles(folder: Path) -> Try:
    text = "".join(f"postgres;main;exec_{n};scan{n % 7} {n * 13 + 1}\n" for n in range(50)).encode()
    file = folder / "stacks.gz"

    def attempt(dice: random.Random) -> None:
        data = in_packed(dice, text)
        file.write_bytes(data)
        with refused(shown(data)):
            if stacks := stacks_in(file):
                in_samples(stacks, 1000)
                where_they_end(stacks)
                callers_in(stacks)

    return attempt


CALLGRIND = """# callgrind format
version: 1
positions: line
events: Ir Dr
ob=(1) /srv/bin/postgres
fn=(1) main
0 20 1
cfn=(2) exec_simple_query
calls=2 0
0 1180 4
fn=(2)
0 200 2
cob=(2) /lib/libc.so.6
cfn=(3) memcpy'2
calls=2 0
0 50 1
totals: 1220 5
"""


def _call_graphs(folder: Path) -> Try:
    file = folder / "part"

    def attempt(dice: random.Random) -> None:
        lines = CALLGRIND.split("\n")
        if dice.random() < 0.5:
            at = dice.randrange(len(lines))
            lines[at] = re.sub(r"\d+", lambda _: dice.choice(NUMBERS), lines[at])
        data = in_bytes(dice, "\n".join(lines).encode())
        file.write_bytes(data)
        with refused(shown(data)):
            graph = read_part(file)
            graph.inclusive()
            graph.per(10).without(graph)
            own_processes(graph)

    return attempt


def _statistics(folder: Path) -> Try:
    def table(name: str, rows: list[dict[str, str]]) -> bytes:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()

    statement = {"datname": "shop", "here": "shop", "seconds": "60", "query": "SELECT $1", "calls": "5"}
    statement |= {"total_exec_time": "7.5", "rows": "5", "toplevel": "t", "userid": "10"}
    column = {"schemaname": "public", "tablename": "t", "attname": "a", "type": "integer", "rows": "100"}
    column |= {"pages": "3", "null_frac": "0.1", "n_distinct": "-0.5", "readable": "t", "visible": "t"}
    column |= {"most_common_vals": '{1,"2,3",NULL}', "most_common_freqs": "{0.5,0.25,0.1}", "refers": "f"}
    column |= {"histogram_bounds": "{1,2,3}", "keys": "{123}", "correlation": "0.5", "labels": ""}
    sound = {
        statistics.STATEMENTS: table("statements", [statement] * 3),
        statistics.COLUMNS: table("columns", [column] * 3),
    }

    def attempt(dice: random.Random) -> None:
        name = dice.choice(sorted(sound))
        data = sound[name]
        if dice.random() < 0.5:
            lines = data.split(b"\r\n")
            cells = lines[1].split(b",")
            cells[dice.randrange(len(cells))] = dice.choice((*NUMBERS, *TEXTS)).encode()
            data = b"\r\n".join([lines[0], b",".join(cells), *lines[2:]])
        if dice.random() < 0.7:
            data = in_bytes(dice, data)
        for file, content in (sound | {name: data}).items():
            (folder / file).write_bytes(content)
        with refused(shown(data)):
            statistics.of_folder(folder)

    return attempt


def _vectors(folder: Path) -> Try:
    data = VectorData(1000, 3, 1, 10, 4, "l2", 1)
    data.folder.mkdir(parents=True)
    sound = json.dumps([[n, n + 1, n + 2, n + 3] for n in range(10)])

    def attempt(dice: random.Random) -> None:
        text = sound.encode()
        if dice.random() < 0.5:
            text = json.dumps(in_json(dice, json.loads(sound))).encode()
        text = in_bytes(dice, text) if dice.random() < 0.5 else text
        (data.folder / "truth.json").write_bytes(text)
        with refused(shown(text)):
            rows = data.truth()
            assert [len(row) for row in rows] == [4] * 10

    return attempt


MBOX = b"""From somebody Thu Feb 11 18:27:14 2010
From: a@example.com
Subject: =?utf-8?q?caf=C3=A9?=
Content-Type: multipart/mixed; boundary=x

--x
Content-Type: text/plain; charset=latin-1
Content-Transfer-Encoding: base64

SGVsbG8=
--x--
>From the beginning

From other Thu Feb 11 18:27:15 2010
Subject: second

text
"""


def _mail(folder: Path) -> Try:
    file = folder / "mail"

    def attempt(dice: random.Random) -> None:
        data = in_packed(dice, MBOX) if dice.random() < 0.3 else in_bytes(dice, MBOX)
        file.write_bytes(data)
        counts: Counter[str] = Counter()
        with refused(shown(data)):
            for message in sources.messages(file, counts):
                assert len(message) <= sources.MOST_BYTES

    return attempt


PATCH = b"""From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001
From: A <a@example.com>
Subject: [PATCH] two

---
 file | 2 +-
diff --git a/file b/file
index 01e79c3..0eadcc7 100644
--- a/file
+++ b/file
@@ -1,3 +1,3 @@
 1
-2
+two
 3
diff --git a/new b/new
new file mode 100644
--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+new
--
2.30
"""


def _patches(folder: Path) -> Try:
    tree, patch, victim = folder / "tree", folder / "a.patch", folder / "victim"
    tree.mkdir()
    victim.write_text("precious")

    def attempt(dice: random.Random) -> None:
        for file in tree.iterdir():
            if not file.is_dir():
                file.unlink()
        (tree / "file").write_text("1\n2\n3\n")
        data = in_bytes(dice, PATCH)
        if dice.random() < 0.3:
            name = dice.choice(
                (b"../victim", b"/tmp/pgs-victim", b".git/config", b"a\0b", b"\xff", b"x" * 5000)
            )
            data = data.replace(b"file", name)
        patch.write_bytes(data)
        with refused(shown(data)):
            apply_patch(tree, patch)
        assert victim.read_text() == "precious", data
        assert {path.name for path in folder.iterdir()} == {"tree", "a.patch", "victim"}, data

    return attempt


def _foreign_results(folder: Path) -> Try:
    files = {name: text.encode() for name, text in of_every_format().items()}

    def attempt(dice: random.Random) -> None:
        name = dice.choice(list(files))
        data = in_bytes(dice, files[name])
        (folder / name).write_bytes(data)
        with refused(shown(data)):
            for run in runs_of(named(read_files([folder / name]), "", "", "")):
                assert run.steps, data

    return attempt


READERS: dict[str, Callable[[Path], Try]] = {
    "log": _logs,
    "captured file": _captured,
    "dump": _dumps,
    "configuration": _configurations,
    "campaign file": _campaigns,
    "record of a run": _records,
    "histogram": _histograms,
    "table of a run": _tables,
    "profile": _profiles,
    "call graph": _call_graphs,
    "statistics": _statistics,
    "vectors": _vectors,
    "mail": _mail,
    "patch": _patches,
    "foreign result": _foreign_results,
}

SLOW = {"patch": 50, "table of a run": 10, "record of a run": 5, "campaign file": 5}
"""Kinds of which so many times fewer are tried: another process, or a file system, is waited for."""
