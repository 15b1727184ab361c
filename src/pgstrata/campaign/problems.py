"""Turns what pydantic finds wrong into one sentence that names the key and says what was meant."""

from __future__ import annotations

import re
import typing
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown
from pgstrata.suggest import meant, nearest

LONGEST_MEANING = 200
"""Characters of the first sentence of a description in a hint."""

_MOST_REASON = 1000
"""Characters of what a check of values says: it may name what was written."""


def dotted(location: Sequence[str | int]) -> str:
    """Returns a location as text: `("workloads", 0, "options", "rows")` as `workloads[1].options.rows`,
    counted from 1 as people do."""
    text = ""
    for key in location:
        if isinstance(key, int):
            text += f"[{key + 1}]"
        else:
            text += f".{key}" if text else key
    return text


def explain(error: ValidationError, model: type[BaseModel], source: str, prefix: str = "") -> UsageError:
    """Returns the first problem as a UsageError, with the number of further problems.

    source: the file, or what else the values came from. prefix: where in it the model begins.
    """
    details = error.errors(include_url=False)
    # An unknown key explains a missing one beside it, never the other way round.
    details.sort(key=lambda d: d["type"] != "extra_forbidden")
    first = details[0]
    key = shown(dotted([*([prefix] if prefix else []), *_real(model, first["loc"])]))
    hint = ""
    if first["type"] == "extra_forbidden":
        known = _keys(model, first["loc"][:-1])
        message = f"{source}: unknown key `{key}`"
        hint = meant(str(first["loc"][-1]), known, "known here")
        if "options" in known and not hint.startswith("did"):
            hint += f"; options of a workload stand below [{first['loc'][0]}.options]"
    elif first["type"] == "missing":
        message = f"{source}: `{key}` is missing"
    else:
        reason, *advice = re.split(r"; (?=did you mean |pgstrata )", _reason(first), maxsplit=1)
        message = f"{source}: `{key}` {reason}"
        hint = "".join(advice) or _choice(first) or _meaning(model, first["loc"])
        if first["type"] == "list_type" and isinstance(first["input"], dict):
            hint = f"write [[{first['loc'][-1]}]], with two brackets, above each of them"
    if len(details) > 1:
        hint += f"{'; ' if hint else ''}{len(details) - 1} more after this one"
    return UsageError(message, hint)


def _choice(detail: ErrorDetails) -> str:
    """Returns what was probably meant by a word that is none of those allowed."""
    words = re.findall(r"'([^']*)'", str(detail.get("ctx", {}).get("expected", "")))
    near = nearest(str(detail["input"]), words) if detail["type"] == "literal_error" else None
    return f"did you mean `{near}`?" if near else ""


def _meaning(model: type[BaseModel], location: Sequence[str | int]) -> str:
    """Returns the first sentence of what the reference says of a key; empty for one that is in a list."""
    here: type[BaseModel] | None = model
    text = ""
    for key in location:
        if here is None or not isinstance(key, str) or key not in here.model_fields:
            break
        field = here.model_fields[key]
        text = f"{key}: {(field.description or '').partition('. ')[0].rstrip('.')}"
        here = _model_in(field.annotation)
    return text if len(text) <= LONGEST_MEANING else ""


_KINDS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text in quotes",
    "list_type": "a list in [brackets]",
    "tuple_type": "a list in [brackets]",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}


def _reason(detail: ErrorDetails) -> str:
    kind, value = detail["type"], detail["input"]
    context: dict[str, Any] = detail.get("ctx", {})
    if kind in _KINDS:
        return f"must be {_KINDS[kind]}, not {_shown(value)}"
    if kind == "literal_error":
        return f"must be {context.get('expected', '')}, not {_shown(value)}"
    limits = {
        "greater_than_equal": ("ge", "at least"),
        "greater_than": ("gt", "greater than"),
        "less_than_equal": ("le", "at most"),
        "less_than": ("lt", "less than"),
        "multiple_of": ("multiple_of", "a multiple of"),
    }
    if kind in limits:
        name, words = limits[kind]
        return f"must be {words} {context.get(name)}, not {_shown(value)}"
    if kind in ("string_too_short", "too_short"):
        return "must not be empty"
    if kind == "string_too_long":
        return f"has more than {context.get('max_length')} characters"
    if kind == "too_long":
        return f"has more than {context.get('max_length')} entries"
    if kind == "finite_number":
        return f"must be a finite number, not {_shown(value)}"
    if kind in ("value_error", "assertion_error") and "error" in context:
        return f"is not right: {shown(context['error'], _MOST_REASON)}"
    message = detail["msg"]
    return f"is not right: {message[:1].lower()}{message[1:]} (found {_shown(value)})"


def _shown(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{shown(value, 60)}"'
        case int() if abs(value) >= 10**20:
            return f"a number of {value.bit_length()} bits"
        case int() | float():
            return str(value)
        case dict():
            return "a table"
        case list():
            return "a list"
    return type(value).__name__


def _real(model: type[BaseModel], location: Sequence[str | int]) -> list[str | int]:
    """Drops the names of union branches, which pydantic puts into locations, from its end."""
    real: list[str | int] = []
    for key in location:
        if isinstance(key, str) and real and ("[" in key or key in ("str", "int", "float", "bool", "none")):
            continue
        real.append(key)
    return real


def _keys(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """Returns the fields of the model at a location inside `model`."""
    here: type[BaseModel] = model
    for key in location:
        if isinstance(key, int) or key not in here.model_fields:
            continue
        inner = _model_in(here.model_fields[key].annotation)
        if inner is None:
            return []
        here = inner
    return list(here.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in typing.get_args(annotation):
        if model := _model_in(inner):
            return model
    return None
