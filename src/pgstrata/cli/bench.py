"""`pgstrata bench`"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pgstrata import __version__
from pgstrata.cli.output import TextOrJson

if TYPE_CHECKING:
    from pgstrata.measure.bench import Measured, OfScript


def bench(
    url: Annotated[
        str, typer.Argument(metavar="[URL]", help="postgresql://…, key=value words or a database's name.")
    ] = "",
    script: Annotated[
        list[str] | None,
        typer.Option("-f", "--script", "--file", metavar="FILE[@WEIGHT]", help="A script. Repeatable."),
    ] = None,
    builtin: Annotated[
        list[str] | None,
        typer.Option(
            "-b",
            "--builtin",
            metavar="NAME[@W]",
            help="tpcb-like (default), simple-update, select-only; list.",
        ),
    ] = None,
    select_only: Annotated[bool, typer.Option("-S", help="Short for -b select-only.")] = False,
    skip_updates: Annotated[bool, typer.Option("-N", help="Short for -b simple-update.")] = False,
    clients: Annotated[int, typer.Option("-c", "--client", min=1, help="Connections.")] = 1,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Threads of the driver.")] = 1,
    time: Annotated[
        float | None, typer.Option("-T", "--time", metavar="SECONDS", help="How long to run.")
    ] = None,
    transactions: Annotated[
        int | None, typer.Option("-t", "--transactions", min=1, help="Transactions of each client (10).")
    ] = None,
    protocol: Annotated[
        Literal["simple", "extended", "prepared"],
        typer.Option("-M", "--protocol", metavar="MODE", help="simple, extended or prepared."),
    ] = "simple",
    define: Annotated[
        list[str] | None, typer.Option("-D", "--define", metavar="NAME=VALUE", help="A variable. Repeatable.")
    ] = None,
    report: Annotated[
        bool, typer.Option("-r", "--report-per-command", help="Latency per statement.")
    ] = False,
    rate: Annotated[
        float | None, typer.Option("-R", "--rate", help="Transactions/s in total; latency from schedule.")
    ] = None,
    no_vacuum: Annotated[
        bool, typer.Option("-n", "--no-vacuum", help="No vacuum before a built-in script.")
    ] = False,
    scale: Annotated[int | None, typer.Option("-s", "--scale", min=1, help="What :scale says.")] = None,
    progress: Annotated[
        int | None, typer.Option("-P", "--progress", min=1, metavar="SECONDS", help="Say how it goes.")
    ] = None,
    max_tries: Annotated[int, typer.Option(min=0, help="Tries after a deadlock; 0: no limit.")] = 1,
    random_seed: Annotated[int | None, typer.Option(min=0, help="Same seed, same stream.")] = None,
    engine: Annotated[
        Literal["auto", "io_uring", "blocking"], typer.Option(help="Who moves the driver's bytes.")
    ] = "auto",
    allow_shell: Annotated[
        bool, typer.Option("--allow-shell", help="Let scripts start programs: \\shell, \\setshell.")
    ] = False,
    format: Annotated[TextOrJson, typer.Option("--format", help="How to print.")] = TextOrJson.text,
) -> None:
    """Run pgbench scripts against a running server and print rate and latency.

    Short options mean what they mean to pgbench.

    \b
    Examples:
      pgstrata bench -c 8 -T 60 postgresql://postgres@localhost/bench
      pgstrata bench --script mine.sql -c 8 -T 60 -M prepared -r mydb
      pgstrata bench -f reads.sql@9 -f writes.sql@1 -R 500 -T 60 --format json mydb
    """
    from pgstrata.errors import UsageError
    from pgstrata.measure.bench import Bench, run
    from pgstrata.workload.pgbench.steps import BUILT_IN

    if builtin == ["list"]:
        print("Built-in scripts:", *BUILT_IN, sep="\n  ")
        raise typer.Exit
    if time is not None and transactions is not None:
        raise UsageError("-T and -t cannot be used together", "give the time or the number, not both")
    for option, number in {"-T": time, "-R": rate}.items():
        if number is not None and not number > 0:
            raise UsageError(f"{option} {number:g} is not above 0")
    variables = {}
    for text in define or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"-D {text}: not of the form NAME=VALUE")
        variables[name] = value
    built_in = [*(builtin or []), *["select-only"] * select_only, *["simple-update"] * skip_updates]
    stop = False

    def on_signal(*_: object) -> None:
        nonlocal stop
        stop = True

    if time is None and transactions is None:
        transactions = 10
    wanted = Bench(
        url, script or [], built_in, clients, jobs, time, transactions, protocol, variables, rate,
        scale, max_tries, random_seed, not no_vacuum, engine, allow_shell,
    )  # fmt: skip
    for caught in (signal.SIGINT, signal.SIGTERM):
        signal.signal(caught, on_signal)
    measured = run(wanted, _Progress(progress), lambda: stop)
    if format is TextOrJson.json:
        from pgstrata.cli.output import print_json

        print_json(measured.as_json())
    else:
        print("\n".join(_text(measured, report)))
    if measured.failure is not None:
        raise measured.failure
    raise typer.Exit(130 if stop else 0)


class _Progress:
    """A line every so many seconds, about those seconds, as pgbench's -P; nothing for what is left over."""

    def __init__(self, every: int | None) -> None:
        self._every = every
        self._seconds: list[dict[str, Any]] = []

    def __call__(self, event: dict[str, Any]) -> None:
        if not self._every:
            return
        self._seconds.append(event)
        if len(self._seconds) < self._every or event["seconds"] < 0.5:
            return
        from pgstrata.stats.rates import pooled
        from pgstrata.store.histogram import decode, merge

        seconds, self._seconds = self._seconds, []
        roles = [second["roles"][0] for second in seconds]
        tps = sum(r["transactions"] for r in roles) / max(sum(s["seconds"] for s in seconds), 1e-9)
        average, deviation = pooled((r["transactions"], r["mean"], r["stddev"]) for r in roles) or (0.0, 0.0)
        parts = [
            f"progress: {event['second'] + 1:.1f} s",
            f"{tps:.1f} tps",
            f"lat {average * 1e3:.3f} ms stddev {deviation * 1e3:.3f}",
            f"{sum(r['errors'] for r in roles)} failed",
        ]
        if "lag" in roles[0]:
            lag, _ = pooled((r["transactions"], r["lag"]["mean"], 0.0) for r in roles) or (0.0, 0.0)
            parts.append(f"lag {lag * 1e3:.3f} ms")
        p99 = merge([decode(r["histogram"]) for r in roles]).percentile(99) or 0.0
        parts += [f"p99 {p99 * 1e3:.3f} ms", f"max {max(r['max'] for r in roles) * 1e3:.3f} ms"]
        print(", ".join(parts), file=sys.stderr, flush=True)


