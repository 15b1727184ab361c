"""What each machine says by itself, and all of them together."""

from __future__ import annotations

from pgstrata import numbers
from pgstrata.judge.compare import StepVerdict
from pgstrata.judge.marks import verdict_mark
from pgstrata.page.blocks import Block, Cell, Column, Prose, Row, Section, Table, missing, words
from pgstrata.page.results import RunSet, WorkloadResults
from pgstrata.stats.verdict import is_bounded
from pgstrata.store.record import MachineRecord

_HOW = (
    "Each machine compares its own runs: rates of different machines are never divided by each other. The "
    "number is the relative rate there, with its own 95 % interval below. The last columns are of all "
    "machines together, by a random-effects model: the mean of what machines in general would say, its "
    "interval, and by how much the true difference varies from machine to machine (standard deviation)."
)


def machines(results: RunSet) -> Section | None:
    """Returns the section about machines; None if everything was measured on one machine."""
    several = [workload for workload in results.workloads if len(workload.machines) > 1]
    if not several:
        return None
    blocks: list[Block] = []
    if trial := sorted({r.machine for r in results.runs if r.record.machine and r.record.machine.trial}):
        blocks.append(
            Prose(
                f"Workers of one host that pass for machines, to try a fleet: {', '.join(trial)}. They share "
                "its CPUs and its disk, and say nothing of machines.",
                "bad",
            )
        )
    blocks += [table for workload in several if (table := _verdicts(results, workload)) is not None]
    blocks += [
        Prose(
            f"Of {workload.name} the rates, seconds and costs in the rest of this report are those of "
            f"{workload.machines[0]}, which has the most runs.",
            "even",
        )
        for workload in several
    ]
    blocks.append(_table(results))
    return Section("machines", "Machines", blocks)


def _verdicts(results: RunSet, workload: WorkloadResults) -> Table | None:
    rows = []
    names = sorted(workload.machines)
    for step in workload.compared:
        for variant in results.others:
            step_verdict = results.verdict(step, variant)
            if step_verdict is not None and step_verdict.across is not None:
                rows.append(
                    Row([words(step.name), words(variant), *_cells(step_verdict, names)], variant=variant)
                )
    if not rows:
        return None
    columns = [
        Column("step", "Step", align="left"),
        Column("variant", "Variant", align="left"),
        *(Column(f"on_{name}", name, rule=not number) for number, name in enumerate(names)),
        Column("all", "all", rule=True),
        Column("between", "machines differ by", "%"),
        Column("verdict", "Verdict", align="left"),
    ]
    return Table(
        name="machines-verdicts",
        title=f"By machine: {workload.name} against {results.base} — above 1 is better",
        columns=columns,
        rows=rows,
        how=_HOW,
        keys=(("workload", workload.name),),
        legend=(("bad", "proven slower"), ("same", "proven the same"), ("good", "proven faster")),
    )


def _cells(step_verdict: StepVerdict, names: list[str]) -> list[Cell]:
    assert step_verdict.across is not None
    there = {machine_verdict.machine: machine_verdict for machine_verdict in step_verdict.across.machines}
    cells = []
    for name in names:
        machine_verdict = there.get(name)
        if machine_verdict is None:
            cells.append(missing())
        else:
            cells.append(
                Cell(
                    machine_verdict.ratio,
                    numbers.ratio(machine_verdict.ratio),
                    verdict_mark(machine_verdict.word),
                    f"{machine_verdict.word}, {machine_verdict.n} pairs",
                    small=_reach(machine_verdict.low, machine_verdict.high),
                )
            )
    v, between = step_verdict.verdict, step_verdict.across.between
    return [
        *cells,
        Cell(v.ratio, numbers.ratio(v.ratio), verdict_mark(v.word), v.reason, small=_reach(v.low, v.high)),
        Cell(
            None if between is None else between * 100,
            numbers.UNKNOWN if between is None else f"{between * 100:.1f}",
        ),
        words(step_verdict.across.summary(v).replace(" ", "\u00a0")),
    ]


def _reach(low: float, high: float) -> str:
    known = is_bounded(low, high)
    return f"{numbers.ratio(low)} – {numbers.ratio(high)}" if known else "no interval"


def _table(results: RunSet) -> Table:
    """Returns a table of the machines and the results of their qualification."""
    records: dict[str, MachineRecord | None] = {}
    for run in results.runs:
        records[run.machine] = run.record.machine or records.get(run.machine)
    rows = []
    for name, record in sorted(records.items()):
        runs = [run for run in results.runs if run.machine == name]
        q = record.qualification if record is not None else None
        again = sum(run.record.machine is not None and run.record.machine.attempt > 1 for run in runs)
        rows.append(
            Row(
                [
                    words(name or "unnamed"),
                    words(
                        record.kind if record is not None else runs[0].record.host.cpu_model or "not known"
                    ),
                    Cell(len(runs), numbers.count(len(runs))),
                    Cell(again, numbers.count(again)),
                    Cell(
                        None if q is None or q.seen is None else q.seen * 100,
                        numbers.UNKNOWN if q is None or q.seen is None else f"{q.seen * 100:.2g}",
                    ),
                    words(numbers.moment(q.at) if q is not None else numbers.UNKNOWN),
                    words("; ".join(q.doubts) if q is not None and q.doubts else ""),
                ]
            )
        )
    return Table(
        name="machines",
        title="The machines",
        columns=[
            Column("machine", "Machine", align="left"),
            Column("kind", "Kind", align="left"),
            Column("runs", "Runs finished"),
            Column("again", "of them begun again"),
            Column("seen", "sees a slowdown of", "%"),
            Column("qualified", "Qualified", align="left"),
            Column("doubts", "What doctor calls bad there", align="left"),
        ],
        rows=rows,
        how="Before its first comparison each machine measured the base against itself: the smallest "
        "slowdown that it would show in the time of a step.",
    )


__all__ = ["machines"]
