"""The servers of an upgrade: which of those asked for can be measured, and what has to be said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgstrata import numbers
from pgstrata.errors import UsageError
from pgstrata.server.cluster.extensions import lacking
from pgstrata.server.config.settings import major_of
from pgstrata.server.find.model import Server, version_number
from pgstrata.traffic.upgrade.question import Question
from pgstrata.workload.custom.contents import digest_of
from pgstrata.workload.custom.files import read


@dataclass(frozen=True)
class Servers:
    """Those that can be measured; lacking: by label of one that is left out the extensions it has not; notes:
    what a reader has to know of the versions."""

    base: Server
    targets: tuple[tuple[str, Server], ...]
    lacking: Mapping[str, Sequence[str]]
    notes: Sequence[str]


def fit(question: Question, servers: Sequence[Server], extensions: Sequence[str]) -> Servers:
    """Checks that servers and their extensions fit the question. servers: the server of `base`, then those of
    `targets`. Raises UsageError where they are no upgrade, or lack what the dump needs."""
    base, *others = servers
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
        f"{text} lacks the {numbers.plural('extension', len(names))} {', '.join(names)}, which the dump "
        "creates: it is left out"
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
        f"PostgreSQL {server.version} ({text}) lacks the {numbers.plural('extension', len(names))} "
        f"{', '.join(names)}, which the dump creates",
        f"name an installation that has it, path:/usr/lib/postgresql/17/bin; build one with it "
        f"(docs/guides/builds.md); or leave it out: --without-extension {names[0]}",
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


__all__ = ["Servers", "fit"]
