"""`pgstrata export-statistics`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pgstrata.errors import UsageError


def export_statistics(
    source: Annotated[
        str | None,
        typer.Argument(metavar="[DSN]", help="How to connect: postgresql://me@db/app, or key=value words."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file of statistics.")
    ] = None,
    without_values: Annotated[
        bool,
        typer.Option(
            "--without-values", help="Leave out values of columns: estimates of single values get worse."
        ),
    ] = False,
    script: Annotated[
        bool,
        typer.Option("--psql-script", help="Print a script for psql that writes stats.sql, and end."),
    ] = False,
) -> None:
    """Export the planner statistics of a database, for `pgstrata upgrade --statistics-only`.

    Only catalogs are read, in a read-only session. The file is what `pg_dump --statistics-only` of
    PostgreSQL 19 writes, from 9.2 on. It holds values of your columns, the most common ones and the bounds of
    histograms: keep it as you keep the data, or leave them out by --without-values.

    \b
    Examples:
      pgstrata export-statistics postgresql://me@db/app -o stats.sql
      pgstrata export-statistics --psql-script > export.sql; psql -X -d app -f export.sql
    """
    from pgstrata import numbers
    from pgstrata.files.user_files import shown, user_path
    from pgstrata.traffic.upgrade.planned import export

    if script:
        print(export.export_script(values=not without_values), end="")
        return
    if source is None:
        raise UsageError(
            "it is not said whose statistics are exported", "postgresql://me@db/app, or --psql-script"
        )
    if to is None:
        raise UsageError("it is not said where the statistics go", "name a file: -o stats.sql")
    done = export.export_statistics(source, user_path(to), values=not without_values)
    print(f"{shown(to)}: {numbers.counted(done.calls, 'statistic')}, {numbers.size(done.bytes)}")
    if not without_values:
        print("note: it holds values of your columns; keep it as you keep the data", file=sys.stderr)
    if done.unreadable:
        print(
            f"note: {numbers.counted(done.unreadable, 'table')} cannot be read by this user, and nothing of "
            "them is in it: GRANT pg_read_all_data TO the user (since 14)",
            file=sys.stderr,
        )


__all__ = ["export_statistics"]
