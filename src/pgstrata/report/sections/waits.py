"""What the server's processes waited for: share of time per event and role, a column per variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

from pgstrata import numbers
from pgstrata.page.blocks import Cell, Column, Row, Table, missing, words
from pgstrata.page.results import RunSet, StepResults, WorkloadResults
from pgstrata.store.record import StepRecord

# What is seen less often than this under every variant is left out.
LEAST = 0.01
_IDLE = "activity:"  # background processes that have nothing to do

Shares = dict[str, dict[str, dict[str, float]]]  # role → event → variant → share


def wait_tables(results: RunSet, workload: WorkloadResults) -> list[Table]:
    """Returns a table for each step in which wait events were sampled."""
    return [table for step in workload.compared if (table := _table(results, workload, step))]


def _table(results: RunSet, workload: WorkloadResults, step: StepResults) -> Table | None:
    sampled = {
        v: [m.record for m in repeats.repeats if m.record.waits is not None]
        for v, repeats in step.by_variant.items()
    }
    variants = [v for v in results.variants if sampled.get(v)]
    if not variants:
        return None
    rows: list[Row] = []
    for role, events in _shares(sampled).items():
        shown = [
            (max(by_variant.values()), name, by_variant)
            for name, by_variant in events.items()
            if max(by_variant.values()) >= LEAST and not name.casefold().startswith(_IDLE)
        ]
        for index, (_, name, by_variant) in enumerate(sorted(shown, key=lambda e: (-e[0], e[1]))):
            cells = [words(role), words(name)]
            for variant in variants:
                cells.append(_cell(by_variant.get(variant, 0.0)))
            rows.append(Row(cells, "next" if index else ""))
    if not rows:
        return None
    return Table(
        name="waits",
        title=f"{step.name}: what the connections waited for, % of their time",
        columns=[
            Column("role", "Role", align="left"),
            Column("event", "Wait event", align="left"),
            *(Column(variant, variant, "%") for variant in variants),
        ],
        rows=rows,
        how="The state of every connection was asked for at random moments of an interval; a share is the "
        "part of a role's samples that found it so. running: not waiting, on a CPU or ready for one. "
        "Client: ClientRead is the server waiting for the driver. `server` are the processes that no role "
        f"owns; what they do when idle, and what was seen less than {LEAST:.0%}, is left out. With several "
        "repeats each figure is their mean.",
        keys=(("workload", workload.name), ("step", step.name)),
        lead=2,
        notes=[note for note in (_cost([m for v in variants for m in sampled[v]]),) if note],
    )


def _shares(sampled: Mapping[str, Sequence[StepRecord]]) -> Shares:
    """Returns the means over the repeats; events whose names differ only in case (17 respelt many) are
    one."""
    shares: Shares = {}
    names: dict[str, str] = {}
    for variant, repeats in sampled.items():
        for record in repeats:
            for role, events in (record.waits or {}).items():
                for name, share in events.items():
                    known = names.setdefault(name.casefold(), name)
                    by_variant = shares.setdefault(role, {}).setdefault(known, {})
                    by_variant[variant] = by_variant.get(variant, 0.0) + share / len(repeats)
    return shares


def _cell(share: float) -> Cell:
    if share < 0:
        return missing()
    return Cell(share * 100, numbers.significant(share * 100), shade=min(1.0, share))


def _cost(sampled: Sequence[StepRecord]) -> str:
    """Returns a sentence on the cost of the sampling itself."""
    costs = []
    for record in sampled:
        cost, seconds = record.waits_cost, record.seconds
        if cost is not None and seconds:
            backend = cost.backend_cpu_seconds or 0.0
            costs.append((cost.polls / seconds, cost.sampler_cpu_seconds / seconds, backend / seconds))
    if not costs:
        return ""
    hertz, sampler, backend = (mean(column) for column in zip(*costs, strict=True))
    return (
        f"Sampled {numbers.significant(hertz)} times a second, which took {numbers.milliseconds(sampler)} ms "
        f"of CPU per second in pgstrata and {numbers.milliseconds(backend)} ms in the server."
    )
