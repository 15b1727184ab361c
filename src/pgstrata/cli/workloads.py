"""`pgstrata workloads`"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict

import typer

from pgstrata.cli.output import TextOrJson, prints

if TYPE_CHECKING:
    from pgstrata.workload.catalog import WorkloadKind


WIDTH = 80
"""Letters of a line."""

_Keyed = TypedDict("_Keyed", {"$defs": NotRequired[dict[str, Any]]})


class WorkloadRecord(_Keyed):
    """A workload: values of its options at each scale, and the JSON Schema of each option. `$defs`: tables
    within options, to which `$ref` of an option leads."""

    name: str
    summary: str
    scales: dict[str, dict[str, Any]]
    options: dict[str, Any]


WorkloadRecords = list[WorkloadRecord]


@prints("pgstrata.cli.workloads:WorkloadRecords")
def workloads(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Show the options of this one: a name, or FILE.py:CLASS."),
    ] = None,
    format: Annotated[TextOrJson, typer.Option("--format", help="How to print.")] = TextOrJson.text,
) -> None:
    """List the workloads, or the scales and options of one.

    \b
    Examples:
      pgstrata workloads
      pgstrata workloads insert
      pgstrata workloads mine.py:Counters
    """
    from pgstrata.cli.output import print_json
    from pgstrata.workload import catalog
    from pgstrata.workload.plugin import PluginError

    chosen, broken = [], []
    for workload_name in [name] if name else catalog.names():
        try:
            chosen.append(catalog.find(workload_name))
        except PluginError as error:  # one that another package offers hides no other
            if name:
                raise
            broken.append(f"{workload_name:<10} cannot be used: {error.message}")
    if format is TextOrJson.json:
        print_json([_record(workload) for workload in chosen])
    elif name:
        _print_one(chosen[0])
    else:
        for workload in chosen:
            print(_filled(f"{workload.name:<10} ", workload.summary))
        for line in broken:
            print(line)
        print("\npgstrata workloads NAME shows scales and options")


def _record(workload: WorkloadKind) -> WorkloadRecord:
    schema = workload.Options.model_json_schema()
    record: WorkloadRecord = {
        "name": workload.name,
        "summary": workload.summary,
        "scales": {name: dict(values) for name, values in workload.scales.items()},
        "options": schema["properties"],
    }
    if "$defs" in schema:
        record["$defs"] = schema["$defs"]
    return record


def _print_one(workload: WorkloadKind) -> None:
    from pgstrata.campaign.file.reference import limits

    print(_filled(f"{workload.name}: ", workload.summary))
    print("\nscales (--scale NAME)\n" * bool(workload.scales), end="")
    for name, values in workload.scales.items():
        print(_filled(f"  {name:<10} ", ", ".join(f"{k}={v}" for k, v in values.items())))
    print("\noptions (--set KEY=VALUE)")
    for name, field in workload.Options.model_fields.items():
        default = field.get_default(call_default_factory=True)
        allowed = f"   ({between})" if (between := limits(field)) else ""
        print(f"  {name} = {default_text(default)}{allowed}")
        if field.description:
            print(_filled(" " * 6, field.description))


def _filled(head: str, text: str) -> str:
    """Returns a text behind its head, in lines that fit a terminal."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )


def default_text(value: Any) -> str:
    """Returns a default as it would be written in a campaign file."""
    import json

    return "(not set)" if value is None else json.dumps(value, default=str, ensure_ascii=False)
