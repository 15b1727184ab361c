"""The reference of the campaign file, docs/reference/campaign.md, made from the models.

python -m pgstrata.campaign.file.reference > docs/reference/campaign.md
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pgstrata.campaign.study import BuildKeys, CountSpec, FleetSpec, ProfileSpec, Study, Variant, Workload
from pgstrata.workload import catalog
from pgstrata.workload.core.options import CurveOptions, WorkloadOptions, is_filled_in

HEAD = """\
# The campaign file

<!-- Made from the models: `python -m pgstrata.campaign.file.reference > docs/reference/campaign.md` -->

A campaign is a TOML file: variants × workloads × repeats, and how to run them. The smallest one:

```toml
servers = ["pg:12", "pg:17"]

[[workloads]]
name = "insert"
scale = "quick"
```

`pgstrata init` writes a commented file, `pgstrata run FILE --dry-run` shows what it means, and
`campaigns/` has ready ones. Unknown keys, wrong types and numbers outside the limits are errors that name
the key and the nearest known one; limits alone are those of a whole number. A file has at most a megabyte
and may be a pipe.

Options of [the command line](cli.md) win over the file. A value of `--set` is TOML; a bare word is text;
`--set insert.rows=1000` is for a workload by its name. `--set-guc work_mem=64MB` adds a setting of
PostgreSQL to every variant.

A finished run is never measured again; a failed run is. Where a campaign of the same name was measured with
other options, pgstrata stops: choose another name or results folder, or `--fresh`, which measures anew and
hides the older runs.
"""

MIDDLE = """
## Options of the workloads

They go under `[workloads.options]`, or into `--set`. `scale` names a set of options to start from, which
`pgstrata workloads NAME` shows. Every workload also has `seed`, the seed of its random streams.

Beside a list of `clients`:

"""


def page() -> str:
    """Returns the whole page as Markdown."""
    parts = [HEAD]
    parts.append("\n## Keys of the campaign\n\n" + _table(Study))
    parts.append("\n## `[profile]`\n\n" + _table(ProfileSpec))
    parts.append("\n## `[count]`\n\n" + _table(CountSpec))
    parts.append("\n## `[fleet]`\n\n" + _table(FleetSpec))
    parts.append(
        "\n## `[[variants]]`\n\nEvery key of a build may stand here, too.\n\n" + _table(Variant, BuildKeys)
    )
    parts.append("\n## `[builds.NAME]`\n\n" + _table(BuildKeys))
    parts.append("\n## `[[workloads]]`\n\n" + _table(Workload))
    parts.append(MIDDLE + _table(CurveOptions, WorkloadOptions))
    shared: dict[type[BaseModel], str] = {WorkloadOptions: "", CurveOptions: ""}
    for name in catalog.own_names():
        workload = catalog.find(name)
        parts.append(f"\n### `{name}`\n\n{workload.summary}\n\n")
        if workload.scales:
            parts.append(f"Scales: {', '.join(f'`{scale}`' for scale in workload.scales)}.\n\n")
        base = workload.Options.__bases__[0]
        if (first := shared.setdefault(base, name)) and first != name:
            parts.append(f"The keys of `{first}`, but:\n\n" + _table(workload.Options, base))
        else:
            has_curves = issubclass(workload.Options, CurveOptions)
            parts.append(_table(workload.Options, CurveOptions if has_curves else WorkloadOptions))
        for key, inner in _inner_tables(workload.Options):
            parts.append(f"\n#### `{key}` of `{name}`\n\n" + _table(inner))
    return "".join(parts)


def _inner_tables(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yields the models of keys that are lists of tables, with those within them."""
    for name, field in model.model_fields.items():
        for inner in _models(field.annotation):
            yield name, inner
            yield from _inner_tables(inner)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models(part)


def _table(model: type[BaseModel], without: type[BaseModel] | None = None) -> str:
    """Returns the table of a model's keys; those of `without`, and those that are filled in, are left out."""
    rows = ["| key | type | default | meaning |\n|---|---|---|---|\n"]
    for name, field in model.model_fields.items():
        meaning = " ".join((field.description or "").split()).replace("|", "\\|")
        if (without is not None and name in without.model_fields) or is_filled_in(model, name):
            continue
        within = limits(field)
        kind = " ".join(filter(None, (_type(field.annotation), within)))
        if within:
            kind = kind.replace("integer ", "")
        rows.append(f"| `{name}` | {kind} | {_default(field)} | {meaning} |\n")
    return "".join(rows)


def limits_of(field: FieldInfo) -> tuple[float | None, float | None]:
    """Returns the smallest and the largest number of a key; None where the key has no such limit."""
    low = high = None
    for mark in _marks(field):
        low = next((getattr(mark, n) for n in ("ge", "gt") if getattr(mark, n, None) is not None), low)
        high = next((getattr(mark, n) for n in ("le", "lt") if getattr(mark, n, None) is not None), high)
    return low, high


def _marks(field: FieldInfo) -> list[Any]:
    """Returns the annotations of a field, also those of the branches of a union."""
    marks = list(field.metadata)
    for branch in typing.get_args(field.annotation):
        for mark in getattr(branch, "__metadata__", ()):
            marks += mark.metadata if isinstance(mark, FieldInfo) else [mark]
    return marks


def limits(field: FieldInfo) -> str:
    """Returns both limits of a key as text, `1–1,000`; empty if the key has none."""
    low, high = limits_of(field)
    if low is None and high is None:
        return ""
    return f"{_number(low)}–{_number(high)}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "*required*"
    value = field.get_default(call_default_factory=True)
    return "" if value is None else f"`{_value(value)}`"


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


_NAMES = {
    int: "integer",
    float: "number",
    str: "text",
    bool: "boolean",
    type(None): "",
    dict: "table",
    Any: "any",
}


def _type(annotation: Any) -> str:
    if annotation in _NAMES:
        return _NAMES[annotation]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(inner[0])
    if origin is typing.Literal:
        return " or ".join(f"`{_value(value)}`" for value in inner)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(filter(None, map(_type, inner)))
    if origin in (list, tuple):
        kinds = [_type(i) for i in inner if i is not Ellipsis]
        return f"list of {kinds[0]}" if kinds else "list"
    if origin is dict:
        return f"table of {_type(inner[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table"
    return str(getattr(annotation, "__name__", annotation))


if __name__ == "__main__":
    print(page(), end="")
