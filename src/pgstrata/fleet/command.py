"""`--fleet` of commands, and `pgstrata fleet`"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstrata import numbers
from pgstrata.cli.output import TextOrJson, aligned, print_json, prints
from pgstrata.cli.quiet import progress_console

if TYPE_CHECKING:
    from rich.console import Console

    from pgstrata.campaign.checked import Campaign
    from pgstrata.measure.errands import Errands
    from pgstrata.measure.interrupt import Interrupts


app = typer.Typer(
    help="Machines for campaigns: put a cluster of the engine up, look at it, take it down.",
    no_args_is_help=True,
)

NameOption = Annotated[str, typer.Option("--name", metavar="NAME", help="What the fleet is called here.")]


def need_engine() -> None:
    """Raises UsageError where the extra is not installed."""
    from pgstrata.errors import UsageError

    if find_spec("distributed") is None:
        raise UsageError(
            "fleets need the engine Dask, which is not installed", "pip install 'pgstrata[fleet]'"
        )


def check_fleet(fleet: str) -> None:
    """Raises UsageError for what is no fleet, or where the extra is not installed."""
    need_engine()
    from pgstrata.fleet import campaign

    campaign.check_fleet(fleet)


def do_errands(errands: Errands, fleet: str, console: Console, interrupts: Interrupts) -> None:
    """Has all errands done by the machines of a fleet (`pgstrata.cli.machines.Machines`)."""
    from pgstrata.fleet import campaign

    campaign.do_errands(errands, fleet, console, interrupts)


def run_on_fleet(campaign: Campaign, fleet: str, fresh: bool, *, report: bool, form: TextOrJson) -> int:
    """Runs a campaign on the machines of a fleet; the exit code."""
    from pgstrata.cli.ending import Interruption, stopped
    from pgstrata.cli.report import show_results
    from pgstrata.fleet.campaign import execute
    from pgstrata.fleet.watching import print_json_line
    from pgstrata.measure.interrupt import Interrupted
    from pgstrata.store import Results

    results = Path(campaign.spec.results)
    as_json = form is TextOrJson.json
    try:
        outcome = execute(campaign, Results(results), fleet, progress_console(), fresh=fresh, as_json=as_json)
    except Interrupted as interrupted:
        print(stopped(), file=sys.stderr)
        raise Interruption(interrupted.exit_code) from interrupted
    for planned, error in outcome.failed:
        print(f"failed: {planned.key.variant}, {planned.key.workload}: {error}", file=sys.stderr)
    if as_json:
        print_json_line(event="end", made=len(outcome.folders), failed=len(outcome.failed))
    elif len(outcome.failed) < len(outcome.plan.runs):
        show_results(outcome.plan, results, page=report)
    return 1 if outcome.failed else 0


def show_forecast(campaign: Campaign, fleet: str, fresh: bool, form: TextOrJson) -> None:
    """Prints how long this number of machines would take; nothing is started. Raises UsageError."""
    from pgstrata.errors import UsageError
    from pgstrata.fleet.assignments import assignments_of
    from pgstrata.fleet.forecast import ForecastRecord, enough, forecast
    from pgstrata.fleet.kinds import parts
    from pgstrata.fleet.planning import plan_of
    from pgstrata.store import Results
    from pgstrata.store.lock import check_results

    text = fleet.removeprefix("local:")
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 10_000):
        raise UsageError(
            f"--fleet {fleet}: a plan on paper is made for a number of machines",
            "write --dry-run --fleet 10; how many a scheduler has, `pgstrata fleet status` says",
        )
    number = int(text)
    results = Results(campaign.spec.results)
    check_results(results.root)
    plan = plan_of(campaign, results, fresh=fresh)
    assignments = assignments_of(plan, results)
    longest_first = sorted(assignments, key=lambda assignment: -assignment.seconds)
    qualify = campaign.spec.fleet.qualify_seconds
    most = enough(assignments, qualify_seconds=qualify).machines if assignments else 0
    counts = [n for n in sorted({1, 2, 5, 10, 20, 50, number, most}) if 0 < n <= max(number, most)]
    forecasts = [forecast(assignments, n, qualify_seconds=qualify) for n in counts if assignments]
    if form is TextOrJson.json:
        record: ForecastRecord = {
            "campaign": campaign.name,
            "asked": number,
            "enough": most,
            "seconds_are": plan.bound,
            "comparisons": [
                {
                    "workload": assignment.workload,
                    "repeat": assignment.repeat,
                    "runs": len(assignment.runs),
                    "seconds": assignment.seconds,
                    "disk_bytes": assignment.disk_bytes,
                    "kind": assignment.kind,
                }
                for assignment in longest_first
            ],
            "forecasts": [
                {"machines": estimate.machines, "seconds": estimate.seconds, "busy": estimate.busy}
                for estimate in forecasts
            ],
        }
        print_json(record)
        return
    rows = [
        [
            *(assignment.workload, assignment.repeat, len(assignment.runs)),
            *(numbers.clock(assignment.seconds), numbers.size(assignment.disk_bytes), assignment.kind),
        ]
        for assignment in longest_first
    ]
    head = ["workload", "repeat", "runs", f"time {plan.bound}", "disk about"]
    if any(assignment.kind for assignment in assignments):
        head.append("kind of machine")
    for line in aligned(head, [row[: len(head)] for row in rows]):
        print(line)
    for label, steps in parts(plan.campaign, campaign).items():
        print(f"{label}: {', '.join(steps)}")
    print()
    if not assignments:
        print(f"campaign {campaign.name}: everything is there")
        return
    table = [
        [
            estimate.machines,
            numbers.clock(estimate.seconds),
            f"{estimate.busy:.0%}",
            "asked" * (estimate.machines == number),
        ]
        for estimate in forecasts
    ]
    for line in aligned(["machines", f"time {plan.bound}", "busy", ""], table):
        print(line)
    asked = next(estimate for estimate in forecasts if estimate.machines == number)
    longest = longest_first[0]
    comparisons = numbers.counted(len(assignments), "comparison")
    machines = numbers.counted(number, "machine")
    print()
    print(
        f"campaign {campaign.name}: {comparisons}, on {machines} {plan.bound} {numbers.clock(asked.seconds)}"
    )
    print(
        f"more than {numbers.counted(most, 'machine')} would not help: a comparison stays on one machine, "
        f"and the longest ({longest}) takes {plan.bound} {numbers.clock(longest.seconds)}"
    )


@app.command("up")
def up(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="ssh:HOSTS.txt, slurm: or slurm:PARTITION.")],
    machines: Annotated[
        int, typer.Option("--machines", metavar="N", min=1, max=10_000, help="Nodes of Slurm.")
    ] = 1,
    name: NameOption = "fleet",
    listen: Annotated[
        str, typer.Option("--listen", metavar="ADDRESS", help="Where the scheduler listens (default: all).")
    ] = "",
    without_tls: Annotated[
        bool,
        typer.Option(
            "--without-tls",
            help="Danger: everybody who reaches the scheduler can build and run servers there.",
        ),
    ] = False,
    walltime: Annotated[
        str, typer.Option("--walltime", metavar="TIME", help="Of each job of Slurm.")
    ] = "24:00:00",
    directive: Annotated[
        list[str] | None,
        typer.Option("--directive", metavar="TEXT", help="A further line for #SBATCH. Repeatable."),
    ] = None,
) -> None:
    """Put a cluster of the engine up, and say what was done.

    \b
    Examples:
      pgstrata fleet up ssh:hosts.txt
      pgstrata fleet up slurm:bench --machines 8 --walltime 08:00:00
    """
    need_engine()
    from pgstrata.errors import UsageError
    from pgstrata.fleet.engine import has_certificates
    from pgstrata.fleet.putting_up import Wish, check_name, put_up, read_hosts

    check_name(name)
    kind, colon, rest = what.partition(":")
    if not colon or kind not in ("ssh", "slurm") or (kind == "ssh" and not rest):
        hint = "run CAMPAIGN --fleet local:N tries one on this machine" if kind == "local" else ""
        raise UsageError(
            f"{what}: not a way to put a fleet up", hint or "write ssh:hosts.txt or slurm:PARTITION"
        )
    tls = kind == "ssh" or has_certificates()  # by ssh they travel to the hosts, made for this fleet
    if not (tls or without_tls):
        raise UsageError(
            "the scheduler would listen on the network without TLS, and do what anybody who reaches it asks",
            "give the engine certificates (docs/guides/fleet-security.md), or say --without-tls in a network "
            "of your own",
        )
    wish = Wish(
        name=name,
        kind=kind,
        hosts=read_hosts(Path(rest)) if kind == "ssh" else (),
        machines=machines,
        partition=rest if kind == "slurm" else "",
        walltime=walltime,
        directives=tuple(directive or ()),
        listen=listen,
        tls=tls and not without_tls,
    )
    outcome = put_up(wish)
    for line in outcome.fleet.messages:
        print(line)
    print(f"scheduler {outcome.fleet.address}, dashboard {outcome.fleet.dashboard or 'none'}")
    print(f"kept by process {outcome.fleet.pid}, which writes to {outcome.log}")
    print(f"use it:  pgstrata run CAMPAIGN.toml --fleet {outcome.fleet.address}")
    print(f"end it:  pgstrata fleet down --name {name}")


@app.command("status")
@prints("pgstrata.fleet.status:FleetRecords")
def status(
    scheduler: Annotated[
        str | None,
        typer.Argument(metavar="SCHEDULER", help="tcp://HOST:PORT; none: the fleets that were put up here."),
    ] = None,
    form: Annotated[TextOrJson, typer.Option("--format", help="How to print.")] = TextOrJson.text,
) -> None:
    """The machines of a fleet, their kinds, and what they do.

    \b
    Examples:
      pgstrata fleet status
      pgstrata fleet status tcp://scheduler:8786 --format json
    """
    need_engine()
    from dataclasses import asdict

    from pgstrata.fleet import putting_up
    from pgstrata.fleet.engine import check_address
    from pgstrata.fleet.status import FleetRecord
    from pgstrata.fleet.status import status as look

    if scheduler is not None:
        check_address(scheduler)
    fleets = {name: fleet for name in putting_up.names() if (fleet := putting_up.read(name)) is not None}
    addresses = [scheduler] if scheduler else [fleet.address for fleet in fleets.values() if fleet.address]
    statuses = {address: look(address) for address in addresses}
    if form is TextOrJson.json:
        print_json(
            [
                asdict(FleetRecord(address, dashboard, machines))
                for address, (machines, dashboard) in statuses.items()
            ]
        )
        return
    if not statuses:
        print("no fleet was put up here")
    for address, (machines, dashboard) in statuses.items():
        names = [name for name, fleet in fleets.items() if fleet.address == address]
        print(f"{f'{names[0]}: ' if names else ''}scheduler {address}, dashboard {dashboard or 'none'}")
        rows = [
            [machine.name, machine.doing or machine.problem, machine.kind, machine.address]
            for machine in machines
        ]
        for line in aligned(["machine", "does", "kind", "address"], rows):
            print(line)


@app.command("down")
def down(name: NameOption = "fleet") -> None:
    """End a fleet that was put up here: what it does, its workers and its scheduler.

    \b
    Examples:
      pgstrata fleet down
    """
    need_engine()
    from pgstrata.fleet.putting_up import check_name, put_down

    check_name(name)
    put_down(name)
    print(f"{name} is down")


__all__ = ["check_fleet", "do_errands", "need_engine", "run_on_fleet", "show_forecast"]
