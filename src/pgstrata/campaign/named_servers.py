"""Servers as a person writes them: with a label, several with commas, an installation by its folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgstrata.errors import UsageError
from pgstrata.files.user_files import is_file, shown, user_path
from pgstrata.server.find.sources import source_kinds

KINDS = ("pg", "path", "dsn", *source_kinds())
"""What stands before the colon of a server."""

_KIND = f"(?:{'|'.join(KINDS)}):"
_LABEL = r"[^\W_][\w.+-]{0,99}"
_LABEL_FIRST = re.compile(rf"({_LABEL})=({_KIND}.+)", re.DOTALL)
_LABEL_LAST = re.compile(rf"(.+)=({_LABEL})", re.DOTALL)
_LIKE_SERVER = re.compile(r"(?:[A-Za-z]+:|[A-Za-z]+\d|\d|\w+=|latest)", re.ASCII)
_COMMA = re.compile(rf",(?=\s*(?:(?:{_LABEL}=)?{_KIND}|\.{{0,2}}/|~))")


@dataclass(frozen=True)
class NamedServer:
    """A server and the label that was written with it, None for its usual one."""

    spec: str
    label: str | None = None


def named_server(text: str) -> NamedServer:
    """Takes apart `SPEC=LABEL`, and `LABEL=SPEC` for addresses, which contain equals signs themselves.

    A folder or file whose name contains an equals sign is taken as it is.
    """
    if first := _LABEL_FIRST.fullmatch(text):
        return NamedServer(first[2], first[1])
    kind, _, rest = text.partition(":")
    last = _LABEL_LAST.fullmatch(rest)
    if last is None or kind not in KINDS or kind == "dsn" or ("://" in rest and "?" in rest):
        return NamedServer(text)
    if kind in ("path", "src", "tar") and os.path.exists(user_path(rest)):  # noqa: PTH110
        return NamedServer(text)
    return NamedServer(f"{kind}:{last[1]}", last[2])


def listed_servers(texts: Iterable[str]) -> list[str]:
    """Returns the servers of a command line one by one: `pg:16,pg:17` are two, a folder becomes `path:`.

    Raises UsageError where one is empty.
    """
    servers = []
    for text in texts:
        for part in _parts(text):
            if not part.strip():
                raise UsageError(f"{shown(text)!r} names an empty server", "write pg:16,pg:17")
            servers.append(_with_kind(part.strip()))
    return servers


def single_server(text: str, message: str, hint: str) -> NamedServer:
    """Takes apart a text that names one server. Raises UsageError with the message and hint for several."""
    servers = listed_servers([text])
    if len(servers) != 1:
        raise UsageError(message, hint)
    return named_server(servers[0])


def divide_arguments(what: Sequence[str], servers: Sequence[str]) -> tuple[Path | None, list[str]]:
    """Divides the arguments of a command into a campaign file and servers; `servers` come from options.

    Raises UsageError for a file beside other arguments.
    """
    files = [text for text in what if _is_file(text, alone=len(what) == 1)]
    if files and len(what) > 1:
        if not files[0].endswith(".toml"):
            raise UsageError(
                f"{shown(files[0])} is a file, not a server",
                "write path:DIR for the folder with bin/postgres, tar:FILE for a source archive; settings go "
                "into --config FILE.conf, a script into --script FILE.sql",
            )
        raise UsageError(
            f"{shown(files[0])} is a campaign file, and stands beside other arguments",
            "name one campaign file alone (--server replaces its servers), or only servers",
        )
    if files:
        return user_path(files[0]), listed_servers(servers)
    return None, listed_servers([*what, *servers])


def _is_file(text: str, *, alone: bool) -> bool:
    """Returns whether an argument names a campaign file; alone: anything that is not like a server does."""
    if named_server(text).spec.partition(":")[0] in KINDS or is_installation(text.partition(",")[0]):
        return False
    if text.endswith(".toml") or is_file(user_path(text)):
        return True
    return alone and _LIKE_SERVER.match(text) is None


def _parts(text: str) -> list[str]:
    parts: list[str] = []
    for part in _COMMA.split(text):
        # Versions and labels contain no commas, so that a forgotten `pg:` is named as such.
        parts += part.split(",") if part.lstrip().startswith("pg:") else [part]
    return parts


def _with_kind(text: str) -> str:
    """Returns `path:DIR` for the folder of an installation, anything else as it is."""
    if named_server(text).spec.partition(":")[0] in KINDS:
        return text
    folder, equals, label = text.rpartition("=")
    if is_installation(text):
        return f"path:{text}"
    if equals and re.fullmatch(_LABEL, label) and is_installation(folder):
        return f"path:{folder}={label}"
    if re.fullmatch(_LABEL, folder) and is_installation(label):
        return f"path:{label}={folder}"
    return text


def is_installation(text: str) -> bool:
    """Returns whether a text is the path of a folder with PostgreSQL's programs."""
    if not text or "\0" in text or len(text) > 4096:
        return False
    try:
        folder = user_path(text)
        return (folder / "bin" / "postgres").is_file() or (folder / "postgres").is_file()
    except (OSError, UsageError):
        return False


def folder_names(folders: Sequence[Path]) -> list[str]:
    """Returns short names that tell folders apart: `/opt/old/pgsql`, `/opt/new/pgsql` → old, new."""
    reversed_parts = [folder.parts[:0:-1] for folder in folders]
    depth = max(map(len, reversed_parts), default=0)
    for level in range(depth):
        names = [parts[level] if level < len(parts) else "" for parts in reversed_parts]
        if all(names) and len(set(names)) == len(names):
            return names
    for count in range(2, depth + 1):
        names = ["-".join(reversed(parts[:count])) for parts in reversed_parts]
        if all(names) and len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]


__all__ = [
    "KINDS",
    "NamedServer",
    "divide_arguments",
    "folder_names",
    "is_installation",
    "listed_servers",
    "named_server",
    "single_server",
]
