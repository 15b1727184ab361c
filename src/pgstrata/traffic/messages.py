"""Messages that a server writes about statements, taken apart."""

from __future__ import annotations

import re

DURATION = re.compile(
    r"duration: ([0-9]{1,15}(?:\.[0-9]{1,6})?) ms(?:  (statement|parse|bind|execute|fastpath function call)"
    r"(?: (fetch from )?([^:]*))?: ?(.*))?\Z",
    re.DOTALL,
)
EXECUTE = re.compile(r"execute (fetch from )?([^:]*): (.*)\Z", re.DOTALL)
_PARAMETER = re.compile(r"\$([0-9]{1,5}) = (?:NULL|'((?:[^']|'')*)')")
_CONTEXT = re.compile(
    r"(?:extended query|unnamed portal|portal \"[^\"]*\") with parameters: (.*?)(?:\n[A-Z]|\Z)"
    r"|(?:unnamed portal|portal \"[^\"]*\") parameter (\$[0-9]+ = .*?)(?:\n[A-Z]|\Z)",
    re.DOTALL,
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
    values: list[str | None] = []
    at = 0
    while at < len(text):
        match = _PARAMETER.match(text, at)
        if match is None or int(match[1]) != len(values) + 1:
            return None
        values.append(None if match[2] is None else match[2].replace("''", "'"))
        at = match.end()
        if at < len(text):
            if not text.startswith(", ", at):
                return None
            at += 2
    return tuple(values)


def parameters_of_detail(detail: str) -> tuple[str | None, ...] | None:
    """Returns the values in the detail of a statement, None where it has none."""
    # PostgreSQL 16 writes a capital.
    return parameters(detail[12:]) if detail[:12] in ("parameters: ", "Parameters: ") else None


def parameters_of_context(context: str) -> tuple[str | None, ...] | None:
    """Returns the values in the context of an error, None where it has none."""
    match = _CONTEXT.search(context)
    return parameters(match[1] or match[2]) if match else None


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
