"""Makes the manual page from the program.

python -m pgstrata.cli.manual > pgstrata.1
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from pgstrata import __version__
from pgstrata.cli.main import EPILOG, app
from pgstrata.cli.reference import commands_of, only_options, option_names, value_of

_NOTHING = re.compile(r"^[.']", re.MULTILINE)


def page() -> str:
    """Returns the page as roff (man(7))."""
    program = typer.main.get_command(app)
    lines = [
        f'.TH PGSTRATA 1 "" "pgstrata {_text(__version__)}" "User Commands"',
        ".SH NAME",
        "pgstrata \\- compares PostgreSQL servers: what got slower, by how much, and is it real",
        ".SH SYNOPSIS",
        ".B pgstrata",
        "[\\fIcommand\\fR] [\\fIoption\\fR ...]",
        ".SH COMMANDS",
    ]
    for name, command in commands_of(program, ()):
        lines += _command(name, command)
    lines += [".SH EXIT STATUS", _text(EPILOG.removeprefix("Exit codes: "))]
    return "\n".join(lines) + "\n"


def _command(name: str, command: Any) -> Iterator[str]:
    """Yields a command with its help and its options."""
    context = command.make_context(command.name or "", [], resilient_parsing=True)
    arguments = [
        _text(value_of(argument, context).strip("`"))
        for argument in command.params
        if argument.param_type_name == "argument"
    ]
    yield from (
        f".SS pgstrata {_text(name)} {' '.join(arguments)}".rstrip(),
        *_paragraphs(command.help or ""),
    )
    for option in only_options(command):
        names = ", ".join(f"\\fB{_text(option_name)}\\fR" for option_name in option_names(option))
        value = _text(value_of(option, context).strip("`"))
        yield from (".TP", f"{names} \\fI{value}\\fR" if value else names, _text(option.help or ""))


def _paragraphs(help_text: str) -> Iterator[str]:
    """Yields the paragraphs of a help text; examples stay as they are."""
    for part in help_text.split("\n\n"):
        if part.startswith("\b"):
            yield from (".PP", ".nf", _text(part.removeprefix("\b").strip("\n"), fill=False), ".fi")
        else:
            yield from (".PP", _text(part))


def _text(text: str, *, fill: bool = True) -> str:
    """Returns a text with nothing that roff would obey."""
    plain = " ".join(text.split()) if fill else text
    return _NOTHING.sub(r"\\&\g<0>", plain.replace("\\", "\\e").replace("-", "\\-"))


__all__ = ["page"]


if __name__ == "__main__":
    print(page(), end="")
