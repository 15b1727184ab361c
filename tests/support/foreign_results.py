"""Result files of other programs, written from figures that a test knows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

Rows = Mapping[str, Sequence[float]]


def qps_table(names: Sequence[str], rows: Rows, base: str = "") -> str:
    """`qps.abs` of mytools, or `qps.rel` with a base; a row is a step."""
    head = [f"Relative to: {base}"] if base else []
    head += [f"col-{at} : {name}" for at, name in enumerate(names, 1)]
    columns = "\t".join(f"col-{at}" for at in range(1, len(names) + 1))
    body = ["\t".join([*map(plain, values), step]) for step, values in rows.items()]
    return "\n".join([*head, "", columns, *body, ""])


def met_table(names: Sequence[str], rows: Rows, clients: int) -> str:
    """`o.met` of mytools; costs are a tenth of a millionth of the rate."""
    text = []
    for step, values in rows.items():
        text += [f"sb.met.{step}.dop{clients}", "--- absolute", "cpu/o\t\tcs/o\tr/o\trKB/o\twKB/o\to/s\tdbms"]
        text += [
            f"{plain(rate / 1e7)}\t1\t0\t0\t0.5\t{plain(rate)}\t{name}"
            for name, rate in zip(names, values, strict=True)
        ]
        text += ["--- relative to first result", ""]
    return "\n".join(text)


def mrg_table(names: Sequence[str], inserts: Sequence[float]) -> str:
    """`mrg.l.i0` of the Insert Benchmark's scripts."""
    rows = [f"{plain(rate)}\t0\t1.5\t0.1\t{name}" for name, rate in zip(names, inserts, strict=True)]
    return "\n".join(["ips\tqps\twkbpi\tmaxop\ttag", *rows, "-", ""])


def pgbench_report(rate: float, clients: int, done: int, progress: Sequence[float] = ()) -> str:
    """pgbench's output with a line of progress for each second."""
    lines = [
        "pgbench (17.5, server 17.6)",
        *(
            f"progress: {at}.0 s, {plain(tps)} tps, lat 1.5 ms stddev 0.2"
            for at, tps in enumerate(progress, 1)
        ),
        "transaction type: <builtin: select only>",
        "scaling factor: 1",
        f"number of clients: {clients}",
        f"number of transactions actually processed: {done}",
        "number of failed transactions: 0 (0.000%)",
        "latency average = 1.250 ms",
        f"tps = {plain(rate)} (without initial connection time)",
    ]
    return "\n".join([*lines, ""])


def pgbench_log(latencies: Sequence[int], clients: int = 1) -> str:
    """A log of `-l`: transactions of some microseconds each, one after the other."""
    now, lines = 1_700_000_000_000_000, []
    for at, micro in enumerate(latencies):
        now += micro
        lines.append(f"{at % clients} {at // clients + 1} {micro} 0 {now // 10**6} {now % 10**6}")
    return "\n".join([*lines, ""])


def aggregated_log(counts: Sequence[int]) -> str:
    """A log of `--aggregate-interval=1`; a transaction takes 2 ms."""
    return "".join(
        f"{1_700_000_000 + at} {n} {n * 2000} {n * 4_000_000} 1000 3000\n" for at, n in enumerate(counts)
    )


def sysbench_report(queries: int, seconds: float, threads: int, intervals: Sequence[float] = ()) -> str:
    """sysbench's output with a line for each ten seconds."""
    lines = [
        "sysbench 1.1.0-abc (using bundled LuaJIT 2.1.0-beta3)",
        f"Number of threads: {threads}",
        *(
            f"[ {at}0s ] thds: {threads} tps: 1.00 qps: {plain(qps)} (r/w/o: 1.00/0.00/0.00) "
            "lat (ms,95%): 1.00 err/s: 0.00 reconn/s: 0.00"
            for at, qps in enumerate(intervals, 1)
        ),
        f"    queries:                             {queries} ({queries / seconds:.2f} per sec.)",
        "    ignored errors:                      0      (0.00 per sec.)",
        f"    total time:                          {seconds:.4f}s",
        "         avg:                                    2.50",
        "         max:                                   14.50",
        "         95th percentile:                        5.50",
    ]
    return "\n".join([*lines, ""])


def hammerdb_log(nopm: int, users: int) -> str:
    """The log of a run of HammerDB."""
    return (
        "Vuser 1:Beginning rampup time of 1 minutes\n"
        f"Vuser 1:{users} Active Virtual Users configured\n"
        f"Vuser 1:TEST RESULT : System achieved {nopm} NOPM from {nopm * 2} PostgreSQL TPM\n"
        "Vuser 2:FINISHED SUCCESS\n"
    )


def hammerdb_timing(calls: Mapping[str, int], elapsed_ms: float) -> str:
    """What `job ID timing` prints."""
    times = {f"{name}_ms": "2.5" for name in ("min", "avg", "max", "total", "p99", "p95", "p50")}
    return json.dumps(
        {
            name: {
                "elapsed_ms": plain(elapsed_ms),
                "calls": str(count),
                **times,
                "sd": "1.0",
                "ratio_pct": "50.0",
            }
            for name, count in calls.items()
        },
        indent=2,
    )


def plain(value: float) -> str:
    """A number as these programs write it."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def of_every_format() -> dict[str, str]:
    """A small file of each format, by its name."""
    rows = {"scan_range=100": [10.0, 12.5], "hot-points_range=100": [200.0, 100.0]}
    return {
        "qps.abs.tsv": qps_table(["pg16", "pg17"], rows),
        "qps.rel.tsv": qps_table(["pg16", "pg17"], rows, "pg12"),
        "o.met": met_table(["pg16", "pg17"], rows, 40),
        "mrg.l.i0": mrg_table(["pg16", "pg17"], [100, 90]),
        "pgbench.txt": pgbench_report(812.5, 4, 3273, [800, 825]),
        "pgbench_log.4711": pgbench_log([900, 1100, 2500] * 9, 3),
        "agg.4712": aggregated_log([3, 100, 110, 105, 2]),
        "sysbench.txt": sysbench_report(20_000, 10.0, 4, [1990.0]),
        "hammerdb.log": hammerdb_log(14_844, 4),
        "timing.json": hammerdb_timing({"NEWORD": 33_208, "PAYMENT": 33_100}, 120_000),
    }


__all__ = [
    "aggregated_log",
    "hammerdb_log",
    "hammerdb_timing",
    "met_table",
    "mrg_table",
    "of_every_format",
    "pgbench_log",
    "pgbench_report",
    "plain",
    "qps_table",
    "sysbench_report",
]
