"""`pgstrata show`"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgstrata.cli.arguments import RESULTS, ResultsOption
from pgstrata.cli.output import TextOrJson, prints

if TYPE_CHECKING:
    from pgstrata.store import Run
    from pgstrata.store.imported import ImportRecord
    from pgstrata.store.record import BuiltRecord, CountRecord, StepRecord


BY_ITSELF = (
    "rates are of this run by itself; it took turns with others, and the rates that belong to the ratio "
    "between them are those of pgstrata compare"
)
"""What is said beside rates of a run that took turns: the ratio of pairs is another one than that of two of
them."""


@prints("pgstrata.store.record:RunRecord")
def show(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run id, the beginning or end of one, or a folder.")
    ],
    results: ResultsOption = RESULTS,
    format: Annotated[TextOrJson, typer.Option("--format", help="json: the whole record.")] = TextOrJson.text,
) -> None:
    """Show one run: what was measured on which server, step by step.

    \b
    Examples:
      pgstrata show 20260131T235959-89abcdef
      pgstrata show 89abcdef --format json
    """
    import msgspec

    from pgstrata.cli.output import print_json
    from pgstrata.errors import harmless

    record = find_run(run, results)
    if format is TextOrJson.json:
        print_json(msgspec.to_builtins(record.record))
        return
    for line in lines(record):
        print(harmless(line))


def find_run(text: str, results: Path) -> Run:
    """Returns the run meant by an id, a part of an id, or a folder. Raises UsageError."""
    from pgstrata.errors import UsageError
    from pgstrata.files.user_files import in_command
    from pgstrata.store import Results, Run
    from pgstrata.store.read import read_run

    folder = Path(text)
    if os.path.lexists(folder / "run.json"):
        run = read_run(folder)
        if isinstance(run, Run):
            return run
        raise UsageError(f"{run}", "a run that is damaged cannot be shown")
    store = Results(results)
    runs = store.entries()
    matches = [r for r in runs if r.run_id == text] or [
        r for r in runs if r.run_id.startswith(text) or r.run_id.endswith(text)
    ]
    if len(matches) == 1:
        if found_run := store.read(matches):
            return found_run[0]
        raise UsageError(f"{store.broken[-1]}", "a run that is damaged cannot be shown")
    if matches:
        raise UsageError(
            f"{text} fits {len(matches)} runs: {', '.join(r.run_id for r in matches[:4])}",
            "write more of its id",
        )
    if damaged := next((b for b in store.broken if text and b.folder.name.endswith(text)), None):
        raise UsageError(f"{damaged}", "a run that is damaged cannot be shown")
    raise UsageError(
        f"there is no run {text} in {results}", f"pgstrata runs --results {in_command(results)} lists them"
    )


def lines(run: Run) -> list[str]:
    """Returns the run as lines of text."""
    from pgstrata.cli.output import aligned, without_empty
    from pgstrata.observe.cpus import sentence

    record = run.record
    server, config, host = record.server, record.config, record.host
    text = [
        f"run       {run.run_id}, {record.status}",
        f"campaign  {run.campaign}, {run.variant}, {run.workload}, repeat {run.repeat}",
    ]
    if record.imported is not None:
        return [*text, f"folder    {run.folder}", *_imported(record.imported)]
    text += [
        f"server    PostgreSQL {server.version} ({server.spec})",
        *_built(server.built),
        f"config    {config.name or 'server defaults'}",
        f"host      {host.hostname}, {host.cpus} × {host.cpu_model}, {host.os}",
        *([f"cpus      {where}"] if (where := sentence(record.cpus)) else []),
        f"started   {record.started}, finished {record.finished}",
        f"folder    {run.folder}",
    ]
    if record.loaded:
        text.append(f"data      not loaded, a copy of kept data {record.loaded[:8]}")
    for number, begun in enumerate(record.attempts, 1):
        steps = ", ".join(step.name for step in run.steps if step.measured and step.attempt == number)
        text.append(f"attempt   {number}, begun {begun}: {steps or 'no step'}")
    for change in config.dropped:
        text.append(f"dropped   {change.name} = {change.value}: {change.reason}")
    for change in config.mapped:
        text.append(f"mapped    {change.name} = {change.value} → {change.to} = {change.to_value}")
    if record.timings:
        text.append(
            "around    " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in record.timings.items())
        )
    columns = [
        "step",
        "rate",
        "unit",
        "seconds",
        "p50 ms",
        "p99 ms",
        "max ms",
        "server CPU s",
        "driver CPU s",
        "SLA",
    ]
    if (counted := record.counted) is not None:
        text += _counted(counted)
    else:
        rows = [_row(step) for step in run.steps]
        text += ["", *aligned(*(without_empty(columns, rows) if rows else (columns, rows)))]
        if any(step.slices for step in run.steps):
            text.append(BY_ITSELF)
    if (error := record.error) is not None:
        text += ["", f"failed: {error.message}"]
        if error.hint:
            text.append(f"        {error.hint}")
        if error.log_tail:
            text += ["", "end of the server log:", *(f"  {line}" for line in error.log_tail.splitlines())]
    return text


def _built(built: BuiltRecord | None) -> list[str]:
    """Returns lines on source, compiler and patches of a built server; none if it was not built."""
    if built is None:
        return []
    text = [f"source    {built.origin}"]
    if commit := built.source.get("commit"):
        text[0] += f", {str(commit)[:12]} {built.source.get('subject')}"
        text[0] += ", with changed files" if built.source.get("changed") else ""
    text.append(f"built     {built.system}, {built.compiler}: {built.cflags}")
    text += [f"patch     {patch.name}" for patch in built.patches]
    return text + [f"adapted   {mend.name}: {mend.reason}" for mend in built.mended]


def _counted(counted: CountRecord) -> list[str]:
    """Returns a table of the counted instructions: a row for each role of each step."""
    from pgstrata.cli.output import aligned

    rows = [
        [
            step.name,
            role,
            counts.operations,
            len(counts.instructions),
            sum(counts.instructions) / len(counts.instructions),
        ]
        for step in counted.steps
        for role, counts in step.roles.items()
        if counts.instructions
    ]
    settings = ", ".join(f"{name} = {value}" for name, value in counted.settings.items())
    text = [f"counted   {counted.event}, by {counted.engine} ({counted.tool}); while counting {settings}", ""]
    text += aligned(["step", "role", "operations", "starts", "instructions per operation"], rows)
    text += [f"not counted: {step}: {why}" for step, why in counted.left_out.items()]
    return [*text, *counted.notes]


def _imported(imported: ImportRecord) -> list[str]:
    """Returns a table of the results of another program: a row for each step."""
    from pgstrata.cli.output import aligned

    text = [f"imported  {file.name}, {imported.format}, SHA-256 {file.sha256}" for file in imported.files]
    rows = [[step.name, step.clients, step.rate, step.unit] for step in imported.steps]
    return [*text, "", *aligned(["step", "clients", "rate", "unit"], rows)]


def _row(step: StepRecord) -> list[Any]:
    latency = step.headline.latency
    return [
        step.name,
        step.rate,
        step.rate_unit,
        step.seconds,
        *(None if value is None else value * 1e3 for value in (latency.p50, latency.p99, latency.max)),
        step.server_cpu_seconds,
        step.driver_cpu_seconds,
        {True: "met", False: "MISSED", None: ""}[step.sla_met],
    ]
