"""Makes `docs/reference/driver.md` from the JSON Schemas of the driver's messages.

python -m pgstrata.driver.reference > docs/reference/driver.md
"""

from __future__ import annotations

from collections.abc import Iterator

from pgstrata.driver.generate import Node, name_of, schema_of

HEAD = """\
# The driver: spec and events

<!-- Made from the schemas: `python -m pgstrata.driver.reference > docs/reference/driver.md` -->

`pgstrata-driver` is the only program on the measured path. It reads one JSON document, the **spec**, and
answers with JSON lines, the **events**. Both carry `"version": 1`; a driver refuses another version. The
JSON Schemas ([spec](../driver-spec.schema.json), [events](../driver-events.schema.json)) are made from
the Rust types that read and write them (`make schemas`), and this page from the schemas.

    pgstrata-driver run          runs a step: spec and commands on standard input, events on standard output
    pgstrata-driver check FILE   parses a pgbench script; prints its error as an `error` event, exit code 1
    pgstrata-driver sample       spec in, statements with sample values out, to ask a server for plans
    pgstrata-driver schema NAME  prints the JSON Schema of a dialect, `spec` or `events`

## Conversation

    driver ←  the spec, as the first line of standard input
    driver →  ready       connections open, statements prepared, backend pids per role
    driver ←  {"command":"start"}
    driver →  measuring   the barrier has opened and the warm-up is over: the clock of the step starts
    driver →  second      once per second and in order; the last may be shorter
    driver →  statement   for each execution of a statement marked "record"
    driver →  done        totals; connections are still open, so that the backends' CPU can be read
    driver ←  {"command":"close"}

- `{"command":"start","at":N}` starts in turns: N is the zero of all drivers in nanoseconds of the
  monotonic clock.
- `{"command":"stop"}` ends the step as if its time were over; with `"within":s` statements under way
  after s seconds are cancelled and not counted.
- `{"command":"stretch","operations":n}` sets the length of a stretch of frozen turns.
- `{"command":"slice","seconds":s}` gives a slice to a step with `slices`.
- End of file on standard input ends the driver at once. Whatever goes wrong is an `error` event; if the
  clock had started, `done` follows with what was measured.

Exit codes: 0 the step ended as asked, 1 an `error` event was written, 2 the spec is not valid.

## Semantics

**Latency** runs from the intended start where the role has a rate, else from the real start, to the last
byte of the answer. `rows` are those of command tags. The counts of the seconds add up to the totals, and
their histograms (HDR, 3 significant digits, 1 µs … 1 h) merge to the step's, exactly.

**Values**: in simple mode parts of a statement become literals (text quoted), else parameters `$1`, `$2`,
…. Every role has the variables `client_id` (from 0 over the role), `client` (from 1), and pgbench's
`scale`, `random_seed`, `default_seed` where `variables` has them.

**Windows**: inside its window a connection starts transactions, outside it waits; what was under way at the
end counts to its window. Seconds and rates are *active* time.

**Slices**: transactions begin for the seconds that the command gives; the event `slice` follows when the
last of them has ended, and only then another driver is given its own.

**Frozen**: the process that started the driver stops it together with its server. The driver's clock is the
monotonic clock less the pauses in `clock`. A stretch is n operations of each connection of the role;
`windows` of that role are its stretches. Neither windows, a replay nor roles with `reconnect` go
with it.

**Replay**: each session has a connection, opened up to half a second before the original's began. An
operation is a statement. A statement that fails ends nothing; a lost connection ends its session. It runs
on threads with epoll(7).

**Scheduling**: with four connections or more on a thread of the io_uring engine and no role with a rate,
that thread runs under `SCHED_BATCH` (sched(7)): an answer does not take the CPU from a server process
([client-cpu](../../benchmarks/results/client-cpu.md)).

**Hostile servers**: no message may be longer than 64 KiB before authentication, 1 MiB until the first
ReadyForQuery, 1 GiB ever. Of an error or notice the first 64 KiB are kept. A server that ends SCRAM
before it has proved that it knows the password is refused, and so is one that asks for more than a
million rounds of its hash.
"""

TYPES = """\
A name such as `RoleSpec` is a type of the schema ([spec](../driver-spec.schema.json),
[events](../driver-events.schema.json)), where each of its keys has a description.
"""


def page() -> str:
    """Returns the page as Markdown. Types that keys name are described in the schemas."""
    spec, events = schema_of("spec"), schema_of("events")
    lines = [HEAD, "## Spec\n", TYPES, *_object("Spec", spec, spec), "## Events\n"]
    for event in events["oneOf"]:
        name = event["properties"]["event"]["const"]
        lines += [f"### `{name}`\n", *_object(name, event, events)]
    return "\n".join(lines).rstrip() + "\n"


def _object(name: str, node: Node, schema: Node) -> Iterator[str]:
    if node.get("description") and name != "Spec":
        yield f"{_line(node['description'])}\n"
    explained: list[str] = []
    plain: dict[str, list[str]] = {}
    for key, value in node.get("properties", {}).items():
        if key in ("event", "version"):
            continue
        meaning = _line(value.get("description") or "")
        kind = _kind(value, schema)
        if meaning:
            explained.append(f"| `{key}` | {kind} | {meaning} |")
        else:
            plain.setdefault(kind, []).append(f"`{key}`")
    if explained:
        yield "\n".join(("| key | type | meaning |", "|---|---|---|", *explained)) + "\n"
    if plain:
        groups = "; ".join(f"{', '.join(keys)} ({kind})" for kind, keys in plain.items())
        yield f"{'Also' if explained else 'Keys:'} {groups}.\n"


_SIMPLE = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean", "null": "null"}


def _kind(node: Node, schema: Node) -> str:
    """Returns the type of a value in words."""
    if "$ref" in node:
        name = name_of(node)
        inner = schema["$defs"][name]
        is_object = {"properties", "prefixItems", "oneOf", "anyOf"} & inner.keys()
        return f"`{name}`" if is_object else _kind(inner, schema)
    if "const" in node:
        return f"`{node['const']}`"
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"] if value is not None)
    if branches := node.get("anyOf") or node.get("oneOf"):
        kinds = dict.fromkeys(_kind(branch, schema) for branch in branches)
        return " or ".join(kind for kind in kinds if kind != "null")
    types = node.get("type", "any")
    (kind, *_) = [kind for kind in types if kind != "null"] if isinstance(types, list) else [types]
    if kind == "array":
        items = node.get("items")
        return f"list of {_kind(items, schema)}" if isinstance(items, dict) else "list"
    return _SIMPLE.get(kind, str(kind))


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
