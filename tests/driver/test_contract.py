"""The Python types of the driver's dialects say what the schemas say that are made from the Rust types."""

from __future__ import annotations

import collections.abc
import json
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import structs

from pgstrata.driver import events, spec

Json = dict[str, Any]

DOCS = Path(__file__).parents[2] / "docs"


def schema(dialect: str) -> Json:
    document: Json = json.loads((DOCS / f"driver-{dialect}.schema.json").read_text())
    return document


def shape(node: Json, document: Json) -> Any:
    """What a value may be, without limits and words: both sides write them differently."""
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[1]
        inner = document["$defs"][name]
        # Types that hold each other are told by their names, which are the same on both sides.
        return ("ref", name) if inner.get("type") == "object" else shape(inner, document)
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


EVENT_OBJECTS = [
    *(events.ReadyRole, events.RoleSecond, events.RoleDone, events.Latency, events.Lag, events.Outcomes),
    *(events.Connects, events.StatementTotals, events.ScriptTotals, events.SqlError),
    *(events.ReplayLag, events.ReplayFailure, events.Replayed),
]
SPEC_OBJECTS = [
    *(spec.ExprPiece, spec.SplicePiece, spec.DigitsPiece, spec.FillSpec, spec.FillPiece, spec.NowPiece),
    *(spec.RepeatPiece, spec.SetSpec, spec.SqlSpec, spec.CopyRowsSpec, spec.CopyFileSpec, spec.EverySpec),
    *(spec.IfSpec, spec.SleepSpec, spec.OpsScript, spec.TextScript, spec.RateSpec, spec.RetrySpec),
    *(spec.RoleSpec, spec.LockstepSpec, spec.WindowsSpec, spec.LogSpec, spec.Connection, spec.Keepalives),
    *(spec.ReplaySpec, spec.Spec),
]
NEVER_SENT = {"SqlSpec": {"gset", "aset"}}
"""Keys of what only pgbench's own scripts ask for, which the driver reads itself."""


@pytest.mark.parametrize("kind", EVENT_OBJECTS, ids=lambda kind: kind.__name__)
def test_every_object_of_an_event_is_as_in_the_schema(kind: type[msgspec.Struct]) -> None:
    written, ours = schema("events"), msgspec.json.schema(kind)
    assert fields(ours["$defs"][kind.__name__], ours) == fields(written["$defs"][kind.__name__], written)
    assert written["$defs"][kind.__name__]["additionalProperties"] is False


@pytest.mark.parametrize("kind", SPEC_OBJECTS, ids=lambda kind: kind.__name__)
def test_every_object_of_the_spec_is_as_in_the_schema(kind: type[msgspec.Struct]) -> None:
    written = schema("spec")
    whole = written if kind.__name__ == written["title"] else written["$defs"][kind.__name__]
    of_driver = fields(whole, written)
    hints = get_type_hints(kind)
    written_always = not kind.__struct_config__.omit_defaults
    of_python = {
        f.encode_name: (f.required or written_always, of_type(hints[f.name])) for f in structs.fields(kind)
    }
    for name in NEVER_SENT.get(kind.__name__, ()):
        del of_driver[name]
    assert of_python.keys() == of_driver.keys()
    for name, (required, shape_of_driver) in of_driver.items():
        always, shape_of_python = of_python[name]
        assert always or not required, f"{name} must be there"
        assert _without_null(shape_of_python) == _without_null(shape_of_driver), name
    assert whole["additionalProperties"] is False


def of_type(hint: Any) -> Any:
    """As `shape`, of a Python type; msgspec writes no schema of unions without a tag."""
    simple = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
    if hint in simple:
        return simple[hint]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return "ref", hint.__name__
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "enum", sorted(arguments)
    if origin is collections.abc.Sequence:
        return "array", of_type(arguments[0])
    if origin is collections.abc.Mapping:
        return "map", of_type(arguments[1])
    if origin is tuple:
        return "tuple", [of_type(one) for one in arguments]
    assert origin in (Union, UnionType), hint
    return "any", sorted(repr(of_type(one)) for one in arguments)


def _without_null(found: Any) -> Any:
    """What is left out and what is null mean the same to the driver; pipelines are pgbench scripts' own."""
    if isinstance(found, tuple) and found[0] == "any":
        left = [str(one) for one in found[1] if str(one) not in ("'null'", "('ref', 'PipelineSpec')")]
        return left[0] if len(left) == 1 else left
    if isinstance(found, tuple) and found[0] in ("array", "tuple", "map"):
        inner = found[1]
        return found[0], [*map(_without_null, inner)] if isinstance(inner, list) else _without_null(inner)
    return repr(found)


@pytest.mark.parametrize("line", [b'{"event":"measuring","unix_time":1,"more":2}', b'{"event":"other"}'])
def test_unknown_keys_and_events_are_refused(line: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        events.decode(line)
