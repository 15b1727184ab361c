"""What a replay says nothing about: what was not asked again, what failed both times, what is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgstrata import numbers
from pgstrata.judge.statements import StatementVerdict
from pgstrata.page.blocks import Cell, Column, Row, Table, words
from pgstrata.page.results import RunSet, StepResults
from pgstrata.store.record import ReplayRecord
from pgstrata.store.statement import Statement, recorded_statement
from pgstrata.traffic.replay.blocks import doubt
from pgstrata.traffic.replay.coverage import Coverage, coverage_in
from pgstrata.traffic.replay.emptiness import emptiness_in, finds
from pgstrata.traffic.replay.judged import Judged, reaches_outside, replays_of, rounds_in
from pgstrata.traffic.replay.totals import StatementTotal, totals_of
from pgstrata.workload.custom.confined import Outside, outside_in

MOST_EXAMPLE = 120

OUTSIDE = "left out: reaches outside"

LATE = 0.01
"""Seconds of lateness (p99) from which on the original's pace was not kept: sessions met otherwise."""


@dataclass(frozen=True)
class Gap:
    """Something that was not covered. count: statements, of one round; share: of the time they take, in the
    log or on the base, 0 to 1; None: not known."""

    what: str
    count: int | None = None
    share: float | None = None
    example: str = ""


def gaps(results: RunSet, step: StepResults, judged: Mapping[str, Judged]) -> list[Gap]:
    """Returns the gaps of a replay on all variants."""
    coverage = next((c for run in results.runs if (c := coverage_in(run.record.facts)) is not None), None)
    found = list(_of_log(coverage)) if coverage is not None else []
    outside = next((o for run in results.runs if (o := outside_in(run.record.facts)) is not None), None)
    found += list(_of_setup(outside)) if outside is not None else []
    for variant, own in step.by_variant.items():
        found += _of_replay(variant, replays_of(own), rounds_in(own))
    found += _refused(step, coverage)
    found += _failed_always(step)
    found += _found_nothing(step, coverage)
    found += _found_nothing_in_all(step)
    for one in judged.values():
        found += _not_known(one, several=len(judged) > 1)
    if coverage is not None:
        found += [Gap(note) for note in coverage.notes]
    return found


def _of_log(coverage: Coverage) -> Iterator[Gap]:
    for one in coverage.left_out:
        yield Gap(
            f"Not replayed: {one.why}", one.count, one.share, " ".join(one.example.split())[:MOST_EXAMPLE]
        )
    for one in coverage.outside:
        yield Gap(f"{OUTSIDE}: {one.why}", one.count, one.share, " ".join(one.example.split())[:MOST_EXAMPLE])
    if coverage.other_statements:
        databases = "another database" if coverage.other_databases == 1 else "other databases"
        yield Gap(f"Not replayed: statements in {databases}", coverage.other_statements)
    whole = (coverage.end - coverage.begin) / 1e6
    if coverage.until is not None and (not coverage.speed or coverage.until * coverage.speed < whole):
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
    for one in outside.left_out:
        yield Gap(f"{OUTSIDE}: of the setup: {one.why}", 1, None, one.what)
    if more := outside.number - len(outside.left_out):
        yield Gap(f"{OUTSIDE}: of the setup: more", more)
    if outside.note:
        yield Gap(outside.note)


