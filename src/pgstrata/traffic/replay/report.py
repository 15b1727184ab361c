"""What a replay has beyond its rate: how late it was itself, what failed, and the time of each statement."""

from __future__ import annotations

from collections.abc import Mapping

from pgstrata import numbers
from pgstrata.page.blocks import Block, Cell, Column, Row, Section, Table, missing, words
from pgstrata.page.results import RunSet, StepResults, WorkloadResults, anchor
from pgstrata.report.sections.query_causes import explained_blocks
from pgstrata.store.record import ReplayRecord, StepRecord
from pgstrata.store.statement import Statement, recorded_statement
from pgstrata.traffic.replay.blocks import error_blocks, explained_statements, judged_blocks, statement_times
from pgstrata.traffic.replay.emptiness import emptiness_in, emptiness_table
from pgstrata.traffic.replay.gaps import gap_table, gaps
from pgstrata.traffic.replay.judged import judged
from pgstrata.traffic.replay.totals import StatementTotal, totals_of

MOST_ROWS = 100

_LATE = (
    "From when a statement was meant to start, and its session had the answer to the one before, until it "
    "was sent; of several repeats, the one with the largest p99. What a slow server adds is not in it: a "
    "large figure says that the machine of the replay was too busy, and that response times are not the "
    "server's alone."
)
_FAILURES = (
    "SQLSTATE in the original and now; a dash is success. Statements that failed in the original and do not "
    "now have found other data, or a server that takes what the other refused."
)
_STATEMENTS = (
    "Mean time of a statement, from sending it to its whole answer; those that take the largest share of the "
    "first variant's time come first. Literals are left out: $1, $2, …."
)


def replays(results: RunSet, workload: WorkloadResults) -> Section | None:
    """Returns the report's section of replays; None if nothing was replayed."""
    blocks: list[Block] = []
    times: list[Section] = []
    for step in workload.compared:
        records = {
            variant: [m.record for m in repeats.repeats if m.record.replay is not None]
            for variant, repeats in step.by_variant.items()
        }
        records = {variant: of_variant for variant, of_variant in records.items() if of_variant}
        variants = [variant for variant in results.variants if variant in records]
        if variants:
            blocks.append(_lateness(workload, step, variants, records))
            blocks += [t for t in (_failures(workload, step, variants, records),) if t is not None]
            keys = (("workload", workload.name), ("step", step.name))
            # Without a base to be held against there are no verdicts.
            by_variant = judged(results, step)
            blocks += judged_blocks(results.base, by_variant, keys) or [
                _statements(workload, step, variants, records)
            ]
            blocks += explained_blocks(results, workload, explained_statements(by_variant))
            times += statement_times(results.base, by_variant, keys)
            blocks += error_blocks(results.base, by_variant, keys)
            if not_covered := gaps(results, step, by_variant):
                blocks.append(gap_table(not_covered, keys))
            if (without := emptiness_table(emptiness_in(step), keys)) is not None:
                blocks.append(without)
    if not blocks:
        return None
    link = anchor("times-of-statements", workload.name)
    parts = [Section(link, "Where the time of statements went", parts=times, quiet=True)] if times else []
    return Section(anchor("replay", workload.name), f"Replay ({workload.name})", blocks, parts)


Records = Mapping[str, list[StepRecord]]


def _replays(records: list[StepRecord]) -> list[ReplayRecord]:
    return [record.replay for record in records if record.replay is not None]


