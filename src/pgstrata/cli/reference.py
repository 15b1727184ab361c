"""Makes `docs/reference/cli.md` from the program.

python -m pgstrata.cli.reference > docs/reference/cli.md
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer

from pgstrata.cli.main import app

SHARED_BY = 3
"""Commands that have an option before it stands in the table of shared ones."""

HEAD = """\
# The command line

<!-- Made from the program: `python -m pgstrata.cli.reference > docs/reference/cli.md` -->

`--help` behind a command shows the same with examples. Results go to standard output, progress, warnings and
errors to standard error; `--quiet` leaves out progress. An error is one sentence and what to do next.

`--format json` prints results for programs, and `pgstrata schema COMMAND` its JSON Schema (2020-12). Later
versions may add keys; a number that is infinite or unknown is null. `run --fleet` prints a line for an event.

| exit code | meaning |
|---|---|
| 0 | all went well |
| 1 | something failed; of `check`, `upgrade` and `patch`: something is proven slower |
| 2 | the command line or a file is not valid |
| 3 | `check`, `upgrade`, `bisect` and `patch` cannot tell |
| 130, 141, 143 | ended by Ctrl-C, SIGPIPE, SIGTERM |
"""

OWN_OPTIONS = "Options of one letter are pgbench's, and mean the same; beside them:"

SHARED = """\
A command repeats such an option below only where it means something else there."""


def page() -> str:
    """Returns the page as Markdown."""
    commands = dict(commands_of(typer.main.get_command(app), ()))
    shared = _shared(commands)
    parts = [HEAD, "## Options of several commands\n", SHARED, "", *_shared_table(shared, len(commands)), ""]
    for name, command in commands.items():
        parts += [f"## pgstrata {name}\n", _sentence(command), ""]
        own_options = OWN_OPTIONS if name == "bench" else ""
        parts += [
            *([own_options, ""] if own_options else []),
            *_options(command, shared, with_letters=not own_options),
            "",
        ]
    return "\n".join(parts).rstrip() + "\n"


def commands_of(command: Any, name: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yields the commands of a program, or below a command, with their full names."""
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(name), command
        return
    for part, command_below in below.items():
        yield from commands_of(command_below, (*name, part))


def _sentence(command: Any) -> str:
    """Returns the first paragraph of a command's help."""
    return " ".join((command.help or "").split("\n\n")[0].split())


def option_names(option: Any) -> list[str]:
    """Returns the names of an option, with those that switch it off."""
    return [*option.opts, *option.secondary_opts]


def _long(option: Any) -> str:
    return str(next((name for name in option.opts if name.startswith("--")), option.opts[0]))


@dataclass(frozen=True)
class SharedOption:
    """An option of several commands."""

    help: str
    commands: tuple[str, ...]


def _shared(commands: dict[str, Any]) -> dict[str, SharedOption]:
    """Returns the options that several commands have, by name, with their help.

    The help is that of most commands where more than half agree, else of the first command.
    """
    users: dict[str, list[str]] = {}
    texts: dict[str, list[str]] = {}
    for name, command in commands.items():
        for option in only_options(command):
            for long in (text for text in option.opts if text.startswith("--")):
                users.setdefault(long, []).append(name)
                texts.setdefault(long, []).append(_cell(option.help or ""))
    return {
        long: SharedOption(_usual(texts[long]), tuple(users[long]))
        for long in sorted(users)
        if len(users[long]) >= SHARED_BY
    }


def _usual(texts: list[str]) -> str:
    text, count = Counter(texts).most_common(1)[0]
    return text if 2 * count > len(texts) else texts[0]


def _shared_table(shared: dict[str, SharedOption], number_of_commands: int) -> Iterator[str]:
    yield "| option | meaning | commands |"
    yield "|---|---|---|"
    for long, option in shared.items():
        everywhere = len(option.commands) == number_of_commands
        yield f"| `{long}` | {option.help} | {'all' if everywhere else ', '.join(option.commands)} |"


def only_options(command: Any) -> list[Any]:
    """Returns the options of a command that are not hidden."""
    return [p for p in command.params if p.param_type_name == "option" and not getattr(p, "hidden", False)]


def _options(command: Any, shared: dict[str, SharedOption], *, with_letters: bool) -> Iterator[str]:
    """Yields a table of arguments and options, without those that the shared table explains.

    with_letters: also those that have a name of one letter.
    """
    context = command.make_context(command.name or "", [], resilient_parsing=True)
    rows = [
        f"| {_cell(value_of(argument, context))} | | {_cell(argument.help or '')} |"
        for argument in command.params
        if argument.param_type_name == "argument"
    ]
    for option in only_options(command):
        text = _cell(option.help or "")
        long = _long(option)
        if not with_letters and any(len(name) == 2 for name in option.opts):
            continue
        if len(option_names(option)) > 1 or long not in shared or shared[long].help != text:
            names = ", ".join(f"`{name}`" for name in option_names(option))
            rows.append(f"| {names} | {_cell(value_of(option, context))} | {text} |")
    if rows:
        yield from ("| option | value | meaning |", "|---|---|---|", *rows)


def value_of(parameter: Any, context: Any) -> str:
    """Returns what stands for the value of a parameter; empty for a switch."""
    if getattr(parameter, "is_flag", False):
        return ""
    if parameter.metavar:
        return f"`{parameter.metavar}`"
    written = parameter.get_help_record(context)[0].removeprefix(", ".join(parameter.opts))
    return f"`{written.strip(' <>[]')}`"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


if __name__ == "__main__":
    print(page(), end="")
