"""`pgstrata compare` and `pgstrata check`"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pgstrata import numbers
from pgstrata.cli.arguments import RESULTS, ByOption, ResultsOption
from pgstrata.cli.kinds import kind
from pgstrata.cli.output import VerdictFormat, prints

if TYPE_CHECKING:
    from pgstrata.judge.compare import Comparison, StepVerdict
    from pgstrata.judge.estimates import EstimatesRecord
    from pgstrata.stats.criterion import Criterion
    from pgstrata.store.read import BrokenRun


CampaignOption = Annotated[
    str | None,
    typer.Option("--campaign", metavar="NAME", help="Where labels are looked up (default: the newest)."),
]
StepOption = Annotated[
    list[str] | None, typer.Option("--step", metavar="NAME", help="Only this step. Repeatable.")
]
FormatOption = Annotated[VerdictFormat, typer.Option("--format", help="How to print.")]
ConfidenceOption = Annotated[
    float, typer.Option("--confidence", metavar="SHARE", help="Of the intervals: 0.95 is 95 %.")
]
AcrossOption = Annotated[
    bool,
    typer.Option(
        "--across-hosts", help="Compare runs of different machines: their rates differ for other reasons."
    ),
]
DespiteOption = Annotated[
    bool,
    typer.Option("--despite-options", help="Compare runs that did other work: sizes, clients, modes."),
]


@prints("pgstrata.judge.compare:ComparisonJsons")
def compare(
    base: Annotated[str, typer.Argument(metavar="BASE", help="Label of a variant, id of a run, or folder.")],
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The same; what is judged.")],
    results: ResultsOption = RESULTS,
    campaign: CampaignOption = None,
    step: StepOption = None,
    margin: Annotated[
        str | None,
        typer.Option(
            "--margin",
            metavar="SHARE",
            help="Smallest difference that counts (default: the campaign's, else 2%; 0.2% of instructions).",
        ),
    ] = None,
    by: ByOption = "time",
    callers: Annotated[
        str | None,
        typer.Option("--callers", metavar="FUNCTION", help="With --by instructions: who calls it."),
    ] = None,
    confidence: ConfidenceOption = 0.95,
    across_hosts: AcrossOption = False,
    despite_options: DespiteOption = False,
    form: FormatOption = VerdictFormat.table,
) -> None:
    """Print the verdict on every step: slower, faster, same or unclear, with its interval.

    \b
    Examples:
      pgstrata compare pg16.10 pg17.11
      pgstrata compare pg16.10 pg17.11 --step point-query --format markdown
      pgstrata compare results/nightly/pg17.11 elsewhere/nightly/pg17.11 --across-hosts
      pgstrata compare pg16.10 pg17.11 --by instructions --callers hash_bytes
    """
    from pgstrata.cli.output import left_out
    from pgstrata.judge.compare import margin_of
    from pgstrata.judge.estimates import estimate_records
    from pgstrata.judge.sides import Allowed, compare_sides
    from pgstrata.store import Results
    from pgstrata.store.choose import choose

    store = Results(results)
    first, second = choose(base, store, campaign), choose(other, store, campaign)
    if by != "time":
        measured = kind(by)
        criterion = criterion_of(share("--margin", margin or measured.MARGIN), confidence)
        comparisons = measured.compare(first, [second], step or [], criterion)
        left_out(store.broken)
        measured.print_comparisons(first, [second], comparisons, form, callers)
        return
    smallest = share("--margin", margin) if margin else margin_of((*first.runs, *second.runs))
    timed_comparisons = compare_sides(
        first,
        [second],
        store,
        steps=step or [],
        criterion=criterion_of(smallest, confidence),
        allowed=Allowed(across_hosts, despite_options),
    )
    left_out(store.broken)
    estimates = estimate_records(first.runs, second.runs) if form == VerdictFormat.json else []
    _print(
        timed_comparisons,
        form,
        [s for c in timed_comparisons for s in c.judged if s.verdict.word == "slower"],
        estimates,
    )


@prints("pgstrata.judge.compare:ComparisonJsons")
def check(
    base: Annotated[
        str, typer.Option("--base", metavar="LABEL", help="Label of a variant, id of a run, or folder.")
    ],
    fail_slower: Annotated[
        str,
        typer.Option("--fail-slower", "--margin", metavar="SHARE", help="What is too slow: 3% or 0.03."),
    ],
    other: Annotated[
        list[str] | None,
        typer.Option("--other", metavar="LABEL", help="What is judged (default: all others). Repeatable."),
    ] = None,
    results: ResultsOption = RESULTS,
    campaign: CampaignOption = None,
    step: StepOption = None,
    by: ByOption = "time",
    confidence: ConfidenceOption = 0.95,
    across_hosts: AcrossOption = False,
    despite_options: DespiteOption = False,
    form: FormatOption = VerdictFormat.table,
) -> None:
    """Tell scripts by the exit code whether anything is proven slower than the base.

    Exit codes: 0 every step is known not to be slower by more than that; 1 at least one is proven slower;
    3 at least one is unclear, or was measured of the base only; 2 the question was not valid.

    \b
    Examples:
      pgstrata check --base pg16.10 --fail-slower 3%
      pgstrata check --base pg16.10 --other pg17.11 --fail-slower 5% --format junit > verdicts.xml
      pgstrata check --base pg16.10 --fail-slower 0.5% --by instructions
    """
    from pgstrata.cli.output import left_out
    from pgstrata.errors import UsageError
    from pgstrata.judge.sides import Allowed, compare_sides
    from pgstrata.store import Results
    from pgstrata.store.choose import campaign_entries, choose, lost_runs

    margin = share("--fail-slower", fail_slower)
    criterion = criterion_of(margin, confidence)
    store = Results(results)
    first = choose(base, store, campaign)
    if other:
        sides = [choose(name, store, campaign) for name in other]
    else:
        runs = campaign_entries(store, campaign)
        variants = {run.variant for run in first.runs}
        sides = [
            choose(v, store, campaign) for v in dict.fromkeys(r.variant for r in runs) if v not in variants
        ]
    left_out(store.broken)
    lost = lost_runs(store, [first, *sides], all_variants=not other)
    if not sides:
        raise UsageError("there is nothing to compare with the base", "name it: --other")
    if by != "time":
        measured = kind(by)
        comparisons = measured.compare(first, sides, step or [], criterion)
        measured.print_comparisons(first, sides, comparisons, form, None)
        code = measured.check(comparisons, margin)
        if lost:
            print(f"check: not counted: {_names(lost)}", file=sys.stderr)
        raise typer.Exit(code or (3 if lost else 0))
    allowed = Allowed(across_hosts, despite_options)
    timed_comparisons = compare_sides(
        first, sides, store, steps=step or [], criterion=criterion, allowed=allowed
    )
    steps = [s for c in timed_comparisons for s in c.judged]
    slower = [s for s in steps if s.verdict.word == "slower"]
    # Unclear between same and faster is clear enough here: too slow is what it is not.
    open_ = [s for s in steps if s.verdict.word == "unclear" and not _known(s)]
    # What no side can execute is slower nowhere; where that is all there is, nothing is known.
    open_ = [s for s in open_ if not s.is_rejected] or ([] if any(s.is_compared for s in steps) else open_)
    absent = [f"{key} of {c.other}" for c in timed_comparisons for key in c.only_base]
    absent += [_names([run]) for run in lost]
    _print(timed_comparisons, form, slower)
    _say_end(steps, slower, open_, absent, margin)
    raise typer.Exit(1 if slower else 3 if open_ or absent else 0)


def _names(damaged: Sequence[BrokenRun]) -> str:
    return ", ".join(f"{run.folder.parent.name} of {run.folder.parents[1].name} (damaged)" for run in damaged)


def _known(step: StepVerdict) -> bool:
    """Returns whether the interval of an unclear verdict excludes a change beyond the margin, and nothing
    went wrong."""
    verdict = step.verdict
    return verdict.low > 1 - verdict.margin and not verdict.aside


def share(option: str, text: str) -> float:
    """Parses a share above 0 and below 1: `3%`, `3 %` or `0.03`. Raises UsageError, also for a bare `3`,
    which may mean both."""
    from pgstrata.errors import UsageError

    value = numbers.parse_share(text)
    if value is None:
        raise UsageError(
            f"{option} {text}: not a share between 0 and 100 %", f"write {option} 3% or {option} 0.03"
        )
    return value


def criterion_of(margin: float, confidence: float) -> Criterion:
    """Returns what `--margin` and `--confidence` ask for. Raises UsageError."""
    from pgstrata.errors import UsageError
    from pgstrata.stats.criterion import Criterion

    if not 0 < confidence < 1:
        raise UsageError(f"--confidence {confidence}: must lie between 0 and 1", "0.95 is usual")
    return Criterion(margin, confidence)


def load_share(text: str) -> float:
    """Returns the share that `--other-load` names, up to all of the CPUs. Raises UsageError."""
    return 1.0 if text.replace(" ", "") in ("100%", "1", "1.0") else share("--other-load", text)


def _print(
    comparisons: list[Comparison],
    form: VerdictFormat,
    slower: list[StepVerdict],
    estimates: list[EstimatesRecord] | None = None,
) -> None:
    """Prints the comparisons in the wanted format. estimates: of row counts, beside the verdicts in JSON
    where there are any."""
    from pgstrata.cli.output import aligned, print_json
    from pgstrata.report import verdicts

    match form:
        case VerdictFormat.json:
            records = [comparison.record() for comparison in comparisons]
            if estimates:
                for record in records:
                    record["estimates"] = estimates
            print_json(records)
        case VerdictFormat.markdown:
            print(verdicts.markdown(comparisons), end="")
        case VerdictFormat.junit:
            print(verdicts.junit(comparisons, slower), end="")
        case VerdictFormat.github:
            print(verdicts.github(comparisons, slower), end="")
        case VerdictFormat.table:
            for number, comparison in enumerate(comparisons):
                title, columns, cells = verdicts.table(comparison)
                print(("\n" if number else "") + title)
                for line in aligned(columns, cells):
                    print(line)
                for note in verdicts.notes(comparison):
                    print(note)


def _say_end(
    steps: Sequence[StepVerdict],
    slower: Sequence[StepVerdict],
    open_: Sequence[StepVerdict],
    absent: Sequence[str],
    margin: float,
) -> None:
    """Prints the outcome on standard error: standard output may be a file that another program reads.
    margin: that was asked for; response times have their own."""
    least = numbers.in_percent(margin)
    apart = sorted({s.verdict.margin for s in steps if s.verdict.margin != margin})
    least_of_all = ", ".join([least, *(f"response times {numbers.in_percent(m)}" for m in apart)])
    if slower:
        parts = [
            f"by more than {numbers.in_percent(m)}: {', '.join(names)}"
            for m in (margin, *apart)
            if (names := [s.step for s in slower if s.verdict.margin == m])
        ]
        text = f"slower {'; '.join(parts)}"
    elif open_ or absent:
        parts = [f"unclear: {', '.join(s.step for s in open_)}"] if open_ else []
        parts += [f"not measured: {', '.join(absent)}"] if absent else []
        text = f"{'; '.join(parts)}; nothing proven slower by more than {least_of_all}"
    else:
        text = f"nothing slower by more than {least_of_all}"
    print(f"check: {text}", file=sys.stderr)
