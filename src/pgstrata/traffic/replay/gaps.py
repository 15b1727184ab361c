"""What a replay says nothing about: what was not asked again, what failed both times, what is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pgstrata import numbers
from pgstrata.judge.statements import StatementVerdict
from pgstrata.page.blocks import Cell, Column, Row, Table, words
from pgstrata.page.results import Repeats, RunSet, StepResults
from pgstrata.store.record import ReplayRecord
from pgstrata.store.statement import Statement, recorded_statement
from pgstrata.traffic.captured import RECOGNIZED
from pgstrata.traffic.replay.blocks import doubt
from pgstrata.traffic.replay.coverage import Coverage, coverage_in
from pgstrata.traffic.replay.emptiness import emptiness_in, finds
from pgstrata.traffic.replay.judged import Judged, reaches_outside, replays_of, rounds_in
from pgstrata.traffic.replay.totals import StatementTotal, totals_of
from pgstrata.workload.custom.confined import Outside, outside_in

MOST_EXAMPLE = 120

OUTSIDE = "left out: reaches outside"

WHOLE = 0.99
"""Of the log's time from which on a replay reached its end. What was not sent then has a gap of its own."""

LATE = 0.01
"""Seconds of lateness (p99) from which on the original's pace was not kept: sessions met otherwise."""


@dataclass(frozen=True)
class Gap:
    """Something that was not covered. count: executions of one round, or what `unit` says; share: of the time
    they take, in the log or on the base, 0 to 1; None: not known."""

    what: str
    count: int | None = None
    share: float | None = None
    example: str = ""
    unit: str = "execution"


def gaps(results: RunSet, step: StepResults, judged: Mapping[str, Judged]) -> list[Gap]:
    """Returns the gaps of a replay on all variants."""
    coverage = next((c for run in results.runs if (c := coverage_in(run.record.facts)) is not None), None)
    result = list(_of_log(coverage)) if coverage is not None else []
    outside = next((o for run in results.runs if (o := outside_in(run.record.facts)) is not None), None)
    result += list(_of_setup(outside)) if outside is not None else []
    for variant, repeats in step.by_variant.items():
        result += _of_replay(variant, replays_of(repeats), rounds_in(repeats))
    result += _refused(step, coverage)
    result += _failed_here(step, coverage)
    result += _failed_always(step)
    result += _found_nothing(step, coverage)
    result += _found_nothing_in_all(step)
    for judged_variant in judged.values():
        result += _not_known(judged_variant, several=len(judged) > 1)
    if coverage is not None:
        result += of_notes(coverage.notes)
    return result


def of_notes(notes: Sequence[str]) -> list[Gap]:
    """Returns the notes of a captured file that lessen what a replay covers."""
    return [Gap(note) for note in notes if not note.startswith(RECOGNIZED)]


def _of_log(coverage: Coverage) -> Iterator[Gap]:
    for not_asked in coverage.left_out:
        yield Gap(
            f"Not replayed: {not_asked.why}",
            not_asked.count,
            not_asked.share,
            " ".join(not_asked.example.split())[:MOST_EXAMPLE],
        )
    for not_asked in coverage.outside:
        yield Gap(
            f"{OUTSIDE}: {not_asked.why}",
            not_asked.count,
            not_asked.share,
            " ".join(not_asked.example.split())[:MOST_EXAMPLE],
        )
    if coverage.other_statements:
        databases = "another database" if coverage.other_databases == 1 else "other databases"
        yield Gap(f"Not replayed: statements in {databases}", coverage.other_statements)
    whole = (coverage.end - coverage.begin) / 1e6
    reached = (coverage.until or 0.0) * coverage.speed
    if coverage.until is not None and reached < WHOLE * whole:
        yield Gap(
            f"The replay was stopped after {numbers.duration(coverage.until)}; the log has "
            f"{numbers.duration(whole)}"
        )
    if coverage.masked:
        yield Gap("Values in the log are masked: statements find other rows than the originals did, or none")
    if not coverage.timed:
        yield Gap("The log does not say how long statements took: what is left out has no share")


def _of_setup(outside: Outside) -> Iterator[Gap]:
    """Yields the parts of the setup that were not loaded as they stand. They are no statements of a log and
    have no share of its time."""
    for left_out in outside.left_out:
        yield Gap(f"{OUTSIDE}: of the setup: {left_out.why}", 1, None, left_out.what, "statement")
    if more := outside.number - len(outside.left_out):
        yield Gap(f"{OUTSIDE}: of the setup: more", more, unit="statement")
    if outside.note:
        yield Gap(outside.note)


