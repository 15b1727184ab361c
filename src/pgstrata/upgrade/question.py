"""What is asked of an upgrade: from which version to which, with which data and which traffic."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgstrata.campaign.file.models import Campaign
from pgstrata.campaign.file.reading import Overrides, campaign_of
from pgstrata.campaign.plan.order import AROUND_ROUND_SECONDS, COPIED_BYTES
from pgstrata.errors import UsageError
from pgstrata.server.acquire import check_spec
from pgstrata.server.config.settings import major_name, major_of
from pgstrata.server.extensions import lacking
from pgstrata.server.model import Server, version_number
from pgstrata.stats.sequential import FIRST
from pgstrata.traffic.captured import Header
from pgstrata.user_files import shown
from pgstrata.workload.custom.contents import digest_of
from pgstrata.workload.custom.files import read
from pgstrata.workload.replay.options import ReplayOptions
from pgstrata.workload.replay.steps import NAME, seconds_of

MARGIN = 0.05
"""Times of single statements vary more than those of whole steps: smaller differences decide no upgrade."""

MINUTES = 60.0
"""Of all rounds on all servers, with what stands between them, unless more is asked for."""

LEAST_ROUNDS = 4
"""Fewer prove hardly anything: where they do not fit into the time, the log is cut."""

LEAST_SECONDS = 1.0
"""Of a round: what is shorter says nothing of any load, and costs as much."""

USUAL_CONNECTIONS = 90
"""That fit into a server whose max_connections nobody has set."""

_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)*(?:(?:devel|alpha|beta|rc)[0-9]*)?", re.ASCII)
_DUMP = re.compile(rb"\APGDMP|^-- PostgreSQL database dump", re.MULTILINE)
_BEGINS_SQL = re.compile(rb"\s*[A-Za-z\\(/-]")


@dataclass(frozen=True)
class Question:
    """base, targets: servers as they were written, `13` or a spec. after_load: SQL by major version. seconds:
    of each round, None: to the end; minutes: of all rounds and servers together; rounds: None: as many as
    that time holds, until all is known. config: stack of fragments. prefix, timezone, encoding: of the log,
    as for `pgstrata capture`. statements: how to connect to the server whose statistics take the place of a
    log, or the folder of their files."""

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
    config: str = "default"
    after_load: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sets: tuple[str, ...] = ()
    data_dir: str | None = None
    prefix: str | None = None
    timezone: str | None = None
    encoding: str = "latin-1"

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
        if not 0.1 <= self.minutes <= 43_200:
            raise UsageError(f"--minutes {self.minutes:g}: between 0.1 and 43200")
        if self.rounds is not None and not 1 <= self.rounds <= 1000:
            raise UsageError(f"--rounds {self.rounds}: between 1 and 1000", "4 and more prove something")
        files = [Path(name) for names in self.after_load.values() for name in names]
        for path in (*self.dumps, *self.logs, *files):
            if not path.exists():
                raise UsageError(f"there is no file {shown(path)}")
        for dump in self.dumps:
            _check_dump(dump)
        for log in self.logs:
            if log.is_file() and _DUMP.search(_head(log)):
                raise UsageError(f"{shown(log)} is a dump, no log", "name it with --dump")


def spec_of(text: str) -> str:
    """A server's spec: a bare version is a prebuilt one."""
    return f"pg:{text}" if _VERSION.fullmatch(text) else text


def _check_dump(dump: Path) -> None:
    """Raises UsageError for what is neither a dump nor SQL, as a log that was named in its place."""
    digest_of(dump)
    if dump.is_dir():
        return
    text = _head(dump).removeprefix(b"\xef\xbb\xbf")
    plain = text.strip() and b"\0" not in text
    if not text.strip() or (plain and not _BEGINS_SQL.match(text)):
        raise UsageError(
            f"{shown(dump)} is neither a dump of pg_dump nor SQL",
            "--dump takes what `pg_dump` or `pg_dump -Fc` has written; the server's log belongs to --log",
        )


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(4096)


# --- servers ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Servers:
    """Those that can be measured; lacking: by label of one that is left out the extensions it has not; notes:
    what a reader has to know of the versions."""

    base: Server
    targets: tuple[tuple[str, Server], ...]
    lacking: Mapping[str, Sequence[str]]
    notes: Sequence[str]


def fit(question: Question, found: Sequence[Server], extensions: Sequence[str]) -> Servers:
    """found: the server of `base`, then those of `targets`. Raises UsageError where they are no upgrade, or
    lack what the dump needs."""
    base, *others = found
    for text, server in zip(question.targets, others, strict=True):
        if (server.spec, server.bin_dir) == (base.spec, base.bin_dir):
            raise UsageError(
                f"--from {question.base} and --to {text} are both PostgreSQL {base.version}",
                "name two versions; pgstrata noise says how much one server differs from itself",
            )
    if names := lacking(base, extensions):
        raise _lacks(question.base, base, names)
    without: dict[str, Sequence[str]] = {}
    targets = []
    for text, server in zip(question.targets, others, strict=True):
        if names := lacking(server, extensions):
            if len(others) == 1:
                raise _lacks(text, server, names)
            without[text] = names
        else:
            targets.append((text, server))
    if not targets:
        text = question.targets[0]
        raise _lacks(text, others[0], without[text])
    notes = [
        f"{text} lacks the extension{'s' * (len(names) > 1)} {', '.join(names)}, which the dump creates: it "
        "is left out"
        for text, names in without.items()
    ]
    notes += [
        f"PostgreSQL {server.version} is older than {base.version}: this says what going back would change"
        for _, server in targets
        if server.version_num < base.version_num
    ]
    return Servers(base, tuple(targets), without, notes + _dump_notes(question, base, targets))


