"""The Python types of the driver's dialects say what the schemas say that are made from the Rust types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pgstrata.driver import events

Json = dict[str, Any]

DOCS = Path(__file__).parents[2] / "docs"


def schema(dialect: str) -> Json:
    document: Json = json.loads((DOCS / f"driver-{dialect}.schema.json").read_text())
    return document


def shape(node: Json, document: Json) -> Any:
    """What a value may be, without limits and words: both sides write them differently."""
    if "$ref" in node:
        return shape(document["$defs"][node["$ref"].rsplit("/", 1)[1]], document)
    if many := node.get("anyOf") or node.get("oneOf"):
        found = [shape(one, document) for one in many]
        if all(isinstance(one, tuple) and one[0] == "enum" for one in found):
            return "enum", sorted(value for one in found for value in one[1])
        return "any", sorted(map(repr, (part for one in found for part in _flat(one))))
    if "enum" in node:
        return "enum", sorted(node["enum"])
    if "const" in node and isinstance(node["const"], str):
        return "enum", [node["const"]]
    kinds = node.get("type")
    if isinstance(kinds, list):
        return "any", sorted(repr(shape({**node, "type": kind}, document)) for kind in kinds)
    if kinds == "array":
        if "prefixItems" in node:
            return "tuple", [shape(one, document) for one in node["prefixItems"]]
        return "array", shape(node["items"], document)
    if kinds == "object":
        if isinstance(more := node.get("additionalProperties"), dict):
            return "map", shape(more, document)
        return "object", fields(node, document)
    return kinds


def _flat(found: Any) -> Iterator[Any]:
    if isinstance(found, tuple) and found[0] == "any":
        for one in found[1]:
            yield _Written(one)
    else:
        yield found


class _Written(str):
    """What is written already."""

    __repr__ = str.__str__


def fields(node: Json, document: Json) -> Json:
    """Name → whether it must be there, and what it may be."""
    required = set(node.get("required", []))
    known = sorted(node.get("properties", {}).items())
    return {name: (name in required, shape(one, document)) for name, one in known}


def test_every_event_has_the_fields_and_types_of_the_schema() -> None:
    written = schema("events")
    of_driver = {
        one["properties"]["event"]["const"]: fields(_whole(one, written), written) for one in written["oneOf"]
    }
    ours = msgspec.json.schema(events.Event)
    of_python = {
        tag: fields(ours["$defs"][ref.rsplit("/", 1)[1]], ours)
        for tag, ref in ours["discriminator"]["mapping"].items()
    }
    assert of_python.keys() == of_driver.keys()
    for tag, expected in of_driver.items():
        assert of_python[tag] == expected, tag


def _whole(node: Json, document: Json) -> Json:
    """A variant whose fields stand in a type of their own, as one object."""
    if "$ref" not in node:
        return node
    inner = document["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return {
        **inner,
        "properties": {**inner.get("properties", {}), **node["properties"]},
        "required": [*inner.get("required", []), *node.get("required", [])],
    }


@pytest.mark.parametrize("line", [b'{"event":"measuring","unix_time":1,"more":2}', b'{"event":"other"}'])
def test_unknown_keys_and_events_are_refused(line: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        events.decode(line)