def _of_replay(variant: str, replays: Sequence[ReplayRecord], rounds: int) -> Iterator[Gap]:
    unsent = sum(replay.unsent for replay in replays)
    lost = sum(replay.lost for replay in replays)
    if unsent:
        yield Gap(f"Not sent on {variant} before the replay ended", unsent // max(1, rounds))
    if lost:
        yield Gap(
            f"Connections that {variant} has ended in the middle, in {rounds} rounds", lost, unit="connection"
        )
    for replay in replays:
        if replay.lateness.p99 > LATE:
            yield Gap(
                f"This machine was too busy to send everything in time on {variant}: one statement in a "
                f"hundred was sent {numbers.milliseconds(replay.lateness.p99)} ms late or more"
            )


def _refused(step: StepResults, coverage: Coverage | None) -> Iterator[Gap]:
    """Yields the gap of the statements that a server refused the role that replays, although their text did
    not show it."""
    told_outside = coverage.told_outside if coverage is not None else ()
    shares = coverage.shares if coverage is not None else ()
    counts: dict[Statement, int] = {}
    for repeats in step.by_variant.values():
        mine: Counter[Statement] = Counter()
        for failure in (f for replay in replays_of(repeats) for f in replay.failures if reaches_outside(f)):
            mine[recorded_statement(failure.number, failure.statement)] += failure.count
        for statement, count in mine.items():
            counts[statement] = max(counts.get(statement, 0), round(count / max(1, rounds_in(repeats))))
    refused = sorted(statement for statement in counts if statement.number not in told_outside)
    if refused:
        yield Gap(
            f"{OUTSIDE}, or needs a superuser: refused by a server",
            sum(counts[statement] for statement in refused),
            sum(shares[statement.number] for statement in refused if statement.number < len(shares))
            if shares
            else None,
            refused[0].text[:MOST_EXAMPLE],
        )


def _failed_here(step: StepResults, coverage: Coverage | None) -> Iterator[Gap]:
    """Yields the gaps of the statements that went well in the log and fail now on every variant, by SQLSTATE:
    something that they need is not here, and their times are those of errors."""
    failing = [_failing_here(repeats) for repeats in step.by_variant.values()]
    if not failing:
        return
    by_code: dict[str, list[tuple[float, int, str]]] = {}
    for statement in sorted(set.intersection(*map(set, failing))):
        least = min((of_variant[statement] for of_variant in failing), key=lambda failures: failures.calls)
        share = _share_in_log(statement, least, coverage)
        by_code.setdefault(least.code, []).append(
            (share, round(least.calls), f"{least.message}: {statement.text}")
        )
    for code, failures in sorted(by_code.items(), key=lambda item: -sum(share for share, _, _ in item[1])):
        yield Gap(
            f"Not replayed: went well in the log, and fails here everywhere ({code})",
            sum(calls for _, calls, _ in failures),
            sum(share for share, _, _ in failures) if coverage is not None else None,
            max(failures)[2][:MOST_EXAMPLE],
        )


class _FailingHere(NamedTuple):
    """Executions of one statement that went well in the log and fail on one variant. calls: of a round; part:
    of all its executions, 0 to 1; code, message: of those that fail most often."""

    calls: float
    part: float
    code: str
    message: str


def _failing_here(repeats: Repeats) -> dict[Statement, _FailingHere]:
    counts: dict[Statement, Counter[tuple[str, str]]] = {}
    refused: set[Statement] = set()
    for failure in (failure for replay in replays_of(repeats) for failure in replay.failures):
        if failure.then is not None or failure.now is None:
            continue
        statement = recorded_statement(failure.number, failure.statement)
        counts.setdefault(statement, Counter())[failure.now, failure.message] += failure.count
        if reaches_outside(failure):
            refused.add(statement)
    rounds = max(1, rounds_in(repeats))
    totals = totals_of(m.record for m in repeats.repeats)
    failing = {}
    for statement, by_error in counts.items():
        if statement in refused:
            continue
        count, total = by_error.total(), totals.get(statement)
        calls = max(count, total.calls) if total is not None else count
        ((code, message), _) = by_error.most_common(1)[0]
        failing[statement] = _FailingHere(count / rounds, count / calls, code, message)
    return failing


def _share_in_log(statement: Statement, failing: _FailingHere, coverage: Coverage | None) -> float:
    """Returns the share of the log's time, or of its statements where it tells no times."""
    if coverage is None:
        return 0.0
    if not coverage.timed:
        return failing.calls / max(1, coverage.statements)
    return (
        failing.part * coverage.shares[statement.number] if statement.number < len(coverage.shares) else 0.0
    )


def _failed_always(step: StepResults) -> list[Gap]:
    """Returns the gap of the statements that failed in the log and now on every variant, with their
    executions in one round."""
    by_variant = []
    for repeats in step.by_variant.values():
        rounds = rounds_in(repeats)
        by_variant.append(
            {
                recorded_statement(failure.number, failure.statement): round(failure.count / rounds)
                for replay in replays_of(repeats)
                for failure in replay.failures
                if failure.then is not None and failure.now is not None
            }
        )
    if not by_variant:
        return []
    statements = set.intersection(*(set(counts) for counts in by_variant))
    if not statements:
        return []
    count = sum(max(counts[statement] for counts in by_variant) for statement in statements)
    example = min(statements).text[:MOST_EXAMPLE]
    return [Gap("Failed in the log, and fail again everywhere: nothing new", count, None, example)]


def _found_nothing(step: StepResults, coverage: Coverage | None) -> Iterator[Gap]:
    """Returns the shapes of which no call had a row: of data that is not that of the original many find
    none."""
    rows_known = coverage is not None and coverage.rows_known
    none_before = set(coverage.without_rows) if coverage is not None else set()
    by_statements: dict[frozenset[Statement], list[str]] = {}
    totals: dict[Statement, StatementTotal] = {}
    for variant, repeats in step.by_variant.items():
        mine = totals_of(m.record for m in repeats.repeats)
        totals = {**mine, **totals}  # the first variant's stay
        empty = frozenset(
            statement
            for statement, total in mine.items()
            if total.succeeded and not total.rows and statement.name not in none_before and finds(statement)
        )
        by_statements.setdefault(empty, []).append(variant)
    whole = sum(total.seconds for total in totals.values())
    rounds = max((rounds_in(repeats) for repeats in step.by_variant.values()), default=1)
    original = "though it did in the log" if rows_known else "and the log does not say whether it did there"
    for empty, variants in by_statements.items():
        if empty:
            seconds = sum(totals[empty_statement].seconds for empty_statement in empty)
            first = max(empty, key=lambda empty_statement: totals[empty_statement].seconds)
            yield Gap(
                f"{numbers.counted(len(empty), 'statement')} never found a row on {' and '.join(variants)}, "
                f"{original}: the dump may be older or newer than the log, or its keys others",
                round(sum(totals[empty_statement].succeeded for empty_statement in empty) / rounds),
                seconds / whole if whole else None,
                first.text[:MOST_EXAMPLE],
            )


def _found_nothing_in_all(step: StepResults) -> Iterator[Gap]:
    for emptiness in emptiness_in(step):
        if emptiness.all_empty:
            share = numbers.significant(100 * emptiness.all_empty / emptiness.all_asked, 2)
            yield Gap(
                f"Found no row on {emptiness.variant}, as may be right: {share} % of the "
                f"{numbers.count(round(emptiness.all_asked))} executions that look for rows, of "
                f"{numbers.counted(len(emptiness.found_nothing), 'statement')}",
                round(emptiness.all_empty),
            )


def _not_known(judged: Judged, *, several: bool) -> list[Gap]:
    reasons: dict[str, list[StatementVerdict]] = {}
    for statement_verdict in judged.of("unclear"):
        reasons.setdefault(doubt(statement_verdict), []).append(statement_verdict)
    where = f" on {judged.variant}" if several else ""
    return [
        Gap(
            f"Not known of {numbers.counted(len(verdicts), 'statement')}{where}: {reason}",
            round(
                sum(statement_verdict.base.calls for statement_verdict in verdicts) / judged.counted_rounds
            ),
            sum(statement_verdict.base_share for statement_verdict in verdicts),
            verdicts[0].statement.text[:MOST_EXAMPLE],
        )
        for reason, verdicts in reasons.items()
    ]


def gap_table(gaps: Sequence[Gap], keys: Sequence[tuple[str, str]] = ()) -> Table:
    """Returns the gaps as a table."""
    return Table(
        name="replay_gaps",
        title="Statements of which nothing is said",
        columns=[
            Column("what", "What", align="left"),
            Column("count", "How often"),
            Column("share", "Share of the time", "%"),
            Column("example", "For example", align="left"),
        ],
        rows=[
            Row(
                [
                    words(gap.what),
                    Cell(gap.count, numbers.count(gap.count)),
                    Cell(
                        gap.share,
                        numbers.UNKNOWN if gap.share is None else numbers.share_of_time(gap.share),
                    ),
                    words(gap.example),
                ]
            )
            for gap in gaps
        ],
        how="Shares are of the time in the log where a statement could not be replayed, else of the time on "
        "what the others are held against. A dash: not known, or nothing to count.",
        keys=keys,
    )


__all__ = ["Gap", "gap_table", "gaps", "of_notes"]