def _text(measured: Measured, per_statement: bool) -> list[str]:
    bench, role, latency = measured.bench, measured.role, measured.role["latency"]
    one = len(measured.scripts) == 1
    lines = [
        f"pgstrata {__version__} (server {measured.server})",
        f"transaction type: {measured.scripts[0].name if one else 'multiple scripts'}",
        f"scaling factor: {measured.scale}",
        f"query mode: {bench.mode}",
        f"number of clients: {bench.clients}",
        f"number of threads: {measured.threads}",
        f"engine: {measured.engine}",
        f"maximum number of tries: {bench.max_tries or 'unlimited'}",
    ]
    if bench.seconds is not None:
        lines.append(f"duration: {bench.seconds:g} s")
    else:
        lines.append(f"number of transactions per client: {bench.transactions}")
    of = f"/{bench.transactions * bench.clients}" if bench.transactions else ""
    lines += [
        f"number of transactions actually processed: {role['transactions']}{of}",
        _failed(role["errors"], role["transactions"]),
    ]
    if bench.max_tries != 1:
        lines.append(f"total number of retries: {role['retries']}")
    if role["transactions"]:
        percentiles = (f"{key} = {latency[key] * 1e3:.3f} ms" for key in ("p50", "p95", "p99", "max"))
        cost = measured.driver_cpu_seconds * 1e6 / role["transactions"]
        lines += [
            f"latency average = {latency['mean'] * 1e3:.3f} ms",
            f"latency stddev = {latency['stddev'] * 1e3:.3f} ms",
            f"latency {', '.join(percentiles)}",
            *([_lag(role["lag"])] if "lag" in role else []),
            f"driver CPU = {cost:.2f} µs per transaction",
            f"tps = {measured.tps:.6f} (without initial connection time)",
        ]
    scripts = measured.by_script()
    weights = sum(of.script.weight for of in scripts)
    for number, of_script in enumerate(scripts, 1):
        lines += [] if one else _of_script(number, of_script, weights, measured)
        lines += _statements(of_script, "" if one else " - ") if per_statement else []
    return lines


def _of_script(number: int, of: OfScript, weights: int, measured: Measured) -> list[str]:
    n, weight = of.transactions, of.script.weight
    tps = n / measured.seconds if measured.seconds > 0 else 0.0
    share = 100 * n / max(measured.role["transactions"], 1)
    lines = [
        f"SQL script {number}: {of.script.name}",
        f" - weight: {weight} (targets {100 * weight / weights:.1f}% of total)",
        f" - {n} transactions ({share:.1f}% of total, tps = {tps:.6f})",
        f" - {_failed(of.errors, n)}",
    ]
    if n:
        lines += [
            f" - latency average = {of.mean * 1e3:.3f} ms",
            f" - latency stddev = {of.stddev * 1e3:.3f} ms",
        ]
    return lines


def _statements(of: OfScript, mark: str) -> list[str]:
    lines = [f"{mark}statement latencies in milliseconds and failures:"]
    for s in of.statements:
        mean = s["seconds_total"] * 1e3 / s["count"] if s["count"] else 0.0
        lines.append(f"  {mean:12.3f} {s['errors']:10d}  {s['name']}")
    return lines


def _failed(errors: int, transactions: int) -> str:
    share = 100 * errors / max(errors + transactions, 1)
    return f"number of failed transactions: {errors} ({share:.3f}%)"


def _lag(lag: dict[str, float]) -> str:
    return f"rate limit schedule lag: avg {lag['mean'] * 1e3:.3f} (max {lag['max'] * 1e3:.3f}) ms"
