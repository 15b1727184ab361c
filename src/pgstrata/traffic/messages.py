"""Messages that a server writes about statements, taken apart."""

from __future__ import annotations

import re

DURATION = re.compile(
    r"duration: ([0-9]{1,15}(?:\.[0-9]{1,6})?) ms(?:  (statement|parse|bind|execute|fastpath function call)"
    r"(?: (fetch from )?([^:]*))?: ?(.*))?\Z",
    re.DOTALL,
)
EXECUTE = re.compile(r"execute (fetch from )?([^:]*): (.*)\Z", re.DOTALL)
_PARAMETER = re.compile(r"\$([0-9]{1,5}) = (?:NULL|'((?:[^']++|'')*+)')")
_CONTEXT = re.compile(
    r"^(?:extended query with parameters: |(?:unnamed portal|portal \"[^\"\n]*\") "
    r"(?:with parameters: |parameter (?=\$)))",
    re.MULTILINE,
)
_TRUNCATED = re.compile(r"\[[^\]\n]{0,60}message was truncated\]\s*\Z", re.IGNORECASE)

CONNECTED = ("connection received: ", "connection authorized: ", "connection authenticated: ")
DISCONNECTED = "disconnection: "
FASTPATH = "fastpath function call: "
PLAN = re.compile(r"duration: [0-9.]{1,20} ms  plan:", re.DOTALL)
"""Of auto_explain, which writes it beside the statement's own duration."""

UNNAMED = "<unnamed>"


def parameters(text: str) -> tuple[str | None, ...] | None:
    """Returns the values of a list such as `$1 = 'it''s', $2 = NULL`, None where it is cut off."""
    values, at = _parameters(text, 0)
    return values if at == len(text) else None


def _parameters(text: str, at: int) -> tuple[tuple[str | None, ...], int]:
    """Returns the values of the list at a place, and the place behind the last one that is whole."""
    values: list[str | None] = []
    while match := _PARAMETER.match(text, at + 2 * bool(values)):
        if int(match[1]) != len(values) + 1 or (values and not text.startswith(", ", at)):
            break
        values.append(None if match[2] is None else match[2].replace("''", "'"))
        at = match.end()
    return tuple(values), at


def parameters_of_detail(detail: str) -> tuple[str | None, ...] | None:
    """Returns the values in the detail of a statement, None where it has none."""
    # PostgreSQL 16 writes a capital.
    return parameters(detail[12:]) if detail[:12] in ("parameters: ", "Parameters: ") else None


def parameters_of_context(context: str) -> tuple[str | None, ...] | None:
    """Returns the values in the context of an error, None where it has none."""
    for match in _CONTEXT.finditer(context):
        values, at = _parameters(context, match.end())
        # Values have lines of their own: the list ends where no further value follows.
        if values and context[at : at + 1] in ("", "\n"):
            return values
    return None


def is_truncated(text: str) -> bool:
    """Returns whether a log service has cut the text and says so at its end."""
    return text.endswith(("]", "]\n", "] ")) and _TRUNCATED.search(text, max(0, len(text) - 100)) is not None


def statement_name(portal: str) -> str:
    """Returns the name of the prepared statement of a name in the log (`S_1/C_2`), empty without one."""
    name = portal.partition("/")[0]
    return "" if name == UNNAMED else name


__all__ = [
    "CONNECTED",
    "DISCONNECTED",
    "DURATION",
    "EXECUTE",
    "FASTPATH",
    "PLAN",
    "is_truncated",
    "parameters",
    "parameters_of_context",
    "parameters_of_detail",
    "statement_name",
]
