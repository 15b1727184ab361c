"""`pgstrata report`"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pgstrata.campaign.plan.runs import Plan
    from pgstrata.errors import UsageError
    from pgstrata.judge.published import Published
    from pgstrata.page.results import RunSet
    from pgstrata.store import Results


OTHER_FILES = frozenset({".csv", ".htm", ".json", ".pdf", ".png", ".tsv", ".txt", ".xlsx", ".xml", ".zip"})
"""How names end that a person gives to a file, not to a folder."""


def report(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="Folder with the runs, or a bundle.")
    ] = Path("results"),
    results_option: Annotated[
        Path | None, typer.Option("--results", metavar="DIR", help="The same as the argument.")
    ] = None,
    campaign: Annotated[
        str | None, typer.Option("--campaign", metavar="NAME", help="Only this one (default: all).")
    ] = None,
    base: Annotated[
        str | None, typer.Option("--base", metavar="LABEL", help="Variant to compare with.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Where to (default: RESULTS/<campaign>.report); NAME.html, NAME.md: one file alone.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            metavar="SHARE",
            help="Colour as the field's reports do: relative rates further than this from 1, proven or not; "
            "0.05 is usual.",
        ),
    ] = None,
    published: Annotated[
        Path | None,
        typer.Option("--published", metavar="FILE", help="Published ratios (CSV) to show beside one's own."),
    ] = None,
) -> None:
    """Write the reports of the campaigns: HTML, Markdown, CSV, and the summary on the terminal.

    \b
    Examples:
      pgstrata report
      pgstrata report result.pgstrata
      pgstrata report results --campaign insert-cached --base pg12.22.cached-by-pg
      pgstrata report results --threshold 0.03 --out /tmp/report
    """
    from pgstrata.errors import UsageError
    from pgstrata.registry import capabilities, load

    if threshold is not None and not 0 < threshold < 1:
        raise UsageError(
            f"--threshold {threshold}: must lie between 0 and 1", "0.05 greys everything from 0.95 to 1.05"
        )
    if out is not None and out.suffix in OTHER_FILES and not out.is_dir():
        raise UsageError(
            f"--out {out}: a report is not written as {out.suffix}",
            "name a folder for page, Markdown and CSV, or one file: NAME.html or NAME.md",
        )
    given = results_option or results
    unpackers = {ending: place for offer in capabilities() for ending, place in offer.unpackers.items()}
    with ExitStack() as stack:
        folder = given
        if given.suffix in unpackers and not given.is_dir():
            folder = stack.enter_context(load(unpackers[given.suffix])(given))
            out = out or given.with_suffix(".report")
        elif not given.is_dir():
            raise no_results(given)
        _write_all(folder, campaign, base, out, threshold, published)


def _write_all(
    folder: Path,
    campaign: str | None,
    base: str | None,
    out: Path | None,
    threshold: float | None,
    published: Path | None,
) -> None:
    """Writes the reports of one campaign, or of all with an index."""
    from pgstrata.cli.output import left_out
    from pgstrata.errors import UsageError
    from pgstrata.judge.published import read_published
    from pgstrata.page.results import campaigns
    from pgstrata.report.index import answer_of, write_index
    from pgstrata.store import Results
    from pgstrata.store.choose import damaged_hint

    store = Results(folder)
    there = campaigns(store.entries())
    left_out(store.broken)
    names = [campaign] if campaign else there
    if not names:
        raise UsageError(f"{folder} has no runs", damaged_hint(store) or "pgstrata run makes some")
    if len(names) > 1 and (base or out):
        raise UsageError(
            f"{folder} has several campaigns: {', '.join(names)}",
            "--base and --out are for one: choose it with --campaign",
        )
    ratios = read_published(published) if published else []
    if ratios and (studies := {ratio.study for ratio in ratios}).isdisjoint(names):
        raise UsageError(
            f"{published} has no study that is called as a campaign here: {', '.join(names)}",
            f"studies: {', '.join(sorted(studies))}; --name of pgstrata run names a campaign",
        )
    pages, answers = {}, {}
    for name in names:
        place = out or report_folder(folder, name)
        run_set = write_and_show(
            store, campaign=name, base=base, out=place, threshold=threshold, published=ratios
        )
        pages[name], answers[name] = place / "index.html", answer_of(run_set)
    if len(names) > 1:
        print(f"\nindex: {write_index(store, pages, answers).resolve()}")


def no_results(folder: Path) -> UsageError:
    """Returns the error of a folder with results that is not there, or a file."""
    from pgstrata.errors import UsageError
    from pgstrata.files.user_files import shown

    if not folder.is_file():
        return UsageError(f"there is no results folder {shown(folder)}", "pgstrata run makes one")
    return UsageError(
        f"{shown(folder)} is a file, not a results folder", "name the folder that pgstrata run has written"
    )


def report_folder(results: Path, campaign: str) -> Path:
    """Returns the report's folder: beside the campaign's folder, not in it, because the entries of that are
    variants."""
    from pgstrata.store import slug

    return results / f"{slug(campaign)}.report"


def write_and_show(
    results: Results,
    *,
    campaign: str,
    base: str | None,
    out: Path | None,
    threshold: float | None = None,
    published: Sequence[Published] = (),
) -> RunSet:
    """Prints the summary tables, writes the report and prints where the page is. out: None for no page.
    Returns what was read."""
    from pgstrata.page.results import read_results
    from pgstrata.report.terminal import print_summary
    from pgstrata.report.write import write_report_of

    thresholds = None if threshold is None else (1 - threshold, 1 + threshold)
    # What is read stays until the page is written: of thousands of runs the search for garbage is a tenth.
    gc.disable()
    try:
        run_set = _with(read_results(results, campaign, base, thresholds), published)
        print_summary(run_set)
        written = write_report_of(run_set, out) if out is not None else None
    finally:
        gc.enable()
    if written is not None:
        print(f"\nreport: {written.html.resolve()}")
    return run_set


def write_quietly(plan: Plan, results: Path) -> Path:
    """Writes the report of a campaign without printing anything on standard output; returns the page."""
    from pgstrata.page.results import read_results
    from pgstrata.report.write import write_report_of
    from pgstrata.store import Results

    name = plan.campaign.name
    run_set = _with(read_results(Results(results), name, plan.base), _beside(plan))
    return write_report_of(run_set, report_folder(results, name)).html


def show_results(plan: Plan, results: Path, *, page: bool) -> RunSet:
    """Prints the summary of a campaign that has just been run, and returns it. page: writes its report, too,
    where it belongs."""
    from pgstrata.store import Results

    name = plan.campaign.name
    out = report_folder(results, name) if page else None
    return write_and_show(Results(results), campaign=name, base=plan.base, out=out, published=_beside(plan))


def _beside(plan: Plan) -> list[Published]:
    """Returns the published ratios beside the campaign's file; none, with a message on standard error, if
    they are damaged: the measured results are shown all the same."""
    from pgstrata.cli.output import left_out
    from pgstrata.errors import UsageError
    from pgstrata.judge.published import NAME, read_published

    file = plan.campaign.file
    beside = file.parent / NAME if file else None
    try:
        return read_published(beside) if beside and beside.is_file() else []
    except UsageError as error:
        left_out([error.message])
        return []


def _with(results: RunSet, published: Sequence[Published]) -> RunSet:
    """Returns the results with the published ratios of the study that has the name of their campaign."""
    return replace(results, published=tuple(ratio for ratio in published if ratio.study == results.campaign))
