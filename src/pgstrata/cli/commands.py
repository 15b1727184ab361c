"""The commands of the program, each imported when it is run: the core's, and those of capabilities."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group_from_info
from typer.models import TyperInfo

from pgstrata.cli.ending import ReaderGone
from pgstrata.cli.quiet import with_quiet
from pgstrata.registry import CORE, Command, capabilities, load

_CORE = (
    Command("demo", "pgstrata.cli.demo:demo", "See it work, in about 90 seconds."),
    Command("run", "pgstrata.cli.run:run", "Run a campaign, or go on with one."),
    Command(
        "bench",
        "pgstrata.cli.bench:bench",
        "Run pgbench scripts against a running server.",
        help_names=("--help",),  # -h names the host, as to pgbench
    ),
    Command(
        "compare-queries",
        "pgstrata.cli.compare_queries:compare_queries",
        "Your queries, each judged by itself.",
    ),
    Command("init", "pgstrata.cli.init:init", "Write a commented campaign."),
    Command("report", "pgstrata.cli.report:report", "Write the report of a campaign."),
    Command("runs", "pgstrata.cli.runs:runs", "List the runs."),
    Command("show", "pgstrata.cli.show:show", "Show one run."),
    Command("compare", "pgstrata.cli.compare:compare", "Slower, faster, same or unclear?"),
    Command("check", "pgstrata.cli.compare:check", "For scripts: fail where something is slower."),
    Command("noise", "pgstrata.cli.noise:noise", "What differences can this machine see?"),
    Command("study", "pgstrata.cli.study:app", "Studies of configurations."),
    Command("query", "pgstrata.cli.query:query", "Ask the runs anything in SQL."),
    Command("servers", "pgstrata.cli.servers:app", "List, fetch, remove servers."),
    Command("data", "pgstrata.cli.data:app", "List, remove data in the cache."),
    Command("config", "pgstrata.cli.config:app", "Config files, and what a version makes of them."),
    Command("schema", "pgstrata.cli.schema:schema", "JSON Schemas of what commands print."),
    Command("doctor", "pgstrata.cli.doctor:doctor", "Is this machine fit to measure?"),
    Command("workloads", "pgstrata.cli.workloads:workloads", "List workloads and their options."),
    Command("completion", "pgstrata.cli.completion:completion", "Completions for bash, zsh and fish."),
    Command("steps", "pgstrata.cli.steps:steps", "List the steps of a workload."),
)


@cache
def offered() -> dict[str, Command]:
    """Returns all commands by name, the core's first; `servers build` is a subcommand of `servers`."""
    commands = [*_CORE, *(command for offer in capabilities() for command in offer.commands)]
    return {command.name: command for command in commands}


@cache
def loaded(name: str) -> Any:
    """Imports a command and returns it as the parser of command lines takes it."""
    command = offered()[name]
    target = load(command.place)
    if not isinstance(target, typer.Typer):
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        _add(app, command, target)
        with_quiet(app)
        built: Any = typer.main.get_command(app)
    else:
        for below in offered().values():
            if below.name.startswith(f"{name} "):
                _add(target, below, load(below.place))
        with_quiet(target)
        built = get_group_from_info(
            TyperInfo(target, name=name, short_help=command.summary),
            pretty_exceptions_short=False,
            rich_markup_mode=None,
            suggest_commands=True,
        )
    return built


def _add(app: typer.Typer, command: Command, function: Any) -> None:
    app.command(
        command.name.rpartition(" ")[2],
        short_help=command.summary,
        context_settings={"help_option_names": list(command.help_names)},
    )(function)


class _Commands(MutableMapping[str, Any]):
    """The commands of the program by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return loaded(name)

    def __contains__(self, name: object) -> bool:
        return name in offered() and " " not in str(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in offered() if " " not in name)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __setitem__(self, name: str, command: Any) -> None:
        raise TypeError("commands are listed in pgstrata.cli.commands or offered by capabilities")

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands are listed in pgstrata.cli.commands or offered by capabilities")


@contextmanager
def _telling_of_the_reader() -> Iterator[None]:
    """Raises ReaderGone for BrokenPipeError, of which the parser of command lines makes exit code 1."""
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGone from error


class Program(TyperGroup):
    """The program `pgstrata`: `--help` lists the core's commands first and the others by their headings."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Parses a command line, or prints help. Raises ReaderGone."""
        with _telling_of_the_reader():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command. Raises ReaderGone."""
        with _telling_of_the_reader():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of the commands without importing them."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the lists of commands of `--help` without importing them."""
        groups: dict[str, list[tuple[str, str]]] = {CORE: []}
        for name in self.commands:
            command = offered()[name]
            groups.setdefault(command.heading, []).append((name, command.summary))
        width = max(len(name) for name in self.commands)
        for heading, entries in groups.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in entries])


__all__ = ["Program", "loaded", "offered"]
