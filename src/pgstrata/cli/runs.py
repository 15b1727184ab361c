"""`pgstrata runs`"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer

from pgstrata import numbers
from pgstrata.cli.arguments import RESULTS, ResultsOption
from pgstrata.cli.output import Format, prints, without_empty

if TYPE_CHECKING:
    from pgstrata.store.catalogue import Entry


class RunRow(TypedDict):
    """A run as `pgstrata runs` lists it."""

    run_id: str
    campaign: str
    variant: str
    workload: str
    repeat: int
    status: str
    started: str
    steps: int
    error: str | None


RunRows = list[RunRow]


@prints("pgstrata.cli.runs:RunRows")
def runs(
    results: ResultsOption = RESULTS,
    campaign: Annotated[
        str | None, typer.Option("--campaign", metavar="NAME", help="Only of this one.")
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.table,
) -> None:
    """List the runs of a results folder, failed ones with their reason.

    The table has the end of each id, by which `pgstrata show` finds the run; JSON and CSV have all of it.

    \b
    Examples:
      pgstrata runs
      pgstrata runs --results /srv/results --campaign insert-cached --format json
    """
    from pgstrata.cli.output import left_out, print_rows
    from pgstrata.errors import UsageError, harmless
    from pgstrata.files.user_files import shown
    from pgstrata.store import Results
    from pgstrata.store.choose import unknown_campaign

    if results != RESULTS and not results.is_dir():
        raise UsageError(
            f"there is no results folder {shown(results)}", "pgstrata run --results DIR makes one"
        )
    store = Results(results)
    there = store.entries()
    matching_runs = [run for run in there if campaign in (None, run.campaign)]
    if campaign is not None and there and not matching_runs:
        raise unknown_campaign(campaign, {run.campaign for run in there}, results)
    columns = list(RunRow.__annotations__)
    rows = [[getattr(run, name) for name in columns] for run in matching_runs]
    if format is not Format.table:
        print_rows(columns, rows, format)
    elif rows:
        print_rows(*_short(matching_runs))
        for run in matching_runs:
            if run.error:
                print(harmless(f"{_end(run.run_id)}: {' '.join(run.error.split())}"))
    else:
        print(f"no runs in {results}")
    left_out(store.broken)


def _short(runs: Sequence[Entry]) -> tuple[list[str], list[list[Any]]]:
    """Returns the runs as a table for people, no wider than it needs to be: their errors stand below it."""
    columns = ["run", "campaign", "variant", "workload", "repeat", "status", "started, UTC"]
    has_repeats = any(run.repeat > 1 for run in runs)
    rows = [
        [
            _end(run.run_id),
            run.campaign,
            run.variant,
            run.workload,
            run.repeat if has_repeats else None,
            run.status,
            numbers.moment(run.started).removesuffix(" UTC"),
        ]
        for run in runs
    ]
    return without_empty(columns, rows)


def _end(run_id: str) -> str:
    return run_id.rpartition("-")[2]
