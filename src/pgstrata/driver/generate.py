"""Makes the Python types of the driver's messages from their JSON Schemas: `spec.py` and `events.py`.

python -m pgstrata.driver.generate spec > src/pgstrata/driver/spec.py

`datamodel-code-generator` is not used: msgspec cannot decode its unions, and events are Event1 to Event7.
"""

from __future__ import annotations

import json
import keyword
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Node = dict[str, Any]

DOCS = Path(__file__).parents[3] / "docs"
WIDTH = 110

_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}

_HEAD = '''\
"""The {dialect} of the driver, as types.

Made from docs/driver-{dialect}.schema.json, which is made from the types of the driver: `make schemas`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import {typing}

{library}from pgstrata.driver.message import {base}
'''


def schema_of(dialect: str) -> Node:
    """Returns the JSON Schema of a dialect, `spec` or `events`."""
    schema: Node = json.loads((DOCS / f"driver-{dialect}.schema.json").read_text(encoding="utf-8"))
    return schema


def name_of(node: Node) -> str:
    """Returns the name of the type that a `$ref` leads to."""
    return str(node["$ref"].rpartition("/")[2])


def module(dialect: str) -> str:
    """Returns the text of the module with the types of a dialect."""
    schema = schema_of(dialect)
    types = _Types(schema, base="Read" if "oneOf" in schema else "Written")
    if "oneOf" in schema:
        for event in schema["oneOf"]:
            types.event(event)
        union = " | ".join(event["title"] for event in schema["oneOf"])
        types.parts.append(f"\n\n{schema['title']} = {union}\n" + _doc(schema))
    else:
        types.root(schema)
    body = "".join(types.parts).lstrip()
    library = "import msgspec\n\n" if "msgspec." in body else ""
    head = _HEAD.format(
        dialect=dialect, typing=_used("ClassVar Literal", body), library=library, base=types.base
    )
    return head + ("\n\n" if body.startswith("class") else "\n") + body


def _used(names: str, body: str) -> str:
    return ", ".join(name for name in names.split() if f"{name}[" in body)


