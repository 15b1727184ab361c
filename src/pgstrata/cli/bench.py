"""`pgstrata bench`"""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from pgstrata.cli.output import TextOrJson


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
    max_tries: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Tries after a deadlock; 0: no limit.")
    ] = 1,
    random_seed: Annotated[
        int | None, typer.Option(min=0, max=2**64 - 1, help="Same seed, same stream.")
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
    from pgstrata.measure.bench import Bench, run
    from pgstrata.measure.bench.progress import Progress
    from pgstrata.measure.bench.text import text
    from pgstrata.measure.interrupt import Ending, Interrupted
    from pgstrata.workload.core.options import LONGEST_SECONDS, MOST_RATE, SHORTEST_SECONDS
    from pgstrata.workload.pgbench.steps import BUILT_IN

    if builtin == ["list"]:
        print("Built-in scripts:", *BUILT_IN, sep="\n  ")
        raise typer.Exit
    if time is not None and transactions is not None:
        raise UsageError("-T and -t cannot be used together", "give the time or the number, not both")
    most = {"-T": (time, LONGEST_SECONDS), "-R": (rate, MOST_RATE)}
    for option, (number, limit) in most.items():
        if number is not None and not SHORTEST_SECONDS <= number <= limit:
            raise UsageError(f"{option} {number:g} is not between {SHORTEST_SECONDS} and {limit:,.0f}")
    variables = {}
    for definition in define or []:
        name, equals, value = definition.partition("=")
        if not equals or not name:
            raise UsageError(f"-D {definition}: not of the form NAME=VALUE")
        variables[name] = value
    built_in = [*(builtin or []), *["select-only"] * select_only, *["simple-update"] * skip_updates]
    if time is None and transactions is None:
        transactions = 10
    wanted = Bench(
        url, script or [], built_in, clients, jobs, time, transactions, protocol, variables, rate,
        scale, max_tries, random_seed, not no_vacuum, engine, allow_shell,
    )  # fmt: skip
    with Ending() as ending:
        try:
            measured = run(wanted, Progress(progress), ending)
        except Interrupted as interrupted:
            print("stopped: nothing was measured", file=sys.stderr)
            raise Interruption(interrupted.exit_code) from None
    if format is TextOrJson.json:
        from pgstrata.cli.output import print_json

        print_json(measured.as_json())
    else:
        print("\n".join(text(measured, report)))
    if measured.failure is not None:
        raise measured.failure
    raise typer.Exit(128 + ending.caught if ending.caught else 0)
