"""`pgstrata data`"""

from __future__ import annotations

from typing import Annotated

import typer

from pgstrata import numbers
from pgstrata.cli.output import Format

app = typer.Typer(
    help="Loaded data that campaigns with keep_loaded keep, and rows that were unpacked to be loaded.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_(
    format: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.table,
) -> None:
    """List the loaded data that is kept, and unpacked rows of dumps, with their sizes and what made them.

    \b
    Examples:
      pgstrata data list
      pgstrata data list --format json
    """
    from pgstrata.cli.output import print_rows
    from pgstrata.server import loaded
    from pgstrata.server.snapshot import folder_bytes
    from pgstrata.workload.custom import source

    rows: list[list[object]] = []
    for key, record, folder in loaded.kept():
        if record is None:
            rows.append([key[:8], None, None, None, None, numbers.size(folder_bytes(folder)), "damaged"])
        else:
            took, size = numbers.clock(record.seconds), numbers.size(record.bytes)
            rows.append([key[:8], record.server, record.workload, record.made, took, size, str(folder)])
    for rows_of in source.there():
        size = numbers.size(folder_bytes(rows_of.folder))
        what = f"rows of {rows_of.file}"
        rows.append([rows_of.key[:8], None, what, rows_of.made, None, size, str(rows_of.folder)])
    if rows or format is not Format.table:
        print_rows(["data", "server", "workload", "made", "loaded in", "size", "folder"], rows, format)
    else:
        print("no loaded data is kept: keep_loaded = true in a campaign keeps it")


@app.command("remove")
def remove(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME…", help="As `data list` shows it, or a server's label; all.")
    ],
) -> None:
    """Remove loaded data, and unpacked rows, from the cache.

    \b
    Examples:
      pgstrata data remove 3f9a21c4
      pgstrata data remove pg17.11
      pgstrata data remove all
    """
    from pgstrata.errors import UsageError
    from pgstrata.server import loaded
    from pgstrata.workload.custom import source

    for name in names:
        wanted = None if name == "all" else name
        done = [*loaded.remove(wanted), *source.remove(wanted)]
        if not done and name != "all":
            raise UsageError(f"no kept data is called {name}", "pgstrata data list shows what is kept")
        for key in done:
            print(f"removed {key[:8]}")
