"""The cache of fetched servers, and the program that fills it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pgstrata.driver.path import find_tools
from pgstrata.errors import NoServerError, ServerError, UsageError
from pgstrata.files.bounded import json_any
from pgstrata.files.building import building, discard, publish
from pgstrata.files.ownership import own_folder, read_small
from pgstrata.server.find import cache
from pgstrata.server.find.cache import ADVICE, cache_dir, cache_folder
from pgstrata.server.system.account import Account, blocked_at, server_account

_VERSION = re.compile(r"latest|\d{2,}(\.\d+)?|9\.\d+(\.\d+)?", re.ASCII)
_unreachable: list[str] = []
"""Set once the archive site could not be reached: asking again costs seconds each time."""


NEVER_PUBLISHED = "there is no published archive of PostgreSQL"
"""How the tools begin to say so."""


_resolved: set[str] = set()
"""Messages on versions that were looked for: a command looks for its servers at several places."""


def check_version(version: str) -> None:
    """Raises UsageError unless `version` is written as one: 17, 17.11, 9.6, 9.6.24, latest."""
    if not _VERSION.fullmatch(version):
        raise UsageError(
            f"pg:{version} is not a version of PostgreSQL", "write pg:17, pg:17.11, pg:9.6 or pg:latest"
        )


def fetch(version: str, say: Callable[[str], None] | None = None) -> Path:
    """Returns the folder of a fetched server, which the account of servers can reach.

    Downloads it if need be. Raises ServerError with the nearest versions, or what went wrong, and
    OwnershipError where another user could have put it there.
    """
    cache_folder("servers", make=not (cache_dir() / "servers").exists())
    arguments = ["fetch", version, "--cache", str(cache_dir())]
    if (account := server_account()) is not None:
        arguments += ["--run-as", f"{account.uid}:{account.gid}"]
    if _unreachable:
        arguments.append("--offline")
    for event in _ask(arguments):
        match event.get("event"):
            case "fetched":
                folder = Path(str(event["folder"]))
                own_folder(folder, "the server", advice=ADVICE, roots=True)
                return _reachable(folder, server_account(), say)
            case "fetch":
                if event.get("stage") == "offline":
                    _unreachable.append(version)
                message = str(event.get("message", ""))
                is_again = event.get("stage") == "resolve" and message in _resolved
                if event.get("stage") == "resolve":
                    _resolved.add(message)
                if say and not is_again and (event.get("stage") != "offline" or "--offline" not in arguments):
                    say(message)
    raise ServerError(f"pgstrata-tools did not say where PostgreSQL {version} is")


def published(every: bool = False) -> list[str]:
    """Returns published versions, oldest first: the newest release of each major one, or all of them.

    Raises ServerError when the archive site cannot be reached.
    """
    for event in _ask(["versions", "--json", *(["--all"] if every else [])]):
        if event.get("event") == "versions":
            return [str(version) for version in event["versions"]]
    raise ServerError("pgstrata-tools did not list the versions")


def fetched() -> list[tuple[str, Path]]:
    """Returns version and folder of every server in the cache, oldest version first."""
    servers = []
    for about in cache_folder("servers").glob("pg-*/pgstrata.json"):
        try:
            version = str(json_any(read_small(about))["version"])
            number = [int(part) for part in version.split(".")]
        except (OSError, ValueError, LookupError, TypeError):
            continue
        servers.append((number, version, about.parent))
    return [(version, folder) for _, version, folder in sorted(servers)]


def remove(version: str) -> list[str]:
    """Deletes servers from the cache: `17.11`, or all of `17`. Returns the versions deleted.

    Raises UsageError when the cache has none, ServerError when one is in use.
    """
    check_version(version)
    have = fetched()
    chosen = [(v, folder) for v, folder in have if v == version or v.startswith(f"{version}.")]
    if not chosen:
        names = ", ".join(v for v, _ in have) or "nothing"
        raise UsageError(f"PostgreSQL {version} is not in the cache", f"there is {names}")
    for chosen_version, folder in chosen:
        if pid := runs_from(folder):
            raise ServerError(f"PostgreSQL {chosen_version} is in use by process {pid}", "end it first")
    for _, folder in chosen:
        discard(folder)
    return [chosen_version for chosen_version, _ in chosen]


def _ask(arguments: list[str]) -> Iterator[dict[str, Any]]:
    """Yields the events that the tools print. Raises ServerError for their `error`."""
    tools = find_tools()
    command = [str(tools), *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            for line in process.stdout:
                event = json_any(line)
                if event.get("event") == "error":
                    raise _refused(str(event.get("message", "")), str(event.get("hint", "")))
                yield event
            message = process.stderr.read().decode(errors="replace").strip()
        except ValueError as error:
            raise ServerError(f"{tools} said something that is not JSON") from error
        finally:
            process.terminate()  # nothing happens to one that has ended by itself
    if process.returncode != 0 and message:
        raise ServerError(f"{tools} failed with code {process.returncode}", message)


def _refused(message: str, hint: str) -> ServerError:
    """Returns the error that the tools report; a version that was never published is the user's mistake."""
    if not message.startswith(NEVER_PUBLISHED):
        return ServerError(message, hint)
    near = hint.removeprefix("nearest: ")
    return NoServerError(message, f"nearest: {near}; write pg:{near.split(', ')[0]}")


def _reachable(folder: Path, account: Account | None, say: Callable[[str], None] | None) -> Path:
    """Returns the server's folder, or a copy of it in /var/cache/pgstrata when the account cannot enter
    it."""
    blocked = blocked_at(folder / "bin", account)
    if blocked is None or account is None:
        return folder
    copy = cache.SHARED / "servers" / folder.name
    if not (copy / "pgstrata.json").exists():
        if say:
            say(f"{blocked} is closed to the account {account.name}: copying the server to {copy}")
        try:
            own_folder(copy.parent, "the cache", advice=ADVICE)
            with building(copy) as place:
                shutil.copytree(folder, place, symlinks=True, dirs_exist_ok=True)
                publish(place, copy)
        except OSError as error:
            raise ServerError(
                f"{blocked} is closed to the account {account.name}, as which servers run, and the "
                f"server cannot be copied to {copy}: {error.strerror or error}",
                "set PGSTRATA_CACHE to a folder that every account can enter",
            ) from error
    return copy


def runs_from(folder: Path) -> int | None:
    """Returns the number of a process whose program lies in `folder`; None if there is none."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                program = os.readlink(f"/proc/{entry.name}/exe")  # noqa: PTH115
            except OSError:
                continue
            if Path(program).is_relative_to(folder.resolve()):
                return int(entry.name)
    return None
