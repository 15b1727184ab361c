"""`pgstrata servers`"""

from __future__ import annotations

from typing import Annotated

import typer

from pgstrata.cli.output import Format

app = typer.Typer(
    help="The servers that can be fetched and those that are.", no_args_is_help=True, rich_markup_mode=None
)

FormatOption = Annotated[Format, typer.Option("--format", help="How to print.")]


@app.command("list")
def list_(
    available: Annotated[
        bool, typer.Option("--available", help="Also what can be fetched (needs the network).")
    ] = False,
    format: FormatOption = Format.table,
) -> None:
    """List the servers in the cache.

    \b
    Examples:
      pgstrata servers list
      pgstrata servers list --available
    """
    from pgstrata.cli.output import print_rows
    from pgstrata.server import acquire

    here = {server.version: server for server in acquire.fetched()}
    rows: list[list[str | None]] = [
        [version, "fetched", str(server.bin_dir)] for version, server in here.items()
    ]
    if available:
        rows += [[version, "available", None] for version in acquire.available() if version not in here]
    if rows or format is not Format.table:
        print_rows(["version", "state", "folder"], rows, format)
    else:
        print("no server is fetched yet: pgstrata servers fetch 17, or just run a campaign")


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
    from pgstrata.server import acquire

    for version in versions:
        spec = version if version.startswith("pg:") else f"pg:{version}"
        server = acquire.acquire(spec, say=lambda text: print(text))
        print(f"{server.spec}: {server.bin_dir}")


@app.command("remove")
def remove(
    versions: Annotated[list[str], typer.Argument(metavar="VERSION…", help="As `servers list` shows them.")],
) -> None:
    """Remove servers from the cache.

    \b
    Examples:
      pgstrata servers remove 12.22
    """
    from pgstrata.server import acquire

    for version in versions:
        for removed in acquire.remove(version.removeprefix("pg:")):
            print(f"removed {removed}")