def _lacks(text: str, server: Server, names: Sequence[str]) -> UsageError:
    return UsageError(
        f"PostgreSQL {server.version} ({text}) lacks the extension{'s' * (len(names) > 1)} "
        f"{', '.join(names)}, which the dump creates",
        "name an installation that has it, path:/usr/lib/postgresql/17/bin; or build one with it "
        "(docs/builds.md)",
    )


def _dump_notes(question: Question, base: Server, targets: Sequence[tuple[str, Server]]) -> list[str]:
    notes = []
    for dump in question.dumps:
        version = read(dump, digest_of(dump)).dumped_from
        if not version:
            continue
        for server in (base, *(server for _, server in targets)):
            if major_of(version_number(version)) > major_of(server.version_num):
                notes.append(
                    f"{dump.name} was made of PostgreSQL {version}, which is newer than {server.version}: "
                    f"what {server.version} does not know in it is rejected"
                )
    return notes


# --- the campaign -----------------------------------------------------------------------------


@dataclass(frozen=True)
class RoundPlan:
    """How often the log is replayed. keys: of a campaign; seconds: after which each round is ended, where a
    version is too slow for the pace; cut: whether that is less than the log has."""

    keys: Mapping[str, object]
    seconds: float | None
    cut: bool = False


def rounds_in_time(
    question: Question, options: ReplayOptions, header: Header, servers: int, around: float
) -> RoundPlan:
    """As many rounds as the time holds; where it holds enough for looking after each, until all is known.

    around: seconds between rounds, in which a server starts with a copy of the data.
    """
    if question.rounds is not None:
        return RoundPlan({"rounds": question.rounds}, options.seconds)
    budget = question.minutes * 60
    length = max(0.1, seconds_of(options, header))
    rounds = int(budget / servers / (length + around))
    if rounds >= FIRST:
        # As fast as answers come nobody knows how long it takes, but hardly longer than the original: so many
        # rounds there have to be that one may look.
        span = max(LEAST_SECONDS, (header.end - header.begin) / 1e6 / (options.speed or 1.0))
        measured = max(budget * length / (length + around), FIRST * servers * span)
        keys: dict[str, object] = {"until": "verdict", "max_seconds": min(budget, measured)}
        share = budget / servers / LEAST_ROUNDS
    else:
        number = max(LEAST_ROUNDS, rounds - rounds % 2)
        keys = {"rounds": number}
        share = budget / servers / number
    seconds = max(LEAST_SECONDS, share - around)
    cut = seconds < length
    # The last answers of a log that is replayed whole come a little behind its end.
    seconds = seconds if cut else max(seconds, length * 1.1 + 1)
    return RoundPlan(keys, min(seconds, options.seconds or seconds), cut)


def labels(question: Question, servers: Servers) -> list[str]:
    """What the variants are called: their versions as they were written where that tells them apart."""
    written = [question.base, *(text for text, _ in servers.targets)]
    names = [text.removeprefix("pg:") for text in written]
    found = [servers.base, *(server for _, server in servers.targets)]
    return [
        name if _VERSION.fullmatch(name) and names.count(name) == 1 else server.label
        for name, server in zip(names, found, strict=True)
    ]


def campaign(
    question: Question, name: str, servers: Servers, captured: Path, header: Header, results: Path
) -> tuple[Campaign, RoundPlan]:
    """What is measured, as a campaign. Raises UsageError for options that are not valid."""
    options: dict[str, object] = {
        "file": str(captured),
        "setup": [str(dump) for dump in question.dumps],
        "speed": question.speed,
        "after_load": {version: list(files) for version, files in question.after_load.items()},
    }
    if question.database is not None:
        options["database"] = question.database
    if question.seconds is not None:
        options["seconds"] = question.seconds
    found = [servers.base, *(server for _, server in servers.targets)]
    _check_after_load(question, found)
    named = labels(question, servers)
    document: dict[str, object] = {
        "name": name,
        "results": str(results),
        "order": "interleaved",
        "margin": question.margin,
        "base": named[0],
        "variants": [
            {"server": spec_of(text), "label": label, "config": _stack(question, header, results)}
            for text, label in zip(
                (question.base, *(text for text, _ in servers.targets)), named, strict=True
            )
        ],
        "workloads": [{"name": NAME, "options": options}],
    }
    if question.data_dir is not None:
        document["data_dir"] = question.data_dir
    overrides = Overrides(sets=question.sets)
    (chosen,) = campaign_of(dict(document), overrides).workloads
    around = AROUND_ROUND_SECONDS + chosen.cost.disk_bytes / COPIED_BYTES
    taken = rounds_in_time(question, chosen.options, header, len(found), around)
    document |= taken.keys
    if taken.seconds is not None:
        options["seconds"] = taken.seconds
    return campaign_of(dict(document), overrides), taken


def _stack(question: Question, header: Header, results: Path) -> list[str]:
    """The config; below it, where more sessions were open than usual servers take, a place for all."""
    stack = question.config.split("+")
    most = header.most_sessions
    if most <= USUAL_CONNECTIONS:
        return stack
    fragment = results.parent / "connections.conf"
    fragment.write_text(f"max_connections = {most + 20}\n")
    return [str(fragment.absolute()), *stack]


def _check_after_load(question: Question, servers: Sequence[Server]) -> None:
    there = {major_name(major_of(server.version_num)) for server in servers}
    for version in question.after_load:
        if version not in there:
            raise UsageError(
                f"--after-load {shown(version)}: no server here is of that major version",
                f"there are {', '.join(sorted(there))}",
            )


__all__ = [
    "MARGIN",
    "MINUTES",
    "Question",
    "RoundPlan",
    "Servers",
    "campaign",
    "fit",
    "labels",
    "rounds_in_time",
    "spec_of",
]
