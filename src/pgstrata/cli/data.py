"""`pgstrata data`"""

from __future__ import annotations

from typing import Annotated

import typer

from pgstrata import numbers
from pgstrata.cli.output import Format

app = typer.Typer(
    help="Data in the cache: what was loaded, unpacked or made for workloads.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_(
    format: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.table,
) -> None:
    """List loaded data that is kept, rows of dumps, TPC-DS, mail, vectors and the rest, with their sizes.

    \b
    Examples:
      pgstrata data list
      pgstrata data list --format json
    """
    from pgstrata.cli.output import print_rows
    from pgstrata.workload.cached import cached

    rows: list[list[object]] = [
        [
            one.name,
            one.server,
            one.what,
            one.made,
            None if one.seconds is None else numbers.clock(one.seconds),
            numbers.size(one.bytes),
            str(one.folder),
        ]
        for one in cached()
    ]
    if rows or format is not Format.table:
        print_rows(["data", "server", "what", "made", "loaded in", "size", "folder"], rows, format)
    else:
        print("the cache has no data; keep_loaded = true in a campaign keeps what it loads")


@app.command("remove")
def remove(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME…", help="As `data list` shows it, or a server's label; all.")
    ],
) -> None:
    """Remove data from the cache, unless it is in use; what is needed is made again.

    \b
    Examples:
      pgstrata data remove 3f9a21c4
      pgstrata data remove pg17.11
      pgstrata data remove all
    """
    from pgstrata.errors import ServerError, UsageError
    from pgstrata.workload.cached import cached

    for name in names:
        chosen = [one for one in cached() if name == "all" or one.is_called(name)]
        if not chosen and name != "all":
            raise UsageError(
                f"no data in the cache is called {name}", "pgstrata data list shows what there is"
            )
        for one in chosen:
            try:
                one.remove()
            except ServerError as error:
                if name != "all":
                    raise
                print(f"left: {error.message}")
            else:
                print(f"removed {one.name}")
