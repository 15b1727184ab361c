"""`pgstrata query`"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from pgstrata.cli.arguments import RESULTS, ResultsOption
from pgstrata.cli.output import Format


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
    from pgstrata.store.ask import stream

    with stream(results, sql) as answer:
        try:
            print_rows(answer.columns, answer.rows, format)
        except KeyboardInterrupt:
            # Closing waits for what DuckDB makes ahead, maybe without end; there is nothing to tidy up.
            os._exit(130)
    left_out(answer.broken)
