"""The tools that assistants are offered: always those that read; those that measure where a person allows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

import pgstrata
from pgstrata.assist.answers import (
    Campaign,
    Comparison,
    Measured,
    campaigns_of,
    comparisons_of,
    measured_of,
)
from pgstrata.assist.ask import READING_SECONDS, ask
from pgstrata.campaign.named_servers import named_server
from pgstrata.errors import PgstrataError, UsageError
from pgstrata.files import digests, disk
from pgstrata.files.user_files import shown
from pgstrata.server.find.acquire import check_spec
from pgstrata.store.lock import own_results

INSTRUCTIONS = """\
pgstrata measures whether one PostgreSQL is slower than another. Report its words as they are: slower, \
faster and same are proven within the interval, unclear is no difference found or excluded, whatever the \
estimate. Name the interval, and the reason of an unclear verdict. \
Other load on the machine makes verdicts unclear."""

PUBLISHED = ("pg", "release")
"""Kinds of servers that may be measured without being named by a person: their digests are published."""

MOST_SERVERS, MOST_STEPS = 4, 20
LONGEST_SQL = 100_000
"""Characters of a query, and of the SQL that loads its data."""

Label = Annotated[str, Field(min_length=1, max_length=200)]
Servers = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=500)]],
    Field(
        min_length=2, max_length=MOST_SERVERS, description="The base first: pg:16, pg:17.11, release:9.0.23."
    ),
]
Steps = Annotated[
    list[Label],
    Field(min_length=1, max_length=MOST_STEPS, description="Steps of sysbench: point-query, scan, insert …"),
]
Sql = Annotated[str, Field(min_length=1, max_length=LONGEST_SQL)]
Seconds = Annotated[
    float, Field(ge=5, le=600, description="Most measured seconds of a step, all servers together.")
]


@dataclass(frozen=True)
class Allowed:
    """What a person allows. results: folder that is read, and written by measuring; servers: beside published
    ones; setup: data of queries; most_seconds: of one answer."""

    results: Path
    measuring: bool
    servers: tuple[str, ...]
    setup: tuple[Path, ...]
    most_seconds: float

    def server(self, text: str) -> str:
        """Returns a server as the command line takes it. Raises UsageError for one that is not allowed."""
        for listed in self.servers:
            named = named_server(listed)
            if text in (listed, named.spec, named.label):
                return listed
        if text.partition(":")[0] not in PUBLISHED:
            own_names = ", ".join(named_server(server).label or server for server in self.servers)
            raise UsageError(
                f"{shown(text)} may not be measured",
                f"name a published version, say pg:17{f', or {own_names}' if own_names else ''}; a person "
                "allows others with pgstrata mcp --server",
            )
        check_spec(named_server(text).spec)
        return text


class Tools:
    """The tools, over one results folder."""

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed
        self._measuring = asyncio.Lock()

    async def list_results(self) -> list[Campaign]:
        """List what was measured: campaigns with their variants, the newest first. At most 100."""
        with _told():
            return campaigns_of(await self._read("runs"))

    async def explain_verdict(
        self,
        base: Label,
        other: Label,
        step: Label | None = None,
        campaign: Label | None = None,
        by: Literal["time", "instructions"] = "time",
    ) -> Comparison:
        """Judge two measured variants: slower, faster, same or unclear at each step, by how much, and why.

        base, other: labels from list_results. step: only this one. campaign: the newest, unless named.
        """
        with _told():
            chosen = [*_option("--step", step), *_option("--campaign", campaign), f"--by={by}"]
            (comparison,) = comparisons_of(await self._read("compare", *chosen, "--", base, other))
            return comparison

    async def compare_servers(self, servers: Servers, steps: Steps, seconds: Seconds = 30) -> Measured:
        """Measure whether servers are slower, faster or the same as the first one, taking turns on the same
        CPUs, at small data. Takes about `seconds` for each step, and loading."""
        with _told():
            return await self._measure(
                "run", [f"--max-seconds={seconds:g}", f"--set=steps={' '.join(steps)}"], servers
            )

    async def judge_query(
        self, sql: Sql, servers: Servers, setup_sql: Sql | None = None, seconds: Seconds = 60
    ) -> Measured:
        """Measure whether a query is slower, faster or the same on other servers than on the first one, and
        why. setup_sql: loads its data, after the files that a person has named."""
        with _told():
            query, setup_files = self._write(sql, setup_sql)
            files = [*self._allowed.setup, *setup_files]
            options = [f"--max-seconds={seconds:g}", f"--name=asked-{query.parent.name}"]
            options += [f"--setup={file}" for file in files]
            options += [f"--server={self._allowed.server(server)}" for server in servers]
            return await self._measure("compare-queries", options, [], str(query))

    async def count_instructions(self, servers: Servers, steps: Steps) -> list[Comparison]:
        """Count instructions per operation of each server and compare them with the first one: exact on a
        busy machine, but no time. Takes a minute or more for each server."""
        with _told():
            chosen = [f"--step={step}" for step in steps]
            record = await self._ask_one("count", chosen, [self._allowed.server(s) for s in servers])
            return comparisons_of(record)

    async def _measure(
        self, command: str, options: Sequence[str], servers: Sequence[str], *more: str
    ) -> Measured:
        chosen = [self._allowed.server(server) for server in servers]
        return measured_of(await self._ask_one(command, options, [*chosen, *more], accepted=(0, 1)))

    async def _ask_one(
        self, command: str, options: Sequence[str], what: Sequence[str], accepted: Sequence[int] = (0,)
    ) -> Any:
        """Runs the one command that measures at a time."""
        if self._measuring.locked():
            raise UsageError("another measurement is under way", "wait for its answer, or cancel it")
        command_line = [command, *options, f"--results={self._allowed.results}", "--format=json", "--", *what]
        async with self._measuring:
            return await ask(command_line, self._allowed.most_seconds, accepted)

    async def _read(self, command: str, *arguments: str) -> Any:
        seconds = min(READING_SECONDS, self._allowed.most_seconds)
        command_line = [command, f"--results={self._allowed.results}", "--format=json", *arguments]
        return await ask(command_line, seconds)

    def _write(self, sql: str, setup_sql: str | None) -> tuple[Path, list[Path]]:
        """Writes the query and its data below the results, under their digest: asked again, it is known."""
        digest = digests.of(f"{sql}\0{setup_sql}")[:16]
        own_results(self._allowed.results)
        folder = self._allowed.results / ".asked" / digest
        for private in (folder.parent, folder):
            private.mkdir(mode=0o700, exist_ok=True)
        texts = {"query.sql": sql, **({"setup.sql": setup_sql} if setup_sql else {})}
        for name, text in texts.items():
            disk.replace(folder / name, text.encode())
        return folder / "query.sql", [folder / "setup.sql"] if setup_sql else []


@contextmanager
def _told() -> Iterator[None]:
    """Turns errors into answers that an assistant can act on: the sentence, and the next step."""
    try:
        yield
    except PgstrataError as error:
        raise ToolError(f"{error.message}. Next: {error.hint}" if error.hint else error.message) from error
    except OSError as error:
        raise ToolError(f"{error.filename or 'the results'}: {error.strerror or error}") from error


def _option(name: str, value: str | None) -> list[str]:
    """Returns an option and its value as a single word, so that a value beginning with a dash is not read as
    an option; an empty list without a value."""
    return [] if value is None else [f"{name}={value}"]


def make_server(allowed: Allowed) -> MCPServer[Any]:
    """Returns a server with the tools that are allowed."""
    server: MCPServer[Any] = MCPServer(
        "pgstrata", instructions=INSTRUCTIONS, version=pgstrata.__version__, log_level="ERROR"
    )
    tools = Tools(allowed)
    reading: list[Callable[..., Awaitable[Any]]] = [tools.list_results, tools.explain_verdict]
    measuring: list[Callable[..., Awaitable[Any]]] = [
        tools.compare_servers,
        tools.judge_query,
        tools.count_instructions,
    ]
    for tool in reading:
        server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    for tool in measuring if allowed.measuring else ():
        server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False))
    return server


__all__ = ["Allowed", "Tools", "make_server"]
