"""The parts of one step put together, as if the step had been measured in one piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from pgstrata.driver import events
from pgstrata.driver.events import Done, Replayed, ReplayFailure, ReplayLag, ScriptTotals, Second
from pgstrata.judge.latency import added_up
from pgstrata.measure.step import StepResult
from pgstrata.measure.step_records import COUNTS, statements_by_name, step_record
from pgstrata.observe import StepObserved
from pgstrata.observe.other_load import added
from pgstrata.observe.waits import merged
from pgstrata.store.histogram import Histogram, decode, merge
from pgstrata.store.record import JudgedLoad, LatencyRecord, LogEvent
from pgstrata.workload.core.language import Step

Json = dict[str, Any]


def merged_parts(step: Step, order: int, parts: Sequence[StepResult]) -> StepResult:
    """Merges all parts into one `StepResult`: times and counts added, seconds one after the other.

    What stood between the parts (the other variants' turns) is left out. `started` is that of the first
    slice, sizes and tables are as after the last.
    """
    last = parts[-1]
    seconds: list[Second] = []
    for part in parts:
        begun = len(seconds)
        seconds += [structs.replace(event, second=begun + i) for i, event in enumerate(part.seconds)]
    done = _done([part.done for part in parts])
    observed = _observed([part.observed for part in parts], [part.done.seconds for part in parts])
    record = step_record(step, order, last.ready, 0.0, seconds, done, observed)
    record = structs.replace(
        record,
        started=parts[0].record.started,
        part_seconds=tuple(len(part.seconds) for part in parts),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.record.notes)),
        error=last.error.message if last.error is not None else None,
    )
    histograms = {role.name: role.histogram for role in done.roles}
    return StepResult(record, seconds, histograms, observed, last.ready, done, error=last.error)


def _done(parts: Sequence[Done]) -> Done:
    """Merges the `done` events of parts."""
    roles = []
    for role in parts[-1].roles:
        role_parts = [r for part in parts for r in part.roles if r.name == role.name]
        histogram = merge([decode(r.histogram) for r in role_parts])
        roles.append(
            structs.replace(
                role,
                **{name: sum(getattr(r, name) for r in role_parts) for name in COUNTS},
                histogram=histogram.encode(),
                latency=_latency(histogram, [(r.operations, r.latency) for r in role_parts]),
                replay=_replayed([r.replay for r in role_parts if r.replay is not None]),
                statements_by_name=statements_by_name(s for r in role_parts for s in r.statements_by_name),
                scripts=_scripts([r.scripts for r in role_parts]),
            )
        )
    return structs.replace(
        parts[-1],
        seconds=sum(part.seconds for part in parts),
        driver_cpu_seconds=sum(part.driver_cpu_seconds for part in parts),
        driver_peak_rss_bytes=max(part.driver_peak_rss_bytes for part in parts),
        roles=roles,
    )


def _replayed(parts: Sequence[Replayed]) -> Replayed | None:
    if not parts:
        return None
    histogram = merge([decode(part.lag.histogram) for part in parts])
    sent = sum(part.lag.sent for part in parts)
    p50, p95, p99 = (time or 0.0 for time in histogram.percentiles((50, 95, 99)))
    lag = ReplayLag(
        sent=sent,
        histogram=histogram.encode(),
        mean=sum(part.lag.mean * part.lag.sent for part in parts) / max(1, sent),
        p50=p50,
        p95=p95,
        p99=p99,
        max=max(part.lag.max for part in parts),
    )
    failures: dict[tuple[str, str | None, str | None], ReplayFailure] = {}
    for replay_failure in (failure for part in parts for failure in part.failures):
        key = (replay_failure.statement, replay_failure.then, replay_failure.now)
        seen = failures.get(key)
        failures[key] = (
            replay_failure if seen is None else structs.replace(seen, count=seen.count + replay_failure.count)
        )
    found_nothing: Counter[str] = Counter()
    for part in parts:
        found_nothing.update(part.found_nothing)
    return Replayed(
        lag=lag,
        sessions=sum(part.sessions for part in parts),
        lost=sum(part.lost for part in parts),
        unsent=sum(part.unsent for part in parts),
        failures=list(failures.values()),
        found_nothing=dict(found_nothing),
    )


def _scripts(lists: Sequence[Sequence[ScriptTotals]]) -> list[ScriptTotals]:
    """Merges the scripts of parts, which all have the same scripts in the same order."""
    scripts = []
    for parts in zip(*lists, strict=True):
        histogram = merge([decode(part.histogram) for part in parts])
        counts = ("transactions", "errors", "retries")
        scripts.append(
            structs.replace(
                parts[-1],
                **{name: sum(getattr(part, name) for part in parts) for name in counts},
                histogram=histogram.encode(),
                latency=_latency(histogram, [(part.transactions, part.latency) for part in parts]),
            )
        )
    return scripts


def _latency(histogram: Histogram, parts: Sequence[tuple[int, events.Latency]]) -> events.Latency:
    whole = added_up(histogram, [(n, LatencyRecord(**structs.asdict(latency))) for n, latency in parts])
    return events.Latency(**{name: time or 0.0 for name, time in structs.asdict(whole).items()})


def _observed(parts: Sequence[StepObserved], seconds: Sequence[float]) -> StepObserved:
    last = parts[-1]
    cpu: dict[str, float] = {}
    backends: dict[tuple[str, Any], Json] = {}
    host: list[Json] = []
    pgstat: dict[tuple[str, str, str], Json] = {}
    seen: list[LogEvent] = []
    lag: list[Json] = []
    at = 0.0
    for part, length in zip(parts, seconds, strict=True):
        for role, used in part.cpu_by_role.items():
            cpu[role] = cpu.get(role, 0.0) + used
        for row in part.backends:
            key = (row["role"], row["client"])
            before = backends.get(key, {}).get("cpu_seconds") or 0.0
            backends[key] = {**row, "cpu_seconds": before + (row["cpu_seconds"] or 0.0)}
        host += [{**row, "second": len(host) + i} for i, row in enumerate(part.host)]
        for row in part.pgstat:
            place = (row["view"], row["object"], row["counter"])
            first = pgstat.setdefault(place, {**row, "after": row["before"]})
            if None not in (first["after"], row["before"], row["after"]):
                first["after"] += row["after"] - row["before"]
        seen += [_moved(event, at) for event in part.events]
        lag += [{**row, "second": int(at) + row["second"]} for row in part.lag]
        at += length
    return StepObserved(
        backends=list(backends.values()),
        host=host,
        pgstat=list(pgstat.values()),
        cpu_by_role=cpu,
        server_cpu_seconds=_sum([part.server_cpu_seconds for part in parts]),
        pooler_cpu_seconds=_sum([part.pooler_cpu_seconds for part in parts]),
        replica_cpu_seconds=_sum([part.replica_cpu_seconds for part in parts]),
        lag=lag,
        wal_bytes=None if (wal := _sum([part.wal_bytes for part in parts])) is None else int(wal),
        rss_bytes=last.rss_bytes,
        sizes=last.sizes,
        tables=last.tables,
        events=seen,
        disk=_disk([part.disk for part in parts]),
        of_processes=any(part.of_processes for part in parts),
        sampler_cpu_seconds=_sum([part.sampler_cpu_seconds for part in parts]),
        observe_seconds=sum(part.observe_seconds for part in parts),
        waits=merged([part.waits for part in parts if part.waits is not None]),
        load=added(part.load for part in parts),
        waited_seconds=_sum([part.waited_seconds for part in parts]),
        judged_load=_judged_load([part.judged_load for part in parts]),
    )


def _judged_load(parts: Sequence[JudgedLoad | None]) -> JudgedLoad | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    summed = ("temp_bytes", "replayed_bytes", "redo_seconds", "sync_seconds")
    sums: dict[str, Any] = {name: _sum([getattr(part, name) for part in known]) for name in summed}
    workers = [part.parallel_workers for part in known if part.parallel_workers is not None]
    return JudgedLoad(
        executions=sum(part.executions for part in known), parallel_workers=max(workers, default=None), **sums
    )


def _moved(event: LogEvent, by: float) -> LogEvent:
    until = None if event.until is None else event.until + by
    return structs.replace(event, second=event.second + by, until=until)


def _sum(values: Sequence[float | int | None]) -> float | None:
    """Returns the sum; None if any value is not known: a part of a sum is no sum."""
    known = [v for v in values if v is not None]
    return sum(known) if len(known) == len(values) else None


def _disk(parts: Sequence[Json | None]) -> Json | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return {name: _sum([part.get(name) for part in known]) for name in known[0]}
