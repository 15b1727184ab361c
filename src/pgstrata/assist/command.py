"""`pgstrata mcp`"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from pgstrata.cli.arguments import RESULTS, ResultsOption


def mcp(
    results: ResultsOption = RESULTS,
    allow_run: Annotated[
        bool, typer.Option("--allow-run", help="Also measure: without it only results are read.")
    ] = False,
    server: Annotated[
        list[str] | None,
        typer.Option(
            "--server",
            metavar="SPEC",
            help="A server beside published versions that may be measured, say path:/opt/patched=patched. "
            "Repeatable.",
        ),
    ] = None,
    setup: Annotated[
        list[Path] | None,
        typer.Option(
            "--setup", metavar="FILE", help="Data that queries are judged with: SQL, a dump. Repeatable."
        ),
    ] = None,
    most_seconds: Annotated[
        float,
        typer.Option("--max-seconds", metavar="S", help="Longest time that one answer may take.", min=10),
    ] = 900.0,
) -> None:
    """Answer assistants with verdicts: a server of the Model Context Protocol on standard input and output.

    \b
    Examples:
      pgstrata mcp --results /srv/results
      pgstrata mcp --allow-run --server /opt/patched=patched --setup app.dump
    """
    from pgstrata.errors import UsageError

    if find_spec("mcp") is None:
        raise UsageError(
            "answering assistants needs the package mcp, which is not installed",
            "pip install 'pgstrata[mcp]'",
        )
    from pgstrata.assist.ask import LONGEST_SECONDS
    from pgstrata.assist.server import Allowed, make_server
    from pgstrata.campaign.named_servers import listed_servers, named_server
    from pgstrata.server.find.acquire import check_spec

    if not most_seconds <= LONGEST_SECONDS:
        raise UsageError(f"--max-seconds {most_seconds:g}: more than a day", "900 is usual")
    if not allow_run and (server or setup):
        raise UsageError("--server and --setup are about measuring", "add --allow-run, or leave them out")
    servers = listed_servers(server or [])
    for text in servers:
        check_spec(named_server(text).spec)
    for path in setup or []:
        if not path.exists():
            raise UsageError(f"--setup: there is no file {path}", "check the path")
    allowed = Allowed(
        results=results.absolute(),
        measuring=allow_run,
        servers=tuple(servers),
        setup=tuple(path.absolute() for path in setup or []),
        most_seconds=most_seconds,
    )
    make_server(allowed).run("stdio")


__all__ = ["mcp"]
