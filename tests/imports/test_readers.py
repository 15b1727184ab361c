"""Readers of other programs' results: what is in a file comes out of it, and nothing is guessed."""

from __future__ import annotations

import math
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.imports.model import Found
from pgstrata.imports.recognize import Imported, named, read_files
from support import foreign_results as foreign

names = st.lists(
    st.from_regex(r"x\.pg[0-9]{2,4}(_o2nofp)?\.x10[a-d]", fullmatch=True), min_size=1, max_size=6, unique=True
)
steps = st.from_regex(r"[a-z][a-z-]{0,20}_range=[0-9]{1,5}", fullmatch=True)
rates = st.integers(0, 10**9).map(float) | st.decimals(0, 1000, places=3).map(float)


def read(name: str, text: str, *more: tuple[str, str]) -> list[Imported]:
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for file_name, content in ((name, text), *more):
            paths.append(Path(folder) / file_name)
            paths[-1].write_text(content)
        return read_files(paths)


def only(name: str, text: str) -> tuple[Found, ...]:
    (imported,) = read(name, text)
    return imported.entries


@given(st.data(), names, st.lists(steps, min_size=1, max_size=8, unique=True), st.booleans())
def test_tables_of_rates(data: st.DataObject, variants: list[str], rows: list[str], relative: bool) -> None:
    values = {row: data.draw(st.lists(rates, min_size=len(variants), max_size=len(variants))) for row in rows}
    entries = only("qps.tsv", foreign.qps_table(variants, values, "the base" if relative else ""))
    there = {(entry.variant, entry.step.name): entry.step.rate for entry in entries}
    expected = {(v, row): values[row][at] for at, v in enumerate(variants) for row in rows}
    assert there == expected | ({("the base", row): 1.0 for row in rows} if relative else {})
    assert {entry.step.unit for entry in entries} == {"relative to the base" if relative else "queries/s"}


@given(st.data(), names, st.lists(steps, min_size=1, max_size=8, unique=True), st.integers(1, 999))
def test_tables_of_costs(data: st.DataObject, variants: list[str], rows: list[str], clients: int) -> None:
    values = {row: data.draw(st.lists(rates, min_size=len(variants), max_size=len(variants))) for row in rows}
    entries = only("o.met", foreign.met_table(variants, values, clients))
    there = {(entry.variant, entry.step.name): entry.step for entry in entries}
    assert len(there) == len(variants) * len(rows)
    for row in rows:
        for variant, rate in zip(variants, values[row], strict=True):
            step = there[variant, row]
            assert (step.rate, step.clients) == (rate, clients)
            assert set(step.figures) == {"cpu/o", "cs/o", "r/o", "rKB/o", "wKB/o"}


@given(st.data(), names)
def test_tables_of_the_insert_benchmark(data: st.DataObject, variants: list[str]) -> None:
    inserts = data.draw(st.lists(rates, min_size=len(variants), max_size=len(variants)))
    entries = only("mrg.l.i0", foreign.mrg_table(variants, inserts))
    assert [(entry.variant, entry.step.rate, entry.step.name) for entry in entries] == [
        (variant, rate, "l.i0") for variant, rate in zip(variants, inserts, strict=True)
    ]


@given(rates, st.integers(1, 5000), st.integers(0, 10**15), st.lists(rates, max_size=20))
def test_reports_of_pgbench(rate: float, clients: int, done: int, progress: list[float]) -> None:
    (entry,) = only("a.txt", foreign.pgbench_report(rate, clients, done, progress))
    step = entry.step
    assert (entry.variant, step.name, step.unit) == ("pg17.6", "select only", "transactions/s")
    assert (step.rate, step.clients, step.operations) == (rate, clients, done)
    assert [(part.second, part.seconds, part.rate) for part in step.intervals] == [
        (float(at), 1.0, tps) for at, tps in enumerate(progress)
    ]


@given(st.lists(st.integers(1, 3_000_000), min_size=1, max_size=200), st.integers(1, 5))
def test_logs_of_pgbench(latencies: list[int], clients: int) -> None:
    (entry,) = only("pgbench_log.1", foreign.pgbench_log(latencies, clients))
    step = entry.step
    assert step.rate == pytest.approx(len(latencies) * 1e6 / sum(latencies), rel=1e-3)
    assert step.latency["max"] == max(latencies) / 1e6
    assert step.latency["mean"] == pytest.approx(sum(latencies) / len(latencies) / 1e6)
    assert sum(part.rate * part.seconds for part in step.intervals) == pytest.approx(len(latencies))
    assert step.clients == min(clients, len(latencies))


@given(st.lists(st.integers(0, 10**6), min_size=3, max_size=50))
def test_aggregated_logs(counts: list[int]) -> None:
    (entry,) = only("agg.1", foreign.aggregated_log(counts))
    assert entry.step.rate == sum(counts[1:-1]) / (len(counts) - 2)
    assert [part.rate for part in entry.step.intervals] == counts[1:-1]


@given(st.integers(0, 10**12), st.integers(1, 10**6), st.integers(1, 999), st.lists(rates, max_size=20))
def test_reports_of_sysbench(queries: int, seconds: int, threads: int, parts: list[float]) -> None:
    (entry,) = only("hot-points.txt", foreign.sysbench_report(queries, seconds, threads, parts))
    step = entry.step
    assert step.rate == pytest.approx(queries / seconds, abs=0.01)
    assert (step.name, step.clients, step.operations) == ("hot-points", threads, queries)
    assert step.latency == {"mean": 0.0025, "max": 0.0145, "p95": 0.0055}
    assert [part.rate for part in step.intervals] == parts