def _of_replay(variant: str, replays: Sequence[ReplayRecord], rounds: int) -> Iterator[Gap]:
    unsent = sum(one.unsent for one in replays)
    lost = sum(one.lost for one in replays)
    if unsent:
        yield Gap(f"Not sent on {variant} before the replay ended", unsent // max(1, rounds))
    if lost:
        yield Gap(f"Connections that {variant} has ended in the middle, in {rounds} rounds", lost)
    for one in replays:
        if one.lateness.p99 > LATE:
            yield Gap(
                f"This machine was too busy to send everything in time on {variant}: one statement in a "
                f"hundred was sent {numbers.milliseconds(one.lateness.p99)} ms late or more"
            )


def _refused(step: StepResults, coverage: Coverage | None) -> Iterator[Gap]:
    """Yields the gap of the statements that a server refused the role that replays, although their text did
    not show it."""
    told = coverage.told_outside if coverage is not None else ()
    shares = coverage.shares if coverage is not None else ()
    counts: dict[Statement, int] = {}
    for own in step.by_variant.values():
        mine: Counter[Statement] = Counter()
        for failure in (f for replay in replays_of(own) for f in replay.failures if reaches_outside(f)):
            mine[recorded_statement(failure.number, failure.statement)] += failure.count
        for one, count in mine.items():
            counts[one] = max(counts.get(one, 0), round(count / max(1, rounds_in(own))))
    refused = sorted(one for one in counts if one.number not in told)
    if refused:
        yield Gap(
            f"{OUTSIDE}, or needs a superuser: refused by a server",
            sum(counts[one] for one in refused),
            sum(shares[one.number] for one in refused if one.number < len(shares)) if shares else None,
            refused[0].text[:MOST_EXAMPLE],
        )


def _failed_always(step: StepResults) -> list[Gap]:
    """Returns the gap of the statements that failed in the log and now on every variant, with their
    executions in one round."""
    by_variant = []
    for own in step.by_variant.values():
        rounds = rounds_in(own)
        by_variant.append(
            {
                recorded_statement(one.number, one.statement): round(one.count / rounds)
                for replay in replays_of(own)
                for one in replay.failures
                if one.then is not None and one.now is not None
            }
        )
    if not by_variant:
        return []
    statements = set.intersection(*(set(own) for own in by_variant))
    if not statements:
        return []
    count = sum(max(own[one] for own in by_variant) for one in statements)
    example = min(statements).text[:MOST_EXAMPLE]
    return [Gap("Failed in the log, and fail again everywhere: nothing new", count, None, example)]


def _found_nothing(step: StepResults, coverage: Coverage | None) -> Iterator[Gap]:
    """Shapes of which no call had a row: of data that is not that of the original many find none."""
    rows_known = coverage is not None and coverage.rows_known
    none_before = set(coverage.without_rows) if coverage is not None else set()
    by_statements: dict[frozenset[Statement], list[str]] = {}
    totals: dict[Statement, StatementTotal] = {}
    for variant, own in step.by_variant.items():
        mine = totals_of(m.record for m in own.repeats)
        totals = {**mine, **totals}  # the first variant's stay
        empty = frozenset(
            statement
            for statement, one in mine.items()
            if one.succeeded and not one.rows and statement.name not in none_before and finds(statement)
        )
        by_statements.setdefault(empty, []).append(variant)
    whole = sum(one.seconds for one in totals.values())
    rounds = max((rounds_in(own) for own in step.by_variant.values()), default=1)
    original = "though the original's did" if rows_known else "and whether the original's did no log says"
    for empty, variants in by_statements.items():
        if empty:
            seconds = sum(totals[one].seconds for one in empty)
            first = max(empty, key=lambda one: totals[one].seconds)
            yield Gap(
                f"No call of {numbers.counted(len(empty), 'statement')} found a row on "
                f"{' and '.join(variants)}, {original}: the data may be older or newer, or its keys others",
                round(sum(totals[one].succeeded for one in empty) / rounds),
                seconds / whole if whole else None,
                first.text[:MOST_EXAMPLE],
            )


def _found_nothing_in_all(step: StepResults) -> Iterator[Gap]:
    for one in emptiness_in(step):
        if one.all_empty:
            share = numbers.significant(100 * one.all_empty / one.all_asked, 2)
            yield Gap(
                f"Found no row on {one.variant}, as may be right: {share} % of the "
                f"{numbers.count(round(one.all_asked))} executions that look for rows, of "
                f"{len(one.found_nothing)} statements",
                round(one.all_empty),
            )


def _not_known(judged: Judged, *, several: bool) -> list[Gap]:
    reasons: dict[str, list[StatementVerdict]] = {}
    for one in judged.of("unclear"):
        reasons.setdefault(doubt(one), []).append(one)
    where = f" on {judged.variant}" if several else ""
    return [
        Gap(
            f"Not known of {numbers.counted(len(own), 'statement')}{where}: {reason}",
            round(sum(one.base.calls for one in own) / judged.counted_rounds),
            sum(one.base_share for one in own),
            own[0].statement.text[:MOST_EXAMPLE],
        )
        for reason, own in reasons.items()
    ]


def gap_table(found: Sequence[Gap], keys: Sequence[tuple[str, str]] = ()) -> Table:
    """Returns the gaps as a table."""
    return Table(
        name="replay_gaps",
        title="Statements of which nothing is said",
        columns=[
            Column("what", "What", align="left"),
            Column("count", "Statements"),
            Column("share", "Share of the time", "%"),
            Column("example", "For example", align="left"),
        ],
        rows=[
            Row(
                [
                    words(one.what),
                    Cell(one.count, numbers.count(one.count)),
                    Cell(
                        one.share,
                        numbers.UNKNOWN if one.share is None else numbers.significant(100 * one.share),
                    ),
                    words(one.example),
                ]
            )
            for one in found
        ],
        how="Shares are of the time in the log where a statement could not be replayed, else of the time on "
        "what the others are held against. A dash: not known, or nothing to count.",
        keys=keys,
    )


__all__ = ["Gap", "gap_table", "gaps"]
