"""`pgstrata patch`"""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

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
from pgstrata.cli.output import prints
from pgstrata.cli.quiet import progress_console
from pgstrata.search.commands.bisect import work_of


class MailFormat(StrEnum):
    """How the tables are printed."""

    text = "text"
    markdown = "markdown"
    json = "json"


@prints("pgstrata.search.patch.page:SeriesRecord", "pgstrata.search.patch.page:SeriesPlanRecord")
def patch(
    patches: Annotated[
        list[str],
        typer.Argument(metavar="PATCH…|BRANCH", help="Files with patches in their order, or one branch."),
    ],
    repo: Annotated[Path, typer.Option("--repo", metavar="DIR", help="A git repository of PostgreSQL.")],
    base: Annotated[str, typer.Option("--base", metavar="REF", help="The commit they are made on.")],
    step: Annotated[
        list[str] | None,
        typer.Option("--step", metavar="NAME", help="Only this step (default: all). Repeatable."),
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Every commit of the branch against the one before.")
    ] = False,
    workload: WorkloadOption = "sysbench",
    scale: SmallScaleOption = None,
    set_: SetsOption = None,
    config: ConfigOption = "default",
    keep_setting: KeepSettingsOption = None,
    build: BuildOption = None,
    by: Annotated[
        Literal["rate", "instructions", "both"],
        typer.Option("--by", help="rate: timed; instructions: counted, exact on any machine; or both."),
    ] = "rate",
    margin: Annotated[
        str | None,
        typer.Option(
            "--margin",
            metavar="SHARE",
            help="Smallest difference that counts (default: 2%, of instructions 0.2%).",
        ),
    ] = None,
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", metavar="S", help="Measured of a step, both servers together.")
    ] = 240.0,
    other_load: OtherLoadOption = "25%",
    seed: SeedOption = 1,
    data_dir: DataDirOption = None,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="DIR", help="Folder of the runs and pages (default: patch/…)."),
    ] = None,
    no_profile: Annotated[bool, typer.Option("--no-profile", help="No flame graphs.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what is built and compared; do nothing.")
    ] = False,
    format: Annotated[MailFormat, typer.Option("--format", help="How to print.")] = MailFormat.text,
) -> None:
    """Measure how a patch changes the speed: base and patched server take turns until it is known.

    Of several patches each is measured against the one before it, and the last against the base. The table is
    made to be pasted into a mail; the page of each comparison has profiles and everything else.

    A patch that changes nothing that is built or executed (documentation, tests) is named and not measured.

    Exit codes: 0 every step is known not to be slower, nor to need more instructions; 1 one is, or something
    failed; 3 one is unclear, or a series contradicts itself; 2 the question was not valid.

    \b
    Examples:
      pgstrata patch faster.patch --repo ~/postgresql --base master --step point-query
      pgstrata patch v3-0001-a.patch v3-0002-b.patch --repo . --base origin/master --format markdown
      pgstrata patch my-branch --repo . --base master --each --workload pgbench --set clients=4
    """
    from pgstrata.cli.compare import load_share, share
    from pgstrata.cli.ending import Interruption
    from pgstrata.cli.output import print_json
    from pgstrata.count.verdicts import MARGIN
    from pgstrata.errors import UsageError
    from pgstrata.measure.interrupt import Interrupted
    from pgstrata.measure.progress import plain_lines
    from pgstrata.search.bisect.hunt import recipe_of
    from pgstrata.search.commands.bisect import variants_with
    from pgstrata.search.patch import page as mail
    from pgstrata.search.patch.compare import compare_series, comparisons_of, pairs_of
    from pgstrata.search.patch.series import series_of
    from pgstrata.server.connect.secrets import words_without_secrets
    from pgstrata.store import slug
    from pgstrata.store.lock import check_results

    if not 0.1 <= max_seconds <= 30 * 86_400:
        raise UsageError(f"--max-seconds {max_seconds:g} is not between 0.1 and 2592000", "240 is usual")
    work = work_of(
        step or [],
        workload,
        scale,
        set_,
        20.0,
        seed,
        data_dir,
        small="quick" if by == "rate" else "count",
        margin=share("--margin", margin or "2%"),
        verdict_seconds=max_seconds,
        keep=keep_setting,
        other_load=load_share(other_load),
    )
    series = series_of(repo, base, patches, variants_with(config, build), each=each)
    folder = results or Path("patch") / slug(f"{base}-{series.members[-1].name}-{workload}")
    series = series.built(recipe_of(series.members[0].variant, workload))
    if dry_run:
        check_results(folder)
        comparisons_of(series, work, folder, by=by)
        if format is MailFormat.json:
            print_json(mail.plan_json(series, folder))
            return
        for member in series.members:
            print(f"build {member.name}: {member.what}")
        for parent, other in pairs_of(series):
            print(f"compare {other.name} against {parent.name}")
        print(*series.not_built, sep="\n", end="\n" if series.not_built else "")
        return
    console = progress_console()
    for note in (*series.notes, *series.not_built):
        plain_lines(console)(f"note: {note}")
    try:
        counted_margin = work.margin if margin and by == "instructions" else MARGIN
        outcome = compare_series(
            series,
            work,
            folder,
            console,
            profile=not no_profile,
            by=by,
            counted_margin=counted_margin,
        )
    except Interrupted as interrupted:
        again = shlex.join(["pgstrata", *words_without_secrets(sys.argv[1:])])
        print(f"stopped; finished comparisons are kept, the same command goes on: {again}", file=sys.stderr)
        raise Interruption(interrupted.exit_code) from interrupted
    pages = mail.write_pages(outcome)
    if format is MailFormat.json:
        print_json(mail.series_json(outcome))
    else:
        print(mail.text(outcome, markdown=format is MailFormat.markdown), end="")
    for page in pages:
        print(f"page: {page.resolve()}", file=sys.stderr)
    words = {ratio.word for compared in outcome.compared for ratio in compared.ratios("rate").values()}
    words |= {
        ratio.word for compared in outcome.compared for ratio in compared.ratios("instructions").values()
    }
    words |= {
        s.verdict.word
        for compared in outcome.compared
        if compared.comparison
        for s in compared.comparison.steps
    }
    unclear = "unclear" in words or bool(outcome.compared and not words) or bool(outcome.contradictions)
    raise typer.Exit(1 if words & {"slower", "more"} else 3 if unclear else 0)


__all__ = ["patch"]
