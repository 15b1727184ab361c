"""What a step cost: CPU by connection and role, the metric line of the field, cost per operation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pgstrata import numbers
from pgstrata.judge.costs import cost_pairs, cost_words
from pgstrata.judge.marks import Mark, relative_mark, verdict_mark
from pgstrata.page.blocks import Cell, Column, Row, Table, missing, words
from pgstrata.page.frames import Frames
from pgstrata.page.results import Repeats, RunSet, StepResults
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.metrics import MB, METRICS
from pgstrata.store.read import MeasuredStep

Keys = Sequence[tuple[str, str]]

SERVER = "server"

# Of these less is better; the others are rates of activity, neither good nor bad by themselves.
_LESS = {"rpq", "rkbpq", "wpi", "wkbpi", "cspq", "cpupq", "cpuo", "maxop", "maxany"}
_MORE = {"p50", "p99", "p50c", "p99c"}


def cpu_table(results: RunSet, step: StepResults, frames: Frames, keys: Keys) -> Table | None:
    """Returns a table of CPU seconds per connection by role, of the rest of the server, and of the driver;
    None without any."""
    roles = [
        r for r in step.role_names if any(_connections(p, step, r, frames) for p in step.by_variant.values())
    ]
    pooled = any(
        measured.record.pooler_cpu_seconds is not None
        for repeats in step.by_variant.values()
        for measured in repeats.repeats
    )
    replicated = any(
        measured.record.replica is not None
        for repeats in step.by_variant.values()
        for measured in repeats.repeats
    )
    if not roles and not pooled and not replicated:
        return None
    rows: list[Row] = []
    for variant in results.variants:
        repeats = step.by_variant.get(variant)
        if repeats is None:
            continue
        cells = [words(variant)]
        for role in roles:
            cells.append(_spread(_connections(repeats, step, role, frames)))
        cells.append(_spread(_connections(repeats, step, SERVER, frames)))
        server = repeats.median(lambda m: m.record.server_cpu_seconds)
        if pooled:
            pooler = repeats.median(lambda m: m.record.pooler_cpu_seconds)
            cells.append(missing("no pooler") if pooler is None else _figure(pooler))
        if replicated:
            replica = repeats.median(lambda m: m.record.replica.cpu_seconds if m.record.replica else None)
            cells.append(missing("none beside it") if replica is None else _figure(replica))
        driver = repeats.median(lambda m: m.record.driver_cpu_seconds)
        cells += [_figure(server), _figure(driver)]
        share = driver / server if driver is not None and server else None
        cells.append(
            missing("not observed") if share is None else Cell(share * 100, numbers.significant(share * 100))
        )
        peak = repeats.median(lambda m: m.record.driver_peak_rss_bytes / MB)
        cells.append(_figure(peak))
        rows.append(Row(cells, variant=variant))
    return Table(
        name="cpu",
        title="CPU by connection — less is better at the same rate",
        columns=[
            Column("variant", "Variant", align="left"),
            *(Column(role, role, "s per connection") for role in roles),
            Column("other", "Other processes", "s"),
            *([Column("pooler", "Pooler", "s", rule=True)] if pooled else []),
            *([Column("replica", "Replica", "s", rule=True)] if replicated else []),
            Column("server", "Server, all", "s", rule=True),
            Column("driver", "Driver", "s"),
            Column("driver_share", "Driver ÷ server", "%"),
            Column("driver_memory", "Driver, memory", "MB"),
        ],
        rows=rows,
        keys=keys,
        how="CPU seconds that the server's process of each connection used during the step, averaged "
        "over the connections of a role (with the smallest and the largest below it where they differ). "
        "Other processes are checkpointer, writers, autovacuum and the rest. The driver's own CPU "
        "stands beside it: where it is not small against the server's, the measuring itself takes part "
        "in the result. Its memory is the most that it held."
        + (" Behind a pooler the backends are among the other processes." if pooled else ""),
    )


def _connections(repeats: Repeats, step: StepResults, role: str, frames: Frames) -> list[float]:
    """Returns the CPU seconds of each connection of a role, over all repeats."""
    return [
        seconds
        for measured in repeats.repeats
        for seconds in frames.backends.get((measured.run.run_id, step.name, role), ())
    ]


def _spread(values: Sequence[float]) -> Cell:
    if not values:
        return missing("not observed")
    mean = sum(values) / len(values)
    low, high = numbers.significant(min(values)), numbers.significant(max(values))
    return Cell(mean, numbers.significant(mean), small=f"{low} – {high}" if low != high else "")


def metric_tables(results: RunSet, step: StepResults, keys: Keys) -> list[Table]:
    """Returns tables of the field's usual metrics, absolute, and relative to the base where there is one."""
    metrics = {
        variant: {name: _metric(repeats, name) for name in METRICS}
        for variant in results.variants
        if (repeats := step.by_variant.get(variant)) is not None
    }
    seen = [name for name in METRICS if any(values[name] is not None for values in metrics.values())]
    if not seen:
        return []
    columns = [Column("variant", "Variant", align="left")]
    columns += [Column(METRICS[n][0], METRICS[n][0], hint=METRICS[n][1]) for n in seen]
    rows = [
        Row([words(v), *(_figure(values[name]) for name in seen)], variant=v) for v, values in metrics.items()
    ]
    tables = [
        Table(
            name="metrics",
            title="What it cost: the metric line of the field",
            columns=columns,
            rows=rows,
            keys=keys,
            how=f"The names are the field's. {_names(seen)}. Figures of CPU and disks are of the whole "
            "host over the step. With several repeats each figure is their median. Each is of a variant by "
            "itself: where variants took turns, the table of rates has those that belong to the ratios.",
        )
    ]
    if results.base in metrics and len(metrics) > 1:
        tables.append(_relative_metrics(results, step, metrics, seen, keys))
    return tables


