"""Tables of a step: response times, their histogram, slow seconds, statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgstrata import numbers
from pgstrata.page.blocks import Cell, Column, Row, Table, missing, words
from pgstrata.page.frames import Frames
from pgstrata.page.results import Repeats, RunSet, StepResults
from pgstrata.store.histogram import BUCKETS
from pgstrata.store.read import MeasuredStep
from pgstrata.store.record import StatementRecord

Keys = Sequence[tuple[str, str]]

_LATENCIES = ("mean", "stddev", "p50", "p75", "p90", "p95", "p99", "max")
_TITLES = {"stddev": "deviation"}


def response_table(results: RunSet, step: StepResults, frames: Frames, keys: Keys) -> Table | None:
    """Returns a table of the share of responses in each of the field's buckets, by role and variant, and the
    longest."""
    rows: list[Row] = []
    for role in step.role_names:
        for variant in results.variants:
            repeats = step.by_variant.get(variant)
            latency = repeats.latencies.get(role) if repeats else None
            if repeats is None or latency is None:
                continue
            counts = _counts(repeats, step, role, frames)
            total = sum(counts)
            cells = [words(variant), words(role), Cell(total, numbers.count(total))]
            for bucket in counts:
                share = bucket / total if total else None
                cells.append(
                    missing("no responses")
                    if share is None
                    else Cell(share * 100, numbers.percent(share), shade=share or None)
                )
            cells.append(Cell(latency.max, numbers.significant(latency.max)))
            rows.append(Row(cells, variant=variant))
    if not rows:
        return None
    return Table(
        name="response-times",
        title="Response times, % of responses — more to the left is better",
        columns=[
            Column("variant", "Variant", align="left"),
            Column("role", "Role", align="left"),
            Column("responses", "Responses"),
            *(Column(f"share {name}", name, "%") for name, _ in BUCKETS),
            Column("longest", "Longest", "s", rule=True),
        ],
        rows=rows,
        lead=1,
        keys=keys,
        how="Each row is one role of one variant: of all its responses, the share that took at most as "
        "long as the head of the column says and longer than the one before it. Darker is more. Good "
        "rows are dark at the left and empty at the right. Where a rate was set, the time counts from "
        "the moment at which the statement should have started, so waiting behind a stall is part of "
        "it. Repeats are added up.",
    )


def _counts(repeats: Repeats, step: StepResults, role: str, frames: Frames) -> list[int]:
    counts = [0] * len(BUCKETS)
    for measured in repeats.repeats:
        buckets = frames.buckets.get((measured.run.run_id, step.name, role), ())
        for i, responses in enumerate(buckets):
            counts[i] += responses
    return counts


def latency_table(results: RunSet, step: StepResults, keys: Keys) -> Table | None:
    """Returns a table of mean and percentiles of the response time by role and variant, in ms."""
    rows: list[Row] = []
    for role in step.role_names:
        for variant in results.variants:
            repeats = step.by_variant.get(variant)
            latency = repeats.latencies.get(role) if repeats else None
            if repeats is None or latency is None:
                continue
            cells = [words(variant), words(role)]
            for name in _LATENCIES:
                value = getattr(latency, name)
                cells.append(Cell(None if value is None else value * 1e3, numbers.milliseconds(value)))
            records = [m.record.roles[role] for m in repeats.repeats if role in m.record.roles]
            for count in (sum(r.errors for r in records), sum(r.retries for r in records)):
                cells.append(Cell(count, numbers.count(count), "bad" if count else ""))
            rows.append(Row(cells, variant=variant))
    if not rows:
        return None
    return Table(
        name="latencies",
        title="Response times in ms — less is better",
        columns=[
            Column("variant", "Variant", align="left"),
            Column("role", "Role", align="left"),
            *(Column(name, _TITLES.get(name, name), "ms") for name in _LATENCIES),
            Column("errors", "Errors", rule=True),
            Column("retries", "Retries"),
        ],
        rows=rows,
        keys=keys,
        how="p99 is the time that 99 % of the responses did not exceed. Percentiles come from a "
        "histogram with three significant digits. Several repeats are added up: their responses together, "
        "their errors and retries together.",
    )


def slow_seconds_table(results: RunSet, step: StepResults, keys: Keys) -> Table | None:
    """Returns the percentiles over the per-second rates, slowest end."""
    names = ("p50", "p75", "p90", "p95", "p99")
    rows: list[Row] = []
    for variant in results.variants:
        repeats = step.by_variant.get(variant)
        if repeats is None:
            continue
        medians = [repeats.median(lambda m, n=name: getattr(m.record.rate_percentiles, n)) for name in names]  # type: ignore[misc]
        if all(value is None for value in medians):
            continue
        rate = results.rate(step, variant)
        share = medians[-1] / rate if medians[-1] is not None and rate else None
        rows.append(
            Row(
                [
                    words(variant),
                    Cell(rate, numbers.rate(rate)),
                    *(Cell(value, numbers.rate(value)) for value in medians),
                    Cell(share, numbers.ratio(share)),
                ],
                variant=variant,
            )
        )
    if not rows:
        return None
    return Table(
        name="slow-seconds",
        title=f"Rates of the slow seconds, {step.unit} — more is better",
        columns=[
            Column("variant", "Variant", align="left"),
            Column("rate", "Rate", step.unit),
            *(Column(name, name, step.unit) for name in names),
            Column("p99_by_rate", "p99 ÷ rate", rule=True),
        ],
        rows=rows,
        keys=keys,
        how="A mean hides stalls; this table does not. p99 is the rate that 99 % of the seconds reached or "
        "exceeded: the closer it is to the rate, the steadier the server.",
    )


def statement_table(results: RunSet, step: StepResults, keys: Keys) -> Table | None:
    """Returns a table of time by statement: how often, how long in total, on average and at most."""
    rows: list[Row] = []
    for role in step.role_names:
        for name in _statements(step, role):
            for variant in results.variants:
                repeats = step.by_variant.get(variant)
                statement = None if repeats is None else _statement(repeats.typical, role, name)
                if statement is None:
                    continue
                mean = statement.seconds_total / statement.count if statement.count else None
                rows.append(
                    Row(
                        [
                            words(variant),
                            words(role),
                            words(name or "unnamed"),
                            Cell(statement.count, numbers.count(statement.count)),
                            Cell(
                                statement.errors,
                                numbers.count(statement.errors),
                                "bad" if statement.errors else "",
                            ),
                            Cell(statement.seconds_total, numbers.significant(statement.seconds_total)),
                            Cell(None if mean is None else mean * 1e3, numbers.milliseconds(mean)),
                            Cell(statement.seconds_max * 1e3, numbers.milliseconds(statement.seconds_max)),
                        ],
                        variant=variant,
                    )
                )
    if not rows:
        return None
    return Table(
        name="statements",
        title="Time by statement — less is better",
        columns=[
            Column("variant", "Variant", align="left"),
            Column("role", "Role", align="left"),
            Column("statement", "Statement", align="left"),
            Column("count", "Count"),
            Column("errors", "Errors"),
            Column("total", "Total", "s"),
            Column("mean", "Mean", "ms"),
            Column("longest", "Longest", "ms"),
        ],
        rows=rows,
        keys=keys,
        how="Every statement of the step, also those that are no operation of their own, such as the "
        "deleter's search for the smallest key. Seen by the client, over all connections of the role.",
    )


def _statements(step: StepResults, role: str) -> list[str]:
    names: dict[str, None] = {}
    for repeats in step.by_variant.values():
        for entry in _entries(repeats.repeats, role):
            names.setdefault(entry.name)
    return list(names)


def _entries(repeats: Iterable[MeasuredStep], role: str) -> Iterable[StatementRecord]:
    for measured in repeats:
        if role in measured.record.roles:
            yield from measured.record.roles[role].statements_by_name


def _statement(measured: MeasuredStep, role: str, name: str) -> StatementRecord | None:
    return next((entry for entry in _entries([measured], role) if entry.name == name), None)
