"""Tables of a step: response times, their histogram, slow seconds, statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgstrata.report import numbers
from pgstrata.report.blocks import Cell, Column, Row, Table, missing, words
from pgstrata.report.frames import Frames
from pgstrata.report.study import Measured, Place, StepOf, Study, number, part_of
from pgstrata.store.histogram import BUCKETS

Keys = Sequence[tuple[str, str]]

_LATENCIES = (("mean", "mean"), ("p50", "p50"), ("p95", "p95"), ("p99", "p99"), ("max", "max"))


def response_table(study: Study, step: StepOf, frames: Frames, keys: Keys) -> Table | None:
    """Share of responses in each of the field's buckets, by role and variant, and the longest."""
    rows: list[Row] = []
    for role in step.role_names:
        for variant in study.variants:
            place = step.places.get(variant)
            if place is None or not any(role in measured.roles for measured in place.repeats):
                continue
            counts = _counts(place, step, role, frames)
            total = sum(counts)
            cells = [words(variant), words(role), Cell(total, numbers.count(total))]
            for bucket in counts:
                share = bucket / total if total else None
                cells.append(
                    missing("no responses")
                    if share is None
                    else Cell(share * 100, numbers.percent(share), shade=share or None)
                )
            longest = _longest(place, role)
            cells.append(Cell(longest, numbers.significant(longest)))
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


def _counts(place: Place, step: StepOf, role: str, frames: Frames) -> list[int]:
    counts = [0] * len(BUCKETS)
    for measured in place.repeats:
        own = frames.buckets.get((measured.run.run_id, step.name, role), ())
        for i, responses in enumerate(own):
            counts[i] += responses
    return counts


def _longest(place: Place, role: str) -> float | None:
    found = [number(part_of(m.roles, role, "latency", "max")) for m in place.repeats]
    return max((value for value in found if value is not None), default=None)


def latency_table(study: Study, step: StepOf, keys: Keys) -> Table | None:
    """Mean and percentiles of the response time by role and variant, in ms."""
    rows: list[Row] = []
    for role in step.role_names:
        for variant in study.variants:
            place = step.places.get(variant)
            if place is None or not any(part_of(m.roles, role, "latency") for m in place.repeats):
                continue
            cells = [words(variant), words(role)]
            for _, name in _LATENCIES:
                value = place.median(lambda m, n=name, r=role: number(part_of(m.roles, r, "latency", n)))  # type: ignore[misc]
                cells.append(Cell(None if value is None else value * 1e3, numbers.milliseconds(value)))
            for count in ("errors", "retries"):
                value = place.median(lambda m, c=count, r=role: number(part_of(m.roles, r, c)))  # type: ignore[misc]
                cells.append(Cell(value, numbers.count(value), "bad" if value else ""))
            rows.append(Row(cells, variant=variant))
    if not rows:
        return None
    return Table(
        name="latencies",
        title="Response times in ms — less is better",
        columns=[
            Column("variant", "Variant", align="left"),
            Column("role", "Role", align="left"),
            *(Column(title, title, "ms") for title, _ in _LATENCIES),
            Column("errors", "Errors", rule=True),
            Column("retries", "Retries"),
        ],
        rows=rows,
        keys=keys,
        how="p99 is the time that 99 % of the responses did not exceed. Percentiles come from a "
        "histogram with three significant digits. With several repeats each figure is their median.",
    )


def slow_seconds_table(study: Study, step: StepOf, keys: Keys) -> Table | None:
    """Percentiles over the per-second rates, slowest end."""
    names = ("p50", "p75", "p90", "p95", "p99")
    rows: list[Row] = []
    for variant in study.variants:
        place = step.places.get(variant)
        if place is None:
            continue
        found = [place.median(lambda m, n=n: number(part_of(m.record, "rate_percentiles", n))) for n in names]  # type: ignore[misc]
        if all(value is None for value in found):
            continue
        rate = place.rate
        share = found[-1] / rate if found[-1] is not None and rate else None
        rows.append(
            Row(
                [
                    words(variant),
                    Cell(rate, numbers.rate(rate)),
                    *(Cell(value, numbers.rate(value)) for value in found),
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
            Column("mean", "Mean", step.unit),
            *(Column(name, name, step.unit) for name in names),
            Column("p99_by_mean", "p99 ÷ mean", rule=True),
        ],
        rows=rows,
        keys=keys,
        how="A mean hides stalls; this table does not. p99 is the rate that 99 % of the seconds reached or "
        "exceeded: the closer it is to the mean, the steadier the server.",
    )


def statement_table(study: Study, step: StepOf, keys: Keys) -> Table | None:
    """Time by statement: how often, how long in total, on average and at most."""
    rows: list[Row] = []
    for role in step.role_names:
        for name in _statements(step, role):
            for variant in study.variants:
                place = step.places.get(variant)
                found = None if place is None else _statement(place.shown, role, name)
                if found is None:
                    continue
                count, total, longest = (
                    number(found.get(k)) for k in ("count", "seconds_total", "seconds_max")
                )
                mean = total / count if total is not None and count else None
                errors = number(found.get("errors"))
                rows.append(
                    Row(
                        [
                            words(variant),
                            words(role),
                            words(name or "unnamed"),
                            Cell(count, numbers.count(count)),
                            Cell(errors, numbers.count(errors), "bad" if errors else ""),
                            Cell(total, numbers.significant(total)),
                            Cell(None if mean is None else mean * 1e3, numbers.milliseconds(mean)),
                            Cell(None if longest is None else longest * 1e3, numbers.milliseconds(longest)),
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


def _statements(step: StepOf, role: str) -> list[str]:
    names: dict[str, None] = {}
    for place in step.places.values():
        for entry in _entries(place.repeats, role):
            names.setdefault(str(entry.get("name") or ""))
    return list(names)


def _entries(repeats: Iterable[Measured], role: str) -> Iterable[dict[str, object]]:
    for measured in repeats:
        entries = part_of(measured.roles, role, "statements_by_name")
        yield from (e for e in entries if isinstance(e, dict)) if isinstance(entries, list) else ()


def _statement(measured: Measured, role: str, name: str) -> dict[str, object] | None:
    return next((e for e in _entries([measured], role) if str(e.get("name") or "") == name), None)
