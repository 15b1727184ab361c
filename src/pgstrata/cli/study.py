"""`pgstrata study`: what overlays do, and the campaign to run next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgstrata.cli.arguments import RESULTS, ByOption, ResultsOption
from pgstrata.cli.kinds import kind
from pgstrata.cli.output import Format, prints

if TYPE_CHECKING:
    from pgstrata.judge.overlays import TuningStudy
    from pgstrata.store import Run

app = typer.Typer(no_args_is_help=True, help="Studies of configurations: one base, overlays upon it.")

CampaignOption = Annotated[
    str | None, typer.Option("--campaign", metavar="NAME", help="Which one (default: the newest).")
]
StepOption = Annotated[
    str | None, typer.Option("--step", metavar="NAME", help="What is judged (default: l.i1).")
]


@app.command("show")
@prints("pgstrata.cli.output:Rows")
def show(
    results: ResultsOption = RESULTS,
    campaign: CampaignOption = None,
    step: StepOption = None,
    by: ByOption = "time",
    format: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.table,
) -> None:
    """Class and set-up of every overlay, duplicates, unsafe ones, and what to try next.

    With --by instructions: what each overlay does to the instructions of every counted step.
    """
    if by != "time":
        kind(by).show_study(results, campaign, step, format)
        return
    from pgstrata.cli.output import print_rows
    from pgstrata.page.blocks import Prose
    from pgstrata.report.sections.tuning import remarks, table

    study, _ = _find(results, campaign, step)
    shown = table(study)
    rows = [[cell.text for cell in row.cells] for row in shown.rows]
    print_rows([column.title for column in shown.columns], rows, format)
    if format is not Format.table:
        return
    for remark in remarks(study):
        if isinstance(remark, Prose):
            print(remark.text)


@app.command("next")
def next_(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to (default: standard output).")
    ] = None,
    results: ResultsOption = RESULTS,
    campaign: CampaignOption = None,
    step: StepOption = None,
) -> None:
    """Write the campaign that tries the winners together.

    \b
    Example:
      pgstrata study next --out tuning-2.toml && pgstrata run tuning-2.toml
    """
    from pgstrata.errors import UsageError

    study, runs = _find(results, campaign, step)
    if not study.table.next.overlays:
        raise UsageError("no overlay has a benefit that is safe and proven: there is nothing to try next")
    text = _campaign(study, runs)
    if out is None:
        print(text, end="")
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{out} exists already", "choose another --out") from None
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}", "choose another --out") from error


def _find(results: Path, campaign: str | None, step: str | None) -> tuple[TuningStudy, list[Run]]:
    from pgstrata.cli.output import left_out
    from pgstrata.errors import UsageError
    from pgstrata.judge.overlays import tuning_study
    from pgstrata.store import Results
    from pgstrata.store.choose import campaign_runs

    store = Results(results)
    runs = campaign_runs(store, campaign)
    left_out(store.broken)
    study = tuning_study(runs, step)
    if study is None:
        raise UsageError(
            f"campaign {runs[0].campaign} is no study of overlays with a step {step or 'to judge'}",
            "it needs a config of one file and two or more overlays, as campaigns/tuning-study.toml has",
        )
    return study, runs


def _campaign(study: TuningStudy, runs: list[Run]) -> str:
    """Returns the campaign as TOML."""
    from pgstrata.workload import catalog
    from pgstrata.workload.core.options import is_filled_in

    winners = study.table.next.overlays
    lines = [
        f"# The winners of {runs[0].campaign} together, and each alone: {', '.join(winners)}.",
        "",
        f"name = {_toml(runs[0].campaign + '-next')}",
        *_how(runs),
        f"servers = {_toml(list(study.servers))}",
        "configs = [",
        *(f"    {_toml(list(stack))}," for stack in study.next_stacks()),
        "]",
    ]
    # What the study was measured with, so that the next campaign can be compared with it.
    first = {run.workload: run for run in reversed(runs)}
    for workload in study.steps:
        options: dict[str, Any] = first[workload].record.options
        name = first[workload].record.workload_name
        model = catalog.find(name).Options if name in catalog.own_names() else None
        lines += ["", "[[workloads]]", f"name = {_toml(name)}", f"label = {_toml(workload)}"]
        lines += ["[workloads.options]"]
        lines += [
            f"{key} = {_toml(value)}"
            for key, value in options.items()
            if value is not None and not (model is not None and is_filled_in(model, key))
        ]
    return "\n".join(lines) + "\n"


def _how(runs: list[Run]) -> list[str]:
    """Returns the lines for order and repeats of the study, on which its intervals depend."""
    lines = [
        f"repeats = {max(run.repeat for run in runs)}",
        f"order = {_toml(runs[0].record.order)}",
    ]
    if (comparison := runs[0].record.comparison) is not None:
        keys = ["rounds", "slice_seconds", "turns", "until", "margin"]
        if comparison.window_seconds:
            keys.append("window_seconds")
        lines += [f"{key} = {_toml(getattr(comparison, key))}" for key in keys]
        if comparison.max_seconds:
            lines.append(f"max_seconds = {_toml(comparison.max_seconds)}")
    return lines


def _toml(value: Any) -> str:
    """Returns a value as TOML: JSON's texts and numbers are TOML's, too, its tables are not."""
    match value:
        case dict():
            items = (f"{_toml(key)} = {_toml(item)}" for key, item in value.items() if item is not None)
            return f"{{{', '.join(items)}}}"
        case list() | tuple():
            return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