@dataclass
class _Types:
    """The types of a module, each behind those that its defaults need."""

    schema: Node
    base: str
    parts: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)

    def root(self, schema: Node) -> None:
        """Adds the whole message, and apart from it what a step says of itself."""
        step = {key for key, node in schema["properties"].items() if node.get("x-step")}
        inner = _part(schema, step, "The part of the spec that a step says of itself.")
        self._class("StepSpec", inner, self.base)
        self._class(schema["title"], _part(schema, schema["properties"].keys() - step), "StepSpec")

    def event(self, node: Node) -> None:
        """Adds an event, which its tag tells from others."""
        tag = node["properties"]["event"]["const"]
        keys = node["properties"].keys() - {"event"}
        self._class(node["title"], _part(node, keys), self.base, f'tag_field="event", tag="{tag}"')

    def _class(self, name: str, node: Node, base: str, more: str = "") -> None:
        required = {
            *node.get("required", ()),
            *(k for k, v in node["properties"].items() if v.get("x-written")),
        }
        if self.base == "Written":
            required -= {key for key, value in node["properties"].items() if "const" in value}
        fields = [
            self._field(key, value, None if key in required else self._default(key, value))
            for key, value in node["properties"].items()
        ]
        more = more or ("omit_defaults=True" if node.get("x-short") else "")
        options = ", ".join(part for part in ("frozen=True", "kw_only=True", more) if part)
        secrets = [json.dumps(key) for key, value in node["properties"].items() if value.get("writeOnly")]
        body = _doc(node, "    ") + ("\n" if node.get("description") else "")
        if secrets:
            body += f"    _secrets: ClassVar[frozenset[str]] = frozenset({{{', '.join(secrets)}}})\n\n"
        self.parts.append(f"\n\nclass {name}({base}, {options}):\n{body}" + "".join(fields))

    def _field(self, key: str, node: Node, default: str | None) -> str:
        hint = self._hint(node)
        given = "" if default is None else f" = {default}"
        if keyword.iskeyword(key):
            default = "" if default is None else f", default={default}"
            key, given = f"{key}_", f' = msgspec.field(name="{key}"{default})'
        return f"    {key}: {hint}{given}\n" + _doc(node, "    ")

    def _named(self, name: str) -> str:
        """Adds a type of the schema where it is not there yet; returns its name."""
        if name not in self.known:
            self.known.add(name)
            node = self.schema["$defs"][name]
            if "properties" in node:
                self._class(name, node, self.base)
            else:
                hint = self._hint(node)
                self.parts.append(f"\n\n{name} = {hint}\n{_doc(node)}")
        return name

    def _hint(self, node: Node) -> str:
        """Returns the type of a value."""
        if "$ref" in node:
            return self._named(name_of(node))
        if choices := _choices(node):
            return f"Literal[{', '.join(choices)}]"
        if branches := node.get("anyOf"):
            return " | ".join(dict.fromkeys(self._hint(branch) for branch in branches))
        kinds = node["type"]
        if isinstance(kinds, list):
            return " | ".join(self._hint({**node, "type": kind}) for kind in kinds)
        if kinds == "array" and "prefixItems" in node:
            return f"tuple[{', '.join(map(self._hint, node['prefixItems']))}]"
        if kinds == "array":
            return f"Sequence[{self._hint(node['items'])}]"
        if kinds == "object":
            return f"Mapping[str, {self._hint(node['additionalProperties'])}]"
        return _SIMPLE[kinds]

    def _default(self, key: str, node: Node) -> str:
        """Returns what stands for a key that is not there."""
        if "const" in node:
            return _literal(node["const"])
        value = node.get("default")
        if isinstance(value, Mapping) and "$ref" in node:
            properties = self.schema["$defs"][name_of(node)]["properties"]
            values = (
                f"{k}={_literal(v)}" for k, v in value.items() if properties[k].get("default", ...) != v
            )
            return f"{self._hint(node)}({', '.join(values)})"
        if value or isinstance(value, bool | int | float | str):
            return _literal(value)
        if "default" in node or "null" in node.get("type", ()) or {"type": "null"} in node.get("anyOf", ()):
            return {"[]": "()", "{}": "{}"}.get(json.dumps(value), "None")
        if node.get("type") in ("array", "object"):
            return "()" if node["type"] == "array" else "{}"
        raise ValueError(f"{key} is neither required nor has it a default")


def _part(node: Node, keys: set[str], description: str = "") -> Node:
    """Returns an object with some of its keys."""
    properties = {key: value for key, value in node["properties"].items() if key in keys}
    return {**node, "properties": properties, "description": description or node.get("description", "")}


def _choices(node: Node) -> list[str]:
    """Returns the texts that a value may be; none where it may be others."""
    if "const" in node and isinstance(node["const"], str):
        return [_literal(node["const"])]
    if "enum" in node:
        return [_literal(value) for value in node["enum"]]
    return [text for branch in node.get("oneOf", ()) for text in _choices(branch)]


def _literal(value: Any) -> str:
    """Returns a number, a text, a truth or nothing in Python's notation."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _doc(node: Node, indent: str = "") -> str:
    """Returns a description as the string below what it describes, with those of single values."""
    texts = [node.get("description", "")]
    for branch in node.get("oneOf", ()) if _choices(node) else ():
        if "const" in branch and branch.get("description"):
            texts.append(f"`{branch['const']}`: {branch['description']}")
    text = " ".join(" ".join(texts).split()).replace("null", "None")
    if not text:
        return ""
    mark = 'r"""' if "\\" in text else '"""'
    # The last line holds the closing quotes, too.
    lines = textwrap.wrap(mark + text, WIDTH - len(indent) - 3)
    return "\n".join(indent + line for line in lines) + '"""\n'


if __name__ == "__main__":
    print(module(sys.argv[1]), end="")
