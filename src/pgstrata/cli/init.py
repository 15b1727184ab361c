"""`pgstrata init`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The campaign to write.")] = Path(
        "campaign.toml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented campaign to start from.

    \b
    Examples:
      pgstrata init
      pgstrata init studies/my-upgrade.toml
    """
    from pgstrata.campaign.file.template import TEMPLATE
    from pgstrata.errors import UsageError
    from pgstrata.files.user_files import in_command

    if file.exists() and not force:
        raise UsageError(f"{file} is there already", "name another file, or --force to replace it")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(TEMPLATE, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    print(f"wrote {file}; next: pgstrata run {in_command(file)} --dry-run")
