"""`pgstrata runs`"""

from __future__ import annotations

from typing import Annotated, TypedDict

import typer

from pgstrata.cli.arguments import RESULTS, ResultsOption
from pgstrata.cli.output import Format, prints


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

    \b
    Examples:
      pgstrata runs
      pgstrata runs --results /srv/results --campaign insert-cached --format json
    """
    from pgstrata.cli.output import left_out, print_rows
    from pgstrata.errors import UsageError
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
    if rows or format is not Format.table:
        print_rows(columns, rows, format)
    else:
        print(f"no runs in {results}")
    left_out(store.broken)
