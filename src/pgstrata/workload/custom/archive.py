"""Dumps of pg_dump that are no SQL: custom, tar and directory format, read by pg_restore.

pg_restore only translates: what it says is split into statements and blocks of rows, and the driver loads
them. So it talks to no server, and one that is newer than all servers will do.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import IO

from pgstrata.errors import ServerError, UsageError, server_said
from pgstrata.files.unpacking import opened
from pgstrata.files.user_files import shown
from pgstrata.server.find.sources import sources
from pgstrata.server.system.account import blocked_at, server_account
from pgstrata.server.system.isolation import becoming, probe
from pgstrata.server.system.process import server_env, start
from pgstrata.workload.custom.encoding import codec_of, copy_in, encoding_of_dump
from pgstrata.workload.custom.source import Check, CopyBlock, Source, folder_of, unpacked
from pgstrata.workload.custom.sql import SqlStatement, items

READING_SECONDS = 600.0
"""Longest time in which pg_restore says what a dump holds, its rows apart."""

AT_ONCE = 4
"""Tables that are unpacked at the same time."""

EXPANDED = 6.0
"""Bytes of rows for each byte of a dump that is compressed: for estimates only."""

_CHUNK = 1 << 20

# Version of the archive's format and the first pg_restore that reads it (pg_backup_archiver.h).
_READ_BY = {(1, 13): 10, (1, 14): 12, (1, 15): 16, (1, 16): 17}
_TABLE_DATA = re.compile(r"^(\d+); \d+ \d+ TABLE DATA (.*)$", re.M)
_OTHER_DATA = re.compile(r"^\d+; \d+ \d+ (?:SEQUENCE SET|BLOBS) .*$", re.M)
_DUMPED_FROM = re.compile(r"^;\s+Dumped from database version: ([0-9][0-9.a-z]*)", re.M)
_COPY = re.compile(rb"^COPY .* FROM stdin;\n", re.M)
_END_OF_ROWS = b"\n\\.\n"


@dataclass(frozen=True)
class PgRestore:
    """The program and its major version, 17 for 17.6. prints: whether it prints to `-f -`, as from 12 on."""

    program: Path
    major: int
    prints: bool

    def printing(self) -> list[str]:
        """Returns the command that prints. A pg_restore without `-f -` prints without that option."""
        out = ["-f", "-"] if self.prints else []
        return [str(self.program), *out, "--no-owner", "--no-privileges", "--no-tablespaces"]


def find_pg_restore() -> list[PgRestore]:
    """Returns all installed pg_restore programs: of the system, of its packages and of built servers; the
    newest first."""
    return _find()


@cache
def _find() -> list[PgRestore]:
    places: list[str | None] = [*map(str, Path("/usr/lib/postgresql").glob("*/bin/pg_restore"))]
    places += map(str, Path("/usr").glob("pgsql-*/bin/pg_restore"))
    places += [str(folder / "pg_restore") for source in sources() for folder in source.program_folders()]
    places.append(
        shutil.which("pg_restore")
    )  # last: with Debian's packages it is a script that looks for one
    tools = [
        PgRestore(Path(place), major, _prints(Path(place)))
        for place in places
        if place and (major := _major(Path(place)))
    ]
    return sorted(tools, key=lambda tool: -tool.major)


def _major(program: Path) -> int | None:
    try:
        answer = probe([program, "--version"])
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\(PostgreSQL\) (\d+)", answer.stdout)
    return int(match[1]) if match else None


def _prints(program: Path) -> bool:
    try:
        return "- for stdout" in probe([program, "--help"]).stdout
    except (OSError, subprocess.SubprocessError):
        return False


def _suitable(dump: Path) -> PgRestore:
    """Raises UsageError where none is new enough, with what to install."""
    needed = _needed(_format(dump))
    there = find_pg_restore()
    if there and there[0].major >= needed:
        return there[0]
    which = f"of PostgreSQL {needed} or later" if needed else "of any version"
    have = f", and the newest here is of {there[0].major}" if there else ", and there is none here"
    raise UsageError(
        f"the dump {shown(dump)} is read by pg_restore {which}{have}",
        f"install it (Debian: postgresql-client-{needed or 17}), build such a server "
        f"(pgstrata servers build release:{needed or 17}), or dump as SQL: pg_dump -Fp needs no pg_restore",
    )


def _needed(version: tuple[int, int]) -> int:
    """Returns the first major version whose pg_restore reads an archive of this version; 0 for all."""
    if version > max(_READ_BY):
        return max(_READ_BY.values()) + 1  # or later: of a pg_dump that is newer than this table
    return _READ_BY.get(version, 0)


def _format(dump: Path) -> tuple[int, int]:
    """Returns major and minor version of the archive's format, from its head: `PGDMP`, then a byte each.
    Raises UsageError if it cannot be read."""
    try:
        if dump.is_dir():
            head = _head((dump / "toc.dat").open("rb"))
        else:
            head = _head(dump.open("rb"))
            if not head.startswith(b"PGDMP"):
                head = _head_in_tar(dump)
    except FileNotFoundError:
        raise UsageError(
            f"the folder {shown(dump)} is no dump: it has no toc.dat",
            "`setup` takes SQL files, dumps and rows; a folder of rows is { folder = … }",
        ) from None
    except OSError as error:
        raise UsageError(f"the dump {shown(dump)} cannot be read: {error.strerror or error}") from error
    if not head.startswith(b"PGDMP") or len(head) < 7:
        raise UsageError(f"{shown(dump)} is no dump of pg_dump")
    return head[5], head[6]


def _head_in_tar(dump: Path) -> bytes:
    """Returns the first bytes of toc.dat, which pg_dump writes first."""
    with dump.open("rb") as file, opened(shown(dump), file, "r:") as tar:
        member = tar.next()
        inner = tar.extractfile(member) if member is not None and member.name == "toc.dat" else None
        return inner.read(8) if inner is not None else b""


def _head(file: IO[bytes]) -> bytes:
    with file:
        return file.read(8)


@lru_cache(maxsize=100)
def archive(dump: Path, digest: str) -> Source:
    """Returns the statements and rows of a dump. Raises UsageError if no pg_restore can read it."""
    tool = _suitable(dump)
    listed = _listed(tool, dump)
    folder = folder_of(digest)
    tables = [(number, name) for number, name in _TABLE_DATA.findall(listed)]
    sizes = _sizes(dump, [number for number, _ in tables])
    blocks = [
        CopyBlock(_copy_of(tool, dump, number, name), folder / f"{number}.rows", sizes[number])
        for number, name in tables
    ]
    pieces: list[SqlStatement | CopyBlock] = [*_statements(tool, dump, ["--section=pre-data"]), *blocks]
    if others := [line for line in listed.splitlines() if _OTHER_DATA.match(line)]:
        pieces += _statements(tool, dump, [], only=others)
    pieces += _statements(tool, dump, ["--section=post-data"])
    size = sum(sizes.values())

    def extract(place: Path, check: Check) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            futures = [
                pool.submit(_extract, tool, dump, number, place / f"{number}.rows", check)
                for number, _ in tables
            ]
            for future in futures:
                future.result()

    needed = size if blocks else None
    match = _DUMPED_FROM.search(listed)
    return Source(
        tuple(pieces),
        True,
        size,
        lambda say, check: unpacked(dump, folder, needed, extract, say, check),
        match[1] if match else "",
    )


def _listed(tool: PgRestore, dump: Path) -> str:
    """Returns the table of contents of a dump. Raises ServerError if pg_restore does not list it."""
    try:
        with _reading(dump) as (named, source):
            done = subprocess.run(
                [str(tool.program), "-l", *named],
                stdin=source,
                capture_output=True,
                timeout=READING_SECONDS,
                env=server_env(),
                cwd="/",
                preexec_fn=becoming(server_account()),
            )
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerError(f"{tool.program} does not list {shown(dump)}: {error}") from error
    if done.returncode != 0:
        raise _failed(tool, dump, done.stderr)
    return done.stdout.decode(errors="replace")


def _sizes(dump: Path, numbers: Sequence[str]) -> dict[str, int]:
    """Returns about how many bytes the rows of each table take; the same before and after they are
    unpacked."""
    if dump.is_dir():
        files = {
            p.name.partition(".")[0]: (p.stat().st_size, p.suffix == ".dat") for p in dump.glob("*.dat*")
        }
        there = {n: files.get(n, (0, True)) for n in numbers}
        return {n: size if plain else int(size * EXPANDED) for n, (size, plain) in there.items()}
    return dict.fromkeys(numbers, int(dump.stat().st_size * EXPANDED / max(1, len(numbers))))


@contextlib.contextmanager
def _reading(dump: Path) -> Iterator[tuple[list[str], IO[bytes] | int]]:
    """Yields the arguments and the standard input with which pg_restore reads a dump.

    As root it runs as the account of servers, which need not be able to open the file.
    """
    if dump.is_dir():
        account = server_account()
        if account is not None and (closed := blocked_at(dump, account)):
            raise UsageError(
                f"pg_restore runs as {account.name}, to whom {shown(closed)} is closed",
                _open_to(dump, closed),
            )
        yield [str(dump)], subprocess.DEVNULL
    else:
        with dump.open("rb") as file:
            yield [], file


@contextlib.contextmanager
def _printing(
    tool: PgRestore, dump: Path, arguments: Sequence[str], only: Sequence[str]
) -> Iterator[IO[bytes]]:
    """Yields the output of pg_restore as it comes; the program ends with the block. only: lines of its table
    of contents."""
    with tempfile.NamedTemporaryFile("w", prefix="pgstrata-", suffix=".list") as chosen:
        chosen.write("".join(f"{line}\n" for line in only))
        chosen.flush()
        account = server_account()
        if account is not None:
            os.fchown(chosen.fileno(), account.uid, account.gid)
        listed = ["-L", chosen.name] if only else []
        with (
            tempfile.TemporaryFile() as errors,
            _reading(dump) as (named, source),
            start(
                [*tool.printing(), *arguments, *listed, *named],
                become=becoming(account),
                cwd="/",
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=server_env(),
            ) as process,
        ):
            assert process.stdout is not None
            try:
                yield process.stdout
                if process.stdout.read(1) == b"" and process.wait() != 0:
                    errors.seek(0)
                    raise _failed(tool, dump, errors.read(_CHUNK))
            finally:
                process.kill()


def _statements(
    tool: PgRestore, dump: Path, arguments: Sequence[str], only: Sequence[str] = ()
) -> Iterator[SqlStatement]:
    with tempfile.NamedTemporaryFile(prefix="pgstrata-", suffix=".sql") as text:
        with _printing(tool, dump, arguments, only) as printed:
            shutil.copyfileobj(printed, text)
        text.flush()
        for item in items(Path(text.name)):
            assert isinstance(item, SqlStatement)
            yield replace(item, within=shlex.join(["pg_restore", "-f", "-", *arguments]))


def _copy_of(tool: PgRestore, dump: Path, number: str, name: str) -> str:
    """Returns the COPY with which a table's rows begin; none of the rows is read. Raises UsageError if there
    is no COPY."""
    with _printing(tool, dump, [], [f"{number};"]) as printed:
        text = b""
        while chunk := printed.read1(_CHUNK):  # type: ignore[attr-defined]
            text += chunk
            if match := _COPY.search(text):
                encoding = encoding_of_dump(text)
                return copy_in(match.group()[:-2].decode(codec_of(encoding) or "utf-8"), encoding)
            if len(text) > 4 * _CHUNK:
                break
    raise UsageError(
        f"the dump {shown(dump)} has no COPY for the rows of {shown(name)}", "dump it without --inserts"
    )


def _extract(tool: PgRestore, dump: Path, number: str, to: Path, check: Check) -> None:
    """Writes the rows of one table to a file, as COPY takes them. Raises UsageError, and OSError."""
    with to.open("wb") as file, _printing(tool, dump, [], [f"{number};"]) as printed:
        whole = rows_of_copy(lambda: printed.read1(_CHUNK), file.write, check)  # type: ignore[attr-defined]
    if not whole:
        raise _failed(tool, dump, f"the rows {number} have no end".encode())


def rows_of_copy(
    read: Callable[[], bytes], write: Callable[[bytes], object], check: Check = lambda: None
) -> bool:
    """Copies what stands between COPY and its end; False where it has no end. Never holds more than a chunk
    or two."""
    held = b""
    while (match := _COPY.search(held)) is None:
        chunk = read()
        if not chunk:
            return False
        held += chunk
    # No rows at all: then the end is the first line.
    held, lead = b"\n" + held[match.end() :], 1
    while (end := held.find(_END_OF_ROWS)) < 0:
        check()
        cut = len(held) - len(_END_OF_ROWS) + 1  # the end may lie across two chunks
        if cut > lead:
            write(held[lead:cut])
            held, lead = held[cut:], 0
        chunk = read()
        if not chunk:
            return False
        held += chunk
    write(held[lead : end + 1])
    return True


def _open_to(dump: Path, closed: Path) -> str:
    how = f"chmod -R o+rX {shlex.quote(str(dump))}" if closed == dump else f"copy it out of {shown(closed)}"
    return f"{how}, or dump into one file (-Fc), which is handed to it"


def _failed(tool: PgRestore, dump: Path, errors: bytes) -> UsageError:
    text = server_said(errors.decode(errors="replace"))
    hint, account = "is the dump whole? Make it again", server_account()
    if account is not None and "Permission denied" in text:
        hint = f"pg_restore runs as {account.name}: {_open_to(dump, dump)}"
    return UsageError(f"pg_restore {tool.major} cannot read {shown(dump)}: {text}", hint)


__all__ = ["archive", "find_pg_restore", "rows_of_copy"]
