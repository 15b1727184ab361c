"""`pgstrata count`"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pgstrata.cli.arguments import (
    Asked,
    BaseOption,
    BuildsOption,
    ConfigsOption,
    DataDirOption,
    KeepSettingsOption,
    NameOption,
    NoReportOption,
    RunsOption,
    ScaleOption,
    ScriptsOption,
    ServersOption,
    SetsOption,
    SettingsOption,
    WhatArgument,
    WorkloadsOption,
)
from pgstrata.cli.machines import FleetOption
from pgstrata.cli.output import TextOrJson, prints
from pgstrata.cli.quiet import progress_console
from pgstrata.stats.criterion import Criterion

if TYPE_CHECKING:
    from pgstrata.campaign.checked import Campaign
    from pgstrata.count.measure.count import CountOutcome


@prints("pgstrata.count.verdicts:CountRecords")
def count(
    what: WhatArgument = None,
    server: ServersOption = None,
    build: BuildsOption = None,
    config: ConfigsOption = None,
    set_guc: SettingsOption = None,
    keep_setting: KeepSettingsOption = None,
    workload: WorkloadsOption = None,
    script: ScriptsOption = None,
    scale: ScaleOption = None,
    set_: SetsOption = None,
    step: Annotated[
        list[str] | None,
        typer.Option("--step", metavar="GLOB", help="Count only these steps. Repeatable."),
    ] = None,
    engine: Annotated[
        Literal["auto", "valgrind", "perf"] | None,
        typer.Option("--engine", help="Who counts: perf where the hardware does, else valgrind."),
    ] = None,
    margin: Annotated[
        str | None,
        typer.Option("--margin", metavar="SHARE", help="Smallest difference that counts: 0.2% or 0.002."),
    ] = None,
    starts: Annotated[
        int | None, typer.Option("--starts", metavar="N", help="Fewest fresh starts of each variant (2).")
    ] = None,
    most_starts: Annotated[
        int | None, typer.Option("--most-starts", metavar="N", help="Most fresh starts of each variant (8).")
    ] = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Simulate caches and branches too; takes twice as long.")
    ] = False,
    callers: Annotated[
        str | None, typer.Option("--callers", metavar="FUNCTION", help="Who calls it, before and after.")
    ] = None,
    results: RunsOption = None,
    name: NameOption = None,
    base: BaseOption = None,
    data_dir: DataDirOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Count anew what is there already.")] = False,
    no_report: NoReportOption = False,
    fleet: FleetOption = None,
    form: Annotated[TextOrJson, typer.Option("--format", help="How to print.")] = TextOrJson.text,
) -> None:
    """Instructions per operation instead of time: exact on any machine.

    Every variant is started afresh several times; the steps that one client can do are counted by role, and
    functions that account for a difference are named. Nothing is timed. Without a campaign file the scale is
    count, a small one.

    \b
    Examples:
      pgstrata count pg:16 pg:17
      pgstrata count --server pg:16 --server pg:17 --step 'read-only*' --callers ExecInitExpr
      pgstrata count campaign.toml --margin 0.5% --format json
      pgstrata count campaign.toml --fleet tcp://scheduler:8786
    """
    from pgstrata.cli.compare import share

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
            "base": base,
            "data_dir": str(data_dir) if data_dir else None,
            "build": build or None,
            "keep_settings": keep_setting or None,
        },
        small="count",
        usual_workload="sysbench",
        settings=set_guc,
    ).read()
    given = {
        "engine": engine,
        "margin": share("--margin", margin) if margin else None,
        "starts": starts,
        "most_starts": max(most_starts or 8, starts or 2) if most_starts or starts else None,
        "steps": step or None,
        "simulate": simulate or None,
    }
    raise typer.Exit(_execute(with_count(chosen, given), fresh, callers, form, fleet, report=not no_report))


def with_count(campaign: Campaign, given: Mapping[str, object]) -> Campaign:
    """Returns the campaign with the options for counting that were set on the command line. Raises
    UsageError."""
    from pydantic import ValidationError

    from pgstrata.campaign.problems import explain
    from pgstrata.campaign.study import CountSpec

    there = campaign.spec.count.model_dump() if campaign.spec.count else {}
    try:
        wanted = CountSpec.model_validate({**there, **{k: v for k, v in given.items() if v is not None}})
    except ValidationError as error:
        raise explain(error, CountSpec, "command line") from error
    return campaign.model_copy(update={"spec": campaign.spec.model_copy(update={"count": wanted})})


def _execute(
    campaign: Campaign,
    fresh: bool,
    callers: str | None,
    form: TextOrJson,
    fleet: str | None,
    *,
    report: bool,
) -> int:
    from pgstrata.cli.ending import Interruption
    from pgstrata.cli.machines import machines
    from pgstrata.cli.output import aligned, print_json
    from pgstrata.cli.report import write_quietly
    from pgstrata.count.errands import count_on_fleet
    from pgstrata.count.measure.count import count_campaign
    from pgstrata.count.text import sides_of, text
    from pgstrata.count.verdicts import compare_counts
    from pgstrata.measure.interrupt import Interrupted
    from pgstrata.server.connect.secrets import words_without_secrets
    from pgstrata.store import Results

    results = Results(campaign.spec.results)
    try:
        # standard output may be read by a program
        if fleet is None:
            outcome = count_campaign(campaign, results, progress_console(), fresh=fresh)
        else:
            many = machines()
            outcome = count_on_fleet(campaign, results, many, fleet, progress_console(), fresh=fresh)
    except Interrupted as interrupted:
        again = shlex.join(["pgstrata", *words_without_secrets(sys.argv[1:])])
        kept = "starts" if fleet is None else "counts"
        print(
            f"stopped; finished {kept} are kept, the same command goes on with the next: {again}",
            file=sys.stderr,
        )
        raise Interruption(interrupted.exit_code) from interrupted
    _say_failed(outcome)
    assert campaign.spec.count is not None
    margin = campaign.spec.count.margin
    base, others = sides_of(Results(campaign.spec.results), campaign.name, outcome.plan.base)
    comparisons = compare_counts(base, others, criterion=Criterion(margin))
    if form is TextOrJson.json:
        print_json([c.record() for c in comparisons])
    else:
        for line in text(base, others, comparisons, aligned, callers=callers):
            print(line)
    if report:
        page = write_quietly(outcome.plan, results.root)
        print(f"report: {page.resolve()}", file=sys.stderr if form is TextOrJson.json else sys.stdout)
    return 1 if outcome.failed else 0


def _say_failed(outcome: CountOutcome) -> None:
    for variant, workload, error in outcome.failed:
        print(f"failed: {variant}, {workload}: {error}", file=sys.stderr)
