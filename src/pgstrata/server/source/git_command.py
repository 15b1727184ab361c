"""Asking git about a repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from pgstrata.errors import ServerError

COMMAND_SECONDS = 300.0


def git_environment() -> dict[str, str]:
    """Nobody is asked for a password, messages are English, no transport that runs a command."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {
        **clean,
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        "GIT_OPTIONAL_LOCKS": "0",
        # A promisor or replaced object would make one commit be two things.
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def run_git(repo: Path, *arguments: str, seconds: float = COMMAND_SECONDS) -> bytes:
    """What git prints. Raises ServerError with what it said."""
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(repo), *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            env=git_environment(),
            stdin=subprocess.DEVNULL,
            timeout=seconds,
        )
    except FileNotFoundError:
        raise ServerError("there is no git on this machine", "apt-get install git") from None
    except subprocess.TimeoutExpired:
        raise ServerError(f"git {arguments[0]} in {repo} did not end within {seconds:.0f} s") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        if "dubious ownership" in said:
            raise ServerError(
                f"git does not read {repo}, which belongs to somebody else",
                f"if you trust it: git config --global --add safe.directory {repo}",
            )
        raise ServerError(f"git {arguments[0]} failed in {repo}: {said.splitlines()[-1] if said else ''}")
    return done.stdout


def about(repo: Path, commit: str) -> dict[str, Any]:
    """Hash, author's date (ISO 8601) and subject of a commit."""
    out = run_git(repo, "log", "-1", "--no-show-signature", "--format=%H%x00%aI%x00%s", commit, "--")
    found, date, subject = out.decode(errors="replace").rstrip("\n").split("\0")
    return {"commit": found, "date": date, "subject": subject}


__all__ = ["about", "git_environment", "run_git"]
