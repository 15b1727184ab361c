"""Options that mean the same in every command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ResultsOption = Annotated[Path, typer.Option("--results", metavar="DIR", help="Folder with the runs.")]

RESULTS = Path("results")
