"""`pgstrata show`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgstrata.cli.arguments import RESULTS, ResultsOption
from pgstrata.cli.output import TextOrJson

if TYPE_CHECKING:
    from pgstrata.store import Run


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
    from pgstrata.cli.output import print_json

    record = find_run(run, results)
    if format is TextOrJson.json:
        print_json(record.data)
        return
    for line in lines(record):
        print(line)


def find_run(text: str, results: Path) -> Run:
    """The run meant by an id, a part of it, or a folder. Raises UsageError."""
    from pgstrata.errors import UsageError
    from pgstrata.store import Results, Run
    from pgstrata.store.read import read_run

    folder = Path(text)
    if (folder / "run.json").exists():
        found = read_run(folder)
        if isinstance(found, Run):
            return found
        raise UsageError(f"{found}", "a run that is damaged cannot be shown")
    runs = Results(results).runs()
    matches = [r for r in runs if r.run_id == text] or [
        r for r in runs if r.run_id.startswith(text) or r.run_id.endswith(text)
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f"{text} fits {len(matches)} runs: {', '.join(r.run_id for r in matches[:4])}")
    raise UsageError(f"there is no run {text} in {results}", f"pgstrata runs --results {results} lists them")


def lines(run: Run) -> list[str]:
    """The run as text."""
    from pgstrata.cli.output import aligned

    data = run.data
    server, config = _dict(data, "server"), _dict(data, "config")
    host, timings = _dict(data, "host"), _dict(data, "timings")
    text = [
        f"run       {run.run_id}, {data['status']}",
        f"campaign  {run.campaign}, {run.variant}, {run.workload}, repeat {run.repeat}",
        f"server    PostgreSQL {server.get('version')} ({server.get('spec')})",
        f"config    {config.get('name') or 'server defaults'}",
        f"host      {host.get('hostname')}, {host.get('cpus')} × {host.get('cpu_model')}, {host.get('os')}",
        f"started   {data.get('started')}, finished {data.get('finished')}",
        f"folder    {run.folder}",
    ]
    for change in config.get("dropped", []):
        text.append(f"dropped   {change['name']} = {change['value']}: {change['reason']}")
    for change in config.get("mapped", []):
        text.append(f"mapped    {change['name']} = {change['value']} → {change['to']} = {change['to_value']}")
    if timings:
        text.append("around    " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in timings.items()))
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
    text += ["", *aligned(columns, [_row(step) for step in run.steps])]
    if error := data.get("error"):
        text += ["", f"failed: {error.get('message')}"]
        if error.get("hint"):
            text.append(f"        {error['hint']}")
        if error.get("log_tail"):
            text += ["", "end of the server log:", *(f"  {line}" for line in error["log_tail"].splitlines())]
    return text


def _row(step: dict[str, Any]) -> list[Any]:
    latency = _dict(_dict(_dict(step, "roles"), str(step.get("role"))), "latency")
    sla = {True: "met", False: "MISSED", None: ""}[step.get("sla_met")]
    return [
        step.get("name"),
        step.get("rate"),
        step.get("rate_unit"),
        step.get("seconds"),
        *(None if latency.get(k) is None else latency[k] * 1e3 for k in ("p50", "p99", "max")),
        step.get("server_cpu_seconds"),
        step.get("driver_cpu_seconds"),
        sla,
    ]


def _dict(value: dict[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}
