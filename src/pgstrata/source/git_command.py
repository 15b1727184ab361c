"""Asking git about a repository."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from pgstrata.errors import ServerError

COMMAND_SECONDS = 300.0


OVERRIDES = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.sshCommand": "ssh",
    "core.gitProxy": "",
    "core.pager": "cat",
    "core.askPass": "",
    "core.attributesFile": "/dev/null",
    "core.alternateRefsCommand": "",
    "credential.helper": "",
    "diff.external": "",
    "log.showSignature": "false",
    "gpg.program": "false",
    "uploadpack.packObjectsHook": "",
    "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
    "maintenance.auto": "false",
    "gc.auto": "0",
    "protocol.ext.allow": "never",
}
"""Settings that make git run a program; those of a repository's own config do not count."""


def git_command(repo: Path, *arguments: str) -> list[str]:
    """Returns a command of git on a repository whose config is not trusted to name programs."""
    settings = [word for name, value in OVERRIDES.items() for word in ("-c", f"{name}={value}")]
    return ["git", *settings, "--no-pager", "-C", str(repo), *arguments]


_READS_FILES = {
    "status": ("--ignore-submodules=all",),
    "show": ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
}
"""Commands that look at contents, and the options that keep them from asking programs and submodules."""

_DRIVER = re.compile(r"filter\.(.+)\.(?:clean|smudge|process|required)", re.IGNORECASE | re.DOTALL)


def _without_filters(repo: Path) -> list[str]:
    """Returns options that switch off the filters of a repository's config, which chooses their names
    itself."""
    command = git_command(repo, "config", "--list", "--name-only", "-z")
    done = subprocess.run(
        command, capture_output=True, env=git_environment(), stdin=subprocess.DEVNULL, timeout=COMMAND_SECONDS
    )
    keys = os.fsdecode(done.stdout).split("\0")
    names = {match[1] for key in keys if (match := _DRIVER.fullmatch(key))}
    pairs = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    return [
        word
        for name in sorted(names)
        for key, value in pairs
        for word in ("--config-env", f"filter.{name}.{key}={_VARIABLES[value]}")
    ]


_VARIABLES = {"": "PGSTRATA_GIT_EMPTY", "false": "PGSTRATA_GIT_FALSE"}
"""Of the environment: a name with `=` in it cannot be given with -c."""


def git_environment(*, fetches: bool = False) -> dict[str, str]:
    """Returns the environment of git: no questions for passwords, messages in English.

    fetches: other repositories may be reached, by a transport that runs no command of a config. Else none is:
    what a partial clone lacks would be fetched by the program that its config names.
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {
        **clean,
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh" if fetches else "none",
        "GIT_OPTIONAL_LOCKS": "0",
        **{name: value for value, name in _VARIABLES.items()},
        "GIT_NO_LAZY_FETCH": "1",
        # A promisor or replaced object would make one commit be two things.
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def run_git(repo: Path, *arguments: str, seconds: float = COMMAND_SECONDS) -> bytes:
    """Returns the output of git. Raises ServerError with git's own message."""
    try:
        name = next((word for word in arguments if not word.startswith("-")), "")
        options: list[str] = []
        if name in _READS_FILES:
            place = arguments.index(name) + 1
            arguments = (*arguments[:place], *_READS_FILES[name], *arguments[place:])
            options = _without_filters(repo)
        command = git_command(repo, *arguments)
        command[1:1] = options
        done = subprocess.run(
            command,
            capture_output=True,
            env=git_environment(fetches=name in ("clone", "fetch")),
            stdin=subprocess.DEVNULL,
            timeout=seconds,
        )
    except FileNotFoundError:
        raise ServerError("there is no git on this machine", "apt-get install git") from None
    except subprocess.TimeoutExpired:
        raise ServerError(f"git {arguments[0]} in {repo} did not end within {seconds:.0f} s") from None
    if done.returncode != 0:
        complaint = done.stderr.decode(errors="replace").strip()
        if "dubious ownership" in complaint:
            raise ServerError(
                f"git does not read {repo}, which belongs to somebody else",
                f"if you trust it: git config --global --add safe.directory {repo}",
            )
        raise ServerError(
            f"git {arguments[0]} failed in {repo}: {complaint.splitlines()[-1] if complaint else ''}"
        )
    return done.stdout


def about(repo: Path, commit: str) -> dict[str, Any]:
    """Returns hash, author's date (ISO 8601) and subject of a commit."""
    out = run_git(repo, "log", "-1", "--no-show-signature", "--format=%H%x00%aI%x00%s", commit, "--")
    full_hash, date, subject = out.decode(errors="replace").rstrip("\n").split("\0")
    return {"commit": full_hash, "date": date, "subject": subject}


__all__ = ["OVERRIDES", "about", "git_command", "git_environment", "run_git"]