@given(st.integers(0, 10**9), st.integers(1, 9999), st.integers(0, 10**9), st.integers(1, 10**8))
def test_results_of_hammerdb(nopm: int, users: int, calls: int, elapsed: int) -> None:
    (entry,) = only("h.log", foreign.hammerdb_log(nopm, users))
    assert (entry.step.rate, entry.step.unit, entry.step.clients) == (nopm, "NOPM", users)
    (entry,) = only("h.json", foreign.hammerdb_timing({"NEWORD": calls}, elapsed))
    assert entry.step.name == "neword"
    assert math.isclose(entry.step.rate, calls / elapsed * 1e3)


THREADS = (
    ("pgbench_log.7", foreign.pgbench_log([1000] * 50)),
    ("pgbench_log.7.1", foreign.pgbench_log([1000] * 50)),
)


def test_logs_of_all_threads_are_one_step() -> None:
    (imported,) = read(*THREADS[0], THREADS[1])
    assert [file.name for file in imported.files] == ["pgbench_log.7", "pgbench_log.7.1"]
    assert imported.entries[0].step.rate == pytest.approx(2000)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (*THREADS[1], "pgbench_log.7.1: the log of another thread of the same pgbench is not there"),
        ("a.txt", "", "a.txt is empty"),
        ("a.txt", "select 1;\n", "none of the formats"),
        ("qps.abs.csv", "hot-points_range=100,1,2\n", "names no variants"),
        ("a.txt", foreign.pgbench_report(1, 1, 1).replace("tps = ", "tpz = "), "no line with its tps"),
        ("a.txt", "progress: 1.0 s, 9 tps, lat 1.5 ms stddev 0.2\n", "report is missing"),
        ("a.txt", foreign.pgbench_report(1, 1, 1) + "pgbench: error: Run was aborted;\n", "aborted"),
        ("a.txt", foreign.pgbench_report(1, 1, 1, [5, 5]).replace("2.0 s", "0.5 s"), "line 3: progress at a"),
        ("a.txt", foreign.sysbench_report(1, 1, 1).replace("total time", "time"), "no line with its seconds"),
        ("a.txt", "sysbench 1.0.20\nFATAL: unable to connect\n", "line 2: sysbench ended with this error"),
        ("h.log", "Vuser 1:FINISHED FAILED\n" + foreign.hammerdb_log(1, 1), "line 1: a virtual user"),
        ("h.log", foreign.hammerdb_log(1, 1).replace("PostgreSQL", "MySQL"), "a result of MySQL"),
        ("h.log", "Vuser 1:RUNNING\n", "TEST RESULT is missing"),
        ("q.tsv", foreign.qps_table(["a", "b"], {"s": [1]}), "1 number and a name, where the head names 2"),
        ("q.tsv", foreign.qps_table(["a", "a"], {"s": [1, 2]}), "no names of their own"),
        ("q.tsv", foreign.qps_table(["a"], {"s": [1]}).replace("1\ts", "-1\ts"), "-1 is not a number"),
        ("q.tsv", foreign.qps_table(["a"], {"s": [1]}).replace("1\ts", "1e999\ts"), "is not a number"),
        ("o.met", foreign.met_table(["a"], {"s": [1]}, 1).replace("\ta\n", "\n"), "6 cells where 7 belong"),
        ("mrg.q", foreign.mrg_table(["a", "a"], [1, 2]), "a row without a tag of its own: a"),
        ("l.1", foreign.pgbench_log([1000] * 9).replace("0 5 ", "0 8 "), "of client 0 are missing"),
        ("l.1", foreign.pgbench_log([1000] * 9)[:-20] + "\n", "no line of a pgbench log"),
        ("l.1", foreign.pgbench_log([1000] * 9)[:-3], "line 9: the last line has no end"),
        ("q.tsv", foreign.qps_table(["a"], {"s": [1]})[:-1], "the last line has no end"),
        ("l.1", foreign.aggregated_log([1, 2]), "fewer than three intervals"),
    ],
)  # fmt: skip
def test_what_is_damaged_is_named(name: str, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as error:
        read(name, text)
    assert error.value.hint


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    for data in (b"\xff\xfe", b"a\0b", b"x" * 200_000):
        (tmp_path / "a").write_bytes(data)
        with pytest.raises(UsageError, match="line 1: not"):
            read_files([tmp_path / "a"])


def test_names_come_from_the_file_or_the_user() -> None:
    log = read("l.1", foreign.pgbench_log([1000] * 9))
    with pytest.raises(UsageError, match="does not say which server"):
        named(log, "", "", "")
    (entry,) = named(log, "pg17", "mine", "pgbench-ro")[0].entries
    assert (entry.variant, entry.step.name, entry.workload) == ("pg17", "mine", "pgbench-ro")
    table = read("q.tsv", foreign.qps_table(["a", "b"], {"s": [1, 2], "t": [3, 4]}))
    with pytest.raises(UsageError, match="names 2 variants itself"):
        named(table, "pg17", "", "")
    with pytest.raises(UsageError, match="has several steps"):
        named(table, "", "mine", "")
    hostile = read("q.tsv", foreign.qps_table(["a\x1b[2J"], {"s": [1]}))
    with pytest.raises(UsageError, match="cannot be shown"):
        named(hostile, "", "", "")
