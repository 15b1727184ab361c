"""`pgstrata noise`"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgstrata.cli.arguments import (
    RESULTS,
    ByOption,
    KeepSettingsOption,
    OtherLoadOption,
    ResultsOption,
    SettingsOption,
)
from pgstrata.cli.kinds import kind
from pgstrata.cli.output import TextOrJson, prints
from pgstrata.cli.quiet import progress_console

if TYPE_CHECKING:
    from pgstrata.store import Run

MOST_MINUTES = 30 * 24 * 60


@prints("pgstrata.cli.records:NoiseRecord")
def noise(
    server: Annotated[
        str, typer.Option("--server", metavar="SPEC", help="pg:17, pg:17.11, pg:latest, path:DIR.")
    ] = "pg:latest",
    config: Annotated[
        str, typer.Option("--config", metavar="NAME[+NAME]", help="Stack of config files and settings.")
    ] = "default",
    set_guc: SettingsOption = None,
    keep_setting: KeepSettingsOption = None,
    step: Annotated[
        str, typer.Option("--step", metavar="NAME", help="A step of the workload sysbench that reads.")
    ] = "point-query",
    clients: Annotated[int, typer.Option("--clients", metavar="N", min=1, help="Connections.")] = 1,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="Rows of the table.")] = 100_000,
    minutes: Annotated[
        float, typer.Option("--minutes", metavar="M", help="Measured time, both clusters together.")
    ] = 2.0,
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", metavar="S", help="The same in seconds, instead.")
    ] = None,
    slice_seconds: Annotated[
        float, typer.Option("--slice", "--slice-seconds", metavar="S", help="Seconds of a slice.")
    ] = 2.0,
    runs: Annotated[
        int,
        typer.Option("--runs", metavar="N", help="Number of whole runs besides: how much do runs differ?"),
    ] = 0,
    run_seconds: Annotated[
        float, typer.Option("--run-seconds", metavar="S", help="Measured time of each of them.")
    ] = 10.0,
    by: ByOption = "time",
    other_load: OtherLoadOption = "25%",
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="Folder on the disk to be measured.")
    ] = None,
    results: ResultsOption = RESULTS,
    form: Annotated[TextOrJson, typer.Option("--format", help="How to print.")] = TextOrJson.text,
) -> None:
    """Measure the base against itself, and tell the smallest difference that this machine can show.

    Two clusters of one server take turns; what differs between them is noise. The runs are kept in the
    results folder, in campaigns whose names begin with noise. With --runs it also measures the server again
    and again, each time with a new cluster: verdicts on one run each of the same step take the spread of
    those runs into their intervals. With --by instructions it counts the server against itself instead: by
    how much counts of the step differ from start to start.

    \b
    Examples:
      pgstrata noise --server pg:17
      pgstrata noise --server pg:17 --config cached-by-pg --step read-only=100 --clients 4 --minutes 5
      pgstrata noise --server pg:17 --runs 5
      pgstrata noise --server pg:17 --by instructions
    """
    from pgstrata.campaign.file.reading import check_study
    from pgstrata.campaign.named_servers import single_server
    from pgstrata.campaign.study import Study, Variant, Workload
    from pgstrata.cli.compare import load_share
    from pgstrata.cli.output import print_json
    from pgstrata.errors import PgstrataError, UsageError
    from pgstrata.judge.spread import NOISE, spread_of
    from pgstrata.measure.campaign import execute
    from pgstrata.measure.self_comparison import options_of, rates_in_pairs, study_of_one
    from pgstrata.numbers import agreeing, counted
    from pgstrata.server.config.resolve import stack_of
    from pgstrata.stats.estimate import FEW
    from pgstrata.stats.noise import noise as judge
    from pgstrata.store import Results
    from pgstrata.turns.windows import first_look

    asked = f"--minutes {minutes:g}"
    if max_seconds is not None:
        asked, minutes = f"--max-seconds {max_seconds:g}", max_seconds / 60
    if not 0.005 <= slice_seconds <= 60:
        raise UsageError(f"--slice {slice_seconds:g}: must lie between 0.005 and 60", "2 is usual")
    if not 0 < minutes <= MOST_MINUTES:
        raise UsageError(
            f"{asked}: must lie above 0 and not above {MOST_MINUTES:,} minutes", "2 minutes are usual"
        )
    pairs = round(minutes * 60 / 2 / slice_seconds)
    if not 8 <= pairs <= 100_000:
        least = 8 * 2 * slice_seconds
        enough = f"--max-seconds {math.ceil(least)}" if max_seconds else f"{least / 60:.2g} minutes"
        raise UsageError(
            f"{asked}: {counted(pairs, 'pair')} of slices of {slice_seconds:g} s; at least 8 are needed",
            f"{enough} or more",
        )
    if runs not in (0, *range(2, 1001)):
        raise UsageError(f"--runs {runs}: one run has nothing to differ from", "5 are a good number")
    if not 0.5 <= run_seconds <= 86_400:
        raise UsageError(f"--run-seconds {run_seconds:g}: must lie between 0.5 and 86,400")
    named = single_server(
        server,
        f"--server {server}: noise compares one server with itself",
        "run pgstrata noise for each of them",
    )
    variant = Variant(server=named.spec, config=[*stack_of(config), *(set_guc or ())])
    options = options_of(step, rows, clients)
    keys: dict[str, Any] = {
        "data_dir": data_dir,
        "results": results,
        "other_load": load_share(other_load),
        "keep_settings": keep_setting or [],
    }
    console = progress_console()
    if by != "time":
        kind(by).show_noise(variant, {**options, "load_connections": 1}, step, keys, form)
        return

    def measured(short: Study) -> list[Run]:
        outcome = execute(check_study(short), Results(results), console, fresh=True)
        for planned, error in outcome.failed:
            raise PgstrataError(f"{planned.key.variant} failed: {error}")
        return [run for run in Results(results).runs() if run.folder in set(outcome.folders)]

    no_slices = UsageError(f"--step {step}: not a step that reads and can be cut into slices")

    seconds = pairs * slice_seconds
    name = f"{NOISE}{step}"
    in_turn = study_of_one(name, options, seconds, variant=variant, slice_seconds=slice_seconds, **keys)
    two = rates_in_pairs(measured(in_turn), step)
    if two is None:
        raise no_slices
    if len(two.base) < FEW:
        raise PgstrataError(
            f"of {pairs} pairs {len(two.base)} {agreeing(len(two.base), 'is', 'are')} left: in the others a "
            f"server waited for a CPU that other programs used; at least {FEW} are needed",
            "stop other programs, or --other-load 100%: noise with theirs in it",
        )
    spread = None
    if runs:
        alone = Study(
            name=f"{name} runs",
            repeats=runs,
            variants=[variant.replaced(label="base")],
            workloads=[Workload(name="sysbench", options={**options, "read_seconds": run_seconds})],
            **keys,
        )
        again_and_again = measured(alone)
        spread = spread_of(step, again_and_again, ())
    pair_noise = judge(
        two.base,
        two.other,
        two.blocks,
        starts=two.starts,
        pair_seconds=2 * slice_seconds,
        first_look=first_look(slice_seconds),
    )
    if form is TextOrJson.json:
        from dataclasses import asdict

        from pgstrata.cli.records import NoiseRecord

        record = NoiseRecord(**vars(pair_noise), step=step, run_spread=spread.deviation if spread else None)
        print_json(asdict(record))
        return
    print(f"{step}, {pair_noise.pairs} pairs of {slice_seconds:g} s slices, the same server twice")
    print(f"  noise of a pair: {pair_noise.pair_deviation:.2%}")
    print(f"  the second cluster is {pair_noise.offset:+.2%} faster; proven of it: {pair_noise.floor:.2%}")
    if spread is not None:
        print(
            f"  {spread.runs} runs of {run_seconds:g} s differ by {spread.deviation:.2%} from one to the next"
        )
    print("smallest slowdown that would be found nine times of ten, by measured time:")
    for visible in pair_noise.visible:
        print(
            f"  {visible.minutes:3g} min: {_share(visible.fixed)} with the time fixed beforehand, "
            f'{_share(visible.watched)} with until = "verdict"'
        )


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.1%}"
