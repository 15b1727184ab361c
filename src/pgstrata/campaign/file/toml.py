"""TOML of a user as values the rest can rely on: no deeper than people write, numbers that have a meaning,
text without NUL."""

from __future__ import annotations

import math
import tomllib
from typing import Any

from pgstrata.campaign.problems import dotted
from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown

DEEPEST = 32
"""Levels of tables and lists; a campaign needs five."""

_ADVICE = {
    "Cannot overwrite a value": "a key stands once: leave one of the two out",
    "Cannot declare": "a table stands once; several of a kind are written [[workloads]], [[variants]]",
    "Unclosed array": "a list ends with ]",
    "Illegal character": "text ends with the quote it begins with, on the same line",
    "Expected newline": "write each key = value on a line of its own",
    "": "text needs quotes, lists need [brackets]",
}
"""What to do, by how the parser's complaint begins; the last is for any other."""

Keys = tuple[str | int, ...]


def parse(text: str, source: str) -> dict[str, Any]:
    """Parses a TOML document. `source` is where it stands: a file, an option. Raises UsageError."""
    document = _loads(text, source)
    _check(document, source, ())
    return document


def parse_value(text: str, source: str) -> Any:
    """Parses a single value as it stands behind `key =`; text that is not TOML is returned as it stands.
    Raises UsageError."""
    try:
        document = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        document = {"value": text}
    except (ValueError, RecursionError):
        document = _loads(f"value = {text}", source)  # says what it is
    value = document["value"]
    _check(value, source, ())
    return value


def _loads(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))  # as editors of Windows begin files
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is not valid TOML: {error}", _advice(str(error))) from error
    except RecursionError:
        raise _too_deep(source) from None
    except ValueError:  # Python refuses to read integers of more than 4300 digits
        raise UsageError(
            f"{source} holds a number that is too long", "numbers have at most 64 bits"
        ) from None


def _advice(complaint: str) -> str:
    return next(advice for begin, advice in _ADVICE.items() if complaint.startswith(begin))


def _too_deep(source: str) -> UsageError:
    return UsageError(f"{source} is nested more than {DEEPEST} levels deep", "a campaign needs five")


def _check(value: Any, source: str, path: Keys) -> None:
    where = f"{source}: `{shown(dotted(path))}`" if path else source
    match value:
        case bool():
            return
        case int() if not -(2**63) <= value < 2**63:
            raise UsageError(f"{where} is a number beyond 64 bits", "write a smaller one")
        case float() if not math.isfinite(value):
            raise UsageError(f"{where} is {value}, which is no amount of anything", "write a number")
        case str() if "\0" in value:
            raise UsageError(f"{where} holds a NUL", "text is written without it")
        case dict() | list():
            if len(path) >= DEEPEST:
                raise _too_deep(source)
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                if isinstance(key, str):
                    _check(key, source, path)
                _check(item, source, (*path, key))