def _names(seen: Sequence[str]) -> str:
    return "; ".join(f"{METRICS[name][0]}: {METRICS[name][1]}" for name in seen)


def _metric(repeats: Repeats, name: str) -> float | None:
    return repeats.median(partial(_of_one, name))


def _of_one(name: str, measured: MeasuredStep) -> float | None:
    value: float | None = getattr(measured.record.metrics, name)
    return value


def _figure(value: float | None) -> Cell:
    return missing("not observed") if value is None else Cell(value, numbers.significant(value))


def _relative_metrics(
    results: RunSet,
    step: StepResults,
    metrics: dict[str, dict[str, float | None]],
    seen: Sequence[str],
    keys: Keys,
) -> Table:
    base = metrics[results.base]
    proven = {} if results.by_thresholds else _proven(results, step, seen)
    rows: list[Row] = []
    for variant, values in metrics.items():
        if variant == results.base:
            continue
        cells = [words(variant)]
        for name in seen:
            value, reference = values[name], base[name]
            if value is None or not reference:
                cells.append(Cell(None, numbers.UNKNOWN, "missing", "the base has none, or it is 0"))
                continue
            ratio = value / reference
            mark = (
                _cost_mark(name, ratio, results.thresholds)
                if results.by_thresholds
                else proven.get((variant, name), "")
            )
            cells.append(Cell(ratio, numbers.ratio(ratio), mark))
        rows.append(Row(cells, variant=variant))
    columns = [Column("variant", "Variant", align="left")]
    columns += [
        Column(METRICS[n][0].split(" ")[0] if n == "cpupq" else METRICS[n][0], METRICS[n][0]) for n in seen
    ]
    return Table(
        name="metrics-relative",
        title=f"What it cost, relative to {results.base}",
        columns=columns,
        rows=rows,
        keys=keys,
        how="The same figures divided by the base's. Costs per operation (r/q, rKB/q, w/i, wKB/i, cs/q, "
        "cpu µs/q, cpu/o) and the longest responses are better below 1, the rates p50 and p99 above. The "
        "others say how busy the host was and are not coloured. Read across: a rate that fell while cpu µs/q "
        "rose was lost to CPU; one that fell while r/q or w/i rose, to I/O."
        + (
            ""
            if results.by_thresholds
            else " A colour means proven over the repeats; without them there is none."
        ),
        legend=(
            ("bad", "worse than the base beyond the threshold" if results.by_thresholds else "proven worse"),
            (
                "good",
                "better than the base beyond the threshold" if results.by_thresholds else "proven better",
            ),
        ),
    )


def _proven(results: RunSet, step: StepResults, seen: Sequence[str]) -> dict[tuple[str, str], Mark]:
    """Returns the colours of proven differences; figures that are neither good nor bad have none."""
    base, pairs = step.by_variant[results.base], {}
    for variant in results.others:
        repeats = step.by_variant.get(variant)
        if repeats is None:
            continue
        for name in (n for n in seen if n in _LESS | _MORE):
            before, after = cost_pairs(base.repeats, repeats.repeats, partial(_of_one, name))
            pairs[variant, name] = (before, after) if name in _LESS else (after, before)
    marks = {key: verdict_mark(word) for key, word in cost_words(pairs, Criterion(results.margin)).items()}
    return {key: mark for key, mark in marks.items() if mark in ("good", "bad")}


def _cost_mark(name: str, ratio: float, thresholds: tuple[float, float]) -> Mark:
    if name in _MORE:
        return relative_mark(ratio, thresholds)
    if name in _LESS:
        return relative_mark(1 / ratio, thresholds) if ratio else "good"
    return ""
