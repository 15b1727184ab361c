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
WindowOption = Annotated[
    str | None,
    typer.Option("--window", metavar="FROM-TO", help="Part of the log, in UTC: 10:00-10:20."),
]
SkipIdleOption = Annotated[
    bool, typer.Option("--skip-idle", help="Cut time in which no session asks for anything to a second.")
]
EncodingOption = Annotated[
    str, typer.Option("--encoding", metavar="NAME", help="Of what in the log is not UTF-8.")
]
