"""How an error looks: one sentence, then what to do next."""

from __future__ import annotations

import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable
from typing import Any

from pgstrata.errors import PgstrataError, harmless, server_said
from pgstrata.suggest import nearest

MOST_TEXT = 10_000
"""Characters of a message or a hint that are printed."""


class Interruption(BaseException):
    """A command was ended by a signal and has cleaned up and said so."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class ReaderGone(BaseException):
    """The reader of standard output has closed the pipe, as `| head` does."""


def stopped() -> str:
    """Returns the message printed when a signal has ended a campaign."""
    from pgstrata.server.connect.secrets import words_without_secrets

    again = shlex.join(["pgstrata", *words_without_secrets(sys.argv[1:])])
    return f"stopped; what is finished is kept, the rest is done by the same command: {again}"


def report_error(error: Exception) -> int:
    """Prints an error to standard error and returns the exit code it stands for."""
    if os.environ.get("PGSTRATA_TRACE"):
        print(_safe("".join(traceback.format_exception(error)), most=1_000_000), file=sys.stderr)
    if isinstance(error, PgstrataError):
        _print(error.message, error.hint)
        return error.exit_code
    # Errors of the command line's parser: they know their message and exit code.
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "pgstrata"
        if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
            return _without_arguments(context, path)
        message = error.format_message()
        unknown = re.match(r"No such command '([\w-]+)'", message)
        if unknown is not None and context is not None and (meant := _meant(unknown[1], context)):
            _print(*meant)
            return int(error.exit_code)
        if context is not None and (meant := _meant_option(error, context)):
            _print(*meant)
            return int(error.exit_code)
        message = plain_words(message)
        _print(message, _without_unit(message, error) or f"{path} --help shows what it understands")
        return int(error.exit_code)
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        _print(f"{name}{error.strerror or error}", "")
        return 1
    if any(cls.__module__.partition(".")[0] == "psycopg" for cls in type(error).__mro__):
        # It depends on the server, which may be none of PostgreSQL's: no word of a defect here.
        _print(
            f"the server does not answer as it should: {server_said(error)}",
            "is it the server that you meant? PGSTRATA_TRACE=1 shows what it was asked",
        )
        return 1
    _print(
        f"unexpected {type(error).__name__}: {error}",
        "this is a defect of pgstrata: PGSTRATA_TRACE=1 shows where it happened",
    )
    return 1


_UNITS = {"S": "seconds", "SECONDS": "seconds", "M": "minutes", "MS": "milliseconds"}
"""What a number means, by the word that stands for it in `--help`."""


def _without_unit(message: str, error: Any) -> str:
    """Returns how a time is written where it had a unit, `--slice 20ms`; an empty text for other errors."""
    parameter = getattr(error, "param", None)
    unit = _UNITS.get(getattr(parameter, "metavar", None) or "")
    if parameter is None or not unit or not message.endswith("not a number"):
        return ""
    return f"write {unit} without a unit, say {parameter.opts[0]} 2"


def _without_arguments(context: Any, path: str) -> int:
    """Says which commands there are where one is missing: the program itself shows all of its help."""
    if context.parent is None:
        print(context.get_help(), file=sys.stderr)
    else:
        names = ", ".join(context.command.list_commands(context))
        _print(f"{path} needs a command: {names}", f"{path} --help shows what they do")
    return 2


OTHER_WORDS = {
    "runs": "list ls history results",
    "compare": "diff delta",
    "run": "test regress start exec measure sysbench compare-servers compare-versions",
    "report": "html page plot graph chart draw",
    "serve": "web gui ui browse dashboard open",
    "servers": "versions install download fetch",
    "count": "profile callgrind instructions",
    "compare-queries": "explain sql queries",
    "capture": "log logs",
    "upgrade": "replay migrate",
    "query": "export",
    "data": "cache clean prune",
}
"""Words of other programs by the command that does what they say."""

_STEPS = "write --set steps=point-query; with blanks between several: --set steps='point-query scan'"
_SECONDS = "write --max-seconds 60: the most measured seconds of a step"
_JSON = "write --format json"
OTHER_OPTIONS = {
    "": {"-q": "write --quiet", "--silent": "write --quiet", "--json": _JSON, "--export-json": _JSON},
    "run": {
        **dict.fromkeys(("--step", "--steps", "-k"), _STEPS),
        **dict.fromkeys(("--clients", "--client", "-c"), "write --set clients=8"),
        **dict.fromkeys(("--time", "--duration", "--seconds", "-T"), _SECONDS),
        **dict.fromkeys(("--runs", "--min-runs", "-n"), "write --repeats 5"),
        "--rows": "write --set rows=1000000",
        **dict.fromkeys(("--out", "--output", "-o"), "pgstrata report --out writes the page there"),
        "--export-markdown": "pgstrata compare --format markdown prints verdicts",
    },
    "compare-queries": {
        **dict.fromkeys(("--query", "--queries", "--file", "-f"), "name the files without an option"),
        **dict.fromkeys(("--dump", "--schema", "--data"), "write --setup app.dump"),
    },
    "bench": {
        **dict.fromkeys(
            ("-i", "--initialize"), "pgstrata run --workload pgbench makes the tables, or pgbench -i does"
        ),
        **dict.fromkeys(
            ("-l", "--log"), "pgstrata run keeps the times as histograms; pgbench -l writes a log of each"
        ),
    },
    **{name: {"--steps": "write --step NAME, again for each"} for name in ("count", "bisect", "patch")},
    "check": dict.fromkeys(("--threshold", "--max-slower"), "write --fail-slower 3%"),
    "report": {"--format": "write --out NAME.md or NAME.html; pgstrata compare prints JSON"},
    "demo": dict.fromkeys(("--server", "--servers"), "pgstrata run pg:16 pg:17 compares other servers"),
}
"""Options that people try, by command, and what to write instead; without a command: tried everywhere."""


def _meant(word: str, context: Any) -> tuple[str, str] | None:
    """Returns what to say of a word that is no command, and the next step; None where neither is known."""
    sentence = f"there is no command {word}"
    path = context.command_path
    options = [name for parameter in context.command.get_params(context) for name in parameter.opts]
    if f"--{word}" in options:
        return sentence, f"write {path} --{word}"
    if context.parent is not None:
        return None
    meant = next((command for command, words in OTHER_WORDS.items() if word in words.split()), "")
    return (f"{sentence}: {path} {meant} does that", f"{path} --help shows all commands") if meant else None


def _meant_option(error: Any, context: Any) -> tuple[str, str] | None:
    """Returns what to say of an option that a command does not have, and the next step; None where neither is
    known."""
    if type(error).__name__ != "NoSuchOption":
        return None
    option, path = error.option_name, context.command_path
    sentence = f"{path} has no option {option}"
    if context.parent is None:
        if option == "-V":
            return sentence, f"write {path} --version"
        if error.possibilities and option not in OTHER_OPTIONS[""]:
            return None
        return sentence, f"options stand behind a command: {path} COMMAND {option}; {path} --help lists them"
    there = {name for parameter in context.command.get_params(context) for name in parameter.opts}
    advice = OTHER_OPTIONS.get(path.partition(" ")[2], {}).get(option) or OTHER_OPTIONS[""].get(option, "")
    needed = re.match(r"write (--[\w-]+)", advice)
    if not advice or (needed is not None and needed[1] not in there):
        return None
    return sentence, f"{advice} ({path} --help shows all options)"


_PLAINER: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"Value error, (.*?)\.?$"), r"\1"),
    (re.compile(r"Input should be a valid integer.*"), "not a whole number"),
    (re.compile(r"Input should be a valid (?:number|float).*"), "not a number"),
    (re.compile(r"\. Choose from:\s+(.*)", re.DOTALL), lambda match: f": {' '.join(match[1].split())}"),
    (re.compile(r"Input should be (greater|less) than or equal to (.*)"), r"must be \1 than or equal to \2"),
)
"""What the parser of the command line says of values, and how a person says it."""


def plain_words(message: str) -> str:
    """Returns a message of the command line's parser in plain words, with the nearest of several choices."""
    for pattern, words in _PLAINER:
        message = pattern.sub(words, message)
    if choice := re.search(r"'([^']*)' is not one of (.+)", message):
        near = nearest(choice[1], re.findall(r"'([^']*)'", choice[2]))
        message += f"; did you mean '{near}'?" if near else ""
    return message


def _print(message: str, hint: str) -> None:
    print(f"error: {_safe(message)}", file=sys.stderr)
    if hint:
        print(f"       {_safe(hint)}", file=sys.stderr)


def _safe(text: str, most: int = MOST_TEXT) -> str:
    """Returns text from any source that is safe to print: no secrets of a connection, nothing that a terminal
    would obey. most: letters, after which it is cut."""
    from pgstrata.server.connect.secrets import without_secrets

    shown = harmless(without_secrets(text[: 2 * most]))
    return shown if len(shown) <= most else shown[:most] + " …"
