"""Makes `docs/reference/cli.md` from the program.

python -m pgstrata.cli.reference > docs/reference/cli.md
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from pgstrata.cli.main import app

SHARED_BY = 3
"""Commands that have an option before it stands in the table of shared ones."""

HEAD = """\
# The command line

<!-- Made from the program: `python -m pgstrata.cli.reference > docs/reference/cli.md` -->

`--help` behind a command shows the same with examples. Results go to standard output, progress, warnings and
errors to standard error; `--quiet` leaves out progress, `--format json` prints results for programs. An error
is one sentence and what to do next.

| exit code | meaning |
|---|---|
| 0 | all went well |
| 1 | something failed; of `check`, `upgrade` and `patch`: something is proven slower |
| 2 | the command line or a file is not valid |
| 3 | `check`, `upgrade`, `bisect` and `patch` cannot tell |
| 130, 143 | ended by Ctrl-C, by SIGTERM |
"""


def page() -> str:
    """Returns the page as Markdown."""
    commands = dict(_commands(typer.main.get_command(app), ()))
    parts = [HEAD, "## Options of several commands\n", *_shared(commands), ""]
    for name, command in commands.items():
        parts += [f"## pgstrata {name}\n", _sentence(command), "", *_options(command), ""]
    return "\n".join(parts).rstrip() + "\n"


def _commands(command: Any, name: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(name), command
        return
    for part, command_below in below.items():
        yield from _commands(command_below, (*name, part))


def _sentence(command: Any) -> str:
    """Returns the first paragraph of a command's help."""
    return " ".join((command.help or "").split("\n\n")[0].split())


def _names(option: Any) -> list[str]:
    return [*option.opts, *option.secondary_opts]


def _long(option: Any) -> str:
    return str(next((name for name in option.opts if name.startswith("--")), option.opts[0]))


def _shared(commands: dict[str, Any]) -> Iterator[str]:
    """Yields the options that several commands have, with the names of these commands."""
    users: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for name, command in commands.items():
        for option in _only_options(command):
            for long in (text for text in option.opts if text.startswith("--")):
                users.setdefault(long, []).append(name)
                texts.setdefault(long, option.help or "")
    yield "| option | meaning | commands |"
    yield "|---|---|---|"
    for long in sorted(users):
        if len(users[long]) == len(commands):
            yield f"| `{long}` | {_cell(texts[long])} | all |"
        elif len(users[long]) >= SHARED_BY:
            yield f"| `{long}` | {_cell(texts[long])} | {', '.join(users[long])} |"


def _only_options(command: Any) -> list[Any]:
    return [p for p in command.params if p.param_type_name == "option" and not getattr(p, "hidden", False)]


def _options(command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    context = command.make_context(command.name or "", [], resilient_parsing=True)
    yield "| option | value | meaning |"
    yield "|---|---|---|"
    for argument in arguments:
        yield f"| {_cell(_value(argument, context))} | | {_cell(argument.help or '')} |"
    for option in _only_options(command):
        names = ", ".join(f"`{name}`" for name in _names(option))
        yield f"| {names} | {_cell(_value(option, context))} | {_cell(option.help or '')} |"


def _value(parameter: Any, context: Any) -> str:
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
