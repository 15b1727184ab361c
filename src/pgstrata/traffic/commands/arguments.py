"""Options of commands that read the log of a server."""

from __future__ import annotations

from typing import Annotated

import typer

PrefixOption = Annotated[
    str | None,
    typer.Option(
        "--prefix", metavar="PREFIX", help="log_line_prefix of a text log, if it is not recognized."
    ),
]
TimezoneOption = Annotated[
    str | None,
    typer.Option(
        "--timezone",
        metavar="ZONE",
        help="Region used to resolve ambiguous time zone abbreviations: Asia/Kolkata.",
    ),
]
EncodingOption = Annotated[
    str, typer.Option("--encoding", metavar="NAME", help="Of what in the log is not UTF-8.")
]
