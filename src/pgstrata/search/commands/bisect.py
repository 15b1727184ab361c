"""`pgstrata bisect`"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pgstrata.campaign.file.toml import parse_value
from pgstrata.cli.arguments import (
    BuildOption,
    ConfigOption,
    DataDirOption,
    KeepSettingsOption,
    OtherLoadOption,
    SeedOption,
    SetsOption,
    SmallScaleOption,
    WorkloadOption,
)
from pgstrata.cli.machines import FleetOption
from pgstrata.cli.output import TextOrJson, prints
from pgstrata.cli.quiet import progress_console

if TYPE_CHECKING:
    from pgstrata.measure.two_servers import MeasuredWork
    from pgstrata.search.bisect.hunt import SearchResult, SearchSettings
    from pgstrata.search.bisect.line import Range, VariantOf


@prints(
    "pgstrata.search.bisect.text:SearchRecord",
    "pgstrata.search.bisect.text:SearchRecords",
    "pgstrata.search.bisect.plan:PlanRecord",
    "pgstrata.search.bisect.plan:PlanRecords",
)
def bisect(
    step: Annotated[
        list[str],
        typer.Option(
            "--step", metavar="NAME", help="The step that got slower. Repeatable: a search for each."
        ),
    ],
    repo: Annotated[
        Path | None, typer.Option("--repo", metavar="DIR", help="A git repository of PostgreSQL.")
    ] = None,
    good: Annotated[
        str | None, typer.Option("--good", metavar="REF", help="Commit before the change.")
    ] = None,
    bad: Annotated[str | None, typer.Option("--bad", metavar="REF", help="Commit after it.")] = None,
    releases: Annotated[
        str | None,
        typer.Option(
            "--releases", metavar="SPEC,…", help="Instead: servers in their order: pg:13,pg:14,pg:15."
        ),
    ] = None,
    configs: Annotated[
        str | None,
        typer.Option(
            "--configs", metavar="NAME,…", help="Instead: configs of --server: base,base+a1,base+a2."
        ),
    ] = None,
    server: Annotated[
        str | None, typer.Option("--server", metavar="SPEC", help="The server of --configs, say pg:17.")
    ] = None,
    workload: WorkloadOption = "sysbench",
    scale: SmallScaleOption = None,
    set_: SetsOption = None,
    config: ConfigOption = "default",
    keep_setting: KeepSettingsOption = None,
    build: BuildOption = None,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", help="Measured of each server in each comparison.")
    ] = 20.0,
    by: Annotated[
        Literal["rate", "instructions", "both"],
        typer.Option("--by", help="rate: timed; instructions: counted, exact; both: what shows the change."),
    ] = "rate",
    smallest: Annotated[
        str | None,
        typer.Option(
            "--smallest",
            "--margin",
            metavar="SHARE",
            help="Smaller differences are not looked for (default: 1%, of instructions 0.2%).",
        ),
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(
            "--max-seconds", metavar="S", help="Begin nothing new after so long (default: no limit)."
        ),
    ] = None,
    other_load: OtherLoadOption = "25%",
    seed: SeedOption = 1,
    data_dir: DataDirOption = None,
    results: Annotated[
        Path | None,
        typer.Option(
            "--results",
            metavar="DIR",
            help="Folder of this search (default: bisect/…, by its ends).",
        ),
    ] = None,
    no_profile: Annotated[
        bool, typer.Option("--no-profile", help="No flame graphs of what was found.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the line, what comes next and how long it takes.")
    ] = False,
    fleet: FleetOption = None,
    runner: Annotated[
        bool,
        typer.Option("--runner", help="For `git bisect run`: is HEAD slower than --good? Exit 0, 1 or 125."),
    ] = False,
    format: Annotated[TextOrJson, typer.Option("--format", help="How to print.")] = TextOrJson.text,
) -> None:
    """Find the commit, release or config that made a step slower, or faster.

    Every build is measured against the good end in turns; what it tells is weighed, not taken for sure. The
    same command goes on after a stop.

    Exit codes: 0 found; 3 no difference between the ends is proven, or it is not down to one yet; 1 something
    failed; 2 the question was not valid. With --runner: 0 not slower, 1 slower, 125 unclear or does not
    build, 128 and more: git bisect has to stop.

    \b
    Examples:
      pgstrata bisect --repo ~/postgresql --good REL_16_0 --bad REL_17_0 --step point-query
      pgstrata bisect --repo . --good HEAD~200 --bad HEAD --step read-only-count --set rows=1000000
      pgstrata bisect --repo . --good v1 --bad v2 --step point-query --step scan --dry-run
      pgstrata bisect --releases pg:13,pg:14,pg:15,pg:16,pg:17 --step point-query
      pgstrata bisect --releases pg:13,pg:15,pg:17 --step range-covered-pk --by instructions
      pgstrata bisect --repo . --good v1 --bad v2 --step mine --by instructions --fleet tcp://scheduler:8786
      pgstrata bisect --server pg:17 --configs default,default+a1,default+a17 --step point-query
      git bisect run pgstrata bisect --runner --repo . --good v1 --step point-query
    """
    from dataclasses import replace

    from pgstrata.cli.compare import load_share, share
    from pgstrata.errors import UsageError
    from pgstrata.store import slug

    steps = list(dict.fromkeys(step))
    if runner and len(steps) > 1:
        raise UsageError(f"--runner judges one step, not {len(steps)}", "run git bisect for each of them")
    if max_seconds is not None and max_seconds <= 0:
        raise UsageError(f"--max-seconds {max_seconds:g} is not above 0", "leave it out for no limit")
    if fleet is not None:
        _check_fleet(fleet, by)
    if runner:
        _check_runner(
            by,
            {
                "--bad": bad,
                "--releases": releases,
                "--configs": configs,
                "--dry-run": dry_run,
                "--fleet": fleet,
            },
        )
    small = "quick" if by == "rate" else "count"
    work = work_of(
        steps,
        workload,
        scale,
        set_,
        seconds,
        seed,
        data_dir,
        small=small,
        keep=keep_setting,
        other_load=load_share(other_load),
    )
    variant_of = variants_with(config, build)
    if runner:
        raise typer.Exit(_run_runner(work, variant_of, repo, good, max_seconds, results))
    line = _line(repo, good, bad, releases, configs, server, variant_of)
    from pgstrata.search.bisect.hunt import SearchSettings, check
    from pgstrata.store.lock import check_results

    least = share("--smallest", smallest or ("0.2%" if by == "instructions" else "1%"))
    searches = []
    for name in steps:
        alone = replace(work, steps=(name,))
        below = results / slug(name) if results and len(steps) > 1 else results
        folder = below or _folder(line, alone)
        searches.append(SearchSettings(line, alone, folder, least, max_seconds, not no_profile, by))
        check(searches[-1])
        if dry_run:
            check_results(folder)
    if dry_run:
        _show_plans(searches, format)
        return
    raise typer.Exit(_execute_all(searches, format, fleet))


def work_of(
    steps: Sequence[str],
    workload: str,
    scale: str | None,
    sets: list[str] | None,
    seconds: float,
    seed: int,
    data_dir: Path | None,
    *,
    small: str = "quick",
    keep: Sequence[str] | None = None,
    **more: float,
) -> MeasuredWork:
    """Returns the work that options of the command line ask for, by default at the scale `small` if the
    workload has it. Raises UsageError."""
    from pgstrata.errors import UsageError
    from pgstrata.measure.two_servers import MeasuredWork
    from pgstrata.suggest import meant
    from pgstrata.workload import catalog

    if not catalog.is_known(workload):
        raise UsageError(f"there is no workload {workload!r}", meant(workload, catalog.names(), "workloads"))
    if scale is None and small in catalog.find(workload).scales:
        scale = small
    if not 0.1 <= seconds <= 86_400:
        raise UsageError(f"--seconds {seconds:g} is not between 0.1 and 86400", "20 is usual")
    return MeasuredWork(
        tuple(steps),
        workload,
        scale,
        _apart(sets or (), steps) if workload == "custom" else tuple(sets or ()),
        seconds=seconds,
        seed=seed,
        data_dir=str(data_dir) if data_dir else None,
        keep_settings=tuple(keep or ()),
        **more,
    )


def _apart(sets: Sequence[str], steps: Sequence[str]) -> tuple[str, ...]:
    """Makes a step of each of several scripts, unless they have weights or are asked for together."""
    from pgstrata.workload.core.scripts import stems

    split_sets = []
    for set_ in sets:
        key, _, value = set_.partition("=")
        value_of_key = parse_value(value, f"--set {key}") if key.strip() == "scripts" else []
        scripts = value_of_key if isinstance(value_of_key, list) else []
        names = [script for script in scripts if isinstance(script, str) and "@" not in script]
        if 1 < len(names) == len(scripts) and stems(names) not in steps:
            set_ = f"steps=[{', '.join(f'{{scripts=[{json.dumps(name)}]}}' for name in names)}]"
        split_sets.append(set_)
    return tuple(split_sets)


def variants_with(config: str, build: str | None) -> VariantOf:
    """Returns what makes variants of servers: they share the config and the build."""
    from pgstrata.campaign.study import Variant
    from pgstrata.server.config.resolve import stack_of

    keys: dict[str, Any] = {"config": stack_of(config)} | ({"build": build} if build else {})
    return lambda server: Variant(server=server, **keys)


def _check_fleet(fleet: str, by: str) -> None:
    """Raises UsageError for what is no fleet, or is not spread over one."""
    from pgstrata.cli.machines import machines
    from pgstrata.errors import UsageError

    if by != "instructions":
        raise UsageError("--fleet spreads counts, and this search goes by the rate", "add --by instructions")
    machines().check_fleet(fleet)


def _check_runner(by: str, others: Mapping[str, object]) -> None:
    """Raises UsageError for options that do not go with --runner."""
    from pgstrata.errors import UsageError

    if by != "rate":
        raise UsageError("--runner judges rates", "leave --by out")
    if others_given := [name for name, value in others.items() if value]:
        raise UsageError(
            f"--runner judges the commit that is checked out: {others_given[0]} does not go with it",
            f"leave {others_given[0]} out",
        )


def _line(
    repo: Path | None,
    good: str | None,
    bad: str | None,
    releases: str | None,
    configs: str | None,
    server: str | None,
    variant_of: VariantOf,
) -> Range:
    from pgstrata.campaign.named_servers import single_server
    from pgstrata.errors import UsageError
    from pgstrata.search.bisect import line

    asked = [
        name for name, value in (("--repo", repo), ("--releases", releases), ("--configs", configs)) if value
    ]
    if len(asked) != 1:
        raise UsageError(
            f"{' and '.join(asked)} are {len(asked)} searches" if asked else "nothing to search along",
            "name one of --repo DIR --good REF --bad REF, --releases A,B,C, --server SPEC --configs A,B,C",
        )
    if (repo is None and (good or bad)) or (configs is None and server):
        raise UsageError(
            "--good and --bad go with --repo, --server goes with --configs", "leave out what does not belong"
        )
    if releases is not None:
        return line.releases(line.split_series(releases), variant_of)
    if configs is not None:
        if server is None:
            raise UsageError("--configs needs a server", "say --server pg:17")
        named = single_server(server, f"--server {server}: --configs are of one server", "name one")
        return line.configs(line.split_series(configs), variant_of(named.spec))
    assert repo is not None
    if not good or not bad:
        raise UsageError("--repo needs both ends", "say --good REF --bad REF")
    return line.commits(repo, good, bad, variant_of)


def _folder(line: Range, work: MeasuredWork) -> Path:
    from pgstrata.store import slug

    return Path("bisect") / slug(f"{line.stops[0].name}-{line.stops[-1].name}-{work.step}")


def _execute_all(searches: Sequence[SearchSettings], form: TextOrJson, fleet: str | None) -> int:
    """Makes searches one after the other, also after one that failed. Returns the exit code of the worst."""
    import time
    from dataclasses import replace

    from pgstrata.cli.ending import report_error
    from pgstrata.cli.output import print_json
    from pgstrata.errors import PgstrataError
    from pgstrata.search.bisect.text import search_json

    begun = time.monotonic()
    codes, records = [], []
    for search in searches:
        if search.most_seconds is not None:  # of all of them together
            left = max(0.0, search.most_seconds - (time.monotonic() - begun))
            search = replace(search, most_seconds=left)
        try:
            search_result = _execute(search, form, fleet)
        except PgstrataError as error:
            if len(searches) == 1:
                raise
            codes.append(report_error(error))
            continue
        codes.append(0 if search_result.conclusion.state == "found" else 3)
        records.append(search_json(search_result))
    if form is TextOrJson.json:
        print_json(records[0] if len(searches) == 1 else records)
    return min(codes, key=(1, 2, 3, 0).index)


def _execute(search: SearchSettings, form: TextOrJson, fleet: str | None) -> SearchResult:
    """Makes a search and shows what came of it, unless that is wanted as JSON."""
    from pgstrata.cli.ending import Interruption
    from pgstrata.cli.machines import machines
    from pgstrata.errors import ServerError
    from pgstrata.measure.interrupt import Interrupted, Interrupts
    from pgstrata.measure.progress import plain_lines
    from pgstrata.search.bisect.errands import SearchErrands
    from pgstrata.search.bisect.hunt import hunt
    from pgstrata.search.bisect.page import PAGE, write_search
    from pgstrata.search.bisect.state import State
    from pgstrata.search.bisect.text import sentences
    from pgstrata.server.connect.secrets import words_without_secrets

    console = progress_console()

    def spread(state: State, until: float, interrupts: Interrupts) -> None:
        assert fleet is not None
        errands = SearchErrands(search, state, until, write_search, plain_lines(console))
        machines().do_errands(errands, fleet, console, interrupts)
        if errands.failure:
            raise ServerError(errands.failure, "the same command goes on")

    try:
        search_result = hunt(search, console, write_search, spread if fleet else None)
    except Interrupted as interrupted:
        again = shlex.join(["pgstrata", *words_without_secrets(sys.argv[1:])])
        print(
            f"stopped; what is measured is kept, the same command goes on: {again}",
            file=sys.stderr,
        )
        if (search.folder / PAGE).exists():
            print(f"page: {(search.folder / PAGE).resolve()}", file=sys.stderr)
        raise Interruption(interrupted.exit_code) from interrupted
    page = write_search(search_result)
    if form is TextOrJson.text:
        print()
        for text in sentences(search_result):
            print(text)
    print(f"page: {page.resolve()}", file=sys.stderr if form is TextOrJson.json else sys.stdout)
    return search_result


def _show_plans(searches: Sequence[SearchSettings], form: TextOrJson) -> None:
    from pgstrata.cli.output import print_json
    from pgstrata.search.bisect import plan

    if form is TextOrJson.json:
        records = [plan.plan_json(search) for search in searches]
        print_json(records[0] if len(records) == 1 else records)
        return
    for search in searches:
        if len(searches) > 1:
            print(f"{search.work.step}:")
        print(*plan.lines(search), sep="\n")


def _run_runner(
    work: MeasuredWork,
    variant_of: VariantOf,
    repo: Path | None,
    good: str | None,
    max_seconds: float | None,
    results: Path | None,
) -> int:
    from dataclasses import replace

    from pgstrata.cli.ending import Interruption
    from pgstrata.errors import UsageError
    from pgstrata.measure.interrupt import Interrupted
    from pgstrata.search.bisect.runner import judge_head

    if repo is None or not good:
        raise UsageError("--runner needs --repo DIR and --good REF", "its HEAD is what is judged")
    work = replace(work, verdict_seconds=max_seconds or 240.0)
    console = progress_console()
    try:
        word, text = judge_head(work, repo, good, variant_of, results or Path("bisect"), console)
    except Interrupted as interrupted:
        raise Interruption(interrupted.exit_code) from interrupted
    print(f"{word}: {text}")
    return {"slower": 1, "faster": 0, "same": 0}.get(word, 125)


__all__ = ["bisect", "variants_with", "work_of"]
