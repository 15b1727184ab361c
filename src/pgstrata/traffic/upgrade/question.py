"""What is asked of an upgrade: from which version to which, with which data and which traffic."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgstrata.campaign.named_servers import NamedServer, listed_servers, single_server
from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown
from pgstrata.server.find.acquire import check_spec
from pgstrata.store.record import OTHER_LOAD
from pgstrata.workload.custom.contents import digest_of

MARGIN = 0.05
"""Times of single statements vary more than those of whole steps: smaller differences decide no upgrade."""

MINUTES = 60.0
"""Of all rounds on all servers, with what stands between them, unless more is asked for."""

INPUT = Path("-")
"""Standard input, as a log."""

_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)*(?:(?:devel|alpha|beta|rc)[0-9]*)?", re.ASCII)
_DUMP = re.compile(rb"\APGDMP|^-- PostgreSQL database dump", re.MULTILINE)
_BEGINS_SQL = re.compile(rb"\s*[A-Za-z\\(/-]")


@dataclass(frozen=True)
class Question:
    """base, targets: servers as they were written, `13` or a spec. after_load: SQL by major version. seconds:
    of each round, None: to the end; minutes: of all rounds and servers together; rounds: None: as many as
    that time holds, until all is known. other_load: as in a campaign. config: stack of config files. prefix,
    timezone, encoding: of the log, as for `pgstrata capture`. statements: how to connect to the server whose
    statistics take the place of a log, or the folder of their files. allow_outside: what reaches outside the
    servers is executed. without_extensions: are left out of the dump, with what depends on them. window: of
    the log, as it was written; skip_idle: pauses of all sessions are cut."""

    base: str
    targets: tuple[str, ...]
    dumps: tuple[Path, ...]
    logs: tuple[Path, ...]
    folder: Path
    statements: str | None = None
    database: str | None = None
    speed: float = 1.0
    seconds: float | None = None
    minutes: float = MINUTES
    rounds: int | None = None
    margin: float = MARGIN
    other_load: float = OTHER_LOAD
    config: str = "default"
    keep_settings: tuple[str, ...] = ()
    after_load: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sets: tuple[str, ...] = ()
    data_dir: str | None = None
    prefix: str | None = None
    timezone: str | None = None
    encoding: str = "latin-1"
    allow_outside: bool = False
    more: float | None = None
    """Minutes of further rounds, beside those of an earlier command that asked for the same."""
    checklist_only: bool = False
    without_extensions: tuple[str, ...] = ()
    window: str | None = None
    skip_idle: bool = False
    statistics: Path | None = None
    """Planner statistics in the place of data: plans are compared, and nothing is replayed."""

    def check(self) -> None:
        """Raises UsageError for what can be known to be wrong before anything is read or fetched."""
        for text in (self.base, *self.targets):
            spec = spec_of(text)
            check_spec(spec)
            if spec.startswith("dsn:"):
                raise UsageError(
                    f"{shown(text)}: an upgrade is tried on servers that pgstrata starts itself, with a copy "
                    "of the data",
                    "name a version, an installation (path:DIR) or a tree",
                )
        if (self.statements is None) != bool(self.logs):
            raise UsageError(
                "what the database is asked for comes from a log or from statistics: name one of them",
                "--log postgresql.csv, or --statements postgresql://me@db/app",
            )
        self._check_statistics()
        if not 0.1 <= self.minutes <= 43_200:
            raise UsageError(f"--minutes {self.minutes:g} is not between 0.1 and 43200", "60 is usual")
        if self.more is not None and not 0.1 <= self.more <= 43_200:
            raise UsageError(f"--more {self.more:g} is not between 0.1 and 43200 minutes", "25 is usual")
        if self.rounds is not None and not 1 <= self.rounds <= 1000:
            raise UsageError(f"--rounds {self.rounds} is not between 1 and 1000", "from 4 on they prove")
        files = [Path(name) for names in self.after_load.values() for name in names]
        for path in (*self.dumps, *self.logs, *files):
            if path != INPUT and not path.exists():
                raise UsageError(f"there is no file {shown(path)}", "check the path")
        for dump in self.dumps:
            _check_dump(dump)
        for log in self.logs:
            if log.is_file() and _DUMP.search(_head(log)):
                raise UsageError(f"{shown(log)} is a dump, no log", "name it with --dump")

    def _check_statistics(self) -> None:
        """Raises UsageError for what is of no use without data."""
        if self.statistics is None:
            return
        without_use = {
            "--checklist": self.checklist_only,
            "--more": self.more is not None,
            "--rounds": self.rounds is not None,
            "--after-load": bool(self.after_load),
            "--window": self.window is not None,
            "--skip-idle": self.skip_idle,
            "--set": bool(self.sets),
        }
        for option, is_given in without_use.items():
            if is_given:
                raise UsageError(
                    f"{option} says what is done with data, and --statistics-only does without",
                    "leave out one of them",
                )


def is_version(text: str) -> bool:
    """Returns whether a server is named by its version alone."""
    return _VERSION.fullmatch(text) is not None


def spec_of(text: str) -> str:
    """Returns a server's spec without its label: a bare version is a prebuilt server, a folder an
    installation."""
    return server_of(text).spec


def server_of(text: str) -> NamedServer:
    """Takes apart a server and its label: `14=old`, `path:/opt/new=new`."""
    version, equals, label = text.partition("=")
    if is_version(version):
        return NamedServer(f"pg:{version}", label if equals else None)
    return single_server(text, f"{shown(text)} names several servers", "write --to for each of them")


def targets_of(texts: Sequence[str]) -> tuple[str, ...]:
    """Returns the servers of `--to` one by one: `17,18` are two. Raises UsageError."""
    targets: list[str] = []
    for text in texts:
        parts = text.split(",")
        is_versions = all(is_version(part.partition("=")[0]) for part in parts)
        targets += parts if is_versions else listed_servers([text])
    return tuple(targets)


def _check_dump(dump: Path) -> None:
    """Raises UsageError for what is neither a dump nor SQL, as a log that was named in its place."""
    digest_of(dump)
    if dump.is_dir():
        return
    text = _head(dump).removeprefix(BOM_UTF8)
    plain = text.strip() and b"\0" not in text
    if not text.strip() or (plain and not _BEGINS_SQL.match(text)):
        raise UsageError(
            f"{shown(dump)} is neither a dump of pg_dump nor SQL",
            "--dump takes what `pg_dump` or `pg_dump -Fc` has written; the server's log belongs to --log",
        )


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(4096)


__all__ = ["INPUT", "MARGIN", "MINUTES", "Question", "is_version", "server_of", "spec_of", "targets_of"]
