"""`pgstrata bench`"""

from __future__ import annotations

import os
import re
import sys
import time as now
from typing import Annotated, Literal

import typer

from pgstrata.cli.output import TextOrJson, prints


@prints("pgstrata.measure.bench.result:BenchRecord")
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
    clients: Annotated[int, typer.Option("-c", "--client", min=1, max=10_000, help="Connections.")] = 1,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, max=1024, help="Threads of the driver.")] = 1,
    time: Annotated[
        float | None, typer.Option("-T", "--time", metavar="SECONDS", help="How long to run.")
    ] = None,
    transactions: Annotated[
        int | None,
        typer.Option("-t", "--transactions", min=1, max=2**53, help="Transactions of each client (10)."),
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
    scale: Annotated[
        int | None, typer.Option("-s", "--scale", min=1, max=2**31 - 1, help="What :scale says.")
    ] = None,
    progress: Annotated[
        int | None,
        typer.Option("-P", "--progress", min=1, max=86_400, metavar="SECONDS", help="Say how it goes."),
    ] = None,
    latency_limit: Annotated[
        float | None,
        typer.Option("-L", "--latency-limit", metavar="MS", help="Count longer ones; -R skips late ones."),
    ] = None,
    connect: Annotated[
        bool, typer.Option("-C", "--connect", help="A connection for each transaction.")
    ] = False,
    max_tries: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Tries after a deadlock; 0: no limit.")
    ] = 1,
    failures_detailed: Annotated[
        bool, typer.Option("--failures-detailed", help="Tell serialization failures and deadlocks apart.")
    ] = False,
    random_seed: Annotated[
        str | None, typer.Option(metavar="SEED", help="A number, time or rand. Same seed, same stream.")
    ] = None,
    host: Annotated[
        str | None, typer.Option("-h", "--host", help="Host of the server, or folder of its socket.")
    ] = None,
    port: Annotated[int | None, typer.Option("-p", "--port", min=1, max=65535, help="Its port.")] = None,
    username: Annotated[str | None, typer.Option("-U", "--username", help="User to connect as.")] = None,
    dbname: Annotated[
        str | None, typer.Option("-d", "--dbname", metavar="URL", help="The same as the argument.")
    ] = None,
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
    from pgstrata.cli.ending import Interruption
    from pgstrata.errors import UsageError
    from pgstrata.files.user_files import in_command, shown
    from pgstrata.measure.bench import BenchOptions, run
    from pgstrata.measure.bench.progress import BenchProgress
    from pgstrata.measure.bench.text import text
    from pgstrata.measure.interrupt import Ending, Interrupted
    from pgstrata.workload.core.options import LONGEST_SECONDS, MOST_RATE, SHORTEST_SECONDS
    from pgstrata.workload.pgbench.steps import BUILT_IN

    if builtin == ["list"]:
        print("Built-in scripts:", *BUILT_IN, sep="\n  ")
        raise typer.Exit
    if dbname is not None and url:
        raise UsageError("the database is named twice", "leave -d or the argument out")
    if url and url.endswith(".sql"):
        raise UsageError(
            f"{shown(url)} is a script, not a database", f"write pgstrata bench -f {in_command(url)} DATABASE"
        )
    if time is not None and transactions is not None:
        raise UsageError("-T and -t cannot be used together", "give the time or the number, not both")
    most = {
        "-T": (time, LONGEST_SECONDS),
        "-R": (rate, MOST_RATE),
        "-L": (latency_limit, LONGEST_SECONDS * 1e3),
    }
    for option, (number, limit) in most.items():
        if number is not None and not SHORTEST_SECONDS <= number <= limit:
            raise UsageError(
                f"{option} {number:g} is not between {SHORTEST_SECONDS} and {limit:,.0f}",
                "choose another number",
            )
    if connect and engine == "io_uring":
        raise UsageError("-C opens connections by waiting for the server: it needs the blocking engine")
    variables = {}
    for definition in define or []:
        name, equals, value = definition.partition("=")
        if not equals or not name:
            raise UsageError(f"-D {definition}: not of the form NAME=VALUE", "write -D scale=10")
        variables[name] = value
    built_in = [*(builtin or []), *["select-only"] * select_only, *["simple-update"] * skip_updates]
    if time is None and transactions is None:
        transactions = 10
    given = {"host": host, "port": str(port) if port else None, "user": username}
    options = BenchOptions(
        dbname or url,
        {name: value for name, value in given.items() if value is not None},
        script or [],
        built_in,
        clients,
        jobs,
        time,
        transactions,
        protocol,
        variables,
        rate,
        scale,
        max_tries,
        _seed(random_seed),
        not no_vacuum,
        engine,
        allow_shell,
        latency_limit / 1e3 if latency_limit is not None else None,
        connect,
        failures_detailed,
    )
    with Ending() as ending:
        try:
            result = run(options, BenchProgress(progress, options), ending)
        except Interrupted as interrupted:
            print("stopped: nothing was measured", file=sys.stderr)
            raise Interruption(interrupted.exit_code) from None
    if format is TextOrJson.json:
        from pgstrata.cli.output import print_json

        print_json(result.as_json())
    else:
        print("\n".join(text(result, report)))
    if result.failure is not None:
        raise result.failure
    raise typer.Exit(128 + ending.caught if ending.caught else 0)


def _seed(text: str | None) -> int | None:
    """Returns the seed that pgbench's --random-seed means, None without it, and prints it on standard error.
    Raises UsageError."""
    from pgstrata.errors import UsageError

    match text:
        case None:
            return None
        case "rand":
            seed = int.from_bytes(os.urandom(4))
        case "time":
            seed = now.time_ns() // 1000 % 2**32
        case _ if re.fullmatch("[0-9]{1,19}", text) and int(text) < 2**63:
            seed = int(text)
        case _:
            raise UsageError(f"--random-seed {text[:30]}: not a number below 2^63, time or rand")
    print(f"setting random seed to {seed}", file=sys.stderr)
    return seed
