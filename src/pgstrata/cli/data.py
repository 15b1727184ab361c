"""`pgstrata data`"""

from __future__ import annotations

from typing import Annotated, TypedDict

import typer

from pgstrata import numbers
from pgstrata.cli.output import Format, prints, without_empty

app = typer.Typer(
    help="Data in the cache: what was loaded, unpacked or made for workloads.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


DataRow = TypedDict(
    "DataRow",
    {
        "data": str,
        "server": str | None,
        "what": str,
        "made": str,
        "loaded in": str | None,
        "size": str,
        "folder": str,
    },
)
DataRows = list[DataRow]


@app.command("list")
@prints("pgstrata.cli.data:DataRows")
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
    from pgstrata.server.find.cache import cache_dir
    from pgstrata.workload.cached import cached

    rows: list[list[object]] = [
        [
            cached_data.name,
            cached_data.server,
            cached_data.what,
            cached_data.made,
            None if cached_data.seconds is None else numbers.clock(cached_data.seconds),
            numbers.size(cached_data.bytes),
            str(cached_data.folder),
        ]
        for cached_data in cached()
    ]
    columns = list(DataRow.__annotations__)
    if format is not Format.table:
        print_rows(columns, rows, format)
    elif rows:
        place = columns.index("made")
        for row in rows:
            row[place] = numbers.moment(str(row[place])).removesuffix(" UTC")
        columns[place] = "made, UTC"
        print_rows(*without_empty(columns[:-1], [row[:-1] for row in rows]), format)
        print(f"below {cache_dir()}")
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
        chosen = [cached_data for cached_data in cached() if name == "all" or cached_data.is_called(name)]
        if not chosen and name != "all":
            raise UsageError(
                f"no data in the cache is called {name}", "pgstrata data list shows what there is"
            )
        for cached_data in chosen:
            try:
                cached_data.remove()
            except ServerError as error:
                if name != "all":
                    raise
                print(f"left: {error.message}")
            else:
                print(f"removed {cached_data.name}")
