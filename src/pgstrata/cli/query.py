"""`pgstrata query`"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from pgstrata.cli.arguments import RESULTS, ResultsOption
from pgstrata.cli.output import Format, prints


@prints("pgstrata.cli.output:Rows")
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="Any SQL of DuckDB.")],
    results: ResultsOption = RESULTS,
    format: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.table,
) -> None:
    """Ask the runs anything in SQL. Views: runs, steps, series, histograms, backends, host, pgstat.

    \b
    Examples:
      pgstrata query "select variant, step, rate, rate_unit from steps order by step, variant"
      pgstrata query "select step, max(max_seconds) from series group by step" --format csv
      pgstrata query "describe steps"
    """
    from pgstrata.cli.output import left_out, print_rows
    from pgstrata.errors import StoreError
    from pgstrata.files.user_files import shown
    from pgstrata.store.ask import stream

    with stream(results, sql) as answer:
        if not answer.runs:
            left_out(answer.broken)
            raise StoreError(f"there are no runs in {shown(results)}", _elsewhere(results))
        try:
            print_rows(answer.columns, answer.rows, format)
        except KeyboardInterrupt:
            # Closing waits for what DuckDB makes ahead, maybe without end; there is nothing to tidy up.
            os._exit(130)
    if re.search(r"\brate\b", sql, re.I) and format is Format.table:
        print(BY_THEMSELVES, file=sys.stderr)
    left_out(answer.broken)


BY_THEMSELVES = (
    "note: `rate` is of each run by itself; where variants took turns, the rates that belong to the ratio "
    "between them are those of pgstrata compare"
)


def _elsewhere(folder: Path) -> str:
    """Returns a hint that names a nearby folder with runs, as `pgstrata upgrade` has below `runs`."""
    from pgstrata.files.user_files import shown
    from pgstrata.store import Results

    for near in (folder / "runs", folder / "results", folder.parent):
        if near.is_dir() and Results(near).entries():
            return f"{shown(near)} has some: name it with --results"
    return "pgstrata run makes some; name their folder with --results"
