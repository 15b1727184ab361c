"""`pgstrata servers`"""

from __future__ import annotations

from typing import Annotated, TypedDict

import typer

from pgstrata import numbers
from pgstrata.cli.output import Format, prints
from pgstrata.cli.quiet import say_progress

app = typer.Typer(
    help="The servers that can be fetched or built, and those that are.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

FormatOption = Annotated[Format, typer.Option("--format", help="How to print.")]


class ServerRow(TypedDict):
    """A server as `pgstrata servers list` shows it."""

    server: str
    state: str
    build: str | None
    size: str | None
    folder: str | None


ServerRows = list[ServerRow]


@app.command("list")
@prints("pgstrata.cli.servers:ServerRows")
def list_(
    available: Annotated[
        bool, typer.Option("--available", help="Also what can be fetched (needs the network).")
    ] = False,
    format: FormatOption = Format.table,
) -> None:
    """List the servers in the cache, fetched and built, and builds that failed.

    \b
    Examples:
      pgstrata servers list
      pgstrata servers list --available
    """
    from pgstrata.cli.output import print_rows
    from pgstrata.files.disk import folder_bytes
    from pgstrata.server.find import acquire
    from pgstrata.server.find.sources import sources

    here = {server.version: server for server in acquire.fetched()}
    rows: list[list[str | None]] = [
        [
            f"pg{version}",
            "fetched",
            None,
            numbers.size(folder_bytes(server.bin_dir.parent)),
            str(server.bin_dir),
        ]
        for version, server in here.items()
        if server.bin_dir
    ]
    for server in (server for source in sources() for server in source.listed()):
        taken = None if server.bytes is None else numbers.size(server.bytes)
        rows.append([server.label, server.state, server.build, taken, server.text])
    if available:
        rows += [
            [f"pg{version}", "available", None, None, None]
            for version in acquire.available()
            if version not in here
        ]
    if rows or format is not Format.table:
        print_rows(list(ServerRow.__annotations__), rows, format)
    else:
        print("no server is here yet: pgstrata servers fetch 17, or just run a campaign")


@app.command("fetch")
def fetch(
    versions: Annotated[list[str], typer.Argument(metavar="VERSION…", help="17, 17.11, latest.")],
) -> None:
    """Fetch servers into the cache, so that campaigns need no network.

    \b
    Examples:
      pgstrata servers fetch 12 17
      pgstrata servers fetch latest
    """
    from pgstrata.server.find import acquire

    for version in versions:
        spec = version if version.startswith("pg:") else f"pg:{version}"
        server = acquire.acquire(spec, say=say_progress)
        print(f"{server.spec}: {server.bin_dir}")


@app.command("remove")
def remove(
    versions: Annotated[list[str], typer.Argument(metavar="NAME…", help="As `servers list` shows them.")],
) -> None:
    """Remove servers from the cache, fetched or built, and failures that are remembered.

    \b
    Examples:
      pgstrata servers remove 12.22
      pgstrata servers remove release9.0.23 git20devel-1a2b3c4d.o3_native
    """
    from pgstrata.server.find import acquire
    from pgstrata.server.find.sources import sources

    for version in versions:
        built = [removed for source in sources() for removed in source.remove(version)]
        for removed in built or acquire.remove(version.removeprefix("pg:").removeprefix("pg")):
            print(f"removed {removed}")
