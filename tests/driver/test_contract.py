"""The Python types of the driver's messages are made from its schemas, and read and write what these say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from pgstrata.driver import events, generate, spec
from pgstrata.driver.client import decode
from pgstrata.driver.message import document
from pgstrata.files import digests
from pgstrata.server.features import Features
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Step

Json = dict[str, Any]

SOURCES = Path(spec.__file__).parent
EVENTS = generate.schema_of("events")

PASSWORD = "a-secret-word"
CONNECTION = spec.Connection(host="/tmp", port=5432, user="u", database="d", password=PASSWORD)


@pytest.mark.parametrize("dialect", ["spec", "events"])
def test_generating_again_changes_nothing(dialect: str) -> None:
    text = (SOURCES / f"{dialect}.py").read_text(encoding="utf-8")
    assert text == generate.module(dialect), "run: make schemas"


def sample(node: Json, *, whole: bool) -> Any:
    """Makes a value that a schema allows. whole: with every key, instead of those that must be there."""
    if "$ref" in node:
        return sample(EVENTS["$defs"][generate.name_of(node)], whole=whole)
    if branches := node.get("anyOf") or node.get("oneOf"):
        return sample(branches[0], whole=whole)
    if "const" in node or "enum" in node:
        return node["const"] if "const" in node else node["enum"][0]
    kind = node["type"][0] if isinstance(node["type"], list) else node["type"]
    match kind:
        case "object" if "properties" in node:
            keys = node["properties"] if whole else node["required"]
            return {key: sample(node["properties"][key], whole=whole) for key in keys}
        case "object":
            return {"a": sample(node["additionalProperties"], whole=whole)}
        case "array" if "prefixItems" in node:
            return [sample(item, whole=whole) for item in node["prefixItems"]]
        case "array":
            return [sample(node["items"], whole=whole)]
    return {"string": "text", "integer": 1, "number": 1.5, "boolean": True}[kind]


@pytest.mark.parametrize("node", EVENTS["oneOf"], ids=lambda node: str(node["title"]))
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "shortest"])
def test_every_event_of_the_schema_is_read(node: Json, whole: bool) -> None:
    document = sample(node, whole=whole)
    event = decode(msgspec.json.encode(document))
    assert type(event) is getattr(events, node["title"])
    read = msgspec.json.decode(msgspec.json.encode(event))
    if whole:
        assert read == document
    else:
        assert read.items() >= {key: value for key, value in document.items() if key != "roles"}.items()


@pytest.mark.parametrize(
    "line",
    [
        b'{"event":"measuring","unix_time":1,"more":2}',
        b'{"event":"measuring"}',
        b'{"event":"measuring","unix_time":"1"}',
        b'{"event":"other"}',
        b'{"unix_time":1}',
    ],
)
def test_what_the_schema_does_not_allow_is_refused(line: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(line)


def test_a_spec_with_its_defaults_alone_is_valid() -> None:
    role = spec.RoleSpec(name="q", clients=1, scripts=[spec.OpsScript(ops=[spec.SleepSpec(sleep="1")])])
    whole = document(spec.Spec(step="s", connection=CONNECTION, roles=[role]))
    Draft202012Validator(generate.schema_of("spec")).validate(whole)
    assert whole["version"] == 1
    assert whole["connection"].keys() == {"host", "port", "user", "database", "password"}


def test_a_spec_is_shown_without_its_secrets() -> None:
    tls = spec.TlsSpec(server_name="h", mode="require", key_password=PASSWORD)
    role = spec.RoleSpec(name="q", clients=1, connection=CONNECTION, scripts=[])
    shown = repr(spec.Spec(step="s", connection=msgspec.structs.replace(CONNECTION, tls=tls), roles=[role]))
    assert PASSWORD not in shown
    assert shown.count(" password=***") == 2
    assert "key_password=***" in shown
    assert "password=None" in repr(msgspec.structs.replace(CONNECTION, password=None))


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("insert", "138b8e324bbf687f435d2715"),
        ("pgbench", "95a87c53c5c3f248f8d1a7b4"),
        ("sysbench", "a4c61f149b6137b251f06e33"),
        ("tpcds", "be9cbd9c038f15d1be585034"),
    ],
)
def test_specs_are_written_as_earlier_runs_have_them(name: str, digest: str) -> None:
    """Kept data and steps are found, and the work of two runs is compared, by digests of specs. Where a
    workload itself has changed, write the digest of its new specs here."""
    workload = catalog.find(name)
    options = workload.Options.model_validate(catalog.scale(workload, "quick"))
    phases = workload.phases(options, Features(170_000))
    specs = [phase.spec() for phase in phases if isinstance(phase, Step)]
    assert digests.of(msgspec.json.encode(specs))[:24] == digest
