"""`pgstrata run`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstrata import numbers
from pgstrata.cli.arguments import (
    Asked,
    BaseOption,
    BuildsOption,
    ConfigsOption,
    DataDirOption,
    DryRunOption,
    FreshOption,
    KeepSettingsOption,
    LoadLimitOption,
    MarginOption,
    NameOption,
    NoReportOption,
    RunsOption,
    ScaleOption,
    ScriptsOption,
    ServersOption,
    SetsOption,
    SettingsOption,
    WaitQuietOption,
    WhatArgument,
    WhySecondsOption,
    WorkloadsOption,
)
from pgstrata.cli.kinds import kinds
from pgstrata.cli.machines import FleetOption, machines
from pgstrata.cli.output import TextOrJson, prints
from pgstrata.cli.quiet import progress_console

if TYPE_CHECKING:
    from pgstrata.campaign.checked import Campaign
    from pgstrata.campaign.plan.model import PlannedRun
    from pgstrata.campaign.plan.runs import Plan
    from pgstrata.cli.records import PlanRecord, RunOutcome
    from pgstrata.measure.campaign import CampaignOutcome
    from pgstrata.page.results import RunSet


MOST_REASONS = 3
"""Queries that are named where none could be compared."""

MOST_WAITING_SECONDS = 7 * 86_400.0
"""Longest time that `--wait-quiet` accepts."""


@prints("pgstrata.cli.records:RunOutcome", "pgstrata.cli.records:PlanRecord")
def run(
    what: WhatArgument = None,
    server: ServersOption = None,
    build: BuildsOption = None,
    config: ConfigsOption = None,
    set_guc: SettingsOption = None,
    keep_setting: KeepSettingsOption = None,
    workload: WorkloadsOption = None,
    script: ScriptsOption = None,
    scale: ScaleOption = None,
    fraction: Annotated[
        str | None,
        typer.Option("--fraction", metavar="SHARE", help="Of the file's rows, warehouses and clients: 4%."),
    ] = None,
    set_: SetsOption = None,
    results: RunsOption = None,
    name: NameOption = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", metavar="N", help="Runs of each variant.")
    ] = None,
    base: BaseOption = None,
    data_dir: DataDirOption = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Seed of all random streams.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="WHAT",
            help="verdict: variants take turns at each step until it is known to be slower, faster or the "
            "same; time: as long as the step says.",
        ),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option("--order", metavar="ORDER", help="sequential, shuffled, or interleaved: taking turns."),
    ] = None,
    slice_: Annotated[
        float | None, typer.Option("--slice", metavar="S", help="Seconds of a turn at steps that only read.")
    ] = None,
    turns: Annotated[
        str | None,
        typer.Option(
            "--turns",
            metavar="KIND",
            help="Of steps that write. frozen: in windows, others stopped meanwhile; rounds: repeated whole.",
        ),
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option("--max-seconds", metavar="S", help="Most seconds of a step with --until verdict."),
    ] = None,
    why_seconds: WhySecondsOption = None,
    margin: MarginOption = None,
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            metavar="TIMES",
            help="Judge response times beside the rate: p50, p90, p95, p99, p99.9, max; with commas between.",
        ),
    ] = None,
    other_load: LoadLimitOption = None,
    profile: Annotated[
        bool,
        typer.Option("--profile", help="Flame graphs: perf in the middle of each step (needs perf, root)."),
    ] = False,
    waits: Annotated[
        float | None,
        typer.Option("--waits", metavar="HERTZ", help="Sample wait events so often per second, say 10."),
    ] = None,
    wait_quiet: WaitQuietOption = None,
    dry_run: DryRunOption = False,
    allow_outside: Annotated[
        bool,
        typer.Option(
            "--allow-outside",
            help="Let workloads reach other servers, files and programs: as a superuser, with a network.",
        ),
    ] = False,
    fresh: FreshOption = False,
    no_report: NoReportOption = False,
    fleet: FleetOption = None,
    form: Annotated[
        TextOrJson,
        typer.Option(
            "--format",
            help="json: one object; with --fleet a line for each event.",
        ),
    ] = TextOrJson.text,
) -> None:
    """Compare servers, or run a campaign file. The same command again does only what is missing.

    Several servers without a file take turns at small data until each step is known to be slower, faster or
    the same. --scale, --order, --repeats or --until time, or a file, asks for another study.

    \b
    Examples:
      pgstrata run pg:16 pg:17
      pgstrata run /opt/master=master /opt/patched=patched --set steps=point-query
      pgstrata run campaigns/insert-cached.toml
      pgstrata run campaigns/insert-cached.toml --dry-run
      pgstrata run pg:16 pg:17 --workload pgbench --margin 0.5%
      pgstrata run --server pg:13 --server pg:17 --workload insert --scale quick
      pgstrata run --server pg:17 --config cached-by-pg --config cached-by-pg+a1 --set rows=5000000
      pgstrata run --server pg:13 --server pg:17 --script mine.sql@3 --script other.sql
      pgstrata run campaigns/insert-cached.toml --dry-run --fleet 10
      pgstrata run campaigns/insert-cached.toml --fleet tcp://scheduler:8786
    """
    from pgstrata.cli.compare import load_share, share
    from pgstrata.errors import UsageError

    quiet_seconds = waiting_seconds(wait_quiet)
    chosen = Asked(
        what,
        server,
        config,
        workload,
        script,
        scale,
        set_,
        fields={
            "name": name,
            "results": str(results) if results else None,
            "repeats": repeats,
            "base": base,
            "data_dir": str(data_dir) if data_dir else None,
            "seed": seed,
            "until": until,
            # a campaign file may say another order, for which there is no such end
            "order": order or ("interleaved" if until == "verdict" else None),
            "slice_seconds": slice_,
            "turns": turns,
            "max_seconds": max_seconds,
            "why_seconds": why_seconds,
            "margin": share("--margin", margin) if margin else None,
            "judge": [name.strip() for name in judge.split(",")] if judge else None,
            "other_load": load_share(other_load) if other_load else None,
            "profile": profile or None,
            "waits": waits,
            "build": build or None,
            "allow_outside": allow_outside or None,
            "keep_settings": keep_setting or None,
        },
        settings=set_guc,
        compares=fleet is None,
        fraction=share("--fraction", fraction) if fraction else None,
    ).read()
    if fleet is not None:
        many = machines()
        if dry_run:
            many.show_forecast(chosen, fleet, fresh, form)
            return
        many.check_fleet(fleet)
        if wait_quiet:
            raise UsageError(
                "--wait-quiet with --fleet: machines of a fleet do not wait for a quiet moment",
                "leave it out",
            )
        raise typer.Exit(many.run_on_fleet(chosen, fleet, fresh, report=not no_report, form=form))
    if dry_run:
        show_plan(chosen, fresh, form)
        return
    raise typer.Exit(carry_out(chosen, fresh, quiet_seconds, report=not no_report, form=form))


def waiting_seconds(text: str | None) -> float:
    """Returns the seconds that `--wait-quiet` names, 0 where it is not there. Raises UsageError."""
    from pgstrata.errors import UsageError

    if text is None:
        return 0.0
    seconds = numbers.parse_duration(text)
    if seconds is None or seconds > MOST_WAITING_SECONDS:
        raise UsageError(f"--wait-quiet {text}: not a time up to 7 days", "write 90s, 10m or 2h")
    return seconds


def carry_out(
    campaign: Campaign, fresh: bool, quiet_seconds: float, *, report: bool, form: TextOrJson
) -> int:
    """Measures a campaign and shows what came of it. Returns the exit code. report: write its page, too."""
    from pgstrata.cli.ending import Interruption, stopped
    from pgstrata.cli.report import show_results, write_quietly
    from pgstrata.measure.campaign import Conditions, execute
    from pgstrata.measure.interrupt import Interrupted
    from pgstrata.store import Results

    results = Path(campaign.spec.results)
    as_json = form is TextOrJson.json
    console = progress_console()
    try:
        outcome = execute(
            campaign,
            Results(results),
            console,
            fresh=fresh,
            conditions=Conditions(quiet_seconds=quiet_seconds),
        )
        beside = [f for kind in kinds() for f in kind.measure_beside(campaign, console, fresh)]
    except Interrupted as interrupted:
        print(stopped(), file=sys.stderr)
        raise Interruption(interrupted.exit_code) from interrupted
    for variant, workload, error in beside:
        print(f"failed: {variant}, {workload}: {error}", file=sys.stderr)
    for planned, error in outcome.failed:
        print(f"failed: {planned.key.variant}, {planned.key.workload}: {error}", file=sys.stderr)
    readable = len(outcome.failed) < len(outcome.plan.runs)
    shown: RunSet | None = None
    if as_json:
        page = write_quietly(outcome.plan, results) if report and readable else None
        shown = _print_end(campaign, outcome, beside, page)
    elif readable:
        shown = show_results(outcome.plan, results, page=report)
    not_compared = "" if shown is None else _not_compared(shown)
    if not_compared:
        print(f"failed: no query could be compared: {not_compared}", file=sys.stderr)
    return 1 if outcome.failed or beside or not_compared else 0


def _not_compared(results: RunSet) -> str:
    """Returns why no query with a verdict of its own could be compared: servers reject all of them, or run
    into their limit. Returns an empty text if one could be, or only other programs were in the way."""
    queries = [
        query for comparison in results.comparisons for step in comparison.steps for query in step.queries
    ]
    if any(query.is_compared or not any(query.ends) for query in queries):
        return ""
    reasons = dict.fromkeys(f"{query.step}: {query.verdict.reason}" for query in queries)
    rest = f"; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
    return "; ".join(list(reasons)[:MOST_REASONS]) + rest


def _print_end(
    campaign: Campaign, outcome: CampaignOutcome, beside: list[tuple[str, str, str]], page: Path | None
) -> RunSet | None:
    """Prints what came of a campaign as one object: its failures, its verdicts as `compare` has them, its
    page. Returns its results."""
    from pgstrata.cli.output import print_json
    from pgstrata.page.results import read_results
    from pgstrata.store import Results

    store, name = Results(Path(campaign.spec.results)), outcome.plan.campaign.name
    done = any(run.campaign == name for run in store.entries())
    results = read_results(store, name, outcome.plan.base) if done else None
    failed = [(p.key.variant, p.key.workload, error) for p, error in outcome.failed]
    outcome_record: RunOutcome = {
        "campaign": name,
        "results": str(store.root.resolve()),
        "failed": [{"variant": v, "workload": w, "error": str(e)} for v, w, e in (*failed, *beside)],
        "comparisons": [c.record() for c in results.comparisons] if results is not None else [],
        "counts": [c for kind in kinds() for c in kind.records(results)] if results is not None else [],
        "report": None if page is None else str(page.resolve()),
    }
    print_json(outcome_record)
    return results


def _plan_record(plan: Plan) -> PlanRecord:
    """Returns a plan in the form JSON can hold: every run in its order, then time and disk of the runs still
    to do."""
    return {
        "campaign": plan.campaign.name,
        "base": plan.base,
        "runs": [
            {
                "variant": run.key.variant,
                "workload": run.key.workload,
                "repeat": run.key.repeat,
                "state": _state(run),
                "seconds": None if run.existing else run.seconds,
                "disk_bytes": None if run.existing else run.disk_bytes,
            }
            for run in plan.runs
        ],
        "to_do": len(plan.missing),
        "seconds": plan.seconds,
        "seconds_are": plan.bound,
        "disk_bytes": plan.disk_bytes,
    }


def show_plan(campaign: Campaign, fresh: bool, form: TextOrJson = TextOrJson.text) -> None:
    from pgstrata.campaign.plan.enough import too_short_lines
    from pgstrata.campaign.plan.runs import make_plan
    from pgstrata.cli.output import print_json
    from pgstrata.server.cluster.storage import cluster_root
    from pgstrata.server.find.lookup import look_up
    from pgstrata.store import Results
    from pgstrata.store.lock import check_results

    results = Results(campaign.spec.results)
    check_results(results.root)
    cluster_root(campaign.spec.data_dir, make=False)
    plan = make_plan(
        campaign,
        results,
        lambda spec, how: look_up(spec, how, folder=campaign.folder),
        fresh=fresh,
    )
    if form is TextOrJson.json:
        print_json(_plan_record(plan))
        for line in too_short_lines(plan):
            print(f"warning: {line}", file=sys.stderr)
        return
    for line in plan_lines(plan):
        print(line)


def _state(run: PlannedRun) -> str:
    if run.existing:
        return "there already"
    state = "to do again" if run.again else "to do"
    return f"{state}, data kept" if run.from_kept else state


def plan_lines(plan: Plan) -> list[str]:
    """Returns the plan as text: every run in its order, then time and disk."""
    from pgstrata.campaign.plan.enough import too_short_lines
    from pgstrata.campaign.plan.kept_lines import kept_lines, step_rows
    from pgstrata.campaign.plan.left_out import left_out_lines
    from pgstrata.campaign.plan.model import measured_again
    from pgstrata.campaign.plan.resume import phases_of
    from pgstrata.campaign.plan.stages import further_line
    from pgstrata.cli.output import aligned
    from pgstrata.workload.core.language import Work

    rows = [
        [
            number,
            run.key.variant,
            run.key.workload,
            run.key.repeat,
            _state(run),
            "" if run.existing else numbers.clock(run.seconds),
            "" if run.existing else numbers.size(run.disk_bytes),
        ]
        for number, run in enumerate(plan.runs, 1)
    ]
    columns = ["", "variant", "workload", "repeat", "state", f"time {plan.bound}", "disk about"]
    total = (
        f"campaign {plan.campaign.name}: {len(plan.missing)} of {numbers.counted(len(plan.runs), 'run')} "
        f"to do, {plan.bound} {numbers.clock(plan.seconds)}, up to {numbers.size(plan.disk_bytes)} of disk; "
        f"compared with {plan.base}"
    )
    again = sum(run.again for run in plan.runs)
    outside = dict.fromkeys(
        f"{run.key.workload}: {note}"
        for run in plan.missing
        for phase in phases_of(run)
        if isinstance(phase, Work)
        for note in phase.notes
    )
    steps = (
        aligned(["variant", "workload", "repeat", "step", "state"], step_rows(plan)) if plan.missing else []
    )
    return [
        *aligned(columns, rows),
        "",
        total,
        *([measured_again(again, "of them")] if again else []),
        *filter(None, [further_line(plan)]),
        *outside,
        *(["", *steps, "", *kept_lines(plan)] if steps else []),
        *left_out_lines(plan.variants),
        *(f"warning: {line}" for line in too_short_lines(plan)),
    ]
