"""`pgstrata run --fleet`, and `pgstrata fleet`"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pgstrata import numbers
from pgstrata.cli.output import TextOrJson, aligned

if TYPE_CHECKING:
    from pgstrata.campaign.file.models import Campaign


def need_engine() -> None:
    """Raises UsageError where the extra is not installed."""
    from pgstrata.errors import UsageError

    if find_spec("distributed") is None:
        raise UsageError("fleets need the engine Dask, which is not installed", "pip install pgstrata[fleet]")


def run_on_fleet(campaign: Campaign, fleet: str, fresh: bool, *, report: bool, form: TextOrJson) -> int:
    """Runs a campaign on the machines of a fleet; the exit code."""
    from rich.console import Console

    from pgstrata.cli.ending import Interruption, stopped
    from pgstrata.cli.report import write_report
    from pgstrata.fleet.campaign import execute
    from pgstrata.measure.interrupt import Interrupted
    from pgstrata.store import Results

    results = Path(campaign.spec.results)
    as_json = form is TextOrJson.json
    try:
        outcome = execute(campaign, Results(results), fleet, Console(), fresh=fresh, as_json=as_json)
    except Interrupted as interrupted:
        print(stopped(), file=sys.stderr)
        raise Interruption(interrupted.exit_code) from interrupted
    for planned, error in outcome.failed:
        print(f"failed: {planned.key.variant}, {planned.key.workload}: {error}", file=sys.stderr)
    if as_json:
        print_json_line(event="end", made=len(outcome.made), failed=len(outcome.failed))
    elif report and len(outcome.failed) < len(outcome.plan.runs):
        write_report(outcome.plan, results)
    return 1 if outcome.failed else 0


def print_json_line(**event: object) -> None:
    """One object in one line."""
    import json

    print(json.dumps(event, ensure_ascii=False), flush=True)


def show_forecast(campaign: Campaign, fleet: str, fresh: bool) -> None:
    """How long so many machines would take; nothing is started. Raises UsageError."""
    from pgstrata.errors import UsageError
    from pgstrata.fleet.assignments import assignments_of
    from pgstrata.fleet.forecast import enough, forecast
    from pgstrata.fleet.planning import plan_of
    from pgstrata.store import Results

    number = fleet.removeprefix("local:")
    if not (number.isascii() and number.isdigit() and 0 < int(number) <= 10_000):
        raise UsageError(
            f"--fleet {fleet}: a plan on paper is made for a number of machines",
            "write --dry-run --fleet 10; how many a scheduler has, `pgstrata fleet status` says",
        )
    results = Results(campaign.spec.results)
    plan = plan_of(campaign, results, fresh=fresh)
    assignments = assignments_of(plan, results)
    rows = [
        [one.workload, one.repeat, len(one.runs), numbers.clock(one.seconds), numbers.size(one.disk_bytes)]
        for one in sorted(assignments, key=lambda one: -one.seconds)
    ]
    for line in aligned(["workload", "repeat", "runs", "time about", "disk about"], rows):
        print(line)
    print()
    if not assignments:
        print(f"campaign {campaign.name}: everything is there")
        return
    qualify = campaign.spec.fleet.qualify_seconds
    most = enough(assignments, qualify_seconds=qualify)
    counts = sorted({1, 2, 5, 10, 20, 50, int(number), most.machines})
    counts = [n for n in counts if n <= max(int(number), most.machines)]
    found = [forecast(assignments, n, qualify_seconds=qualify) for n in counts]
    table = [
        [one.machines, numbers.clock(one.seconds), f"{one.busy:.0%}", "asked" * (one.machines == int(number))]
        for one in found
    ]
    for line in aligned(["machines", "time about", "busy", ""], table):
        print(line)
    asked = next(one for one in found if one.machines == int(number))
    longest = max(assignments, key=lambda one: one.seconds)
    print()
    print(
        f"campaign {campaign.name}: {len(assignments)} comparisons, on {number} machines about "
        f"{numbers.clock(asked.seconds)}"
    )
    print(
        f"more than {most.machines} machines would not help: a comparison stays on one machine, and the "
        f"longest ({longest}) takes about {numbers.clock(longest.seconds)}"
    )


__all__ = ["need_engine", "run_on_fleet", "show_forecast"]
