"""Runs that failed, with the tail of their server's log, and folders that could not be read."""

from __future__ import annotations

from pgstrata import numbers
from pgstrata.page.blocks import Block, Cell, Column, Listing, Row, Section, Table, words
from pgstrata.page.results import RunSet


def failures(results: RunSet) -> Section | None:
    """Returns the section about failures; None if everything went well."""
    blocks: list[Block] = []
    if results.failed:
        blocks.append(_table(results))
        for run in results.failed:
            tail = run.record.error.log_tail if run.record.error else ""
            if tail.strip():
                where = f"{run.variant}, {run.workload}, repeat {run.repeat}"
                blocks.append(
                    Listing(f"Last lines of the server's log: {where}", tail, open=len(results.failed) <= 3)
                )
    if results.broken:
        rows = [Row([words(str(broken.folder)), words(broken.reason)]) for broken in results.broken]
        blocks.append(
            Table(
                "broken-runs",
                "Run folders that could not be read",
                [Column("folder", "Folder", align="left"), Column("reason", "Reason", align="left")],
                rows,
                "These folders look like runs but are damaged or incomplete; nothing of them is in this "
                "report. They may belong to other campaigns in the same results folder.",
                stacked=True,
            )
        )
    return Section("failures", "Failed runs", blocks) if blocks else None


def _table(results: RunSet) -> Table:
    rows: list[Row] = []
    for run in results.failed:
        error = run.record.error
        message = error.message if error else "no reason was recorded"
        finished = [step.name for step in run.steps]
        rows.append(
            Row(
                [
                    words(run.variant),
                    words(run.workload),
                    Cell(run.repeat, str(run.repeat)),
                    words(numbers.moment(run.record.started)),
                    words(", ".join(finished) or "none"),
                    words(f"{message} — {error.hint}" if error and error.hint else message),
                    words(run.run_id),
                ],
                variant=run.variant,
            )
        )
    return Table(
        name="failed-runs",
        title="Runs that did not finish",
        columns=[
            Column("variant", "Variant", align="left"),
            Column("workload", "Workload", align="left"),
            Column("repeat", "Repeat"),
            Column("started", "Started", align="left"),
            Column("steps", "Steps it finished", align="left"),
            Column("error", "What went wrong", align="left"),
            Column("run_id", "Run", align="left"),
        ],
        rows=rows,
        how="A failed run takes part in no table above; what it measured before it failed is kept in "
        "its folder. Running the campaign again repeats only what is missing.",
        stacked=True,
    )
