"""New orders and transactions per minute, response times by kind of transaction, and what was checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgstrata import numbers
from pgstrata.page.blocks import Block, Cell, Column, Row, Section, Table, missing, words
from pgstrata.page.results import RunSet, StepResults, WorkloadResults, anchor
from pgstrata.store.read import MeasuredStep
from pgstrata.store.record import LatencyRecord, RoleRecord
from pgstrata.tproc_c.rules import WEIGHTS
from pgstrata.workload.pgbench.report import scaling

NEW_ORDER = "new-order"

_LATENCIES = ("mean", "p50", "p95", "p99", "max")


def tproc_c(results: RunSet, workload: WorkloadResults) -> Section | None:
    """Returns the report's section of the workload; None if no step was measured."""
    steps = workload.compared
    if not steps:
        return None
    tables = (_rates(results, workload, steps), _kinds(results, workload, steps))
    blocks: list[Block] = [table for table in tables if table is not None]
    by_clients = scaling(results, workload)
    return Section(
        anchor("tproc-c", workload.name),
        f"New orders and transactions ({workload.name})",
        [*blocks, *(by_clients.blocks if by_clients is not None else [])],
    )


def new_orders(measured: MeasuredStep) -> int | None:
    """Returns how many new orders a step has placed, without those that were rolled back as the specification
    has it; None where it has no new orders."""
    role = measured.record.headline
    named = {statement.name: statement for statement in role.statements_by_name}
    call, commit = named.get(NEW_ORDER), named.get(f"{NEW_ORDER}: commit")
    if call is not None:
        return call.rows
    return None if commit is None else commit.count - commit.errors


def nopm(measured: MeasuredStep) -> float | None:
    """Returns new orders per minute: those of a step by its transactions, at its rate."""
    orders, record = new_orders(measured), measured.record
    if orders is None or not record.operations or record.rate is None:
        return None
    return record.rate * orders / record.operations


def kinds(role: RoleRecord, step: str) -> Mapping[str, tuple[int, LatencyRecord]]:
    """Returns transactions and their response times by kind. step: its name, which begins with the kind where
    there is one only."""
    if not role.scripts:
        only = (kind for kind in WEIGHTS if step.startswith(kind))
        return dict.fromkeys(only, (role.transactions, role.latency))
    return {name: (script.transactions, script.latency) for name, script in role.scripts.items()}


def _rates(results: RunSet, workload: WorkloadResults, steps: tuple[StepResults, ...]) -> Table | None:
    rows = []
    for step in steps:
        for variant in results.variants:
            repeats, rate = step.by_variant.get(variant), results.rate(step, variant)
            if repeats is None or rate is None:
                continue
            measured = repeats.typical
            orders = nopm(measured)
            # The share of new orders is that of the typical repeat, the rate that of the verdict.
            share = None if orders is None or not measured.rate else orders / measured.rate
            checked = _checked(measured)
            rows.append(
                Row(
                    [
                        words(step.name),
                        words(variant),
                        missing("no new orders") if share is None else _rate(rate * share),
                        _rate(rate),
                        Cell(
                            measured.record.headline.retries, numbers.count(measured.record.headline.retries)
                        ),
                        words(_conditions(checked)),
                        _empty(checked),
                    ],
                    variant=variant,
                )
            )
    if not rows:
        return None
    return Table(
        name="tproc-c",
        title=f"New orders and transactions per minute: {workload.name}",
        columns=[
            Column("step", "Step", align="left"),
            Column("variant", "Variant", align="left"),
            Column("nopm", "NOPM", "/min"),
            Column("tpm", "TPM", "/min"),
            Column("retries", "Retries"),
            Column("conditions", "Conditions held", align="left", rule=True),
            Column("empty", "Empty districts"),
        ],
        rows=rows,
        keys=(("workload", workload.name),),
        how="NOPM are the new orders that were committed, TPM all transactions, those included that the "
        "specification rolls back. They are no TPC result. Conditions are the consistency conditions of the "
        "specification, by number, checked after the step. An empty district has no order left to deliver: "
        "deliveries alone find nothing there, and are cheaper than they should be.",
    )


def _kinds(results: RunSet, workload: WorkloadResults, steps: tuple[StepResults, ...]) -> Table | None:
    rows = []
    for step in steps:
        for kind in WEIGHTS:
            for variant in results.variants:
                repeats = step.by_variant.get(variant)
                figures = (
                    None if repeats is None else kinds(repeats.typical.record.headline, step.name).get(kind)
                )
                if repeats is None or figures is None:
                    continue
                count, latency = figures
                share = count / (repeats.typical.record.headline.transactions or 1)
                times = [getattr(latency, name) for name in _LATENCIES]
                rows.append(
                    Row(
                        [
                            words(step.name),
                            words(kind),
                            words(variant),
                            Cell(count, numbers.count(count)),
                            Cell(share * 100, numbers.percent(share)),
                            *(
                                Cell(None if time is None else time * 1e3, numbers.milliseconds(time))
                                for time in times
                            ),
                        ],
                        variant=variant,
                    )
                )
    if not rows:
        return None
    return Table(
        name="tproc-c-transactions",
        title=f"Response times by kind of transaction, ms — less is better: {workload.name}",
        columns=[
            Column("step", "Step", align="left"),
            Column("transaction", "Transaction", align="left"),
            Column("variant", "Variant", align="left"),
            Column("count", "Count"),
            Column("share", "Share", "%"),
            *(Column(name, name, "ms", rule=name == "mean") for name in _LATENCIES),
        ],
        rows=rows,
        keys=(("workload", workload.name),),
        how="Whole transactions, seen by the client. With several repeats they are those of the one whose "
        "rate is in the middle.",
    )


def _rate(value: float) -> Cell:
    return Cell(value, numbers.rate(value))


def _checked(measured: MeasuredStep) -> Mapping[str, Any]:
    """Returns what was found out after a step; nothing of steps that were not checked."""
    facts = measured.run.record.facts.get("tproc_c", {})
    checked: Mapping[str, Any] = facts.get(measured.record.name, {})
    return checked


def _conditions(checked: Mapping[str, Any]) -> str:
    held = checked.get("conditions")
    return ", ".join(map(str, held)) if held else "not checked"


def _empty(checked: Mapping[str, Any]) -> Cell:
    empty = checked.get("districts_without_new_orders")
    if empty is None:
        return missing("not checked")
    return Cell(empty, numbers.count(empty), "bad" if empty else "")


__all__ = ["kinds", "new_orders", "nopm", "tproc_c"]
