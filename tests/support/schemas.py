"""Holds what commands print with --format json to the schemas that the program prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import jsonschema

from pgstrata.cli.schema import places_of, schema_of


@cache
def validator(name: str) -> Any:
    """Returns the validator of what a command prints, which refuses keys that its schema does not declare;
    None for a command without a schema."""
    places = places_of(name)
    if not places:
        return None
    schema = closed(schema_of(name, places))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def closed(part: Any) -> Any:
    """Returns a part of a schema that refuses undeclared keys."""
    match part:
        case {"type": "object", "properties": dict()}:
            return {key: closed(value) for key, value in part.items()} | {"additionalProperties": False}
        case dict():
            return {key: closed(value) for key, value in part.items()}
        case list():
            return [closed(value) for value in part]
    return part


def check_printed(arguments: Sequence[str], printed: str) -> None:
    """Raises AssertionError where a command line asked for JSON, and what it printed is not by its schema."""
    if "json" not in arguments or arguments[arguments.index("json") - 1] != "--format" or not printed:
        return
    name = " ".join(arguments[:2]) if places_of(" ".join(arguments[:2])) else arguments[0]
    assert validator(name) is not None, f"{name} has no schema"
    has_lines = arguments[0] == "run" and "--fleet" in arguments and "--dry-run" not in arguments
    documents = printed.splitlines() if has_lines else [printed]
    for document in documents:
        if error := jsonschema.exceptions.best_match(validator(name).iter_errors(json.loads(document))):
            raise AssertionError(f"{name}: {error.json_path}: {error.message[:2000]}")
