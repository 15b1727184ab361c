"""pgstrata from a program: ask, measure, judge and read results, as the command line does.

    import pgstrata

    study = pgstrata.Study(
        servers=["pg:16", "pg:17"],
        workloads=[pgstrata.Workload(name="sysbench", scale="quick", options={"steps": ["point-query"]})],
        until="verdict",
        max_seconds=30,
    )
    outcome = pgstrata.run(study)
    for step in outcome.comparisons[0].steps:
        print(step.step, step.verdict.word, step.verdict.ratio)

What is public is `__all__`; names, keys and fields keep their meaning for a release after they change.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
from rich.console import Console

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.file.reading import check_study, read_campaign
from pgstrata.campaign.study import Study, Variant, Workload
from pgstrata.cli.kinds import kinds
from pgstrata.errors import Interrupted, PgstrataError, ServerError, StoreError, UsageError
from pgstrata.judge.compare import Comparison, StepVerdict, margin_of
from pgstrata.judge.sides import Allowed, compare_sides
from pgstrata.measure.campaign import execute
from pgstrata.page.results import campaigns, read_results
from pgstrata.report.write import write_report_of
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.verdict import Verdict
from pgstrata.store import BrokenRun, Results, Run, slug
from pgstrata.store.ask import only_reading
from pgstrata.store.choose import campaign_runs, choose
from pgstrata.store.views import connect

_OPTIONS = ("across_hosts=True", "despite_options=True")


@dataclass(frozen=True)
class Failure:
    """A run that ended badly. reason: one sentence."""

    variant: str
    workload: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What came of a study.

    campaign: its name. results: the folder with its runs. runs: those that count, of this call and of
    earlier ones. failures: what could not be measured. comparisons: the verdicts on every variant but the
    base; empty where there is one variant only.
    """

    campaign: str
    results: Path
    runs: tuple[Run, ...]
    failures: tuple[Failure, ...]
    comparisons: tuple[Comparison, ...]

    def write_report(self, folder: Path | str | None = None) -> Path:
        """Writes the report as HTML, Markdown and CSV. Returns the HTML page.

        folder: where to; beside the runs by default. Raises StoreError where it cannot be written.
        """
        place = Path(folder) if folder is not None else self.results / f"{slug(self.campaign)}.report"
        return write_report_of(read_results(self.results, self.campaign), place).html


def run(study: Study | Path | str, *, fresh: bool = False, show_progress: bool = False) -> Outcome:
    """Measures what is missing of a study, and judges. The same study again measures nothing.

    study: a study, or the path of a campaign file. fresh: measure anew what is there. show_progress: on
    standard error. Paths in a study start at the working directory, those in a file beside the file.

    Raises UsageError where the study is not valid, ServerError where a server cannot be had, StoreError where
    results cannot be written, KeyboardInterrupt for Ctrl-C and SystemExit for SIGTERM. Whatever happens,
    nothing is left running. What fails while it is measured is in `failures`.
    """
    campaign = check_study(study, source="study") if isinstance(study, Study) else read_campaign(Path(study))
    console = Console(stderr=True) if show_progress else Console(quiet=True)
    try:
        return _run(campaign, console, fresh)
    except Interrupted as interrupted:
        if interrupted.signum == signal.SIGINT:
            raise KeyboardInterrupt from interrupted
        raise SystemExit(interrupted.exit_code) from interrupted


def _run(campaign: Campaign, console: Console, fresh: bool) -> Outcome:
    results = Results(campaign.spec.results)
    outcome = execute(campaign, results, console, fresh=fresh)
    failures = [Failure(p.key.variant, p.key.workload, reason) for p, reason in outcome.failed]
    for kind in kinds():
        failures += [Failure(*failed) for failed in kind.measure_beside(campaign, console, fresh)]
    runs: tuple[Run, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    if any(entry.campaign == campaign.name for entry in results.entries()):
        judged = read_results(results, campaign.name, outcome.plan.base)
        runs, comparisons = judged.runs, tuple(judged.comparisons)
    return Outcome(campaign.name, results.root, runs, tuple(failures), comparisons)


def compare(
    base: str,
    other: str,
    *,
    results: Path | str = "results",
    campaign: str | None = None,
    steps: Sequence[str] = (),
    criterion: Criterion | None = None,
    across_hosts: bool = False,
    despite_options: bool = False,
) -> Comparison:
    """Judges stored runs, as `pgstrata compare` does.

    base, other: label of a variant, id of a run, or folder. campaign: where labels are looked up; the newest
    by default. steps: only these. criterion: by default the margin of the campaign, and 95 %. across_hosts,
    despite_options: compare runs of different machines, or of different sizes, clients and modes.

    Raises UsageError where nothing or several things fit, or runs cannot be compared; StoreError where there
    are no runs or one is damaged.
    """
    store = Results(results)
    sides = choose(base, store, campaign), choose(other, store, campaign)
    if criterion is None:
        criterion = Criterion(margin_of(run for side in sides for run in side.runs))
    (comparison,) = compare_sides(
        sides[0],
        [sides[1]],
        store,
        steps=steps,
        criterion=criterion,
        allowed=Allowed(across_hosts, despite_options, _OPTIONS),
    )
    return comparison


class OpenResults:
    """A results folder that is open for reading; `close` it, or use it in a `with` statement.

    The views of `sql` and `view` show the folder as it was when it was opened.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._results = Results(self.folder)
        self._connection = connect(self.folder, results=self._results)

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """Returns the answer of one statement over the views, as a relation of DuckDB.

        `.df()` makes a pandas data frame of it, `.pl()` one of polars, `.fetchall()` a list of rows. Raises
        UsageError for a statement that does more than reading, duckdb.Error for one that is not valid.
        """
        statements = only_reading(self._connection, query)
        if len(statements) > 1:
            raise UsageError(f"{len(statements)} statements have no single answer", "ask them one by one")
        return self._connection.sql(query)

    def view(self, name: str) -> duckdb.DuckDBPyRelation:
        """Returns a view, say `runs` or `steps`, as a relation. Raises duckdb.Error where there is none."""
        return self._connection.view(name)

    @property
    def campaigns(self) -> list[str]:
        """Names of the campaigns, the last started first."""
        return campaigns(self._results.entries())

    @property
    def broken(self) -> list[BrokenRun]:
        """Folders of runs that cannot be read, with reasons."""
        return self._results.broken

    def runs(self, campaign: str | None = None) -> list[Run]:
        """Returns the runs that count of a campaign; of the newest one where none is named.

        Raises UsageError for a campaign that is not there, StoreError where there are no runs.
        """
        return campaign_runs(self._results, campaign)

    def close(self) -> None:
        """Ends reading; relations that came from here can be used no more."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_results(folder: Path | str = "results") -> OpenResults:
    """Opens a results folder for SQL and data frames. Raises StoreError where there is none."""
    return OpenResults(folder)


__all__ = [
    "Comparison",
    "Criterion",
    "Failure",
    "OpenResults",
    "Outcome",
    "PgstrataError",
    "Run",
    "ServerError",
    "StepVerdict",
    "StoreError",
    "Study",
    "UsageError",
    "Variant",
    "Verdict",
    "Workload",
    "compare",
    "open_results",
    "run",
]