def _lateness(workload: WorkloadResults, step: StepResults, variants: list[str], records: Records) -> Table:
    rows = []
    for variant in variants:
        replays = _replays(records[variant])
        failures = [failure for replay in replays for failure in replay.failures]
        new = sum(failure.count for failure in failures if failure.then is None)
        gone = sum(failure.count for failure in failures if failure.now is None)
        both = sum(failure.count for failure in failures) - new - gone
        counts = (sum(r.sessions for r in replays), new, gone, both)
        left = (sum(r.lost for r in replays), sum(r.unsent for r in replays))
        worst = max((r.lateness for r in replays), key=lambda late: late.p99)
        late = map(_milliseconds, (worst.p50, worst.p95, worst.p99, worst.max))
        cells = [words(variant), *map(_count, counts), *map(_count, left), *late]
        rows.append(Row(cells, variant=variant))
    return Table(
        name="replay",
        title=f"{step.name}: How late the replay itself was, and what came of the original's statements",
        columns=[
            Column("variant", "Variant", align="left"),
            Column("sessions", "Sessions"),
            Column("failed_now", "Failed only now"),
            Column("failed_then", "Failed only then"),
            Column("failed_both", "Failed both times"),
            Column("lost", "Sessions lost"),
            Column("unsent", "Not sent"),
            *(Column(f"late_{name}", f"Late {name}", "ms") for name in ("p50", "p95", "p99")),
            Column("late_max", "Longest", "ms"),
        ],
        rows=rows,
        how=_LATE,
        keys=(("workload", workload.name), ("step", step.name)),
    )


def _failures(
    workload: WorkloadResults, step: StepResults, variants: list[str], records: Records
) -> Table | None:
    by_failure: dict[tuple[Statement, str | None, str | None], dict[str, int]] = {}
    messages: dict[tuple[Statement, str | None, str | None], str] = {}
    for variant in variants:
        for failure in (f for replay in _replays(records[variant]) for f in replay.failures):
            key = (recorded_statement(failure.number, failure.statement), failure.then, failure.now)
            counts = by_failure.setdefault(key, {})
            counts[variant] = counts.get(variant, 0) + failure.count
            messages.setdefault(key, failure.message)
    if not by_failure:
        return None
    # New ones first: they are what an upgrade is asked about.
    order = sorted(
        by_failure, key=lambda key: (key[1] is not None, key[2] is None, -max(by_failure[key].values()))
    )
    rows = [
        Row(
            [
                words(key[0].text),
                words(key[1] or "–"),
                words(key[2] or "–"),
                *(_count(by_failure[key].get(variant, 0)) for variant in variants),
                words(messages[key]),
            ]
        )
        for key in order[:MOST_ROWS]
    ]
    return Table(
        name="replay_failures",
        title=f"{step.name}: statements that failed then or now",
        columns=[
            Column("statement", "Statement", align="left"),
            Column("then", "Then", align="left"),
            Column("now", "Now", align="left"),
            *(Column(variant, variant) for variant in variants),
            Column("message", "The server's words", align="left"),
        ],
        rows=rows,
        how=_FAILURES,
        keys=(("workload", workload.name), ("step", step.name)),
    )


def _statements(workload: WorkloadResults, step: StepResults, variants: list[str], records: Records) -> Table:
    by_variant = {variant: totals_of(records[variant]) for variant in variants}
    first = by_variant[variants[0]]
    none = StatementTotal()
    whole = sum(total.seconds for total in first.values())
    statements = sorted(
        {statement for totals in by_variant.values() for statement in totals},
        key=lambda statement: -first.get(statement, none).seconds,
    )
    rows = []
    for statement in statements[:MOST_ROWS]:
        share = first.get(statement, none).seconds / whole if whole else None
        cells = [
            words(statement.text),
            Cell(share, numbers.percent(share)),
            _count(first.get(statement, none).calls),
        ]
        for variant in variants:
            total = by_variant[variant].get(statement, none)
            cells.append(_milliseconds(total.seconds / total.calls) if total.calls else missing("not asked"))
        rows.append(Row(cells))
    return Table(
        name="replay_statements",
        title=f"{step.name}: time of each statement, ms — less is better",
        columns=[
            Column("statement", "Statement", align="left"),
            Column("share", "Share", "%"),
            Column("calls", "Calls"),
            *(Column(variant, variant, "ms") for variant in variants),
        ],
        rows=rows,
        how=_STATEMENTS,
        keys=(("workload", workload.name), ("step", step.name)),
        notes=[f"In run.json: {numbers.counted(len(statements) - MOST_ROWS, 'more statement')}."]
        if len(statements) > MOST_ROWS
        else [],
    )


def _milliseconds(seconds: float) -> Cell:
    return Cell(seconds * 1000, numbers.milliseconds(seconds))


def _count(value: int) -> Cell:
    return Cell(value, numbers.count(value))


__all__ = ["replays"]
