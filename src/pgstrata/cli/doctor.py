"""`pgstrata doctor`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pgstrata.cli.output import TextOrJson, prints


@prints("pgstrata.observe.doctor:Checks")
def doctor(
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="Where the clusters will live.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if anything is bad.")] = False,
    format: Annotated[TextOrJson, typer.Option("--format", help="How to print.")] = TextOrJson.text,
) -> None:
    """Check whether this machine is fit to measure: a line for each check, with its fix.

    \b
    Examples:
      pgstrata doctor
      pgstrata doctor --data-dir /srv/nvme --strict
    """
    from dataclasses import asdict

    from pgstrata.cli.output import print_json
    from pgstrata.observe.doctor import examine
    from pgstrata.server.cluster.storage import default_data_dir

    checks = examine(data_dir or default_data_dir())
    if format is TextOrJson.json:
        print_json([asdict(check) for check in checks])
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            print(f"{check.state.upper():<8} {check.name:<{width}}  {check.seen}")
            if check.fix:
                print(f"{'':<8} {'':<{width}}  → {check.fix}")
    if strict and any(check.state == "bad" for check in checks):
        raise typer.Exit(1)
