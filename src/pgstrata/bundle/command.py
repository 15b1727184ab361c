"""`pgstrata bundle` and `pgstrata verify`"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from pgstrata.cli.arguments import RESULTS, ResultsOption
from pgstrata.cli.output import TextOrJson, prints

ENDING = ".pgstrata"


def bundle(
    campaign: Annotated[
        str | None,
        typer.Argument(metavar="[CAMPAIGN]", help="Which one, where the folder holds several."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help=f"The bundle (default: CAMPAIGN{ENDING})."),
    ] = None,
    most: Annotated[str, typer.Option("--most", metavar="SIZE", help="Largest bundle that is made.")] = "5MB",
    results: ResultsOption = RESULTS,
) -> None:
    """Put the runs of a campaign into one file: what was measured, environment, verdicts.

    Logs of servers are left out. SQL of scripts and queries, settings, and the name of the machine are in it:
    look at it before you share it.

    \b
    Examples:
      pgstrata bundle
      pgstrata bundle nightly-2026-11-26 -o result.pgstrata
    """
    from pgstrata.bundle.packing import pack
    from pgstrata.cli.output import left_out
    from pgstrata.errors import UsageError
    from pgstrata.numbers import counted, size
    from pgstrata.page.results import read_results
    from pgstrata.store import Results, slug

    match = re.fullmatch(r"(\d{1,6})\s*([kMG])B", most)
    if match is None or not int(match[1]):
        raise UsageError(f"--most {most}: not a size", "write 5MB or 1GB")
    most_bytes = int(match[1]) * {"k": 1000, "M": 1_000_000, "G": 1_000_000_000}[match[2]]
    if not results.is_dir():
        raise UsageError(f"there is no results folder {results}", "pgstrata run makes one")
    store = Results(results)
    run_set = read_results(store, campaign)
    left_out(store.broken)
    file = out or Path(f"{slug(run_set.campaign)}{ENDING}")
    manifest = pack(run_set, results, file, most_bytes)
    print(
        f"{file}: {size(file.stat().st_size)}, {counted(len(manifest.runs), 'run')} of {run_set.campaign}; "
        "pgstrata verify judges them anew"
    )


@prints("pgstrata.bundle.packing:VerifiedRecord")
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A bundle.")],
    report: Annotated[
        Path | None, typer.Option("--report", metavar="DIR", help="Write its page, too.")
    ] = None,
    form: Annotated[TextOrJson, typer.Option("--format", help="How to print.")] = TextOrJson.text,
) -> None:
    """Compute every verdict of a bundle anew from what was measured.

    Nothing in a bundle is executed, and nothing but its page is written.

    Exit codes: 0 all verdicts come out the same; 1 some do not, or it is damaged; 2 it is no bundle.

    \b
    Examples:
      pgstrata verify result.pgstrata
      pgstrata verify result.pgstrata --report page
    """
    from pgstrata.bundle import packing
    from pgstrata.cli.output import print_json
    from pgstrata.numbers import counted
    from pgstrata.report.write import write_report_of

    with packing.unpacked(file) as bundle:
        done = packing.verify(bundle)
        manifest = bundle.manifest
        page = write_report_of(bundle.results, report).html if report else None
        if form is TextOrJson.json:
            record: packing.VerifiedRecord = {
                "campaign": manifest.campaign,
                "made_by": manifest.program,
                "verdicts": done.verdicts,
                "differences": list(done.differences),
                "comparisons": manifest.comparisons,
                "counts": manifest.counts,
                "report": None if page is None else str(page.resolve()),
            }
            print_json(record)
        else:
            for difference in done.differences:
                print(f"differs: {difference}")
            word = "differ" if done.differences else "come out the same"
            number = len(done.differences) or done.verdicts
            print(
                f"{manifest.campaign}, {counted(len(manifest.runs), 'run')}, made by pgstrata "
                f"{manifest.program}: {number} of {counted(done.verdicts, 'verdict')} {word}"
            )
            if page:
                print(f"report: {page.resolve()}")
    raise typer.Exit(1 if done.differences else 0)


__all__ = ["bundle", "verify"]
