"""`pgstrata completion`"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """A shell that completes commands and options."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the script by which a shell completes commands and options.

    \b
    Examples:
      pgstrata completion bash >~/.local/share/bash-completion/completions/pgstrata
      pgstrata completion zsh >"${fpath[1]}/_pgstrata"
      pgstrata completion fish >~/.config/fish/completions/pgstrata.fish
    """
    print(script(shell))


def script(shell: Shell) -> str:
    """Returns the script: it asks the program itself."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    from pgstrata.cli.main import COMPLETE

    text: str = get_completion_script(prog_name="pgstrata", complete_var=COMPLETE, shell=shell.value)
    return text


__all__ = ["Shell", "completion", "script"]
